"""What the chart renders for Prometheus and Grafana."""

import re
from typing import Any

import orjson
import yaml

from tests.support.kubernetes.chart_values import EVERYTHING, SCENARIOS
from tests.support.kubernetes.helm import CHART, Manifest, rendered, the


def test_kinds_of_the_prometheus_operator_are_only_rendered_on_request() -> None:
    assert [m for m in rendered({}) if m["apiVersion"].startswith("monitoring")] == []


def test_monitors_find_the_ports_and_keep_the_groups_namespace() -> None:
    manifests = rendered(EVERYTHING)
    of_operator, of_drivers = (
        the("ServiceMonitor", manifests)["spec"],
        the("PodMonitor", manifests)["spec"],
    )
    scraped = [of_operator["endpoints"], of_drivers["podMetricsEndpoints"]]

    assert [(e["port"], e["path"], e.get("honorLabels", False)) for (e,) in scraped] == [
        ("http", "/metrics", True),
        ("http", "/metrics", False),
    ]
    assert (
        of_operator["selector"]["matchLabels"].items()
        <= the("Service", manifests)["metadata"]["labels"].items()
    )
    assert of_drivers["namespaceSelector"] == {"any": True}


def test_a_tenant_cannot_write_the_metrics_of_another_one() -> None:
    spec = the("PodMonitor", rendered(EVERYTHING))["spec"]
    (endpoint,) = spec["podMetricsEndpoints"]
    hostile = {
        "__name__": "landfall_lag_seconds",
        "namespace": "tenant-a",
        "group": "clicks",
        "pod": "x",
    }

    kept = scraped_series(hostile, endpoint, {"namespace": "tenant-b", "pod": "driver-0"})

    assert kept == {
        "__name__": "landfall_lag_seconds",
        "namespace": "tenant-b",
        "pod": "driver-0",
        "group": "clicks",
    }
    assert scraped_series({"__name__": "kube_pod_info"}, endpoint, {}) is None
    assert spec["sampleLimit"] == 20000
    assert {"labelLimit", "labelNameLengthLimit", "labelValueLengthLimit"} <= spec.keys()


def scraped_series(
    exposed: dict[str, str], endpoint: dict[str, Any], target: dict[str, str]
) -> dict[str, str] | None:
    """What Prometheus stores of a series; None if it drops it."""
    series = dict(exposed)
    for name, value in target.items():
        if name in series and not endpoint.get("honorLabels", False):
            series[f"exported_{name}"] = series[name]
        if not (name in series and endpoint.get("honorLabels", False)):
            series[name] = value
    for rule in endpoint.get("metricRelabelings", []):
        form = re.compile(rule["regex"])
        match rule["action"]:
            case "keep":
                text = ";".join(series.get(name, "") for name in rule["sourceLabels"])
                if not form.fullmatch(text):
                    return None
            case "labeldrop":
                series = {n: value for n, value in series.items() if not form.fullmatch(n)}
            case other:
                raise ValueError(other)
    return series


def test_drivers_are_scraped_in_the_watched_namespaces() -> None:
    manifests = rendered(
        {**SCENARIOS["some namespaces"], "monitoring": {"podMonitor": {"enabled": True}}}
    )

    assert the("PodMonitor", manifests)["spec"]["namespaceSelector"] == {
        "matchNames": ["default", "logs"]
    }


def alerts(**rules: Any) -> dict[str, Manifest]:
    made = the("PrometheusRule", rendered({"monitoring": {"rules": {"enabled": True, **rules}}}))
    return {rule["alert"]: rule for group in made["spec"]["groups"] for rule in group["rules"]}


def test_alerts_are_rendered_as_they_are_tested() -> None:
    groups = yaml.safe_load((CHART / "files/alerts.yaml").read_text())["groups"]

    assert alerts() == {rule["alert"]: rule for group in groups for rule in group["rules"]}


def test_alerts_are_changed_and_left_out_by_name() -> None:
    changed = alerts(
        disabled=["LandfallNoCommit"],
        overrides={"LandfallStalled": {"for": "9m", "labels": {"severity": "page"}}},
        labels={"team": "data"},
        runbook="https://wiki/landfall",
    )

    stalled = changed["LandfallStalled"]
    assert "LandfallNoCommit" not in changed
    assert (stalled["for"], stalled["labels"]) == ("9m", {"severity": "page", "team": "data"})
    assert stalled["annotations"]["runbook_url"] == "https://wiki/landfall#landfallstalled"


def test_alerts_of_a_release_look_at_its_own_operator() -> None:
    """Without that, the operator of another release or cluster keeps the alert silent."""
    monitoring = {
        "serviceMonitor": {"enabled": True},
        "rules": {"enabled": True, "matchers": 'cluster="eu"'},
    }
    manifests = rendered({"monitoring": monitoring})
    (endpoint,) = the("ServiceMonitor", manifests)["spec"]["endpoints"]
    (label,) = endpoint["relabelings"]
    groups = the("PrometheusRule", manifests)["spec"]["groups"]
    found = {rule["alert"]: rule["expr"] for group in groups for rule in group["rules"]}
    scope = f'{{landfall_release="{label["replacement"]}",cluster="eu"'

    assert label["targetLabel"] == "landfall_release"
    assert found["LandfallOperatorDown"] == f"absent(landfall_operator_leader{scope}}} == 1)"
    for expr in found.values():
        metrics = re.findall(r"landfall_(?:operator|group)_[a-z_]+(.{0,40})", expr)
        assert all(rest.startswith(scope[:40]) for rest in metrics)


def test_the_dashboard_is_rendered_unchanged() -> None:
    config = the("ConfigMap", rendered(EVERYTHING))

    assert orjson.loads(config["data"]["landfall.json"]) == orjson.loads(
        (CHART / "files/dashboard.json").read_bytes()
    )
    assert config["metadata"]["labels"]["grafana_dashboard"] == "1"
