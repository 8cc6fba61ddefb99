"""What the status, the condition and the Events say about publishers."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from landfall.api.contract import PublisherStatus
from landfall_operator.api.reasons import ConditionReason, ConditionType
from landfall_operator.api.status import Condition, GroupStatus, PublisherState
from landfall_operator.api.status import GroupPublisherStatus as StoredStatus
from landfall_operator.core.actions import EmitEvent
from landfall_operator.core.desired_state import desired_state
from landfall_operator.core.snapshot import FRESH, GroupObservation
from landfall_operator.reporting.event_texts import condition_events
from landfall_operator.reporting.group_status import report
from landfall_operator.reporting.publishers import publisher_events
from landfall_operator.reporting.status_writes import AT_ONCE, NUMBERS, REFRESH, write_interval
from tests.support.examples import share
from tests.support.operator.cluster_model import World, group

SPEC = [
    {"name": "lake", "type": "Iceberg"},
    {"name": "hourly", "type": "Success", "minInterval": "10m"},
    {"name": "warehouse", "type": "BigQuery"},
]


def world(publish: list[dict[str, Any]]) -> GroupObservation:
    made = World(group("good", publish=publish))
    made.run(timedelta(minutes=5))
    return made.observe()


@pytest.fixture(scope="module")
def running() -> GroupObservation:
    return world(SPEC)


def one(name: str, **changes: Any) -> PublisherStatus:
    """A publisher that keeps up, but for the changes."""
    types = {each["name"]: each["type"] for each in SPEC}
    current = PublisherStatus(
        name=name,
        type=types[name],
        slot=41,
        lag_slots=1,
        lag_seconds=12.0,
        published_objects=40,
        failures=0,
        consecutive_failures=0,
        last_time="2026-11-21T12:00:00.5+00:00",
        blocked=None,
        message="",
    )
    return replace(current, **changes)


ALL = tuple(one(each["name"]) for each in SPEC)


def reporting(observed: GroupObservation, *publishers: PublisherStatus) -> GroupObservation:
    (driver,) = observed.drivers.values()
    assert driver.report
    status = replace(driver.report.status, publishers=publishers, contract=3)
    changed = replace(driver, report=replace(driver.report, status=status))
    return replace(observed, drivers={driver.revision: changed})


def status_of(observed: GroupObservation) -> GroupStatus:
    return report(observed, desired_state(observed))


def published(status: GroupStatus) -> Condition | None:
    return next((c for c in status.conditions if c.type is ConditionType.PUBLISHED), None)


def each_of(status: GroupStatus) -> tuple[StoredStatus, ...]:
    return status.publishers or ()


def with_lake(observed: GroupObservation, **changes: Any) -> GroupStatus:
    return status_of(reporting(observed, one("lake", **changes), *ALL[1:]))


BLOCKED = {"blocked": "DestinationConflict", "message": "lake.clicks.id is text in the table"}
FAILING = {"consecutive_failures": 2, "failures": 5, "message": "catalog: no answer"}


def test_publishers_that_keep_up(running: GroupObservation) -> None:
    status = status_of(reporting(running, *ALL))

    assert [(p.name, p.type, p.state, p.slot, p.lag_text) for p in each_of(status)] == [
        ("hourly", "Success", "Current", 41, "12s"),
        ("lake", "Iceberg", "Current", 41, "12s"),
        ("warehouse", "BigQuery", "Current", 41, "12s"),
    ]
    assert status.published == "3/3"
    found = published(status)
    assert found
    assert (found.status, found.reason) == ("True", ConditionReason.AS_EXPECTED)


def test_a_group_without_publishers_says_nothing_of_them() -> None:
    status = status_of(world([]))

    assert (status.publishers, status.published, published(status)) == (None, None, None)


@pytest.mark.parametrize(
    ("changes", "state", "reason", "text"),
    [
        (
            BLOCKED,
            PublisherState.BLOCKED,
            ConditionReason.DESTINATION_CONFLICT,
            "is blocked: lake.clicks.id is text in the table",
        ),
        (
            {"blocked": "WordOfANewerDriver", "message": "why"},
            PublisherState.BLOCKED,
            ConditionReason.PUBLISHER_BLOCKED,
            "is blocked: why",
        ),
        (
            FAILING,
            PublisherState.FAILING,
            ConditionReason.PUBLISHER_FAILING,
            "is failing: catalog: no answer",
        ),
        (
            {"lag_seconds": 301.0},
            PublisherState.BEHIND,
            ConditionReason.PUBLISHER_BEHIND,
            "is behind by more than 0:05:00",
        ),
    ],
)
def test_a_publisher_that_does_not_keep_up(
    running: GroupObservation,
    changes: dict[str, Any],
    state: PublisherState,
    reason: ConditionReason,
    text: str,
) -> None:
    status = with_lake(running, **changes)

    found = published(status)
    assert found
    assert (found.status, found.reason) == ("False", reason)
    assert found.message == f"1 of 3 publishers does not keep up: lake (Iceberg) {text}"
    assert {p.name: p.state for p in each_of(status)}["lake"] is state


def test_landing_is_ready_whatever_publishers_do(running: GroupObservation) -> None:
    as_expected = status_of(reporting(running, *ALL))

    blocked = status_of(
        reporting(running, *(replace(each, **BLOCKED, lag_seconds=9e6) for each in ALL))
    )

    def others(status: GroupStatus) -> list[tuple[str, str, str]]:
        return [
            (c.type, c.status, c.reason)
            for c in status.conditions
            if c.type is not ConditionType.PUBLISHED
        ]

    assert others(blocked) == others(as_expected)
    assert (blocked.phase, blocked.reason) == (as_expected.phase, as_expected.reason)
    assert blocked.published == "0/3: hourly blocked 104d4h, lake blocked 104d4h, 1 more"


def test_a_single_failure_is_not_reported(running: GroupObservation) -> None:
    status = with_lake(running, consecutive_failures=1, failures=1, message="once")

    assert status.published == "3/3"


def test_what_waits_for_its_interval_is_not_behind(running: GroupObservation) -> None:
    late = tuple(replace(each, lag_seconds=29 * 60.0) for each in ALL)

    status = status_of(reporting(running, *late))

    assert {p.name: p.state for p in each_of(status)} == {
        "hourly": PublisherState.CURRENT,
        "lake": PublisherState.BEHIND,
        "warehouse": PublisherState.BEHIND,
    }
    assert status.published == "1/3: lake 30m behind, warehouse 30m behind"


def test_the_worst_publisher_comes_first(running: GroupObservation) -> None:
    status = status_of(
        reporting(
            running,
            one("hourly", lag_seconds=86400.0),
            one("lake", **FAILING),
            one("warehouse", **BLOCKED, lag_seconds=0.0),
        )
    )

    assert status.published == "0/3: warehouse blocked, lake failing 12s, 1 more"


def test_numbers_of_a_silent_driver_are_not_shown_as_fresh(running: GroupObservation) -> None:
    later = replace(reporting(running, *ALL), now=running.now + FRESH + timedelta(minutes=4))

    status = status_of(later)

    assert {p.lag_text for p in each_of(status)} == {"12s (4m50s ago)"}
    assert status.published == "3/3 (4m50s ago)"
    found = published(status)
    assert found
    assert found.status == "Unknown"


@pytest.mark.parametrize("gone", [False, True], ids=["starts", "is gone"])
def test_while_a_driver_reports_no_publishers_the_last_known_ones_stay(
    running: GroupObservation, gone: bool
) -> None:
    before = with_lake(running, **BLOCKED)
    later = replace(running, now=running.now + timedelta(minutes=3), status=before)

    status = status_of(replace(later, drivers={}) if gone else later)

    assert [p.model_copy(update={"lag_text": "12s"}) for p in each_of(status)] == list(
        each_of(before)
    )
    assert status.published == "2/3: lake blocked 12s (3m ago)"
    found = published(status)
    assert found
    assert found.status == "Unknown"


def test_what_the_spec_has_and_no_driver_has_reported_is_counted(running: GroupObservation) -> None:
    status = status_of(running)

    assert (status.publishers, status.published) == (None, "0/3")
    found = published(status)
    assert found
    assert (found.status, found.message) == (
        "Unknown",
        "the driver has not reported its publishers",
    )


def test_what_has_not_published_yet_does_not_count_as_keeping_up(
    running: GroupObservation,
) -> None:
    status = with_lake(running, slot=-1, last_time=None)

    found = published(status)
    assert found
    assert (found.status, found.reason) == ("Unknown", ConditionReason.STARTING)
    assert found.message == "lake (Iceberg) has not published yet"
    assert status.published == "2/3: lake starting 12s"
    late = with_lake(running, slot=-1, last_time=None, lag_seconds=301.0)
    assert {p.name: p.state for p in each_of(late)}["lake"] is PublisherState.BEHIND
    fine = status_of(reporting(running, *ALL))
    assert list(publisher_events(GroupStatus(), status)) == []
    assert list(publisher_events(status, fine)) == []


def test_after_a_restart_of_the_driver_the_last_known_state_stays_until_a_pass_has_ended(
    running: GroupObservation,
) -> None:
    before = with_lake(running, **BLOCKED)
    restarted = replace(reporting(running, one("lake", last_time=None), *ALL[1:]), status=before)

    status = status_of(restarted)

    assert {p.name: p.state for p in each_of(status)}["lake"] is PublisherState.BLOCKED
    assert list(publisher_events(before, status)) == []
    assert list(publisher_events(status, status_of(reporting(running, *ALL)))) == [
        EmitEvent("Normal", "PublisherCurrent", "lake (Iceberg) keeps up again")
    ]


def test_each_publisher_has_events_of_its_own(running: GroupObservation) -> None:
    fine = status_of(reporting(running, *ALL))
    blocked = with_lake(running, **BLOCKED)
    more = status_of(
        reporting(running, one("hourly", **FAILING), one("lake", **BLOCKED), one("warehouse"))
    )

    assert list(publisher_events(fine, blocked)) == [
        EmitEvent(
            "Warning",
            "DestinationConflict",
            "lake (Iceberg): lake.clicks.id is text in the table",
        )
    ]
    assert list(publisher_events(blocked, blocked)) == []
    assert list(publisher_events(blocked, more)) == [
        EmitEvent("Warning", "PublisherFailing", "hourly (Success): catalog: no answer")
    ]
    assert list(publisher_events(more, fine)) == [
        EmitEvent("Normal", "PublisherCurrent", "hourly (Success) keeps up again"),
        EmitEvent("Normal", "PublisherCurrent", "lake (Iceberg) keeps up again"),
    ]
    assert list(publisher_events(GroupStatus(), fine)) == []
    assert list(publisher_events(fine, with_lake(running, lag_seconds=600.0))) == [
        EmitEvent(
            "Warning", "PublisherBehind", "lake (Iceberg): what landed 10m ago is not published"
        )
    ]
    assert list(condition_events(fine, blocked)) == []


def test_another_reason_of_a_blocked_publisher_is_announced(running: GroupObservation) -> None:
    before, after = (with_lake(running, **{**BLOCKED, "blocked": word}) for word in ("One", "Two"))

    assert [event.reason for event in publisher_events(before, after)] == ["PublisherBlocked"]


def test_a_change_of_state_is_written_at_once_and_numbers_are_not(
    running: GroupObservation,
) -> None:
    fine = status_of(reporting(running, *ALL))
    asked_again = reporting(running, *ALL)
    (driver,) = asked_again.drivers.values()
    assert driver.report
    answer = replace(driver.report, received=running.now + timedelta(seconds=15))
    again = replace(asked_again, drivers={driver.revision: replace(driver, report=answer)})

    assert write_interval(fine, with_lake(running, **BLOCKED)) == AT_ONCE
    assert write_interval(fine, with_lake(running, lag_seconds=60.0)) == NUMBERS
    assert write_interval(fine, with_lake(running, slot=42)) == REFRESH
    same = status_of(again)
    assert same.publishers != fine.publishers
    assert write_interval(fine, same) is None


REPORTED = st.builds(
    one,
    st.sampled_from([each["name"] for each in SPEC]),
    slot=st.integers(-1, 10**12),
    lag_seconds=st.floats(0, 1e9),
    failures=st.integers(0, 10**9),
    consecutive_failures=st.integers(0, 10**6),
    last_time=st.none() | st.just("2026-11-21T12:00:00+00:00"),
    blocked=st.none() | st.text(min_size=1, max_size=40),
    message=st.text(max_size=5000),
    details=st.text(max_size=5000),
)


@settings(max_examples=share(50), deadline=None)
@given(st.lists(REPORTED, max_size=3, unique_by=lambda each: each.name))
def test_whatever_a_driver_reports_makes_a_status_of_bounded_size(
    reported: list[PublisherStatus],
) -> None:
    status = status_of(reporting(OBSERVED, *reported))

    written = status.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert GroupStatus.model_validate(written) == status
    assert all(len(p.problem) <= 300 and len(p.details) <= 300 for p in each_of(status))
    assert status.published
    assert len(status.published) <= 200
    keeping_up = sum(p.state is PublisherState.CURRENT for p in each_of(status))
    assert status.published.startswith(f"{keeping_up}/3")
    found = published(status)
    assert found
    assert (found.status == "True") == (keeping_up == len(reported) > 0)


OBSERVED = world(SPEC)
