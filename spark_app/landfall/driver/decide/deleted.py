"""Decide about members whose topic does not exist any more. Pure.

Everything that was known to be in the log may be landed: then the topic partition leaves. Otherwise
records are lost, or may be. That is never forgotten: the ledger gets a HOLE and a DROP if the spec
allows to skip lost records, else a BLOCK, which holds until a user decides.

A driver knows the end of a log only if it saw it. One that starts after the topic was deleted knows
the checkpoint alone, and reports that: whether records after it were lost cannot be determined any
more.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from landfall.api.spec import Source
from landfall.errors import Reason, Stalled
from landfall.ledger import Blocked, State
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition

PATIENCE = timedelta(minutes=1)
"""How long a topic must be gone before the ledger records it: a broker may be wrong for a
moment."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """The records to append to the ledger, in this order.

    Attributes:
        holes: lost ranges, and why they are skipped.
        drops: topic partitions that leave, and why.
        blocks: topic partitions that need a decision.
    """

    holes: tuple[tuple[Slice, str], ...]
    drops: tuple[tuple[TopicPartition, str], ...]
    blocks: tuple[Blocked, ...]

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to append."""
        return not (self.holes or self.drops or self.blocks)


def stalled(
    state: State,
    source: Source,
    deleted: Iterable[TopicPartition],
    last_ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, Stalled]:
    """Return why topic partitions of topics that do not exist any more are not landed.

    One that a pattern matched and that is landed to its last known end may go silently.
    """
    return {
        tp: _missing(tp, state.checkpoint[tp], end)
        for tp in deleted
        if not _is_landed(state, tp, end := _last_end(state, tp, last_ends))
        or tp.topic in source.topics
    }


def settle(
    state: State,
    source: Source,
    deleted: Iterable[TopicPartition],
    last_ends: Mapping[TopicPartition, int],
) -> Deleted:
    """Return the records for topic partitions that are certainly gone.

    Args:
        state: of the ledger.
        source: the spec.
        deleted: members whose topic does not exist; none of them is in flight.
        last_ends: the last known end offsets.
    """
    holes: list[tuple[Slice, str]] = []
    drops: list[tuple[TopicPartition, str]] = []
    blocks: list[Blocked] = []
    for tp in deleted:
        at, end = state.checkpoint[tp], _last_end(state, tp, last_ends)
        if _is_landed(state, tp, end):
            if tp.topic not in source.topics:
                drops.append((tp, f"topic deleted; landed to its last known end, offset {at}"))
        elif source.skips_lost_ranges:
            if end is not None:
                holes.append(
                    (Slice(tp, OffsetRange(at, end)), "topic deleted before it was landed")
                )
            drops.append((tp, _dropped_because(at, end)))
        elif tp not in state.blocked:
            error = _missing(tp, at, end)
            blocks.append(Blocked(tp, error.reason, str(error), OffsetRange(at, end or at)))
    return Deleted(tuple(holes), tuple(drops), tuple(blocks))


def _last_end(
    state: State, tp: TopicPartition, last_ends: Mapping[TopicPartition, int]
) -> int | None:
    """Return the end of the log when it was last seen; None if no driver recorded one."""
    blocked = state.blocked.get(tp)
    if tp not in last_ends and blocked and blocked.offsets.end > state.checkpoint[tp]:
        return blocked.offsets.end
    return last_ends.get(tp)


def _is_landed(state: State, tp: TopicPartition, end: int | None) -> bool:
    return end is not None and end <= state.checkpoint[tp]


def _dropped_because(at: int, end: int | None) -> str:
    if end is not None:
        return "topic deleted before it was landed"
    return f"topic deleted; landed up to offset {at}, its end is not known"


def _missing(tp: TopicPartition, at: int, end: int | None) -> Stalled:
    if end is None:
        lost = f"landed up to offset {at}, and whether there was more is not known"
    elif end > at:
        lost = f"offsets [{at}, {end}) were lost with it"
    else:
        lost = f"landed up to offset {at}"
    return Stalled(
        Reason.TOPIC_MISSING,
        f"{tp}: the topic does not exist any more; {lost}; "
        "`landfall drop` takes it out of the ledger",
    )
