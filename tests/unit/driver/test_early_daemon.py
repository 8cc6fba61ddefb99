"""A process that has imported before Spark asks takes the place of an executor's daemon."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from landfall.driver.spark.class_archive import VARIABLE as ARCHIVE
from landfall.driver.spark.fork_server import VARIABLE
from tests.support.waiting import eventually

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the image is Linux's")


@pytest.fixture
def early(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The process, started by what stands for the executor's JVM."""
    program = [sys.executable, "-m", "landfall.driver.spark.early_daemon", f"{tmp_path}/fork"]
    with subprocess.Popen(program, stdin=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def daemon(folder: Path) -> subprocess.Popen[bytes]:
    """What Spark starts: it writes the port on which it forks workers to its output."""
    (folder / "spark.jsa").touch()
    names = {VARIABLE: f"{folder}/fork", ARCHIVE: f"{folder}/spark.jsa"}
    return subprocess.Popen(
        [sys.executable, "-m", "landfall.driver.spark.worker_daemon", "pyspark.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | names | {"PYTHON_WORKER_FACTORY_SECRET": "secret"},
    )


def test_it_is_the_daemon_once_spark_starts_one(
    early: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    assert early.stdin
    eventually((tmp_path / "fork").exists, bool)

    with daemon(tmp_path) as started:
        assert started.stdout
        port = int.from_bytes(started.stdout.read(4), "big")
        early.stdin.close()  # no longer what ends it
        output, errors = started.communicate()  # Spark closes the input

    assert 0 < port < 2**16
    assert output == b""
    assert b"class archive not used" in errors
    early.wait()


def test_it_ends_with_the_jvm(early: subprocess.Popen[bytes]) -> None:
    assert early.stdin

    early.stdin.close()

    assert early.wait() == 0
