"""A task ends a slice early at a byte limit, and objects rotate by size, records and parts."""

from typing import Any

from landfall.errors import Reason, Stalled
from landfall.ledger.names.object_names import origin, parse_key
from landfall.ledger.offsets import OffsetRange, Slice
from landfall.ledger.task_results import FailedSlice, LandedSlice, ObjectKind, SliceResult
from landfall.store.memory import MemoryStore
from landfall.task import Batch, SliceLimits
from landfall.task.landing import land
from tests.support.driver.slice_landing import SLICE, TP, FakeReader, click, content, group

ROWS = [click(o) for o in range(100, 200)]
ROW_BYTES = len(ROWS[0][1])


def land_batch(batch: Batch, store: MemoryStore, slice_: Slice = SLICE) -> SliceResult:
    (result,) = land(batch, [slice_], FakeReader({TP: ROWS}, rows=10), store)
    return result


def rotating(**rotate: Any) -> dict[str, Any]:
    output = {"url": "s3://b", "format": "Json", "codec": "None", "rotate": rotate}
    return {"output": output}


def starts(result: SliceResult) -> list[tuple[int, int, int, int]]:
    """Of each object: the offset in its name, its first and last offset, its rows."""
    assert isinstance(result, LandedSlice)
    return sorted(
        (parse_key(o.upload.key).start, o.first_offset, o.last_offset, o.rows)
        for o in result.objects
    )


def test_a_slice_over_the_limit_ends_after_the_chunk_that_reaches_it() -> None:
    store = MemoryStore()

    result = land_batch(Batch(group(), "token", limits=SliceLimits(ROW_BYTES * 25, 10**6)), store)

    assert isinstance(result, LandedSlice)
    assert result.piece == Slice(TP, OffsetRange(100, 130))
    assert (result.landed, result.invisible) == (30, 0)
    assert starts(result) == [(100, 100, 129, 30)]


def test_without_a_limit_a_slice_is_read_to_its_end() -> None:
    result = land_batch(Batch(group(), "token"), MemoryStore())

    assert result.piece == SLICE


def test_what_ended_early_is_the_same_when_it_is_landed_again_as_it_was_committed() -> None:
    first, again = MemoryStore(), MemoryStore()
    short = land_batch(Batch(group(), "token", limits=SliceLimits(ROW_BYTES * 25, 10**6)), first)

    whole = land_batch(Batch(group(), "token"), again, short.piece)

    assert content(short, first) == content(whole, again)


def test_a_slice_of_very_many_objects_ends_before_it_has_more_than_it_may() -> None:
    rows = [click(100 + n, hour=n // 10) for n in range(100)]
    batch = Batch(group(**by_hour()), "token", SliceLimits(10**9, objects=3))

    (result,) = land(batch, [SLICE], FakeReader({TP: rows}), MemoryStore())

    assert isinstance(result, LandedSlice)
    assert result.landed == len(result.piece.offsets) == 25
    assert len(result.objects) == 3


def test_one_record_is_landed_however_few_objects_a_slice_may_have() -> None:
    batch = Batch(group(), "token", SliceLimits(1, objects=1))

    result = land_batch(batch, MemoryStore())

    assert isinstance(result, LandedSlice)
    assert result.landed > 0


def by_hour() -> dict[str, Any]:
    return {"route": {"pattern": "dt={date}/hr={hour}"}}


def test_an_object_ends_at_its_number_of_records_and_the_next_is_named_by_its_first() -> None:
    store = MemoryStore()

    result = land_batch(Batch(group(**rotating(maxRecords=33)), "token"), store)

    assert starts(result) == [
        (100, 100, 132, 33),
        (133, 133, 165, 33),
        (166, 166, 198, 33),
        (199, 199, 199, 1),
    ]
    lines = b"".join(body for _, body in sorted(content(result, store).items()))
    assert lines == b"".join(value + b"\n" for _, value in ROWS)


def test_the_first_object_is_named_by_the_start_of_the_slice_and_later_ones_are_above() -> None:
    slice_ = Slice(TP, OffsetRange(90, 200))

    result = land_batch(Batch(group(**rotating(maxRecords=50)), "token"), MemoryStore(), slice_)

    assert [start[0] for start in starts(result)] == [90, 150]


def test_dead_letters_rotate_as_well() -> None:
    store = MemoryStore()
    bad = FakeReader({TP: [(o, b"no json") for o in range(100, 200)]}, rows=10)

    (result,) = land(Batch(group(**rotating(maxRecords=40)), "token"), [SLICE], bad, store)

    assert isinstance(result, LandedSlice)
    assert {o.kind for o in result.objects} == {ObjectKind.DEAD_LETTERS}
    assert [origin("events", o.upload.key).start for o in result.objects] == [100, 140, 180]


def test_below_a_permitted_offset_a_bad_record_is_a_dead_letter_though_the_policy_is_fail() -> None:
    rows = {TP: [*ROWS[:50], (150, b"no json"), *ROWS[51:]]}
    spec = group(badRecords={"policy": "Fail"})

    (refused,) = land(Batch(spec, "t"), [SLICE], FakeReader(rows), MemoryStore())
    (allowed,) = land(
        Batch(spec, "t", permitted={TP: 151}), [SLICE], FakeReader(rows), MemoryStore()
    )

    assert isinstance(refused, FailedSlice)
    assert isinstance(refused.error, Stalled)
    assert refused.error.reason is Reason.BAD_RECORDS
    assert isinstance(allowed, LandedSlice)
    assert (allowed.landed, allowed.dead_lettered) == (99, 1)
