"""Faults of the broker and of the S3 server behind the proxy: killed, started anew, frozen, without
room.
"""

import signal
from collections.abc import Callable, Mapping

import psutil

from dev.servers.kafka import KAFKA
from dev.servers.s3 import S3
from dev.servers.server import Kind as Program
from tests.chaos import targets
from tests.chaos.environment import Environment
from tests.chaos.outcome import NotApplied
from tests.chaos.schedule import Fault, Kind


def _restart(program: Program, *, at_once: bool) -> Callable[[Environment, Fault], str]:
    def strike(stage: Environment, fault: Fault) -> str:
        server = stage.place.server(program)
        if server.status().pid is None:
            raise NotApplied("it is not ours, or does not run")
        server.down(at_once=at_once)
        stage.rest(fault.seconds)
        server.up()
        return signal.SIGKILL.name if at_once else signal.SIGTERM.name

    return strike


def _freeze(program: Program) -> Callable[[Environment, Fault], str]:
    def strike(stage: Environment, fault: Fault) -> str:
        pid = stage.place.server(program).status().pid
        if pid is None:
            raise NotApplied("it is not ours, or does not run")
        with targets.frozen([psutil.Process(pid)]):
            stage.rest(fault.seconds)
        return ""

    return strike


def fill(stage: Environment, fault: Fault) -> str:
    """Not a block is left on the S3 server's disk."""
    if stage.disk is None:
        raise NotApplied("no small disk could be mounted")
    with stage.disk.full() as taken:
        stage.rest(fault.seconds)
    return f"{taken / 2**20:.0f} MiB taken"


INJECTORS: Mapping[Kind, Callable[[Environment, Fault], str]] = {
    Kind.KAFKA_KILLED: _restart(KAFKA, at_once=True),
    Kind.KAFKA_RESTARTED: _restart(KAFKA, at_once=False),
    Kind.KAFKA_FROZEN: _freeze(KAFKA),
    Kind.S3_KILLED: _restart(S3, at_once=True),
    Kind.S3_FROZEN: _freeze(S3),
    Kind.DISK_FULL: fill,
}
