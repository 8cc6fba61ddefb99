"""Commands about groups that land files: from a file to its objects and back, and what they say."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from landfall.api.contract import ExitCode
from landfall.cli import main
from tests.support.files.folder_feed import TOPIC, FolderFeed, rows

pytestmark = pytest.mark.slow


@pytest.fixture
def files(tmp_path: Path) -> FolderFeed:
    return FolderFeed(tmp_path)


def answer(
    files: FolderFeed, capsys: pytest.CaptureFixture[str], *arguments: str
) -> dict[str, Any]:
    capsys.readouterr()
    files.cli(*arguments, "--json")
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_from_a_row_of_a_file_to_its_object_and_back(
    files: FolderFeed, capsys: pytest.CaptureFixture[str]
) -> None:
    files.put("a.json", rows(range(10)))
    files.put("b:7.json", rows(range(10, 20)))
    output = {"url": f"file://{files.root}/out", "format": "SequenceFile"}
    files.land({"output": output}, orderedNames=True)
    (landed,) = files.objects()

    found = answer(files, capsys, "locate", TOPIC, "b:7.json:3")

    etag = files.etag("b:7.json")
    assert found["fate"] == "landed"
    (held,) = found["objects"]
    assert (held["url"], held["row"], held["rows"]) == (f"file://{landed}", 13, 20)
    assert f"{TOPIC}/0 offset 1000000002 (row 3 of b:7.json, ETag {etag})" in found["message"]
    assert found == answer(files, capsys, "locate", TOPIC, "0", "1000000002")


def test_a_row_of_a_file_that_was_cut(
    files: FolderFeed, capsys: pytest.CaptureFixture[str]
) -> None:
    long = b"".join(b'{"id":%d,"p":"%s"}\n' % (n, b"x" * 1000) for n in range(3_000))
    files.put("long.json", long)
    files.land(partBytes="1Mi")

    found = answer(files, capsys, "locate", TOPIC, "long.json:2500")

    parts = answer(files, capsys, "locate", TOPIC, "long.json")["parts"]
    assert [(p["number"], p["fate"]) for p in parts] == [(n, "landed") for n in range(3)]
    last = parts[2]
    row = 2_500 - long[: last["start"]].count(b"\n") - 1  # one line is in both
    of = f"row {row} of bytes {last['start']} to {last['end']} of long.json"
    assert of in found["message"]


def test_what_became_of_each_part_of_a_file_that_cannot_be_read(
    files: FolderFeed, capsys: pytest.CaptureFixture[str]
) -> None:
    files.put("b.json.gz", gzip.compress(rows(range(100)))[:-12])
    for _ in range(2):
        assert files.land() is ExitCode.STALLED

    parts = answer(files, capsys, "locate", TOPIC, "b.json.gz")["parts"]

    assert [(p["number"], p["fate"]) for p in parts] == [(0, "tried-again"), (1, "parked")]
    assert "damaged" in parts[1]["message"]


def test_a_row_is_of_the_last_version_of_a_file_that_is_there_as_before(
    files: FolderFeed, capsys: pytest.CaptureFixture[str]
) -> None:
    first = files.put("a.json", rows(range(3)))
    files.land(onChange="LandAgain")
    kept = first.rename(files.root / "kept")
    files.put("a.json", rows(range(3, 8)))
    files.land(onChange="LandAgain")
    kept.rename(first)
    files.land(onChange="LandAgain")

    found = answer(files, capsys, "locate", TOPIC, "a.json:2")
    assert "offset 2000000001 (row 2 of a.json" in found["message"]
    assert answer(files, capsys, "locate", TOPIC, "a.json:5")["fate"] == "no-record"


def test_a_version_that_was_left_out_is_not_called_landed(
    files: FolderFeed, capsys: pytest.CaptureFixture[str]
) -> None:
    files.put("a.json", rows(range(3)))
    files.land(onChange="Park")
    files.put("a.json", rows(range(3, 8)))
    ignore = ["files", "ignore", str(files.file), TOPIC, "a.json", "--why", "a test"]
    assert main(ignore) == ExitCode.OK
    files.land(onChange="Park")

    parts = answer(files, capsys, "locate", TOPIC, "a.json")["parts"]
    assert [(p["number"], p["fate"]) for p in parts] == [(0, "landed"), (1, "given-up")]
    assert parts[1]["message"] == "was left out by a decision"


def test_a_file_without_a_number_is_named(
    files: FolderFeed, capsys: pytest.CaptureFixture[str]
) -> None:
    files.put("a.json", rows(range(10)))
    files.land()

    assert answer(files, capsys, "locate", TOPIC, "z.json")["fate"] == "unknown"
    assert files.cli("locate", TOPIC, "a.json", "7") == ExitCode.USAGE
    assert "PARTITION must be a number" in capsys.readouterr().err


def test_rows_of_files_are_tried(files: FolderFeed, capsys: pytest.CaptureFixture[str]) -> None:
    files.group()
    files.put("a.json.gz", b"damaged")
    files.put("b.json", b'{"id":1}\n{bad\n{"id":3}\n')
    files.put("c.json", rows(range(10)))

    assert files.cli("try", "--limit", "4", "--json") == ExitCode.OK

    said = capsys.readouterr()
    tried = [json.loads(line) for line in said.out.splitlines()]
    assert [(t["offset"], t["value"], t["fate"]) for t in tried] == [
        (1_000_000_000, '{"id":1}', "Lands"),
        (1_000_000_001, "{bad", "DeadLetter"),
        (1_000_000_002, '{"id":3}', "Lands"),
        (2_000_000_000, '{"id":0}', "Lands"),
    ]
    assert "a.json.gz: at 0" in said.err
    assert files.cli("try", "--only", "c.json", "--limit", "1") == ExitCode.OK
    assert files.cli("try", "--only", "z.json") == ExitCode.USAGE
    assert files.cli("try", "--offset", "7") == ExitCode.USAGE


def test_what_landed_of_files_is_verified_and_not_with_kafka(
    files: FolderFeed, capsys: pytest.CaptureFixture[str]
) -> None:
    files.put("a.json", rows(range(10)))
    files.land()

    assert files.cli("verify") == ExitCode.OK
    assert files.cli("verify", "--kafka") == ExitCode.USAGE
    assert "landfall audit compares what landed with them" in capsys.readouterr().err


def test_status_counts_no_offsets_without_a_row(
    files: FolderFeed, capsys: pytest.CaptureFixture[str]
) -> None:
    files.put("a.json", rows(range(10)))
    files.land()
    capsys.readouterr()

    files.cli("status")

    said = capsys.readouterr().out
    assert "10 records" in said
    assert "invisible" not in said
