"""The arguments of ``landfall backfill``, and the help texts that explain them.

Like ``landfall.cli.parser``, this module imports nothing heavy. The commands below ``backfill``
are functions of ``landfall.cli.land.backfill``, but for ``compare`` and ``land``.
"""

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from landfall.api.contract import TERMINATION_FILE
from landfall.cli.decide import add_json
from landfall.cli.feeds.lease_arguments import duration
from landfall.cli.land.backfill_values import cores, generations, moment, object_keys, percentage
from landfall.cli.land.range_arguments import add_max_wait
from landfall.cli.values import natural, port

NewCommand = Callable[[str, str, str], argparse.ArgumentParser]
"""Adds a command, given its name, its summary and its description."""

_ABOUT = """\
Land ranges of topics again, by the present GROUP.yaml, beside what is landed: after bad code was
deployed, or for another format. The live group goes on meanwhile. What a backfill lands is in a
root of its own below _landfall/, where no reader looks. Compare it with what is live, and promote
it: then it takes the place of that, and `landfall undo` brings that back.

  plan      choose the ranges, and write them down
  run       land them, or go on where it was stopped
  status    show how far it is
  compare   compare what it landed with what is live, row by row
  land      plan, run and compare in one command, for a job that is started again
  discard   delete what it landed

`landfall promote-backfill` puts it in the place of what is live.
"""


def add_backfill(new: NewCommand, nested: Callable[[Any], NewCommand]) -> None:
    """Add the command.

    Args:
        new: adds a command.
        nested: what adds commands below one, given its subparsers.
    """
    command = new(
        "backfill",
        "land ranges again beside what is landed, and compare",
        f"""{_ABOUT}
examples:
  landfall backfill plan group.yaml fix-ts --topic clicks --generations 7
  landfall backfill run group.yaml fix-ts --max-cores 2
  landfall backfill compare group.yaml fix-ts
  landfall promote-backfill group.yaml fix-ts --why 'wrong event time since release 7, INC-12'
  landfall backfill discard group.yaml fix-ts
""",
    )
    below = command.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for add in (_plan, _run, _status, _compare, _land, _discard):
        add(nested(below))


def _plan(new: NewCommand) -> None:
    command = new(
        "plan",
        "choose the ranges of a backfill",
        """\
Choose the slices that are landed again: those for which every option here holds, or all without
any. Per topic partition it is one range, from the first slice that is chosen to the last, with
all between. A merged object with rows on both sides of an edge is cut in two before the backfill
is promoted. One whose rows were sorted or rid of duplicates cannot be cut: then the range grows,
and the plan says so. Only what is visible is chosen.

Without --dry-run, the plan is written into the root of the backfill, under a name that was not
used before.

examples:
  landfall backfill plan group.yaml fix-ts --topic clicks --generations 7
  landfall backfill plan group.yaml fix-ts --landed-from 2026-11-20T14:00Z \\
    --landed-until 2026-11-21T09:30Z --dry-run
  landfall backfill plan group.yaml fix-ts --output-partition 'dt=2026-11-2*'
""",
    )
    _add_names(command)
    _add_choice(command)
    command.add_argument(
        "--dry-run", action="store_true", help="show what would be landed again, and write nothing"
    )
    _add_json(command)


def _add_choice(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="TOPIC",
        help="only this topic; may be given several times",
    )
    _add_choice_of_time(command)
    command.add_argument(
        "--generations",
        type=generations,
        default=range(0),
        metavar="N[-M]",
        help="only rows in objects of this generation, or of those from N to M",
    )
    command.add_argument(
        "--output-partition",
        action="append",
        default=[],
        metavar="FOLDERS",
        help="only what has rows in this output partition, with the folders above the topic's if "
        "the group has any; * stands for any text; may be given several times",
    )
    command.add_argument(
        "--objects",
        type=object_keys,
        default=frozenset(),
        metavar="FILE",
        help="only what has rows in the objects of this file: a JSON list of keys, or a document "
        "with a list `wrong` of objects that have a `key` each",
    )
    command.add_argument(
        "--share",
        type=percentage,
        metavar="N%",
        help="only so many of the topic partitions that are chosen otherwise, at least one; which "
        "ones depends on their names alone",
    )
    command.add_argument(
        "--may-shrink",
        action="store_true",
        help="to compare and not to promote: where a range would grow, leave slices at its edges "
        "out instead; --share implies it",
    )


def _add_choice_of_time(command: argparse.ArgumentParser) -> None:
    since = command.add_mutually_exclusive_group()
    since.add_argument(
        "--last",
        type=duration,
        metavar="TIME",
        help="only what was committed in so much time before now, such as 1h",
    )
    since.add_argument(
        "--landed-from",
        type=moment,
        metavar="TIME",
        help="only what was committed at or after this time, such as 2026-11-21T05:00Z",
    )
    command.add_argument(
        "--landed-until",
        type=moment,
        metavar="TIME",
        help="only what was committed before this time",
    )


