"""The ways out of an object that does not fit its table, each carried out."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from landfall.errors import Reason, Stalled
from landfall.publish.building import publisher
from tests.support.publishers.lake import CLICKS, Landed
from tests.support.publishers.parquet_files import rewritten, with_column
from tests.support.publishers.table_places import TablePlaces

INT32, INT64, TEXT = pa.int32(), pa.int64(), pa.string()
FLOAT, DOUBLE = pa.float32(), pa.float64()
TEN, TEXTS = [*range(10)], [str(number) for number in range(10)]


@dataclass
class Scene:
    """Objects of clicks, each with ten rows and the column ``id`` of another type."""

    root: Path
    kind: str

    def __post_init__(self) -> None:
        self.landed, self.places = Landed(self.root), TablePlaces(self.root)

    @property
    def options(self) -> dict[str, Any]:
        return self.places.options(self.kind)

    def land(self, *kinds: pa.DataType) -> list[str]:
        """Land an object for each type; returns their keys."""
        keys = []
        for kind in kinds:
            known = {*self.landed.keys("clicks")}
            self.landed.land(CLICKS).settle()
            (key,) = {*self.landed.keys("clicks")} - known
            values = pa.array(range(10)).cast(kind)
            rewritten(self.landed, key, with_column("id", values.to_pylist(), kind))
            keys.append(key)
        return keys

    def slot_of(self, key: str) -> int:
        """The slot that has landed an object."""
        seen = (o for each in self.landed.follower().stretches(-1) for o in each.objects)
        return next(each.decided for each in seen if each.landed.upload.key == key)

    def built(self, **more: Any) -> tuple[Any, Any]:
        context = self.landed.context(self.kind, {**self.options, **more})
        return publisher(context.group, context.entry, context.store), context

    def publish(self, **more: Any) -> None:
        built, context = self.built(**more)
        built.publish(context.follower())

    def rebuild(self, **more: Any) -> None:
        built, context = self.built(**more)
        built.reset(context.follower())

    def rows(self, table: str = "clicks") -> list[Any]:
        """The values of ``id``, in the order of the offsets."""
        if self.kind == "Delta":
            found = QueryBuilder().register("t", DeltaTable(f"{self.root}/delta/{table}"))
            rows = pa.table(found.execute("select id from t order by _offset").read_all())
        else:
            rows = self.places.load(table).scan().to_arrow().sort_by("_offset").select(["id"])
        found_rows: list[Any] = rows["id"].to_pylist()
        return found_rows


@pytest.fixture(params=["Delta", "Iceberg"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Scene:
    return Scene(tmp_path, request.param)


@pytest.mark.parametrize("kinds", [(INT32, INT64), (INT64, INT32), (FLOAT, DOUBLE)])
@pytest.mark.parametrize("at_once", [True, False])
def test_a_number_becomes_wider_in_either_order(
    scene: Scene, kinds: tuple[pa.DataType, ...], *, at_once: bool
) -> None:
    for kind in (*kinds, kinds[0]):
        scene.land(kind)
        if not at_once:
            scene.publish()
    scene.publish()

    assert scene.rows() == TEN * 3


def stopped(scene: Scene) -> list[str]:
    """A table of ten rows, stopped by the second of three objects; their keys."""
    first = scene.land(TEXT)
    scene.publish()
    keys = [*first, *scene.land(INT64, TEXT)]
    with pytest.raises(Stalled, match="column id is long in the file and string in the") as caught:
        scene.publish()
    assert caught.value.reason is Reason.DESTINATION_CONFLICT
    assert scene.landed.url(keys[1]) in str(caught.value)
    return keys


@pytest.mark.parametrize("named", [lambda _, key: key, lambda scene, key: scene.landed.url(key)])
def test_an_object_can_be_skipped(scene: Scene, named: Callable[[Scene, str], str]) -> None:
    keys = stopped(scene)

    scene.publish(skip=[named(scene, keys[1])])

    assert scene.rows() == TEXTS * 2
    scene.land(TEXT)
    scene.publish(skip=[keys[1]])
    assert scene.rows() == TEXTS * 3


def test_the_ways_on_of_the_page_in_a_row(scene: Scene) -> None:
    """Rename the column, leave out what landed before, and give that a table of its own."""
    keys = stopped(scene)
    (renamed,) = scene.land(INT64)
    rewritten(scene.landed, renamed, lambda table: table.rename_columns({"id": "id_number"}))

    scene.publish(skip=[keys[1]])

    assert scene.rows() == TEXTS * 2 + [None] * 10
    scene.publish(table=scene.options["table"] + "_numbers", skip=[keys[0], keys[2], renamed])
    assert scene.rows("clicks_numbers") == TEN
    sample = scene.landed.sample
    sample.open(generation=sample.state.generation + 1)
    (other,) = scene.land(DOUBLE)
    with pytest.raises(Stalled, match="column id is double in the file and string in the table"):
        scene.publish(skip=[keys[1]])
    by_generation = scene.options["table"] + "_v{generation}"
    scene.publish(table=by_generation, startAt=scene.slot_of(other))
    assert scene.rows("clicks_v2") == TEN


def test_a_table_can_begin_at_a_slot(scene: Scene) -> None:
    stopped(scene)
    after = scene.landed.sample.state.seq
    scene.land(TEXT)

    scene.publish(startAt=after + 1)

    assert scene.rows() == TEXTS * 2


def test_tables_by_generation_take_what_does_not_fit_together(scene: Scene) -> None:
    scene.land(TEXT)
    sample = scene.landed.sample
    sample.open(generation=sample.state.generation + 1)
    scene.land(INT64)
    pattern = scene.options["table"] + "_v{generation}"

    scene.publish(table=pattern)

    assert (scene.rows("clicks_v1"), scene.rows("clicks_v2")) == (TEXTS, TEN)


def test_a_rebuild_that_fails_leaves_the_table_as_it_was(scene: Scene) -> None:
    keys = stopped(scene)

    with pytest.raises(Stalled, match="column id is "):
        scene.rebuild()

    assert scene.rows() == TEXTS
    scene.rebuild(skip=[keys[1]])
    assert scene.rows() == TEXTS * 2


def test_a_rebuild_of_a_delta_table_changes_the_type_of_a_column(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "Delta")
    keys = stopped(scene)
    before = DeltaTable(f"{tmp_path}/delta/clicks").metadata()

    scene.rebuild(skip=[keys[0], keys[2]])

    assert scene.rows() == TEN
    after = DeltaTable(f"{tmp_path}/delta/clicks").metadata()
    assert (after.id, after.partition_columns) == (before.id, before.partition_columns)


def test_a_wider_column_keeps_what_a_delta_table_is(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "Delta")
    scene.land(INT32)
    scene.publish()
    DeltaTable(f"{tmp_path}/delta/clicks").alter.set_table_properties(
        {"delta.logRetentionDuration": "interval 5 days"}
    )
    before = DeltaTable(f"{tmp_path}/delta/clicks").metadata()
    scene.land(INT64)

    scene.publish()

    after = DeltaTable(f"{tmp_path}/delta/clicks").metadata()
    assert (after.id, after.configuration, after.partition_columns) == (
        before.id,
        before.configuration,
        before.partition_columns,
    )
    assert scene.rows() == TEN * 2


@pytest.mark.parametrize("others", [{"id"}, set()])
def test_columns_of_a_delta_table_that_differ_by_case_are_named(
    tmp_path: Path, others: set[str]
) -> None:
    scene = Scene(tmp_path, "Delta")
    scene.land(INT32)
    scene.publish()
    (key,) = scene.land(INT32)
    rewritten(scene.landed, key, with_column("ID", TEN))
    rewritten(scene.landed, key, lambda table: table.drop_columns([*others]))

    with pytest.raises(Stalled, match="its column ID differs from column id by case") as caught:
        scene.publish()

    assert caught.value.reason is Reason.DESTINATION_CONFLICT
    assert scene.landed.url(key) in str(caught.value)
    assert scene.rows() == TEN


@pytest.mark.parametrize("name", ["_metadata", "_Change_Type"])
def test_a_column_of_a_schema_with_a_name_that_delta_reserves_is_named(
    tmp_path: Path, name: str
) -> None:
    scene = Scene(tmp_path, "Delta")
    scene.land(INT32)
    scene.publish()
    (key,) = scene.land(INT32)
    rewritten(scene.landed, key, with_column(name, TEN))

    with pytest.raises(Stalled, match=f"its column {name} has a name that Delta Lake") as caught:
        scene.publish()

    assert caught.value.reason is Reason.DESTINATION_CONFLICT
    assert scene.landed.url(key) in str(caught.value)
    scene.publish(skip=[key])
    assert scene.rows() == TEN


@pytest.mark.parametrize("more", [{"startAt": -1}, {"startAt": "Now"}, {"skip": "a"}])
def test_wrong_options_are_refused(scene: Scene, more: dict[str, Any]) -> None:
    with pytest.raises(Stalled, match=rf"\$\.{next(iter(more))}") as caught:
        scene.built(**more)

    assert caught.value.reason is Reason.SPEC_INVALID
