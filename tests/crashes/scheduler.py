"""Threads of which only one runs at a time, so that a seed decides the order of everything.

A driver gets ``ScheduledBackground`` instead of real thread pools and notifiers. A thread that
comes to a call of the store or the log, waits for a notifier, or ends, passes control on, and the
scheduler's ``choose`` says to which thread. No other thread ever runs. So the same choices give the
same run, and whatever can happen between two calls of one driver is a matter of choosing well.
"""

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from datetime import timedelta
from typing import Any, Self


class Killed(BaseException):
    """What SIGKILL is to a process: nothing catches it, and its later calls have no effect."""


class Owner:
    """A process with all its threads.

    Attributes:
        name: for messages.
        dead: killed; each of its threads ends at its next step.
        frozen: stopped (SIGSTOP); it may continue later.
    """

    def __init__(self, name: str) -> None:
        self.name, self.dead, self.frozen = name, False, False


class Task:
    """What one thread does.

    Attributes:
        owner: the process it belongs to.
        what: it does, for messages.
        idle: it waits with a timeout, so it may continue even if it is not ready.
        ready: whether what it waits for has happened.
    """

    def __init__(self, owner: Owner, what: str, work: Callable[[], object]) -> None:
        self.owner, self.what, self.work = owner, what, work
        self.idle = False
        self.ready: Callable[[], bool] = _always
        self.begun = False
        self.baton = threading.Lock()
        self.baton.acquire()


def _always() -> bool:
    return True


class Scheduler:
    """Runs one thread at a time.

    Args:
        choose: which task runs next, of those that can run now; None ends ``play``.
    """

    def __init__(self, choose: Callable[[list[Task]], Task | None]) -> None:
        self._choose = choose
        self.tasks: list[Task] = []
        self.current: Task = Task(Owner("test"), "watch", lambda: None)
        self._over = threading.Lock()
        self._over.acquire()
        self._error: BaseException | None = None

    def spawn(self, owner: Owner, what: str, work: Callable[[], object]) -> Task:
        """Let a thread begin when it is chosen."""
        task = Task(owner, what, work)
        self.tasks.append(task)
        return task

    def play(self) -> None:
        """Let threads run until none is chosen any more."""
        first = self._next()
        if first:
            self._pass_to(first)
            self._over.acquire()
        if self._error:
            raise self._error

    def step(self) -> None:
        """Called by a thread between two steps: others may run first.

        Raises:
            Killed: its process was killed meanwhile.
        """
        me = self.current
        if me.owner.dead:
            raise Killed
        following = self._next()
        if following is not me:
            if following:
                self._pass_to(following)
            else:
                self._over.release()
            me.baton.acquire()
            self.current = me
        if me.owner.dead:
            raise Killed

    def wait(self, ready: Callable[[], bool], *, idle: bool = False) -> None:
        """Return when ``ready`` holds or, with ``idle``, when no other thread can run."""
        self.current.ready, self.current.idle = ready, idle
        try:
            self.step()
        finally:
            self.current.ready, self.current.idle = _always, False

    def _next(self) -> Task | None:
        try:
            return self._choose([t for t in self.tasks if t.owner.dead or t.idle or t.ready()])
        except BaseException as error:  # noqa: BLE001  # the test's error, on whichever thread it was raised
            self._error = error
            return None

    def _pass_to(self, task: Task) -> None:
        self.current = task
        if task.begun:
            task.baton.release()
        else:
            task.begun = True
            _threads.start(lambda: self._run(task))

    def _run(self, task: Task) -> None:
        self.current = task
        try:
            if not task.owner.dead:
                task.work()
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001  # as above
            self._error = error
        self.tasks.remove(task)
        following = None if self._error else self._next()
        if following:
            self._pass_to(following)
        else:
            self._over.release()


class _ReusedThreads:
    """Threads that are used again: starting one takes longer than all that it does here."""

    def __init__(self) -> None:
        self._idle: deque[queue.SimpleQueue[Callable[[], None]]] = deque()

    def start(self, work: Callable[[], None]) -> None:
        if self._idle:
            self._idle.pop().put(work)
        else:
            inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
            inbox.put(work)
            threading.Thread(target=self._work, args=(inbox,), daemon=True).start()

    def _work(self, inbox: "queue.SimpleQueue[Callable[[], None]]") -> None:
        while True:
            inbox.get()()
            self._idle.append(inbox)


_threads = _ReusedThreads()


class ScheduledBackground:
    """The driver's ``Background``, whose threads and waits belong to a scheduler."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def pool(self, threads: int = 1, name: str = "pool") -> Executor:
        return ScheduledPool(self._scheduler, name, is_single=threads == 1)

    def notifier(self) -> "ScheduledNotifier":
        return ScheduledNotifier(self._scheduler)


class ScheduledPool(Executor):
    """A pool whose work runs when the scheduler chooses it; ``map`` runs on the calling thread.

    Of a pool with a single thread, no work begins before what was submitted earlier has ended.
    """

    def __init__(self, scheduler: Scheduler, name: str, *, is_single: bool = False) -> None:
        self._scheduler, self._what, self._is_single = scheduler, name, is_single
        self._tasks = list[tuple[Task, Future[Any]]]()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = Future[Any]()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = fn(*args, **kwargs)
            except Killed:
                raise
            except BaseException as error:  # noqa: BLE001  # it belongs to whoever asks the future
                future.set_exception(error)
            else:
                future.set_result(result)

        task = self._scheduler.spawn(self._scheduler.current.owner, self._what, run)
        if self._is_single and self._tasks:
            task.ready = self._tasks[-1][1].done
        self._tasks.append((task, future))
        return future

    def map(self, fn: Callable[..., Any], *iterables: Iterable[Any], **_: Any) -> Iterator[Any]:
        return map(fn, *iterables)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if cancel_futures:
            for task, future in self._tasks:
                if not task.begun:
                    future.cancel()
        if wait and not self._scheduler.current.owner.dead:
            self._scheduler.wait(lambda: all(future.done() for _, future in self._tasks))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Without a wait: ``map`` has ended by now."""


class ScheduledNotifier:
    """A notifier whose wait ends when it was notified and the scheduler chooses it.

    The timeout has no length: the wait may also end when no other thread can run.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler, self._is_notified = scheduler, False

    def notify(self) -> None:
        self._is_notified = True

    def wait(self, _: timedelta) -> None:
        self._scheduler.wait(lambda: self._is_notified, idle=True)
        self._is_notified = False
