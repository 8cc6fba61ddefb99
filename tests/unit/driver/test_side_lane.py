"""A side lane: its plan, the group that lands there, its promotion, and its end."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from landfall.api.spec import ConsumerGroup, StartAtOffsets, parse_group
from landfall.driver.backfill.landed_ledger import read_landed
from landfall.driver.backfill.side_lane import (
    DISCARDED,
    PLAN,
    SidePlan,
    discard,
    read_plan,
    side_group,
    side_lane,
    side_plan,
    side_root,
    side_spec,
    store_plan,
)
from landfall.driver.core.planned_replacement import PlannedReplacement
from landfall.driver.core.stored_specs import store_spec
from landfall.driver.decide.backfill import SliceChoice, chosen
from landfall.driver.landing.orphan_uploads import is_ours
from landfall.driver.replacing.promoting import Lanes, prepare_promotion
from landfall.errors import Reason, Stalled
from landfall.lane import Lane
from landfall.lane.stores import open_stores
from landfall.ledger import LaneOwnership, Purpose
from landfall.ledger.names import object_names
from landfall.ledger.offsets import OffsetRange, Slice
from landfall.ledger.replace.replacement_lists import MadeBy, decode_list, encode_list
from landfall.ledger.task_results import LandedSlice, ObjectKind
from landfall.objects import Upload
from landfall.store import Store
from landfall.store.memory import MemoryStore
from tests.support.kubernetes.groups import document
from tests.support.ledger.landed_history import History, tp
from tests.support.ledger.readable import CLICKS, Readable
from tests.support.ledger.sample_ledger import GROUP, LANE, SampleLedger
from tests.support.ledger.sample_replacing import Merge
from tests.support.stores.copying import copied

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def plan(**changes: Any) -> SidePlan:
    history = History().add(0, 1).commit(0, ["a"] * 3).commit(1, ["a"] * 4)
    landed = history.applied()
    found = chosen(landed, SliceChoice(until=landed.ranges[tp(1)][0].time))
    made = side_plan("fix", landed, found, 2, NOW)
    return type(made)(**{f: changes.get(f, getattr(made, f)) for f in made.__struct_fields__})


def group(**spec: Any) -> Any:
    return parse_group(document("shop", **{"generation": 2, **spec}))


# ------------------------------------------------------------------------------------ the plan


def test_a_plan_is_stored_once() -> None:
    store, made = MemoryStore(), plan()

    store_plan(store, made)
    store_plan(store, made)  # an answer was lost

    assert read_plan(store, "fix") == made
    with pytest.raises(Stalled, match="is planned already"):
        store_plan(store, plan(read_through=1))


def test_an_older_generation_than_that_of_what_is_landed_is_refused() -> None:
    landed = History().open(3).add(0).commit(0, ["a"] * 3).applied()

    with pytest.raises(Stalled, match="generation 3 has landed some of these ranges"):
        side_plan("fix", landed, chosen(landed, SliceChoice()), 2, NOW)
    assert side_plan("fix", landed, chosen(landed, SliceChoice()), 3, NOW).generation == 3


def test_there_must_be_a_plan_that_this_software_knows() -> None:
    with pytest.raises(Stalled, match="is not planned"):
        read_plan(MemoryStore(), "fix")
    for body in (b"{", b'{"version":2}'):
        store = MemoryStore()
        store.create(PLAN, body)
        with pytest.raises(Stalled, match="backfill: "):
            read_plan(store, "fix")


@pytest.mark.parametrize(
    "change",
    [
        {"name": "another"},
        {"name": "../../other"},
        {"version": 10**30},
        {"ranges": [{"topic_partition": {"topic": "a", "partition": 0}}]},
        {"others": "x" * 100_000},
        {"retiring": None},
    ],
    ids=lambda change: str(change)[:40],
)
def test_a_plan_that_a_writer_of_the_bucket_forged(change: dict[str, Any]) -> None:
    store = MemoryStore()
    store.create(PLAN, json.dumps({**msgspec.to_builtins(plan()), **change}).encode())

    with pytest.raises(Stalled, match="backfill: ") as caught:
        read_plan(store, "fix")

    assert caught.value.reason is Reason.SPEC_INVALID
    assert len(str(caught.value)) < 300


# ----------------------------------------------------------------------------------- the group


def test_a_side_lane_lands_the_ranges_and_nothing_else() -> None:
    made = side_group(group(), plan())

    kafka = made.spec.source.require_kafka()
    assert kafka.topics == ("clicks",)
    assert kafka.starting_offsets == StartAtOffsets(offsets={"clicks": {"0": 0, "1": 4}})
    assert kafka.on_data_loss == "Stall"
    assert made.spec.output.url == "s3://logs/shop/_landfall/shop/side/fix"
    assert made.kafka_group_id == "default.shop.side.fix"
    assert made.full_name == "default/shop"


def test_a_side_lane_reads_what_kafka_has_lost_where_the_live_group_does() -> None:
    named = {"group": "backup", "url": "s3://backup/raw"}
    lossy = {"readFrom": named, "otherwise": "SkipAndRecord"}
    kafka = {"bootstrapServers": "k:9092", "topics": ["clicks"], "onDataLoss": lossy}

    source = side_group(group(source__kafka=kafka), plan()).spec.source

    assert source.read_from
    assert source.read_from.url == "s3://backup/raw"
    assert not source.skips_lost_ranges


def test_what_decides_what_objects_hold_stays_as_it_is() -> None:
    given = group(
        decode__format="Json",
        decode__timestamp__field="ts",
        route__pattern="dt={date}",
        output__existingObjects="Keep",
        completeness__delay="1h",
        uploadPolicy__overrides=[{"topics": "clicks", "maxBytes": "1M"}],
        source__kafka={"bootstrapServers": "k:9092", "topicPattern": "c.*", "exclude": "cx"},
        publish=[{"name": "marks", "type": "Success"}],
        autoscaling__maxReplicas=3,
        state="Suspended",
    )
    made = side_group(given, plan())
    store = MemoryStore()

    assert store_spec(store, made, LANE) == store_spec(store, given, LANE)
    assert made.spec.publish == ()
    assert (made.spec.completeness, made.spec.autoscaling) == (None, None)
    assert made.spec.upload_policy.overrides == ()
    assert made.spec.state == "Running"


def test_a_ledger_elsewhere_has_the_side_lane_s_below_it() -> None:
    made = side_group(group(ledger__url="s3://ledgers/shop"), plan())

    assert made.spec.ledger_root.url == "s3://ledgers/shop/_landfall/shop/side/fix"


def test_another_generation_than_planned_is_refused() -> None:
    with pytest.raises(Stalled, match="planned for generation 2, and the group has generation 3"):
        side_group(group(generation=3), plan())


@pytest.mark.parametrize("name", ["", "A", "a/b", "..", "-a", "a" * 64])
def test_a_name_is_one_folder(name: str) -> None:
    with pytest.raises(Stalled, match="not a name"):
        side_root(group(), name)


def test_the_live_driver_takes_nothing_of_a_side_lane_for_its_own() -> None:
    root, members = side_root(group(), "fix"), {CLICKS}
    data = "clicks/dt=2026-11-21/2_0_00000000000000000000.json.gz"
    letters = object_names.dead_letter_key("shop", "clicks", 2, 0, 0)

    assert all(is_ours("shop", members, key) for key in (data, letters))
    assert not any(is_ours("shop", members, f"{root}/{key}") for key in (data, letters))
    with pytest.raises(ValueError, match="not a lane name"):
        object_names.lane_prefix("shop", "side")


# ------------------------------------------------------------------- promotion and the end


class Scene:
    """A live group and a side lane of it that has landed again what the group had landed wrongly.

    Attributes:
        live: generation 1 has landed into a wrong folder, and generation 2 has begun.
        side: generation 2 has landed the same range.
        made: the plan.
    """

    def __init__(self, folder: Path) -> None:
        self.live = Readable(folder, "Json")
        rows = [{"id": n} for n in range(6)]
        self.live.land(CLICKS, ("dt=1970-01-01/hr=00", rows[:4])).settle()
        self.live.land(CLICKS, ("dt=1970-01-01/hr=00", rows[4:])).settle()
        live = self.landed(self.live.store)
        self.group = self.live.group.model_copy(
            update={"spec": self.live.group.spec.model_copy(update={"generation": 2})}
        )
        self.made = side_plan("fix", live, chosen(live, SliceChoice()), 2, NOW)
        self.root = side_root(self.group, "fix")
        url = side_spec(self.group, "fix").output.url
        self.store = open_stores(side_spec(self.group, "fix"))
        store_plan(self.store, self.made)
        self.side = Readable(folder, "Json", output={"url": url})
        self.side.open(2)
        hours = ("dt=2026-11-21/hr=04", rows[:4]), ("dt=2026-11-21/hr=05", rows[4:])
        self.side.land(CLICKS, *hours).settle()
        self.live.open(2)

    def landed(self, store: Store) -> Any:
        return read_landed(Lane(store, GROUP, LANE))

    def promoted(self) -> PlannedReplacement:
        store = self.live.store
        lanes = Lanes(store, self.root, self.landed(store), self.landed(self.store))
        return prepare_promotion(lanes, self.made, "token", copied)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_a_promotion_copies_into_uploads_under_live_names(scene: Scene) -> None:
    found = scene.promoted()

    slot = scene.live.ledger.state.applied_through
    new, _ = found.listed.objects
    assert new.landed.upload.key == (f"clicks/dt=2026-11-21/hr=04/r{slot:010}_2_0_{0:020}.json.gz")
    assert (new.landed.rows, new.landed.upload.token) == (4, "token")
    assert [(s.partition, s.rows, s.first_offset, s.last_offset) for s in new.sections] == [
        (0, 4, 0, 3)
    ]
    assert [each.landed.rows for each in found.listed.retire] == [4, 2]
    assert (found.purpose, found.read_through, found.duplicates) == (Purpose.BACKFILL, slot, 0)
    assert scene.live.store.stat(new.landed.upload.key) is None
    scene.live.store.complete(new.landed.upload)
    assert digest(scene.live.store, new.landed.upload.key) == digest(
        scene.store, f"clicks/dt=2026-11-21/hr=04/2_0_{0:020}.json.gz"
    )
    named, body = encode_list(GROUP, LANE, found.listed)
    assert decode_list(named, body) == found.listed


def test_a_promotion_says_what_was_landed_again_and_copies_its_schemas(scene: Scene) -> None:
    body = b'{"type":"long"}'
    name = hashlib.sha256(body).hexdigest()
    key = f"_landfall/{GROUP}/0-schemas/{name}.json"
    scene.store.create(key, body)
    side = scene.landed(scene.store)
    (spans,) = side.ranges.values()
    spans[0] = replace(spans[0], landed=replace(spans[0].landed, schemas=(name,)))
    lanes = Lanes(scene.live.store, scene.root, scene.landed(scene.live.store), side)

    listed = prepare_promotion(lanes, scene.made, "token", copied).listed

    assert [(a.piece.offsets.start, a.landed, a.schemas) for a in listed.landed_again] == [
        (0, 6, (name,))
    ]
    assert listed.made_by == MadeBy(2, lanes.live.specs[2])
    assert scene.live.store.read(key) == body

    scene.store.delete_slots([key])
    with pytest.raises(Stalled, match="the schema is gone or damaged"):
        prepare_promotion(lanes, scene.made, "token", copied)


def digest(store: Store, key: str) -> str:
    return hashlib.sha256(store.read(key) or b"").hexdigest()


def test_a_live_group_that_has_not_run_the_generation_is_refused(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    store = scene.live.store
    live = scene.landed(store)
    del live.specs[2]
    lanes = Lanes(store, scene.root, live, scene.landed(scene.store))

    with pytest.raises(Stalled, match="has run generation 2 yet"):
        prepare_promotion(lanes, scene.made, "token", copied)
    assert list(store.open_uploads("")) == []


def test_a_live_group_of_another_spec_is_refused(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.live.route = {"pattern": "dt={date}"}
    scene.live.open(2)

    with pytest.raises(Stalled, match="by another spec"):
        scene.promoted()


def test_a_stored_spec_that_is_nested_too_deeply_is_refused_with_its_key(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    store = scene.live.store
    live = scene.landed(store)
    key = object_names.spec_key(GROUP, LANE, live.specs[2])
    lanes = Lanes(Deep(store, key), scene.root, live, scene.landed(scene.store))  # type: ignore[arg-type]  # as a store

    with pytest.raises(Stalled, match=f"{key}: no stored spec: nested too deeply"):
        prepare_promotion(lanes, scene.made, "token", copied)


class Deep:
    """A store in which somebody has written over an object."""

    def __init__(self, store: Store, key: str) -> None:
        self._store, self._key = store, key

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def read(self, key: str) -> bytes | None:
        return b"[" * 1_000_000 if key == self._key else self._store.read(key)


def test_copies_are_aborted_if_one_fails(scene: Scene) -> None:
    store = scene.live.store
    lanes = Lanes(store, scene.root, scene.landed(store), scene.landed(scene.store))

    def fails(store: Store, source: str, size: int, key: str, token: str) -> Upload:
        if "hr=05" in key:
            raise FileNotFoundError(source)
        return copied(store, source, size, key, token)

    with pytest.raises(Stalled, match="it is not there"):
        prepare_promotion(lanes, scene.made, "token", fails)
    assert list(store.open_uploads("")) == []


def kept(store: Store) -> Iterator[str]:
    return (stat.key for stat in store.list_after("") if not stat.key.startswith("_landfall/"))


def test_a_backfill_that_is_discarded_leaves_its_ledger_and_fences_its_driver(
    scene: Scene,
) -> None:
    live = {*(stat.key for stat in scene.live.store.list_after("clicks/"))}
    scene.store.begin("clicks/dt=2026-11-21/hr=04/2_0_00000000000000000006.json.gz", "t")
    before = scene.side.ledger.state

    assert discard(scene.group, scene.store, "fix", lambda: NOW) == 2
    assert discard(scene.group, scene.store, "fix", lambda: NOW) == 0

    assert list(kept(scene.store)) == []
    assert list(scene.store.open_uploads("")) == []
    assert scene.store.read(DISCARDED) is not None
    after = side_lane(scene.group, scene.store).read()
    assert (after.holding, after.epoch > before.epoch) == (LaneOwnership.HELD, True)
    assert {*(stat.key for stat in scene.live.store.list_after("clicks/"))} == live
    with pytest.raises(Stalled, match="was discarded"):
        read_plan(scene.store, "fix")
    with pytest.raises(Stalled, match="was discarded"):
        store_plan(scene.store, scene.made)


class Letters:
    """A group whose dead letters were elsewhere before, and a backfill that has some in there.

    The live group and the backfill have one dead-letter object each in the former place.
    """

    def __init__(self, folder: Path) -> None:
        for name in ("out", "present", "former"):
            (folder / name).mkdir()
        self.urls = {name: f"file://{folder}/{name}" for name in ("out", "present", "former")}
        both = {"url": self.urls["present"], "formerPlaces": [{"url": self.urls["former"]}]}
        self.group = self.grouped(both)
        self.live, self.side = open_stores(self.group.spec), self.of(self.group)
        (_, self.former) = (place.id for place in self.group.spec.bad_records.places)
        self.side.create(PLAN, b"{}")
        live, side = SampleLedger(self.live).open(), SampleLedger(self.side).open()
        self.key = object_names.dead_letter_key(GROUP, "clicks", 1, 0, 0, place=self.former)
        for sample in (live, side):
            letters = sample.add(CLICKS).upload(self.key, range(3), ObjectKind.DEAD_LETTERS)
            piece = Slice(CLICKS, OffsetRange(0, 3))
            sample.commit(LandedSlice(piece, (letters,), 0, 0, 3, 0, 9))

    def grouped(self, letters: dict[str, Any]) -> ConsumerGroup:
        url = self.urls["out"]
        return parse_group(document(GROUP, output__url=url, badRecords=letters))

    def of(self, group: ConsumerGroup) -> Store:
        """The store of the backfill, by a group's spec."""
        return open_stores(side_spec(group, "fix"))


