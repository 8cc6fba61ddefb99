"""When a status is written: what users react to at once, numbers rarely; and how long it may be."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import NoneType
from typing import Annotated, Any, get_args, get_origin

import pytest
from pydantic import BaseModel

from landfall_operator.api.backfill_status import BackfillStatus
from landfall_operator.api.status import GroupStatus
from landfall_operator.api.verbs import MAX_VALUE, Verb, annotation, requested
from landfall_operator.reporting.status_writes import (
    AT_ONCE,
    MAX_ITEMS,
    MAX_TEXT,
    NUMBERS,
    REFRESH,
    SOON,
    bounded,
    write_interval,
)

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)

STORED: dict[str, Any] = {
    "observed_generation": 1,
    "phase": "Running",
    "active_generation": 1,
    "image": "landfall:1",
    "replicas": 4,
    "executors": {"wanted": 4, "ready": 4},
    "lag": {
        "records": 1000,
        "seconds": 40,
        "overdue_seconds": 0,
        "records_text": "1k",
        "seconds_text": "40s",
        "time": NOW,
        "worst": ({"topic": "clicks", "partition": 0, "records": 1000, "seconds": 40},),
        "blocked": 0,
    },
    "commits": {"total": 100, "failures": 1, "consecutive_failures": 0, "last_time": NOW},
    "rate": {"arriving": 500, "landing": 500},
    "autoscaling": {"desired": 4, "reason": "AsNeeded", "message": "needs 3.1 executors"},
    "conditions": (
        {
            "type": "Ready",
            "status": "True",
            "reason": "AsExpected",
            "message": "2 things",
            "observed_generation": 1,
            "last_transition_time": NOW,
        },
    ),
}

INEFFECTIVE = {"since": NOW, "executors": 4, "landing": 500, "message": "no throughput"}


def changed(**fields: Any) -> GroupStatus:
    """The stored status with other values; ``lag__records=5`` changes a field of ``lag``."""
    made = {
        name: dict(value) if isinstance(value, dict) else value for name, value in STORED.items()
    }
    for path, value in fields.items():
        parent, _, name = path.partition("__")
        if parent == "condition":
            made["conditions"] = ({**made["conditions"][0], name: value},)
        elif name:
            made[parent][name] = value
        else:
            made[parent] = value
    return GroupStatus.model_validate(made)


@pytest.mark.parametrize(
    ("fields", "interval"),
    [
        ({}, None),
        ({"lag__time": NOW + timedelta(minutes=9)}, None),
        ({"phase": "Stalled"}, AT_ONCE),
        ({"reason": "Starting"}, AT_ONCE),
        ({"observed_generation": 2}, AT_ONCE),
        ({"condition__status": "False"}, AT_ONCE),
        ({"condition__reason": "Starting"}, AT_ONCE),
        ({"conditions": ()}, AT_ONCE),
        ({"phase": "Stalled", "lag__records": 1001}, AT_ONCE),
        ({"image": "landfall:2"}, SOON),
        ({"active_generation": 2}, SOON),
        ({"rollout": {"stage": "Watching"}}, SOON),
        ({"executors__wanted": 5}, SOON),
        ({"autoscaling__desired": 5}, SOON),
        ({"autoscaling__ineffective": INEFFECTIVE}, SOON),
        ({"replicas": 3}, SOON),
        ({"executors__ready": 3}, SOON),
        ({"lag__records": 1334}, NUMBERS),
        ({"lag__records": 750}, NUMBERS),
        ({"lag__records": 0}, NUMBERS),
        ({"lag__overdue_seconds": 1}, NUMBERS),
        ({"lag__eta_seconds": 60}, NUMBERS),
        ({"lag__blocked": 1}, NUMBERS),
        ({"lag": None}, NUMBERS),
        ({"commits__failures": 2}, NUMBERS),
        ({"rate": None}, NUMBERS),
        ({"condition__message": "2 other things"}, NUMBERS),
        ({"autoscaling__reason": "CoolingDown"}, NUMBERS),
        ({"lag__records": 1333}, REFRESH),
        ({"lag__records": 751}, REFRESH),
        ({"lag__records_text": "1.1k"}, REFRESH),
        ({"lag__worst": ()}, REFRESH),
        ({"commits__total": 101}, REFRESH),
        ({"commits__last_time": NOW + timedelta(minutes=1)}, REFRESH),
        ({"rate__arriving": 510}, REFRESH),
        ({"condition__message": "3 things"}, REFRESH),
        ({"autoscaling__message": "needs 3.2 executors"}, REFRESH),
        ({"commits__total": 101, "lag__seconds": 80}, NUMBERS),
    ],
    ids=str,
)
def test_how_soon_a_change_is_written(fields: dict[str, Any], interval: timedelta | None) -> None:
    assert write_interval(changed(), changed(**fields)) == interval


def test_the_age_of_numbers_of_a_silent_driver_is_kept_up_to_date() -> None:
    assert write_interval(changed(), changed(lag__seconds_text="40s (1m ago)")) == NUMBERS


def test_a_text_that_follows_a_number_waits_for_it() -> None:
    later = {"lag__time": NOW + timedelta(seconds=15), "lag__seconds_text": "41s"}

    assert write_interval(changed(), changed(**later, lag__seconds=41)) == REFRESH


def test_a_first_status_is_written_at_once() -> None:
    assert write_interval(GroupStatus(), changed()) == AT_ONCE


LONG = "x" * (MAX_TEXT + 1)


def filled(kind: Any) -> Any:
    """A value of this type, with too long a text in each field and too many items in each list."""
    if get_origin(kind) is Annotated:
        return filled(get_args(kind)[0])
    if kind is str:
        return LONG
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        fields = kind.model_fields.items()
        return kind.model_construct(**{name: filled(each.annotation) for name, each in fields})
    arguments = [each for each in get_args(kind) if each is not NoneType]
    if get_origin(kind) is tuple:
        return (filled(arguments[0]),) * (MAX_ITEMS + 1)
    if get_origin(kind) is dict:
        return {"key": LONG}
    return filled(arguments[0]) if len(arguments) == 1 else None


def sizes(value: Any, path: str = "") -> Iterator[tuple[str, int]]:
    """The characters of each text and the items of each list, by path."""
    if isinstance(value, str):
        yield path, len(value)
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from sizes(getattr(value, name), f"{path}.{name}")
    elif isinstance(value, dict):
        for item in value.values():
            yield from sizes(item, f"{path}{{}}")
    elif isinstance(value, tuple):
        yield f"{path}[]", len(value)
        for item in value[:1]:
            yield from sizes(item, f"{path}[]")


REMEMBERED = ".answered_requests{}"
"""Values of annotations, which are cut when they are read: a later cut would make them others."""


@pytest.mark.parametrize(
    ("model", "some"),
    [
        (GroupStatus, {".conditions[].message", ".rollout.trial.comparison.sample[]", ".runs[]"}),
        (BackfillStatus, {".conditions[].message", ".message", ".conditions[]"}),
    ],
)
def test_every_text_and_list_of_a_status_is_bounded(model: type[BaseModel], some: set[str]) -> None:
    status = filled(model)
    too_large = {path for path, size in sizes(status) if size > MAX_ITEMS}
    assert some < too_large, "the test fills these, and so the fields like them"

    found = list(sizes(bounded(status)))

    lists = {path: size for path, size in found if size == MAX_ITEMS}
    assert {path for path, _ in found} == {path for path, _ in sizes(status)}
    assert all(path.endswith("[]") for path in lists)
    assert {path for path, size in found if size > MAX_TEXT} <= {REMEMBERED}
    assert {path for path, size in found if MAX_ITEMS < size < MAX_TEXT} == set()


@pytest.mark.parametrize("verb", Verb)
def test_no_more_of_an_annotation_is_remembered_than_a_name_may_have(verb: Verb) -> None:
    found = requested({annotation(verb): LONG})

    assert found == (verb, LONG[:MAX_VALUE])
