"""The arguments of ``landfall audit`` and of ``landfall-audit``, and their help text.

Like ``landfall.cli.parser``, which calls ``add``, this module imports nothing heavy.
"""

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

NewCommand = Callable[[str, str, str], argparse.ArgumentParser]
"""Adds a command, given its name, a summary and a description."""
SUMMARY = "compare everything landed with Kafka, independently"
ABOUT = """\
Read Kafka and the landed objects with libraries that the writer does not use, and compare
them. For each topic partition audit counts the records that are

  expected     in Kafka, within the committed offset ranges
  found        of these, in an object or a dead letter
  missing      of these, in no object
  duplicate    rows beyond the first of a record
  misplaced    in another output partition than their own
  corrupted    landed with another payload than Kafka holds, or another value made of it
  disordered   out of offset order
  foreign      rows that match no record in Kafka
  unchecked    not comparable: expired in Kafka, or changed by a transform, for example

and it names lost, moved, damaged and extra objects. It works through one committed range at a
time, so memory stays bounded however much was landed. Nothing is changed, and a driver may be
running.

Which check to use: fsck checks the rules of ledger and objects, and reads no records. verify
reads the objects back and compares them with the ledger. audit compares them with Kafka.

examples:
  landfall audit group.yaml
  landfall audit group.yaml clicks orders --partitions
  landfall audit group.yaml --generation 3     # if earlier generations used another format
  landfall audit group.yaml --allow-unchecked  # after transforms, which it cannot compare
  landfall audit group.yaml --require-all      # nothing may have expired in Kafka
  landfall audit group.yaml --tables           # has each table what it is to have of that?
  landfall audit group.yaml --json | jq .whole"""
EXIT_CODES = """\
exit codes:
  0  no fault found
  1  an unexpected error: please report it
  2  the command line or the group file is invalid; the message names the field
  4  nothing can continue until someone acts; the message names it
  5  the store or Kafka is unavailable; trying again may succeed
  6  a fault was found
  7  there was nothing to check: no ledger, no such topic, or nothing landed
  8  no fault was found, and not everything could be checked
"""


def add(new: NewCommand, nested: Callable[[Any], NewCommand]) -> None:
    """Add the command to ``landfall``.

    Args:
        new: adds a command.
        nested: adds commands below one; not used here.
    """
    del nested
    command = new("audit", SUMMARY, ABOUT)
    command.set_defaults(code="landfall_audit.cli.command:audit")
    add_arguments(command)


def parser() -> argparse.ArgumentParser:
    """Everything that ``landfall-audit`` accepts."""
    command = argparse.ArgumentParser(
        prog="landfall-audit",
        description=ABOUT.replace("  landfall audit ", "  landfall-audit "),
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arguments(command)
    return command


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    command.add_argument(
        "group", type=Path, metavar="GROUP.yaml", help="the file that describes the consumer group"
    )
    command.add_argument(
        "topics", nargs="*", metavar="TOPIC", help="check only these topics (default: all)"
    )
    command.add_argument(
        "--generation", type=natural, metavar="N", help="check only what generation N landed"
    )
    command.add_argument(
        "--tables",
        action="store_true",
        help="compare the tables of Delta and Iceberg with what landed, instead of that with Kafka",
    )
    command.add_argument(
        "--allow-unchecked",
        action="store_true",
        help="exit with 0 instead of 8 if there is no fault and some records are unchecked",
    )
    command.add_argument(
        "--require-all",
        action="store_true",
        help="exit with 8 also if Kafka, or a file, no longer has records that landed",
    )
    command.add_argument(
        "--partitions",
        action="store_true",
        help="print a line per topic partition instead of one per topic",
    )
    command.add_argument(
        "--json", action="store_true", help="print one JSON object, with every topic partition"
    )


def natural(text: str) -> int:
    """Return a number from 0 on that fits in 64 bits.

    Raises:
        ArgumentTypeError: the text is no such number.
    """
    if not re.fullmatch("[0-9]{1,19}", text, re.ASCII) or int(text) > 2**63 - 1:
        raise argparse.ArgumentTypeError(f"must be a number from 0 to {2**63 - 1}, got {text!r}")
    return int(text)
