from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from landfall.driver.decide.arrival_times import MARKS, ArrivalTimes

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def test_a_record_has_waited_since_an_end_beyond_it_was_first_seen() -> None:
    arrivals = ArrivalTimes().record(10, at(0)).record(10, at(1)).record(20, at(2))

    assert [arrivals.oldest_at(offset) for offset in (0, 9, 10, 19, 20)] == [
        at(0), at(0), at(2), at(2), None,
    ]  # fmt: skip


def test_landed_records_are_dropped() -> None:
    assert ArrivalTimes().record(10, at(0)).record(20, at(2)).landed(15) == ArrivalTimes(
        (20,), (at(2),)
    )


@given(st.lists(st.integers(1, 5), min_size=1, max_size=3 * MARKS), st.data())
def test_an_age_is_never_understated_however_many_observations_there_are(
    growth: list[int], data: st.DataObject
) -> None:
    arrivals, end, first_seen = ArrivalTimes(), 0, []
    for i, more in enumerate(growth):
        end += more
        first_seen += [at(i)] * more
        arrivals = arrivals.record(end, at(i))
    offset = data.draw(st.integers(0, end - 1))

    assert len(arrivals.ends) <= MARKS
    assert arrivals.ends[-1] == end
    assert arrivals.oldest_at(offset) <= first_seen[offset]
