"""The source of a backfill: its topics in Kafka, or their objects of another group.

A backup group holds payloads long after Kafka forgot them, with their offsets and topic ids. So the
ranges of a plan mean the same there. A landed source has no starting offsets; the topic partitions
enter the ledger of the side lane before its driver starts, where their ranges do.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any
from uuid import uuid4

from landfall import __version__, ledger
from landfall.api.contract import LANE
from landfall.api.spec import ConsumerGroup, LandedSource
from landfall.api.spec.stores import StoreReading, section_of
from landfall.driver.backfill.side_lane import SidePlan, side_group, side_lane
from landfall.driver.core.stored_specs import store_spec
from landfall.errors import Reason, Stalled
from landfall.landed.opening import open_log
from landfall.lane import LaneWriter, OpenRequest
from landfall.ledger import Entry
from landfall.source import Bound, Log
from landfall.store import Store


def side_group_of(
    group: ConsumerGroup,
    plan: SidePlan,
    store: Store,
    backup: ConsumerGroup | None,
    clock: Callable[[], datetime],
) -> ConsumerGroup:
    """Return the group that lands a plan, ready to be run.

    Args:
        group: the live group.
        plan: of the backfill.
        store: of the side lane.
        backup: the group whose objects are read; None for the source that the live group has.
        clock: the current time.

    Raises:
        Stalled: SPEC_INVALID, the group has another generation than the plan, or the backup does
            not have all of the ranges.
        Retry: a store does not answer.
    """
    side = side_group(group, plan, landed_by(backup) if backup else None)
    if side.spec.source.landed:
        log = open_log(side)
        try:
            check_covered(log, plan, side.spec.source.landed.group)
        finally:
            log.close()
        _enter(side, plan, store, clock)
    return side


def landed_by(backup: ConsumerGroup) -> Mapping[str, Any]:
    """The section ``spec.source.landed`` that reads what a group has landed, without topics."""
    output = backup.spec.output
    section = section_of(output.url)
    # Of the section of an output, what is for reading.
    known = LandedSource.model_fields[section].annotation
    assert isinstance(known, type)
    assert issubclass(known, StoreReading)
    access = getattr(output, section).model_dump(
        mode="json", by_alias=True, include=set(known.model_fields), exclude_defaults=True
    )
    return {"group": backup.metadata.name, "url": output.url, section: access}


def check_covered(log: Log, plan: SidePlan, backup: str) -> None:
    """Return if a log has all ranges of a plan, of the same topics.

    Raises:
        Stalled: SPEC_INVALID, it has not; SOURCE_DENIED, as ``log``.
        Retry: the log does not answer.
    """
    names = {range_.topic_partition.topic for range_ in plan.ranges}
    found = log.topics(names)
    ids = {topic.name: topic.topic_id for topic in found.topics}
    tps = [range_.topic_partition for range_ in plan.ranges]
    starts, ends = (log.offsets(tps, bound).offsets for bound in (Bound.LOG_START, Bound.END))
    for range_ in plan.ranges:
        tp = range_.topic_partition
        if tp.topic in found.denied:
            raise found.denied[tp.topic]
        if tp not in starts or tp not in ends:
            raise _not_there(f"{backup} has landed nothing of {tp}")
        if ids.get(tp.topic) != range_.topic_id:
            raise _not_there(
                f"{tp}: {backup} has landed a topic of this name with the id {ids.get(tp.topic)}, "
                f"and the group one with the id {range_.topic_id}"
            )
        if not starts[tp] <= range_.offsets.start <= range_.offsets.end <= ends[tp]:
            raise _not_there(
                f"{tp}: {backup} has landed offsets from {starts[tp]} to {ends[tp]}, and "
                f"{range_.offsets} is to be landed again"
            )


def _enter(
    side: ConsumerGroup, plan: SidePlan, store: Store, clock: Callable[[], datetime]
) -> None:
    """Let the topic partitions enter the ledger of a side lane, unless they have."""
    lane = side_lane(side, store)
    state = lane.read()
    if state.members:
        return
    spec = store_spec(store, side, LANE)
    request = OpenRequest(uuid4().hex, plan.generation, __version__, spec=spec)
    writer = LaneWriter.open(lane, request, clock, state=state)
    entries = tuple(sorted(_entries(plan), key=lambda entry: entry.topic_partition))
    writer.append(lambda header: ledger.Add(header=header, entries=entries))
    writer.append(lambda header: ledger.Yield(header=header, reason=f"planned as {plan.name}"))


def _entries(plan: SidePlan) -> Iterator[Entry]:
    ids = {range_.topic_partition.topic: range_.topic_id for range_ in plan.ranges}
    for range_ in plan.ranges:
        yield Entry(range_.topic_partition, range_.topic_id, range_.offsets.start)
    for other in plan.others:
        yield Entry(other.topic_partition, ids[other.topic_partition.topic], other.offset)


def _not_there(message: str) -> Stalled:
    return Stalled(Reason.SPEC_INVALID, f"backfill: {message}")
