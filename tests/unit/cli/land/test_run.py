"""What ``landfall run`` asks the driver for."""

import json
from pathlib import Path

import pytest

from landfall.api.contract import ExitCode
from landfall.api.spec import ConsumerGroup
from landfall.cli import main
from landfall.driver.process import run
from landfall.driver.process.run import RunOptions
from tests.support.kubernetes.groups import document


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[RunOptions]:
    """The options of every run, in the place of a driver."""
    options: list[RunOptions] = []

    def run_group(_: ConsumerGroup, given: RunOptions, __: object) -> ExitCode:
        options.append(given)
        return ExitCode.OK

    monkeypatch.setattr(run, "run_group", run_group)
    return options


@pytest.fixture
def file(tmp_path: Path) -> str:
    made = tmp_path / "group.yaml"
    made.write_text(json.dumps(document("clicks")))
    return str(made)


def test_without_an_end_the_schedule_says_what_is_landed(
    asked: list[RunOptions], file: str
) -> None:
    assert main(["run", file]) is ExitCode.OK

    assert [(each.goal, each.stays) for each in asked] == [(None, False)]


def test_an_end_counts_instead_of_the_schedule(
    asked: list[RunOptions], file: str, tmp_path: Path
) -> None:
    offsets = tmp_path / "offsets.json"
    offsets.write_text('{"clicks": {"0": 7}}')

    assert main(["run", file, "--until", "2026-11-21T05:00Z"]) is ExitCode.OK
    assert main(["run", file, "--until", str(offsets)]) is ExitCode.OK

    assert [each.goal is None for each in asked] == [False, False]
