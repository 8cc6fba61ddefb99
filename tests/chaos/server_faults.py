"""Faults of the broker and of the S3 server: killed, restarted, frozen, disk full."""

import signal
from collections.abc import Callable, Mapping

import psutil

from dev.servers.kafka import KAFKA
from dev.servers.s3 import S3
from dev.servers.server import ServerKind as Program
from tests.chaos import targets
from tests.chaos.environment import Environment
from tests.chaos.outcome import NotInjected
from tests.chaos.schedule import Fault, Kind


def _restart(program: Program, *, at_once: bool) -> Callable[[Environment, Fault], str]:
    def inject(environment: Environment, fault: Fault) -> str:
        server = environment.place.server(program)
        if server.status().pid is None:
            raise NotInjected("it does not run, or this run did not start it")
        server.down(at_once=at_once)
        environment.wait(fault.seconds)
        server.up()
        return signal.SIGKILL.name if at_once else signal.SIGTERM.name

    return inject


def _freeze(program: Program) -> Callable[[Environment, Fault], str]:
    def inject(environment: Environment, fault: Fault) -> str:
        pid = environment.place.server(program).status().pid
        if pid is None:
            raise NotInjected("it does not run, or this run did not start it")
        with targets.frozen([psutil.Process(pid)]):
            environment.wait(fault.seconds)
        return ""

    return inject


def fill_disk(environment: Environment, fault: Fault) -> str:
    """Fill the S3 server's disk to the last block."""
    if environment.disk is None:
        raise NotInjected("this machine could not mount a small disk")
    with environment.disk.filled() as size:
        environment.wait(fault.seconds)
    return f"{size / 2**20:.0f} MiB filled"


INJECTORS: Mapping[Kind, Callable[[Environment, Fault], str]] = {
    Kind.KAFKA_KILLED: _restart(KAFKA, at_once=True),
    Kind.KAFKA_RESTARTED: _restart(KAFKA, at_once=False),
    Kind.KAFKA_FROZEN: _freeze(KAFKA),
    Kind.S3_KILLED: _restart(S3, at_once=True),
    Kind.S3_FROZEN: _freeze(S3),
    Kind.DISK_FULL: fill_disk,
}
