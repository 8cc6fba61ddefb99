"""Files of columns are read by row groups, and damage is named by the row before which it is."""

from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from landfall.formats import column_reading
from landfall.formats.column_reading import OPEN, damage

TABLE = pa.table({"a": [1, 2, 3, 4, 5, 6], "b": ["u", "v", "w", "x", "y", "zzzz"]})


def _parquet() -> bytes:
    """Two row groups, whose pages can be read whatever is in them."""
    out = BytesIO()
    pq.write_table(
        TABLE,
        out,
        row_group_size=3,
        compression="none",
        use_dictionary=False,
        write_statistics=False,
        write_page_checksum=True,
    )
    return out.getvalue()


def _orc() -> bytes:
    out = BytesIO()
    orc.write_table(TABLE, out)
    return out.getvalue()


def test_no_batch_has_rows_of_two_row_groups() -> None:
    found = column_reading.parquet(BytesIO(_parquet()))

    assert [batch["a"].to_pylist() for batch in found.batches(2)] == [[1, 2], [3], [4, 5], [6]]
    groups = [[len(batch) for batch in group] for group in found.by_group(10)]
    assert groups == [[3], [3]]


@pytest.mark.parametrize("name", ["Parquet", "Orc"])
def test_columns_that_a_file_lacks_are_left_out_and_one_is_read_in_any_case(name: str) -> None:
    whole = {"Parquet": _parquet, "Orc": _orc}[name]()

    def read(*columns: str) -> list[str]:
        found = OPEN[name](BytesIO(whole))
        batches = [*found.batches(10, columns)]
        assert sum(map(len, batches)) == len(TABLE)
        return batches[0].schema.names

    assert read("b", "c") == ["b"]
    assert read("c") == ["a"]


def test_a_page_that_does_not_match_its_checksum_is_named_by_the_first_row_of_its_group() -> None:
    damaged = _parquet()
    at = damaged.index(b"zzzz")
    found = column_reading.parquet(BytesIO(damaged[:at] + b"y" + damaged[at + 1 :]))
    batches = found.batches(10)

    assert next(batches)["b"].to_pylist() == ["u", "v", "w"]
    with pytest.raises(ValueError, match=r"damaged Parquet file, at row 3 or later: .*(?i:crc)"):
        next(batches)


def test_an_object_that_is_gone_is_not_damaged() -> None:
    with pytest.raises(FileNotFoundError), damage("Parquet file"):
        raise FileNotFoundError
