"""Drivers that land closed ranges, and what must hold of a range that has ended.

A driver may be gone after a RUN until the next range is due. So at the moment at which a RUN is
written, all that was decided before it is visible, but what is named as missing or was given up,
and nothing of the topics that it names ends before it.
"""

import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from landfall.driver.landing.closed_ranges import closing
from landfall.driver.landing.goals import Endless, GoalType
from landfall.ledger import Commit, Lost, Replay, Run, digest
from landfall.ledger.decisions import topic_partition
from tests.crashes.folded import Slot
from tests.crashes.luck import Luck
from tests.support.driver.fakes import NOW

MAY_STAY = (True, False)
EVERY = timedelta(seconds=10)
"""The length of a range, by the clock of a schedule, which advances a second at every look."""


def goal(luck: Luck, dice: random.Random) -> GoalType:
    """What a driver lands: whatever comes, or closed ranges, with or without waiting for more."""
    if not luck.ranges or dice.random() < 0.5:
        return Endless
    return closing(due, stays=dice.choice(MAY_STAY))


def due(after: int | None, now: datetime) -> Iterator[datetime]:
    """The ends of ranges, as ``closed_ranges.Ranges``."""
    first = NOW if after is None else datetime.fromtimestamp(after / 1000, NOW.tzinfo)
    passed = (first - NOW) // EVERY
    end = NOW + (passed + 1) * EVERY
    while end <= now:
        yield end
        end += EVERY


def forgotten(
    slots: Iterable[Slot],
    at_runs: Mapping[str, Collection[str]],
    retired: Callable[[Slot], Collection[str]],
    expired: Collection[str],
) -> Iterator[str]:
    """Objects that were not visible when a RUN said that a range had ended.

    Args:
        slots: all of the lane, in order.
        at_runs: what was visible when each RUN was written, by the digest of its bytes.
        retired: the keys of objects that count no more from a slot on.
        expired: the keys of dead letters that have expired.
    """
    decided = set[str]()
    for slot in slots:
        match slot.record:
            case Commit(slices=slices) | Replay(slices=slices):
                decided |= {o.upload.key for s in slices for o in s.objects}
            case Lost(objects=objects):
                decided -= {o.upload.key for o in objects}
            case _:
                pass
        decided -= {*retired(slot)}
        if isinstance(slot.record, Run):
            state = slot.after
            missing = {o.upload.key for objects in state.missing.values() for o in objects}
            visible = {*at_runs[digest(slot.body)], *expired}
            for key in sorted(decided - missing - visible):
                if topic_partition(key) in state.members:
                    yield f"slot {slot.seq} ends a run, and {key} was not visible"
