"""The arguments of the commands that land and publish: ``run``, ``publish`` and ``backfill``.

They import nothing heavy: help texts wait neither for NumPy nor for the models of a spec.
"""

import argparse
import os
from pathlib import Path

from landfall.api.contract import TERMINATION_FILE
from landfall.cli.options import (
    Nested,
    NewCommand,
    add_group,
    add_json,
    add_max_wait,
    add_verbose,
)
from landfall.cli.values import (
    cores,
    duration,
    end,
    generations,
    moment,
    natural,
    object_keys,
    percentage,
    port,
    spark_master,
    start,
)


def add_run(new: NewCommand) -> None:
    """Add the command."""
    command = new(
        "run",
        "land the group's topics on local Spark",
        """\
Land the group's topics until stopped. SIGTERM or Ctrl-C drains: the driver finishes the
batches in flight, hands the group over and exits. A second signal ends it at once. However and
whenever the driver ends, no record is lost and none is landed twice.

examples:
  landfall run group.yaml
  landfall run group.yaml --until-caught-up    # land what the topics hold now, then stop
  landfall run group.yaml --until 2026-11-21T05:00Z    # what Kafka dates before, then stop
  landfall run group.yaml --master 'local[4]' --http-port 8080 &
  curl localhost:8080/status
  landfall run group.yaml --control-port 8081 --token-file token &
  landfall skip clicks/3 --driver http://localhost:8081 --token-file token --why 'INC-12'
""",
    )
    add_group(command)
    _add_range(command)
    command.add_argument(
        "--master",
        type=spark_master,
        default="local[*]",
        help="the Spark master; local[N] uses N cores of this machine (default: %(default)s)",
    )
    command.add_argument(
        "--http-port",
        type=port,
        metavar="N",
        help="the port of /status and /metrics; 0 takes any free port "
        "(default: spec.tuning.httpPort, or any free port if that one is taken)",
    )
    _add_control(command)
    add_json(command, "print each status as a JSON object on a line of standard output")
    add_verbose(command)


def _add_range(command: argparse.ArgumentParser) -> None:
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


def _add_control(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--control-port",
        type=port,
        metavar="N",
        help="take requests such as `landfall skip --driver http://localhost:N` on this port",
    )
    command.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="the token that such requests need; made, for you alone, if there is no such file",
    )


def add_publish(new: NewCommand) -> None:
    """Add the command."""
    command = new(
        "publish",
        "publish what landed, without a driver",
        """\
Publish what landed and is not published yet, to the destinations of spec.publish, as the
group's driver does while it lands. It is safe at any time, also alongside a driver and
other runs: each destination takes what is published exactly as its page in the documentation
promises.

With --rebuild, the publishers that are named begin at the start of the ledger again. The rows of
each table are replaced in one commit, which is made once all new ones are known to fit. What cannot
be taken back, such as a message, is sent again.

examples:
  landfall publish group.yaml                    # every publisher of the group
  landfall publish group.yaml lake --dry-run     # only show what would be done
  landfall publish group.yaml lake --rebuild     # fill the tables of lake again
""",
    )
    add_group(command)
    command.add_argument(
        "names",
        nargs="*",
        metavar="PUBLISHER",
        help="names of publishers in spec.publish; all of them if none is named",
    )
    command.add_argument(
        "--rebuild", action="store_true", help="let the publishers that are named begin again"
    )
    command.add_argument(
        "--dry-run", action="store_true", help="show what would be done, and change nothing"
    )
    add_json(command, "print one JSON object for each publisher")


_ABOUT_BACKFILL = """\
Land ranges of topics again, by the present GROUP.yaml, next to what is landed: after bad code was
deployed, or for another format. The live group continues meanwhile. What a backfill lands is in a
root of its own below _landfall/, where no reader looks. Compare it with what is live, and promote
it: then it replaces that, and `landfall undo` brings that back.

  plan      choose the ranges, and write them down
  run       land them, or continue where it was stopped
  status    show how far it is
  compare   compare what it landed with what is live, row by row
  land      plan, run and compare in one command, for a job that is started again
  discard   delete what it landed

`landfall promote-backfill` replaces what is live with it.
"""


