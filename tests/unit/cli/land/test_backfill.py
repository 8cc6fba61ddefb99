"""``landfall backfill`` without its driver: plan, status, compare and discard."""

import gzip
import json
import re
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from landfall.api.contract import LANE, ExitCode, PartitionStatus
from landfall.api.next_steps import next_step
from landfall.api.spec import ConsumerGroup
from landfall.cli import main
from landfall.cli.land import backfill
from landfall.driver.backfill.side_lane import PLAN, side_spec
from landfall.driver.http.status import StatusReport
from landfall.driver.process import run
from landfall.errors import Reason
from landfall.lane import Lane
from landfall.lane.stores import open_stores
from landfall.ledger import Replace, decode
from tests.support.ledger.merged import current, merged, planned
from tests.support.ledger.readable import BODIES, CLICKS, ORDERS, Readable
from tests.unit.cli.text.test_progress import STATUS

ROOT = Path(__file__).parents[4]
OLD, NEW = "dt=1970-01-01/hr=00", "dt=2026-11-21/hr=04"
ROWS = [{"id": n} for n in range(6)]


class Scene:
    """A group that has landed wrongly, and its file with a corrected spec."""

    def __init__(self, folder: Path, format_: str = "Json") -> None:
        self.folder, self.format = folder, format_
        self.live = Readable(folder, format_)
        self.land_wrongly()
        document = self.live.group.model_dump(mode="json", by_alias=True, exclude_none=True)
        document["spec"]["generation"] = 2
        self.path = folder / "group.yaml"
        self.path.write_text(yaml.safe_dump(document))
        self.group = ConsumerGroup.model_validate(document, by_alias=True, by_name=False)

    def land_wrongly(self) -> None:
        """Land two slices of clicks into a wrong folder, and one of orders."""
        self.live.land(CLICKS, (OLD, ROWS[:4])).settle()
        self.live.land(CLICKS, (OLD, ROWS[4:])).land(ORDERS, (OLD, ROWS)).settle()

    def land(self, *parts: tuple[str, list[dict[str, Any]]], start: int = 0) -> None:
        """Land in the side lane, as its driver does."""
        url = side_spec(self.group, "fix").output.url
        side = Readable(self.folder, self.format, output={"url": url}, start=start)
        side.open(2).land(CLICKS, *parts).settle()

    def run(self, action: str, *options: str) -> int:
        return main(["backfill", action, str(self.path), "fix", *options])


class GuideScene(Scene):
    """What the guide tells of: three hours of clicks, landed by when they were seen."""

    def land_wrongly(self) -> None:
        for minutes in (range(100), range(100, 180)):
            self.live.land(CLICKS, *hours(minutes, "seen")).settle()


