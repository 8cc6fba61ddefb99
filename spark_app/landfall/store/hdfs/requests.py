"""Runs the requests of ``hdfs-native``, each with a deadline.

A name node that is stopped, or a connection that a firewall forgot, answers nothing, and the client
would wait for ever. So its asynchronous form is used, on an event loop in a thread of its own.
"""

import asyncio
import atexit
import functools
import os
import threading
import time
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar, TypeVarTuple

from landfall.api import spec

Value = TypeVar("Value")
Arguments = TypeVarTuple("Arguments")
FIRST_PAUSE = 0.2
"""Seconds before the second attempt; the pause doubles with each one."""
LONGEST_PAUSE = 5.0
EXIT_TIMEOUT = 5.0
"""Seconds that a process waits at its end for requests that have no answer."""


class Requests:
    """Runs requests, and repeats those whose repetition does no harm. Thread-safe."""

    def __init__(self, settings: spec.HdfsAccess) -> None:
        self._seconds = settings.read_timeout.total_seconds()
        self._attempts = settings.max_attempts
        self.count = 0
        """How many there were; about, if threads race."""

    def once(self, request: Coroutine[Any, Any, Value]) -> Value:
        """The result of a request.

        Raises:
            TimeoutError: there is none in time. It may have its effect later.
            OSError, RuntimeError: what the client raises.
        """
        self.count += 1
        future = asyncio.run_coroutine_threadsafe(request, _loop(os.getpid()))
        try:
            return future.result(self._seconds)
        except TimeoutError:
            future.cancel()
            raise TimeoutError(f"no answer within {self._seconds:g} s") from None

    def again(self, request: Callable[[], Coroutine[Any, Any, Value]]) -> Value:
        """The result of a request, which is repeated as often as the settings allow if it fails.

        Raises:
            FileNotFoundError, FileExistsError: an answer.
            OSError, RuntimeError: what the client raises at the last attempt.
        """
        pause = FIRST_PAUSE
        for _ in range(self._attempts - 1):
            try:
                return self.once(request())
            except (FileNotFoundError, FileExistsError):
                raise
            except OSError:
                time.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
        return self.once(request())


class _Loop(asyncio.SelectorEventLoop):
    """An event loop that knows whether a thread of the client is about to give it an answer."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._answering = 0

    def call_soon_threadsafe(
        self,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """As of every loop."""
        self._counts(1)
        try:
            return super().call_soon_threadsafe(callback, *args, context=context)
        finally:
            self._counts(-1)

    def _counts(self, change: int) -> None:
        with self._lock:
            self._answering += change

    def drain(self) -> None:
        """Wait until all that was asked is answered, and no thread of the client is in Python.

        Python aborts the process if it ends meanwhile.
        """
        deadline = time.monotonic() + EXIT_TIMEOUT
        while (asyncio.all_tasks(self) or self._answering) and time.monotonic() < deadline:
            time.sleep(0.001)


@functools.cache
def _loop(process: int) -> _Loop:
    """The event loop of this process: a fork has the object, but not the thread that runs it."""
    loop = _Loop()
    threading.Thread(target=loop.run_forever, name=f"hdfs-{process}", daemon=True).start()
    atexit.register(_drain, process)
    return loop


def _drain(process: int) -> None:
    if process == os.getpid():  # a fork has the hook, too
        _loop(process).drain()
