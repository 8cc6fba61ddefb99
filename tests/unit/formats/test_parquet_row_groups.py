"""Large row groups of Parquet are copied as they are, and what differs in any way is not."""

import io
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from landfall.api.spec import Codec
from landfall.formats.parquet import LEVELS, ParquetEncoder, ParquetFormat
from landfall.formats.parquet.footers import footer_in, likeness
from landfall.formats.parquet.row_groups import RowGroupsMerger
from landfall.pipeline.decoders.row_schemas import RowSchema
from landfall.pipeline.decoders.thrift.schema import WireType
from landfall.pipeline.decoders.thrift.trees import Tree, read_numbers, read_tree, written

OPTIONS: dict[str, object] = {
    "rowGroupBytes": 32_000,
    "pageBytes": 2_000,
    "pageIndex": True,
    "bloomFilters": ["name", "id"],
}
PARQUET = ParquetFormat.of(OPTIONS).typed()
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("name", pa.string()),
        ("price", pa.float64()),
        ("tags", pa.list_(pa.string())),
        ("at", pa.timestamp("us", tz="UTC")),
        ("sum", pa.decimal128(12, 2)),
    ]
)


def rows(start: int, count: int) -> pa.Table:
    """Rows with nulls and lists, of about 100 bytes each."""
    numbers = range(start, start + count)
    columns: list[list[Any]] = [
        [*numbers],
        [None if n % 11 == 0 else f"name {n % 97:04d}{'x' * (n % 40)}" for n in numbers],
        [None if n % 13 == 0 else n / 7 for n in numbers],
        [None if n % 5 == 0 else [f"t{m}" for m in range(n % 4)] for n in numbers],
        [n * 1_000_000 for n in numbers],
        [*numbers],
    ]
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)],
        schema=SCHEMA,
    )


def file(
    *groups: pa.Table, parquet: ParquetFormat = PARQUET, schema: RowSchema | None = None
) -> bytes:
    encoder = parquet.encoder()
    assert isinstance(encoder, ParquetEncoder)
    return b"".join([*(encoder.write(group, schema) for group in groups), encoder.finish()])


def merged(bodies: Sequence[bytes], parquet: ParquetFormat = PARQUET) -> tuple[bytes, int]:
    """The new file, and how many of its rows were copied."""
    merger = parquet.merger()
    assert isinstance(merger, RowGroupsMerger)
    made = [piece for body in bodies for piece in merger.add(io.BytesIO(body))]
    body = b"".join([*made, merger.finish()])
    assert merger.rows == opened(body).metadata.num_rows
    return body, merger.copied_rows


def opened(body: bytes) -> pq.ParquetFile:
    return pq.ParquetFile(io.BytesIO(body), page_checksum_verification=True)


def changed(body: bytes, change: Callable[[Tree], object]) -> bytes:
    """The file with another footer."""
    footer, start = footer_in(body)
    change(footer)
    new = written(footer)
    return body[:start] + new + len(new).to_bytes(4, "little") + b"PAR1"


LARGE = [file(rows(0, 300), rows(300, 300)), file(rows(600, 350))]
SMALL = [file(rows(2_000, 5)), file(rows(3_000, 6))]


def chunk_bytes(body: bytes) -> list[bytes]:
    """The bytes of each column chunk."""
    metadata, found = opened(body).metadata, []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for column in (group.column(i) for i in range(group.num_columns)):
            start = column.data_page_offset
            if column.has_dictionary_page:
                start = min(start, column.dictionary_page_offset)
            found.append(body[start : start + column.total_compressed_size])
    return found


def test_large_row_groups_have_the_same_bytes() -> None:
    body, copied = merged(LARGE)

    assert copied == 950
    assert chunk_bytes(body) == [chunk for one in LARGE for chunk in chunk_bytes(one)]
    assert opened(body).read().equals(pa.concat_tables([rows(0, 600), rows(600, 350)]))


