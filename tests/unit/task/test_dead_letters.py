"""A dead-letter file keeps the rule of landed files: every reader can open it."""

import io
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.pipeline.records import HEADERS, UNREADABLE_HEADERS, Records, of_columns
from landfall.store.memory import MemoryStore
from landfall.task.dead_letter_reader import DeadLetterReader
from landfall.task.dead_letters import (
    LAYOUT,
    DeadLetterEncoder,
    dead_letter_rows,
    kafka_timestamp,
)
from landfall.task.partitioning import BadRecord
from landfall_audit.objects import rows as audited

TP = TopicPartition("clicks", 3)
GOOD = 1_763_697_600_123
LATEST = (2**63 - 1) // 1000
WILD = [GOOD * 10**6, 2**63 - 1, -(2**63), LATEST + 1, -LATEST - 1]
"""Nanoseconds that a producer took for milliseconds, and the ends."""
TIMES = [GOOD, -1, 0, LATEST, *WILD]
CUTS = "; headers are left out: "


def rejected(timestamps: list[int]) -> Records:
    count = len(timestamps)
    return of_columns(
        TP,
        np.arange(count) + 100,
        pa.array([b"x"] * count, pa.binary()),
        timestamps=np.array(timestamps, np.int64),
        keys=pa.array([None] * count, pa.binary()),
        headers=pa.array([None, *([[]] * (count - 1))], HEADERS),
    )


def dead_letters(timestamps: list[int]) -> bytes:
    records = rejected(timestamps)
    bad = [BadRecord(row, "decode", f"json: {row}") for row in range(len(timestamps))]
    encoder = DeadLetterEncoder()
    return encoder.encode(LAYOUT.chosen_block(TP, [dead_letter_rows(records, bad)])) + (
        encoder.finish()
    )


def test_one_wild_kafka_timestamp_does_not_hide_the_other_dead_letters(tmp_path: Path) -> None:
    path = tmp_path / "dead.parquet"
    path.write_bytes(dead_letters(TIMES))

    found = (
        duckdb.connect()
        .execute(f"SELECT * REPLACE (epoch_us(timestamp) AS timestamp) FROM '{path}'")
        .fetchall()
    )

    micros = [row[3] for row in found]
    assert micros == [GOOD * 1000, None, 0, LATEST * 1000, *([None] * len(WILD))]
    errors = [f"json: {row}" for row in range(len(TIMES))]
    errors[0] += CUTS + UNREADABLE_HEADERS
    for row, wild in enumerate(WILD, 4):
        errors[row] += f"; Kafka timestamp {wild} is left out"
    assert [row[-1] for row in found] == errors


def test_what_was_left_out_is_there_when_a_dead_letter_is_landed_again() -> None:
    store, range_ = MemoryStore(), OffsetRange(100, 100 + len(TIMES))
    store.overwrite("dead.parquet", dead_letters(TIMES))
    reader = DeadLetterReader(store, {Slice(TP, range_): "dead.parquet"})

    (records,) = reader.read(Slice(TP, range_))

    assert records.timestamps.tolist() == TIMES


def test_dead_letters_of_earlier_versions_are_read_with_their_milliseconds() -> None:
    table = pq.read_table(io.BytesIO(dead_letters([GOOD, -1])))
    of_then = pa.array([GOOD, WILD[0]], pa.timestamp("ms", "UTC"))
    body = io.BytesIO()
    pq.write_table(table.set_column(3, "timestamp", of_then), body, store_schema=False)
    store, range_ = MemoryStore(), OffsetRange(100, 102)
    store.overwrite("dead.parquet", body.getvalue())

    (records,) = DeadLetterReader(store, {Slice(TP, range_): "dead.parquet"}).read(
        Slice(TP, range_)
    )

    assert records.timestamps.tolist() == [GOOD, WILD[0]]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("json: x; Kafka timestamp -5 is left out", -5),
        ("json: got '; Kafka timestamp 5 is left out'", -1),
        ("json: x; Kafka timestamp 5 is left out\n", -1),
        ("json: x", -1),
    ],
)
def test_only_the_end_of_an_error_names_a_timestamp(error: str, expected: int) -> None:
    assert kafka_timestamp(error) == expected


class FromKafka:
    """A record as the client returns it."""

    def __init__(self, timestamp: int) -> None:
        self._timestamp = timestamp

    def value(self) -> bytes:
        return b"x"

    def key(self) -> None:
        return None

    def headers(self) -> list[tuple[str, bytes]]:
        return []

    def timestamp(self) -> tuple[int, int]:
        return 1, self._timestamp


def test_the_auditor_finds_the_record_in_its_dead_letter() -> None:
    found = [
        row
        for row in audited.ENVELOPE.rows(io.BytesIO(dead_letters(TIMES)))
        if isinstance(row, tuple)
    ]

    hashes = [audited.ENVELOPE.hash_of(FromKafka(each)) for each in TIMES]  # type: ignore[misc, arg-type]  # it has one
    assert [hash(content) for _, content in found] == hashes
