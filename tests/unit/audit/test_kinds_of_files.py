"""The audit of each kind of file: what is wrong in what landed is found, and named by its row."""

import gzip
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from landfall.api.contract import ExitCode
from landfall.cli import main
from landfall.formats.readers import reader_of
from tests.support.files.folder_feed import TOPIC, FolderFeed
from tests.support.payloads.file_records import (
    MemoryFile,
    SequenceFileOf,
    avro_file,
    bytes_writable,
    read_parts,
    text,
)

pytestmark = pytest.mark.slow
Rows = list[dict[str, Any]]
ROWS: Rows = [{"id": n, "note": None if n % 7 == 0 else f'{n},"' + "x" * 990} for n in range(2_500)]
SCHEMA = {
    "type": "record",
    "name": "Hit",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]}],
}


def csv_file(rows: Rows) -> bytes:
    quoted = (str(row["note"] or "").replace('"', '""') for row in rows)
    lines = (f'{row["id"]},"{note}"\r\n' for row, note in zip(rows, quoted, strict=True))
    return "".join(["id,note\r\n", *lines]).encode()


def sequence_file(rows: Rows) -> bytes:
    entries = [(bytes_writable(b"k"), text(json.dumps(row))) for row in rows]
    return SequenceFileOf("None", 5).of(entries)


def parquet_file(rows: Rows) -> bytes:
    sink = io.BytesIO()
    table = pa.Table.from_pylist(rows)
    pq.write_table(table, sink, row_group_size=100, compression="none", use_dictionary=False)
    return sink.getvalue()


FILES: Mapping[str, Callable[[Rows], bytes]] = {
    "Csv": csv_file,
    "Avro": lambda rows: avro_file(SCHEMA, rows, 20_000),
    "SequenceFile": sequence_file,
    "Parquet": parquet_file,
}


def audited(files: FolderFeed, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What ``audit --json`` says."""
    capsys.readouterr()
    main(["audit", str(files.file), "--json"])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def place_of(reader: str, content: bytes, row_id: int) -> str:
    """How the audit names a row of the one file, in parts of 1 MiB."""
    made, file = reader_of(reader, {}), MemoryFile("a", content)
    parts = made.parts("a", len(content), 2**20)
    assert len(parts) > 1, "nothing is cut"
    for number, part in enumerate(parts):
        for row, (_, value, _, _) in enumerate(read_parts(made, file, [part])):
            if int(json.loads(value or b"")["id"]) == row_id:
                return f"{TOPIC}: a, part {number}, row {row}"
    raise AssertionError(f"no row has {row_id}")


def changed(files: FolderFeed, row_id: int, change: Callable[[bytes], Sequence[bytes]]) -> Path:
    """Replace the row of an object that has this number, and return the object."""
    for path in files.objects():
        lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
        at = [int(json.loads(line)["id"]) for line in lines]
        if row_id in at:
            lines[at.index(row_id) : at.index(row_id) + 1] = change(lines[at.index(row_id)])
            path.write_bytes(gzip.compress(b"".join(lines)))
            return path
    raise AssertionError(f"no object has {row_id}")


MUTANTS: Mapping[str, Callable[[bytes], Sequence[bytes]]] = {
    "missing": lambda _: (),
    "duplicate": lambda line: (line, line),
    "corrupted": lambda line: (line.replace(b"}", b" }"),),
}


@pytest.mark.parametrize("reader", FILES)
def test_a_row_that_is_lost_doubled_or_changed_is_named(
    reader: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files, content = FolderFeed(tmp_path), FILES[reader](ROWS)
    files.put("a", content)
    assert files.land(reader=reader, partBytes="1Mi") is ExitCode.OK
    good = audited(files, capsys)
    row_id = len(ROWS) * 2 // 3
    place = place_of(reader, content, row_id)

    assert (good["whole"], good["found"], good["unchecked"]) == (True, len(ROWS), 0)
    for wrong, change in MUTANTS.items():
        before = {path: path.read_bytes() for path in files.objects()}
        path = changed(files, row_id, change)
        found = audited(files, capsys)
        path.write_bytes(before[path])
        assert (found["whole"], found[wrong]) == (False, 1)
        assert [(fault["kind"], fault["what"], fault["message"]) for fault in found["faults"]] == [
            ("wrong row", place, wrong)
        ]
