import contextlib
import io
import struct
from collections.abc import Sequence

import msgpack
import numpy as np
import pyarrow as pa
import pytest

from landfall.formats import Block, Row
from landfall.formats.sequencefile import SequenceFileFormat, landed, writables
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.decoders import Wanted
from landfall.pipeline.records import Records, filled, of_columns

CLICKS = TopicPartition("clicks", 3)
BYTES, LONG = b"\x22org.apache.hadoop.io.BytesWritable", b"\x21org.apache.hadoop.io.LongWritable"
SYNC = bytes.fromhex("767f8818deeb527c8488ac9b5b64db4c")  # md5 of landfall/clicks/3/258
KINDS = [
    (compression, codec) for compression in ("Block", "Record") for codec in ("Deflate", "Gzip")
] + [("None", "None")]


def written(file: SequenceFileFormat, *blocks: Records) -> bytes:
    encoder = file.encoder()
    return b"".join((*(encoder.encode(Block(block)) for block in blocks), encoder.finish()))


def read(data: bytes) -> list[Row]:
    return list(landed.rows(io.BytesIO(data)))


def keyed(
    offsets: Sequence[int], keys: Sequence[bytes | None], timestamps: Sequence[int]
) -> Records:
    values = pa.array([b"v%d" % offset for offset in offsets], pa.binary())
    columns = {"keys": pa.array(keys, pa.binary()), "timestamps": np.array(timestamps, np.int64)}
    return of_columns(CLICKS, np.array(offsets, np.int64), values, **columns)


def test_an_uncompressed_file_has_exactly_these_bytes() -> None:
    data = written(
        SequenceFileFormat.of({"compression": "None"}), filled(CLICKS, [258, 259], [b"abc", None])
    )

    head = b"SEQ\x06" + LONG + BYTES + b"\0\0" + b"\0\0\0\0" + SYNC
    first = b"\0\0\0\x0f\0\0\0\x08" + struct.pack(">q", 258) + b"\0\0\0\x03abc"
    second = b"\0\0\0\x0c\0\0\0\x08" + struct.pack(">q", 259) + b"\0\0\0\0"
    assert data == head + b"\xff\xff\xff\xff" + SYNC + first + second


@pytest.mark.parametrize(
    ("options", "flags", "codec"),
    [
        ({}, b"\1\1", b"\x2aorg.apache.hadoop.io.compress.DefaultCodec"),
        (
            {"compression": "Record", "codec": "Gzip"},
            b"\1\0",
            b"\x27org.apache.hadoop.io.compress.GzipCodec",
        ),
        ({"codec": "None"}, b"\0\0", b""),
    ],
)
def test_a_file_of_no_records_is_a_header(
    options: dict[str, object], flags: bytes, codec: bytes
) -> None:
    data = written(SequenceFileFormat.of({"keyMode": "MessagePack", **options}))

    assert data[:-16] == b"SEQ\x06" + BYTES + BYTES + flags + codec + b"\0\0\0\0"
    assert read(data) == []


@pytest.mark.parametrize(("compression", "codec"), KINDS)
@pytest.mark.parametrize("mode", ["Legacy", "MessagePack"])
def test_rows_are_read_back_from_every_kind_of_file(
    mode: str, compression: str, codec: str
) -> None:
    file = SequenceFileFormat.of({"keyMode": mode, "compression": compression, "codec": codec})
    offsets, keys, times = [5, 7, 2**40], [None, b"", b"k" * 300], [-1, 0, 1763683200000]

    rows = read(written(file, keyed(offsets, keys, times), keyed([2**50], [b"k"], [-1])))

    stored = [None, None, b"k" * 300, b"k"] if mode == "MessagePack" else [None] * 4
    timed = [None, 0, 1763683200000, None] if mode == "MessagePack" else [None] * 4
    expected = zip([*offsets, 2**50], stored, timed, strict=True)
    assert rows == [Row(offset, b"v%d" % offset, key, time) for offset, key, time in expected]


@pytest.mark.parametrize(("compression", "codec"), KINDS)
def test_large_and_empty_values_are_read_back(compression: str, codec: str) -> None:
    file = SequenceFileFormat.of({"compression": compression, "codec": codec})
    values = [b"x" * 10_000_000, b"", None, b"y" * (2**24 + 1)]

    rows = read(written(file, filled(CLICKS, range(4), values)))

    assert [row.value for row in rows] == [value or b"" for value in values]


