"""Processes of pods, seen from the machine that runs the node: found by their pod's uid, killed,
frozen, and told another time.
"""

import os
import signal
import struct
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

SHIM = Path(__file__).with_name("clock.c")
CLOCK_FOLDER = "/clock"
"""In a pod: the shim's library, and the file it reads."""
CLOCK_FILE = f"{CLOCK_FOLDER}/off"


def of_pod(uid: str) -> list[psutil.Process]:
    """All processes in a pod but those that hold it together: ``pause`` and ``tini``."""
    found = []
    for process in psutil.process_iter(["name"]):
        with suppress(OSError):
            if uid in Path(f"/proc/{process.pid}/cgroup").read_text() and process.info[
                "name"
            ] not in ("pause", "tini"):
                found.append(process)
    return found


def jvms(uid: str) -> list[psutil.Process]:
    """The JVM of a driver or of an executor."""
    return [process for process in of_pod(uid) if process.info["name"] == "java"]


def pythons(uid: str) -> list[psutil.Process]:
    """The Python of a driver; of an executor, the daemon and its workers."""
    return [process for process in of_pod(uid) if process.info["name"].startswith("python")]


def workers(uid: str) -> list[psutil.Process]:
    """The Python workers of an executor: children of its daemon, which is a child of the JVM."""
    daemons = {process.pid for process in pythons(uid)}
    return [process for process in pythons(uid) if _parent(process) in daemons]


def _parent(process: psutil.Process) -> int:
    with suppress(psutil.NoSuchProcess):
        return int(process.ppid())
    return 0


def kill(processes: Sequence[psutil.Process]) -> int:
    """SIGKILL; how many there still were."""
    return sum(_sent(process.pid, signal.SIGKILL) for process in processes)


@contextmanager
def frozen(processes: Sequence[psutil.Process]) -> Iterator[int]:
    """SIGSTOP, and SIGCONT when the block ends, to those that are still the same ones; how many
    were stopped.
    """
    stopped = [process for process in processes if _sent(process.pid, signal.SIGSTOP)]
    try:
        yield len(stopped)
    finally:
        for process in stopped:
            if process.is_running():
                _sent(process.pid, signal.SIGCONT)


def set_clock(uid: str, seconds: int) -> int:
    """Let the processes of a pod read a time that is off by so much; how many do."""
    said = 0
    for process in of_pod(uid):
        file = Path(f"/proc/{process.pid}/root{CLOCK_FILE}")
        with suppress(OSError), file.open("r+b") as clock:
            clock.write(struct.pack("<q", seconds))
            said += 1
    return said


def shim(folder: Path) -> bytes:
    """The library that makes wrong clocks, compiled.

    Raises:
        OSError: there is no C compiler, or it does not like this.
    """
    library = folder / "clock.so"
    argv = ["cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(SHIM)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(done.stderr)
    return library.read_bytes()


def _sent(pid: int, number: signal.Signals) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
