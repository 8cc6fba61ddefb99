"""``landfall backfill land`` as a job: what it reports, and that it may be run again."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.request import urlopen

import pytest

from landfall.api.backfill_report import (
    MAX_BYTES,
    BackfillReport,
    LandingPhase,
    parse_report,
    termination_message,
)
from landfall.api.contract import ExitCode
from landfall.cli.land import backfill
from landfall.cli.land.backfill_land import REPORT, Reporter, progress_of
from landfall.driver.backfill.side_lane import (
    VERSION,
    RetiringShare,
    SidePlan,
    SideRange,
    side_spec,
)
from landfall.driver.decide.backfill import Backfill, NothingChosen, SliceChoice
from landfall.driver.http.report import serve_report
from landfall.driver.landing.goals import GoalParts
from landfall.driver.process import run
from landfall.errors import Reason, SourceAway
from landfall.lane.stores import open_stores
from landfall.ledger.offsets import OffsetRange, TopicPartition
from tests.unit.cli.land.test_backfill import NEW, OLD, ROWS, Scene


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    made = Scene(tmp_path)
    (tmp_path / "termination").touch()
    return made


def land(scene: Scene, *options: str) -> tuple[int, BackfillReport]:
    """Run the command; returns its exit code and its termination message."""
    file = scene.folder / "termination"
    code = scene.run("land", "--topic", "clicks", "--termination-file", str(file), *options)
    report = parse_report(file.read_text())
    assert report
    return code, report


def drives(monkeypatch: pytest.MonkeyPatch, work: Callable[[Any], ExitCode]) -> None:
    """Have something else than a driver do its work."""
    monkeypatch.setattr(run, "run_group", lambda _, options, __: work(options))


def test_what_is_landed_is_compared_and_reported(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lands(options: run.RunOptions) -> ExitCode:
        assert options.master == "local[3]"
        scene.land((NEW, ROWS))
        return ExitCode.OK

    drives(monkeypatch, lands)

    code, report = land(scene, "--max-cores", "3", "--json", str(scene.folder / "report.json"))

    assert code == ExitCode.OK
    assert report == BackfillReport(
        phase="Compared",
        offsets=6,
        landed_offsets=6,
        rows={"old": 6, "new": 6, "only_old": 6, "only_new": 6},
        dead_letters={"old": 0, "new": 0},
        bytes=report.bytes,
        output_partitions=2,
        differing=2,
        sample=report.sample,
        message="both have the same rows, some of them in other output partitions",
    )
    assert [line.partition(":")[0] for line in report.sample] == [
        f"old  clicks/{OLD}/1_0_{0:020}.json.gz",
        f"new  clicks/{NEW}/2_0_{0:020}.json.gz",
    ]
    stored = open_stores(side_spec(scene.group, "fix")).read(REPORT)
    assert parse_report(stored or b"") == report
    assert parse_report((scene.folder / "report.json").read_text()) == report


def test_run_again_it_says_the_same_without_a_driver(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scene.run("plan", "--topic", "clicks")
    scene.land((OLD, ROWS))
    drives(monkeypatch, lambda _: pytest.fail("there is nothing to land"))

    first = land(scene)
    (scene.folder / "termination").write_text("")

    assert land(scene) == first
    assert "both have the same rows" in capsys.readouterr().out


def test_what_is_chosen_and_not_there_fails_for_good(scene: Scene) -> None:
    code, report = land(scene, "--generations", "9")

    assert code == ExitCode.USAGE
    assert (report.phase, report.reason) == ("Failed", "NothingChosen")


def test_a_store_that_is_away_is_no_failure(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_away(_: object) -> ExitCode:
        raise SourceAway("kafka:9092 does not answer")

    drives(monkeypatch, is_away)

    code, report = land(scene)

    assert code == ExitCode.UNAVAILABLE
    assert (report.phase, report.reason) == ("Landing", "SourceAway")
    assert report.message == "kafka:9092 does not answer"


@pytest.mark.parametrize("is_done", [False, True])
def test_a_driver_that_was_stopped_goes_on_and_one_that_gave_up_does_not(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, *, is_done: bool
) -> None:
    def ends(options: run.RunOptions) -> ExitCode:
        assert options.goal
        goal: Any = options.goal(GoalParts(*[None] * 4))  # type: ignore[arg-type]  # not looked at
        goal.is_done = is_done
        return ExitCode.STALLED

    drives(monkeypatch, ends)

    code, report = land(scene)

    assert (code, report.phase) == (
        (ExitCode.STALLED, "Failed") if is_done else (ExitCode.UNFINISHED, "Landing")
    )


def test_a_share_of_the_topic_partitions_is_landed(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    assert scene.run("plan", "--share", "10%", "--dry-run", "--json") == ExitCode.OK
    first = json.loads(capsys.readouterr().out)["ranges"]
    assert scene.run("plan", "--share", "50%", "--json") == ExitCode.OK

    assert json.loads(capsys.readouterr().out)["ranges"] == first
    assert len(first) == 1  # of two topic partitions


@pytest.mark.parametrize("share", ["0%", "101%", "10", "1e1%"])
def test_what_is_no_share_is_refused(scene: Scene, share: str) -> None:
    with pytest.raises(SystemExit):
        scene.run("plan", "--share", share)


def test_only_what_was_landed_lately_is_chosen(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[SliceChoice] = []

    def none_chosen(_lane: object, _store: object, choice: SliceChoice) -> Backfill:
        asked.append(choice)
        raise NothingChosen(Reason.SPEC_INVALID, "nothing")

    monkeypatch.setattr(backfill, "read_chosen", none_chosen)
    before = datetime.now(UTC)

    assert scene.run("plan", "--last", "1h") == ExitCode.USAGE

    (choice,) = asked
    assert choice.since
    assert before <= choice.since + timedelta(hours=1) <= datetime.now(UTC)


def test_discarding_what_was_never_planned_ends_well_if_asked(scene: Scene) -> None:
    assert scene.run("discard", "--if-planned") == ExitCode.OK
    assert scene.run("discard") == ExitCode.USAGE


# ------------------------------------------------------------------------------------ progress


def test_progress_is_what_is_landed_of_the_ranges(tmp_path: Path) -> None:
    tps = [TopicPartition("clicks", n) for n in range(3)]
    ranges = tuple(SideRange(tp, "id", OffsetRange(100, 200)) for tp in tps)
    plan = SidePlan(VERSION, "fix", "", 2, 9, ranges, (), RetiringShare(1, 1, 1, 0))
    reporter = Reporter(tmp_path / "none")

    progress_of(plan, reporter)(status({0: 150, 1: 900, 2: 0}))  # type: ignore[arg-type]  # as much as is read

    assert reporter.report.landed_offsets == 50 + 100
    assert reporter.report.records_per_second == 12
    assert reporter.report.message == "clicks/0: it is gone"
    assert reporter.report.reason == "DataLoss"


def fetched(url: str) -> bytes:
    with urlopen(url, timeout=30) as answer:
        body: bytes = answer.read()
    return body


def status(checkpoints: dict[int, int]) -> SimpleNamespace:
    partitions = [
        SimpleNamespace(
            topic="clicks",
            partition=n,
            checkpoint=at,
            blocked="DataLoss" if n == 0 else None,
            message="it is gone",
        )
        for n, at in checkpoints.items()
    ]
    commits = SimpleNamespace(consecutive_failures=0, last_failure=None)
    rates = SimpleNamespace(records_per_second=11.6)
    made = SimpleNamespace(partitions=partitions, commits=commits, rates=rates, message="")
    return SimpleNamespace(status=made)


def test_the_report_is_served_while_it_runs() -> None:
    reporter = Reporter(Path("/none"))
    server = serve_report("127.0.0.1", 0, reporter.body)
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        reporter.update(phase=LandingPhase.COMPARING)
        assert parse_report(fetched(f"{url}/status?summary=true")) == reporter.report
        assert fetched(f"{url}/healthcheck") == b"{}"
    finally:
        server.shutdown()


# -------------------------------------------------------------------------- termination message


def test_a_termination_message_is_never_too_long() -> None:
    sample = tuple(f"old  clicks/{n}:1  {'ü' * 250}" for n in range(30))
    long = BackfillReport(phase="Compared", sample=sample, message="the rows differ")

    line = termination_message(long)

    assert len(line.encode()) <= MAX_BYTES
    kept = parse_report(line)
    assert kept
    assert 0 < len(kept.sample) < 30
    assert kept.changed(sample=sample) == long
    wordy = BackfillReport(phase="Failed", message="\x01" * 9000)
    assert len(termination_message(wordy).encode()) <= MAX_BYTES


@pytest.mark.parametrize("text", ["", "Error: out of memory", '{"phase": 7, "version": "x"}', "[]"])
def test_what_is_no_report_is_none(text: str) -> None:
    assert parse_report(text) is None


def test_a_report_of_a_later_release_can_be_read() -> None:
    assert parse_report('{"phase": "Landing", "more": [1]}') == BackfillReport(phase="Landing")
