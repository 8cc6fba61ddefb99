"""SequenceFiles are read as the auditor reads them, who shares no code; damage never adds a row."""

import io
import zlib
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import msgpack
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from landfall.formats import Block
from landfall.formats.sequencefile import SequenceFileFormat, landed, writables
from landfall.formats.sequencefile.contents import vints as read_vints
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.records import of_columns
from landfall_audit.objects import sequence_file as audited
from tests.support.examples import share

CLICKS = TopicPartition("clicks", 3)
KINDS = [
    (compression, codec) for compression in ("Block", "Record") for codec in ("Deflate", "Gzip")
] + [("None", "None")]
MODES = ("Legacy", "MessagePack")
SYNC = b"0123456789abcdef"

Row = tuple[int | None, int, bytes | None, bytes | None]
"""Offset, timestamp, key, value."""
Read = tuple[list[Row], str]
"""Rows, and the error after them; empty if there is none."""


def as_audited(data: bytes) -> Read:
    """What the auditor reads."""
    rows, error = list[Row](), ""
    try:
        for offset, key, time, value in audited.records(io.BytesIO(data)):
            rows.append((offset, -1 if time is None else time, key, value))
    except (ValueError, EOFError, TypeError, zlib.error) as raised:
        error = str(raised) or type(raised).__name__
    return rows, error


def in_rows(data: bytes) -> list[Row]:
    """What is read row by row."""
    return [
        (row.offset, -1 if row.timestamp is None else row.timestamp, row.key, row.value)
        for row in landed.rows(io.BytesIO(data))
    ]


def in_columns(data: bytes, start: int | None = 0) -> Read:
    """What is read as columns."""
    rows, error = list[Row](), ""
    try:
        for each in landed.columns(io.BytesIO(data), start):
            keys, values = each.keys.to_pylist(), each.values.to_pylist()
            each.keys.validate(full=True)
            each.values.validate(full=True)
            rows += zip(each.offsets.tolist(), each.timestamps.tolist(), keys, values, strict=True)
    except ValueError as raised:
        error = str(raised)
    return rows, error


def written(file: SequenceFileFormat, blocks: Iterable[Sequence[Row]]) -> bytes:
    encoder, body = file.encoder(), b""
    for rows in blocks:
        offsets, timestamps, keys, values = zip(*rows, strict=True)
        records = of_columns(
            CLICKS,
            np.array(offsets, np.int64),
            pa.array(values, pa.binary()),
            timestamps=np.array(timestamps, np.int64),
            keys=pa.array(keys, pa.binary()),
        )
        body += encoder.encode(Block(records))
    return body + encoder.finish()


def plain(keys: Sequence[bytes], values: Sequence[bytes], key_class: str = "Bytes") -> bytes:
    """A file of one block that is not compressed, so that no checksum finds what is damaged."""
    head = b"SEQ\x06" + b"".join(
        writables.text(f"org.apache.hadoop.io.{name}Writable") for name in (key_class, "Bytes")
    )
    parts = (vints(keys), b"".join(keys), vints(values), b"".join(values))
    lengths = [writables.vint(len(part)) for part in parts]
    block = b"".join(a + b for a, b in zip(lengths, parts, strict=True))
    start = b"\0\1" + bytes(4) + SYNC + b"\xff\xff\xff\xff" + SYNC
    return head + start + writables.vint(len(keys)) + block


def vints(strings: Iterable[bytes]) -> bytes:
    return b"".join(writables.vint(len(each)) for each in strings)


def writable(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


OFFSETS = st.one_of(st.integers(0, 300), st.integers(0, 2**63 - 1))
TIMES = st.one_of(st.just(-1), st.integers(0, 2**17), st.integers(-(2**63), 2**63 - 1))
STRINGS = st.one_of(st.binary(max_size=5), st.integers(0, 70_000).map(bytes))
KAFKA_KEYS = st.one_of(st.none(), STRINGS)
BLOCKS = st.lists(
    st.lists(st.tuples(OFFSETS, TIMES, KAFKA_KEYS, STRINGS), min_size=1, max_size=12), max_size=4
)


@given(BLOCKS, st.sampled_from(MODES), st.sampled_from(KINDS))
@settings(max_examples=share(150), deadline=None)
def test_what_is_written_is_read_alike(
    blocks: list[list[Row]], mode: str, kind: tuple[str, str]
) -> None:
    compression, codec = kind
    file = SequenceFileFormat.of({"keyMode": mode, "compression": compression, "codec": codec})
    data = written(file, blocks)

    rows, error = in_columns(data)

    assert (rows, error) == as_audited(data)
    assert error == ""
    assert rows == in_rows(data)
    assert len(rows) == sum(map(len, blocks))


@given(BLOCKS, st.sampled_from(MODES), OFFSETS)
@settings(deadline=None)
def test_only_values_before_the_start_are_left_out(
    blocks: list[list[Row]], mode: str, start: int
) -> None:
    data = written(SequenceFileFormat.of({"keyMode": mode}), blocks)
    whole, _ = as_audited(data)

    found, error = in_columns(data, start)

    assert error == ""
    assert [row[:3] for row in found] == [row[:3] for row in whole]
    sizes = [0, *np.cumsum([len(block) for block in blocks]).tolist()]
    for first, end in pairwise(sizes):
        is_before = all((row[0] or 0) < start for row in whole[first:end])
        expected = [None if is_before else row[3] for row in whole[first:end]]
        assert [row[3] for row in found[first:end]] == expected


@pytest.mark.parametrize("mode", MODES)
def test_what_is_written_is_never_read_row_by_row(
    monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    block = [(n, n % 3 - 1, (None, b"", b"k" * n)[n % 3], bytes(n)) for n in range(400)]
    data = written(SequenceFileFormat.of({"keyMode": mode}), [block, block[:1], block[100:120]])
    monkeypatch.delattr(landed, "_one_by_one")

    rows, error = in_columns(data)

    assert (rows, error) == as_audited(data)
    assert len(rows) == 421


# ------------------------------------------------------------------------------------- not regular


@pytest.mark.parametrize("mode", MODES)
def test_a_changed_byte_gives_the_same_rows_or_an_error(mode: str) -> None:
    records = [(258, 70_000, b"k", b"abc"), (259, -1, b"", b""), (-3, 5, b"key", b"d" * 200)]
    data = bytearray(_plain_rows(records, mode))

    for place in range(len(data)):
        for change in (0x01, 0x55, 0x80, 0xFF):
            data[place] ^= change
            damaged = bytes(data)
            _check_damaged(damaged)
            data[place] ^= change
    for end in range(len(data)):
        _check_damaged(bytes(data[:end]))


@given(
    st.lists(st.tuples(OFFSETS, TIMES, STRINGS, st.binary(max_size=300)), min_size=1, max_size=9),
    st.sampled_from(MODES),
    st.data(),
)
@settings(deadline=None)
def test_damage_anywhere_gives_the_same_rows_or_an_error(
    rows: list[Row], mode: str, draw: st.DataObject
) -> None:
    data = _plain_rows(rows, mode)
    place = draw.draw(st.integers(0, len(data) - 1))
    length = draw.draw(st.integers(0, min(4, len(data) - place)))
    damaged = data[:place] + draw.draw(st.binary(max_size=4)) + data[place + length :]

    _check_damaged(damaged)


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False),
    st.text(max_size=4),
    st.binary(max_size=4),
)
PAIRS = st.tuples(st.one_of(st.integers(0, 4), st.text(max_size=1)), SCALARS)


