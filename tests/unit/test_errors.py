"""Errors survive the way between a task and the driver."""

import pickle

import pytest

from landfall.errors import (
    Fenced,
    LandfallError,
    Reason,
    Retry,
    SourceAway,
    Stalled,
    StoreAway,
    cause,
)


@pytest.mark.parametrize(
    "error",
    [
        Retry("busy"),
        StoreAway("503"),
        SourceAway("timed out"),
        Fenced("epoch 7"),
        Stalled(Reason.DATA_LOSS, "clicks/3: [4, 9) is gone"),
    ],
)
def test_errors_travel_from_tasks_whole(error: LandfallError) -> None:
    travelled = pickle.loads(pickle.dumps(error))

    assert (type(travelled), str(travelled)) == (type(error), str(error))
    assert getattr(travelled, "reason", None) == getattr(error, "reason", None)


def test_reasons_read_as_condition_reasons() -> None:
    assert all(reason.value.isalpha() and reason.value[0].isupper() for reason in Reason)


def test_outages_are_told_from_everything_else() -> None:
    errors = [
        StoreAway("503"),
        SourceAway("timed out"),
        Stalled(Reason.DATA_LOSS, "gone"),
        Retry("busy"),
    ]

    told = [cause(error, "RoundFailed") for error in errors]
    assert told == ["StoreUnavailable", "SourceUnavailable", "DataLoss", "RoundFailed"]
