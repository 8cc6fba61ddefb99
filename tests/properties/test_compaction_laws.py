"""What is planned to be merged: nothing is lost, nothing is there twice, and merges fit."""

import json
from collections.abc import Sequence
from itertools import pairwise

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from landfall.driver.core.planned_replacement import PlannedReplacement
from landfall.driver.decide.compaction import MAX_MERGED, SHARE, Merge, MergeRules, plan_merges
from landfall.formats.external_sort import ExternalSort
from landfall.formats.sort_keys import json_sort_key
from landfall.ledger import Purpose
from landfall.ledger.names.object_names import MAX_KEY_BYTES, ObjectName, origin, parse_key, renamed
from landfall.ledger.replace.merged_objects import Mergeable, sections_of
from landfall.ledger.replace.replacement_lists import NewObject, ReplacementList
from landfall.ledger.task_results import LandedObject, ObjectKind
from landfall.objects import Part, Upload

LANE = ("shop", "0")
JSON_VALUES = st.one_of(
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=3),
    st.none(),
    st.lists(st.booleans(), max_size=2),
)
BELOW, TARGET = 64, 256


@st.composite
def folders(draw: st.DrawFn) -> list[Mergeable]:
    """Objects of one folder: of some partitions, generations, specs and earlier plans."""
    names = draw(
        st.lists(
            st.tuples(st.integers(1, 2), st.integers(0, 2), st.integers(0, 30)),
            max_size=25,
            unique=True,
        )
    )
    return [_object(draw, *name) for name in names]


def _object(draw: st.DrawFn, generation: int, partition: int, start: int) -> Mergeable:
    plan = draw(st.sampled_from(["", "", ".r7"]))
    name = ObjectName("clicks", "dt=1", generation, partition, start, f"{plan}.json")
    size, rows = draw(st.integers(1, 100)), draw(st.integers(1, 9))
    upload = Upload(name.key, f"u{start}", (Part("e", size),), "t")
    landed = LandedObject(upload, ObjectKind.DATA, rows, start, start + rows - 1, 0)
    return Mergeable(draw(st.integers(0, 9)), landed, draw(st.sampled_from(["a", "b"])))


def size(each: Mergeable) -> int:
    return each.landed.upload.size


def order(each: Mergeable) -> tuple[int, int]:
    return each.name.partition, each.name.start


def merges(objects: Sequence[Mergeable], **rules: object) -> Sequence[Merge]:
    made = {"below": BELOW, "target": TARGET, **rules}
    return plan_merges(LANE, objects, MergeRules(**made)).merges  # type: ignore[arg-type]


def in_order(value: object) -> tuple[object, ...]:
    """What rows are sorted by: numbers, then texts, then what is neither, then what is missing."""
    match value:
        case int() | float():
            return 0, value
        case str():
            return 1, value.encode()
        case None:
            return (3,)
        case _:
            return 2, json.dumps(value).encode()


@given(values=st.lists(JSON_VALUES, max_size=60), memory=st.sampled_from([1, 300, 2**20]))
def test_rows_are_sorted_by_their_values_and_stay_in_order_where_these_are_equal(
    values: list[object], memory: int
) -> None:
    key_of, sort = json_sort_key(("a",)), ExternalSort(memory)
    rows = [json.dumps({"n": n, "a": value}).encode() for n, value in enumerate(values)]
    for at in range(0, len(rows), 7):
        some = rows[at : at + 7]
        keys = pa.array(map(key_of, some), pa.binary())
        sort.add(keys, pa.RecordBatch.from_arrays([pa.array(some, pa.binary())], ["row"]))

    found = [row for table in sort.tables() for row in table["row"].to_pylist()]

    assert found == sorted(rows, key=lambda row: in_order(json.loads(row)["a"]))