def add_backfill(new: NewCommand, nested: Nested) -> None:
    """Add the command.

    Args:
        new: adds a command.
        nested: what adds commands below one, given its subparsers.
    """
    command = new(
        "backfill",
        "land ranges again next to what is landed, and compare",
        f"""{_ABOUT_BACKFILL}
examples:
  landfall backfill plan group.yaml fix-ts --topic clicks --generations 7
  landfall backfill run group.yaml fix-ts --max-cores 2
  landfall backfill compare group.yaml fix-ts
  landfall promote-backfill group.yaml fix-ts --why 'wrong event time since release 7, INC-12'
  landfall backfill discard group.yaml fix-ts
""",
    )
    below = command.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for add in (
        _backfill_plan,
        _backfill_run,
        _backfill_status,
        _backfill_compare,
        _backfill_land,
        _backfill_discard,
    ):
        add(nested(below))


def _backfill_plan(new: NewCommand) -> None:
    command = new(
        "plan",
        "choose the ranges of a backfill",
        """\
Choose the slices that are landed again: those for which every option here holds, or all without
any. Per topic partition it is one range, from the first slice that is chosen to the last, with
all between. A merged object with rows on both sides of an edge is cut in two before the backfill
is promoted. One whose rows were sorted or rid of duplicates cannot be cut: then the range grows,
and the plan shows it. Only what is visible is chosen.

Without --dry-run, the plan is written into the root of the backfill, under a name that was not
used before.

examples:
  landfall backfill plan group.yaml fix-ts --topic clicks --generations 7
  landfall backfill plan group.yaml fix-ts --landed-from 2026-11-20T14:00Z \\
    --landed-until 2026-11-21T09:30Z --dry-run
  landfall backfill plan group.yaml fix-ts --output-partition 'dt=2026-11-2*'
""",
    )
    _add_backfill(command)
    _add_choice(command)
    command.add_argument(
        "--dry-run", action="store_true", help="show what would be landed again, and write nothing"
    )
    add_json(command)


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


def _backfill_run(new: NewCommand) -> None:
    command = new(
        "run",
        "land the ranges of a backfill",
        """\
Land the ranges of a plan with the present GROUP.yaml, on local Spark, up to their ends. SIGTERM
or Ctrl-C drains. However it ends, run it again to continue: nothing is landed twice.

The records come from where the group has them from. With --backup, they come from what another
group has landed: payloads as they were, with their offsets, long after Kafka forgot them.

examples:
  landfall backfill run group.yaml fix-ts
  landfall backfill run group.yaml fix-ts --max-cores 2 --verbose
  landfall backfill run group.yaml fix-ts --backup backup.yaml
""",
    )
    _add_backfill(command)
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
    add_verbose(command)


def _backfill_status(new: NewCommand) -> None:
    command = new(
        "status",
        "show how far a backfill is",
        """\
Show the ranges of a backfill, how far each is landed, and whether it is promoted, by the ledgers.

examples:
  landfall backfill status group.yaml fix-ts
""",
    )
    _add_backfill(command)
    add_json(command)


def _backfill_compare(new: NewCommand) -> None:
    command = new(
        "compare",
        "compare what a backfill landed with what is live",
        """\
Compare what a backfill landed with the live objects of the same ranges: rows, bytes, objects and
dead letters of each output partition, and each row. Rows that only one of them has are counted,
and the first of them are shown. Once this shows what you expect, the backfill is right.

The exit code is 0 if both have the same rows, and 6 if they differ.

examples:
  landfall backfill compare group.yaml fix-ts
  landfall backfill compare group.yaml fix-ts --sample 20 --json
""",
    )
    _add_backfill(command)
    command.add_argument(
        "--sample",
        type=natural,
        default=3,
        metavar="N",
        help="show so many rows that only one of them has, per output partition (default: "
        "%(default)s)",
    )
    add_json(command)


def _backfill_land(new: NewCommand) -> None:
    command = new(
        "land",
        "plan, land and compare in one command",
        """\
Plan a backfill unless it is planned, land it, and compare it: for a job that runs unattended.
However it ends, run it again to continue; once all is compared, it reports that at once. The exit
code is 0 then, even if rows differ, and 2 or 4 if running it again would not help.

examples:
  landfall backfill land group.yaml fix-ts --generations 7 --max-cores 2
  landfall backfill land group.yaml try --last 1h --share 10% --json report.json
""",
    )
    _add_backfill(command)
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


def _backfill_discard(new: NewCommand) -> None:
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
    _add_backfill(command)
    add_json(command)
    command.add_argument(
        "--if-planned",
        action="store_true",
        help="end well if it was never planned, so that there is nothing to delete",
    )


def _add_backfill(command: argparse.ArgumentParser) -> None:
    command.set_defaults(action=command.prog.rpartition(" ")[2])
    add_group(command)
    command.add_argument("name", metavar="NAME", help="the name of the backfill, such as fix-ts")
