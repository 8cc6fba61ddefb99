from landfall.driver.decide.batch_results import check_results
from landfall.errors import Reason, Retry, Stalled
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import FailedSlice, LandedObject, LandedSlice, ObjectKind
from landfall.objects import Part, Upload

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def slice_of(tp: TopicPartition, start: int, end: int) -> Slice:
    return Slice(tp, OffsetRange(start, end))


def landed(planned: Slice, bad: int = 0) -> LandedSlice:
    rows, start = len(planned.offsets) - bad, planned.offsets.start
    upload = Upload(f"{planned}", f"u{planned}", (Part("e", 1),), "t")
    data = LandedObject(upload, ObjectKind.DATA, rows, start, planned.offsets.end - 1, 0)
    return LandedSlice(planned, (data,), rows, 0, bad, 0, 10, ("no json",) * bool(bad))


def test_complete_results_are_committed_in_order() -> None:
    first, second, other = slice_of(A, 0, 5), slice_of(A, 5, 9), slice_of(B, 0, 2)

    decision = check_results(
        [first, second, other], [landed(other), landed(second), landed(first)], 0
    )

    assert [r.piece for r in decision.commit] == [first, second, other]
    assert (decision.discard, decision.failed) == ((), {})


def test_one_failed_slice_takes_its_topic_partition_out_and_no_other() -> None:
    first, second, other = slice_of(A, 0, 5), slice_of(A, 5, 9), slice_of(B, 0, 2)
    away = Retry("broker away")

    decision = check_results(
        [first, second, other], [landed(first), FailedSlice(second, away), landed(other)], 0
    )

    assert [r.piece for r in decision.commit] == [other]
    assert [u.key for u in decision.discard] == [str(first)]
    assert decision.failed == {A: away}


def test_a_missing_result_is_a_failure() -> None:
    first, second = slice_of(A, 0, 5), slice_of(A, 5, 9)

    decision = check_results([first, second], [landed(first)], 0)

    assert decision.commit == ()
    assert (
        str(decision.failed[A])
        == "a/0: planned a/0[0, 5), a/0[5, 9), but the tasks returned a/0[0, 5)"
    )


def test_a_result_returned_twice_is_a_failure() -> None:
    first = slice_of(A, 0, 5)

    assert check_results([first], [landed(first), landed(first)], 0).failed.keys() == {A}


def test_a_result_that_nobody_planned_is_not_committed() -> None:
    planned, unplanned = slice_of(A, 0, 5), slice_of(B, 0, 5)

    decision = check_results([planned], [landed(planned), landed(unplanned)], 0)

    assert [r.piece for r in decision.commit] == [planned]
    assert [u.key for u in decision.discard] == [str(unplanned)]


def test_too_many_bad_records_stall_the_topic_partition() -> None:
    planned = slice_of(A, 0, 100)

    error = check_results([planned], [landed(planned, bad=2)], 0.01).failed[A]

    assert isinstance(error, Stalled)
    assert error.reason is Reason.BAD_RECORDS
    assert (
        str(error) == "a/0: 2 of 100 records in [0, 100) are bad, "
        "more than maxRatio 0.01 allows; first: no json"
    )


def test_as_many_bad_records_as_allowed_are_committed() -> None:
    planned = slice_of(A, 0, 100)

    assert check_results([planned], [landed(planned, bad=1)], 0.01).failed == {}


def test_a_stall_is_reported_before_an_error_that_may_be_retried() -> None:
    first, second = slice_of(A, 0, 5), slice_of(A, 5, 9)
    lost = Stalled(Reason.DATA_LOSS, "gone")

    decision = check_results(
        [first, second], [FailedSlice(first, Retry("away")), FailedSlice(second, lost)], 0
    )

    assert decision.failed == {A: lost}