def test_statistics_and_metadata_are_those_of_the_sources() -> None:
    schema = RowSchema("digest", "shop.Order")
    sources = [file(rows(0, 300), schema=schema), file(rows(300, 300), schema=schema)]

    body, copied = merged(sources)

    def known(body: bytes) -> list[dict[str, object]]:
        of_file = opened(body).metadata.to_dict()
        columns = [column for group in of_file["row_groups"] for column in group["columns"]]
        places = {
            "data_page_offset",
            "dictionary_page_offset",
            "file_offset",
            "bloom_filter_offset",
        }
        return [{k: v for k, v in column.items() if k not in places} for column in columns]

    assert copied == 600
    assert known(body) == [column for source in sources for column in known(source)]
    metadata = opened(body).metadata
    assert metadata.metadata == opened(file(rows(0, 600), schema=schema)).metadata.metadata
    assert metadata.created_by == opened(sources[0]).metadata.created_by
    assert likeness(footer_in(body)[0]) == likeness(footer_in(sources[0])[0])


def test_small_files_between_them_become_one_row_group() -> None:
    body, copied = merged([*SMALL, LARGE[0], *SMALL, *SMALL, LARGE[1], *SMALL])

    metadata = opened(body).metadata
    sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    assert (copied, sizes) == (950, [11, 300, 300, 22, 350, 11])
    expected = [*SMALL, LARGE[0], *SMALL, *SMALL, LARGE[1], *SMALL]
    assert opened(body).read().equals(pa.concat_tables([opened(one).read() for one in expected]))


def test_without_large_ones_the_bytes_are_those_of_one_writer() -> None:
    body, copied = merged(SMALL)

    assert copied == 0
    assert body == file(pa.concat_tables([rows(2_000, 5), rows(3_000, 6)]))


def test_page_indexes_and_bloom_filters_point_to_what_they_describe() -> None:
    body, _ = merged([SMALL[0], *LARGE])
    footer, _ = footer_in(body)

    pages = checks = 0
    for group in footer[4][1][1]:
        first_group_byte = group[5][1]
        for chunk in group[1][1][1]:
            column = chunk[3][1]
            if 6 in chunk:  # repeated columns have none
                _, end = read_tree(body, chunk[6][1])
                assert end - chunk[6][1] == chunk[7][1]
            index, end = read_tree(body, chunk[4][1])
            assert end - chunk[4][1] == chunk[5][1]
            for page in index[1][1][1]:
                at = page[1][1]
                header, size = read_numbers(body[at : at + 20_000])
                assert at >= first_group_byte
                assert page[2][1] == size + header[3]
                data = body[at + size : at + size + header[3]]
                assert zlib.crc32(data) == header[4] & 0xFFFF_FFFF
                pages += 1
            assert index[1][1][1][0][1][1] == column[9][1]
            if 14 in column:
                bitset, bits = read_tree(body, column[14][1])
                assert bits + bitset[1][1] == column[14][1] + column[15][1]
                checks += 1
    assert (pages, checks) == (27, 8)


def test_duckdb_finds_rows_by_filters_and_statistics(tmp_path: Path) -> None:
    path = tmp_path / "merged.parquet"
    path.write_bytes(merged([SMALL[0], *LARGE, SMALL[1]])[0])
    expected = pa.concat_tables([rows(2_000, 5), rows(0, 950), rows(3_000, 6)])

    with duckdb.connect() as db:
        found = db.execute(
            f"SELECT count(*), sum(id), sum(len(tags)), count(price) FROM '{path}'"
        ).fetchall()
        names = {name for name in expected["name"].to_pylist() if name}
        for name in sorted(names)[:20]:
            (count,) = db.execute(
                f"SELECT count(*) FROM '{path}' WHERE name = ?", [name]
            ).fetchone()
            assert count == expected["name"].to_pylist().count(name)
        probed = db.execute(
            f"SELECT count(*) FROM parquet_bloom_probe('{path}', 'id', 777) "
            "WHERE NOT bloom_filter_excludes"
        ).fetchone()

    tags = sum(len(tags) for tags in expected["tags"].to_pylist() if tags)
    prices = expected["price"].drop_null()
    assert found == [(961, sum(expected["id"].to_pylist()), tags, len(prices))]
    assert probed == (1,)


def without_checksums(codec: str = "zstd") -> bytes:
    out = io.BytesIO()
    pq.write_table(rows(0, 350), out, compression=codec, store_schema=False)
    return out.getvalue()


def named(footer: Tree) -> None:
    footer[6] = (WireType.STRING, b"parquet-cpp-arrow version 9.0.0")


def described(footer: Tree) -> None:
    footer[5] = (WireType.LIST, (WireType.STRUCT, [{1: (WireType.STRING, b"made")}]))


