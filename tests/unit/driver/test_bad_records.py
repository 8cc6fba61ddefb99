"""When bad records stop a topic partition: by share, by number, within a rolling window."""

from datetime import timedelta

from landfall.api.spec import BadRecords
from landfall.driver.decide.bad_records import BadRecordHistory
from landfall.errors import Reason
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import LandedSlice
from tests.support.driver.fakes import NOW

A, B = TopicPartition("a", 0), TopicPartition("billing", 0)
MINUTE = timedelta(minutes=1)


def limits(**spec: object) -> BadRecords:
    return BadRecords.model_validate(spec)


def landed(tp: TopicPartition, start: int, end: int, bad: int) -> LandedSlice:
    offsets = OffsetRange(start, end)
    filtered = len(offsets) - bad
    return LandedSlice(
        Slice(tp, offsets), (), 0, filtered, bad, 0, 1, ("offset 7: no json",) * bool(bad)
    )


def test_one_bad_record_of_a_quiet_topic_partition_does_not_stop_it() -> None:
    assert BadRecordHistory(limits()).error(A, [landed(A, 0, 500, 1)], NOW) is None


def test_as_many_as_min_count_and_more_than_max_ratio_stop_it() -> None:
    history = BadRecordHistory(limits(maxRatio="0.01"))

    assert history.error(A, [landed(A, 0, 9_000, 99)], NOW) is None
    assert history.error(A, [landed(A, 0, 10_000, 100)], NOW) is None
    error = history.error(A, [landed(A, 0, 9_999, 100)], NOW)

    assert error is not None
    assert error.reason is Reason.BAD_RECORDS
    assert str(error) == (
        "a/0: 100 of 9999 records within 3600s are bad, 100 of them in [0, 9999), "
        "more than maxRatio 0.01 allows; first: offset 7: no json; landfall try shows its value"
    )


def test_batches_within_the_window_are_counted_together() -> None:
    history = BadRecordHistory(limits())
    for batch in range(9):
        slices = [landed(A, batch * 20, batch * 20 + 20, 10)]
        assert history.error(A, slices, NOW + batch * MINUTE) is None
        history.landed(slices, NOW + batch * MINUTE)

    assert history.error(A, [landed(A, 180, 200, 10)], NOW + 10 * MINUTE) is not None
    assert history.error(B, [landed(B, 180, 200, 10)], NOW + 10 * MINUTE) is None


def test_what_is_older_than_the_window_is_forgotten() -> None:
    history = BadRecordHistory(limits(window="30m"))
    history.landed([landed(A, 0, 200, 95)], NOW)

    assert history.error(A, [landed(A, 200, 220, 10)], NOW + 29 * MINUTE) is not None
    assert history.error(A, [landed(A, 200, 220, 10)], NOW + 30 * MINUTE) is None


def test_a_batch_without_bad_records_is_never_refused() -> None:
    history = BadRecordHistory(limits(minCount=1))
    history.landed([landed(A, 0, 200, 200)], NOW)

    assert history.error(A, [landed(A, 200, 210, 0)], NOW) is None


def test_a_topic_may_have_limits_of_its_own() -> None:
    history = BadRecordHistory(
        limits(overrides=[{"topics": "bill.*", "maxRatio": 0, "minCount": 1}])
    )

    assert history.error(B, [landed(B, 0, 500, 1)], NOW) is not None
    assert history.error(A, [landed(A, 0, 500, 1)], NOW) is None


def test_an_override_replaces_only_what_it_sets() -> None:
    spec = limits(maxRatio="0.5", overrides=[{"topics": "b.*", "policy": "Fail"}, {"topics": ".*"}])

    assert spec.for_topic("billing").policy == "Fail"
    assert spec.for_topic("billing").max_ratio == 0.5
    assert spec.for_topic("clicks").policy == "DeadLetter"


def test_below_a_permitted_offset_any_number_is_allowed() -> None:
    history = BadRecordHistory(limits(minCount=1), permitted={A: 100})
    poison, after = landed(A, 0, 100, 100), landed(A, 100, 110, 1)

    assert history.error(A, [poison], NOW) is None
    history.landed([poison], NOW)
    assert history.error(A, [poison, after], NOW) is not None


def test_permitted_bad_records_do_not_count_against_what_follows() -> None:
    history = BadRecordHistory(limits(minCount=2), permitted={A: 1_000})

    history.landed([landed(A, 0, 1_000, 150)], NOW)

    assert history.error(A, [landed(A, 1_000, 6_000, 1)], NOW) is None
    assert history.error(A, [landed(A, 1_000, 6_000, 20)], NOW) is not None
