"""What must hold after a schedule: every record is landed once, and the ledger says so.

Before that, what a driver has not landed once nothing fails any more must stand for a reason.
"""

import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from landfall.api.contract import LANE
from landfall.api.next_steps import next_step
from landfall.cli.group_store import GroupStore
from landfall.cli.objects.fsck import examine
from landfall.errors import Reason, Stalled
from landfall.lane.expired_letters import read_expired
from landfall.lane.replacements import read_replaced
from landfall.ledger import Commit, Drop, Hole, Lost, Record, Repair, Replay, State
from landfall.ledger.decisions import topic_partition
from landfall.ledger.names import object_names
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.replace.replacement_lists import ReplacementList
from landfall.ledger.task_results import DecidedObject, LandedObject, ObjectKind
from tests.crashes.folded import Slot
from tests.crashes.horizons import late
from tests.crashes.ranges import forgotten
from tests.support.driver.fakes import FakeLog

if TYPE_CHECKING:
    from tests.crashes.machine import Schedule
    from tests.crashes.process import Process

Offsets = Counter[tuple[str, int, int]]
"""How often a record exists, by topic id, Kafka partition and offset."""


def records_of(log: FakeLog, topic: str) -> Offsets:
    """The records that were written to a topic, by its id."""
    return Counter(
        (log.ids[topic], partition, offset)
        for partition, marks in enumerate(log.partitions[topic])
        for offset in range(marks.end)
    )


def stuck(schedule: "Schedule", process: "Process") -> Iterator[str]:
    """What a driver has not landed, though it could, and without naming a reason.

    A topic partition may stand if the driver names a reason, and if there is a command that lets it
    land again, or the leader of its Kafka partition is away.
    """
    progress = process.progress
    if progress is None:
        yield f"{process.name} has not said anything"
        return
    if not progress.is_at_rest:
        yield still_busy(process)
    for topic, partitions in schedule.log.partitions.items():
        for partition, marks in enumerate(partitions):
            tp = TopicPartition(topic, partition)
            at = progress.state.checkpoint.next_offsets.get(tp)
            stalled = progress.stalled.get(tp)
            if stalled is None and at != marks.end:
                yield f"{tp}: {process.name} has landed up to {at} of {marks.end}, and says nothing"
            elif stalled and not way_out(schedule, tp, stalled, progress.state):
                yield f"{tp} stands, and nobody can help: {stalled.reason}: {stalled}"


def still_busy(process: "Process") -> str:
    """That a driver has something under way, though it had the time to end it."""
    return f"{process.name} is still busy"


def way_out(schedule: "Schedule", tp: TopicPartition, stalled: Stalled, state: State) -> bool:
    """Whether there is a command that lets a topic partition land again, or a leader is away."""
    if stalled.reason is Reason.SOURCE_UNAVAILABLE:
        return tp in schedule.log.unavailable
    return bool(next_step(stalled.reason, str(tp), truncated=tp in state.blocked))


def findings(schedule: "Schedule") -> Iterator[str]:
    """What is missing, repeated, changed or against the ledger, and drivers that ended wrongly."""
    folded = list(folded_records(schedule))
    records = [record for _, record in folded]
    found, skipped = landed(schedule, records), _skipped(folded)
    given_up, gone = lost(schedule, folded), expired(schedule)
    again = given_up & (found + gone) & landed_again(schedule)
    yield from _unaccounted(schedule, found + gone, skipped, given_up - again)
    yield from common_findings(schedule)
    yield from late(slots(schedule), schedule.rows)
    counted = schedule.lane.read().totals
    in_objects = counted.landed + counted.dead_lettered - counted.replayed - counted.lost
    totals = (in_objects + again.total(), counted.skipped, counted.lost)
    if totals != (found.total() + gone.total(), skipped.total(), given_up.total()):
        yield (
            f"{found.total()} landed, {gone.total()} expired, {skipped.total()} skipped, "
            f"{given_up.total()} lost; the ledger counts {counted}"
        )
    undecided = [r for r in records if isinstance(r, Lost | Hole) and r.decision is None]
    if undecided and schedule.luck.loss.is_decided:
        yield f"given up though nobody decided: {undecided}"


