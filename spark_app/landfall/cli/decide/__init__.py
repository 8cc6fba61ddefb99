"""The arguments of the commands that decide about records.

They import nothing heavy: help texts wait neither for NumPy nor for the models of a spec.
"""

import argparse

from landfall.cli.options import (
    WAYS,
    NewCommand,
    add_decision,
    add_driver,
    add_group,
    add_json,
    add_take_over,
)
from landfall.cli.values import natural, position

_TARGET_HELP = {
    "TP": "the group's file (default: $LANDFALL_GROUP) and what this is about, as clicks/3",
    "SLOT": "the group's file (default: $LANDFALL_GROUP) and the number of a slot of its ledger",
    "NAME": "the group's file (default: $LANDFALL_GROUP) and the name of a backfill",
    "": "the group's file; ignored when a driver is asked",
}


def add_verbs(new: NewCommand) -> None:
    """Add every command of ``landfall.api.verbs``, and ``import-offsets``."""
    for add in (_skip, _unblock, _drop, _reset, _replay, _promote, _undo, _retry, _import_offsets):
        add(new)


def _skip(new: NewCommand) -> None:
    command = _verb(
        new=new,
        name="skip",
        summary="continue after what is lost, and record what was skipped",
        about="""\
Continue after a range that is lost, and record exactly what was skipped: offsets that Kafka deleted
before they were landed, or committed objects that can never be made again. With --until also
records that are there are skipped, such as a range that no decoder can read.
""",
        examples="""\
  landfall skip group.yaml clicks/3 --why 'retention was 1 h during the outage' --dry-run
  landfall skip group.yaml clicks/3 --until 41900 --why 'poison from release 7, see INC-12'
  kubectl exec deploy/clicks-g1-1a2b3c4d -- landfall skip clicks/3 --why 'expired, see INC-12'
""",
    )
    command.add_argument(
        "--until", type=natural, metavar="OFFSET", help="continue at this offset, and not before it"
    )


def _unblock(new: NewCommand) -> None:
    command = _verb(
        new=new,
        name="unblock",
        summary="land a blocked topic partition again",
        about="""\
Land a topic partition again that is blocked: with bad records over the limit (they become dead
letters), or because its log was truncated (landing continues at the checkpoint).
""",
        examples="""\
  landfall unblock group.yaml clicks/3 --why 'the bad release is gone, its records may be bad'
  landfall unblock group.yaml clicks/3 --bad-records-until 52000 --why 'INC-12'
""",
    )
    command.add_argument(
        "--bad-records-until",
        type=natural,
        metavar="OFFSET",
        help="allow any share of bad records below this offset (default: the end of the log now)",
    )


def _drop(new: NewCommand) -> None:
    _verb(
        new=new,
        name="drop",
        summary="land a topic partition no more",
        about="""\
Take a topic partition out of the ledger. It is not landed again, even if the spec names it,
until `landfall reset` lets it in. What is landed stays.
""",
        examples="""\
  landfall drop group.yaml clicks/3 --why 'moved to another group'
""",
    )


def _reset(new: NewCommand) -> None:
    command = _verb(
        new=new,
        name="reset",
        summary="land a topic partition from another offset on",
        about="""\
Land a topic partition from another offset on. Ahead, what lies between is recorded as skipped.
Back, or to let in what was dropped, it needs a generation that has named no objects of the topic
partition: raise spec.generation first. What earlier generations landed stays, so readers that
take all generations see those records twice.
""",
        examples="""\
  landfall reset group.yaml clicks/3 --to latest --why 'backlog of a load test'
  landfall reset group.yaml clicks/3 --to 41000 --why 'land again with the mended decoder'
""",
    )
    command.add_argument(
        "--to",
        type=position,
        required=True,
        metavar="OFFSET",
        help="the next offset to land: a number, earliest or latest",
    )


def _replay(new: NewCommand) -> None:
    command = _verb(
        new=new,
        name="replay-dead-letters",
        summary="land dead letters again, through the present decoder",
        about="""\
Land dead letters again, through the decoder, transforms and route that the spec has now. Each
dead-letter object is replayed once. New objects are named after spec.generation, which must be
above the one that wrote the dead letters. What is bad again becomes a new dead letter.
""",
        examples="""\
  landfall replay-dead-letters group.yaml clicks --why 'decoder mended in generation 4' --dry-run
  landfall replay-dead-letters group.yaml clicks/3 --from 41000 --until 42000 --why 'INC-12'
""",
        target="TOPIC[/PARTITION]",
    )
    command.add_argument(
        "--from",
        dest="first",
        type=natural,
        default=0,
        metavar="OFFSET",
        help="only dead-letter objects with a record at or after this offset",
    )
    command.add_argument(
        "--until", type=natural, metavar="OFFSET", help="and with one before this offset"
    )


