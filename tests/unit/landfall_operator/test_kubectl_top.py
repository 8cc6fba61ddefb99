"""``kubectl landfall top`` shows all groups of a cluster; nothing but their status is read."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from landfall_operator.kubectl import main
from landfall_operator.kubectl.top import group_line, in_order, table

NOW = datetime(2026, 11, 21, 5, 20, tzinfo=UTC)


def group(name: str, **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "logs"}, "status": status}


def lag(records: int, seconds: int, blocked: int = 0) -> dict[str, Any]:
    return {
        "records": records,
        "seconds": seconds,
        "overdueSeconds": 0,
        "recordsText": "18k",
        "secondsText": f"{seconds}s",
        "time": "2026-11-21T05:19:59Z",
        "blocked": blocked,
    }


def commits(failures: int) -> dict[str, Any]:
    last = (NOW - timedelta(seconds=41)).isoformat()
    return {"total": 7, "failures": 9, "consecutiveFailures": failures, "lastTime": last}


CLICKS = group(
    "clicks",
    phase="Running",
    lag=lag(18_000, 41),
    commits=commits(0),
    rate={"arriving": 100, "landing": 1_200},
)
ORDERS = group("orders", phase="Degraded", reason="CommitsFailing", commits=commits(3))
NEW = {"metadata": {"name": "views", "namespace": "web"}}


def test_a_line_has_state_lag_rate_commit_and_failures() -> None:
    lines = in_order(group_line(each) for each in (CLICKS, NEW, ORDERS))

    header, *rows = table(lines, NOW).splitlines()
    assert header.split() == [
        *("NAMESPACE", "GROUP", "STATE", "REASON", "LAG", "LAG-TIME", "RECORDS/S"),
        *("LAST-COMMIT", "FAILURES"),
    ]
    assert [row.split() for row in rows] == [
        ["logs", "orders", "Degraded", "CommitsFailing", "41s", "ago", "3"],
        ["logs", "clicks", "Running", "18k", "41s", "1.2k", "41s", "ago", "0"],
        ["web", "views", "Pending", "never"],
    ]
    assert {len(row) for row in (header, *rows[:2])} == {len(header)}


def test_groups_that_need_somebody_come_first() -> None:
    groups = [
        group("lagging", phase="CatchingUp", lag=lag(10, 900)),
        group("fine", phase="Running", lag=lag(10, 5)),
        group("failing", phase="Running", lag=lag(10, 6), commits=commits(1)),
        group("blocked", phase="Running", lag=lag(10, 7, blocked=2)),
        group("stalled", phase="Stalled"),
    ]

    lines = in_order(group_line(each) for each in groups)

    assert [line.group for line in lines] == ["blocked", "failing", "stalled", "lagging", "fine"]
    assert "2 blocked" in table(lines, NOW)


def test_a_status_of_another_release_is_shown_as_far_as_it_is_known() -> None:
    line = group_line(group("clicks", phase="Running", lag={"parsecs": 3}, novelty=1))

    assert (line.state, line.lag_records) == ("Running", None)


def test_a_hostile_name_sends_nothing_to_the_terminal() -> None:
    status = {"phase": "Running", "lag": {**lag(1, 1), "secondsText": "\x1b[2J"}}

    assert "\x1b" not in table([group_line(group("\x1b]0;x", **status))], NOW)


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that shows two groups, and writes down how it is called."""
    program, calls = tmp_path / "kubectl", tmp_path / "calls"
    groups = tmp_path / "groups"
    groups.write_text(json.dumps({"items": [CLICKS, ORDERS]}))
    program.write_text(f'#!/bin/sh\necho "$*" >> {calls}\ncat {groups}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return calls


def test_the_cluster_is_that_of_the_kubeconfig(
    kubectl: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("top", "--kubeconfig", "admin.conf", "-A", "--once", "-o", "json")

    assert main(words) == 0

    shown = json.loads(capsys.readouterr().out)
    assert [(each["group"], each["failures"]) for each in shown] == [("orders", 3), ("clicks", 0)]
    assert shown[1]["records_per_second"] == 1200
    assert kubectl.read_text() == (
        "--kubeconfig=admin.conf get consumergroups.landfall.dev --all-namespaces -o json\n"
    )


def test_it_looks_again_until_it_is_interrupted(
    kubectl: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    waits = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("landfall_operator.kubectl.top.time.sleep", sleep)

    assert main(["top", "-n", "logs", "--interval", "3s"]) == 130

    assert capsys.readouterr().out.count("NAMESPACE") == 2
    assert waits == [3, 3]
    assert (
        kubectl.read_text().splitlines()
        == ["--namespace=logs get consumergroups.landfall.dev -o json"] * 2
    )


@pytest.mark.parametrize("wrong", [("--interval", "0s"), ("--interval", "x"), ("clicks",)])
def test_wrong_words_are_refused(kubectl: Path, wrong: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["top", "--once", *wrong])

    assert ended.value.code == 2


def test_promote_with_a_name_says_which_command_makes_a_backfill_live(
    kubectl: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At night the wrong one would end the watch of a rollout."""
    with pytest.raises(SystemExit):
        main(["promote", "clicks", "fix-ts"])

    assert "promote-backfill clicks NAME makes a backfill live" in capsys.readouterr().err
    assert not kubectl.exists()
