"""CPU seconds and memory of this process and everything below it, the servers left out.

It serves a warm Spark session, whose Python workers are reused and so are alive when they are
measured. A worker that ended would be missing, because PySpark's daemon never waits for its
children: ``process_tree`` measures whole runs.
"""

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil


@dataclass(frozen=True)
class Usage:
    """CPU seconds, user and system, by whether Java or Python spent them."""

    java: float
    python: float

    @property
    def total(self) -> float:
        return self.java + self.python

    def __sub__(self, before: "Usage") -> "Usage":
        return Usage(self.java - before.java, self.python - before.python)


def tree(without: Collection[int]) -> list[psutil.Process]:
    """This process and everything below it, except these processes and what is below them."""
    me = psutil.Process()
    left_out = set(without)
    for pid in without:
        if psutil.pid_exists(pid):
            left_out |= {child.pid for child in psutil.Process(pid).children(recursive=True)}
    return [
        process for process in (me, *me.children(recursive=True)) if process.pid not in left_out
    ]


def usage(without: Collection[int]) -> Usage:
    """What the tree has spent so far, ended processes included if their parents waited for them."""
    java = python = 0.0
    for process in tree(without):
        try:
            times, is_java = process.cpu_times(), "java" in process.name()
        except psutil.Error:
            continue
        spent = times.user + times.system
        if process.pid != psutil.Process().pid:
            spent += times.children_user + times.children_system
        java, python = (java + spent, python) if is_java else (java, python + spent)
    return Usage(java, python)


def forget_peaks(without: Collection[int]) -> None:
    """Let every process's peak of resident memory start anew."""
    for process in tree(without):
        with suppress(OSError):
            Path(f"/proc/{process.pid}/clear_refs").write_text("5")


def peaks(without: Collection[int]) -> tuple[int, int]:
    """Peak resident MB since then: of the largest Python worker, and of the whole tree (the sum of
    all peaks).
    """
    found = []
    for process in tree(without):
        with suppress(psutil.Error, OSError):  # one that just ended
            lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
            peak = next(
                (int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM")), 0
            )
            found.append((peak, "pyspark" in " ".join(process.cmdline())))
    return max((peak for peak, is_worker in found if is_worker), default=0), sum(
        peak for peak, _ in found
    )
