"""What the benchmark counts: every process a command starts, including those that nobody waits
for.
"""

import os
import sys
from collections.abc import Collection
from pathlib import Path

import pytest

from tests.bench.process_tree import Cgroup, Counter, Measured, Sampler, cgroup_folders, measure

SEEN = """
import os, time
from pathlib import Path

def wait_until_seen(name):
    folder = Path(os.environ["SEEN"])
    (folder / name).touch()
    while not (folder / f"{name}.seen").exists():
        time.sleep(0.01)
"""
BURN = """
import signal

def burn(seconds):
    while time.process_time() < seconds:
        pass

# As PySpark's daemon does: the kernel discards its children, nobody waits for them.
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
if os.fork() == 0:
    held = b"x" * 40_000_000
    burn(0.6)
    wait_until_seen("burnt")  # a sampler misses what is used in the last moment
    os._exit(0)
try:
    os.wait()
except ChildProcessError:
    pass
print(os.times().children_user)
"""
OUTLIVE = """
parent = os.getpid()
if os.fork() == 0:
    os.setsid()
    wait_until_seen("born")  # a sampler must see it before its parent is gone
    while os.getppid() == parent or time.process_time() < 0.4:
        pass
    wait_until_seen("burnt")
else:
    while not Path(os.environ["SEEN"], "born.seen").exists():
        time.sleep(0.01)
"""
MOUNTS = """\
31 24 0:27 / /sys/fs/cgroup/cpuset rw,relatime shared:8 - cgroup cgroup rw,cpuset
32 24 0:28 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
42 24 0:38 / /sys/fs/cgroup/unified rw,relatime shared:4 - cgroup2 cgroup2 rw
"""
MEMBERSHIP = "3:cpuset:/\n2:cpu,cpuacct:/user.slice\n0::/user.slice/session\n"


@pytest.fixture(params=["cgroup", "sampler"])
def counter(request: pytest.FixtureRequest) -> Counter:
    made = Cgroup.create() if request.param == "cgroup" else Sampler()
    if made is None:
        pytest.skip("no cgroup can be made here")
    return made


def measured_by(counter: Counter, script: str, folder: Path) -> Measured:
    """Measure a script whose processes wait until the counter has looked at them as they are."""
    sample, pids, listed = counter.sample, counter.pids, set[Path]()

    def list_pids() -> Collection[int]:
        listed.update(folder.iterdir())
        return pids()

    def look() -> None:
        sample()
        for path in listed:  # their memory was read since they were listed
            path.with_suffix(".seen").touch()

    counter.sample, counter.pids = look, list_pids  # type: ignore[method-assign]
    command = [sys.executable, "-c", SEEN + script]
    return measure(command, {**os.environ, "SEEN": str(folder)}, folder.parent / "log", counter)


@pytest.fixture
def seen(tmp_path: Path) -> Path:
    folder = tmp_path / "seen"
    folder.mkdir()
    return folder


def test_a_grandchild_that_nobody_reaps_is_counted(
    counter: Counter, seen: Path, tmp_path: Path
) -> None:
    measured = measured_by(counter, BURN, seen)

    assert float((tmp_path / "log").read_text()) == 0.0  # its parent knows nothing of it
    assert measured.cpu_seconds >= 0.55
    assert measured.peak_mb > 40


def test_a_process_that_outlives_the_command_is_counted_to_its_end(
    counter: Counter, seen: Path
) -> None:
    measured = measured_by(counter, OUTLIVE, seen)

    assert measured.cpu_seconds >= 0.35


def test_a_command_that_fails_shows_the_end_of_its_log(counter: Counter, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"exit code 3(.|\n)*no such topic"):
        measure(
            ["/bin/sh", "-c", "echo no such topic; exit 3"], os.environ, tmp_path / "log", counter
        )


def test_a_cgroup_leaves_nothing_behind(tmp_path: Path) -> None:
    counter = Cgroup.create()
    if counter is None:
        pytest.skip("no cgroup can be made here")

    measure([sys.executable, "-c", ""], os.environ, tmp_path / "log", counter)

    with pytest.raises(FileNotFoundError):
        counter.pids()


def test_the_cgroups_that_count_cpu_time_are_found_from_what_the_kernel_says() -> None:
    assert cgroup_folders(MOUNTS, MEMBERSHIP) == [
        (Path("/sys/fs/cgroup/cpu,cpuacct/user.slice"), 1),
        (Path("/sys/fs/cgroup/unified/user.slice/session"), 2),
    ]


def test_a_container_sees_its_own_part_of_the_hierarchy() -> None:
    mounts = "42 24 0:38 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n"

    assert cgroup_folders(mounts, "0::/docker/abc/job\n") == [(Path("/sys/fs/cgroup/job"), 2)]
    assert cgroup_folders(mounts, "0::/elsewhere\n") == []


def test_without_a_mounted_cgroup_there_is_none() -> None:
    assert Cgroup.create("", MEMBERSHIP) is None
