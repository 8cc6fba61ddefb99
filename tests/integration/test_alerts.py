"""The chart's alerts, run by promtool: their text, when they fire and when they do not."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from dev.tools import promtool

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "charts/landfall/files/alerts.yaml"
CASES = ROOT / "tests/alerts/rules.test.yaml"


def alerts() -> list[str]:
    return [
        rule["alert"]
        for group in yaml.safe_load(RULES.read_text())["groups"]
        for rule in group["rules"]
    ]


def expectations() -> Iterator[dict[str, Any]]:
    for case in yaml.safe_load(CASES.read_text())["tests"]:
        yield from case["alert_rule_test"]


def test_every_alert_fires_with_the_expected_text() -> None:
    done = subprocess.run(
        [promtool.program(), "test", "rules", CASES],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_finds_no_error_in_the_rules() -> None:
    checked = subprocess.run(
        [promtool.program(), "check", "rules", "--lint=all", "--lint-fatal", RULES],
        capture_output=True,
        text=True,
        check=False,
    )

    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("alert", alerts())
def test_every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not(alert: str) -> None:
    fires = [bool(e.get("exp_alerts")) for e in expectations() if e["alertname"] == alert]

    assert sorted(set(fires)) == [False, True]
