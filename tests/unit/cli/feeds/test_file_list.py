"""``landfall files ls``: how many rows and dead letters each file gave."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from landfall.api.contract import ExitCode
from landfall.cli import main
from landfall.ledger.task_results import PartRows
from landfall.task.part_counts import PartCounts
from tests.support.files.folder_feed import FolderFeed, rows

pytestmark = pytest.mark.slow


@pytest.fixture
def files(tmp_path: Path) -> FolderFeed:
    return FolderFeed(tmp_path)


def listed(files: FolderFeed, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["files", "ls", str(files.file), "--json"]) == ExitCode.OK
    found = map(json.loads, capsys.readouterr().out.splitlines())
    return {f["name"]: (f["landed"], f["dead_letters"]) for f in found}


def test_files_that_share_an_object_have_rows_of_their_own(
    files: FolderFeed, capsys: pytest.CaptureFixture[str]
) -> None:
    files.put("a.json", rows(range(10)))
    files.put("b.json", b'{"id":1}\n{bad\n{"id":3}\n[]\n')
    files.put("c.json", b"")
    files.land()

    assert len(files.objects()) == 1
    assert listed(files, capsys) == {"a.json": (10, 0), "b.json": (2, 2), "c.json": (0, 0)}


def test_the_line_about_all_files_counts_rows_and_dead_letters(
    files: FolderFeed, capsys: pytest.CaptureFixture[str]
) -> None:
    files.put("a.json", rows(range(1_200)))
    files.put("b.json", b"{bad\n{bad\n")
    files.land({"badRecords": {"maxRatio": "1"}})
    capsys.readouterr()

    assert main(["files", "ls", str(files.file)]) == ExitCode.OK

    _, a, b, last = capsys.readouterr().out.splitlines()
    assert re.split(" {2,}", a)[2:4] == ["1,200", "0"]
    assert re.split(" {2,}", b)[2:4] == ["0", "2"]
    assert last.startswith("hits: 2 files, ")
    assert ", 1,200 rows, 2 dead letters: Success 2 " in last


def test_a_file_that_does_not_count_is_not_pending(
    files: FolderFeed, capsys: pytest.CaptureFixture[str]
) -> None:
    files.put("a.json", rows(range(10)))
    files.put("b.tmp", rows(range(10)))
    files.land(exclude=r".*\.tmp")
    capsys.readouterr()

    command = ["files", "ls", str(files.file), "hits", "b.tmp", "--look"]
    assert main(command) == ExitCode.NOTHING

    assert "the feed hits leaves out b.tmp, by include and exclude" in capsys.readouterr().err


def test_rows_of_a_file_in_many_slices_are_added_up(
    files: FolderFeed, capsys: pytest.CaptureFixture[str]
) -> None:
    long = b"".join(b'{"id":%d,"p":"%s"}\n' % (n, b"x" * 1000) for n in range(3_000))
    files.put("a.json", rows(range(7)))
    files.put("long.json", long)
    drop = {"use": "Filter", "options": {"where": "id != 3"}}
    files.land({"transforms": [drop]}, partBytes="1Mi")

    assert listed(files, capsys) == {"a.json": (6, 0), "long.json": (2_999, 0)}


def test_dead_letters_that_were_replayed_are_rows(
    files: FolderFeed, capsys: pytest.CaptureFixture[str]
) -> None:
    many_bad = {"badRecords": {"maxRatio": "1"}}
    files.put("a.json", rows(range(3)) + b'{"id":"x"}\n{"id":4}\n{bad\n')
    files.put("b.json", b'{"id":"y"}\n')
    columns = {"format": "Json", "columns": [{"name": "id", "type": "Int64"}]}
    files.land({**many_bad, "decode": columns})
    assert listed(files, capsys) == {"a.json": (4, 2), "b.json": (0, 1)}
    files.group({**many_bad, "generation": 2})

    assert files.cli("replay-dead-letters", "hits", "--why", "mended") == ExitCode.OK

    assert listed(files, capsys) == {"a.json": (5, 1), "b.json": (1, 0)}
    assert files.cli("fsck", "--deep") == ExitCode.OK
    assert files.cli("verify") == ExitCode.OK
    assert files.cli("audit") == ExitCode.OK


def test_what_a_former_release_has_landed_is_unknown(
    files: FolderFeed, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    files.put("a.json", rows(range(10)))
    with monkeypatch.context() as former:
        former.setattr("landfall.task.landing._SliceLanding._is_feed", False)
        files.land()
    files.put("b.json", rows(range(10, 14)))
    files.land()

    assert listed(files, capsys) == {"a.json": (None, None), "b.json": (4, 0)}
    assert main(["files", "ls", str(files.file)]) == ExitCode.OK
    _, a, _, last = capsys.readouterr().out.splitlines()
    assert re.split(" {2,}", a)[2:4] == ["unknown", "unknown"]
    assert "4 rows, 0 dead letters (without 1 file of unknown rows)" in last
    assert files.cli("audit") == ExitCode.OK


def test_rows_that_are_counted_for_another_file_are_a_fault(
    files: FolderFeed, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    files.put("a.json", rows(range(10)))
    files.put("b.json", rows(range(10, 14)))
    swapped = (PartRows(0, 4, 0, 0), PartRows(1, 10, 0, 0))
    monkeypatch.setattr(PartCounts, "parts", lambda _: swapped)
    output = {"url": f"file://{files.root}/out", "format": "SequenceFile"}
    files.land({"output": output})

    assert files.cli("verify", "--json") == ExitCode.FAULT
    assert "counts 4 rows of part 0, 10 are in data objects" in capsys.readouterr().out
    assert files.cli("audit", "--json") == ExitCode.FAULT
    said = capsys.readouterr().out
    assert "counts 4 records of part 0, found 10 in its file" in said
    assert "counts 4 landed rows of part 0, found 10 in its objects" in said