def hours(minutes: range, field: str) -> list[tuple[str, list[dict[str, Any]]]]:
    """A click a minute by the hours of a field; each is seen an hour after it happened."""
    found: dict[str, list[dict[str, Any]]] = {}
    for n in minutes:
        happened = datetime(2026, 11, 21, 22) + timedelta(minutes=n)  # noqa: DTZ001  # UTC, as text
        times = {"ts": happened, "seen": happened + timedelta(hours=1)}
        row = {"id": n, **{name: f"{time.isoformat()}Z" for name, time in times.items()}}
        found.setdefault(f"{times[field]:dt=%Y-%m-%d/hr=%H}", []).append(row)
    return [*found.items()]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def printed(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_a_plan_says_what_would_retire_and_is_written(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    assert scene.run("plan", "--topic", "clicks", "--json") == ExitCode.OK

    plan = printed(capsys)
    (planned,) = plan["ranges"]
    assert planned["offsets"] == {"start": 0, "end": 6}
    assert plan["retiring"] | {"bytes": 0} == {
        "objects": 2,
        "rows": 6,
        "bytes": 0,
        "dead_letters": 0,
    }
    stored = open_stores(side_spec(scene.group, "fix")).read(PLAN)
    assert json.loads(stored or b"") == plan


def test_a_dry_run_writes_nothing(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    assert scene.run("plan", "--output-partition", "dt=1970-*", "--dry-run") == ExitCode.OK

    assert "orders" in capsys.readouterr().out
    assert open_stores(side_spec(scene.group, "fix")).read(PLAN) is None
    assert scene.run("status") == ExitCode.USAGE


@pytest.mark.parametrize("is_scan", [False, True])
def test_objects_are_chosen_by_a_list(
    scene: Scene, capsys: pytest.CaptureFixture[str], *, is_scan: bool
) -> None:
    keys, key = scene.folder / "keys.json", f"clicks/{OLD}/1_0_{4:020}.json.gz"
    keys.write_text(json.dumps({"wrong": [{"key": key, "rows": 2}]} if is_scan else [key]))

    assert scene.run("plan", "--objects", str(keys), "--json") == ExitCode.OK

    assert [each["offsets"] for each in printed(capsys)["ranges"]] == [{"start": 4, "end": 6}]


@pytest.mark.parametrize(
    "option",
    [
        ("--generations", "7-5"),
        ("--landed-from", "yesterday"),
        ("--objects", "/none/such"),
    ],
)
def test_options_that_say_nothing_are_refused(scene: Scene, option: tuple[str, str]) -> None:
    with pytest.raises(SystemExit) as ended:
        scene.run("plan", *option)

    assert ended.value.code == ExitCode.USAGE


def test_what_is_not_landed_is_not_compared(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    scene.run("plan", "--topic", "clicks")
    capsys.readouterr()

    assert scene.run("compare") == ExitCode.USAGE
    assert "run it first" in capsys.readouterr().err
    assert scene.run("status", "--json") == ExitCode.OK
    status = printed(capsys)
    assert not status["landed"]
    assert [each["landed_to"] for each in status["ranges"]] == [0]


def test_the_comparison_shows_what_moved(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    scene.run("plan", "--topic", "clicks")
    scene.land((NEW, ROWS))
    capsys.readouterr()

    assert scene.run("compare", "--json", "--sample", "1") == ExitCode.FAULT
    found = printed(capsys)
    assert (found["same"], found["moved"]) == (False, True)
    assert (found["data"]["only_old"], found["data"]["only_new"]) == (6, 6)
    assert [each["folder"] for each in found["folders"]] == [f"clicks/{OLD}", f"clicks/{NEW}"]
    assert [each["text"] for each in found["folders"][0]["old_sample"]] == ['{"id": 0}']
    assert scene.run("compare") == ExitCode.FAULT
    assert "the same rows, some of them in other output partitions" in capsys.readouterr().out
    assert scene.run("status") == ExitCode.OK
    assert "it is landed" in capsys.readouterr().out


def test_what_is_promoted_is_not_compared_any_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = Scene(tmp_path, "Text")
    scene.run("plan", "--topic", "clicks")
    scene.land((NEW, ROWS))
    scene.live.open(2)
    by = ("--why", "INC-12", "--who", "kim")

    assert main(["promote", str(scene.path), "fix", *by]) == ExitCode.REFUSED
    assert "a driver has the lane" in capsys.readouterr().err
    assert main(["promote", str(scene.path), "fix", *by, "--take-over"]) == ExitCode.OK

    out = capsys.readouterr().out
    assert "REPLACE: 1 object of fix, instead of 2 objects; 6 rows, instead of 6" in out
    slot = int(out.partition("recorded in slot ")[2].partition(";")[0])
    assert scene.run("status") == ExitCode.OK
    assert f"it is promoted, in slot {slot}" in capsys.readouterr().out
    assert scene.run("status", "--json") == ExitCode.OK
    assert printed(capsys)["promoted_in"] == slot
    assert scene.run("compare") == ExitCode.USAGE
    assert "is promoted" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("undo", "1000"), "slot 1000 is no REPLACE"),
        (("promote", "nosuch"), "nosuch"),
    ],
)
def test_a_refused_request_is_not_called_stalled(
    tmp_path: Path, words: tuple[str, str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = Scene(tmp_path, "Text")
    verb, named = words

    code = main([verb, str(scene.path), named, "--why", "INC-12", "--take-over"])

    assert code == ExitCode.REFUSED
    assert message in capsys.readouterr().err


def test_the_same_rows_compare_well(scene: Scene) -> None:
    scene.run("plan", "--topic", "clicks")
    scene.land((OLD, ROWS))

    assert scene.run("compare") == ExitCode.OK


class MergedScene(Scene):
    """A slice has rows of two hours, and the first of them is merged by now."""

    LATER = "dt=1970-01-01/hr=01"

    def land_wrongly(self) -> None:
        self.live.land(CLICKS, (OLD, ROWS[:4])).settle()
        self.live.land(CLICKS, (OLD, ROWS[4:5]), (self.LATER, ROWS[5:])).settle()
        lane = Lane(self.live.store, self.live.group.metadata.name, LANE)
        state, found = current(lane)
        some = [each for key, each in found.items() if f"/{OLD}/" in key]
        new = merged(self.live.store, "merge", state.applied_through, some)
        plan = planned(lane.group, "merge", state.applied_through, [some], [new])
        record = plan.record(plan.stored(self.live.store, lane))
        self.live.ledger.append(lambda header: record(header=header))
        self.live.store.complete(new.landed.upload)
        self.live.settle()
        self.merged = new.landed.upload.key


def test_some_rows_of_a_merged_object_are_compared_and_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = MergedScene(tmp_path, "Text")

    assert scene.run("plan", "--output-partition", "dt=1970-01-01/hr=01") == ExitCode.OK
    out = capsys.readouterr().out
    assert "objects 2  rows 2 " in out
    assert "objects to cut 1" in out

    scene.land((NEW, ROWS[4:]), start=4)
    assert scene.run("compare", "--json", "--sample", "9") == ExitCode.FAULT
    found = printed(capsys)
    assert (found["data"]["old"]["rows"], found["data"]["new"]["rows"]) == (2, 2)
    assert found["moved"]
    (sample,) = found["folders"][0]["old_sample"]
    assert (sample["key"], sample["row"], sample["text"]) == (scene.merged, 5, "4")

    scene.live.open(2)
    by = ("--why", "INC-12", "--who", "kim", "--take-over")
    assert main(["promote", str(scene.path), "fix", *by]) == ExitCode.OK
    out = capsys.readouterr().out
    assert "1 merged object with rows of other ranges cut in two" in out
    assert "REPLACE: 1 object of fix, instead of 2 objects; 2 rows, instead of 2" in out
    cut, _ = (each.listed for each in replaces(scene)[1:])
    assert (cut.retired, cut.retired_rows, cut.objects, cut.rows) == (1, 5, 2, 5)
    found = (stat.key for stat in scene.live.store.list_after(f"clicks/{OLD}/"))
    keys = [key for key in found if f"_1_0_{4:020}" in key]
    bodies = [gzip.decompress(scene.live.store.read(key) or b"") for key in keys]
    assert bodies == [gzip.decompress(BODIES["Text"](ROWS[4:5]))]


def replaces(scene: Scene) -> list[Replace]:
    lane = Lane(scene.live.store, scene.group.metadata.name, LANE)
    records = (decode(seq, body) for seq, body in lane.bodies())
    return [record for record in records if isinstance(record, Replace)]


def test_a_name_is_used_once(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    assert scene.run("plan", "--topic", "clicks") == ExitCode.OK
    assert scene.run("plan", "--topic", "orders") == ExitCode.USAGE
    scene.land((NEW, ROWS))
    capsys.readouterr()

    assert scene.run("discard") == ExitCode.OK
    assert "1 object deleted" in capsys.readouterr().err
    for action in ("plan", "run", "status", "compare"):
        assert scene.run(action) == ExitCode.USAGE
        assert "was discarded" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("reason", "step"),
    [
        (Reason.DATA_LOSS, "landfall backfill discard GROUP.yaml fix"),
        (Reason.BAD_RECORDS, "landfall backfill discard GROUP.yaml fix"),
        (Reason.OBJECT_LOST, "landfall backfill discard GROUP.yaml fix"),
        (Reason.STORE_DENIED, "landfall backfill run GROUP.yaml fix"),
        (Reason.SOURCE_UNAVAILABLE, ""),
    ],
)
def test_a_stopped_backfill_names_no_command_about_the_live_group(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, reason: Reason, step: str
) -> None:
    scene.run("plan", "--topic", "clicks")
    of_live, shown = next_step(reason, "clicks/0"), list[StatusReport]()
    stopped = PartitionStatus(
        "clicks", 0, 0, 6, 6, 1.0, 0.0, blocked=reason.value, next_step=of_live
    )
    lands = PartitionStatus("clicks", 1, 0, 6, 6, 1.0, 0.0)

    def run_group(_: object, __: object, show: Callable[[StatusReport], None]) -> ExitCode:
        show(StatusReport(replace(STATUS, partitions=(stopped, lands))))
        return ExitCode.STALLED

    monkeypatch.setattr(run, "run_group", run_group)
    monkeypatch.setattr(backfill, "progress", lambda *_, **__: nullcontext(shown.append))

    assert scene.run("run") == ExitCode.STALLED

    assert bool(of_live) == bool(step)
    assert shown[0].status.partitions == (replace(stopped, next_step=step), lands)


def test_the_guide_shows_what_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = GuideScene(tmp_path)
    scene.run("plan", "--topic", "clicks")
    scene.land(*hours(range(180), "ts"))
    scene.run("compare", "--sample", "1")
    printed = capsys.readouterr().out

    shown = printed.replace(scene.live.url, "s3://logs/parsed").replace("side/fix", "side/fix-ts")
    guide = (ROOT / "docs/guides/backfill.md").read_text()
    for line in map(without_sizes, shown.splitlines()):
        assert line in without_sizes(guide)


def without_sizes(text: str) -> str:
    """The text without sizes, which differ between versions of gzip."""
    return re.sub(r" +[0-9.]+ k?B", " SIZE", text)


def test_a_group_without_a_ledger_has_nothing_to_land_again(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    document = yaml.safe_load(scene.path.read_text())
    document["spec"]["output"]["url"] = f"file://{tmp_path}/elsewhere"
    scene.path.write_text(yaml.safe_dump(document))

    assert scene.run("plan") == ExitCode.NOTHING
