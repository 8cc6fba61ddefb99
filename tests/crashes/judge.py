"""What must hold after a schedule: every record is landed once, and the ledger says so."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from landfall.cli.fsck import examine
from landfall.cli.group_store import GroupStore
from landfall.ledger import Hole, Lost, Record, Repair, decode, object_names
from tests.crashes.luck import Loss
from tests.support.fakes import FakeLog

if TYPE_CHECKING:
    from tests.crashes.machine import Schedule

Offsets = Counter[tuple[str, int, int]]
"""How often a record exists, by topic id, Kafka partition and offset."""


def records_of(log: FakeLog, topic: str) -> Offsets:
    """The records that were written to a topic, by its id."""
    return Counter(
        (log.ids[topic], partition, offset)
        for partition, marks in enumerate(log.partitions[topic])
        for offset in range(marks.end)
    )


def findings(schedule: "Schedule") -> Iterator[str]:
    """What is missing, repeated, changed or against the ledger, and drivers that ended wrongly."""
    records = [decode(seq, body) for seq, body in schedule.lane.bodies()]
    landed, skipped = _landed(schedule), _skipped(schedule, records)
    lost = _lost(schedule, records)
    yield from _unaccounted(schedule, landed, skipped, lost)
    yield from schedule.store.changed
    yield from (f"{p.name}: {p.went_wrong}" for p in schedule.processes if p.went_wrong)
    pool = schedule.background.pool
    report = examine(GroupStore(schedule.group(1), schedule.store, pool), deep=False)
    yield from map(str, report.findings)
    if report.waiting:
        yield f"{report.waiting} committed uploads are not completed"
    state = schedule.lane.read()
    if state != report.chain.state:
        yield "a snapshot gives another state than the whole chain"
    totals = (state.totals.landed - state.totals.lost, state.totals.skipped, state.totals.lost)
    if totals != (landed.total(), skipped.total(), lost.total()):
        yield (
            f"{landed.total()} landed, {skipped.total()} skipped, {lost.total()} lost; "
            f"the ledger counts {state.totals}"
        )
    given_up = [r for r in records if isinstance(r, Lost | Hole) and r.decision is None]
    if given_up and schedule.luck.loss is Loss.DECIDED:
        yield f"given up though nobody decided: {given_up}"
    if state.blocked or state.missing:
        yield f"still blocked {state.blocked}, missing {state.missing}"
    has_repair = any(isinstance(record, Repair) for record in records)
    if has_repair and not schedule.luck.loss.of_uploads:
        yield "a committed upload was lost, and only a driver can have aborted it"


def _unaccounted(
    schedule: "Schedule", landed: Offsets, skipped: Offsets, lost: Offsets
) -> Iterator[str]:
    written = records_of(schedule.log, "a") + records_of(schedule.log, "b")
    deleted, known = landed & schedule.former, landed + skipped + lost
    missing, too_many = written - known, known - written - deleted
    if missing or too_many:
        yield f"missing {sorted(missing.items())}, too many {sorted(too_many.items())}"
    if skipped and not schedule.luck.loss.of_unlanded:
        yield f"skipped {sorted(skipped)}"
    if lost and not (schedule.luck.loss.of_unlanded and schedule.luck.loss.of_uploads):
        yield f"lost {sorted(lost)}"


def _landed(schedule: "Schedule") -> Offsets:
    """Every record in a visible object, by the id of the topic that it was read from."""
    store, found = schedule.store, Offsets()
    for stat in store.list_after(""):
        with suppress(ValueError):
            name = object_names.parse_key(stat.key)
            visible = store.stat(stat.key)
            version = (stat.key, visible.token if visible else "")
            topic_id = schedule.read_from.get(version, "nobody")
            with store.open(stat.key) as stream:
                found.update(
                    (topic_id, name.partition, int(line)) for line in stream.read().split()
                )
    return found


def _skipped(schedule: "Schedule", records: Iterable[Record]) -> Offsets:
    holes = [record.piece for record in records if isinstance(record, Hole)]
    return Counter(
        (schedule.log.ids[hole.topic_partition.topic], hole.topic_partition.partition, offset)
        for hole in holes
        for offset in range(hole.offsets.start, hole.offsets.end)
    )


def _lost(schedule: "Schedule", records: Iterable[Record]) -> Offsets:
    """Every record in an object that was given up."""
    objects = [o for record in records if isinstance(record, Lost) for o in record.objects]
    names = [(object_names.parse_key(o.upload.key), o) for o in objects]
    return Counter(
        (schedule.log.ids[name.topic], name.partition, offset)
        for name, o in names
        for offset in range(o.first_offset, o.last_offset + 1)
    )
