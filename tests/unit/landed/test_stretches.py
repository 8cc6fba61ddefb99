"""The first part of a range that can be read, or that cannot be."""

from hypothesis import given
from hypothesis import strategies as st

from landfall.errors import Reason, Stalled
from landfall.landed.backup import first_stretch
from landfall.ledger.offsets import OffsetRange

FAULT = Stalled(Reason.DATA_LOSS, "skipped")
BOUNDS = st.tuples(st.integers(0, 30), st.integers(1, 10))
RANGES = st.lists(st.tuples(BOUNDS, st.sampled_from([None, FAULT])), max_size=6)


def gap(offset: int) -> Stalled:
    return Stalled(Reason.DATA_LOSS, f"no {offset}")


def test_what_is_landed_ends_at_a_fault_and_a_fault_where_it_is_landed_again() -> None:
    ranges = [(OffsetRange(0, 10), None), (OffsetRange(10, 15), FAULT), (OffsetRange(15, 30), None)]

    assert first_stretch(OffsetRange(3, 30), ranges, gap) == (OffsetRange(3, 10), None)
    assert first_stretch(OffsetRange(12, 30), ranges, gap) == (OffsetRange(12, 15), FAULT)
    assert first_stretch(OffsetRange(15, 20), ranges, gap) == (OffsetRange(15, 20), None)


def test_a_gap_says_where_it_begins() -> None:
    offsets, why = first_stretch(OffsetRange(10, 20), [(OffsetRange(14, 16), None)], gap)

    assert (offsets, str(why)) == (OffsetRange(10, 14), "no 10")


@given(BOUNDS, RANGES)
def test_every_offset_is_judged_as_it_would_be_alone(
    asked: tuple[int, int], ranges: list[tuple[tuple[int, int], Stalled | None]]
) -> None:
    offsets = OffsetRange(asked[0], asked[0] + asked[1])
    found = [(OffsetRange(start, start + length), why) for (start, length), why in ranges]

    def can_be_read(offset: int) -> bool:
        covering = [why for range_, why in found if range_.start <= offset < range_.end]
        return bool(covering) and not any(covering)

    stretch, why = first_stretch(offsets, found, gap)

    assert stretch.start == offsets.start
    assert all(can_be_read(o) == (why is None) for o in range(stretch.start, stretch.end))
    assert stretch.end == offsets.end or can_be_read(stretch.end) != (why is None)
