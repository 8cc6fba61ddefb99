"""Samples are packed without loss."""

import tracemalloc
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from landfall_operator.core.samples import INTERVAL, KEPT, DriverSample, SampleHistory
from tests.support.operator.cluster_model import START

COUNTS = st.integers(0, 2**53)
SECONDS = st.floats(0, 1e12)
SAMPLES = st.builds(
    DriverSample,
    time=st.datetimes(datetime(2026, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001  # Hypothesis adds the zone
    driver=st.sampled_from(["g1-a/1", "g1-a/2"]),
    **dict.fromkeys(["arrived", "landed", "lag_records", "executors", "wanted"], COUNTS),
    **dict.fromkeys(["task_seconds", "lag_seconds", "overdue_seconds"], SECONDS),
)


def sample(seconds: float, driver: str = "g1-a/1") -> DriverSample:
    time = START + timedelta(seconds=seconds)
    return DriverSample(time, driver, 10, 9, 1.5, 1, 2.5, 0.0, 3, 4)


@given(SAMPLES)
def test_a_sample_comes_back_as_it_was(one: DriverSample) -> None:
    history = SampleHistory()

    history.add(one)

    assert list(history) == [one]


def test_samples_come_back_in_their_order() -> None:
    history, given = SampleHistory(), [sample(15 * n, f"g1-a/{n // 7}") for n in range(50)]

    for each in given:
        history.add(each)

    assert tuple(history) == tuple(given)


def test_a_sample_that_comes_too_soon_is_left_out() -> None:
    history = SampleHistory()

    for seconds in (0, 4.9, 5):
        history.add(sample(seconds))

    assert list(history) == [sample(0), sample(INTERVAL.total_seconds())]


def test_old_samples_are_dropped() -> None:
    history = SampleHistory()
    for seconds in (0, 60, 120):
        history.add(sample(seconds))

    history.expire(START + KEPT + timedelta(seconds=61))

    assert list(history) == [sample(120)]
    history.expire(START + 2 * KEPT)
    history.expire(START + 2 * KEPT)
    assert len(history) == 0


def test_half_an_hour_of_samples_takes_little_memory() -> None:
    tracemalloc.start()
    history = SampleHistory()
    for number in range(360):
        history.add(sample(5 * number, "g1-a/" + str(7)))
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert len(history) == 360
    assert size < 360 * 120
