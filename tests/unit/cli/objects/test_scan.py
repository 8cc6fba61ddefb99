"""``landfall scan`` names landed objects that are wrong by today's spec."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from landfall.api.contract import ExitCode
from landfall.cli import main
from landfall.ledger.entries import Entry
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.records import Add
from landfall.store.file import FileStore
from tests.support.driver.slice_landing import TP, click
from tests.support.ledger.landed_group import SEQUENCE_FILES, Backup, merge_of

ROWS = [click(o, hour=o // 50) for o in range(100)]
SECOND = TopicPartition("clicks", 4)
JSON: dict[str, Any] = {"format": "Json", "codec": "None"}


class Scene:
    """A group in a folder: ``clicks/3`` in two hours, committed at 05:00."""

    def __init__(self, root: Path, output: dict[str, Any] = JSON, **spec: Any) -> None:
        self.root, self.file = root, root.parent / "group.yaml"
        place = {"url": f"file://{root}"}
        log = {TP: ROWS, SECOND: ROWS}
        self.landed = Backup(log, {**output, **place}, spec, FileStore(root))
        self.landed.land(0, 40, 100).settle()
        self.write()

    def write(self, **spec: Any) -> None:
        """Write the group's file, with other sections of the spec if any are given."""
        document = self.landed.group.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        document |= {"apiVersion": "landfall.dev/v1alpha1", "kind": "ConsumerGroup"}
        document["spec"] |= spec
        self.file.write_text(yaml.safe_dump(document))

    def object(self, start: int, hour: int = 0) -> Path:
        return next(self.root.glob(f"clicks/*/hr=0{hour}/1_3_{start:020d}.*"))

    def scan(self, *arguments: str) -> int:
        return main(["scan", str(self.file), "--topic", "clicks", *arguments])


