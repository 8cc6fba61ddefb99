"""Publishers as processes of their own, which are killed or frozen at any call of theirs.

A server that has imported everything forks each of them, so one costs milliseconds.
"""

import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection as Pipe
from typing import Any

from landfall.api.spec import parse_group
from landfall.errors import Retry
from landfall.publish.building import publisher
from landfall.store.urls import open_store
from tests.support.ledger.sample_ledger import LANE

PROCESSES = get_context("forkserver")
PROCESSES.set_forkserver_preload(
    ["tests.support.publishers.publishing_processes", "landfall.store.s3.store"]
)
PATIENCE_SECONDS = 60.0


@dataclass(frozen=True)
class Blow:
    """A signal that a publisher sends itself.

    Attributes:
        number: it comes at call ``number // 2``: before its effect if even, after it if odd.
        kind: SIGKILL or SIGSTOP.
        calls: the calls that are counted, as classes and names of their methods.
    """

    number: int
    kind: signal.Signals
    calls: Sequence[tuple[str, str]]


def _struck(blow: Blow) -> None:
    """Make this process send itself a signal at one of the calls."""
    made = [0]

    def count() -> None:
        if made[0] == blow.number:
            os.kill(os.getpid(), blow.kind)
        made[0] += 1

    for path, name in blow.calls:
        module, _, kind = path.rpartition(".")
        owner = getattr(__import__(module, fromlist=[kind]), kind)
        inner = getattr(owner, name)

        def call(*args: Any, _inner: Any = inner, **kwargs: Any) -> Any:
            count()
            result = _inner(*args, **kwargs)
            count()
            return result

        setattr(owner, name, call)


def _publish(group: Mapping[str, Any], env: Mapping[str, str], blow: Blow | None) -> None:
    os.environ.update(env)
    if blow is not None:
        _struck(blow)
    _pass(group)


def _pass(group: Mapping[str, Any]) -> None:
    parsed = parse_group(dict(group))
    built = publisher(parsed, parsed.spec.publish[0], open_store(parsed.spec.output), LANE)
    from landfall.lane import Lane  # as the driver does it
    from landfall.publish.following import Follower

    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        follower = Follower(Lane(open_store(parsed.spec.output), parsed.metadata.name, LANE))
        try:
            built.publish(follower)
        except Retry:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


def start(group: Mapping[str, Any], env: Mapping[str, str], blow: Blow | None = None) -> Any:
    """A process that publishes once; returns it running."""
    process = PROCESSES.Process(target=_publish, args=(group, env, blow))
    process.start()
    return process


def _serve(group: Mapping[str, Any], env: Mapping[str, str], pipe: Pipe) -> None:
    os.environ.update(env)
    while pipe.recv():
        _pass(group)
        pipe.send(True)


def server(group: Mapping[str, Any], env: Mapping[str, str]) -> tuple[Any, Pipe]:
    """A process that publishes each time it is asked, and answers when it has."""
    here, there = PROCESSES.Pipe()
    process = PROCESSES.Process(target=_serve, args=(group, env, there))
    process.start()
    there.close()
    return process, here
