"""Where ``landfall run`` begins and ends: at times, or at offsets in a file."""

import argparse
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

from landfall.cli.feeds.lease_arguments import duration

Offsets: TypeAlias = Mapping[str, Mapping[str, int]]
"""Offsets by topic, then by Kafka partition number as text."""
MAX_WAIT = timedelta(minutes=10)
"""How long a run with an end waits for servers."""


def add_range(command: argparse.ArgumentParser) -> None:
    """Add ``--from``, ``--until``, ``--until-caught-up`` and ``--max-wait`` to a command."""
    command.add_argument(
        "--from",
        dest="start",
        type=start,
        metavar="START",
        help="where to begin, for a group that has landed nothing yet: a time, a file with "
        "offsets, Earliest, or Latest, by which what the topics hold now never lands (default: "
        "spec.source.kafka.startingOffsets)",
    )
    limit = command.add_mutually_exclusive_group()
    limit.add_argument(
        "--until-caught-up",
        action="store_true",
        help="stop once every record that the topics held at the start is landed",
    )
    limit.add_argument(
        "--until",
        type=end,
        metavar="END",
        help="stop once everything is landed that Kafka dates before this time, such as "
        "2026-11-21T05:00Z; or up to the offsets in a file: "
        '{"TOPIC": {"PARTITION": OFFSET}}',
    )
    add_max_wait(command)


def add_max_wait(command: argparse.ArgumentParser) -> None:
    """Add ``--max-wait`` to a command that runs a driver with an end."""
    command.add_argument(
        "--max-wait",
        type=wait,
        default=MAX_WAIT,
        metavar="DURATION",
        help="end with exit code 5 if a run with an end can land nothing for this long, such as "
        "because Kafka does not answer (default: 10m; 0 waits for ever)",
    )


def wait(text: str) -> timedelta | None:
    """A time; None for 0, which is for ever.

    Raises:
        ArgumentTypeError: it is none.
    """
    return None if text == "0" else duration(text)


def start(text: str) -> Any:
    """The value of ``startingOffsets`` that an argument says.

    Raises:
        ArgumentTypeError: it says none.
    """
    if text in {"Earliest", "Latest"}:
        return text
    found = end(text)
    if isinstance(found, datetime):
        return {"timestamp": found.isoformat()}
    return {"offsets": found}


def end(text: str) -> datetime | Offsets:
    """A time, in UTC if it names no time zone, or the offsets in a file.

    Raises:
        ArgumentTypeError: it is neither.
    """
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return _offsets(Path(text))
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _offsets(path: Path) -> Offsets:
    try:
        found = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise argparse.ArgumentTypeError(
            f"{path} is neither a time, such as 2026-11-21T05:00Z, nor a file: {error.strerror}"
        ) from None
    except (ValueError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"{path}: not JSON: {error}") from None
    if not _are_offsets(found):
        raise argparse.ArgumentTypeError(
            f'{path}: expected offsets, such as {{"clicks": {{"0": 1200}}}}'
        )
    offsets: Offsets = found
    return offsets


def _are_offsets(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(partitions, dict)
        and all(
            number.isdecimal() and isinstance(offset, int) and offset >= 0
            for number, offset in partitions.items()
        )
        for partitions in value.values()
    )
