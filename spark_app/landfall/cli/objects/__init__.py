"""The arguments of ``scan``, which finds landed objects that are wrong by today's spec."""

import argparse
from datetime import UTC, datetime
from pathlib import Path

from landfall.cli.author import NewCommand

_ABOUT = """\
Read landed objects of a topic and name those that cannot be read, or that have another number of
rows than the ledger says. Where rows are the payloads, they are decoded and routed as the group
file says now: objects are named, too, that hold rows of another output partition, rows that would
be dead letters today, and rows that today's transforms leave out. Nothing is changed.

With --backup, each range is also decoded from the payloads that another group has landed of it,
and every row is compared, whatever it was made of.

Which objects there are, the ledger says. --from and --until are times at which they were
committed: those of a deployment with bad code, and of its end, as `landfall log --kind open` lists
them.

examples:
  landfall scan group.yaml --topic clicks
  landfall scan group.yaml --topic clicks --from 2026-11-21T10:00Z --until 2026-11-21T14:30Z
  landfall scan group.yaml --topic clicks --output-partition 'dt=2026-11-21' --json > wrong.json
  landfall scan group.yaml --topic clicks --backup backup.yaml

--json lists for each wrong object the range of offsets that it was landed with, for a backfill.
"""


def add_scan(new_command: NewCommand) -> None:
    """Add the command."""
    command = new_command(
        "scan",
        "find landed objects that are wrong by today's spec",
        _ABOUT,
    )
    command.add_argument(
        "group", type=Path, metavar="GROUP.yaml", help="the file that describes the consumer group"
    )
    command.add_argument("--topic", required=True, metavar="TOPIC", help="the topic")
    command.add_argument(
        "--from",
        dest="start",
        type=time,
        metavar="TIME",
        help="only objects that were committed at this time or later; UTC if it has no time zone",
    )
    command.add_argument(
        "--until", type=time, metavar="TIME", help="only objects that were committed before"
    )
    command.add_argument(
        "--output-partition",
        default="",
        metavar="FOLDERS",
        help="only this output partition, or those below these folders; * stands for any text",
    )
    command.add_argument(
        "--backup",
        type=Path,
        metavar="OTHER.yaml",
        help="compare rows with what today's decoder makes of the payloads that this group landed",
    )
    add_plugin(command)
    command.add_argument("--json", action="store_true", help="print one JSON object")


def add_plugin(command: argparse.ArgumentParser) -> None:
    """Add the option that names formats of your own."""
    command.add_argument(
        "--plugin",
        action="append",
        default=[],
        metavar="MODULE:NAME",
        help="import this format if a former spec names it, which lies in the bucket; "
        "may be repeated",
    )


def time(text: str) -> datetime:
    """A time, in UTC if it names no time zone.

    Raises:
        ArgumentTypeError: it is none.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        message = f"not a time, such as 2026-11-21T05:00Z: {text!r}"
        raise argparse.ArgumentTypeError(message) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
