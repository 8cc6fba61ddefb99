"""The status that users see."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from landfall import errors
from landfall.api.compaction_status import ReplacingStatus
from landfall.api.contract import DriverPhase, Failure
from landfall.api.next_steps import give_up_step
from landfall.api.status_summary import summarize
from landfall_operator.api.reasons import GOOD_NEWS, ConditionReason, ConditionType
from landfall_operator.api.reasons import Phase as GroupPhase
from landfall_operator.api.status import Condition, GroupStatus
from landfall_operator.core.desired_state import desired_state
from landfall_operator.core.snapshot import FRESH, GroupObservation, PodFailure, ReceivedStatus
from landfall_operator.reporting.group_status import report
from landfall_operator.reporting.status_writes import write_interval
from tests.support.operator.cluster_model import START, World, group

TROUBLESHOOTING = Path(__file__).resolve().parents[3] / "docs" / "guides" / "troubleshooting.md"


@pytest.fixture
def running() -> GroupObservation:
    world = World(group("good"))
    world.run(timedelta(minutes=5))
    return world.observe()


def status_of(observed: GroupObservation) -> GroupStatus:
    return report(observed, desired_state(observed))


def condition(status: GroupStatus, kind: ConditionType) -> Condition:
    return next(c for c in status.conditions if c.type is kind)


def with_driver(observed: GroupObservation, **changes: object) -> GroupObservation:
    (driver,) = observed.drivers.values()
    return replace(observed, drivers={driver.revision: replace(driver, **changes)})  # type: ignore[arg-type]


def test_a_running_group_reports_its_numbers(running: GroupObservation) -> None:
    status = status_of(running)

    assert status.lag
    assert status.commits
    assert (status.phase, status.replicas, status.active_generation, status.topics) == (
        "Running",
        1,
        1,
        "clicks",
    )
    assert (status.lag.records_text, status.lag.seconds_text, status.commits.total) == (
        "2",
        "3s",
        5,
    )
    assert status.selector == "landfall.dev/group=clicks,landfall.dev/role=executor"
    assert {c.type for c in status.conditions} == set(ConditionType) - {
        ConditionType.PUBLISHED,
        ConditionType.ON_SCHEDULE,
        ConditionType.REPLACED,
    }


def replacing(observed: GroupObservation, left: ReplacingStatus) -> GroupObservation:
    """The group as it goes on, with this left of REPLACEs."""
    (driver,) = observed.drivers.values()
    assert driver.report
    status = replace(driver.report.status, replacing=left)
    seen = with_driver(observed, report=replace(driver.report, status=status))
    return replace(seen, status=status_of(observed))


REFUSED = ReplacingStatus(1, 1, 0, 0, "a/1: AccessDenied", give_up_step(7))
UNDELETABLE = ReplacingStatus(0, 0, 4, 4, "a/1: AccessDenied")


def test_what_is_refused_of_a_replacement_is_a_condition_that_names_the_way_out(
    running: GroupObservation,
) -> None:
    left = replacing(running, REFUSED)

    found = condition(status_of(left), ConditionType.REPLACED)

    assert (found.status, found.reason) == ("False", ConditionReason.REPLACEMENT_REFUSED)
    assert "1 REPLACE; what they are to replace counts as before: a/1: AccessDen" in found.message
    assert found.message.endswith(" -- landfall undo 7 --why '…'")


def test_what_cannot_be_deleted_is_a_condition_and_the_group_works(
    running: GroupObservation,
) -> None:
    left = replacing(running, UNDELETABLE)

    status = status_of(left)

    found = condition(status, ConditionType.REPLACED)
    assert (found.status, found.reason) == ("False", ConditionReason.REPLACED_NOT_DELETED)
    assert found.message.endswith("; allow it: a/1: AccessDenied")
    assert (status.phase, status.reason) == ("Running", None)
    for kind in (ConditionType.READY, ConditionType.DEPLOYED):
        assert condition(status, kind).status == "True"
    for kind in (ConditionType.STALLED, ConditionType.RECONCILING):
        assert condition(status, kind).status == "False"


def test_a_refusal_is_over_once_the_store_allows_it_and_lasts_while_nobody_asks(
    running: GroupObservation,
) -> None:
    refused = replacing(running, REFUSED)
    over = replacing(refused, ReplacingStatus())
    silent = replace(refused, status=status_of(refused), drivers={})

    assert condition(status_of(over), ConditionType.REPLACED).status == "True"
    before, after = (
        condition(status_of(each), ConditionType.REPLACED) for each in (refused, silent)
    )
    assert (after.status, after.reason, after.message) == ("False", before.reason, before.message)


def test_all_blocked_topic_partitions_of_a_summary_are_counted(running: GroupObservation) -> None:
    (driver,) = running.drivers.values()
    assert driver.report
    one = driver.report.status.partitions[0]
    many = tuple(replace(one, partition=n, blocked="LogTruncated") for n in range(300))
    full = replace(driver.report.status, partitions=many)

    summed, listed = (
        status_of(with_driver(running, report=replace(driver.report, status=status)))
        for status in (summarize(full), full)
    )

    assert summed == listed
    assert summed.lag
    assert summed.lag.blocked == 300
    assert "300 topic partitions are blocked" in condition(summed, ConditionType.STALLED).message


def test_numbers_of_a_silent_driver_are_never_shown_as_fresh(running: GroupObservation) -> None:
    later = replace(running, now=running.now + FRESH + timedelta(minutes=4))

    status = status_of(later)

    assert status.lag
    assert status.lag.seconds_text == "3s (4m50s ago)"
    assert (status.phase, status.reason, status.replicas) == (
        "Degraded",
        ConditionReason.UNREACHABLE,
        0,
    )
    assert condition(status, ConditionType.COMMITS_HEALTHY).status == "Unknown"


def test_numbers_of_a_driver_that_is_gone_are_shown_with_their_age(
    running: GroupObservation,
) -> None:
    before = status_of(running)
    gone = replace(
        running, now=running.now + FRESH + timedelta(minutes=4), status=before, drivers={}
    )

    status = status_of(gone)

    assert before.lag
    assert status.lag == before.lag.model_copy(update={"seconds_text": "3s (4m50s ago)"})


def test_while_a_driver_does_not_know_its_lag_the_last_known_one_is_shown_with_its_age(
    running: GroupObservation,
) -> None:
    before = status_of(running)
    (driver,) = running.drivers.values()
    assert driver.report
    lag_unknown = replace(
        driver.report.status, lag_records=0, lag_seconds=0.0, partitions=(), lag_known=False
    )
    later = replace(running, now=running.now + timedelta(minutes=4), status=before)

    status = status_of(with_driver(later, report=ReceivedStatus(lag_unknown, later.now)))

    assert before.lag
    assert status.lag == before.lag.model_copy(update={"seconds_text": "3s (4m ago)"})
    assert condition(status, ConditionType.WITHIN_LAG_TARGET).status == "Unknown"


def test_a_driver_that_recovers_for_long_is_not_ready(running: GroupObservation) -> None:
    (driver,) = running.drivers.values()
    assert driver.report
    recovering = replace(driver.report.status, phase=DriverPhase.RECOVERING)
    first = ReceivedStatus(recovering, running.now).after(driver.report)
    later = ReceivedStatus(recovering, running.now + timedelta(minutes=2)).after(first)
    last = ReceivedStatus(recovering, running.now + timedelta(minutes=3)).after(later)

    soon = status_of(with_driver(running, report=first))
    long = status_of(with_driver(replace(running, now=last.received), report=last))

    assert condition(soon, ConditionType.READY).status == "True"
    assert (long.phase, long.reason) == (GroupPhase.DEGRADED, ConditionReason.RECOVERING)
    since = f"{running.now:%H:%M} UTC"
    assert since in condition(long, ConditionType.READY).message
    again = replace(recovering, phase=DriverPhase.RUNNING)
    done = ReceivedStatus(again, last.received).after(last)
    assert condition(status_of(with_driver(running, report=done)), ConditionType.READY).status == (
        "True"
    )


def test_times_are_whole_seconds(running: GroupObservation) -> None:
    status = status_of(replace(running, now=running.now + timedelta(microseconds=1)))

    assert {c.last_transition_time.microsecond for c in status.conditions} == {0}


def test_the_same_numbers_again_are_not_written(running: GroupObservation) -> None:
    before = status_of(running)
    running = replace(running, status=before)
    (driver,) = running.drivers.values()
    assert driver.report
    again = replace(driver.report, received=driver.report.received + timedelta(seconds=5))

    after = status_of(with_driver(running, report=again))

    assert write_interval(before, after) is None


def test_an_unchanged_condition_keeps_its_transition_time(running: GroupObservation) -> None:
    before = condition(status_of(running), ConditionType.READY)
    later = replace(running, status=status_of(running), now=running.now + timedelta(seconds=10))

    assert (
        condition(status_of(later), ConditionType.READY).last_transition_time
        == before.last_transition_time
    )
    broken = with_driver(later, report=None)
    assert condition(status_of(broken), ConditionType.READY).last_transition_time == later.now


def test_equal_conditions_are_one_object(running: GroupObservation) -> None:
    before = status_of(running)
    later = replace(running, status=before, now=running.now + timedelta(seconds=10))

    pairs = zip(before.conditions, status_of(later).conditions, strict=True)
    assert all(now is former for former, now in pairs)


def test_a_store_that_refuses_a_running_driver_needs_a_user(running: GroupObservation) -> None:
    (driver,) = running.drivers.values()
    assert driver.report
    failure = Failure(running.now.isoformat(), "StoreDenied", "begin s3://logs/a: AccessDenied")
    commits = replace(driver.report.status.commits, consecutive_failures=2, last_failure=failure)
    refused = replace(driver.report.status, commits=commits)

    status = status_of(with_driver(running, report=ReceivedStatus(refused, running.now)))

    shown = {
        kind: condition(status, kind)
        for kind in (ConditionType.STALLED, ConditionType.STORE_SAFE, ConditionType.COMMITS_HEALTHY)
    }
    assert {c.reason for c in shown.values()} == {ConditionReason.STORE_DENIED}
    assert [c.status for c in shown.values()] == ["True", "False", "False"]
    assert all(failure.message in c.message for c in shown.values())
    assert shown[ConditionType.STALLED].message.endswith(
        f"; grant access; next: kubectl -n logs exec deploy/clicks-{driver.revision} -- "
        "landfall retry"
    )


def test_the_status_says_what_is_read_from_another_group(running: GroupObservation) -> None:
    (driver,) = running.drivers.values()
    assert driver.report
    first = replace(driver.report.status.partitions[0], read_from="backup")
    changed = replace(driver.report.status, partitions=(first,))

    status = status_of(with_driver(running, report=ReceivedStatus(changed, running.now)))

    reachable = condition(status, ConditionType.SOURCE_REACHABLE)
    assert (reachable.status, reachable.message) == (
        "True",
        "Kafka has lost offsets of clicks/0: they are read from what backup has landed",
    )


@pytest.mark.parametrize(
    "reason",
    [ConditionReason.IMAGE_PULL, ConditionReason.UNSCHEDULABLE, ConditionReason.OUT_OF_MEMORY],
)
def test_the_status_says_why_a_pod_does_not_run(
    running: GroupObservation, reason: ConditionReason
) -> None:
    status = status_of(with_driver(running, report=None, pod_failure=PodFailure(reason, "because")))

    ready = condition(status, ConditionType.READY)
    assert (status.phase, status.reason, ready.status, ready.message) == (
        "Degraded",
        reason,
        "False",
        "because",
    )


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        (ConditionReason.STORE_UNSAFE, ConditionType.STORE_SAFE),
        (ConditionReason.SOURCE_DENIED, ConditionType.SOURCE_REACHABLE),
    ],
)
def test_a_problem_that_a_user_must_fix_stalls_the_group(
    running: GroupObservation, reason: ConditionReason, kind: ConditionType
) -> None:
    status = status_of(with_driver(running, report=None, pod_failure=PodFailure(reason, "because")))

    assert (status.phase, status.reason, condition(status, kind).status) == (
        "Stalled",
        reason,
        "False",
    )


def test_the_data_planes_reasons_are_known_here() -> None:
    assert {reason.value for reason in errors.Reason} <= {
        reason.value for reason in ConditionReason
    }


@pytest.mark.parametrize("reason", sorted(set(ConditionReason) - GOOD_NEWS))
def test_every_reason_has_a_section_in_the_documentation(reason: ConditionReason) -> None:
    assert f"\n### {reason}\n" in TROUBLESHOOTING.read_text()


def test_a_status_reads_back_from_the_api_server(running: GroupObservation) -> None:
    status = status_of(running)

    written = status.model_dump(mode="json", by_alias=True, exclude_none=True)

    assert GroupStatus.model_validate(written) == status
    assert "lagRecords" not in written
    assert written["rollout"]["since"] >= START.isoformat()[:10]


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (1, "1 topic partition is blocked and needs operator action; clicks/0: bad"),
        (2, "2 topic partitions are blocked and need operator action; clicks/0: bad"),
    ],
)
def test_the_message_about_blocked_topic_partitions_agrees_with_their_number(
    running: GroupObservation, count: int, text: str
) -> None:
    (driver,) = running.drivers.values()
    assert driver.report
    status = driver.report.status
    blocked = replace(status.partitions[0], blocked="BadRecordsOverLimit", message="bad")
    changed = replace(status, partitions=(blocked,) * count)

    stalled = status_of(with_driver(running, report=ReceivedStatus(changed, running.now)))

    assert condition(stalled, ConditionType.STALLED).message == text


@pytest.mark.parametrize(
    ("step", "shown"),
    [
        (
            "landfall skip GROUP.yaml clicks/0 --why '…'",
            (
                "; next: kubectl -n logs exec deploy/clicks-{revision} -- "
                "landfall skip clicks/0 --why '…'"
            ),
        ),
        ("", ""),
    ],
)
def test_the_message_about_a_blocked_topic_partition_ends_with_what_to_type(
    running: GroupObservation, step: str, shown: str
) -> None:
    (driver,) = running.drivers.values()
    assert driver.report
    blocked = replace(
        driver.report.status.partitions[0], blocked="DataLoss", message="expired", next_step=step
    )
    changed = replace(driver.report.status, partitions=(blocked,))

    stalled = status_of(with_driver(running, report=ReceivedStatus(changed, running.now)))

    message = condition(stalled, ConditionType.STALLED).message
    assert message.partition("; clicks/0: ")[2] == "expired" + shown.format(
        revision=driver.revision
    )