def common_findings(schedule: "Schedule") -> Iterator[str]:
    """What is changed or against the ledger, and drivers that ended wrongly, of any source."""
    yield from chain.from_iterable(store.changed for store in schedule.stores)
    yield from _misplaced(schedule)
    yield from (f"{p.name}: {p.went_wrong}" for p in schedule.processes if p.went_wrong)
    yield from forgotten(
        slots(schedule),
        schedule.watched.at_runs,
        lambda slot: {each.landed.upload.key for each in retired(schedule, slot)},
        expired_letters(schedule),
    )
    pool = schedule.background.pool
    report = examine(GroupStore(schedule.group(1), schedule.store, pool), deep=False)
    yield from map(str, report.findings)
    if report.waiting:
        yield f"{report.waiting} committed uploads are not completed"
    yield from schedule.publishers.findings()
    state = schedule.lane.read()
    if state != report.chain.state:
        yield "a snapshot gives another state than the whole chain"
    if state.blocked or state.missing:
        yield f"still blocked {state.blocked}, missing {state.missing}"
    records = (record for _, record in folded_records(schedule))
    has_repair = any(isinstance(record, Repair) for record in records)
    if has_repair and not schedule.luck.loss.of_uploads:
        yield "a committed upload was lost, and only a driver can have aborted it"


def _misplaced(schedule: "Schedule") -> Iterator[str]:
    """What is not in the store that its key names."""
    stores = {"": schedule.watched, **schedule.letters}
    for place, store in stores.items():
        for stat in store.list_after(""):
            if (named := object_names.letters_place(stat.key)) != place:
                yield f"{stat.key} is in place {place or 'none'}, not in {named or 'none'}"


def _unaccounted(
    schedule: "Schedule", found: Offsets, skipped: Offsets, given_up: Offsets
) -> Iterator[str]:
    written = records_of(schedule.log, "a") + records_of(schedule.log, "b")
    known = found + skipped + given_up
    deleted = known & schedule.former
    missing, too_many = written - known, known - written - deleted
    if missing or too_many:
        yield f"missing {sorted(missing.items())}, too many {sorted(too_many.items())}"
    if skipped and not schedule.luck.loss.of_unlanded:
        yield f"skipped {sorted(skipped)}"
    of_uploads = schedule.luck.loss.of_uploads
    may_go = of_uploads and schedule.luck.loss.of_topics
    unlosable = given_up - schedule.former if may_go else given_up
    if unlosable and not (schedule.luck.loss.of_unlanded and of_uploads):
        yield f"lost {sorted(unlosable)}"


def slots(schedule: "Schedule") -> Iterator[Slot]:
    """All slots of the lane, folded."""
    return schedule.folded.read(schedule.lane)


def folded_records(schedule: "Schedule") -> Iterator[tuple[State, Record]]:
    """Each record with the state before it."""
    return ((slot.before, slot.record) for slot in slots(schedule))


def landed(schedule: "Schedule", ledger: Iterable[Record]) -> Offsets:
    """Every record in a visible object, by the id of the topic that it was read from.

    Dead letters that were replayed are in other objects by now.
    """
    store, found = schedule.store, Offsets()
    replays = chain.from_iterable(r.slices for r in ledger if isinstance(r, Replay))
    replayed = {s.dead_letters for s in replays}
    for stat in store.list_after(""):
        with suppress(ValueError):
            name = object_names.origin(schedule.lane.group, stat.key)
            visible = store.stat(stat.key)
            version = (stat.key, visible.token if visible else "")
            records = schedule.rows.records(version, name.partition)
            with store.open(stat.key) as stream:
                if _offsets(stat.key, stream.read()) != [offset for _, _, offset in records]:
                    records = Offsets({("changed", name.partition, 0): 1})
            if stat.key not in replayed:
                found.update(records)
    return found


def _offsets(key: str, body: bytes) -> Sequence[int]:
    return _of_parquet(body) if key.endswith(".parquet") else [int(o) for o in body.split()]


