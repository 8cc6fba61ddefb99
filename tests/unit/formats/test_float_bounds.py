"""What a footer says about columns of floating point numbers."""

import io
import math

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from landfall.formats.parquet import ParquetEncoder, ParquetFormat
from landfall.formats.parquet.float_bounds import FloatBounds, from_metadata

VALUES = st.lists(st.none() | st.floats(width=32), min_size=1, max_size=8)


def written(*groups: list[float | None], kind: pa.DataType, **options: object) -> pq.FileMetaData:
    encoder = ParquetEncoder(ParquetFormat.of(options))
    body = [
        encoder.write(pa.table({"x": pa.array(g, kind), "n": [1] * len(g)}), None) for g in groups
    ]
    return pq.read_metadata(io.BytesIO(b"".join([*body, encoder.finish()])))


@given(st.lists(VALUES, min_size=1, max_size=3), st.sampled_from([pa.float32(), pa.float64()]))
def test_a_footer_counts_nulls_and_nans_and_has_bounds_of_the_others(
    groups: list[list[float | None]], kind: pa.DataType
) -> None:
    found = from_metadata(written(*groups, kind=kind).metadata)

    values = [value for group in groups for value in group]
    numbers = [value for value in values if value is not None and not math.isnan(value)]
    nans = len([value for value in values if value is not None]) - len(numbers)
    assert found == {
        "x": FloatBounds(
            values.count(None),
            nans,
            min(numbers, default=math.inf),
            max(numbers, default=-math.inf),
        )
    }
    if nans or not numbers:
        assert found["x"].range is None
    else:
        least, greatest = found["x"].range or (math.nan, math.nan)
        assert all(least <= number <= greatest for number in numbers)
        assert math.copysign(1, least) < 0 or least > 0
        assert math.copysign(1, greatest) > 0 or greatest < 0


def test_columns_without_statistics_have_no_bounds() -> None:
    for options in ({"statistics": False}, {"statistics": ["n"]}):
        assert from_metadata(written([1.0], kind=pa.float64(), **options).metadata) == {}


def test_bounds_make_no_difference_between_the_schemas_of_files() -> None:
    described = set[str]()
    for value in (1.0, 2.0):
        encoder = ParquetEncoder(ParquetFormat.of({}))
        body = encoder.write(pa.table({"x": [value]}), None) + encoder.finish()

        def read(start: int, length: int, body: bytes = body) -> bytes:
            return body[start:][:length]

        described.add(ParquetFormat.of({}).schema_of(read, len(body)))
    assert len(described) == 1
