"""``landfall verify``: reads the landed objects back and compares them with the ledger.

``--kafka`` also compares payloads with Kafka. ``landfall audit`` does that more thoroughly and
independently of the writer, but it reads only the stores and formats that it knows itself:
``--kafka`` is for formats and stores that are loaded from a Python module.
"""

import argparse
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType

import msgspec
from rich.console import Console
from rich.markup import escape

from landfall.api.contract import LANE, ExitCode
from landfall.api.spec import ColumnSource, GroupSpec
from landfall.checks.corrections import Corrected, Corrections, corrected, corrections
from landfall.checks.coverage import (
    Coverage,
    ReadBack,
    cover,
    cover_new,
    miscounted_parts,
)
from landfall.checks.payloads import Comparison, compare
from landfall.checks.topic_ids import TopicIds
from landfall.cli.group_store import GroupStore, explain_kafka, map_concurrently
from landfall.cli.objects import read_back
from landfall.cli.objects.replaced_objects import ReplaceChanges, changed
from landfall.cli.text import console
from landfall.cli.text.meter import Progress, advancing, silent
from landfall.errors import Reason, Stalled
from landfall.lane.expired_letters import read_expired
from landfall.lane.replacements import read_replaced
from landfall.ledger import Add, State, decode
from landfall.ledger.effects import RangeLanded, decided_slices, effects, replaces
from landfall.ledger.names import object_names
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.replace.replacement_lists import NewObject
from landfall.ledger.task_results import LandedObject, LandedSlice, ObjectKind
from landfall.registry import output_format
from landfall.source import EndsEarly, Reader

_GONE = frozenset({Reason.DATA_LOSS, Reason.TOPIC_MISSING, Reason.OBJECT_LOST})
"""Why records can no longer be read; OBJECT_LOST if another group's objects had them."""
MAX_FAULTS = 20
"""How many faults are printed; ``--json`` has all of them."""


@dataclass
class VerifyResult:
    """The objects that were read, and their errors.

    Attributes:
        coverage: of each topic partition.
        comparison: with Kafka; None if it was not requested or there was nothing to compare.
        faults: objects that could not be read, as ``key: why``.
        unapplied: COMMITs that were left out, because not all their objects are visible yet, or
            because they come after an unapplied REPLACE.
    """

    coverage: dict[TopicPartition, Coverage] = field(default_factory=dict)
    comparison: Comparison | None = None
    faults: list[str] = field(default_factory=list)
    unapplied: int = 0

    @property
    def total(self) -> Coverage:
        """The coverage of all topic partitions together."""
        return sum(self.coverage.values(), Coverage())

    @property
    def is_whole(self) -> bool:
        """True if every record is there exactly once, and nothing else."""
        is_same = self.comparison is None or self.comparison.is_same
        return is_same and not self.faults and all(c.is_whole for c in self.coverage.values())


def verify(arguments: argparse.Namespace) -> ExitCode:
    """Verify a group and print the result; the exit code is FAULT if anything is wrong."""
    opened = GroupStore.of(arguments.group)
    _require_ledger(opened, arguments.topics)
    reader = _kafka_reader(opened, arguments.topics) if arguments.kafka else None
    backup = _backup_reader(opened) if reader else None
    topic_ids = _topic_ids(opened) if reader else {}
    with advancing("verify", "objects") as progress:
        result = examine(
            opened=opened,
            topics=arguments.topics,
            reader=reader,
            backup=backup,
            topic_ids=topic_ids,
            progress=progress,
        )
    if arguments.json:
        console.out().print(_json(result), markup=False)
    else:
        _show(result, by_topic_partition=arguments.partitions)
    if not result.is_whole:
        return ExitCode.FAULT
    return ExitCode.OK if result.total.expected else ExitCode.NOTHING


def _require_ledger(opened: GroupStore, topics: Collection[str]) -> None:
    """Raise NothingToCheck if there is no ledger, or it never had one of the topics."""
    state = opened.lane.read()
    if state.seq < 0:
        raise console.no_ledger(opened.name, opened.group.spec.ledger_root.url)
    known = {tp.topic for tp in state.members} | {tp.topic for tp in state.retired}
    console.require_topics(opened.name, topics, known)


