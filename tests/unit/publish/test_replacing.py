"""What publishers make of objects that take the place of others."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from msgspec import structs

from landfall.errors import Reason, Retry, Stalled
from landfall.lane import Lane
from landfall.ledger import Finalize, Horizon
from landfall.ledger.replace.replacement_lists import NewObject
from landfall.ledger.task_results import DecidedObject
from landfall.publish import Stretch
from landfall.publish.building import publisher, replacement_problems
from landfall.publish.events import EventKind, Events
from landfall.publish.events.airflow import extra
from landfall.publish.finished import Calendars
from landfall.publish.following import Follower
from landfall.publish.steps import StepPublisher
from landfall.publish.tables import Next
from tests.support.driver.fakes import group
from tests.support.ledger.carried_out import WholeMerge
from tests.support.ledger.event_ledger import EventLedger
from tests.support.ledger.sample_ledger import GROUP, LANE, SampleLedger
from tests.support.publishers.lake import (
    CLICKS,
    ORDERS,
    Lake,
    Landed,
    MemoryTables,
    delta_lake,
    parquet,
)


@dataclass
class ParquetMerge(WholeMerge):
    """A merge of files with a row for each offset."""

    def _merged(self) -> bytes:
        each = (range(o.landed.first_offset, o.landed.last_offset + 1) for o in self.retire)
        return parquet([offset for offsets in each for offset in offsets])


def merged(sample: SampleLedger, *slots: int, kind: type[WholeMerge] = WholeMerge) -> WholeMerge:
    """The clicks of these COMMITs are merged, and what they were merged of has retired."""
    retire = tuple(
        DecidedObject(each.landed_slot, each.landed)
        for each in _landed(sample)
        if each.landed_slot in slots
    )
    return kind(sample, retire, sample.state.applied_through).record().complete().retired()


@dataclass(frozen=True)
class _Landed:
    landed_slot: int
    landed: Any


def _landed(sample: SampleLedger) -> Iterator[_Landed]:
    for state, visible in Lane(sample.store, GROUP, LANE).folded(type(sample.state)()):
        for landed in visible.objects:
            if landed.upload.key.startswith("clicks/"):
                yield _Landed(state.seq, landed)


def landed_and_merged() -> tuple[SampleLedger, WholeMerge]:
    """Three objects of clicks, of which the first two are merged once all are visible."""
    sample = SampleLedger().open().add(CLICKS)
    for start in (0, 5, 10):
        sample.commit(sample.land(CLICKS, start, start + 5))
    applied = sample.shown().state.applied_through
    first = [each for each in _landed(sample) if each.landed.first_offset < 10]
    retire = tuple(DecidedObject(each.landed_slot, each.landed) for each in first)
    merge = WholeMerge(sample, retire, applied)
    return sample, merge.record().complete().retired()


def follower(sample: SampleLedger, max_objects: int = 100) -> Follower:
    return Follower(Lane(sample.store, GROUP, LANE), max_objects)


def keys(stretch: Stretch) -> list[str]:
    return [each.landed.upload.key for each in stretch.objects]


def test_a_stretch_says_what_became_visible_and_what_was_replaced() -> None:
    sample, merge = landed_and_merged()
    new = merge.new.landed

    (stretch,) = follower(sample).stretches(-1)

    (replaced,) = stretch.replaced
    assert [each.landed.first_offset for each in stretch.objects] == [0, 5, 10]
    assert replaced.retired == tuple(each.landed for each in merge.retire)
    assert [each.landed for each in replaced.objects] == [new]
    assert (replaced.slot, replaced.record) == (sample.state.seq, sample.state.seq - 1)
    assert [each.landed.first_offset for each in stretch.net().objects] == [10, 0]
    assert keys(stretch.net())[1] == new.upload.key


@pytest.mark.parametrize("size", [1, 2, 100])
def test_who_opens_objects_gets_each_row_once_and_none_that_retired(size: int) -> None:
    sample, merge = landed_and_merged()
    retired = {each.landed.upload.key for each in merge.retire}

    for after in range(-1, sample.state.seq):
        stretches = [*follower(sample, size).remaining(after)]

        found = [key for stretch in stretches for key in keys(stretch)]
        assert len({*found}) == len(found)
        assert merge.new.landed.upload.key in found
        assert not retired & {*found}
        assert [each.record for s in stretches for each in s.replaced] == [sample.state.seq - 1]


def test_a_list_that_is_gone_breaks_the_ledger() -> None:
    sample, merge = landed_and_merged()
    sample.store.delete_slots([merge.stored().key])

    with pytest.raises(Stalled, match="which is not there") as caught:
        list(follower(sample).stretches(-1))

    assert caught.value.reason is Reason.LEDGER_BROKEN


def test_a_table_that_cannot_follow_stalls_until_it_is_published_anew(tmp_path: Path) -> None:
    landed = Landed(tmp_path).land(CLICKS, ORDERS).land(CLICKS).settle()
    tables = MemoryTables(landed.store.read)
    lake = Lake(landed, lambda: tables, lambda name: tables.tables[name].rows, tables.clear)
    lake.publish()
    merged(landed.sample, landed.sample.state.seq, kind=ParquetMerge)
    landed.land(ORDERS).settle()

    for _ in range(2):
        with pytest.raises(Stalled, match=r"table lake.clicks may have 2 .*--rebuild") as caught:
            lake.publish()
        assert caught.value.reason is Reason.DESTINATION_CONFLICT
        assert lake.offsets("lake.orders") == [*range(20)]
    landed.publisher(tables).reset(landed.follower())
    lake.publish()

    assert lake.is_whole()
    assert tables.tables.keys() == landed.rows.keys()


def test_what_is_published_anew_may_be_interrupted_anywhere(tmp_path: Path) -> None:
    landed = Landed(tmp_path).land(CLICKS).land(CLICKS).settle()
    merged(landed.sample, landed.sample.state.seq, kind=ParquetMerge)
    landed.land(CLICKS, ORDERS).settle()
    tables = MemoryTables(landed.store.read)
    landed.publisher(tables).reset(landed.follower())
    new = landed.publisher(tables)

    for stretch in Follower(Lane(landed.store, GROUP, LANE), 1).remaining(-1):

        class Short(Follower):
            end = stretch.through

            def remaining(self, after: int) -> Iterator[Stretch]:
                yield from (s for s in super().remaining(after) if s.through <= self.end)

        new.publish(Short(Lane(landed.store, GROUP, LANE), 1))

    assert sorted(tables.tables["lake.clicks"].rows) == [*range(30)]
    assert tables.tables["lake.orders"].rows == [*range(10)]


def test_delta_takes_old_files_out_and_new_ones_in_by_one_commit(tmp_path: Path) -> None:
    lake = delta_lake(tmp_path)
    landed = lake.landed.land(CLICKS, ORDERS).land(CLICKS).settle()
    lake.publish()
    table = f"{tmp_path}/tables/lake.clicks"
    before = DeltaTable(table).version()
    merge = merged(landed.sample, landed.sample.state.seq, kind=ParquetMerge)

    lake.publish()

    assert lake.is_whole()
    found = DeltaTable(table)
    assert found.version() == before + 1
    new = merge.new.landed.upload.key
    assert pa.table(found.get_add_actions())["path"].to_pylist() == [landed.url(new)]
    landed.land(CLICKS).settle()
    lake.publish()
    assert lake.is_whole()


def data_changes(table: str) -> dict[str, set[bool]]:
    """By the starts of the ranges of files that were replaced: whether their entries change data.

    The first two versions create the table, and add the first files.
    """
    versions = sorted(Path(table, "_delta_log").glob("*.json"))[2:]
    found = dict[str, set[bool]]()
    for line in chain.from_iterable(each.read_text().splitlines() for each in versions):
        for action in ("add", "remove"):
            if entry := json.loads(line).get(action):
                name = re.search(r"1_0_[0-9]{20}", entry["path"])
                assert name, entry
                found.setdefault(f"{action} {name[0]}", set()).add(entry["dataChange"])
    return found


FIRST, SECOND, THIRD = (f"1_0_{start:020d}" for start in (0, 10, 20))


def test_a_merge_changes_no_data_of_a_delta_table(tmp_path: Path) -> None:
    lake = delta_lake(tmp_path)
    landed = lake.landed.land(CLICKS).land(CLICKS).settle()
    lake.publish()
    merged(landed.sample, *slots_of(landed), kind=ParquetMerge)
    landed.land(CLICKS).settle()

    lake.publish()

    assert lake.is_whole()
    assert data_changes(f"{tmp_path}/tables/lake.clicks") == {
        f"add {FIRST}": {False},
        f"remove {FIRST}": {False},
        f"remove {SECOND}": {False},
        f"add {THIRD}": {True},
    }


def test_a_merge_of_what_a_delta_table_has_not_yet_changes_data(tmp_path: Path) -> None:
    lake = delta_lake(tmp_path)
    landed = lake.landed.land(CLICKS).settle()
    lake.publish()
    landed.land(CLICKS).settle()
    merged(landed.sample, *slots_of(landed), kind=ParquetMerge)

    lake.publish()

    assert lake.is_whole()
    table = f"{tmp_path}/tables/lake.clicks"
    assert data_changes(table) == {f"add {FIRST}": {True}, f"remove {FIRST}": {True}}


@dataclass
class ParquetDedupe(ParquetMerge):
    """The last row has the key of another one."""

    def _uploaded(self) -> NewObject:
        new = super()._uploaded()
        landed = structs.replace(new.landed, rows=new.landed.rows - 1)
        *first, last = new.sections
        sections = (*first, replace(last, rows=last.rows - 1))
        return replace(new, landed=landed, sections=sections, mixed=True)

    def _merged(self) -> bytes:
        each = (range(o.landed.first_offset, o.landed.last_offset + 1) for o in self.retire)
        return parquet([offset for offsets in each for offset in offsets][:-1])

    def record(self, **fields: object) -> "ParquetDedupe":
        super().record(duplicates=1, **fields)
        return self


def test_a_merge_that_leaves_a_duplicate_out_changes_data_of_a_delta_table(tmp_path: Path) -> None:
    lake = delta_lake(tmp_path)
    landed = lake.landed.land(CLICKS).land(CLICKS).settle()
    lake.publish()
    merged(landed.sample, *slots_of(landed), kind=ParquetDedupe)

    lake.publish()

    table = f"{tmp_path}/tables/lake.clicks"
    assert data_changes(table) == {
        f"add {FIRST}": {True},
        f"remove {FIRST}": {True},
        f"remove {SECOND}": {True},
    }
    assert len(lake.offsets("lake.clicks")) == 19


def slots_of(landed: Landed) -> set[int]:
    return {each.landed_slot for each in _landed(landed.sample)}


@pytest.mark.parametrize("is_behind", [True, False])
def test_delta_is_whole_wherever_it_was(tmp_path: Path, *, is_behind: bool) -> None:
    lake = delta_lake(tmp_path)
    landed = lake.landed.land(CLICKS).settle()
    if is_behind:
        lake.publish()
    landed.land(CLICKS).land(CLICKS).settle()
    visible = {each.landed_slot for each in _landed(landed.sample)}
    merged(landed.sample, *visible, kind=ParquetMerge)
    landed.land(CLICKS, ORDERS).settle()

    lake.publish()

    assert lake.is_whole()
    landed.publisher(lake.connect()).reset(landed.follower())
    lake.publish()
    assert lake.is_whole()


class OneAway(MemoryTables):
    """Of these tables the destination does not answer for some."""

    away: frozenset[str] = frozenset()

    def append(self, table: str, after: Next) -> int:
        if table in self.away:
            raise Retry(f"{table}: no answer")
        return super().append(table, after)


def test_a_table_that_failed_holds_the_position_back(tmp_path: Path) -> None:
    """What it still names must not be deleted, though the other tables have followed."""
    landed = Landed(tmp_path).land(CLICKS, ORDERS).settle()
    tables = OneAway(landed.store.read)
    run = landed.publisher(tables)
    before = run.publish(landed.follower()).through
    landed.land(CLICKS, ORDERS).settle()
    tables.away = frozenset({"lake.clicks"})

    with pytest.raises(Retry, match=r"lake\.clicks"):
        run.publish(landed.follower())
    behind = run.position()
    tables.away = frozenset()
    after = run.publish(landed.follower()).through

    assert behind == before < after == run.position()
    assert tables.tables["lake.clicks"].rows == [*range(20)]


def test_a_table_that_is_dropped_holds_the_position_back_until_it_is_filled(tmp_path: Path) -> None:
    landed = Landed(tmp_path).land(CLICKS, ORDERS).settle()
    tables = OneAway(landed.store.read)
    run = landed.publisher(tables)
    through = run.publish(landed.follower()).through
    tables.clear("lake.clicks")
    tables.away = frozenset({"lake.clicks"})

    with pytest.raises(Retry, match=r"lake\.clicks"):
        run.publish(landed.follower())
    behind = run.position()
    tables.away = frozenset()

    assert (behind, run.publish(landed.follower()).through) == (-1, through)
    assert run.position() == through


def test_what_takes_the_place_of_others_is_not_late() -> None:
    day_end = 1_795_305_600_000
    sample = SampleLedger().open().add(CLICKS)
    sample.commit(sample.land(CLICKS, 0, 5, latest_ms=day_end + 100))
    entries = (Horizon("clicks", day_end),)
    sample.append(lambda h: Finalize(header=h, delay=10, looked=2 * day_end, entries=entries))
    sample.shown()
    merged(sample, sample.state.seq)
    (stretch,) = follower(sample).stretches(-1)

    assert stretch.replaced
    assert list(Calendars(group().spec).late(stretch)) == []


@dataclass
class Noted:
    """A step that notes the objects it was given."""

    path: Path
    keys: list[str] = field(default_factory=list)

    def take(self, stretch: Stretch) -> int:
        self.keys += keys(stretch)
        return len(stretch.objects)

    def preview(self, stretch: Stretch) -> Iterator[str]:
        yield from keys(stretch)


def test_folders_get_a_partition_for_an_object_that_takes_the_place_of_others() -> None:
    sample, merge = landed_and_merged()
    scene = EventLedger("Webhook", {"url": "http://unused"}, sample=sample)
    step = Noted(Path("noted"))
    publish = StepPublisher(scene.context, scene.context.cursor("noted"), step)

    publish.publish(scene.follower(1))

    assert merge.new.landed.upload.key in step.keys
    assert len(step.keys) == 2


def test_an_event_says_what_retired_and_what_took_its_place() -> None:
    sample, merge = landed_and_merged()
    scene = EventLedger("Webhook", {"url": "http://unused"}, sample=sample)
    (stretch,) = scene.follower(100).stretches(-1)

    (event,) = Events(scene.context, frozenset({EventKind.REPLACED})).of(stretch)

    document = json.loads(event.encode())
    data = document["data"]
    record = sample.state.seq - 1
    assert document["type"] == "dev.landfall.replaced.v1"
    assert event.id == f"shop/0/{sample.state.seq}/replaced/{record}/clicks"
    assert (data["slot"], data["replacement"]) == (sample.state.seq, record)
    assert (data["rows"], data["retiredRows"], data["part"], data["parts"]) == (10, 10, 0, 1)
    url = scene.context.url
    assert [o["url"] for o in data["objects"]] == [url(merge.new.landed.upload.key)]
    assert [o["url"] for o in data["retired"]] == [
        url(each.landed.upload.key) for each in merge.retire
    ]
    assert (extra(event)["objects"], extra(event)["retired"]) == (1, 2)
    assert str(event) == f"event {event.id}: Replaced clicks, 10 rows"


@pytest.mark.parametrize(
    ("kind", "options", "follows"),
    [
        ("Delta", {"table": "file:///t/{topic}"}, True),
        ("Webhook", {"url": "http://unused"}, True),
        ("Iceberg", {"table": "a.b", "properties": {}}, True),
        ("examples.plugins.object_index:ObjectIndex", {"file": "index.db"}, False),
    ],
)
def test_a_publisher_that_cannot_follow_is_named(
    tmp_path: Path, kind: str, options: dict[str, object], *, follows: bool
) -> None:
    context = Landed(tmp_path).context(kind, options)

    problems = replacement_problems(context.group)

    assert [problem.partition(" cannot")[0] for problem in problems] == (
        [] if follows else [f"spec.publish[0].type: {kind}"]
    )


def test_delta_says_itself_that_it_follows(tmp_path: Path) -> None:
    context = Landed(tmp_path).context("Delta", {"table": f"file://{tmp_path}/{{topic}}"})

    built: Any = publisher(context.group, context.entry, context.store)

    assert built.follows_replacements
