"""The arguments of the commands about one topic of a group: ``explain`` and ``try``."""

import argparse
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from landfall.cli.decide import add_json
from landfall.cli.values import natural

NewCommand = Callable[[str, str, str], argparse.ArgumentParser]
"""Adds a command, given its name, a summary and a description."""


def add_topic_commands(new_command: NewCommand) -> None:
    """Add the commands."""
    _explain(new_command)
    _try(new_command)


def _explain(new_command: NewCommand) -> None:
    command = new_command(
        "explain",
        "print what holds for a topic, and which field says so",
        """\
Print the part of the spec that holds for a topic: the group's own fields, with the first entry
of spec.topics that matches. Behind each value stands where it comes from: an entry, the group,
or the default. Nothing but the file is read.

examples:
  landfall explain group.yaml orders
  landfall explain group.yaml orders | yq .output.format
""",
    )
    _add_group(command)
    command.add_argument("topic", metavar="TOPIC", help="the topic")
    add_json(command, "print one JSON object, without where values come from")


def _try(new_command: NewCommand) -> None:
    command = new_command(
        "try",
        "show what would become of a topic's records, stage by stage",
        """\
Show records before and after the decoder, after each transform, and the object they would be
in, or why they would be dead letters. Nothing is landed, no consumer group is joined, and no
offset is committed. Without --file, the last records of the topic are read from Kafka, or the
rows of the first files of a feed; row R of the Nth part has offset N * 1000000000 + R.

A line of a file is a payload as text or as hexadecimal digits, or, with --input json, a
record: {"value": …, "key": …, "timestamp": MILLISECONDS, "headers": {…}}, where a value is
text, {"base64": "…"}, or any other JSON, which is then the payload.

examples:
  landfall try group.yaml --topic orders --limit 5
  landfall try group.yaml --topic orders --partition 3 --offset 41877
  landfall try group.yaml --topic hourly --only 2026/11/21/04.json.gz
  landfall try group.yaml --topic orders --file payloads.txt
  landfall cat group.yaml _landfall/shop/dead-letters/orders/1_3_00000000000000041000.parquet |
    jq -c '{value, key}' | landfall try group.yaml --topic orders --file - --input json
""",
    )
    _add_group(command)
    command.add_argument("--topic", help="the topic (default: that of the group, if it has one)")
    command.add_argument(
        "--limit", type=natural, default=20, metavar="N", help="show N records (default: 20)"
    )
    command.add_argument(
        "--partition",
        type=natural,
        metavar="N",
        help="read this Kafka partition (default: the first ones that have records)",
    )
    command.add_argument(
        "--offset", type=natural, metavar="N", help="begin here (default: at the last records)"
    )
    command.add_argument(
        "--only", metavar="NAME", help="read this file of a feed (default: the first ones)"
    )
    _add_file(command)
    command.add_argument("--json", action="store_true", help="print one JSON object per record")


def _add_file(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--file",
        metavar="FILE",
        help="read records from a file instead, or from - (standard input)",
    )
    command.add_argument(
        "--input",
        choices=("text", "hex", "json"),
        default="text",
        help="what a line of the file is (default: text)",
    )
    command.add_argument(
        "--timestamp",
        type=instant,
        metavar="TIME",
        help="the Kafka timestamp of records in a file that have none (default: now)",
    )


def instant(text: str) -> datetime:
    """A time in ISO 8601, UTC if it names no time zone.

    Raises:
        ArgumentTypeError: it is none.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"must be a time in ISO 8601, got {text!r}") from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _add_group(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "group", type=Path, metavar="GROUP.yaml", help="the file that describes the consumer group"
    )
