"""Where ``landfall run`` begins and ends: at times, or at offsets in a file."""

import argparse
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

Offsets: TypeAlias = Mapping[str, Mapping[str, int]]
"""Offsets by topic, then by Kafka partition number as text."""


def add_range(command: argparse.ArgumentParser) -> None:
    """Add ``--from``, ``--until`` and ``--until-caught-up`` to a command."""
    command.add_argument(
        "--from",
        dest="start",
        type=start,
        metavar="START",
        help="where to begin, for a group that has landed nothing yet: a time, a file with "
        "offsets, Earliest or Latest (default: spec.source.kafka.startingOffsets)",
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
