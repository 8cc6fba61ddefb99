"""``landfall skip``, ``drop``, ``undo`` and the other verbs of ``landfall.api.verbs``.

A request goes to the running driver, if ``--driver`` names one or if this is a driver's pod.
Otherwise the lane is opened here, and yielded again once the request is recorded.
"""

import argparse
import getpass
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec

from landfall.api.contract import (
    CONTROL_PORT,
    CONTROL_TOKEN_FILE,
    GROUP_FILE,
    LOCAL_TOKEN_FILE,
    ExitCode,
)
from landfall.api.verbs import (
    Answer,
    DropRequest,
    Outcome,
    Position,
    PromoteRequest,
    ReplayRequest,
    Request,
    ResetRequest,
    RetryRequest,
    SkipRequest,
    UnblockRequest,
    UndoRequest,
)
from landfall.cli.decide.driver_control import DriverControl
from landfall.cli.group_store import GroupStore, explain_kafka
from landfall.cli.text import console
from landfall.clock import SteadyClock
from landfall.errors import Reason, Stalled
from landfall.ledger.offsets import TopicPartition

if TYPE_CHECKING:
    from landfall.driver.requests.lane_session import LaneSession

EXIT_CODES: Mapping[Outcome, ExitCode] = {
    Outcome.DONE: ExitCode.OK,
    Outcome.DRY_RUN: ExitCode.OK,
    Outcome.WAITING: ExitCode.UNAVAILABLE,
    Outcome.REFUSED: ExitCode.REFUSED,
    Outcome.FAILED: ExitCode.UNAVAILABLE,
}


def verb(arguments: argparse.Namespace) -> ExitCode:
    """Execute a request, and print what was recorded."""
    named, topic, partition = _target(arguments)
    request = _request(arguments, topic, partition)
    driver = driver_to_ask(arguments, os.environ)
    if driver:
        answer = driver.ask(request)
    else:
        with lane_session(group_path(named)) as session:
            answer = session.carry_out(request, take_over=arguments.take_over)
    return show(answer, as_json=arguments.json)


@contextmanager
def lane_session(path: Path) -> "Iterator[LaneSession]":
    """Open a session that executes requests without a driver, for the group of a file."""
    # Help texts must not wait for these.
    from landfall.driver.core.in_process import InProcessRunner  # noqa: PLC0415
    from landfall.driver.core.pinned_spec import pinned_spec  # noqa: PLC0415
    from landfall.driver.requests.lane_session import LaneSession  # noqa: PLC0415
    from landfall.landed.opening import backup_of, open_log  # noqa: PLC0415

    opened = GroupStore.of(path)
    group = pinned_spec(opened.group, uuid4().hex)
    explain_kafka(group)
    source = open_log(group, opened.lane.read())
    try:
        yield LaneSession(
            group=group,
            store=opened.store,
            lane=opened.lane,
            source=source,
            runner=InProcessRunner(),
            clock=SteadyClock(),
            new_name=lambda: uuid4().hex,
            backup=backup_of(group),
        )
    finally:
        source.close()


def show(answer: Answer, *, as_json: bool = False) -> ExitCode:
    """Print what was recorded, or would be, and why no more was."""
    if as_json:
        console.print_json(msgspec.to_builtins(answer))
    is_good = answer.outcome in {Outcome.DONE, Outcome.DRY_RUN}
    prefix = "would record " if answer.outcome is Outcome.DRY_RUN else ""
    for line in () if as_json else answer.records:
        console.out().print(f"{prefix}{line}", markup=False)
    if is_good:
        if answer.message and not as_json:
            console.out().print(answer.message, markup=False)
    else:
        console.print_error(str(answer.outcome), answer.message)
    return EXIT_CODES[answer.outcome]


