"""Options that several commands take. Imports nothing heavy, like ``landfall.cli.parser``."""

import argparse
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from landfall.cli.values import wait

NewCommand = Callable[[str, str, str], argparse.ArgumentParser]
"""Adds a command, given its name, its summary and its description."""
Nested = Callable[[Any], NewCommand]
"""Adds commands below one, given its subparsers."""

WAYS = """
With --driver, or inside a driver's pod, the running driver is asked. Otherwise the ledger is
opened here, recorded in, and handed over again; while a driver has it that needs --take-over,
which fences that driver (safe at any time: its Deployment restarts it).
"""
MAX_WAIT = timedelta(minutes=10)
"""How long a bounded run waits for servers."""


def add_group(command: argparse.ArgumentParser) -> None:
    """Add the group's file."""
    command.add_argument(
        "group", type=Path, metavar="GROUP.yaml", help="the file that describes the consumer group"
    )


def add_topics(command: argparse.ArgumentParser) -> None:
    """Add the topics to check."""
    command.add_argument(
        "topics", nargs="*", metavar="TOPIC", help="check only these topics (default: all)"
    )


def add_json(command: argparse.ArgumentParser, what: str = "print one JSON object") -> None:
    """Add ``--json``, and with it ``-o json``."""
    command.add_argument("--json", action="store_true", help=what)


def add_report_options(command: argparse.ArgumentParser) -> None:
    """Add ``--partitions`` and ``--json``."""
    command.add_argument(
        "--partitions",
        action="store_true",
        help="print a line per topic partition instead of one per topic",
    )
    add_json(command, "print one JSON object, with every topic partition")


def add_verbose(command: argparse.ArgumentParser) -> None:
    """Add ``--verbose`` to a command that runs a driver."""
    command.add_argument(
        "--verbose", action="store_true", help="log every event, not only warnings and errors"
    )


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


def add_driver(command: argparse.ArgumentParser) -> None:
    """Add where a request is executed: by a driver, or here."""
    command.add_argument(
        "--driver",
        metavar="URL",
        help="the control port of the running driver (default in a driver's pod: its own)",
    )
    command.add_argument(
        "--token-file",
        metavar="FILE",
        help="the file with the control token (default: $LANDFALL_CONTROL_TOKEN_FILE)",
    )
    add_take_over(command)
    add_json(command)


def add_take_over(command: argparse.ArgumentParser) -> None:
    """Add ``--take-over``."""
    command.add_argument(
        "--take-over",
        action="store_true",
        help="open the ledger here even if a driver has it, which fences that driver",
    )


def add_decision(command: argparse.ArgumentParser, *, needs_why: bool) -> None:
    """Add the requester, the reason, and the dry run."""
    command.add_argument(
        "--why",
        required=needs_why,
        default="",
        metavar="TEXT",
        help="the reason, which the ledger keeps",
    )
    command.add_argument(
        "--who", metavar="NAME", help="who asks, which the ledger keeps (default: user@host)"
    )
    command.add_argument(
        "--dry-run", action="store_true", help="print what would be recorded, and record nothing"
    )