def test_what_is_discarded_in_former_places_is_the_backfills(tmp_path: Path) -> None:
    scene = Letters(tmp_path)

    assert discard(scene.group, scene.side, "fix", lambda: NOW) == 1

    assert scene.side.stat(scene.key) is None
    assert scene.live.stat(scene.key) is not None


def test_dead_letters_in_a_place_that_is_not_named_are_named_and_discarded_later(
    tmp_path: Path,
) -> None:
    scene = Letters(tmp_path)
    unaware = scene.grouped({"url": scene.urls["present"]})

    with pytest.raises(Stalled) as refused:
        discard(unaware, scene.of(unaware), "fix", lambda: NOW)

    assert refused.value.reason is Reason.SPEC_INVALID
    assert str(refused.value) == (
        f"backfill: fix is discarded, but for its dead letters in place {scene.former}, such as "
        f"{scene.key}: badRecords names it neither as url nor in formerPlaces; name it there and "
        "discard the backfill again, or delete them yourself"
    )
    assert scene.side.stat(scene.key) is not None
    assert discard(scene.group, scene.side, "fix", lambda: NOW) == 1
    assert discard(unaware, scene.of(scene.group), "fix", lambda: NOW) == 0


def test_nothing_is_discarded_that_is_not_planned(scene: Scene) -> None:
    with pytest.raises(Stalled, match="is not planned"):
        discard(scene.group, MemoryStore(), "other", lambda: NOW)


