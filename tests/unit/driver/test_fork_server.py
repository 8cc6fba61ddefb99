"""A copy of a local run's process takes the place of Spark's daemon."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import MSG_WAITALL, create_connection

import pytest

from landfall.driver.spark.fork_server import fork_server, hand_over
from tests.support.waiting import eventually

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="copies are made on Linux only")

DRIVER = """
import logging, os, sys, threading
from pathlib import Path
from landfall.driver.spark.fork_server import fork_server

def become():
    print(os.getpid(), os.environ["SAID"], sys.argv[1:], logging.getLogger().handlers, flush=True)
    print(sys.stdin.read(), flush=True)

logging.basicConfig(level=logging.INFO)
server = fork_server(become)
print(server.pid, server.socket, flush=True)
sys.stdin.read()
server.close()
"""
SHUTTING_DOWN = """
import os, signal, sys, time
from pathlib import Path
from landfall.driver.spark.fork_server import fork_server
from landfall.driver.spark.worker_daemon import serve_workers

def become():
    os.kill = paused
    serve_workers()

def paused(pid, number, kill=os.kill):
    # PySpark's daemon takes SIGTERM's default action, and then signals its workers.
    if number == signal.SIGHUP:
        Path(os.environ["PAUSED"]).touch()
        time.sleep(600)
    kill(pid, number)

server = fork_server(become)
print(server.pid, server.socket, flush=True)
sys.stdin.read()
"""
DAEMON = """
import sys
from landfall.driver.spark.fork_server import hand_over
print(hand_over(sys.argv.pop(1)), flush=True)
"""


@contextmanager
def driver(program: str = DRIVER) -> Iterator[tuple[subprocess.Popen[str], int, str]]:
    """A process with a copy that waits: it, the pid of the copy, and where it waits."""
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        pid, socket = process.stdout.readline().split()
        try:
            yield process, int(pid), socket
        finally:
            process.kill()


@contextmanager
def daemon(socket: str) -> Iterator[subprocess.Popen[str]]:
    """What Spark starts; it hands over at once."""
    with subprocess.Popen(
        [sys.executable, "-c", DAEMON, socket, "pyspark.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"SAID": "by Spark"},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_the_copy_gets_pipes_environment_and_arguments_and_not_the_log_of_the_driver() -> None:
    with driver() as (_, pid, socket), daemon(socket) as process:
        assert process.stdout
        said = process.stdout.readline()
        output, _ = process.communicate("from Spark")

    assert said == f"{pid} by Spark ['pyspark.worker'] []\n"
    assert output == "from Spark\nTrue\n"
    assert process.returncode == 0


def test_the_copy_ends_when_spark_ends_what_it_has_started() -> None:
    with driver() as (_, pid, socket), daemon(socket) as process:
        assert process.stdout
        process.stdout.readline()

        process.send_signal(signal.SIGTERM)
        process.wait()

        assert process.returncode == 0
        eventually(lambda: is_over(pid), bool)


def test_workers_end_when_spark_ends_a_copy_that_is_shutting_down_already(tmp_path: Path) -> None:
    """A JVM that ends closes the copy's input, and terminates the process that handed over."""
    paused = tmp_path / "paused"
    with driver(SHUTTING_DOWN) as (_, __, waiting):
        spark_daemon = subprocess.Popen(
            [sys.executable, "-c", DAEMON, waiting, "pyspark.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PAUSED": str(paused)},
        )
        with spark_daemon as process:
            assert process.stdin
            assert process.stdout
            port = int.from_bytes(process.stdout.read(4), "big")
            with create_connection(("127.0.0.1", port)) as task:
                worker = int.from_bytes(task.recv(4, MSG_WAITALL), "big")
                process.stdin.close()
                eventually(paused.exists, bool)

                process.send_signal(signal.SIGTERM)
                process.wait()

                eventually(lambda: is_over(worker), bool, 60)


@pytest.mark.parametrize("end", [signal.SIGKILL, None])
def test_a_copy_that_waits_ends_with_the_driver(end: signal.Signals | None) -> None:
    with driver() as (process, pid, socket):
        if end:
            process.send_signal(end)
        else:
            assert process.stdin
            process.stdin.close()
        process.wait()

        eventually(lambda: is_over(pid), bool)
        assert Path(socket).exists() == (end is signal.SIGKILL)


def test_nobody_takes_over_where_nobody_waits(tmp_path: Path) -> None:
    assert not hand_over("")
    assert not hand_over(f"{tmp_path}/nobody")


def test_only_the_first_daemon_is_replaced() -> None:
    with driver() as (_, __, socket), daemon(socket) as first:
        assert first.stdout
        first.stdout.readline()
        with daemon(socket) as second:
            assert second.communicate()[0] == "False\n"


def test_a_process_with_threads_is_not_copied() -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        assert fork_server(lambda: None) is None
    finally:
        done.set()
        thread.join()


def is_over(pid: int) -> bool:
    """Whether the process has ended; a zombie has."""
    try:
        return "State:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