def _kafka_reader(opened: GroupStore, topics: Collection[str]) -> Reader:
    """A reader of the group's Kafka.

    Raises:
        Stalled: SPEC_INVALID, objects of these topics do not hold the payloads that Kafka holds, or
            the group lands files.
    """
    if opened.group.spec.source.files:
        raise Stalled(
            Reason.SPEC_INVALID,
            "verify --kafka: the group lands files; landfall audit compares what landed with them",
        )
    from landfall.source.properties import kafka_properties  # noqa: PLC0415  # only --kafka needs the client
    from landfall.source.reader import KafkaReader  # noqa: PLC0415

    group, specs = opened.group, [spec for _, spec in opened.specs.used()]
    asked = [opened.specs.for_topic(topic) for topic in topics] or specs
    if any(map(_lands_other_bytes, asked)):
        raise Stalled(
            Reason.SPEC_INVALID,
            "verify --kafka: groups with transforms, with typed columns, with Avro files or with "
            "JSON made of other payloads land other bytes than Kafka holds; landfall audit "
            "compares what can be",
        )
    explain_kafka(group)
    return KafkaReader(kafka_properties(group), group.spec.tuning.read_timeout)


def _topic_ids(opened: GroupStore) -> Mapping[str, str]:
    """The ids that the topics of the ledger have in Kafka now, as far as it describes them."""
    from landfall.source.kafka import KafkaLog  # noqa: PLC0415  # as above

    state = opened.lane.read()
    log = KafkaLog(opened.group)
    try:
        return log.describe({tp.topic for tp in (*state.members, *state.retired)}).ids
    finally:
        log.close()


def _backup_reader(opened: GroupStore) -> Reader | None:
    """Return a reader of ranges lost in Kafka, from the spec's backup; None without one."""
    source = opened.group.spec.source
    if source.read_from is None:
        return None
    from landfall.landed.opening import open_lost_reader  # noqa: PLC0415  # as above

    return open_lost_reader(opened.group)


def _lands_other_bytes(spec: GroupSpec) -> bool:
    is_typed = spec.decode.columns or spec.output.columns is ColumnSource.FROM_SCHEMA
    becomes_json = output_format(spec.output).wanted.json and spec.decode.format != "Json"
    return bool(spec.transforms or is_typed or becomes_json or spec.output.format == "Avro")


def examine(  # noqa: PLR0913  # what is compared, and with what
    opened: GroupStore,
    topics: Iterable[str] = (),
    *,
    reader: Reader | None = None,
    backup: Reader | None = None,
    progress: Progress | None = None,
    topic_ids: Mapping[str, str] = MappingProxyType({}),
) -> VerifyResult:
    """Read every object of the COMMITs that are visible and compare it with what was committed.

    Records of dead letters that were replayed are looked for where the REPLAY landed them. Where
    objects were replaced, the new ones are compared with the REPLACE; ranges that a backfill landed
    again, as if it were their COMMIT.

    Args:
        opened: the group.
        topics: only these, or all if empty.
        reader: also compares the payloads with the records it reads.
        backup: reads records that Kafka had lost; None to skip them.
        progress: is called with the number of objects that are read.
        topic_ids: of the topics that ``reader`` reads. Ranges of a topic of the same name that was
            deleted count as ranges that Kafka no longer holds.
    """
    progress = progress or silent("verify", "objects")
    result = VerifyResult()
    wanted = frozenset(topics)
    state = opened.seen_state()
    replaced = replace(changed(opened, state), expired=_expired_letters(opened))
    progress.total = None if wanted else state.totals.present_objects
    own_ids = _own_ids(opened, state) if topic_ids else TopicIds()
    done = 0

    def read(each: _Applied) -> tuple[_Applied, list[ReadBack | str]]:
        return each, [_read(opened, o, each.with_spec) for o in each.found.landed.objects]

    slices = _applied(opened=opened, state=state, wanted=wanted, result=result, replaced=replaced)
    for applied, outcomes in map_concurrently(read, slices):
        landed, tp = applied.found.landed, applied.found.landed.piece.topic_partition
        progress(done := done + len(outcomes))
        result.faults += [fault for fault in outcomes if isinstance(fault, str)]
        objects = [read_object for read_object in outcomes if isinstance(read_object, ReadBack)]
        result.coverage[tp] = result.coverage.get(tp, Coverage()) + cover(landed, objects)
        if len(objects) == len(outcomes):
            result.faults += miscounted_parts(landed, objects)
        if reader:
            own_id = own_ids.of(tp, applied.slot)
            is_there = not own_id or topic_ids.get(tp.topic, own_id) == own_id
            source = backup if landed.read_from else reader
            comparison = _compare(opened, source if is_there else None, applied.found, objects)
            result.comparison = (result.comparison or Comparison()) + comparison
    known = {o.upload.key for landed in replaced.again.slices for o in landed.objects}
    known |= replaced.expired
    others = [new for key, new in replaced.new.items() if key not in known]
    numbered = enumerate(others, start=done + 1)
    new = (object_ for _, object_ in progress.over(numbered, position=lambda each: each[0]))
    _examine_new(opened, wanted, new, result)
    return result


