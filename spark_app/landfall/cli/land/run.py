"""``landfall run``: a driver on local Spark, with its progress on the terminal."""

import argparse
import logging
import os
import secrets
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from landfall.api import group_file
from landfall.api.contract import LANE, ExitCode
from landfall.api.spec import ConsumerGroup, parse_group
from landfall.cli.text import console
from landfall.cli.text.log_lines import EventFormatter, Printed
from landfall.cli.text.progress import progress
from landfall.cli.values import Offsets
from landfall.errors import Reason, Stalled
from landfall.lane import Lane
from landfall.lane.stores import open_stores
from landfall.ledger.offsets import TopicPartition

if TYPE_CHECKING:
    from landfall.driver.http.control import Control
    from landfall.driver.landing.goals import GoalType


def run(arguments: argparse.Namespace) -> ExitCode:
    """Land a group until it is stopped or caught up.

    Raises:
        Stalled: SPEC_INVALID, a port is taken, or the token file cannot be created or read.
    """
    # Other commands need neither Spark nor Kafka.
    from landfall.driver.http.server import PortUnavailable  # noqa: PLC0415
    from landfall.driver.process.preflight import require_sound  # noqa: PLC0415
    from landfall.driver.process.run import RunOptions, has_end, run_group  # noqa: PLC0415
    from landfall.driver.process.startup import check_hot_path  # noqa: PLC0415

    group = _starting_at(group_file.load(arguments.group, os.environ), arguments.start)
    if group.spec.source.landed and isinstance(arguments.until, datetime):
        raise Stalled(
            Reason.SPEC_INVALID,
            "--until: the ledger of the other group does not contain when records were written to "
            "Kafka: name offsets, or use --until-caught-up",
        )
    options = RunOptions(
        until_caught_up=arguments.until_caught_up,
        goal=_goal(arguments.until),
        max_wait=arguments.max_wait,
        master=arguments.master,
        http_port=arguments.http_port,
        control=_control(arguments.control_port, arguments.token_file),
    )
    # Here, too, so that for an invalid group file only its faults are printed.
    require_sound(group)
    ends = has_end(group, options)
    failures = Printed()
    shown = progress(console.err(), has_end=ends, as_json=arguments.json, failures=failures)
    with shown as show_status:
        # The log handler must be made inside this block: the live table replaces sys.stderr, and
        # only lines written to the replacement scroll above the table instead of through it.
        log_to_stderr(logging.INFO if arguments.verbose else logging.WARNING, failures)
        console.err().print(f"hot path: {check_hot_path()}", markup=False, highlight=False)
        try:
            return run_group(group, options, show_status)
        except PortUnavailable as error:
            of_control = f":{arguments.control_port}:" in str(error)
            option = "--control-port" if of_control else "--http-port"
            raise Stalled(
                Reason.SPEC_INVALID, f"{option}: {error}; 0 takes any free port"
            ) from None


def _starting_at(group: ConsumerGroup, start: object) -> ConsumerGroup:
    """Return the group with these starting offsets, if any are given.

    Raises:
        Stalled: SPEC_INVALID, the group has landed something, and continues where it stopped, or it
            does not land from Kafka.
    """
    if start is None:
        return group
    group.spec.source.require_kafka()
    state = Lane(open_stores(group.spec), group.metadata.name, LANE).read()
    if state.members:
        raise Stalled(
            Reason.SPEC_INVALID,
            f"--from: {group.metadata.name} has landed topic partitions and continues at their "
            "checkpoints; see `landfall status`. To leave records out, use `landfall skip`",
        )
    document = group.model_dump(mode="json", by_alias=True)
    document["spec"]["source"]["kafka"]["startingOffsets"] = start
    return parse_group(document)


def _goal(until: "datetime | Offsets | None") -> "GoalType | None":
    """Return the goal by ``--until``; None leaves it to ``spec.schedule``."""
    from landfall.driver.landing.closed_ranges import until as until_time  # noqa: PLC0415  # as above
    from landfall.driver.landing.goals import UntilOffsets  # noqa: PLC0415

    if until is None:
        return None
    if isinstance(until, datetime):
        return until_time(until)
    ends = {
        TopicPartition(topic, int(number)): end
        for topic, offsets in until.items()
        for number, end in offsets.items()
    }
    return partial(UntilOffsets, ends)


def _control(port: int | None, token_file: Path | None) -> "Control | None":
    """Return the control for requests of this machine; create a missing token file."""
    from landfall.driver.http.control import Control  # noqa: PLC0415  # as above

    if port is None and token_file is None:
        return None
    if port is None or token_file is None:
        raise Stalled(Reason.SPEC_INVALID, "--control-port and --token-file need each other")
    try:
        if not token_file.exists():
            token_file.touch(0o600)
            token_file.write_text(secrets.token_urlsafe(32))
        if not token_file.read_text().strip():
            raise Stalled(Reason.SPEC_INVALID, f"{token_file}: holds no token")
    except OSError as error:
        raise Stalled(Reason.SPEC_INVALID, f"{token_file}: {error.strerror}") from error
    return Control(token_file, "127.0.0.1", port)


def log_to_stderr(level: int, failures: Printed) -> None:
    """Print log events of this level and above as lines on standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(EventFormatter(failures))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("landfall").setLevel(level)