def test_there_is_a_sync_marker_about_every_hundred_kilobytes() -> None:
    data = written(
        SequenceFileFormat.of({"codec": "None"}), filled(CLICKS, range(1000), [b"x" * 980] * 1000)
    )

    marks = data.count(b"\xff\xff\xff\xff" + data[79:95])
    assert (marks, len(read(data))) == (10, 1000)


def test_only_messagepack_keys_need_keys_and_timestamps() -> None:
    wanted = [SequenceFileFormat.of({"keyMode": mode}).wanted for mode in ("Legacy", "MessagePack")]

    assert wanted == [Wanted(), Wanted(timestamps=True, keys=True)]


def test_tombstones_are_empty_or_refused() -> None:
    records = filled(CLICKS, range(3), [b"", None, b"x"])

    assert not SequenceFileFormat.of({}).refuse(records)
    assert SequenceFileFormat.of({"tombstones": "DeadLetter"}).refuse(records).rows.tolist() == [1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"codec": "Zstd"}, "option codec: must be Deflate, Gzip or None, got 'Zstd'"),
        (
            {"codec": "None", "compression": "Block"},
            "option compression: Block cannot be used with codec None",
        ),
        (
            {"codec": "Gzip", "compression": "None"},
            "option compression: None cannot be used with codec Gzip",
        ),
        ({"keyMode": "legacy"}, "option keyMode: must be Legacy or MessagePack, got 'legacy'"),
        (
            {"delimiter": ","},
            "unknown option delimiter; the options are codec, compression, extension, keyMode, ",
        ),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match="option") as caught:
        SequenceFileFormat.of(options)

    assert message in str(caught.value)


NUMBERS = np.array(
    sorted(
        {sign * (2**power + step) for power in range(63) for step in (-1, 0, 1) for sign in (-1, 1)}
    ),
    np.int64,
)


def test_messagepack_numbers_equal_the_librarys() -> None:
    assert writables.messagepack_ints(NUMBERS).to_pylist() == [
        msgpack.packb(int(number)) for number in NUMBERS
    ]


def test_messagepack_bin_headers_equal_the_librarys() -> None:
    lengths = np.array([1, 255, 256, 65535, 65536], np.int64)

    heads = writables.messagepack_bin_headers(lengths).to_pylist()

    assert heads == [msgpack.packb(bytes(int(length)))[:-length] for length in lengths]


@pytest.mark.parametrize(
    ("number", "vint"),
    [
        (0, "00"),
        (127, "7f"),
        (128, "8f80"),
        (255, "8fff"),
        (256, "8e0100"),
        (65536, "8d010000"),
        (2**24, "8c01000000"),
    ],
)
def test_vints_equal_hadoops(number: int, vint: str) -> None:
    assert (
        writables.vint(number).hex()
        == writables.vints(np.array([number])).to_pylist()[0].hex()
        == vint
    )


@pytest.mark.parametrize(("compression", "codec"), KINDS)
def test_a_truncated_file_is_refused_or_gives_the_complete_blocks_before(
    compression: str, codec: str
) -> None:
    file = SequenceFileFormat.of({"compression": compression, "codec": codec})
    data = written(file, filled(CLICKS, range(3), [b"abc", b"", b"d"]))
    cut_clean = 0

    for end in range(len(data)):
        try:
            assert len(read(data[:end])) < 3
            cut_clean += 1
        except ValueError as error:
            assert "damaged SequenceFile, at or before byte" in str(error)  # noqa: PT017

    assert cut_clean == (1 if compression == "Block" else 4)  # between records a cut cannot be seen


@pytest.mark.parametrize("mode", ["Legacy", "MessagePack"])
def test_every_changed_byte_of_a_compressed_block_is_detected(mode: str) -> None:
    file = SequenceFileFormat.of({"keyMode": mode, "codec": "Gzip"})
    records = filled(CLICKS, range(3), [b"abc", b"", b"d"])
    data, rows = bytearray(written(file, records)), read(written(file, records))

    for place in range(data.index(b"\xff\xff\xff\xff"), len(data)):
        data[place] ^= 0x55
        with contextlib.suppress(ValueError):
            assert read(bytes(data)) == rows  # gzip's time and operating system mean nothing
        data[place] ^= 0x55


@pytest.mark.parametrize("data", [b"", b"SEQ\x05", b"PAR1xxxx", b"SEQ\x06" + BYTES + b"\x04Text"])
def test_a_file_of_another_kind_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"damaged SequenceFile, at or before byte \d+: "):
        read(data)
