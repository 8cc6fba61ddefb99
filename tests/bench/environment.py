"""The servers that a benchmark needs, started for it and stopped after it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from dev.kube.certificates import Authority
from dev.servers.kafka import KAFKA
from dev.servers.s3 import S3
from dev.servers.server import HOST, Server, ServerKind
from tests.support.kafka.broker import Broker
from tests.support.stores.s3 import S3Server

ACCESS_LOG = "VGW_ACCESS_LOG"
"""The environment variable by which the S3 server learns where to log requests."""


@dataclass(frozen=True)
class Servers:
    """A running broker and a running S3 server; the ids of their processes, where they are ours."""

    broker: Broker
    s3: S3Server
    pids: tuple[int, ...]


@contextmanager
def servers(state: Path, access_log: Path | None = None, *, tls: bool = False) -> Iterator[Servers]:
    """Servers of our own, whose data stays for the next time.

    Args:
        state: the folder of their data.
        access_log: a file that gets a line for every S3 request; None for no such file.
        tls: whether the S3 server is reached by https.
    """
    if access_log:
        access_log.parent.mkdir(parents=True, exist_ok=True)
        access_log.unlink(missing_ok=True)
        os.environ[ACCESS_LOG] = str(access_log)
    kafka, s3 = Server(KAFKA, state), Server(_s3_with_tls(state) if tls else S3, state)
    try:
        broker, gateway = kafka.up(), s3.up()
        assert broker.address
        assert gateway.address
        os.environ.update(gateway.env)
        keys = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
        pids = tuple(pid for pid in (broker.pid, gateway.pid) if pid)
        # The client lives a moment longer than the broker, and would report that as an error.
        quiet = Broker(broker.address, {"log_level": 2})
        yield Servers(quiet, S3Server(gateway.address, keys), pids)
    finally:
        kafka.down()
        s3.down()


def _s3_with_tls(state: Path) -> ServerKind:
    """The S3 server by https; it and its clients learn from the environment what to trust."""
    folder = state / "certificates"
    Authority(folder).server("s3", [f"IP:{HOST}"])
    os.environ |= {
        "VGW_CERT": str(folder / "s3.crt"),
        "VGW_KEY": str(folder / "s3.key"),
        "AWS_CA_BUNDLE": str(folder / "ca.crt"),
    }
    return replace(S3, name="s3-tls", address=lambda host, port: f"https://{host}:{port}")
