"""A taker of files as a process, which tests kill: it takes, works a while, and says what is done.

    python -m tests.support.file_taker GROUP.yaml LOG LEASE_SECONDS LIMIT [URL TOKEN]

Its log has a line for each lease that it got, and one for each that it was told is done.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from uuid import uuid4

from landfall.api.verbs import (
    Answer,
    FilesDoneRequest,
    LeaseAnswer,
    LeaseRequest,
    Outcome,
    TakeFilesRequest,
)
from landfall.cli.driver_control import DriverControl
from landfall.cli.verb import lane_session
from landfall.errors import LandfallError
from tests.support.feed_scene import TOPIC

Ask = Callable[[LeaseRequest], Answer]


def main() -> None:
    """Take files for ever."""
    group, log, seconds, limit, *driver = sys.argv[1:]
    ask = _driver(*driver) if driver else _session(Path(group))
    who, luck = f"taker-{os.getpid()}", Random(os.getpid())
    while True:
        take = TakeFilesRequest(
            who=who, id=uuid4().hex, topic=TOPIC, limit=int(limit), lease_seconds=int(seconds)
        )
        taken = until_answered(ask, take)
        if not isinstance(taken, LeaseAnswer) or taken.lease is None:
            time.sleep(0.2)
            continue
        names = [file.name for file in taken.files]
        _write(Path(log), {"taken": names, "lease": taken.lease})
        time.sleep(luck.random() / 5)
        done = FilesDoneRequest(who=who, id=uuid4().hex, lease=taken.lease)
        if until_answered(ask, done).outcome is Outcome.DONE:
            _write(Path(log), {"done": names, "lease": taken.lease})


def until_answered(ask: Ask, request: LeaseRequest) -> Answer:
    """The answer to a request, which is asked again under the same id until there is one."""
    while True:
        try:
            answer = ask(request)
        except LandfallError:
            time.sleep(0.2)
            continue
        if answer.outcome not in {Outcome.FAILED, Outcome.WAITING}:
            return answer
        time.sleep(0.2)


def _driver(url: str, token: str) -> Ask:
    return DriverControl(url, token).ask


def _session(group: Path) -> Ask:
    def ask(request: LeaseRequest) -> Answer:
        with lane_session(group) as session:
            return session.carry_out(request, take_over=False)

    return ask


def _write(log: Path, line: dict[str, object]) -> None:
    with log.open("a") as file:
        file.write(json.dumps(line) + "\n")
        file.flush()
        os.fsync(file.fileno())


if __name__ == "__main__":
    main()
