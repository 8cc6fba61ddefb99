"""Errors survive pickling between a task and the driver, and name their cause."""

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
def test_errors_survive_pickling(error: LandfallError) -> None:
    copy = pickle.loads(pickle.dumps(error))

    assert (type(copy), str(copy)) == (type(error), str(error))
    assert getattr(copy, "reason", None) == getattr(error, "reason", None)


def test_reasons_read_as_condition_reasons() -> None:
    assert all(reason.value.isalpha() and reason.value[0].isupper() for reason in Reason)


def test_outages_have_causes_of_their_own() -> None:
    errors = [
        StoreAway("503"),
        SourceAway("timed out"),
        Stalled(Reason.DATA_LOSS, "gone"),
        Retry("busy"),
    ]

    causes = [cause(error, "RoundFailed") for error in errors]
    assert causes == ["StoreUnavailable", "SourceUnavailable", "DataLoss", "RoundFailed"]
