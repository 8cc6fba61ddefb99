"""The throughput of one hot Kafka partition counts from the first COMMIT to the last."""

import pytest

from landfall import ledger
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import LandedSlice
from tests.bench.hot import SLOTS, HotRun, mb_per_second, table


def commit(seconds: int, megabytes: int) -> ledger.Commit:
    piece = Slice(TopicPartition("hot", 0), OffsetRange(0, 1))
    landed = LandedSlice(piece, (), 0, 1, 0, 0, megabytes * 10**6)
    time = f"2026-11-21T12:00:{seconds:02}+00:00"
    return ledger.Commit(
        header=ledger.Header(seconds, "", 1, "w", time, -1), token="t", slices=(landed,)
    )


def test_the_start_is_not_in_it() -> None:
    assert mb_per_second([commit(20, 1), commit(25, 300), commit(30, 500)]) == 80


def test_one_commit_says_nothing() -> None:
    with pytest.raises(ValueError, match="two COMMITs"):
        mb_per_second([commit(20, 1)])


def test_a_row_compares_runs_of_one_repetition() -> None:
    speeds = ((100.0, 60.0), (180.0, 120.0), (200.0, 120.0))
    runs = [
        HotRun(slots, both[repeat], 40.0, 60.0, 8, 10, 1500.0)
        for repeat in range(2)
        for slots, both in zip(SLOTS, speeds, strict=True)
    ]

    assert table(runs).splitlines()[2:] == [
        "| 1 | 80 (60\u2013100) | 1.00 | 40.0 | 60 | 8 | 150 |",
        "| 2 | 150 (120\u2013180) | 1.90 (1.80\u20132.00) | 40.0 | 60 | 8 | 150 |",
        "| 4 | 160 (120\u2013200) | 2.00 | 40.0 | 60 | 8 | 150 |",
    ]
