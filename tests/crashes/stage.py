"""Threads of which only one goes at a time, so that a seed decides the order of everything.

The driver's pools and queues are replaced by ones that live here (``staged``). Whoever comes to a
call of the store or the log, waits for a queue or ends, hands the baton on: ``Stage.direct`` says
to whom. Nothing else lets another thread go, so the same choices give the same run, and whatever
can happen between two calls of one driver is a matter of choosing well.
"""

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Self

from landfall import lane
from landfall.cli import group_store
from landfall.driver import completer, handover, housekeeping, in_flight, loop


class Killed(BaseException):
    """What SIGKILL is to a process: nothing catches it, and no call it makes afterwards has an
    effect.
    """


class Owner:
    """A process: a driver with all its threads.

    Attributes:
        name: for people.
        dead: killed; every thread of it ends at its next step.
        frozen: stopped (SIGSTOP); it may be let go again.
    """

    def __init__(self, name: str) -> None:
        self.name, self.dead, self.frozen = name, False, False


class Task:
    """A thread's work.

    Attributes:
        owner: whose it is.
        what: it does, for people.
        idle: it waits with a time limit: it goes on when nobody else can, too.
        ready: whether what it waits for is there.
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


class Stage:
    """Who goes next.

    Args:
        choose: which task goes next, of those that can go now; None when it is over.
    """

    current: "Stage"

    def __init__(self, choose: Callable[[list[Task]], Task | None]) -> None:
        self._choose = choose
        self.tasks: list[Task] = []
        self.me: Task = Task(Owner("test"), "watch", lambda: None)
        self._over = threading.Lock()
        self._over.acquire()
        self._broken: BaseException | None = None

    def spawn(self, owner: Owner, what: str, work: Callable[[], object]) -> Task:
        """Let a thread begin when it is chosen."""
        task = Task(owner, what, work)
        self.tasks.append(task)
        return task

    def play(self) -> None:
        """Let threads go until nobody is chosen any more."""
        first = self._next()
        if first:
            self._pass_to(first)
            self._over.acquire()
        if self._broken:
            raise self._broken

    def step(self) -> None:
        """Called by a thread between two steps: others may go first. Raises Killed if it was killed
        meanwhile.
        """
        me = self.me
        if me.owner.dead:
            raise Killed
        following = self._next()
        if following is not me:
            if following:
                self._pass_to(following)
            else:
                self._over.release()
            me.baton.acquire()
            self.me = me
        if me.owner.dead:
            raise Killed

    def wait(self, ready: Callable[[], bool], *, idle: bool = False) -> None:
        """Until this holds; idly, until nobody else has anything to do."""
        self.me.ready, self.me.idle = ready, idle
        try:
            self.step()
        finally:
            self.me.ready, self.me.idle = _always, False

    def _next(self) -> Task | None:
        try:
            return self._choose([t for t in self.tasks if t.owner.dead or t.idle or t.ready()])
        except BaseException as error:  # noqa: BLE001  # it is the test's, whoever's thread it came up in
            self._broken = error
            return None

    def _pass_to(self, task: Task) -> None:
        self.me = task
        if task.begun:
            task.baton.release()
        else:
            task.begun = True
            _hands.do(lambda: self._run(task))

    def _run(self, task: Task) -> None:
        self.me = task
        try:
            if not task.owner.dead:
                task.work()
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001  # as above
            self._broken = error
        self.tasks.remove(task)
        following = None if self._broken else self._next()
        if following:
            self._pass_to(following)
        else:
            self._over.release()


class _Hands:
    """Threads to use again: making one costs more than all it does here."""

    def __init__(self) -> None:
        self._idle: deque[queue.SimpleQueue[Callable[[], None]]] = deque()

    def do(self, work: Callable[[], None]) -> None:
        if self._idle:
            self._idle.pop().put(work)
        else:
            inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
            inbox.put(work)
            threading.Thread(target=self._live, args=(inbox,), daemon=True).start()

    def _live(self, inbox: "queue.SimpleQueue[Callable[[], None]]") -> None:
        while True:
            inbox.get()()
            self._idle.append(inbox)


_hands = _Hands()


class Pool:
    """A ``ThreadPoolExecutor`` on the stage."""

    def __init__(self, _: int = 1, thread_name_prefix: str = "pool") -> None:
        self._what, self._tasks = thread_name_prefix, list[tuple[Task, Future[Any]]]()

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        stage, future = Stage.current, Future[Any]()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = work(*arguments)
            except Killed:
                raise
            except BaseException as error:  # noqa: BLE001  # a future's business
                future.set_exception(error)
            else:
                future.set_result(result)

        self._tasks.append((stage.spawn(stage.me.owner, self._what, run), future))
        return future

    def map(self, work: Callable[..., Any], *items: Iterable[Any]) -> Iterator[Any]:
        return map(work, *items)

    def shutdown(self, wait: bool = True, cancel_futures: bool = False) -> None:
        if cancel_futures:
            for task, future in self._tasks:
                if not task.begun:
                    future.cancel()
        if wait and not Stage.current.me.owner.dead:
            Stage.current.wait(lambda: all(future.done() for _, future in self._tasks))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Queue:
    """A ``queue.SimpleQueue`` on the stage."""

    def __init__(self) -> None:
        self._items: deque[Any] = deque()

    def put(self, item: Any) -> None:
        self._items.append(item)

    def get(self, timeout: float | None = None) -> Any:  # noqa: ARG002  # as many looks as it takes
        Stage.current.wait(lambda: bool(self._items), idle=True)
        return self.get_nowait()

    def get_nowait(self) -> Any:
        if not self._items:
            raise queue.Empty
        return self._items.popleft()


@contextmanager
def staged() -> Iterator[None]:
    """Let the product's loop run on a stage: its pools and queues are those above."""
    pools = (lane, completer, housekeeping, in_flight, handover, group_store)
    queues = (loop, handover)
    before: list[tuple[Any, str, Any]] = [
        (module, "ThreadPoolExecutor", module.ThreadPoolExecutor) for module in pools
    ]
    before += [(module, "queue", module.queue) for module in queues]
    for module in pools:
        module.ThreadPoolExecutor = Pool  # type: ignore[attr-defined]  # as above
    for module in queues:
        module.queue = SimpleNamespace(SimpleQueue=Queue, Empty=queue.Empty)  # type: ignore[attr-defined]  # as above
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)
