"""Small files that unpack to gigabytes: damaged like any other, for each reader of columns."""

import io
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

import landfall_audit.memory_limit
from landfall import memory_limit
from landfall.cli.objects.read_back import dead_letters
from landfall.formats.avro import landed as avroreader
from landfall.formats.orc import OrcFormat
from landfall.formats.parquet import ParquetFormat
from landfall.formats.parquet.parts import ParquetReader
from landfall.formats.parts import FilePart, UnreadableFileError
from landfall.landed.rows import of_parquet
from landfall.memory_limit import bounded, steps
from landfall_audit.objects.rows import _columns as audited
from tests.support.payloads.column_bombs import dictionary_bomb
from tests.support.payloads.file_records import MemoryFile
from tests.unit.task.test_dead_letters import GOOD
from tests.unit.task.test_dead_letters import dead_letters as dead_letters_at

TOO_MUCH = "needs more than 64 MiB of memory to be unpacked"
MUCH = 4 << 30


@pytest.fixture(autouse=True)
def limit(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A small limit, of which nothing is left afterwards."""
    monkeypatch.setattr(memory_limit, "step_bytes", lambda: 64 << 20)
    before = resource.getrlimit(resource.RLIMIT_DATA)
    yield
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


def parquet_file() -> bytes:
    sink = io.BytesIO()
    nothing = pa.array([None], pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()})))
    columns = {"offset": [1], "timestamp": pa.array([0], pa.timestamp("ms")), "headers": nothing}
    rows = {**columns, "key": pa.array([b"k"]), "value": pa.array([b"{}"])}
    pq.write_table(pa.table(rows), sink)
    return sink.getvalue()


def orc_file() -> bytes:
    sink = io.BytesIO()
    orc.write_table(pa.table({"value": [1]}), sink)
    return sink.getvalue()


def avro_file(value: bytes = b"x", codec: str = "null") -> bytes:
    sink = io.BytesIO()
    schema = fastavro.parse_schema({"type": "bytes"})
    fastavro.writer(sink, schema, [value], codec=codec)
    return sink.getvalue()


def of_feeds(body: bytes) -> object:
    file = MemoryFile("in/x.parquet", body)
    return [*ParquetReader().read(file, FilePart(0, file.size))]


def of_merges(format_: ParquetFormat | OrcFormat, body: bytes) -> object:
    with format_.opened(io.BytesIO(body)) as file:
        return [*file.batches]


def of_the_audit(body: bytes) -> object:
    return [*audited(io.BytesIO(body), ["offset"])]


PARQUET, ORC = ParquetFormat.of({}), OrcFormat.of({})
READERS: dict[str, Callable[[], object]] = {
    "feeds": lambda: of_feeds(parquet_file()),
    "Parquet": lambda: [*PARQUET.rows(io.BytesIO(parquet_file()))],
    "Parquet, merged": lambda: of_merges(PARQUET, parquet_file()),
    "ORC": lambda: [*ORC.rows(io.BytesIO(orc_file()))],
    "ORC, merged": lambda: of_merges(ORC, orc_file()),
    "Avro": lambda: [*avroreader.rows(io.BytesIO(avro_file()))],
    "Avro, columns": lambda: [*avroreader.batches(io.BytesIO(avro_file()))],
    "records of other groups": lambda: [*of_parquet(io.BytesIO(parquet_file()), is_sorted=False)],
    "sorted ones": lambda: [*of_parquet(io.BytesIO(parquet_file()), is_sorted=True)],
    "dead letters": lambda: [*dead_letters(io.BytesIO(dead_letters_at([GOOD])))],
    "audit": lambda: of_the_audit(parquet_file()),
}


@pytest.mark.parametrize("reader", READERS)
def test_each_reader_is_bounded(reader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is opened in one step, and its only batch is read in another."""
    entered: list[None] = []

    def count(enter: Callable[[], None]) -> None:
        entered.append(None)
        enter()

    for module in (memory_limit, landfall_audit.memory_limit):
        monkeypatch.setattr(module, "_enter", partial(count, module._enter))

    assert READERS[reader]()
    assert len(entered) >= 2


@pytest.mark.slow
def test_a_value_that_is_in_each_row() -> None:
    with pytest.raises(UnreadableFileError, match=f"in/x.parquet: at 0: .*{TOO_MUCH}"):
        of_feeds(dictionary_bomb())

    assert of_feeds(parquet_file())


@pytest.mark.slow
def test_a_block_of_avro() -> None:
    packed = avro_file(bytes(400 << 20), "deflate")

    with pytest.raises(ValueError, match=TOO_MUCH):
        [*avroreader.rows(io.BytesIO(packed))]


ORC_BOMB = """
import io, sys
from pyarrow import orc, table
from landfall import memory_limit
from landfall.formats.orc import OrcFormat

sink = io.BytesIO()
orc.write_table(table({"value": [bytes(300 << 20)]}), sink, compression="zstd")
memory_limit.step_bytes = lambda: 64 << 20
try:
    rows = sum(1 for _ in OrcFormat.of({}).rows(io.BytesIO(sink.getvalue())))
except ValueError:
    sys.exit(3)
print(rows)
"""
"""A program that reads 100 kB of ORC that unpack to 300 MiB, within 64 MiB."""


@pytest.mark.slow
def test_a_value_of_orc_ends_a_process_at_most() -> None:
    """Until ORC's library looks whether it was given memory: no process takes what a file says."""
    run = [sys.executable, "-c", ORC_BOMB]
    done = subprocess.run(run, capture_output=True, text=True, check=False)

    assert done.stdout == "", "it was read whole"
    assert done.returncode in {3, -signal.SIGSEGV, -signal.SIGABRT}, done.stderr


def test_what_is_within_is_refused_alone() -> None:
    with pytest.raises(pa.ArrowInvalid, match=TOO_MUCH), bounded():
        np.empty(MUCH, np.uint8)

    assert len(np.empty(MUCH, np.uint8)) == MUCH


def test_one_step_within_another() -> None:
    def nested() -> Iterator[object]:
        with bounded():
            yield 1
        yield np.empty(MUCH, np.uint8)

    with pytest.raises(pa.ArrowInvalid, match=TOO_MUCH):
        [*steps(nested())]


def test_half_of_the_containers_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    file = tmp_path / "memory.max"
    monkeypatch.setattr(memory_limit, "_CONTAINER", (tmp_path / "none", file))

    def of(limit: str) -> int:
        file.write_text(limit)
        memory_limit.step_bytes.cache_clear()
        return memory_limit.step_bytes()

    try:
        assert of(f"{3 << 30}\n") == 3 << 29
        assert of(f"{1 << 30}\n") == memory_limit.MIN_BYTES
        assert of("max\n") <= memory_limit.MAX_BYTES
    finally:
        memory_limit.step_bytes.cache_clear()
