"""CPU seconds and peak memory of a command together with every process that it starts.

``os.wait4`` and ``getrusage(RUSAGE_CHILDREN)`` see only children that were waited for. PySpark's
daemon ignores SIGCHLD, so the kernel discards its workers without anybody waiting, and their CPU
seconds, most of what Landfall uses, reach no parent. A cgroup counts every process that was ever in
it, whoever waited for it. Where no cgroup can be made (not root, not Linux), the processes are
sampled instead: what a process uses after its last sample is lost, so that figure is a lower bound.
"""

import os
import subprocess
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from uuid import uuid4

import psutil

CPU_INTERVAL = 0.05
"""Seconds between two samples of CPU time, and between two checks whether the command has ended."""
MEMORY_INTERVAL = 0.5
"""Seconds between two samples of memory. Reading a JVM's takes milliseconds and delays it."""
STRAGGLER_SECONDS = 20
"""How long processes may outlive the command that started them before they are killed."""
_LOG_LINES = 30


@dataclass(frozen=True, slots=True)
class Measured:
    """What a command used, from its first process to the end of its last one.

    Attributes:
        cpu_seconds: user and system time of all processes.
        wall_seconds: until the command itself ended.
        peak_mb: the largest sum of the processes' memory (PSS: a page shared by n processes counts
            1/n for each), in MB.
    """

    cpu_seconds: float
    wall_seconds: float
    peak_mb: float


class Counter(Protocol):
    """Finds the processes of one command and counts their CPU time."""

    name: str

    def wrap(self, command: Sequence[str]) -> list[str]:
        """The command line to start instead, so that every process of the command is counted."""
        ...

    def follow(self, pid: int) -> None:
        """Count the process with this id and everything below it; called right after the start."""
        ...

    def sample(self) -> None:
        """Called every ``CPU_INTERVAL`` while the command runs."""
        ...

    def pids(self) -> Collection[int]:
        """The processes that are alive now."""
        ...

    def cpu_seconds(self) -> float:
        """User and system time so far, of living and of ended processes."""
        ...

    def close(self) -> None:
        """Remove whatever the counter made."""
        ...


class Cgroup:
    """A cgroup of its own for one command. The kernel does the counting."""

    def __init__(self, folder: Path, version: int) -> None:
        self.name = f"a cgroup (v{version})"
        self._folder = folder
        self._version = version

    @classmethod
    def create(cls, mounts: str | None = None, membership: str | None = None) -> "Cgroup | None":
        """A new cgroup below that of this process; None where none can be made.

        Args:
            mounts: see ``cgroup_folders``; those of this process when None.
            membership: the same.
        """
        mounts = _text("/proc/self/mountinfo") if mounts is None else mounts
        membership = _text("/proc/self/cgroup") if membership is None else membership
        for parent, version in cgroup_folders(mounts, membership):
            folder = parent / f"landfall-bench-{uuid4().hex[:8]}"
            with suppress(OSError):
                folder.mkdir()
                made = cls(folder, version)
                if made._is_usable():
                    return made
                made.close()
        return None

    def _is_usable(self) -> bool:
        with suppress(OSError):
            self.cpu_seconds()
            return os.access(self._folder / "cgroup.procs", os.W_OK)
        return False

    def wrap(self, command: Sequence[str]) -> list[str]:
        """A shell that joins the cgroup before it becomes the command, so nothing is missed."""
        join = 'echo $$ > "$0" && exec "$@"'
        return ["/bin/sh", "-c", join, str(self._folder / "cgroup.procs"), *command]

    def follow(self, pid: int) -> None:
        """Nothing to do: children are born into their parent's cgroup."""

    def sample(self) -> None:
        """Nothing to do: the kernel counts."""

    def pids(self) -> Collection[int]:
        """What the kernel lists."""
        return {int(line) for line in (self._folder / "cgroup.procs").read_text().split()}

    def cpu_seconds(self) -> float:
        """Of every process that was ever in the cgroup."""
        if self._version == 1:
            return int((self._folder / "cpuacct.usage").read_text()) / 1e9
        values = dict(line.split() for line in (self._folder / "cpu.stat").read_text().splitlines())
        return int(values["usage_usec"]) / 1e6

    def close(self) -> None:
        """Remove the cgroup, which is empty by then."""
        with suppress(OSError):
            self._folder.rmdir()


def cgroup_folders(mounts: str, membership: str) -> list[tuple[Path, int]]:
    """Folders of this process's own cgroups that count CPU time, each with its version; v1 first.

    Args:
        mounts: the text of ``/proc/self/mountinfo``, see proc_pid_mountinfo(5).
        membership: the text of ``/proc/self/cgroup``, see cgroups(7).
    """
    paths: dict[str, str] = {}
    for line in membership.splitlines():
        _, controllers, path = line.split(":", 2)
        paths |= dict.fromkeys(controllers.split(","), path)
    found = []
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        if kind == "cgroup" and "cpuacct" in options.split(","):
            version, own = 1, paths.get("cpuacct")
        elif kind == "cgroup2":
            version, own = 2, paths.get("")
        else:
            continue
        root, mount_point = before.split(" ")[3:5]
        # In a container the mount shows only the part of the hierarchy below `root`.
        if own is not None and Path(own).is_relative_to(root):
            found.append((Path(mount_point) / Path(own).relative_to(root), version))
    return sorted(found, key=lambda each: each[1])


