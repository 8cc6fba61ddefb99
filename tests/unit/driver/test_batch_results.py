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

    decision = check_results([first, second, other], [landed(other), landed(second), landed(first)])

    assert [r.piece for r in decision.commit] == [first, second, other]
    assert (decision.discard, decision.failed) == ((), {})


def test_what_adjoins_before_a_failed_slice_is_committed() -> None:
    first, second, third = slice_of(A, 0, 5), slice_of(A, 5, 9), slice_of(A, 9, 12)
    other, away = slice_of(B, 0, 2), Retry("broker away")

    decision = check_results(
        [first, second, third, other],
        [landed(third), landed(first), FailedSlice(second, away), landed(other)],
    )

    assert [r.piece for r in decision.commit] == [first, other]
    assert [u.key for u in decision.discard] == [str(third)]
    assert decision.failed == {A: away}


def test_a_slice_that_ended_early_is_committed_and_what_follows_is_discarded() -> None:
    first, second, other = slice_of(A, 0, 5), slice_of(A, 5, 9), slice_of(B, 0, 2)
    short = slice_of(A, 0, 3)

    decision = check_results([first, second, other], [landed(second), landed(short), landed(other)])

    assert [r.piece for r in decision.commit] == [short, other]
    assert [u.key for u in decision.discard] == [str(second)]
    assert decision.failed == {}


def test_a_slice_that_is_longer_than_planned_or_starts_elsewhere_is_not_committed() -> None:
    planned = slice_of(A, 5, 9)

    for returned in (slice_of(A, 5, 10), slice_of(A, 6, 9), slice_of(A, 4, 9)):
        decision = check_results([planned], [landed(returned)])
        assert decision.commit == ()
        assert decision.failed.keys() == {A}
        assert [u.key for u in decision.discard] == [str(returned)]


def test_a_missing_result_is_a_failure() -> None:
    first, second = slice_of(A, 0, 5), slice_of(A, 5, 9)

    decision = check_results([first, second], [landed(first)])

    assert [r.piece for r in decision.commit] == [first]
    assert (
        str(decision.failed[A])
        == "a/0: planned a/0[0, 5), a/0[5, 9), but the tasks returned a/0[0, 5)"
    )


def test_a_result_returned_twice_is_a_failure() -> None:
    first = slice_of(A, 0, 5)

    assert check_results([first], [landed(first), landed(first)]).failed.keys() == {A}


def test_a_result_that_nobody_planned_is_not_committed() -> None:
    planned, unplanned = slice_of(A, 0, 5), slice_of(B, 0, 5)

    decision = check_results([planned], [landed(planned), landed(unplanned)])

    assert [r.piece for r in decision.commit] == [planned]
    assert [u.key for u in decision.discard] == [str(unplanned)]


def test_slices_that_a_rule_refuses_leave_the_batch_with_their_topic_partition() -> None:
    first, other = slice_of(A, 0, 100), slice_of(B, 0, 5)
    refused = Stalled(Reason.BAD_RECORDS, "too many")

    decision = check_results(
        [first, other],
        [landed(first), landed(other)],
        lambda tp, _: refused if tp == A else None,
    )

    assert [r.piece for r in decision.commit] == [other]
    assert decision.failed == {A: refused}


def test_a_stall_is_reported_before_an_error_that_may_be_retried() -> None:
    first, second = slice_of(A, 0, 5), slice_of(A, 5, 9)
    lost = Stalled(Reason.DATA_LOSS, "gone")

    decision = check_results(
        [first, second], [FailedSlice(first, Retry("away")), FailedSlice(second, lost)]
    )

    assert decision.failed == {A: lost}
