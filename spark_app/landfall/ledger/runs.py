"""How RUN changes a lane's state: a closed range of the log is landed. Pure.

After a RUN the driver may be gone until the next range is due, so nothing may be left for it to do:
what is committed is visible, and each topic is landed up to the end of the range, or named as left.
A feed is landed when every part of a file that has a number is, and none is parked.
The topics that this makes complete are complete from this very slot on.
"""

from dataclasses import replace

from landfall.ledger.completeness import topics_with_missing
from landfall.ledger.entries import ClosedTopic
from landfall.ledger.feeds import landed_end
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.records import (
    Run,
)
from landfall.ledger.state import KEPT_RUNS, EndedRun, FeedState, State
from landfall.ledger.totals import Work


def end(state: State, record: Run) -> State:
    """The state with one more run.

    Raises:
        ValueError: the range is not after the one before, something that is committed is not
            visible, a topic is neither landed nor left, or it is not as complete as the record
            states.
    """
    _check_order(state, record)
    _check_visible(state, record)
    _check_topics(state, record)
    missing = topics_with_missing(state)
    for entry in record.topics:
        if entry.topic in missing:
            raise ValueError(f"ends a run, but objects of {entry.topic} are missing")
        _check_complete(state, record, entry)
    totals = state.totals.since(state.run_totals)
    ended = EndedRun(
        until=record.until,
        began=record.began,
        ended=record.header.time,
        left=record.left,
        totals=totals,
        slot=record.header.seq,
        work=state.run_work,
    )
    complete = {entry.topic: entry.complete for entry in record.topics if entry.complete >= 0}
    return replace(
        state,
        runs=(*state.runs, ended)[-KEPT_RUNS:],
        run_totals=state.totals,
        run_work=Work(),
        horizons={**state.horizons, **complete} if complete else state.horizons,
        pending_horizons=tuple(p for p in state.pending_horizons if p.topic not in complete),
    )


def _check_order(state: State, record: Run) -> None:
    if not state.runs:
        return
    last = state.runs[-1]
    is_again = record.until == last.until and {*record.left} < {*last.left}
    if record.until <= last.until and not is_again:
        raise ValueError(f"ends a run until {record.until}, after one until {last.until}")


def _check_visible(state: State, record: Run) -> None:
    if due := [seq for seq in state.unapplied if seq > record.header.applied_through]:
        raise ValueError(f"ends a run, but objects of slot {min(due)} are not visible")


def _check_topics(state: State, record: Run) -> None:
    """Raise ``ValueError`` unless every member has reached its end, or its topic is left."""
    ends = {
        TopicPartition(entry.topic, partition): end
        for entry in record.topics
        for partition, end in entry.ends
    }
    left = {*record.left}
    if len(ends) != sum(len(entry.ends) for entry in record.topics):
        raise ValueError("ends a run of a topic partition twice")
    if both := left & {entry.topic for entry in record.topics}:
        raise ValueError(f"ends a run of {min(both)}, and leaves it")
    for tp, checkpoint in state.checkpoint.next_offsets.items():
        end_offset = ends.pop(tp, None)
        if tp.topic in left:
            continue
        if end_offset is None:
            raise ValueError(f"ends a run, but {tp} is neither landed nor left")
        if end_offset > checkpoint or tp in state.blocked:
            raise ValueError(
                f"ends a run of {tp} at {end_offset}, but it is blocked or its checkpoint is "
                f"{checkpoint}"
            )
        _check_feed(tp, state.feeds.get(tp), end_offset)
    if ends:
        raise ValueError(f"ends a run of {min(ends)}, which is not in the lane")


def _check_feed(tp: TopicPartition, feed: FeedState | None, end_offset: int) -> None:
    """Raise ``ValueError`` unless the run ends a feed where its numbers do, and none is parked."""
    if feed is None:
        return
    parked, end = 0 if feed.leasing else len(feed.parked), landed_end(feed)
    if parked or end_offset != end:
        raise ValueError(
            f"ends a run of {tp} at {end_offset}, but its files end at {end}, and {parked} parts "
            "are parked"
        )


def _check_complete(state: State, record: Run, entry: ClosedTopic) -> None:
    if entry.complete < 0:
        return
    if record.delay < 0 or entry.complete + record.delay > record.until:
        raise ValueError(
            f"finalizes {entry.topic} until {entry.complete}, less than the delay before the end "
            f"of the range, {record.until}"
        )
    if entry.complete <= (before := state.horizon(entry.topic)):
        raise ValueError(
            f"finalizes {entry.topic} until {entry.complete}, which is not after {before}"
        )
