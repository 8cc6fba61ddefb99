"""Runs the requests of ``hdfs-native``, each with a deadline.

A name node that is stopped, or a connection that a firewall forgot, answers nothing, and the client
would wait for ever. So its asynchronous form is used, on an event loop in a thread of its own.
"""

import asyncio
import functools
import os
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from landfall.api import spec

Value = TypeVar("Value")
FIRST_PAUSE = 0.2
"""Seconds before the second attempt; the pause doubles with each one."""
LONGEST_PAUSE = 5.0


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
        """The result of a request, which is repeated as often as the settings say if it fails.

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


@functools.cache
def _loop(process: int) -> asyncio.AbstractEventLoop:
    """The event loop of this process: a fork has the object, but not the thread that runs it."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name=f"hdfs-{process}", daemon=True).start()
    return loop