def packed(pairs: Sequence[tuple[Any, Any]]) -> bytes:
    """A MessagePack map with these entries in this order, whether or not they repeat."""
    packer = msgpack.Packer()
    return bytes(packer.pack_map_pairs(pairs))


@given(st.lists(st.one_of(st.lists(PAIRS, max_size=4).map(packed), st.binary(max_size=9))))
@example([packed([(1, 1), (3, 2), (2, b"k")]), packed([(1, 1), (2, b"k"), (3, 2)])])
@example([packed([(1, 1), (2, b"k"), (2, b"l")])])
@example([packed([(1, 1), (3, 5)]), packed([(1, 2), (3, 5), (3, 6)])])
@example([packed([(1, 1), (1, 2)])])
@example([packed([(1, 2**63)])])
@example([packed([(1, 1), (3, 2**64 - 1)])])
@example([packed([(1, True)])])
@example([packed([(1, 1), (2, "text")])])
@example([packed([(1, 1), (3, None)])])
@example([b"\x81\x01\xcd\x00\x05"])  # an integer of two bytes that needs one
@example([packed([(1, 1)]), b"\x81\x91\x01\x05"])  # a field that is numbered by a list
@example([b"\x82\x01\x05\x02\xc6\xff\xff\xff\xff"])
@settings(max_examples=share(300), deadline=None)
def test_other_keys_are_read_alike_or_refused(keys: list[bytes]) -> None:
    data = plain([writable(key) for key in keys], [writable(b"v")] * len(keys))

    rows, error = in_columns(data, start=None)  # also those of negative offsets
    expected, refused = _checked(as_audited(data))
    assert (rows, bool(error)) == (expected, bool(refused))


@given(st.lists(st.integers(0, 2**32 - 1)))
def test_vints_are_read_as_they_are_written(numbers: list[int]) -> None:
    assert read_vints(b"".join(map(writables.vint, numbers))).tolist() == numbers


@pytest.mark.parametrize("written", ["8f", "00 8e00", "80", "87 00", "90", "ff", "8b 0000000000"])
def test_numbers_that_are_no_lengths_are_not_read(written: str) -> None:
    with pytest.raises(ValueError, match="a length"):
        read_vints(bytes.fromhex(written))


def _check_damaged(data: bytes) -> None:
    """What is read without an error is what the auditor reads; before an error, its first rows."""
    rows, error = in_columns(data)
    expected, refused = _checked(as_audited(data))
    assert rows == expected[: len(rows)]
    assert error or (len(rows) == len(expected) and not refused)


def _plain_rows(rows: Sequence[Row], mode: str) -> bytes:
    values = [writable(row[3] or b"") for row in rows]
    if mode == "Legacy":
        return plain(
            [(row[0] or 0).to_bytes(8, "big", signed=True) for row in rows], values, "Long"
        )
    pairs = [
        [(1, row[0]), *([(3, row[1])] if row[1] != -1 else []), *([(2, row[2])] if row[2] else [])]
        for row in rows
    ]
    return plain([writable(packed(each)) for each in pairs], values)


def _checked(read: Read) -> Read:
    """The same, but with an error instead of rows that have fields of other types than Kafka's."""
    rows, error = read
    if not rows:
        return read
    kinds = (pa.int64(), pa.int64(), pa.binary(), pa.binary())
    try:
        columns = [
            pa.array(c, kind) for c, kind in zip(zip(*rows, strict=True), kinds, strict=True)
        ]
    except (pa.ArrowException, TypeError, OverflowError) as wrong:
        return [], f"keys with fields of other types than Kafka's: {wrong}"
    return [*zip(*(column.to_pylist() for column in columns), strict=True)], error
