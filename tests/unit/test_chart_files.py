"""The files of the chart agree with the code; other tests render and install it with Helm."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from landfall import __version__

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts/landfall"


@pytest.mark.parametrize("name", ["consumergroups", "backfills"])
def test_the_chart_has_the_same_definition_as_crds(name: str) -> None:
    ours, charts = (
        folder / f"{name}.landfall.dev.yaml" for folder in (ROOT / "crds", CHART / "files")
    )

    assert charts.read_text() == ours.read_text(), "run `make crds`"


def test_the_chart_has_the_version_of_this_release() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())

    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_the_schema_has_exactly_the_keys_of_the_values() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    known = set(_known(schema)) - {"global"}

    assert set(_given(values, known)) == known


def _known(schema: dict[str, Any], path: str = "") -> Iterator[str]:
    for name, node in schema.get("properties", {}).items():
        yield f"{path}{name}"
        if node.get("additionalProperties") is False:
            yield from _known(node, f"{path}{name}.")


def _given(values: dict[str, Any], known: set[str], path: str = "") -> Iterator[str]:
    for name, value in values.items():
        here = f"{path}{name}"
        yield here
        if isinstance(value, dict) and any(key.startswith(f"{here}.") for key in known):
            yield from _given(value, known, f"{here}.")


def test_the_page_lists_every_value() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    known = set(_known(schema)) - {"global"}
    leaves = {name for name in known if not any(other.startswith(f"{name}.") for other in known)}

    listed = [path for path, _ in VALUES]

    assert sorted(listed) == sorted(leaves)


VALUES = re.findall(
    r"^\| `([\w.]+)` \| (.*?) \|",
    (ROOT / "docs/reference/helm-values.md").read_text(),
    re.MULTILINE,
)


@pytest.mark.parametrize(("path", "default"), VALUES)
def test_the_page_has_the_default_of_every_value(path: str, default: str) -> None:
    value = yaml.safe_load((CHART / "values.yaml").read_text())
    for key in path.split("."):
        value = value[key]

    if path.startswith("operator.") and path.endswith("ecurityContext"):  # too long for a table
        assert isinstance(value, dict)
        assert default == "non-root, no privileges"
    else:
        assert yaml.safe_load(default.strip("`")) == value


def test_the_schema_rejects_unknown_keys() -> None:
    open_nodes = [
        path
        for path, node in _nodes(json.loads((CHART / "values.schema.json").read_text()))
        if _is_open(node)
    ]

    assert open_nodes == []


def _nodes(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from _nodes(child, f"{path}.{name}")


def _is_open(node: dict[str, Any]) -> bool:
    return "properties" in node and node.get("additionalProperties") is not False


def test_every_alert_is_explained_where_its_link_leads() -> None:
    groups = yaml.safe_load((CHART / "files/alerts.yaml").read_text())["groups"]
    links = {
        rule["alert"]: rule["annotations"]["runbook_url"]
        for group in groups
        for rule in group["rules"]
    }
    page = (ROOT / "docs/guides/troubleshooting.md").read_text()
    sections = set(re.findall(r"^### (\w+)$", page, re.MULTILINE))

    assert links == {alert: f"docs/guides/troubleshooting.md#{alert.lower()}" for alert in links}
    assert set(links) == {section for section in sections if section.startswith("Landfall")}


METRICS = set(re.findall(r"`(landfall_\w+)`", (ROOT / "docs/reference/metrics.md").read_text()))
"""A unit test of the operator compares that page with the code."""


def metrics_in(text: str) -> set[str]:
    """The names of metrics in a text; the parts of a histogram count as the histogram."""
    names = set(re.findall(r"\b(?:landfall|process|python)_\w+", text))
    return {
        name if name in METRICS else re.sub(r"_(bucket|sum|count)$", "", name) for name in names
    }


def test_alerts_use_metrics_that_exist() -> None:
    groups = yaml.safe_load((CHART / "files/alerts.yaml").read_text())["groups"]

    used = {
        name for group in groups for rule in group["rules"] for name in metrics_in(rule["expr"])
    }

    assert used
    assert used - METRICS == set()


def test_the_dashboard_uses_metrics_that_exist() -> None:
    dashboard = json.loads((CHART / "files/dashboard.json").read_text())

    used = metrics_in(json.dumps([panel.get("targets") for panel in dashboard["panels"]]))

    assert len(used) > 30
    assert {name for name in used - METRICS if not name.startswith("process_")} == set()


def test_no_two_panels_of_the_dashboard_overlap() -> None:
    places = [
        panel["gridPos"]
        for panel in json.loads((CHART / "files/dashboard.json").read_text())["panels"]
    ]
    cells = [
        (x, y)
        for p in places
        for x in range(p["x"], p["x"] + p["w"])
        for y in range(p["y"], p["y"] + p["h"])
    ]

    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) == 23
