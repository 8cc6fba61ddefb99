"""Additional threads of the driver: pools for background work, and the notifier of the loop.

Both are arguments of the driver, so that the crash machine (``tests/crashes``) can run the same
code on a scheduler of its own, on which a seed decides which thread runs next.
"""

import queue
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from typing import Protocol


class Notifier(Protocol):
    """Wakes the one thread that waits on it."""

    def notify(self) -> None:
        """End the current wait, or the next one; from any thread or a signal handler."""
        ...

    def wait(self, timeout: timedelta) -> None:
        """Return once a notification has come since the last wait, or after ``timeout``."""
        ...


class Background(Protocol):
    """Makes what a driver needs to work on several threads."""

    def pool(self, threads: int, name: str) -> Executor:
        """Return a pool of at most this many threads; ``name`` begins the threads' names."""
        ...

    def notifier(self) -> Notifier:
        """Return a notifier without a notification."""
        ...


class Threads:
    """The real ``Background``: threads of this process."""

    def pool(self, threads: int, name: str) -> Executor:
        """See ``Background``."""
        return ThreadPoolExecutor(threads, thread_name_prefix=name)

    def notifier(self) -> Notifier:
        """See ``Background``."""
        return QueueNotifier()


class QueueNotifier:
    """The real ``Notifier``.

    ``threading.Event`` would deadlock: a signal handler runs on the main thread, which may hold the
    event's lock in ``wait`` at that moment. ``SimpleQueue.put`` is reentrant.
    """

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[None] = queue.SimpleQueue()

    def notify(self) -> None:
        """See ``Notifier``."""
        self._queue.put(None)

    def wait(self, timeout: timedelta) -> None:
        """See ``Notifier``; several notifications end one wait."""
        with suppress(queue.Empty):
            self._queue.get(timeout=timeout.total_seconds())
            while True:
                self._queue.get_nowait()