def test_a_ledger_is_read_with_the_lists_of_its_merges() -> None:
    sample = SampleLedger().open().add(CLICKS)
    for start in (0, 5):
        sample.commit(sample.land(CLICKS, start, start + 5))
    sample.shown()
    lane = Lane(sample.store, GROUP, LANE)
    before = read_landed(lane).objects
    merge = Merge.of(sample, [(each.decided.slot, each.landed) for each in before.values()])
    merge.record().complete()
    sample.shown()

    (found,) = chosen(read_landed(lane), SliceChoice()).retire

    assert (found.landed, found.purpose) == (merge.new.landed, Purpose.COMPACT)
    sample.store.delete_slots([merge.stored().key])
    with pytest.raises(Stalled, match="which is not"):
        read_landed(lane)


def test_what_is_visible_counts_before_a_record_says_so() -> None:
    """A group that has nothing more to land writes no further record."""
    sample = SampleLedger().open().add(CLICKS)
    visible = sample.land(CLICKS, 0, 5)
    sample.commit(visible).commit(sample.land(CLICKS, 5, 10), complete=False)
    lane = Lane(sample.store, GROUP, LANE)

    assert read_landed(lane).applied_through < sample.state.seq - 1
    found = read_landed(lane, sample.store)

    assert {*found.objects} == {each.upload.key for each in visible.objects}
    assert found.applied_through == sample.state.seq - 1
    assert [slice_.offsets.end for slice_ in chosen(found, SliceChoice()).slices] == [5]


def test_what_a_merge_has_made_visible_does_not_count_before_it_is_applied() -> None:
    sample = SampleLedger().open().add(CLICKS)
    for start in (0, 5):
        sample.commit(sample.land(CLICKS, start, start + 5))
    sample.shown()
    lane = Lane(sample.store, GROUP, LANE)
    before = read_landed(lane).objects
    merge = Merge.of(sample, [(each.decided.slot, each.landed) for each in before.values()])
    merge.record().complete()

    assert read_landed(lane, sample.store).objects.keys() == before.keys()