def identified(footer: Tree) -> None:
    footer[2][1][1][1][9] = (WireType.I32, 7)


def unordered(footer: Tree) -> None:
    del footer[7]


def elsewhere(footer: Tree) -> None:
    footer[4][1][1][0][1][1][1][0][1] = (WireType.STRING, b"other.parquet")


def unbounded(footer: Tree) -> None:
    del footer[5]


OTHERS: dict[str, Callable[[], bytes]] = {
    "another writer": lambda: changed(LARGE[1], named),
    "other metadata": lambda: changed(LARGE[1], described),
    "field ids": lambda: changed(LARGE[1], identified),
    "no order of columns": lambda: changed(LARGE[1], unordered),
    "chunks in another file": lambda: changed(LARGE[1], elsewhere),
    "no bounds of floats": lambda: changed(LARGE[1], unbounded),
    "another codec": lambda: file(
        rows(600, 350), parquet=ParquetFormat.of({**OPTIONS, "codec": "Gzip"}).typed()
    ),
    "no checksums": without_checksums,
    "small row groups": lambda: file(*(rows(600 + n, 1) for n in range(20))),
}


@pytest.mark.parametrize("why", OTHERS)
def test_a_file_that_differs_is_encoded_again(why: str) -> None:
    other = OTHERS[why]()

    body, copied = merged([LARGE[0], other])

    assert copied == 600
    assert (
        opened(body)
        .read()
        .equals(pa.concat_tables([opened(LARGE[0]).read(), opened(other).read()]))
    )


def test_a_file_with_rows_left_out_or_sorted_is_encoded_again() -> None:
    merger = PARQUET.merger()
    kept = np.arange(600) % 2 == 0
    body = b"".join([*merger.add(io.BytesIO(LARGE[0]), kept), merger.finish()])

    assert opened(body).read()["id"].to_pylist() == [*range(0, 600, 2)]
    assert not isinstance(PARQUET.sorted_by("id").merger(), RowGroupsMerger)


def test_bounds_of_floats_are_added() -> None:
    nan = rows(900, 300).set_column(2, SCHEMA.field(2), pa.array([float("nan")] * 300))

    body, copied = merged([*LARGE, file(nan), SMALL[0]])

    assert copied == 1_250
    tables = [rows(0, 600), rows(600, 350), nan, rows(2_000, 5)]
    whole = file(pa.concat_tables(tables).combine_chunks())
    assert opened(body).metadata.metadata == opened(whole).metadata.metadata


@pytest.mark.parametrize("place", ["page", "header", "values"])
def test_a_damaged_page_is_found_before_a_byte_is_copied(place: str) -> None:
    body = bytearray(LARGE[0])
    column = opened(LARGE[0]).metadata.row_group(1).column(0)
    if place == "page":
        body[column.data_page_offset + column.total_compressed_size - 3] ^= 1
    elif place == "header":
        body[column.data_page_offset + 1] ^= 0xFF
    else:

        def one_more(footer: Tree) -> None:
            chunk = footer[4][1][1][1][1][1][1][3][3][1]  # of ``tags``
            chunk[5] = (WireType.I64, chunk[5][1] + 1)

        body = bytearray(changed(LARGE[0], one_more))
    merger = PARQUET.merger()

    pieces = merger.add(io.BytesIO(bytes(body)))

    with pytest.raises(ValueError, match="damaged Parquet file"):
        assert [len(piece) for piece in pieces] == []


@pytest.mark.parametrize("codec", LEVELS)
def test_every_codec_of_the_format_is_copied(codec: Codec) -> None:
    parquet = ParquetFormat.of({**OPTIONS, "codec": codec.value}).typed()
    sources = [file(rows(0, 300), parquet=parquet), file(rows(300, 300), parquet=parquet)]

    body, copied = merged(sources, parquet)

    assert copied == 600
    assert opened(body).read().equals(rows(0, 600))


def test_a_merged_file_is_merged_again_by_copying() -> None:
    once, _ = merged([SMALL[0], *LARGE])

    twice, copied = merged([once, LARGE[0]])

    assert copied == 955 + 600
    assert (
        opened(twice)
        .read()
        .equals(pa.concat_tables([opened(once).read(), opened(LARGE[0]).read()]))
    )
