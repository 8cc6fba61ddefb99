"""The chart's alerts, from the file that Prometheus loads."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from dev.docs.text import prose

FILE = Path(__file__).resolve().parents[2] / "charts/landfall/files/alerts.yaml"
TROUBLESHOOTING = "../guides/troubleshooting.md"

HEAD = """# Alerts

<!-- Made by `make crds` from charts/landfall/files/alerts.yaml. -->

What the chart's PrometheusRule holds (`monitoring.rules.enabled`). Without the Prometheus
operator, load `charts/landfall/files/alerts.yaml` as it is. Where a group's spec has a limit of
its own, its alert uses that one. What to do about an alert is in
[Troubleshooting](../guides/troubleshooting.md#alerts); how to change or leave one out is in
[Monitoring](../guides/monitoring.md#alerts).

| alert | severity | fires after | meaning |
|---|---|---|---|"""


def page() -> str:
    """``docs/reference/alerts.md``."""
    rules = [
        rule for group in yaml.safe_load(FILE.read_text())["groups"] for rule in group["rules"]
    ]
    return "\n".join(
        [HEAD, *map(_row, rules), "", *(line for rule in rules for line in _section(rule))]
    )


def _row(rule: dict[str, Any]) -> str:
    name = rule["alert"]
    link = f"[{name}](#{name.lower()})"
    cells = (link, rule["labels"]["severity"], rule.get("for", "at once"), _text(rule, "summary"))
    return f"| {' | '.join(cells)} |"


def _section(rule: dict[str, Any]) -> Iterator[str]:
    name = rule["alert"]
    yield f"## {name}\n"
    yield f"{prose(_text(rule, 'description'))}\n"
    yield f"[What to do]({TROUBLESHOOTING}#{name.lower()})\n"
    yield f"```promql\n{rule['expr'].rstrip()}\n```\n"


def _text(rule: dict[str, Any], key: str) -> str:
    """An annotation, with the names of labels where Prometheus fills in their values."""
    text = re.sub(
        r"\{\{ \$labels\.(\w+) \}\}", lambda found: found[1].upper(), rule["annotations"][key]
    )
    return re.sub(r"\{\{ \$value[^}]*\}\}", "N", " ".join(text.split())).replace("|", "\\|")
