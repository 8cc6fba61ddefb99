"""A flood of files that is written while drivers are killed and frozen."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

from tests.support.files.flood import Flood
from tests.support.landing.processes import Process

FILES = int(os.environ.get("LANDFALL_FILES", "100000"))
SEED = int(os.environ.get("LANDFALL_SEED", "1"))
LEAST_HARMS = 6
SETTLE = "20s"
"""Longer than a file stands there half written, also on a busy machine."""


@contextmanager
def in_thread(flood: Flood, put: Callable[[str, bytes], None]) -> Iterator[threading.Thread]:
    """Write the files meanwhile."""
    failed: list[BaseException] = []

    def write() -> None:
        try:
            flood.write(put)
        except BaseException as error:
            failed.append(error)
            raise

    thread = threading.Thread(target=write)
    thread.start()
    yield thread
    thread.join()
    assert not failed, f"the files could not be written: {failed[0]}"


def harm(driver: Process, random: Random) -> Process | None:
    """Kill a driver, or freeze it: then it is returned, to be woken beside the next one."""
    if random.random() < 0.3:
        driver.send(signal.SIGSTOP)
        return driver
    driver.send(signal.SIGKILL)
    return None
