"""A driver's garbage collector does not look at a batch's results again and again."""

import gc
from collections.abc import Iterator

import pytest

from landfall.driver.process.run import GARBAGE_THRESHOLD, tune_garbage_collector


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    threshold = gc.get_threshold()
    yield
    gc.set_threshold(*threshold)


def test_thousands_of_results_are_looked_at_once_at_most() -> None:
    tune_garbage_collector()
    before = gc.get_stats()[0]["collections"]

    results: list[list[int]] = [[] for _ in range(GARBAGE_THRESHOLD - 1)]

    assert len(results) < GARBAGE_THRESHOLD
    assert gc.get_stats()[0]["collections"] - before <= 1
