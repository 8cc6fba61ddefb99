"""The verbs about replaced objects and dead letters, and which came through in a schedule.

A person takes back, gives up or leaves out by a command what no driver may decide. A message that
names such a command is only true if the command works among all other features: each of them is
played where features meet (``tests.crashes.pairs``), and found once it came through.
"""

from enum import StrEnum

from landfall.ledger import Record, Replace, Replay
from tests.crashes.judge import folded_records
from tests.crashes.pairs import PairSchedule


class Verb(StrEnum):
    """A command, and for what."""

    UNDO = "`landfall undo`, of a REPLACE that is applied"
    GIVE_UP = "`landfall undo`, of a REPLACE whose objects are refused"
    PROMOTE = "`landfall promote`"
    DISCARD = "`landfall backfill discard`"
    DISCARD_STUCK = "`landfall backfill discard`, of a backfill that cannot be landed"
    REPLAY = "`landfall replay-dead-letters`"


def came_through(schedule: PairSchedule) -> set[Verb]:
    """The verbs that were asked for in a schedule, and had their effect."""
    with schedule.judging():
        found = {_of(record) for _, record in folded_records(schedule)}
    if schedule.trials.discarded:
        found.add(Verb.DISCARD)
    if schedule.trials.discarded_stuck:
        found.add(Verb.DISCARD_STUCK)
    return {verb for verb in found if verb}


def _of(record: Record) -> Verb | None:
    match record:
        case Replace():
            return _of_replace(record)
        case Replay():
            return Verb.REPLAY
        case _:
            return None


def _of_replace(record: Replace) -> Verb | None:
    if record.backfill and record.instead == -1:
        return Verb.PROMOTE
    if record.decision is None or record.again:
        return None
    return Verb.UNDO if record.instead == -1 else Verb.GIVE_UP