def test_nothing_is_wrong_with_what_was_landed_by_the_same_spec(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = Scene(tmp_path / "root")

    assert scene.scan() == ExitCode.OK
    assert capsys.readouterr().out == "scanned 3 objects with 100 rows: nothing is wrong\n"


def test_what_is_visible_is_scanned_and_what_is_not_is_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = Scene(tmp_path / "root")
    scene.landed.land(0, 30, tp=SECOND)

    assert scene.scan() == ExitCode.OK
    assert capsys.readouterr().out == "scanned 4 objects with 130 rows: nothing is wrong\n"
    scene.landed.land(30, 50, tp=SECOND, complete=False)
    assert scene.scan() == ExitCode.OK
    assert capsys.readouterr().out == (
        "scanned 4 objects with 130 rows; 20 rows are committed and not visible yet: nothing is "
        "wrong\n"
    )


@pytest.mark.parametrize("output", [JSON, SEQUENCE_FILES])
def test_objects_with_rows_of_another_hour_are_named(
    output: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = Scene(tmp_path / "root", output)
    scene.write(route={"pattern": "dt={date}/hr={hour}", "timezone": "Europe/Berlin"})

    assert scene.scan("--output-partition", "dt=2025-11-21/hr=01") == ExitCode.FAULT

    name = scene.object(40, hour=1).name
    assert capsys.readouterr().out == (
        f"clicks/dt=2025-11-21/hr=01/{name}  slot 3  50 of 50 rows, the first is clicks/3 "
        "offset 50: it lands in clicks/dt=2025-11-21/hr=02 today\n"
        "scanned 1 object with 50 rows: 1 object with 50 wrong\n"
    )


def test_rows_that_would_be_dead_letters_or_left_out_today_are_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = Scene(tmp_path / "root")
    scene.write(transforms=[{"use": "Filter", "options": {"drop": "n == 41 or n == 45"}}])
    assert scene.scan() == ExitCode.FAULT
    assert (
        "2 of 10 rows, the first is clicks/3 offset 41: it is left out by a transform today"
        in capsys.readouterr().out
    )

    scene.write(decode={"format": "Json", "timestamp": {"field": "time"}})
    assert scene.scan("--json") == ExitCode.FAULT
    found = json.loads(capsys.readouterr().out)
    assert found["scanned"] == {"objects": 3, "rows": 100, "onlyParsed": 0}
    assert [each["wrong"]["rows"] for each in found["wrong"]] == [40, 10, 50]
    assert found["wrong"][1]["ranges"] == [{"partition": 3, "from": 40, "until": 100}]
    assert "is a dead letter today: route: " in found["wrong"][0]["wrong"]["why"]


def test_what_cannot_be_read_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scene = Scene(tmp_path / "root", SEQUENCE_FILES)
    first, second, third = scene.object(0), scene.object(40), scene.object(40, hour=1)
    first.write_bytes(first.read_bytes()[:-9])
    second.write_bytes(third.read_bytes())
    third.unlink()

    assert scene.scan() == ExitCode.FAULT

    out = capsys.readouterr().out
    assert f"{first.name}  slot 2  cannot be read: damaged SequenceFile" in out
    assert f"{second.name}  slot 3  has 50 rows, but the ledger records 10" in out
    assert f"{third.name}  slot 3  is not there" in out


def test_times_are_those_of_commits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scene = Scene(tmp_path / "root")  # whose COMMITs were written on 2026-11-21 at 05:00 UTC

    assert scene.scan("--from", "2026-11-21T05:00Z", "--until", "2026-11-21T05:01") == ExitCode.OK
    assert scene.scan("--until", "2026-11-21T06:00+01:00") == ExitCode.NOTHING
    assert scene.scan("--from", "2026-11-21T05:00:01Z") == ExitCode.NOTHING
    assert "nothing was scanned: no object is in scope" in capsys.readouterr().out


def test_rows_that_are_no_payloads_are_only_parsed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    decode = {
        "format": "Json",
        "timestamp": {"field": "ts"},
        "columns": [{"name": "n", "type": "Int64"}],
    }
    scene = Scene(tmp_path / "root", {"format": "Parquet"}, decode=decode)

    assert scene.scan() == ExitCode.OK
    assert "3 objects only parsed" in capsys.readouterr().out


def test_a_topic_that_the_group_never_had_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = Scene(tmp_path / "root")

    assert main(["scan", str(scene.file), "--topic", "views"]) == ExitCode.NOTHING
    assert "views" in capsys.readouterr().err


@pytest.mark.parametrize("output", [JSON, {"format": "Parquet"}, SEQUENCE_FILES])
def test_rows_are_compared_with_what_today_makes_of_the_backup(
    output: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bad code has changed a value that its rows still hold, and typed columns do not."""
    columns = [{"name": "n", "type": "Int64"}] if output["format"] == "Parquet" else []
    decode = {"format": "Json", "timestamp": {"field": "ts"}, "columns": columns}
    (tmp_path / "backup").mkdir()
    backup = Scene(tmp_path / "backup/root", SEQUENCE_FILES)
    scene = Scene(tmp_path / "root", output, decode=decode)
    assert scene.scan("--backup", str(backup.file)) == ExitCode.OK
    assert "scanned 3 objects with 100 rows: nothing is wrong\n" in capsys.readouterr().out

    wrong = Backup(
        {TP: [(o, v.replace(b'"n":7', b'"n":8')) for o, v in ROWS]},
        {**output, "url": "file:///nowhere"},
        {"decode": decode},
    )
    wrong.land(0, 40, 100).settle()
    for stat in wrong.store.list_after("clicks/"):
        scene.landed.store.overwrite(stat.key, wrong.store.read(stat.key) or b"")

    assert scene.scan() == ExitCode.OK
    assert scene.scan("--backup", str(backup.file)) == ExitCode.FAULT
    out = capsys.readouterr().out
    first, later = scene.object(0).name, scene.object(40, hour=1).name
    why = "is not what today's decoder makes of the payload in the backup"
    assert f"{first}  slot 2  1 of 40 rows, the first is clicks/3 offset 7: it {why}\n" in out
    assert f"{later}  slot 3  10 of 50 rows, the first is clicks/3 offset 70: it {why}\n" in out


def test_what_the_backup_does_not_hold_is_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "backup").mkdir()
    backup = Scene(tmp_path / "backup/root", SEQUENCE_FILES)
    backup.object(40).unlink()
    scene = Scene(tmp_path / "root")

    assert scene.scan("--backup", str(backup.file)) == ExitCode.OK
    assert "clicks/3[40, 100) is not compared: clicks/dt=2025-11-21/" in capsys.readouterr().err


def test_objects_of_a_former_topic_are_not_compared_with_the_one_that_was_created_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "backup").mkdir()
    backup, scene = Scene(tmp_path / "backup/root", SEQUENCE_FILES), Scene(tmp_path / "root")
    again = [(o, click(99 - o, hour=o // 50)[1]) for o in range(100)]
    for group in (backup, scene):
        sample = group.landed.sample
        sample.drop(TP)
        group.landed.open(generation=2).log[TP] = again
        entries = (Entry(TP, "new", 0),)
        sample.append(lambda h, entries=entries: Add(header=h, entries=entries))
        group.landed.land(0, 40, 100).settle()

    assert scene.scan("--backup", str(backup.file)) == ExitCode.OK

    shown = capsys.readouterr()
    assert "scanned 6 objects with 200 rows: nothing is wrong" in shown.out
    assert "clicks/3[0, 40) is not compared: clicks/3: shop has landed another" in shown.err
    assert "its id is new, not id" in shown.err.replace("\n", " ")


def test_what_was_given_up_is_not_scanned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = Scene(tmp_path / "root", SEQUENCE_FILES, route={"pattern": "dt={date}"})
    lost = merge_of(scene.landed).record()
    merge = merge_of(scene.landed, read_through=lost.slot).record(instead=lost.slot).complete()
    for each in merge.retire:
        (scene.root / each.landed.upload.key).unlink()
    scene.landed.settle()

    assert scene.scan() == ExitCode.OK
    assert capsys.readouterr().out == "scanned 1 object with 100 rows: nothing is wrong\n"


def test_a_merged_object_is_read_by_the_spec_that_landed_its_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = Scene(tmp_path / "root", SEQUENCE_FILES, route={"pattern": "dt={date}"})
    merge = merge_of(scene.landed)
    scene.landed.open(output={**JSON, "url": f"file://{scene.root}"})
    merge.record().complete()
    for each in merge.retire:
        (scene.root / each.landed.upload.key).unlink()
    scene.landed.settle()
    scene.write()

    assert scene.scan() == ExitCode.OK
    assert capsys.readouterr().out == "scanned 1 object with 100 rows: nothing is wrong\n"


def test_rows_count_from_one_as_in_cat_and_locate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """JSON stores no offsets, so a row of a merged object has only its number."""
    scene = Scene(tmp_path / "root", route={"pattern": "dt={date}"})
    merge = merge_of(scene.landed).record().complete()
    for each in merge.retire:
        (scene.root / each.landed.upload.key).unlink()
    scene.landed.settle()
    scene.write(route={"pattern": "day={date}"})

    codes = scene.scan(), scene.scan("--json")

    text, document = capsys.readouterr().out.split("\n{", 1)
    (found,) = json.loads("{" + document)["wrong"]
    assert codes == (ExitCode.FAULT, ExitCode.FAULT)
    assert "100 of 100 rows, the first is row 1: it " in text
    assert found["wrong"]["row"] == 1


def test_an_object_is_scanned_in_the_place_of_those_that_have_retired(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = Scene(tmp_path / "root", SEQUENCE_FILES, route={"pattern": "dt={date}"})
    merge = merge_of(scene.landed).record().complete()
    for each in merge.retire:
        (scene.root / each.landed.upload.key).unlink()
    scene.landed.settle()
    assert scene.scan() == ExitCode.OK
    assert capsys.readouterr().out == "scanned 1 object with 100 rows: nothing is wrong\n"

    scene.write(route={"pattern": "day={date}"})
    assert scene.scan("--json") == ExitCode.FAULT

    (found,) = json.loads(capsys.readouterr().out)["wrong"]
    assert found["key"] == merge.new.landed.upload.key
    assert found["ranges"] == [{"partition": 3, "from": 0, "until": 100}]
    assert found["wrong"]["rows"] == 100
