"""Which archive of Spark's classes a JVM gets."""

import os
import sys
import time
from mmap import ACCESS_READ, mmap
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen

import pytest

from landfall.driver.spark.class_archive import VARIABLE, ClassArchive, check_use, class_archive


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """With a Java and jars of its own, and an empty cache."""
    for name in ("java/bin/java", "spark/jars/core.jar"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(name)
    return {
        "JAVA_HOME": f"{tmp_path}/java",
        "SPARK_HOME": f"{tmp_path}/spark",
        "XDG_CACHE_HOME": f"{tmp_path}/cache",
    }


class Gateway:
    """Of a JVM that writes to a file, or fails to."""

    def __init__(self, making: Path, code: int = 0) -> None:
        program = "import sys; sys.stdin.read(); open(sys.argv[1], 'w').write('classes')"
        program += f"; sys.exit({code})"
        self.proc = Popen([sys.executable, "-c", program, making], stdin=PIPE, stdout=DEVNULL)

    def shutdown(self) -> None:
        """Nothing to do."""


def test_the_first_run_makes_none_the_second_does_and_the_third_has_it(
    environment: dict[str, str],
) -> None:
    first, second = class_archive(environment), class_archive(environment)
    assert second
    assert second.making
    second.keep(Gateway(second.making))  # type: ignore[arg-type]  # it has what is used

    third = class_archive(environment)

    assert first is None
    assert "ArchiveClassesAtExit" in second.flags
    assert third == ClassArchive(second.path, None)
    assert f"SharedArchiveFile={second.path}" in third.flags
    assert second.path.read_text() == "classes"
    assert not second.making.exists()


def test_what_a_failed_jvm_wrote_is_not_kept(environment: dict[str, str]) -> None:
    class_archive(environment)
    archive = class_archive(environment)
    assert archive
    assert archive.making

    archive.keep(Gateway(archive.making, code=1))  # type: ignore[arg-type]  # it has what is used

    assert not archive.path.exists()
    assert not archive.making.exists()


@pytest.mark.parametrize("changed", ["java/bin/java", "spark/jars/core.jar", "spark/jars/new.jar"])
def test_another_java_or_other_jars_have_another_archive(
    environment: dict[str, str], tmp_path: Path, changed: str
) -> None:
    class_archive(environment)
    before = class_archive(environment)

    (tmp_path / changed).write_text("another version")
    class_archive(environment)
    after = class_archive(environment)

    assert before
    assert after
    assert before.path != after.path


def test_what_killed_jvms_left_behind_is_removed(environment: dict[str, str]) -> None:
    class_archive(environment)
    archive = class_archive(environment)
    assert archive
    old, new = archive.path.with_suffix(".1.new"), archive.path.with_suffix(".2.new")
    old.touch()
    new.touch()
    yesterday = time.time() - 86_400
    os.utime(old, (yesterday, yesterday))

    class_archive(environment)

    assert not old.exists()
    assert new.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_jvm_that_does_not_use_its_archive_is_named_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    archive = tmp_path / "image.jsa"
    archive.write_text("classes")

    with archive.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ):
        check_use(archive, os.getpid())
    mapped = [*caplog.messages]
    check_use(archive, os.getpid())
    check_use(archive, 0)  # no process
    check_use(tmp_path / "other.jsa", os.getpid())  # no file

    assert mapped == []
    assert caplog.messages == ["class archive not used"]


def test_without_a_usable_place_there_is_none(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    assert class_archive(environment | {VARIABLE: ""}) is None
    assert class_archive(environment | {VARIABLE: f'{tmp_path}/a"b.jsa'}) is None
    assert class_archive(environment | {"XDG_CACHE_HOME": f"{tmp_path}/file"}) is None
    assert class_archive(environment | {"JAVA_HOME": "", "PATH": ""}) is None
