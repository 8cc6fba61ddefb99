"""Dead letters of a producer with odd times, and what a bucket writer puts in their place."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from landfall.api.contract import ExitCode
from landfall.cli import main
from landfall.errors import Reason, Stalled
from landfall.lane.stores import open_stores
from landfall.ledger.names import object_names
from landfall.ledger.names.object_names import Origin
from landfall.ledger.offsets import OffsetRange, Slice
from landfall.store.memory import MemoryStore
from landfall.task import dead_letter_reader
from landfall.task.dead_letter_reader import DeadLetterReader
from landfall.task.dead_letters import kafka_timestamp
from tests.support.driver.fakes import group
from tests.support.stores.every_store import uploaded
from tests.unit.task.test_dead_letters import GOOD, TP, dead_letters

YEAR_20000, YEAR_MINUS_4000 = 568_971_820_800_000, -188_395_000_000_000
KEY = object_names.dead_letter_key("fake", TP.topic, 1, TP.partition, 100)
ORIGIN = Origin(generation=1, topic=TP.topic, partition=TP.partition, start=100)


def changed(change: Callable[[pa.Table], pa.Table]) -> bytes:
    body = io.BytesIO()
    pq.write_table(change(pq.read_table(io.BytesIO(dead_letters([GOOD] * 3)))), body)
    return body.getvalue()


def replaced(name: str, values: list[Any], type_: pa.DataType) -> bytes:
    return changed(
        lambda table: table.set_column(
            table.schema.get_field_index(name), name, [pa.array(values, type_)]
        )
    )


def with_a_changed_page(name: str) -> bytes:
    """Dead letters with another last byte in a column, whose page has a checksum."""
    body = bytearray(dead_letters([GOOD] * 3))
    file = pq.ParquetFile(io.BytesIO(body))
    column = file.metadata.row_group(0).column(file.schema_arrow.get_field_index(name) + 1)
    assert column.path_in_schema == name
    first = column.dictionary_page_offset or column.data_page_offset
    body[first + column.total_compressed_size - 1] ^= 1
    return bytes(body)


DAMAGED = {
    "text": b"no Parquet at all",
    "without offsets": changed(lambda table: table.drop_columns(["offset"])),
    "without headers": changed(lambda table: table.drop_columns(["headers"])),
    "two columns of values": changed(
        lambda table: table.append_column("value", table.column("value"))
    ),
    "texts as offsets": replaced("offset", ["a", "b", "c"], pa.string()),
    "numbers as values": replaced("value", [1, 2, 3], pa.int64()),
    "numbers as errors": replaced("error", [1, 2, 3], pa.int64()),
    "texts as times": replaced("timestamp", ["a", "b", "c"], pa.string()),
}
CHANGED = with_a_changed_page("error")
NO_RANGE = {
    "no rows": changed(lambda table: table.slice(0, 0)),
    "no last offset": replaced("offset", [100, 101, None], pa.int64()),
    "before its first": replaced("offset", [1, 2, 3], pa.int64()),
    "after the last": replaced("offset", [100, 101, 2**63 - 1], pa.int64()),
}


def cat(folder: Path, body: bytes) -> int:
    of = group(output={"url": f"file://{folder}/out", "format": "Text"})
    store = open_stores(of.spec)
    store.complete(uploaded(store, KEY, [body]))
    file = folder / "group.yaml"
    file.write_text(yaml.safe_dump(of.model_dump(mode="json", by_alias=True, exclude_unset=True)))
    return main(["cat", str(file), KEY])


def test_times_that_python_does_not_have_are_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cat(tmp_path, dead_letters([GOOD, YEAR_20000, YEAR_MINUS_4000])) == ExitCode.OK

    found = [json.loads(line)["timestamp"] for line in capsys.readouterr().out.splitlines()]
    assert found == ["2025-11-21T04:00:00.123000Z", YEAR_20000 * 1000, YEAR_MINUS_4000 * 1000]


@pytest.mark.parametrize("body", [*DAMAGED.values(), CHANGED], ids=[*DAMAGED, "changed"])
def test_cat_names_damaged_ones(
    tmp_path: Path, body: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cat(tmp_path, body) == ExitCode.USAGE

    assert f"{KEY}: cannot be read as dead letters: damaged dead letters" in (
        capsys.readouterr().err.replace("\n", " ").replace("  ", " ")
    )


@pytest.mark.parametrize("body", [*DAMAGED.values(), CHANGED], ids=[*DAMAGED, "changed"])
def test_damaged_ones_are_not_landed_again(body: bytes) -> None:
    store, piece = MemoryStore(), Slice(TP, OffsetRange(100, 103))
    store.overwrite(KEY, body)

    with pytest.raises(Stalled, match="damaged") as stalled:
        list(DeadLetterReader(store, {piece: KEY}).read(piece))

    assert stalled.value.reason is Reason.OBJECT_LOST


@pytest.mark.parametrize("body", [*DAMAGED.values(), *NO_RANGE.values()], ids=[*DAMAGED, *NO_RANGE])
def test_ones_without_a_range_of_offsets_are_damaged(body: bytes) -> None:
    store = MemoryStore()
    store.overwrite(KEY, body)

    with pytest.raises(Stalled, match="damaged") as stalled:
        dead_letter_reader.measure(store, KEY, ORIGIN)

    assert stalled.value.reason is Reason.OBJECT_LOST


@pytest.mark.parametrize(
    ("digits", "expected"),
    [("9" * 19, 2**63 - 1), ("-" + "9" * 19, -(2**63)), ("9" * 20, -1), ("9" * 5_000, -1)],
    ids=["19", "below zero", "20", "5000"],
)
def test_a_time_in_the_error_of_a_payload_has_64_bits(digits: str, expected: int) -> None:
    assert kafka_timestamp(f"no text: '; Kafka timestamp {digits} is left out") == expected
