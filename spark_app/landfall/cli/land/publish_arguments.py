"""The arguments of ``landfall publish``. It imports nothing heavy."""

from pathlib import Path

from landfall.cli.decide import NewCommand


def add_publish(new: NewCommand) -> None:
    """Add the command."""
    command = new(
        "publish",
        "publish what landed, without a driver",
        """\
Publish what landed and is not published yet, to the destinations of spec.publish, as the
group's driver does while it lands. It is safe at any time, also beside a driver and beside
other runs: each destination takes what is published exactly as its page in the documentation
promises.

With --rebuild, the publishers that are named begin at the start of the ledger again. The rows of
each table are replaced in one commit, which is made once all new ones are known to fit. What cannot
be taken back, such as a message, is sent again.

examples:
  landfall publish group.yaml                    # every publisher of the group
  landfall publish group.yaml lake --dry-run     # only say what would be done
  landfall publish group.yaml lake --rebuild     # fill the tables of lake anew
""",
    )
    command.add_argument(
        "group", type=Path, metavar="GROUP.yaml", help="the file that describes the consumer group"
    )
    command.add_argument(
        "names",
        nargs="*",
        metavar="PUBLISHER",
        help="names of publishers in spec.publish; all of them if none is named",
    )
    command.add_argument(
        "--rebuild", action="store_true", help="let the publishers that are named begin anew"
    )
    command.add_argument(
        "--dry-run", action="store_true", help="say what would be done, and change nothing"
    )
    command.add_argument(
        "--json", action="store_true", help="print one JSON object for each publisher"
    )
