from landfall.driver.decide.batch_results import check_results
from landfall.errors import Reason, Retry, Stalled
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import FailedSlice, LandedObject, LandedSlice, ObjectKind
from landfall.objects import Part, Upload

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def piece(tp: TopicPartition, start: int, end: int) -> Slice:
    return Slice(tp, OffsetRange(start, end))


def landed(piece: Slice, bad: int = 0) -> LandedSlice:
    rows, start = len(piece.offsets) - bad, piece.offsets.start
    upload = Upload(f"{piece}", f"u{piece}", (Part("e", 1),), "t")
    data = LandedObject(upload, ObjectKind.DATA, rows, start, piece.offsets.end - 1, 0)
    return LandedSlice(piece, (data,), rows, 0, bad, 0, 10, ("no json",) * bool(bad))


def test_complete_answers_are_committed_in_order() -> None:
    first, second, other = piece(A, 0, 5), piece(A, 5, 9), piece(B, 0, 2)

    verdict = check_results(
        [first, second, other], [landed(other), landed(second), landed(first)], 0
    )

    assert [r.piece for r in verdict.commit] == [first, second, other]
    assert (verdict.discard, verdict.failed) == ((), {})


def test_one_failed_slice_takes_its_topic_partition_out_and_no_other() -> None:
    first, second, other = piece(A, 0, 5), piece(A, 5, 9), piece(B, 0, 2)
    away = Retry("broker away")

    verdict = check_results(
        [first, second, other], [landed(first), FailedSlice(second, away), landed(other)], 0
    )

    assert [r.piece for r in verdict.commit] == [other]
    assert [u.key for u in verdict.discard] == [str(first)]
    assert verdict.failed == {A: away}


def test_a_missing_answer_is_a_failure() -> None:
    first, second = piece(A, 0, 5), piece(A, 5, 9)

    verdict = check_results([first, second], [landed(first)], 0)

    assert verdict.commit == ()
    assert str(verdict.failed[A]) == "a/0: planned a/0[0, 5), a/0[5, 9), but a/0[0, 5) came back"


def test_an_answer_given_twice_is_a_failure() -> None:
    first = piece(A, 0, 5)

    assert check_results([first], [landed(first), landed(first)], 0).failed.keys() == {A}


def test_an_answer_nobody_asked_for_is_not_committed() -> None:
    wanted, stray = piece(A, 0, 5), piece(B, 0, 5)

    verdict = check_results([wanted], [landed(wanted), landed(stray)], 0)

    assert [r.piece for r in verdict.commit] == [wanted]
    assert [u.key for u in verdict.discard] == [str(stray)]


def test_too_many_bad_records_stop_the_topic_partition() -> None:
    wanted = piece(A, 0, 100)

    error = check_results([wanted], [landed(wanted, bad=2)], 0.01).failed[A]

    assert isinstance(error, Stalled)
    assert error.reason is Reason.BAD_RECORDS
    assert (
        str(error)
        == "a/0: 2 of 100 records in [0, 100) are bad, more than maxRatio 0.01 allows; first: no json"
    )


def test_as_many_bad_records_as_allowed_are_committed() -> None:
    wanted = piece(A, 0, 100)

    assert check_results([wanted], [landed(wanted, bad=1)], 0.01).failed == {}


def test_a_person_is_needed_before_another_try() -> None:
    first, second = piece(A, 0, 5), piece(A, 5, 9)
    lost = Stalled(Reason.DATA_LOSS, "gone")

    verdict = check_results(
        [first, second], [FailedSlice(first, Retry("away")), FailedSlice(second, lost)], 0
    )

    assert verdict.failed == {A: lost}
