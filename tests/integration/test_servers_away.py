"""Kafka or S3 that does not answer when a group starts: address and cause are said, and said once.

The servers are real sockets that refuse, or accept and say nothing.
"""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from landfall.api.contract import ExitCode
from tests.support.kubernetes.groups import Json, document
from tests.support.landing.processes import LANDFALL

pytestmark = pytest.mark.xdist_group("spark")

SECONDS = 240.0
"""A busy machine needs long to start Spark; what is counted is in ``tests/unit/driver``."""


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@contextmanager
def running(folder: Path, command: str, group: Json, **environment: str) -> Iterator[Path]:
    """A command on a group; the file with what it prints on standard error."""
    file, said = folder / "group.yaml", folder / "stderr"
    file.write_text(yaml.safe_dump(group))
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "NO_PROXY": "127.0.0.1"}
    with said.open("wb") as stderr:
        process = subprocess.Popen(
            [LANDFALL, command, str(file)],
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            env={**os.environ, **keys, **environment},
        )
    try:
        yield said
    finally:
        process.kill()
        process.wait()


def line_with(said: Path, text: str) -> str:
    """The first line that holds the text, as soon as it is there."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        found = [line for line in said.read_text().splitlines() if text in line]
        if found:
            return found[0]
        time.sleep(0.1)
    raise AssertionError(f"no {text!r} within {SECONDS:g} s in: {said.read_text()}")


def group(folder: Path, servers: str) -> Json:
    return document(
        source__kafka__bootstrapServers=servers, output__url=f"{folder.as_uri()}/landed"
    )


def test_a_refused_broker_is_named_once_and_then_waited_for(tmp_path: Path) -> None:
    with running(tmp_path, "run", group(tmp_path, "127.0.0.1:1")) as said:
        first = line_with(said, "waiting for kafka")
        status = line_with(said, "waiting for the source")
        time.sleep(5)
        printed = said.read_text()

    assert "127.0.0.1:1: connection refused" in first
    assert "SourceUnavailable: topics: 127.0.0.1:1: Connection refused" in status
    assert "no topic matches" not in printed
    assert (printed.count("landing failed"), printed.count("waiting for the source")) == (1, 1)


def test_a_silent_broker_and_an_unknown_host_are_named(tmp_path: Path, silent: str) -> None:
    with running(tmp_path, "run", group(tmp_path, f"{silent},nosuch.invalid:9092")) as said:
        line = line_with(said, "waiting for kafka")

    assert f"{silent}: accepts connections, but does not answer" in line
    assert "nosuch.invalid:9092: no such host" in line


@pytest.mark.parametrize("command", ["run", "status", "fsck"])
def test_a_silent_store_is_named(tmp_path: Path, silent: str, command: str) -> None:
    output = {"url": "s3://b/p", "s3": {"endpoint": f"http://{silent}", "pathStyle": True}}

    with running(tmp_path, command, document(output=output)) as said:
        line = line_with(said, "waiting for the store")

    assert f"{silent}: accepts connections, but does not answer" in line


def test_a_jvm_that_dies_while_it_starts_is_one_line(tmp_path: Path) -> None:
    java = tmp_path / "bin/java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\nkill -9 $$\n")
    java.chmod(0o755)
    file = tmp_path / "group.yaml"
    file.write_text(yaml.safe_dump(group(tmp_path, "127.0.0.1:1")))

    done = subprocess.run(
        [LANDFALL, "run", str(file)],
        env={**os.environ, "JAVA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    expected = ("hot path: ", "waiting for kafka")
    lines = done.stderr.splitlines()
    errors = [line for line in lines if not any(each in line for each in expected)]
    assert (done.returncode, len(errors)) == (ExitCode.UNAVAILABLE, 1), done.stderr
    assert errors[0].startswith("landfall: Unavailable: spark did not start: ")


def test_a_port_that_is_taken_is_one_line_and_the_usual_one_is_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "with-port"
    folder.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        file = folder / "group.yaml"
        file.write_text(yaml.safe_dump(group(folder, "127.0.0.1:1")))
        done = subprocess.run(
            [LANDFALL, "run", str(file), "--http-port", str(port), "--master", "local[1]"],
            capture_output=True,
            text=True,
            check=False,
        )
        usual = group(tmp_path, "127.0.0.1:1")
        usual["spec"]["tuning"] = {"httpPort": port}
        with running(tmp_path, "run", usual) as said:
            line = line_with(said, "port taken: another one opened")

    assert done.returncode == ExitCode.USAGE, done.stderr
    assert f"--http-port: cannot listen on 127.0.0.1:{port}: Address already in use" in done.stderr
    assert "Traceback" not in done.stderr
    assert f"cannot listen on 127.0.0.1:{port}" in line