def _promote(new: NewCommand) -> None:
    command = _verb(
        new=new,
        name="promote-backfill",
        summary="replace live objects with those that a backfill has landed",
        about="""\
Replace the live objects of some ranges with those that a backfill has landed of them, by one record
of the ledger, REPLACE: compare them first, with `landfall backfill compare`. Its objects are copied
into the live root, under new names. The old ones retire, and are kept for
spec.tuning.retainReplaced: until then `landfall undo` of the slot that this prints takes it back.
Without a running driver, it is recorded here and carried out by the next one.

The live group must have run the generation that the backfill was landed by. If the live
objects were replaced by something else since `backfill plan`, it is refused: make another plan.
`kubectl landfall promote` is about a rollout; this command is called promote-backfill there, too.
""",
        examples="""\
  landfall promote-backfill group.yaml fix-ts --why 'wrong time since release 7' --dry-run
  landfall promote-backfill group.yaml fix-ts --why 'wrong time since release 7'
  kubectl exec deploy/clicks-g1-1a2b3c4d -- landfall promote-backfill fix-ts --why 'INC-12'
""",
        target="NAME",
    )
    command.set_defaults(verb="promote")  # as requests and the ledger name it


def _undo(new: NewCommand) -> None:
    command = _verb(
        new=new,
        name="undo",
        summary="bring back objects that a merge or a backfill has replaced",
        about="""\
Bring back the objects that the REPLACE in a slot of the ledger has retired, as by compaction. They
are copied from where they are kept (spec.tuning.retainReplaced), and get new names. What had
replaced them retires, and is kept in turn: an undoing can be undone. `landfall log --kind replace`
lists the slots, `landfall locate` of a record in a new object names its own, as does `landfall cat`
of an object that has retired. Without a running driver, an undoing is recorded here and carried out
by the next one.

If the same output partitions were replaced again since, the answer names the slot to undo first.
What was undone is no obstacle. Of a merge, some output partitions can be undone, and the rest
stays merged; a backfill is undone as a whole.

A REPLACE that is not applied yet, as its new objects are refused by the store or take long, is
given up: what it was to replace counts as before, and nothing is copied.
""",
        examples="""\
  landfall undo group.yaml 977 --why 'merged by the wrong key, see INC-12' --dry-run
  landfall undo group.yaml 977 --output-partition 'dt=2026-11-21/hr=04' --why 'INC-12'
  kubectl exec deploy/clicks-g1-1a2b3c4d -- landfall undo 977 --why 'INC-12'
""",
        target="SLOT",
    )
    command.add_argument(
        "--output-partition",
        action="append",
        default=[],
        metavar="FOLDERS",
        help="only objects in this output partition, with the folders above the topic's if the "
        "group has any; * stands for any text; may be given several times",
    )


def _retry(new: NewCommand) -> None:
    _verb(
        new=new,
        name="retry",
        summary="let a running driver try everything again now",
        about="""\
Let a running driver forget how long it waits before it tries again, and what it was denied: for
use right after access was granted. Nothing is recorded in the ledger.

To retry is to try again now what waits or was given up, at three places: here what one driver
waits for; by `landfall files retry` files that could not be read; by `kubectl landfall retry` all
that waits in a group of a cluster, a revision that was rolled back, too, and its driver like here.
""",
        examples="""\
  landfall retry --driver http://localhost:8081 --token-file token
  kubectl exec deploy/clicks-g1-1a2b3c4d -- landfall retry
""",
        target="",
    )


def _import_offsets(new: NewCommand) -> None:
    command = new(
        "import-offsets",
        "take a Kafka group's committed offsets as starting offsets",
        """\
Print the offsets that a Kafka consumer group has committed for the group's topics, as
spec.source.kafka.startingOffsets: landing then begins where that group stopped. Stop it first.
Topic partitions for which it has committed nothing are named, and begin at their log start.

With --add they enter the ledger at once instead, those that are not in it yet.

examples:
  landfall import-offsets group.yaml secor_backup
  landfall import-offsets group.yaml secor_backup --add --why 'migration from Secor'
""",
    )
    add_group(command)
    command.add_argument("kafka_group", metavar="KAFKA_GROUP", help="the Kafka consumer group's id")
    add_json(command)
    command.add_argument(
        "--add", action="store_true", help="let the topic partitions enter the ledger now"
    )
    add_decision(command, needs_why=False)
    add_take_over(command)


def _verb(  # noqa: PLR0913  # the texts of one command
    new: NewCommand, name: str, summary: str, about: str, examples: str, *, target: str = "TP"
) -> argparse.ArgumentParser:
    kubernetes = "" if name == "retry" else WAYS
    command = new(name, summary, f"{about}{kubernetes}\nexamples:\n{examples}")
    command.set_defaults(verb=name)
    shown = {"TP": "[GROUP.yaml] TOPIC/PARTITION", "": "GROUP.yaml"}.get(
        target, f"[GROUP.yaml] {target}"
    )
    command.add_argument(
        "target",
        nargs="+" if target else "*",
        metavar=shown,
        help=_TARGET_HELP.get(target, _TARGET_HELP["TP"]),
    )
    add_decision(command, needs_why=name != "retry")
    add_driver(command)
    return command
