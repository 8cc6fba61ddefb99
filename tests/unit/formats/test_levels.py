"""Levels of compression, ``spec.output.level``."""

import io

import numpy as np
import pyarrow as pa
import pytest

from landfall.api.spec import Output
from landfall.errors import Stalled
from landfall.formats import Block
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.records import of_columns
from landfall.registry import output_format

VALUES = [f'{{"n":{n},"word":"{n * 7919 % 1000:x}"}}'.encode() for n in range(4000)]


def _encoded(format_: str, codec: str, level: int | None) -> bytes:
    output = Output(url="file:///landed", format=format_, codec=codec, level=level)
    form = output_format(output)
    records = of_columns(
        TopicPartition("levels", 0),
        np.arange(len(VALUES), dtype=np.int64),
        pa.array(VALUES, pa.binary()),
    )
    encoder = form.encoder()
    written = encoder.encode(Block(records)) + encoder.finish()
    assert len(list(form.rows(io.BytesIO(written)))) == len(VALUES)
    return written


@pytest.mark.parametrize("format_", ["Json", "Text"])
@pytest.mark.parametrize(("codec", "levels"), [("Gzip", (1, 3)), ("Zstd", (1, 19))])
def test_a_higher_level_makes_a_smaller_object(
    format_: str, codec: str, levels: tuple[int, int]
) -> None:
    sizes = [len(_encoded(format_, codec, level)) for level in levels]

    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] != sizes[1]


@pytest.mark.parametrize(
    ("format_", "codec", "level"),
    [
        ("Json", "Gzip", 2),
        ("Json", "Zstd", 3),
        ("SequenceFile", "Deflate", 2),
        ("SequenceFile", "Gzip", 2),
        ("Parquet", "Zstd", 3),
        ("Parquet", "Gzip", 6),
    ],
)
def test_the_level_that_is_documented_is_the_default(format_: str, codec: str, level: int) -> None:
    assert _encoded(format_, codec, None) == _encoded(format_, codec, level)


@pytest.mark.parametrize(
    ("format_", "codec", "level", "message"),
    [
        ("Json", "Gzip", 0, "codec Gzip has the levels 1 to 3, got 0"),
        ("SequenceFile", "Deflate", 4, "codec Deflate has the levels 1 to 3, got 4"),
        ("Avro", "Zstd", 20, "codec Zstd has the levels 1 to 19, got 20"),
        ("Json", "None", 1, "codec None has no levels, got 1"),
        ("Avro", "Snappy", 1, "codec Snappy has no levels, got 1"),
    ],
)
def test_a_level_that_the_codec_has_not_is_refused(
    format_: str, codec: str, level: int, message: str
) -> None:
    output = Output(url="file:///landed", format=format_, codec=codec, level=level)

    with pytest.raises(Stalled, match=f"^spec.output.level: {message}$"):
        output_format(output)


@pytest.mark.parametrize(
    ("format_", "option"),
    [
        ("Parquet", "rowGroupBytes"),
        ("Parquet", "pageBytes"),
        ("Orc", "stripeBytes"),
        ("Avro", "blockBytes"),
    ],
)
@pytest.mark.parametrize(
    ("size", "rows"), [("3Gi", 2**30), ("9e40", 2**30), ("1Gi", 2**30), ("512Mi", 2**29)]
)
def test_rows_that_are_encoded_together_stay_below_what_a_column_holds(
    format_: str, option: str, size: str, rows: int
) -> None:
    form = output_format(Output(url="file:///landed", format=format_, options={option: size}))

    assert getattr(form, "page_bytes" if option == "pageBytes" else "block_bytes") == rows
