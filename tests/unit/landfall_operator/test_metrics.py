"""The operator's metrics, and that docs/reference/metrics.md lists them all."""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client import Metric, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from landfall.driver.core.counters import DriverCounters
from landfall.driver.http.metrics import StatusCollector
from landfall_operator.api.status import GroupStatus
from landfall_operator.api.verbs import PAUSE
from landfall_operator.core.desired_state import desired_state
from landfall_operator.reporting.group_status import report
from landfall_operator.runtime.group_metrics import (
    GROUP_FAMILIES,
    Families,
    GroupSnapshot,
    group_snapshot,
)
from landfall_operator.runtime.metrics import (
    BACKFILL_FAMILIES,
    OPERATOR_FAMILIES,
    BackfillSnapshot,
    Metrics,
    OperatorSnapshot,
)
from tests.support.operator.cluster_model import START, World, group
from tests.support.operator.seen_backfills import compared

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "metrics.md"
PROCESS_PREFIXES = ("process_", "python_")


@pytest.fixture(scope="module")
def running() -> World:
    world = World(group("good", autoscaling={"minReplicas": 1, "maxReplicas": 4}))
    world.run(timedelta(minutes=10))
    return world


def metrics(*statuses: GroupStatus) -> Metrics:
    made = Metrics(lambda: OperatorSnapshot(is_leader=True, groups=len(statuses), oldest_pass=1.5))
    for i, status in enumerate(statuses):
        made.group_snapshots["logs", f"g{i}"] = GroupSnapshot(
            "logs", f"g{i}", status, START, answers=True, restarts=2
        )
    return made


def scraped(made: Metrics) -> dict[tuple[str, ...], float]:
    """The values by metric name and label values, without the namespace."""
    return {
        (
            sample.name,
            *(value for label, value in sorted(sample.labels.items()) if label != "namespace"),
        ): sample.value
        for family in text_string_to_metric_families(generate_latest(made.registry).decode())
        for sample in family.samples
    }


def test_a_running_group_has_all_metrics(running: World) -> None:
    samples = scraped(metrics(report(running.observe(), desired_state(running.observe()))))

    assert samples["landfall_group_phase", "g0", "Running"] == 1
    assert samples["landfall_group_phase", "g0", "Stalled"] == 0
    assert samples["landfall_group_condition", "Ready", "g0"] == 1
    assert samples["landfall_group_commits_total", "g0"] == 5
    assert samples["landfall_group_lag_records", "g0"] == 2
    assert samples["landfall_group_driver_restarts", "g0"] == 2
    assert samples["landfall_operator_groups",] == 1


def test_a_group_of_unknown_state_has_a_phase_and_no_numbers() -> None:
    samples = scraped(metrics(GroupStatus()))

    names = {name for name, *_ in samples if name.startswith("landfall_group")}
    assert names == {
        "landfall_group_info",
        "landfall_group_phase",
        "landfall_group_phase_start_timestamp_seconds",
        "landfall_group_driver_up",
        "landfall_group_driver_restarts",
        "landfall_group_paused",
    }


@pytest.mark.parametrize("paused", [False, True])
def test_a_paused_group_is_exported(running: World, paused: bool) -> None:
    observed = replace(running.observe(), annotations={PAUSE: "true"} if paused else {})
    desired = desired_state(observed)
    made = metrics()
    made.group_snapshots["logs", "g0"] = group_snapshot(
        None, observed, desired, report(observed, desired)
    )

    assert scraped(made)["landfall_group_paused", "clicks"] == paused


def test_a_namespace_that_is_not_watched_is_exported() -> None:
    namespaces = {"logs": True, "lost": False}
    made = Metrics(lambda: OperatorSnapshot(True, 0, 0.0, namespaces))

    for namespace, watched in namespaces.items():
        value = made.registry.get_sample_value(
            "landfall_operator_namespace_watched", {"namespace": namespace}
        )
        assert value == watched


def test_every_group_is_exported_once(running: World) -> None:
    status = report(running.observe(), desired_state(running.observe()))

    samples = scraped(metrics(status, status))

    assert {key[1] for key in samples if key[0] == "landfall_group_lag_records"} == {"g0", "g1"}


def test_the_page_lists_every_name_and_no_other(running: World) -> None:
    status = running.observe().drivers.popitem()[1].report
    assert status
    drivers = StatusCollector(lambda: (status.status, DriverCounters(START))).collect()
    families = [*metrics().registry.collect(), *drivers]

    listed = set(re.findall(r"`(landfall_[a-z_]+[a-z])`", PAGE.read_text()))

    exported = {name for family in families for name in exposed(family)}
    collected = {
        as_scraped(families, name)
        for families in (GROUP_FAMILIES, BACKFILL_FAMILIES, OPERATOR_FAMILIES)
        for name in families.texts
    }
    assert listed == exported | collected


def exposed(family: Metric) -> Iterator[str]:
    """The name under which a family is scraped, except for the metrics of Python itself."""
    if not family.name.startswith(PROCESS_PREFIXES):
        yield {"counter": f"{family.name}_total", "info": f"{family.name}_info"}.get(
            family.type, family.name
        )


def as_scraped(families: Families, declared: str) -> str:
    return f"{declared}_total" if declared in families.counters else declared


def test_a_backfill_has_its_metrics() -> None:
    made = metrics()
    status = compared()
    made.backfill_snapshots = {("logs", "fix"): BackfillSnapshot("logs", "fix", "clicks", status)}

    samples = scraped(made)

    assert samples["landfall_backfill_phase", "fix", "clicks", "Compared"] == 1
    assert samples["landfall_backfill_phase", "fix", "clicks", "Failed"] == 0
    assert samples["landfall_backfill_offsets", "fix", "clicks"] == 200
    assert samples["landfall_backfill_landed_offsets", "fix", "clicks"] == 200
    assert samples["landfall_backfill_differing_output_partitions", "fix", "clicks"] == 1
