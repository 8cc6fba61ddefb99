"""The processes of pods, as the machine that runs the node sees them.

They are found by their pod's uid, killed, frozen, and given a wrong clock.
"""

import os
import signal
import struct
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

CLOCK_SOURCE = Path(__file__).with_name("clock.c")
CLOCK_FOLDER = "/clock"
"""Where a pod mounts the volume with the file below."""
CLOCK_FILE = f"{CLOCK_FOLDER}/offset"
"""The file from which the clock library reads its offset, one int64 of seconds."""
_INIT_PROCESSES = ("pause", "tini")


def of_pod(uid: str) -> list[psutil.Process]:
    """All processes of a pod but its init processes, ``pause`` and ``tini``."""
    found = []
    for process in psutil.process_iter(["name"]):
        # A process may end between the listing and the reading of its cgroup.
        with suppress(OSError):
            cgroup = Path(f"/proc/{process.pid}/cgroup").read_text()
            if uid in cgroup and process.info["name"] not in _INIT_PROCESSES:
                found.append(process)
    return found


def jvms(uid: str) -> list[psutil.Process]:
    """The JVM of a driver or of an executor."""
    return [process for process in of_pod(uid) if process.info["name"] == "java"]


def pythons(uid: str) -> list[psutil.Process]:
    """The Python process of a driver; of an executor, PySpark's daemon and its workers."""
    return [process for process in of_pod(uid) if process.info["name"].startswith("python")]


def workers(uid: str) -> list[psutil.Process]:
    """The Python workers of an executor: children of the daemon, which is a child of the JVM."""
    daemons = {process.pid for process in pythons(uid)}
    return [process for process in pythons(uid) if _parent(process) in daemons]


def _parent(process: psutil.Process) -> int:
    with suppress(psutil.NoSuchProcess):
        return int(process.ppid())
    return 0


def kill(processes: Sequence[psutil.Process]) -> int:
    """Send SIGKILL, and return how many of the processes still existed."""
    return sum(_send(process.pid, signal.SIGKILL) for process in processes)


@contextmanager
def frozen(processes: Sequence[psutil.Process]) -> Iterator[int]:
    """Stop processes while the block runs; yields how many were stopped."""
    stopped = [process for process in processes if _send(process.pid, signal.SIGSTOP)]
    try:
        yield len(stopped)
    finally:
        for process in stopped:
            # psutil compares start times: the process id may belong to another process by now.
            if process.is_running():
                _send(process.pid, signal.SIGCONT)


def set_clock(uid: str, seconds: int) -> int:
    """Set the clock offset of a pod's processes, and return how many processes it reached."""
    reached = 0
    for process in of_pod(uid):
        file = Path(f"/proc/{process.pid}/root{CLOCK_FILE}")
        with suppress(OSError), file.open("r+b") as clock:
            clock.write(struct.pack("<q", seconds))
            reached += 1
    return reached


def build_clock_library(folder: Path) -> bytes:
    """Compile the library that shifts the clocks of processes, and return it.

    Raises:
        OSError: there is no C compiler, or it fails.
    """
    library = folder / "clock.so"
    argv = ["cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(CLOCK_SOURCE)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(done.stderr)
    return library.read_bytes()


def _send(pid: int, number: signal.Signals) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
