"""In every format rows are read back as written, and the same blocks give the same bytes."""

import io
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from landfall.formats import Block, Format
from landfall.formats.jsonlines import JsonFormat
from landfall.formats.orc import OrcFormat
from landfall.formats.parquet import ParquetFormat
from landfall.formats.sequencefile import SequenceFileFormat
from landfall.formats.text import TextFormat
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.records import Records, of_columns

CLICKS = TopicPartition("clicks", 3)
PAYLOADS = st.one_of(
    st.none(), st.binary(max_size=300), st.text("ab|\r\n\t", max_size=6).map(str.encode)
)
ROWS = st.lists(
    st.tuples(PAYLOADS, PAYLOADS, st.integers(-1, 2**62), st.integers(1, 2**40)), max_size=20
)
TEXTS = st.builds(
    lambda delimiter, codec: TextFormat.of({"delimiter": delimiter, "codec": codec}),
    st.sampled_from(["\\n", "\\r\\n", "||", "aba", "\\0"]),
    st.sampled_from(["Gzip", "Zstd", "None"]),
)
SEQUENCE_FILES = st.builds(
    lambda mode, kind: SequenceFileFormat.of({"keyMode": mode, **kind}),
    st.sampled_from(["Legacy", "MessagePack"]),
    st.sampled_from([{}, {"codec": "Gzip"}, {"codec": "None"}, {"compression": "Record"}]),
)
PARQUETS = st.builds(
    lambda codec: ParquetFormat.of({"codec": codec}), st.sampled_from(["Zstd", "Snappy", "None"])
)
ORCS = st.builds(
    lambda codec: OrcFormat.of({"codec": codec}),
    st.sampled_from(["Zstd", "Snappy", "Deflate", "None"]),
)
FORMATS = st.one_of(
    TEXTS, SEQUENCE_FILES, PARQUETS, ORCS, st.just(JsonFormat.of({"tombstones": "Null"}))
)
Rows = Sequence[tuple[bytes | None, bytes | None, int, int]]


def records(rows: Rows) -> Records:
    values, keys, times, steps = zip(*rows, strict=True) if rows else ((), (), (), ())
    columns = {"keys": pa.array(keys, pa.binary()), "timestamps": np.array(times, np.int64)}
    return of_columns(
        CLICKS, np.cumsum(np.array(steps, np.int64)), pa.array(values, pa.binary()), **columns
    )


def accepted(format_: Format, rows: Rows) -> Records:
    """Return the rows that this format does not refuse."""
    everything = records(rows)
    return everything.take(np.setdiff1d(np.arange(len(rows)), format_.refuse(everything).rows))


def written(format_: Format, whole: Records, cut: int) -> bytes:
    encoder = format_.encoder()
    blocks = [
        whole.take(np.arange(start, min(start + cut, len(whole))))
        for start in range(0, len(whole), cut)
    ]
    return b"".join((*(encoder.encode(Block(block)) for block in blocks), encoder.finish()))


@given(format_=st.one_of(TEXTS, SEQUENCE_FILES, PARQUETS, ORCS), rows=ROWS, cut=st.integers(1, 20))
def test_accepted_rows_are_read_back_from_blocks_of_any_size(
    format_: Format, rows: Rows, cut: int
) -> None:
    whole = accepted(format_, rows)

    found = list(format_.rows(io.BytesIO(written(format_, whole, cut))))

    no_null = isinstance(format_, SequenceFileFormat)
    values = [value or b"" if no_null else value for value in whole.values.to_pylist()]
    assert [row.value for row in found] == values
    if not isinstance(format_, TextFormat):
        assert [row.offset for row in found] == whole.offsets.tolist()


@given(
    mode=st.sampled_from(
        [SequenceFileFormat.of({"keyMode": "MessagePack"}), ParquetFormat.of({}), OrcFormat.of({})]
    ),
    rows=ROWS,
)
def test_keys_and_timestamps_are_read_back(mode: Format, rows: Rows) -> None:
    whole = accepted(mode, rows) if isinstance(mode, OrcFormat | ParquetFormat) else records(rows)
    kept = set(whole.offsets.tolist())
    rows = [row for row, at in zip(rows, records(rows).offsets.tolist(), strict=True) if at in kept]

    found = list(mode.rows(io.BytesIO(written(mode, whole, 7))))

    empty_is_none = isinstance(mode, SequenceFileFormat)
    keys = [(key or None) if empty_is_none else key for _, key, _, _ in rows]
    assert [(row.key, row.timestamp) for row in found] == [
        (key, time if time != -1 else None) for key, (_, _, time, _) in zip(keys, rows, strict=True)
    ]


@given(time=st.integers(-1, 9_223_372_036_000 - 1))
def test_orc_refuses_no_time_before_2262(time: int) -> None:
    assert len(accepted(OrcFormat.of({}), [(b"x", None, time, 1)])) == 1


@given(format_=FORMATS, rows=ROWS, cut=st.integers(1, 20))
def test_the_same_blocks_give_the_same_bytes(format_: Format, rows: Rows, cut: int) -> None:
    assert written(format_, accepted(format_, rows), cut) == written(
        format_, accepted(format_, rows), cut
    )


@given(rows=ROWS, cut=st.integers(1, 20))
def test_json_lines_are_one_for_each_row(rows: Rows, cut: int) -> None:
    json = JsonFormat.of({})

    lines = [row.value for row in json.rows(io.BytesIO(written(json, accepted(json, rows), cut)))]

    payloads = [value for value, _, _, _ in rows if value is not None]
    assert lines == [payload.replace(b"\r", b" ").replace(b"\n", b" ") for payload in payloads]
