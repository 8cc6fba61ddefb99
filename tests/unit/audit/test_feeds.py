"""The audit of feeds: rows of files against what landed of them, without the writer's code."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from landfall.api.contract import ExitCode
from landfall.cli import main
from tests.support.files.folder_feed import TOPIC, FolderFeed, rows
from tests.support.payloads.file_records import PACKAGE, SequenceFileOf, text

pytestmark = pytest.mark.slow
CLASSES = (f"{PACKAGE}NullWritable", f"{PACKAGE}Text")


@pytest.fixture
def files(tmp_path: Path) -> FolderFeed:
    return FolderFeed(tmp_path)


def audited(files: FolderFeed, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What ``audit --json`` says."""
    capsys.readouterr()
    files.cli("audit", "--json")
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_each_row_of_each_kind_of_file_is_compared(
    files: FolderFeed, capsys: pytest.CaptureFixture[str]
) -> None:
    long = b"".join(b'{"id":%d,"p":"%s"}\n' % (n, b"x" * 990) for n in range(100, 3_100))
    files.put("a.json", b"\xef\xbb\xbf" + rows(range(50)) + b"\n  \r\n" + rows(range(50, 100)))
    files.put("b/long.json", long[:-1])
    files.put("c.json.gz", gzip.compress(rows(range(3_100, 3_200))))
    files.put("empty.json", b"")
    assert files.land(partBytes="1Mi") is ExitCode.OK

    found = audited(files, capsys)

    assert (found["whole"], found["expected"], found["found"]) == (True, 3_200, 3_200)
    assert (found["unchecked"], found["faults"]) == (0, [])
    assert found["feeds"] == [{"topic": TOPIC, "parked": 0, "pending": 0, "changed": 0}]


def test_a_row_that_differs_is_missing_or_is_twice_is_a_fault(
    files: FolderFeed, capsys: pytest.CaptureFixture[str]
) -> None:
    files.put("a.json", rows(range(10)))
    files.land()
    (landed,) = files.objects()
    landed.write_bytes(gzip.compress(rows([0, 0, 2, 3, 4, 5, 6, 7, 800])))

    found = audited(files, capsys)

    counted = {name: found[name] for name in ("missing", "duplicate", "corrupted", "foreign")}
    assert not found["whole"]
    assert counted == {"missing": 2, "duplicate": 1, "corrupted": 1, "foreign": 0}


def test_what_a_transform_leaves_out_and_dead_letters_are_accounted_for(
    files: FolderFeed, capsys: pytest.CaptureFixture[str]
) -> None:
    files.put("a.json", rows(range(10)) + b"{bad\n" + rows(range(10, 20)))
    drop = {"use": "Filter", "options": {"where": "id != 3"}}
    assert files.land({"transforms": [drop], "badRecords": {"maxRatio": "1"}}) is ExitCode.OK

    found = audited(files, capsys)

    assert (found["whole"], found["expected"], found["found"]) == (True, 20, 20)


def test_what_is_not_landed_is_no_fault_and_is_reported(
    files: FolderFeed, capsys: pytest.CaptureFixture[str]
) -> None:
    files.put("a.json", rows(range(10)))
    files.put("b.json.gz", gzip.compress(rows(range(100)))[:-12])
    assert files.land() is ExitCode.STALLED
    files.put("c.json", rows(range(20, 30)))

    found = audited(files, capsys)

    assert (found["whole"], found["unchecked"]) == (True, 0)
    assert found["feeds"] == [{"topic": TOPIC, "parked": 1, "pending": 1, "changed": 0}]


def test_rows_before_the_damage_are_compared(
    files: FolderFeed, capsys: pytest.CaptureFixture[str]
) -> None:
    entries = [(b"", text(b'{"id":%d}' % n)) for n in range(10)]
    files.put("part-0", SequenceFileOf("None", 4, CLASSES).of(entries)[:-3])
    assert files.land(reader="SequenceFile") is ExitCode.STALLED

    found = audited(files, capsys)

    assert (found["whole"], found["unchecked"]) == (True, 0)
    assert (found["expected"], found["found"]) == (9, 9)


def test_rows_of_a_version_that_is_gone_cannot_be_compared(
    files: FolderFeed, capsys: pytest.CaptureFixture[str]
) -> None:
    files.put("a.json", rows(range(10)))
    files.land()
    files.put("a.json", rows(range(5)))

    found = audited(files, capsys)

    assert (found["faults"], found["missing"], found["unchecked"]) == ([], 0, 10)
    (partition,) = found["partitions"]
    assert partition["unchecked"] == {"their file is gone, or has another version": 10}
    assert found["feeds"] == [{"topic": TOPIC, "parked": 0, "pending": 0, "changed": 1}]


@pytest.mark.parametrize("damage", ["missing", "changed"])
def test_a_list_that_is_not_as_it_was_is_a_fault(
    files: FolderFeed, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    files.put("a.json", rows(range(10)))
    files.land()
    (listed,) = (files.root / f"out/_landfall/scene/0-files/{TOPIC}").glob("*.json.gz")
    if damage == "missing":
        listed.unlink()
    else:
        listed.write_bytes(gzip.compress(b"{}\n"))

    found = audited(files, capsys)

    assert [fault["kind"] for fault in found["faults"]] == ["missing or wrong list of files"]


def test_what_somebody_has_left_out_is_no_fault(
    files: FolderFeed, capsys: pytest.CaptureFixture[str]
) -> None:
    files.put("a.json", rows(range(10)))
    assert files.land() is ExitCode.OK
    files.put("a.json", rows(range(5)))
    assert main(["files", "ignore", str(files.file), TOPIC, "a.json", "--why", "a test"]) == 0
    files.put("b.json", rows(range(10, 20)))
    assert files.land() is ExitCode.OK

    found = audited(files, capsys)

    assert found["faults"] == []
    assert found["feeds"] == [{"topic": TOPIC, "parked": 0, "pending": 0, "changed": 0}]


def test_what_was_given_up_and_landed_after_all_is_no_fault(
    files: FolderFeed, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = files.put("b.json", b"")
    broken.write_bytes(rows(range(10)))
    assert files.land(maxAttempts=1) is ExitCode.OK
    files.put("a.json.gz", gzip.compress(rows(range(100)))[:-12])
    assert files.land(maxAttempts=1) is ExitCode.STALLED
    assert main(["files", "ignore", str(files.file), TOPIC, "a.json.gz", "--why", "a test"]) == 0
    assert main(["files", "retry", str(files.file), TOPIC, "a.json.gz"]) == 0
    assert files.land(maxAttempts=1) is ExitCode.STALLED

    found = audited(files, capsys)

    assert found["faults"] == []
    assert found["feeds"] == [{"topic": TOPIC, "parked": 1, "pending": 0, "changed": 0}]
