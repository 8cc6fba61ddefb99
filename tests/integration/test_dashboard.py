"""Every panel of the dashboard finds data in what operator and driver really expose, says promtool.

The metrics of both become series that grow (counters) or stay (gauges). For each query, the test
makes ``absent(query)`` an alert. It fires if the query finds nothing, because a name, a label or a
join does not match, and no alert may fire.
"""

import json
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from dev.tools import promtool
from landfall.api.compaction_status import CompactionStatus
from landfall.api.feed_status import FeedStatus
from landfall.driver.core.counters import DriverCounters
from landfall.driver.http.metrics import StatusCollector
from landfall_operator.api.status import GroupPublisherStatus, RateStatus
from landfall_operator.core.desired_state import desired_state
from landfall_operator.reporting.group_status import report
from landfall_operator.runtime.group_metrics import GroupSnapshot
from landfall_operator.runtime.metrics import Metrics, OperatorSnapshot
from tests.support.operator.cluster_model import START, World, group

DASHBOARD = Path(__file__).resolve().parents[2] / "charts/landfall/files/dashboard.json"
LAKE = GroupPublisherStatus.model_validate(
    {
        "name": "lake",
        "type": "Iceberg",
        "state": "Behind",
        "lag_seconds": 600,
        "lag_text": "10m",
        "failures": 3,
        "time": START,
    }
)
HITS = FeedStatus(
    "hits", 5, 1000, landed_parts=7, parked_parts=1, undecided_parts=0, ignored_parts=1
)
MERGING = CompactionStatus(
    2, 30, merged_objects=20, new_objects=2, merged_bytes=900, duplicates=1, failures=1
)
VARIABLES = {"$namespace": ".*", "$group": ".*", "$__rate_interval": "5m"}


def queries() -> Iterator[tuple[str, str]]:
    """Name and expression of every query, with variables filled in."""
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel.get("targets", []):
            expression = target["expr"]
            for variable, value in VARIABLES.items():
                expression = expression.replace(variable, value)
            yield f"panel {panel['id']} {panel['title']}, query {target['refId']}", expression


def operator(world: World) -> CollectorRegistry:
    """The metrics of an operator that has done everything at least once."""
    seen = world.observe()
    status = report(seen, desired_state(seen)).model_copy(
        update={"rate": RateStatus(arriving=20, landing=30), "publishers": (LAKE,)}
    )
    snapshot = GroupSnapshot("logs", "clicks", status, START, answers=True, restarts=1)
    made = Metrics(lambda: OperatorSnapshot(is_leader=True, groups=1, oldest_pass=1.5))
    made.group_snapshots["logs", "clicks"] = snapshot
    made.passes.ended("done", 0.1)
    made.actions.labels("Apply").inc()
    made.api_requests.labels("patch", "ConsumerGroup", "200").inc()
    made.api_seconds.labels("patch").observe(0.01)
    made.driver_requests.labels("/status", "ok").inc()
    made.events.labels("Normal").inc()
    made.driver_failures.labels("logs", "clicks", "CrashLoop").inc()
    return made.registry


def driver(world: World) -> CollectorRegistry:
    """The metrics of a driver that has landed, failed and found bad records."""
    driver_report = world.observe().drivers.popitem()[1].report
    assert driver_report
    counters = DriverCounters(
        START,
        commits=3,
        objects=9,
        landed_by_topic={"clicks": 100},
        bytes_by_topic={"clicks": 1000},
        dead_lettered_by_topic={"clicks": 1},
        failures_by_reason={"StoreUnavailable": 1},
    )
    # A group has topics or files; here, one driver has both.
    status = replace(driver_report.status, feeds=(HITS,), compaction=MERGING)
    registry = CollectorRegistry()
    registry.register(StatusCollector(lambda: (status, counters)))
    return registry


@pytest.fixture(scope="module")
def series() -> list[dict[str, str]]:
    world = World(group("good"))
    world.run(timedelta(minutes=30))
    return [
        *_series(operator(world), {"instance": "10.0.0.1:8080", "pod": "operator-0"}),
        *_series(driver(world), {"instance": "10.0.0.2:8080", "pod": "driver-0"}),
    ]


def _series(registry: CollectorRegistry, target: dict[str, str]) -> Iterator[dict[str, str]]:
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        grows = family.type in {"counter", "histogram"}
        for sample in family.samples:
            yield {
                "series": _selector(sample, target),
                "values": f"{sample.value}+{1 if grows else 0}x60",
            }


def _selector(sample: Sample, target: dict[str, str]) -> str:
    labels = ", ".join(
        f"{name}={json.dumps(value)}" for name, value in {**sample.labels, **target}.items()
    )
    return f"{sample.name}{{{labels}}}"


def test_no_panel_is_empty(series: list[dict[str, str]], tmp_path: Path) -> None:
    assert run_queries(queries(), series, tmp_path) == ""


def test_a_panel_that_queries_a_missing_metric_is_found(
    series: list[dict[str, str]], tmp_path: Path
) -> None:
    misspelt = [
        ("misspelt", 'max by (group) (landfall_group_lag{namespace=~".*"})'),
        ("fine", "landfall_group_lag_records"),
    ]

    complaint = run_queries(misspelt, series, tmp_path)

    assert "misspelt" in complaint
    assert "fine" not in complaint


def run_queries(
    queries: Iterable[tuple[str, str]], series: list[dict[str, str]], folder: Path
) -> str:
    """The output of promtool about queries that find nothing; empty if all find something."""
    rules = [{"alert": name, "expr": f"absent({expression})"} for name, expression in queries]
    assert rules
    tests = [
        {
            "interval": "1m",
            "input_series": series,
            "alert_rule_test": [{"alertname": rule["alert"], "eval_time": "40m"} for rule in rules],
        }
    ]
    _write(folder / "rules.yaml", {"groups": [{"name": "panels", "rules": rules}]})
    _write(
        folder / "tests.yaml",
        {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests},
    )
    argv = [promtool.program(), "test", "rules", folder / "tests.yaml"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(yaml.safe_dump(content, width=1000))