def who() -> str:
    """The user and the machine, by which the ledger names who asked."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in many containers
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def parse_target(text: str) -> tuple[str, int | None]:
    """The topic, and the Kafka partition if there is one, in ``clicks/3`` or ``clicks``.

    Raises:
        ValueError: it is neither.
    """
    topic, slash, number = text.partition("/")
    if not slash:
        return topic, None
    tp = TopicPartition(topic, int(number))
    return tp.topic, tp.partition


def _target(arguments: argparse.Namespace) -> tuple[str, str, int | None]:
    """The group's file, the target, and the Kafka partition, of ``[GROUP.yaml] [TARGET]``.

    The target is a topic, a slot (``undo``), or a backfill (``promote``).
    """
    words = list(arguments.target)
    named = words.pop() if arguments.verb != "retry" else ""
    if len(words) > 1:
        raise Stalled(Reason.SPEC_INVALID, f"too many words before {named}: {' '.join(words)}")
    if arguments.verb == "retry":
        return (words or [""])[0], "", None
    if arguments.verb == "undo" and not named.isdecimal():
        raise Stalled(Reason.SPEC_INVALID, f"{named}: not the number of a slot of the ledger")
    if arguments.verb in {"undo", "promote"}:
        return (words or [""])[0], named, None
    return (words or [""])[0], *_topic_partition(arguments.verb, named)


def _topic_partition(verb: str, named: str) -> tuple[str, int | None]:
    try:
        topic, partition = parse_target(named)
    except ValueError as error:
        raise Stalled(
            Reason.SPEC_INVALID, f"{named}: not a topic partition such as clicks/3"
        ) from error
    if partition is None and verb != "replay-dead-letters":
        raise Stalled(
            Reason.SPEC_INVALID, f"{named}: name the Kafka partition, too, as in {topic}/3"
        )
    return topic, partition


def group_path(named: str) -> Path:
    """The group's file: the named one, or a driver pod's.

    Raises:
        Stalled: SPEC_INVALID, there is neither.
    """
    path = named or os.environ.get(GROUP_FILE, "")
    if not path:
        raise Stalled(
            Reason.SPEC_INVALID,
            f"name the group's file first, or set {GROUP_FILE}",
        )
    return Path(path)


def driver_to_ask(
    arguments: argparse.Namespace, environment: Mapping[str, str]
) -> DriverControl | None:
    """The driver to ask; in a driver's pod that is the pod's own."""
    token_file = arguments.token_file or _token_file_of_pod(environment)
    url = arguments.driver
    if not url and not arguments.take_over and environment.get(CONTROL_TOKEN_FILE):
        url = f"http://127.0.0.1:{CONTROL_PORT}"
    if not url:
        return None
    if not token_file:
        raise Stalled(
            Reason.SPEC_INVALID,
            f"--driver needs the control token: --token-file FILE, or {CONTROL_TOKEN_FILE}",
        )
    return DriverControl.of(url, Path(token_file))


def _token_file_of_pod(environment: Mapping[str, str]) -> str | None:
    """Return the file with the driver's own token in its pod, else the token of a Secret."""
    local, of_secret = environment.get(LOCAL_TOKEN_FILE), environment.get(CONTROL_TOKEN_FILE)
    return local if local and Path(local).exists() else of_secret


def _request(arguments: argparse.Namespace, topic: str, partition: int | None) -> Request:
    try:
        return _of_verb(arguments, topic, partition)
    except ValueError as error:
        raise Stalled(Reason.SPEC_INVALID, str(error)) from error


def _of_verb(arguments: argparse.Namespace, topic: str, partition: int | None) -> Request:
    name, why = arguments.who or who(), arguments.why
    dry, id_ = arguments.dry_run, uuid4().hex
    if arguments.verb == "retry":
        return RetryRequest(who=name, why=why or "retry", dry_run=dry, id=id_)
    if arguments.verb == "undo":
        return UndoRequest(
            who=name,
            why=why,
            dry_run=dry,
            id=id_,
            slot=int(topic),
            output_partitions=tuple(arguments.output_partition),
        )
    if arguments.verb == "promote":
        return PromoteRequest(who=name, why=why, dry_run=dry, id=id_, name=topic)
    if arguments.verb == "replay-dead-letters":
        return ReplayRequest(
            who=name,
            why=why,
            dry_run=dry,
            id=id_,
            topic=topic,
            partition=partition,
            first=arguments.first,
            until=arguments.until,
        )
    assert partition is not None
    common = {"who": name, "why": why, "dry_run": dry, "id": id_}
    return _of_topic_partition(arguments, {**common, "topic": topic, "partition": partition})


def _of_topic_partition(arguments: argparse.Namespace, of_tp: dict[str, Any]) -> Request:
    match arguments.verb:
        case "skip":
            return SkipRequest(**of_tp, until=arguments.until)
        case "unblock":
            return UnblockRequest(**of_tp, bad_records_until=arguments.bad_records_until)
        case "drop":
            return DropRequest(**of_tp)
    to: Position = arguments.to
    return ResetRequest(**of_tp, to=to)
