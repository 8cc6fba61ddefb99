from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from landfall.driver.decide.arrival_times import MARKS, ArrivalTimes

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def test_a_record_waits_since_the_first_sight_of_an_end_beyond_it() -> None:
    seen = ArrivalTimes().see(10, at(0)).see(10, at(1)).see(20, at(2))

    assert [seen.since(0), seen.since(9), seen.since(10), seen.since(19), seen.since(20)] == [
        at(0), at(0), at(2), at(2), None,
    ]  # fmt: skip


def test_what_is_landed_is_forgotten() -> None:
    assert ArrivalTimes().see(10, at(0)).see(20, at(2)).landed(15) == ArrivalTimes((20,), (at(2),))


@given(st.lists(st.integers(1, 5), min_size=1, max_size=3 * MARKS), st.data())
def test_age_is_never_understated_however_many_sights(
    growth: list[int], data: st.DataObject
) -> None:
    seen, end, first_seen = ArrivalTimes(), 0, []
    for i, more in enumerate(growth):
        end += more
        first_seen += [at(i)] * more
        seen = seen.see(end, at(i))
    offset = data.draw(st.integers(0, end - 1))

    assert len(seen.ends) <= MARKS
    assert seen.ends[-1] == end
    assert seen.since(offset) <= first_seen[offset]
