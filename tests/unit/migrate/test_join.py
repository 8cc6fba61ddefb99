"""Whether old objects and new ones meet, from names and offsets alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from landfall.ledger.offsets import TopicPartition
from landfall.ledger.task_results import LandedObject, ObjectKind
from landfall.objects import Upload
from landfall_migrate.join import Joint, ReadObject, Result, joint, joints
from landfall_migrate.new_objects import Start
from landfall_migrate.old_objects import OldObject, last_objects, parse

TP = TopicPartition("clicks", 3)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("clicks/dt=2026-11-21/1_3_00000000000000000040", (40, 1)),
        ("clicks/dt=2026-11-21/hr=04/2_3_00000000000000000040.gz", (40, 2)),
        ("clicks/us/dt=2026-11-21/1_3_00000000000000000040.tar.gz", (40, 1)),
        ("clicks/partition=3/clicks+3+0000000040.json.gz", (40, None)),
        ("clicks/clicks+3+0000000040.avro", (40, None)),
    ],
)
def test_names_of_old_objects_are_read(key: str, expected: tuple[int, int | None]) -> None:
    assert parse(key) == OldObject(key, TP, *expected)


@pytest.mark.parametrize(
    "key",
    [
        "clicks/1_3_00000000000000000040",  # without a folder
        "clicks/dt=2026-11-21/1_3_40",
        "clicks/dt=2026-11-21/1_0-3_00000000000000000040",  # of several Kafka partitions
        "clicks/dt=2026-11-21/_SUCCESS",
        "clicks/partition=3/views+3+0000000040.json",
        "_landfall/x/lane-0/00000000000000000040.json",
    ],
)
def test_other_names_are_none(key: str) -> None:
    assert parse(key) is None


def old(offset: int, folder: str = "dt=1", generation: int | None = 1) -> OldObject:
    name = f"{generation}_3_{offset:020}" if generation is not None else f"clicks+3+{offset:010}"
    return OldObject(f"clicks/{folder}/{name}", TP, offset, generation)


def test_the_last_upload_of_secor_is_all_objects_with_its_offset() -> None:
    objects = [old(0), old(40), old(40, "dt=2"), old(20, "dt=3"), old(40, "dt=2", 2)]

    assert set(last_objects(objects)[TP]) == {objects[1], objects[2], objects[4]}


def test_the_last_objects_of_connect_are_those_of_each_folder() -> None:
    objects = [old(n, folder, None) for n, folder in ((0, "a"), (10, "a"), (1, "b"), (3, "b"))]

    assert last_objects(objects)[TP] == (objects[1], objects[3])


def test_of_many_folders_of_connect_the_last_ones_are_looked_into() -> None:
    objects = [old(n, f"minute={n}", None) for n in range(500)]

    found = last_objects(objects)[TP]

    assert [each.offset for each in found] == list(range(499, 449, -1))


def stored(last: int, rows: int = 10, offset: int = 90) -> ReadObject:
    return ReadObject(old(offset), rows, last)


def counted(offset: int, rows: int, folder: str = "dt=1", generation: int | None = 1) -> ReadObject:
    return ReadObject(old(offset, folder, generation), rows)


@pytest.mark.parametrize(
    ("read", "first_new", "result", "between"),
    [
        ([stored(99)], 100, Result.JOINED, None),
        ([stored(99, 4), stored(97, 6)], 100, Result.JOINED, None),
        ([stored(99, 4)], 100, Result.GAP, (90, 99)),
        ([ReadObject(old(90, generation=None), 4, 99)], 100, Result.JOINED, None),
        ([stored(99)], 103, Result.GAP, (100, 102)),
        ([stored(99)], 95, Result.OVERLAP, (95, 99)),
        ([stored(99)], 99, Result.OVERLAP, (99, 99)),
        ([counted(40, 10)], 50, Result.JOINED, None),
        ([counted(40, 6), counted(40, 4, "dt=2")], 50, Result.JOINED, None),
        ([counted(40, 10)], 52, Result.GAP, (50, 51)),
        ([counted(40, 10)], 45, Result.OVERLAP, (45, 49)),
        ([counted(40, 5, "a", None), counted(41, 2, "b", None)], 45, Result.JOINED, None),
        ([stored(99)], None, Result.NOT_BEGUN, None),
        ([ReadObject(old(1), error="damaged")], 7, Result.UNREADABLE, None),
    ],
)
def test_old_and_new_meet(
    read: list[ReadObject],
    first_new: int | None,
    result: Result,
    between: tuple[int, int] | None,
) -> None:
    found = joint(TP, read, None if first_new is None else Start(first_new))

    assert found.result is result
    assert (found.first, found.last) == (between or (None, None))


def landed(start: int, first_offset: int, kind: ObjectKind = ObjectKind.DATA) -> LandedObject:
    upload = Upload(f"clicks/dt=2/2_3_{start:020}", "id", (), "token")
    return LandedObject(upload, kind, 1, first_offset, first_offset, 0)


def test_a_line_names_both_objects() -> None:
    new = Start(100, (landed(100, 103), landed(100, 101)))

    assert joint(TP, [stored(97, 4), stored(99, 6)], new).line == (
        "clicks/3: last old 99 in clicks/dt=1/1_3_00000000000000000090; "
        "first new 100 in clicks/dt=2/2_3_00000000000000000100: joined"
    )


def test_what_is_not_landed_yet_is_said() -> None:
    assert joint(TP, [stored(99)], Start(100)).line.endswith(
        "; first new 100, not landed yet: joined"
    )


def test_a_join_by_rows_says_what_it_takes_for_granted() -> None:
    assert joint(TP, [counted(0, 10)], Start(10)).line.endswith(
        ": joined (the format stores no offsets: if each offset up to it has a row)"
    )


def test_an_object_of_the_last_upload_that_is_gone_is_a_gap() -> None:
    found = joint(TP, [stored(99, 4)], Start(100))

    assert found.note == (
        "of these, 6 are in no object of Secor's last upload: check if they had records"
    )


def test_a_first_new_object_with_an_error_is_not_joined() -> None:
    found = joint(TP, [stored(99)], Start(100, (landed(100, 100),), "it is gone"))

    assert (found.result, found.note) == (Result.UNREADABLE, "it is gone")


def test_an_old_object_with_a_generation_of_landfall_is_named() -> None:
    misnamed = [(old(20, generation=3), 2)]

    (found,) = joints({TP: [stored(99)]}, {TP: Start(100)}, misnamed)

    assert (found.result, found.first_new) == (Result.WRONG_GENERATION, 100)
    assert found.note == (
        "clicks/dt=1/3_3_00000000000000000020 has generation 3: generation must be above it, not 2"
    )


def test_a_line_for_each_topic_partition_in_order() -> None:
    other = TopicPartition("a", 0)

    assert [each.topic_partition for each in joints({TP: [stored(1)], other: [stored(1)]}, {})] == [
        other,
        TP,
    ]


OFFSETS = st.sets(st.integers(0, 50), min_size=1)


@given(OFFSETS, st.integers(0, 60))
def test_by_offsets_the_result_is_what_the_sets_say(offsets: set[int], first_new: int) -> None:
    found = joint(TP, [ReadObject(old(0), len(offsets), max(offsets))], Start(first_new))

    assert (found.result is Result.OVERLAP) == any(each >= first_new for each in offsets)
    has_holes = max(offsets) + 1 > len(offsets)
    is_gap = max(offsets) + 1 < first_new or (max(offsets) + 1 == first_new and has_holes)
    assert (found.result is Result.GAP) == is_gap


@given(OFFSETS, st.integers(0, 60))
def test_by_rows_an_overlap_is_one_and_no_overlap_of_a_dense_object_is_missed(
    offsets: set[int], first_new: int
) -> None:
    found: Joint = joint(TP, [counted(min(offsets), len(offsets))], Start(first_new))
    overlaps = any(each >= first_new for each in offsets)
    is_dense = max(offsets) - min(offsets) + 1 == len(offsets)

    assert overlaps or found.result is not Result.OVERLAP
    assert not is_dense or overlaps == (found.result is Result.OVERLAP)