def _own_ids(opened: GroupStore, state: State) -> TopicIds:
    """The ids of the topics that the group has landed."""
    found = TopicIds()
    for seq, body in opened.lane.bodies_of(state, (Add,)):
        for effect in effects(decode(seq, body)):
            found.take(effect)
    return found


def _examine_new(
    opened: GroupStore, wanted: frozenset[str], objects: Iterable[NewObject], result: VerifyResult
) -> None:
    """Read the replacements, and add them to the result."""

    def read(new: NewObject) -> tuple[NewObject, TopicPartition, ReadBack | str]:
        origin = object_names.origin(opened.name, new.key)
        tp = TopicPartition(origin.topic, origin.partition)
        return new, tp, _read(opened, new.landed)

    chosen = (
        new
        for new in objects
        if not wanted or object_names.origin(opened.name, new.key).topic in wanted
    )
    for new, tp, outcome in map_concurrently(read, chosen):
        if isinstance(outcome, str):
            result.faults.append(outcome)
            covered = Coverage(new.landed.rows, 0, new.landed.rows)
        else:
            covered = cover_new(new, outcome)
        result.coverage[tp] = result.coverage.get(tp, Coverage()) + covered


def _compare(
    opened: GroupStore, reader: Reader | None, found: Corrected, objects: list[ReadBack]
) -> Comparison:
    if found.is_replaced:
        return Comparison(slices_replaced=1)
    if reader is None:
        return Comparison(slices_gone=1)
    try:
        in_kafka = read_back.kafka_records(opened, reader, found.landed.piece)
        return compare(in_kafka, objects, found.lost)
    except EndsEarly:  # the backup's copy of it is damaged further on
        return Comparison(slices_gone=1)
    except Stalled as stalled:
        if stalled.reason not in _GONE:
            raise
        return Comparison(slices_gone=1)


@dataclass(frozen=True, slots=True)
class _Applied:
    """A slice whose objects must be visible, the slot that landed it, and one with its spec."""

    slot: int
    with_spec: int
    found: Corrected


def _applied(
    opened: GroupStore,
    state: State,
    wanted: frozenset[str],
    result: VerifyResult,
    replaced: ReplaceChanges,
) -> Iterator[_Applied]:
    """The slices whose objects must be visible, with the slots that landed them.

    COMMITs after them are counted in the result.
    """
    applied_through = state.applied_through
    # Most ledgers correct nothing, and need not be read twice.
    is_changed = bool(state.totals.lost_objects or state.totals.replayed or replaced.expired)
    by = corrections(opened.records(), applied_through) if is_changed else Corrections()
    by = replace(by, retired=replaced.retired.keys(), expired=replaced.expired)
    again = replaced.again
    is_corrected = is_changed or bool(replaced.retired)
    for record in opened.records():
        landed = [effect for effect in effects(record) if isinstance(effect, RangeLanded)]
        if landed and record.header.seq > applied_through:
            result.unapplied += 1
            continue
        for effect in landed:
            s = effect.landed
            found = corrected(s, by) if is_corrected else Corrected(s)
            if (slot := again.replaced_by(effect.slot, s.piece)) is not None:
                result.faults += _staying(found, slot)
            elif _is_wanted(wanted, s):
                yield _Applied(effect.slot, effect.slot, found)
    last = state.applied_through
    for again_slice in again.with_slots:
        if _is_wanted(wanted, again_slice.landed):
            yield _Applied(again_slice.slot, last, corrected(again_slice.landed, by))


def _expired_letters(opened: GroupStore) -> frozenset[str]:
    """The keys of all dead letters that have expired."""
    through, keys = read_expired(opened.store, opened.name, LANE).through, set[str]()
    for record in opened.records() if through >= 0 else ():
        if record.header.seq > through:
            break
        named = [o for s in decided_slices(record) for o in s.objects]
        for replacement in replaces([record]):
            listed = read_replaced(opened.store, replacement.header.seq, replacement.listed)
            named += (new.landed for new in listed.objects)
        keys |= {o.upload.key for o in named if o.kind is ObjectKind.DEAD_LETTERS}
    return frozenset(keys)


