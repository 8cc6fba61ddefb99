"""What reads the ledger for objects, where some took the place of others: locate, verify, cat."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec import structs

from landfall.api.contract import ExitCode
from landfall.checks.payloads import Comparison
from landfall.cli import main
from landfall.cli.group_store import GroupStore
from landfall.cli.look import status
from landfall.cli.look.status import read_progress
from landfall.cli.objects.locate_files import FeedParts
from landfall.cli.objects.verify import examine
from landfall.driver.core.counters import DriverCounters
from landfall.driver.core.deps import DriverDeps
from landfall.driver.core.in_process import InProcessRunner
from landfall.driver.landing.closed_ranges import ReadingBack
from landfall.errors import Retry, Stalled
from landfall.ledger import Purpose
from landfall.ledger.feeds.part_lists import ListedPart
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.replace.replacement_lists import ReplacementList, Section
from landfall.ledger.task_results import DecidedObject
from landfall.pipeline.records import Records, filled
from landfall.task.counting import Miscounted
from landfall.task.counting import ObjectsOfSpec as CountedObjects
from tests.support.ledger.carried_out import WholeMerge
from tests.unit.cli.conftest import TP, Landed
from tests.unit.cli.look.test_status import FixedLog

Captured = pytest.CaptureFixture[str]
OTHER = TopicPartition("clicks", 1)
SPANS = (Slice(TP, OffsetRange(0, 20)), Slice(OTHER, OffsetRange(100, 105)))


@dataclass
class RowMerge(WholeMerge):
    """A merge of objects with a row for each offset, in any format."""

    landed: Landed | None = None

    def _merged(self) -> bytes:
        assert self.landed
        each = (range(o.landed.first_offset, o.landed.last_offset + 1) for o in self.retire)
        return self.landed.body([offset for offsets in each for offset in offsets])

    def changed(self, **fields: object) -> "RowMerge":
        """The same with a new object of which something else is said."""
        self.new = replace(self.new, **fields)  # type: ignore[arg-type]
        self.listed = ReplacementList(self.retire, (self.new,))
        return self


class Scene:
    """Two objects of a topic partition and one of another, all visible."""

    def __init__(self, landed: Landed) -> None:
        self.landed, sample = landed, landed.sample
        sample.add(OTHER, start=100)
        sample.commit(second := sample.land(TP, 10, 20))
        sample.commit(other := sample.land(OTHER, 100, 105)).shown()
        self.objects = [
            DecidedObject(slot, landed_slice.objects[0])
            for slot, landed_slice in ((2, landed.first), (4, second), (5, other))
        ]

    def merge(self, count: int = 2) -> RowMerge:
        """Merge the first of these objects."""
        sample = self.landed.sample
        retire = tuple(self.objects[:count])
        return RowMerge(sample, retire, sample.state.applied_through, landed=self.landed)

    def opened(self) -> GroupStore:
        return GroupStore.of(Path(self.landed.file))

    def url(self, merge: WholeMerge) -> str:
        return f"file://{self.landed.root}/{merge.new.landed.upload.key}"

    def ran(self, capsys: Captured, verb: str, *argv: str) -> tuple[int, str]:
        code = main([verb, self.landed.file, *argv])
        return code, capsys.readouterr().out

    def located(self, capsys: Captured, offset: int, tp: TopicPartition = TP) -> dict[str, object]:
        argv = (tp.topic, str(tp.partition), str(offset), "--json")
        found: dict[str, object] = json.loads(self.ran(capsys, "locate", *argv)[1])
        return found


@pytest.fixture(params=["Json", "SequenceFile"])
def scene(request: pytest.FixtureRequest, landed: Callable[[str], Landed]) -> Scene:
    return Scene(landed(request.param))


@pytest.mark.parametrize("is_rolled", [False, True])
def test_an_offset_is_found_in_the_section_of_a_merged_object(
    scene: Scene, capsys: Captured, *, is_rolled: bool
) -> None:
    merge = scene.merge(3).record(slices=SPANS).complete()
    assert scene.located(capsys, 12)["slot"] == 4
    merge.retired()
    if is_rolled:
        scene.landed.sample.open(generation=2).snapshot().roll().snapshot()

    found, other = scene.located(capsys, 12), scene.located(capsys, 103, OTHER)

    expected = {"url": scene.url(merge), "rows": 25, "certain": True}
    assert found["objects"] == [{**expected, "row": 13}]
    assert other["objects"] == [{**expected, "row": 24}]
    assert found["slot"] == merge.slot
    assert "the REPLACE in slot 7" in str(found["message"])


def test_an_offset_is_found_in_its_own_life_though_one_replace_has_merged_both(
    scene: Scene, capsys: Captured
) -> None:
    sample = scene.landed.sample
    sample.drop(TP)
    sample.open(generation=2).add(TP)
    sample.commit(first := sample.land(TP, 0, 10))
    sample.commit(second := sample.land(TP, 10, 20)).shown()
    former = scene.merge()
    scene.objects = [
        DecidedObject(slot, landed_slice.objects[0])
        for slot, landed_slice in ((10, first), (11, second))
    ]
    own = scene.merge()
    retire = tuple(sorted((*former.retire, *own.retire), key=lambda old: old.key))
    former.retire, former.listed = retire, ReplacementList(retire, (former.new, own.new))
    former.record(slices=SPANS[:1]).complete().retired()

    found = scene.located(capsys, 12)

    expected = {"url": scene.url(own), "row": 13, "rows": 20, "certain": True}
    assert found["objects"] == [expected]


def test_an_offset_among_mixed_rows_is_read(scene: Scene, capsys: Captured) -> None:
    merge = scene.merge().changed(mixed=True)
    merge.record().complete().retired()

    found = scene.located(capsys, 12)

    row = 13 if scene.landed.format.extension == ".seq" else None
    assert found["fate"] == "landed"
    assert found["objects"] == [{"url": scene.url(merge), "row": row, "rows": 20, "certain": True}]


def test_an_offset_among_mixed_rows_of_several_partitions_has_no_row(
    scene: Scene, capsys: Captured
) -> None:
    merge = scene.merge(3).changed(mixed=True)
    merge.record(slices=SPANS).complete().retired()

    found = scene.located(capsys, 12)

    assert found["objects"] == [{"url": scene.url(merge), "row": None, "rows": 25, "certain": True}]
    unknown = scene.landed.format.extension == ".seq"
    why = "several Kafka partitions are mixed" if unknown else "so the row is unknown"
    assert why in str(found["message"])
    assert f"what the COMMIT landed, by the REPLACE in slot {merge.slot}" in str(found["message"])
    assert found["slot"] == merge.slot


def test_a_duplicate_that_was_left_out_is_not_lost(scene: Scene, capsys: Captured) -> None:
    merge = scene.merge()
    body = scene.landed.body(range(19))
    upload_id = scene.landed.sample.store.begin(merge.new.landed.upload.key, merge.token)
    key = merge.new.landed.upload.key
    part = scene.landed.sample.store.put_part(key, upload_id, 1, body)
    upload = structs.replace(merge.new.landed.upload, upload_id=upload_id, parts=(part,))
    landed = structs.replace(merge.new.landed, upload=upload, rows=19, last_offset=18)
    sections = (Section(0, 10, 0, 9), Section(0, 9, 10, 18))
    merge.changed(landed=landed, sections=sections, mixed=True)
    merge.record(duplicates=1, slices=SPANS[:1]).complete().retired()

    found = scene.located(capsys, 19)

    assert found["fate"] == "no-record"
    assert "the new ones leave out duplicates" in str(found["message"])


def test_verify_reads_what_is_there_now(scene: Scene, capsys: Captured) -> None:
    merge = scene.merge(3).record(slices=SPANS).complete()
    before = json.loads(scene.ran(capsys, "verify", "--json")[1])
    merge.retired(is_kept=False)

    code, text = scene.ran(capsys, "verify", "--json")

    after = json.loads(text)
    assert code == ExitCode.OK
    assert (before["whole"], before["found"], before["objects"]) == (True, 25, 3)
    assert (after["whole"], after["expected"], after["found"], after["objects"]) == (
        True,
        25,
        25,
        1,
    )


def test_verify_finds_what_a_new_object_lacks(scene: Scene, capsys: Captured) -> None:
    merge = scene.merge().record().complete().retired()
    path = scene.landed.root / merge.new.landed.upload.key

    path.write_bytes(scene.landed.body(range(18)))
    assert json.loads(scene.ran(capsys, "verify", "--json")[1])["missing"] == 2
    path.unlink()
    code, text = scene.ran(capsys, "verify", "--json")

    assert code == ExitCode.FAULT
    assert json.loads(text)["faults"] == [f"{merge.new.landed.upload.key}: missing"]


class Kafka:
    """Holds what was landed."""

    def read(self, slice_: Slice) -> Iterator[Records]:
        offsets = list(range(slice_.offsets.start, slice_.offsets.end))
        yield filled(slice_.topic_partition, offsets, [b'{"o":%d}' % o for o in offsets])


def test_verify_compares_no_range_with_kafka_whose_objects_were_replaced(scene: Scene) -> None:
    scene.merge().record().complete().retired()

    result = examine(scene.opened(), reader=Kafka())

    assert (result.comparison, result.is_whole) == (Comparison(5, slices_replaced=2), True)


def test_what_is_undone_is_read_where_it_came_back(scene: Scene, capsys: Captured) -> None:
    merge = scene.merge().record().complete().retired()
    sample = scene.landed.sample
    again = DecidedObject(merge.slot, merge.new.landed)
    undone = RowMerge(sample, (again,), sample.state.applied_through, landed=scene.landed)
    undone.record(purpose=Purpose.UNDO).complete().retired()

    found = scene.located(capsys, 12)

    assert found["objects"] == [{"url": scene.url(undone), "row": 13, "rows": 20, "certain": True}]
    assert json.loads(scene.ran(capsys, "verify", "--json")[1])["whole"]


def test_cat_prints_the_copy_of_an_object_that_has_retired(scene: Scene, capsys: Captured) -> None:
    key = scene.objects[0].landed.upload.key
    code, before = scene.ran(capsys, "cat", key)
    merge = scene.merge().record().complete().retired()
    sample = scene.landed.sample

    main(["cat", scene.landed.file, key])
    printed = capsys.readouterr()

    record = merge.slot
    copy = f"_landfall/shop/0-retired/{record:020d}/{key}"
    assert (code, printed.out) == (ExitCode.OK, before)
    assert f"the REPLACE in slot {record} replaced it" in printed.err
    assert scene.ran(capsys, "cat", copy) == (ExitCode.OK, before)
    sample.store.delete_slots([copy])
    assert main(["cat", scene.landed.file, key]) == ExitCode.USAGE
    assert f"nor its copy {copy}, which has expired" in " ".join(capsys.readouterr().err.split())


def test_the_parts_of_a_file_are_in_what_took_the_place_of_their_objects(scene: Scene) -> None:
    part = ListedPart("a.json", "etag", 9, 0, 0, 9)
    before = [scene.objects[0], scene.objects[1]]
    (was,) = FeedParts(scene.opened(), TP).fates([(0, part)])
    merge = scene.merge().record().complete()
    (pending,) = FeedParts(scene.opened(), TP).fates([(0, part)])
    merge.retired()

    (found,) = FeedParts(scene.opened(), TP).fates([(0, part)])

    old = tuple(f"file://{scene.landed.root}/{each.landed.upload.key}" for each in before)
    assert was.objects == pending.objects == old
    assert found.objects == (scene.url(merge),)
    assert replace(found, objects=old) == was


@dataclass
class Deleting(InProcessRunner):
    """A runner during whose work objects retire."""

    retire: Callable[[], object]

    def read_back(self, shares: Sequence[CountedObjects]) -> list[Miscounted]:
        self.retire()
        return super().read_back(shares)


def problems(scene: Scene, runner: InProcessRunner) -> Mapping[str, Stalled]:
    """What a driver finds when it reads back what has landed."""
    opened = scene.opened()
    deps = DriverDeps(
        opened.store,
        cast("Any", None),
        runner,
        cast("Any", None),
        str,
        DriverCounters(datetime.now(UTC)),
    )
    reading = ReadingBack(opened.group, deps, lambda: None)
    try:
        return reading.begin(-1).result()
    finally:
        reading.stop()


def test_a_range_is_read_back_in_what_took_the_place_of_its_objects(scene: Scene) -> None:
    merge = scene.merge().record().complete()

    with pytest.raises(Retry, match="replaced while they were read back"):
        problems(scene, Deleting(merge.retired))

    assert problems(scene, InProcessRunner()) == {}
    (scene.landed.root / merge.new.landed.upload.key).unlink()
    assert problems(scene, InProcessRunner()).keys() == {"clicks"}


def test_status_counts_what_took_the_place_of_others(scene: Scene, capsys: Captured) -> None:
    before = read_progress(scene.opened(), FixedLog(None))  # type: ignore[arg-type]
    merge = scene.merge(3).record(slices=SPANS)
    under_way = read_progress(scene.opened(), FixedLog(None))  # type: ignore[arg-type]
    merge.complete().retired()
    done = read_progress(scene.opened(), FixedLog(None))  # type: ignore[arg-type]
    for each in (before, under_way, done):
        status._show(each, by_topic_partition=False)

    totals = [(each.totals.retired, each.totals.replacing) for each in (before, under_way, done)]
    assert totals == [(0, 0), (0, 0), (3, 1)]  # until it is applied, it may be given up
    shown = re.findall(r"replaced objects +(.*?) *$", capsys.readouterr().out, re.MULTILINE)
    assert shown == ["1 under way", "3 by 1"]