def _run(new: NewCommand) -> None:
    command = new(
        "run",
        "land the ranges of a backfill",
        """\
Land the ranges of a plan with the present GROUP.yaml, on local Spark, up to their ends. SIGTERM
or Ctrl-C drains. However it ends, run it again to go on: nothing is landed twice.

The records come from where the group has them from. With --backup, they come from what another
group has landed: payloads as they were, with their offsets, long after Kafka forgot them.

examples:
  landfall backfill run group.yaml fix-ts
  landfall backfill run group.yaml fix-ts --max-cores 2 --verbose
  landfall backfill run group.yaml fix-ts --backup backup.yaml
""",
    )
    _add_names(command)
    _add_running(command)
    add_max_wait(command)
    add_json(command, "print each status as a JSON object on a line of standard output")


def _add_running(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--backup",
        type=Path,
        metavar="OTHER.yaml",
        help="read the records from what this group has landed, not from Kafka",
    )
    command.add_argument(
        "--max-cores",
        type=cores,
        default=max(1, (os.cpu_count() or 1) // 2),
        metavar="N",
        help="use so many cores of this machine at most (default: half of them)",
    )
    command.add_argument(
        "--verbose", action="store_true", help="log every event, not only warnings and errors"
    )


def _status(new: NewCommand) -> None:
    command = new(
        "status",
        "show how far a backfill is",
        """\
Show the ranges of a backfill, how far each is landed, and whether it is promoted, by the ledgers.

examples:
  landfall backfill status group.yaml fix-ts
""",
    )
    _add_names(command)
    _add_json(command)


def _compare(new: NewCommand) -> None:
    command = new(
        "compare",
        "compare what a backfill landed with what is live",
        """\
Compare what a backfill landed with the live objects of the same ranges: rows, bytes, objects and
dead letters of each output partition, and each row. Rows that only one of them has are counted,
and the first of them are shown. Once this says what you expect, the backfill is right.

The exit code is 0 if both have the same rows, and 6 if they differ.

examples:
  landfall backfill compare group.yaml fix-ts
  landfall backfill compare group.yaml fix-ts --sample 20 --json
""",
    )
    _add_names(command)
    command.add_argument(
        "--sample",
        type=natural,
        default=3,
        metavar="N",
        help="show so many rows that only one of them has, per output partition (default: "
        "%(default)s)",
    )
    _add_json(command)


def _land(new: NewCommand) -> None:
    command = new(
        "land",
        "plan, land and compare in one command",
        """\
Plan a backfill unless it is planned, land it, and compare it: for a job that runs unattended.
However it ends, run it again to go on; once all is compared, it says so again at once. The exit
code is 0 then, whatever differs, and 2 or 4 if running it again would not help.

examples:
  landfall backfill land group.yaml fix-ts --generations 7 --max-cores 2
  landfall backfill land group.yaml try --last 1h --share 10% --json report.json
""",
    )
    _add_names(command)
    _add_choice(command)
    _add_running(command)
    command.add_argument(
        "--sample",
        type=natural,
        default=1,
        metavar="N",
        help="report so many rows that only one of them has, per output partition (default: "
        "%(default)s)",
    )
    command.add_argument(
        "--master",
        metavar="MASTER",
        help="the Spark master, instead of --max-cores; configured: the one that Spark's own "
        "configuration names",
    )
    _add_reporting(command)


def _add_reporting(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--json", type=Path, metavar="FILE", help="write the report to this file, as JSON"
    )
    command.add_argument(
        "--http-port",
        type=port,
        metavar="N",
        help="serve the report at /status on this port while it runs (default: nowhere)",
    )
    command.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="the address to serve it on (default: %(default)s)",
    )
    command.add_argument(
        "--termination-file",
        type=Path,
        default=Path(TERMINATION_FILE),
        metavar="FILE",
        help="write the report here, too, if the file exists (default: %(default)s)",
    )


def _discard(new: NewCommand) -> None:
    command = new(
        "discard",
        "delete what a backfill landed",
        """\
Delete the objects and uploads of a backfill. Nothing of the live group is touched, nor is what was
promoted: that was copied. A driver that still lands there is fenced. The ledger and the plan stay,
and the name is not used again.

examples:
  landfall backfill discard group.yaml fix-ts
""",
    )
    _add_names(command)
    _add_json(command)
    command.add_argument(
        "--if-planned",
        action="store_true",
        help="end well if it was never planned, so that there is nothing to delete",
    )


def _add_names(command: argparse.ArgumentParser) -> None:
    command.set_defaults(action=command.prog.rpartition(" ")[2])
    command.add_argument(
        "group", type=Path, metavar="GROUP.yaml", help="the file that describes the consumer group"
    )
    command.add_argument("name", metavar="NAME", help="the name of the backfill, such as fix-ts")


def _add_json(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="print one JSON object")