def _is_wanted(wanted: frozenset[str], landed: LandedSlice) -> bool:
    return not wanted or landed.piece.topic_partition.topic in wanted


def _staying(found: Corrected, slot: int) -> Iterator[str]:
    """Objects of a slice that should have been replaced, since a backfill landed it again."""
    for object_ in found.landed.objects:
        yield f"{object_.upload.key}: its rows were landed again in slot {slot}, and it stays"


def _read(opened: GroupStore, landed: LandedObject, slot: int = -1) -> ReadBack | str:
    """The object, by the spec that made it, or why it could not be read."""
    try:
        output = opened.output_of(landed.key, slot)
        return read_back.read_back(opened, output, landed)
    except FileNotFoundError:
        return f"{landed.key}: missing"
    except (ValueError, EOFError, OSError) as error:
        return f"{landed.key}: {error}"


def _show(result: VerifyResult, *, by_topic_partition: bool) -> None:
    out = console.out()
    _show_coverage(out, result, by_topic_partition=by_topic_partition)
    if result.comparison:
        out.print(_comparison_text(result.comparison))
    for fault in result.faults[:MAX_FAULTS]:
        out.print(f"[red]{escape(fault)}[/red]")
    if len(result.faults) > MAX_FAULTS:
        more = console.counted(len(result.faults) - MAX_FAULTS, "more object")
        out.print(f"and {more}")
    if result.unapplied:
        unapplied = console.counted(result.unapplied, "COMMIT was", "COMMITs were")
        out.print(f"{unapplied} not checked: not all objects are visible yet")
    if not result.is_whole:
        out.print("[red]NOT every record is there exactly once[/red]")
    elif result.total.expected:
        out.print("[green]every record is there exactly once[/green]")
    else:
        out.print("[red]nothing was checked: no COMMIT that could be checked landed a record[/red]")


def _show_coverage(out: Console, result: VerifyResult, *, by_topic_partition: bool) -> None:
    rows: dict[str, Coverage] = {}
    for tp, coverage in sorted(result.coverage.items()):
        name = str(tp) if by_topic_partition else tp.topic
        rows[name] = rows.get(name, Coverage()) + coverage
    shown = console.table(
        "topic partition" if by_topic_partition else "topic",
        *(">expected", ">found", ">missing", ">duplicate", ">foreign", ">objects"),
        "checked by",
    )
    for name, c in [*rows.items(), ("total", result.total)]:
        numbers = (c.expected, c.found, c.missing, c.duplicate, c.foreign, c.objects)
        shown.add_row(
            escape(name),
            *map(console.count, numbers),
            "offset" if c.exact else "row count",
            style="" if c.is_whole else "red",
        )
    out.print(shown)


def _comparison_text(c: Comparison) -> str:
    gone = console.counted(c.slices_gone, "range is", "ranges are")
    expired = f"; {gone} no longer in Kafka" if c.slices_gone else ""
    if c.lost:
        lost = console.counted(c.lost, "record is", "records are")
        expired += f"; {lost} in Kafka, but recorded as lost or expired with their objects"
    if c.slices_replaced:
        replaced = console.counted(c.slices_replaced, "range was", "ranges were")
        expired += f"; {replaced} not compared, as objects were replaced: landfall audit does that"
    if c.is_same:
        return f"payloads: the same {console.count(c.records)} as in Kafka{expired}"
    wrong = f"{console.count(c.missing)} missing, {console.count(c.foreign)} not in Kafka"
    unordered = console.counted(c.slices_out_of_order, "range", "ranges")
    return f"[red]payloads: {wrong}, {unordered} out of order[/red]{expired}"


def _json(result: VerifyResult) -> str:
    return msgspec.json.encode(
        {
            "whole": result.is_whole and result.total.expected > 0,
            **asdict(result.total),
            "kafka": asdict(result.comparison) if result.comparison else None,
            "unapplied_commits": result.unapplied,
            "faults": result.faults,
            "partitions": [
                {"topic": tp.topic, "partition": tp.partition, **asdict(c)}
                for tp, c in sorted(result.coverage.items())
            ],
        }
    ).decode()