@lru_cache(maxsize=1000)  # many schedules have the same dead letters
def _of_parquet(body: bytes) -> Sequence[int]:
    # Arrow's threads cost more than they save for a handful of rows.
    offsets: list[int] = pq.read_table(io.BytesIO(body), columns=["offset"], use_threads=False)[
        "offset"
    ].to_pylist()
    return offsets


def _skipped(folded: Iterable[tuple[State, Record]]) -> Offsets:
    holes = [(before, record.piece) for before, record in folded if isinstance(record, Hole)]
    return Counter(
        (before.members[hole.topic_partition].topic_id, hole.topic_partition.partition, offset)
        for before, hole in holes
        for offset in range(hole.offsets.start, hole.offsets.end)
    )


def lost(schedule: "Schedule", folded: Iterable[tuple[State, Record]]) -> Offsets:
    """Every record in an object that was given up."""
    found = Offsets()
    for before, record in folded:
        for o in _given_up(before, record):
            version = (o.upload.key, o.upload.token)
            found += schedule.rows.records(version, topic_partition(o.upload.key).partition)
    return found


def landed_again(schedule: "Schedule") -> Offsets:
    """Every record of ranges that backfills have landed again, whatever was there before."""
    found = set[tuple[str, int, int]]()
    for slot in slots(schedule):
        for _, listed in replaced(schedule, slot):
            for piece in (again.piece for again in listed.landed_again):
                member = slot.before.members.get(piece.topic_partition)
                found |= {
                    (member.topic_id, piece.topic_partition.partition, offset)
                    for offset in range(piece.offsets.start, piece.offsets.end)
                    if member is not None
                }
    return Offsets(found)


def expired(schedule: "Schedule") -> Offsets:
    """Every record in dead letters that are gone, as the ledger says, and were not replayed."""
    found, elsewhere = Offsets(), set[str]()
    for slot in slots(schedule):
        elsewhere |= {o.upload.key for o in _given_up(slot.before, slot.record)}
        elsewhere |= {each.landed.upload.key for each in retired(schedule, slot)}
        if isinstance(slot.record, Replay):
            elsewhere |= {s.dead_letters for s in slot.record.slices}
    named = expired_letters(schedule)
    for key in named.keys() - elsewhere:
        if schedule.store.stat(key) is None:
            version = (key, named[key].upload.token)
            found += schedule.rows.records(version, topic_partition(key).partition)
    return found


def expired_letters(schedule: "Schedule") -> dict[str, LandedObject]:
    """The dead letters that have expired, as the ledger says, by key."""
    through = read_expired(schedule.store, schedule.lane.group, LANE).through
    found = dict[str, LandedObject]()
    for slot in slots(schedule) if through >= 0 else ():
        named = [
            (seq, new.landed) for seq, listed in replaced(schedule, slot) for new in listed.objects
        ]
        if isinstance(slot.record, Commit | Replay):
            named += [(slot.seq, landed) for s in slot.record.slices for landed in s.objects]
        for seq, landed in named:
            if landed.kind is ObjectKind.DEAD_LETTERS and seq <= through:
                found[landed.upload.key] = landed
    return found


def replaced(schedule: "Schedule", slot: Slot) -> Iterator[tuple[int, ReplacementList]]:
    """The REPLACEs that a slot is the first to call applied, and their lists."""
    for seq, named in slot.visible.replacements:
        yield seq, read_replaced(schedule.lane.slots, seq, named)


def retired(schedule: "Schedule", slot: Slot) -> Iterator[DecidedObject]:
    """What counts no more from a slot on, since other objects are in its place."""
    for _, listed in replaced(schedule, slot):
        yield from listed.retire


def _given_up(before: State, record: Record) -> Iterable[LandedObject]:
    match record:
        case Lost(objects=objects):
            return objects
        case Drop(topic_partitions=tps):
            missing = chain.from_iterable(before.missing.values())
            return [o for o in missing if topic_partition(o.upload.key) in tps]
        case _:
            return ()