def _text(path: str) -> str:
    """The file's text; none where there is no such file, as on systems other than Linux."""
    with suppress(FileNotFoundError):
        return Path(path).read_text()
    return ""


class Sampler:
    """Samples the process tree often, and adds up the last sample of each process.

    A process belongs to the tree when its session was begun by the command, or when it descends
    from one that belongs. The first finds orphans, the second those that began their own session.
    """

    def __init__(self) -> None:
        self.name = (
            f"sampling the process tree every {CPU_INTERVAL * 1000:.0f} ms, which misses what each "
            "process uses after its last sample"
        )
        self._session = 0
        self._seen: dict[psutil.Process, float] = {}

    def wrap(self, command: Sequence[str]) -> list[str]:
        """The command as it is."""
        return list(command)

    def follow(self, pid: int) -> None:
        """The command's session, whose id is its leader's."""
        self._session = pid
        with suppress(psutil.Error):
            self._seen[psutil.Process(pid)] = 0.0
        self.sample()

    def sample(self) -> None:
        """Note the CPU time of each process, without its children: they have their own samples."""
        known = {process.pid for process in self._seen}
        for process in psutil.process_iter():
            with suppress(psutil.Error, ProcessLookupError):
                is_ours = (
                    process in self._seen
                    or os.getsid(process.pid) == self._session
                    or process.ppid() in known
                )
                if is_ours:
                    times = process.cpu_times()
                    self._seen[process] = times.user + times.system
                    known.add(process.pid)

    def pids(self) -> Collection[int]:
        """Those seen and still alive, zombies left out."""
        return {process.pid for process in self._seen if _is_alive(process)}

    def cpu_seconds(self) -> float:
        """The sum of what was last seen."""
        return sum(self._seen.values())

    def close(self) -> None:
        """Nothing to remove."""


def _is_alive(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def new_counter() -> Counter:
    """A cgroup where one can be made, else a sampler."""
    return Cgroup.create() or Sampler()


def measure(
    command: Sequence[str],
    env: Mapping[str, str],
    log: Path,
    counter: Counter,
    watch_log: Callable[[], object] = lambda: None,
) -> Measured:
    """Run the command to its end, with its output in ``log``; none of its processes is left after.

    Args:
        command: what to run.
        env: its environment.
        log: the file for its output.
        counter: a new one; closed in the end.
        watch_log: called every ``CPU_INTERVAL`` while the command runs.

    Raises:
        SystemExit: the command failed; shows the end of its log.
    """
    begun = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            counter.wrap(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=env,
            start_new_session=True,
        )
    try:
        counter.follow(process.pid)

        def is_over() -> bool:
            watch_log()
            return process.poll() is not None

        peak_mb = _watch(counter, is_over)
        wall_seconds = time.monotonic() - begun
        _watch(counter, lambda: not counter.pids(), STRAGGLER_SECONDS)
        if process.returncode:
            said = "\n".join(log.read_text(errors="replace").splitlines()[-_LOG_LINES:])
            raise SystemExit(
                f"{command[0]} ended with exit code {process.returncode}; "
                f"its log {log} ends:\n{said}"
            )
        return Measured(counter.cpu_seconds(), wall_seconds, peak_mb)
    finally:
        _kill(counter)
        process.wait()
        counter.close()


def _watch(counter: Counter, is_over: Callable[[], bool], seconds: float = float("inf")) -> float:
    """Sample until it is over or the time is up; the peak of memory in MB."""
    peak_mb, now = 0.0, time.monotonic()
    deadline, next_memory = now + seconds, now
    while not is_over() and now < deadline:
        counter.sample()
        if now >= next_memory:
            peak_mb = max(peak_mb, sum(map(proportional_mb, counter.pids())))
            next_memory = now + MEMORY_INTERVAL
        time.sleep(CPU_INTERVAL)
        now = time.monotonic()
    return peak_mb


def proportional_mb(pid: int) -> float:
    """The process's memory in MB, shared pages divided among their users (PSS).

    Resident memory where PSS is not known, 0 for a process that has just ended.
    """
    with suppress(OSError, StopIteration):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024 / 1e6
    with suppress(psutil.Error):
        return float(psutil.Process(pid).memory_info().rss) / 1e6
    return 0.0


def _kill(counter: Counter) -> None:
    for pid in counter.pids():
        with suppress(psutil.Error):
            process = psutil.Process(pid)
            process.kill()
            process.wait(STRAGGLER_SECONDS)