@given(objects=folders())
def test_only_small_objects_are_merged_each_once_and_within_the_target(
    objects: list[Mergeable],
) -> None:
    found = merges(objects)

    merged = [each for merge in found for each in merge]
    assert len({each.key for each in merged}) == len(merged)
    assert {each.key for each in merged} <= {e.key for e in objects if size(e) < BELOW}
    for merge in found:
        assert 2 <= len(merge) <= MAX_MERGED
        assert sum(map(size, merge)) <= TARGET
        assert [*map(order, merge)] == sorted(map(order, merge))
        assert len({(each.name.generation, each.spec) for each in merge}) == 1


@given(objects=folders())
def test_a_small_object_stays_only_where_it_fits_to_none_of_its_neighbours(
    objects: list[Mergeable],
) -> None:
    merged = {each.key for merge in merges(objects) for each in merge}

    for generation, spec in {(e.name.generation, e.spec) for e in objects}:
        small = sorted(
            (
                each
                for each in objects
                if (each.name.generation, each.spec) == (generation, spec) and size(each) < BELOW
            ),
            key=order,
        )
        landed = [each for each in small if each.plan < 0]
        for one, other in pairwise(landed):
            if one.key not in merged and other.key not in merged:
                assert size(one) + size(other) > TARGET
        for made in {*small} - {*landed}:  # what a merge would mostly consist of stays
            if made.key not in merged:
                others = (
                    o for o in small if o is not made and (o.plan < 0 or size(o) <= size(made))
                )
                assert sum(map(size, others)) < SHARE * size(made)


@given(objects=folders(), seed=st.randoms())
def test_the_order_in_which_objects_are_known_is_nothing(
    objects: list[Mergeable], seed: object
) -> None:
    shuffled = [*objects]
    seed.shuffle(shuffled)  # type: ignore[attr-defined]  # a Random

    assert merges(shuffled) == merges(objects)


@given(objects=folders())
def test_without_duplicates_all_objects_of_a_generation_and_spec_are_merged(
    objects: list[Mergeable],
) -> None:
    found = merges(objects, dedupes=True, max_rows=10_000)

    apart = [{(each.name.generation, each.spec) for each in merge} for merge in found]
    assert all(len(each) == 1 for each in apart)
    left = {e.key for e in objects} - {e.key for merge in found for e in merge}
    assert all(".r7" in key for key in left)


@given(objects=folders())
def test_what_is_too_large_to_compare_is_refused(objects: list[Mergeable]) -> None:
    found = plan_merges(LANE, objects, MergeRules(BELOW, TARGET, dedupes=True, max_rows=0))

    assert found.merges == ()
    assert bool(found.refused) == bool(objects)


@given(objects=folders(), plan=st.integers(0, 2**40))
def test_sections_and_names_of_what_is_merged(objects: list[Mergeable], plan: int) -> None:
    for merge in merges(objects):
        key = renamed(merge[0].key, plan)
        sections = sections_of(merge)
        new = replace(merge[0].landed, upload=replace(merge[0].landed.upload, key=key))
        listed = ReplacementList((), (NewObject(new, sections),))
        slices = PlannedReplacement.of("shop", "t", Purpose.COMPACT, listed, plan).slices

        assert origin("shop", key).plan == plan
        assert parse_key(key).extension == ".json"
        assert all(key > each.key for each in merge)
        assert sum(s.rows for s in sections) == sum(each.landed.rows for each in merge)
        for each in slices:
            own = [s for s in sections if s.partition == each.topic_partition.partition]
            assert each.offsets.start == min(s.first_offset for s in own)
            assert each.offsets.end == max(s.last_offset for s in own) + 1


def test_an_object_whose_copy_would_have_too_long_a_key_is_left_alone() -> None:
    folder = "/".join(["x" * 100] * 9)
    long = MAX_KEY_BYTES - len(f"clicks/{folder}//1_0_{0:020d}.json")
    names = [ObjectName("clicks", f"{folder}/{'y' * (long - n)}", 1, 0, n, ".json") for n in (0, 1)]
    objects = [
        Mergeable(
            0,
            LandedObject(Upload(n.key, "u", (Part("e", 1),), "t"), ObjectKind.DATA, 1, 0, 0, 0),
        )
        for n in names
    ]

    assert merges(objects) == ()
