"""The arguments of the commands that show groups and ledgers.

They import nothing heavy: help texts wait neither for NumPy nor for the models of a spec.
"""

import argparse
from datetime import timedelta

from landfall.cli.options import NewCommand, add_group, add_json, add_report_options
from landfall.cli.values import duration, natural, time


def add_status(new: NewCommand) -> None:
    """Add the command."""
    command = new(
        "status",
        "show checkpoints and lag, from the ledger and Kafka",
        """\
Show the group's checkpoints, lag and totals. This command reads the ledger and asks Kafka for
the end offsets, so it works whether or not a driver is running.

examples:
  landfall status group.yaml
  landfall status group.yaml --partitions
  landfall status group.yaml --json | jq .lag_records
""",
    )
    add_group(command)
    add_report_options(command)


_ABOUT_TABLE = """\
Show the state of the tables that the group publishes: their files, and how many are small (below
compact.below, which is 64Mi by default); the snapshots or versions that they keep, and the size of
their metadata; replaced objects that are not deleted yet, so that their rows are stored twice, and
what keeps them; what a table does not have yet, and since when; and when maintenance last changed
something. The ledger, the catalog and the metadata of tables are read, and nothing is changed. It
works whether or not a driver is running.

Of Hive, Glue and BigQuery only the position in the ledger is known.

Exit code 6: a table waits for a user. 7: the group publishes no tables.

examples:
  landfall table group.yaml
  landfall table group.yaml lake                 # only the publisher lake
  landfall table group.yaml -o json | jq '.publishers[].tables[] | {table, waiting_objects}'
"""


def add_table(new: NewCommand) -> None:
    """Add the command."""
    command = new("table", "show the state of the published tables", _ABOUT_TABLE)
    add_group(command)
    command.add_argument(
        "names",
        nargs="*",
        metavar="PUBLISHER",
        help="names of publishers in spec.publish; all of them if none is named",
    )
    add_json(command)


KINDS = (
    *("OPEN", "ADD", "DROP", "COMMIT", "REPAIR", "HOLE", "LOST", "BLOCK", "UNBLOCK", "REPLAY"),
    *("FINALIZE", "RUN", "DISCOVER", "LEASE", "EXTEND", "OUTCOME", "REPLACE", "RETIRED"),
    *("SNAPSHOT", "APPLIED", "SEGMENT", "YIELD"),
)
"""The tags of the ledger's records."""

_ABOUT_LOG = """\
List the records of the group's ledger, the last one first: slot, time (UTC), kind, what it says,
its numbers, and of a request, who made it and why. Of a REPLACE, which puts merged,
backfilled or restored objects into use, also whether it is applied and whether it was undone; its
slot is what `landfall undo` takes. Nothing is changed, and a driver may be running.

kinds: OPEN and YIELD (a driver takes the lane, gives it up), ADD and DROP (topic partitions enter,
leave), COMMIT (records are landed), HOLE (offsets are skipped), REPLAY (dead letters are landed
again), REPLACE and RETIRED, REPAIR and LOST (uploads that were lost are made again, given up),
BLOCK and UNBLOCK, FINALIZE (hours are complete), RUN (a closed range is landed), DISCOVER (files),
LEASE, EXTEND and OUTCOME (of files processed externally), APPLIED, SNAPSHOT and SEGMENT.

examples:
  landfall log group.yaml -n 20
  landfall log group.yaml --decisions                # what was asked for, by whom and why
  landfall log group.yaml --kind replace --topic clicks
  landfall log group.yaml --since 2026-11-21 --until 2026-11-22 --reverse
  landfall log group.yaml --kind commit --json | jq .counts.records
"""


def add_log(new: NewCommand) -> None:
    """Add the command."""
    command = new("log", "list the records of the ledger, who asked for them and why", _ABOUT_LOG)
    add_group(command)
    command.add_argument(
        "--kind",
        action="append",
        default=[],
        type=_kind,
        metavar="KIND",
        help="only records of this kind; may be given several times",
    )
    command.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="TOPIC",
        help="only records about this topic; may be given several times",
    )
    command.add_argument(
        "--since",
        type=time,
        metavar="TIME",
        help="only records that were written at this time or later; UTC if it has no time zone",
    )
    command.add_argument(
        "--until", type=time, metavar="TIME", help="only records that were written before"
    )
    command.add_argument(
        "--decisions", action="store_true", help="only what was asked for by a command"
    )
    command.add_argument(
        "-n", "--limit", type=natural, metavar="N", help="only the last N of these records"
    )
    command.add_argument("--reverse", action="store_true", help="print the oldest record first")
    add_json(command, "print one JSON object per record")


def _kind(text: str) -> str:
    """The tag of a kind of record, however it is capitalized.

    Raises:
        ArgumentTypeError: there is no such kind.
    """
    if text.upper() not in KINDS:
        known = ", ".join(KINDS)
        raise argparse.ArgumentTypeError(f"no kind of record: {text!r}; there are {known}")
    return text.upper()


_ABOUT_LS = """\
List the groups whose ledgers are in a root: the state of the lane (held by a driver, or yielded),
the generation, how many topics are landed, how many slots the ledger has, and when something was
landed last. URL is spec.output.url of a group, or spec.ledger.url, where many groups
may have theirs. No group file is needed: the store is opened by the environment's credentials.
Roots in folders below it are not searched for.

Exit code 6: a ledger is broken. 7: no group has its ledger there.

examples:
  landfall ls s3://logs/parsed
  landfall ls s3://logs/ledgers --json | jq -r .group
"""


def add_ls(new: NewCommand) -> None:
    """Add the command."""
    command = new("ls", "list the groups whose ledgers are in a root", _ABOUT_LS)
    command.add_argument("url", metavar="URL", help="an output root, or the root of ledgers")
    add_json(command, "print one JSON object per group")


_ABOUT_TOP = """\
Show the groups whose ledgers are in a root, the fastest first, with what each lands at present:
again every few seconds until you interrupt it, on a terminal in place. Drivers are not asked, so
groups without a driver are there, too. With --json each look is one JSON array on a line.
`kubectl landfall top -A` shows the groups of a cluster.

examples:
  landfall top s3://logs/parsed
  landfall top s3://logs/parsed --interval 30s
  landfall top s3://logs/parsed --once
  landfall top s3://logs/parsed --count 2 --json | tail -1 | jq '.[0]'
"""


def add_top(new: NewCommand) -> None:
    """Add the command."""
    command = new("top", "watch what all groups of a root land at present", _ABOUT_TOP)
    command.add_argument("url", metavar="URL", help="an output root, or the root of ledgers")
    command.add_argument(
        "--interval",
        type=duration,
        default=timedelta(seconds=5),
        metavar="DURATION",
        help="the time between two looks (default: 5s)",
    )
    looks = command.add_mutually_exclusive_group()
    looks.add_argument("--count", type=natural, metavar="N", help="look so many times, then end")
    looks.add_argument(
        "--once", dest="count", action="store_const", const=1, help="the same as --count 1"
    )
    add_json(command, "print a JSON array for each look")
