"""Row groups that are copied have the rows that encoding them again gives; trees stay the same."""

import io
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from landfall.formats.merged_columns import ColumnsMerger
from landfall.formats.parquet import LEVELS, ParquetEncoder, ParquetFormat
from landfall.formats.parquet.row_groups import RowGroupsMerger
from landfall.pipeline.decoders.thrift.protocols import MalformedStructError
from landfall.pipeline.decoders.thrift.schema import WireType
from landfall.pipeline.decoders.thrift.trees import Tree, read_numbers, read_tree, written
from tests.support.examples import share

LEAVES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(0, 3),
    pa.float64(): st.floats(),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(max_size=5) | st.sampled_from(["a" * 40, "b"]),
    pa.binary(): st.binary(max_size=5) | st.just(b"\0" * 5_000),
    pa.decimal128(9, 2): st.decimals(-1_000, 1_000, places=2),
    pa.timestamp("us", tz="UTC"): st.datetimes(timezones=st.just(UTC)),
}


@st.composite
def types(draw: st.DrawFn, depth: int = 2) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
    """A type of a column, and values of it, null among them."""
    kind = draw(st.sampled_from(["leaf", "leaf", "list", "struct", "map"])) if depth else "leaf"
    if kind == "leaf":
        type_ = draw(st.sampled_from([*LEAVES]))
        return type_, st.none() | LEAVES[type_]
    type_, values = draw(types(depth - 1))
    if kind == "list":
        return pa.list_(type_), st.none() | st.lists(values, max_size=3)
    if kind == "map":
        pairs = st.dictionaries(st.text(max_size=3), values, max_size=3).map(lambda d: [*d.items()])
        return pa.map_(pa.string(), type_), st.none() | pairs
    second, second_values = draw(types(depth - 1))
    made = pa.struct([("a", type_), ("b", second)])
    return made, st.none() | st.fixed_dictionaries({"a": values, "b": second_values})


@st.composite
def files(draw: st.DrawFn) -> tuple[ParquetFormat, list[bytes]]:
    """A format and files of it, all with the same columns."""
    columns = draw(st.lists(types(), min_size=1, max_size=4))
    schema = pa.schema([(f"c{i}", type_) for i, (type_, _) in enumerate(columns)])
    # Arrow has no Bloom filters of booleans.
    filtered = [] if pa.types.is_boolean(schema[0].type) else ["c0"]
    options: dict[str, object] = {
        "rowGroupBytes": draw(st.sampled_from([1, 300, 2_000])),
        "pageBytes": draw(st.sampled_from([64, 1_000, 100_000])),
        "pageIndex": draw(st.booleans()),
        "bloomFilters": draw(st.sampled_from([[], filtered])),
        "codec": draw(st.sampled_from([None, *(codec.value for codec in LEVELS)])),
        "statistics": draw(st.sampled_from([None, True, False, ["c0"]])),
        "dictionary": draw(st.sampled_from([None, True, False])),
    }
    parquet = ParquetFormat.of({k: v for k, v in options.items() if v is not None}).typed()

    def group() -> pa.Table:
        count = draw(st.sampled_from([1, 2, 20]))
        arrays = [
            pa.array(draw(st.lists(values, min_size=count, max_size=count)), type_)
            for type_, values in columns
        ]
        return pa.Table.from_arrays(arrays, schema=schema)

    made = list[bytes]()
    for _ in range(draw(st.integers(1, 4))):
        encoder = ParquetEncoder(parquet)
        groups = [encoder.write(group(), None) for _ in range(draw(st.integers(1, 3)))]
        made.append(b"".join([*groups, encoder.finish()]))
    return parquet, made


def merged(merger: ColumnsMerger, bodies: Sequence[bytes]) -> pq.ParquetFile:
    made = [piece for body in bodies for piece in merger.add(io.BytesIO(body))]
    body = b"".join([*made, merger.finish()])
    return pq.ParquetFile(io.BytesIO(body), page_checksum_verification=True)


COPIED = list[int]()
"""How many rows each example copied."""


@pytest.mark.law
@settings(max_examples=share(150), deadline=None)
@given(made=files())
def compared(made: tuple[ParquetFormat, list[bytes]]) -> None:
    parquet, bodies = made
    merger = parquet.merger()
    assert isinstance(merger, RowGroupsMerger)

    copied = merged(merger, bodies)
    encoded = merged(ColumnsMerger(parquet, ParquetEncoder(parquet)), bodies)

    COPIED.append(merger.copied_rows)
    # As text, since NaN is not equal to itself.
    assert str(copied.read().to_pylist()) == str(encoded.read().to_pylist())
    assert copied.schema.equals(encoded.schema)
    assert copied.metadata.metadata == encoded.metadata.metadata
    assert copied.metadata.num_rows == encoded.metadata.num_rows == merger.rows
    pieces = [
        copied.read_row_group(number).num_rows == copied.metadata.row_group(number).num_rows
        for number in range(copied.num_row_groups)
    ]
    assert all(pieces)


def test_copied_row_groups_have_the_rows_of_encoded_ones() -> None:
    COPIED.clear()

    compared()

    assert sum(1 for rows in COPIED if rows) > len(COPIED) / 4


VALUES: dict[WireType, st.SearchStrategy[Any]] = {
    WireType.BOOL: st.booleans(),
    WireType.BYTE: st.integers(-128, 127),
    WireType.I16: st.integers(-(2**15), 2**15 - 1),
    WireType.I32: st.integers(-(2**31), 2**31 - 1),
    WireType.I64: st.integers(-(2**63), 2**63 - 1),
    WireType.DOUBLE: st.floats(allow_nan=False),
    WireType.STRING: st.binary(max_size=200),
    WireType.UUID: st.binary(min_size=16, max_size=16),
}
IDS = st.integers(1, 40) | st.integers(-(2**15), 2**15 - 1)


@st.composite
def fields(draw: st.DrawFn, depth: int = 3) -> tuple[WireType, Any]:
    inner = [WireType.STRUCT, WireType.LIST, WireType.SET] if depth else []
    wire = draw(st.sampled_from([*VALUES, *inner]))
    if wire in VALUES:
        return wire, draw(VALUES[wire])
    if wire is WireType.STRUCT:
        return wire, draw(st.dictionaries(IDS, fields(depth - 1), max_size=4))
    item = draw(st.sampled_from([*VALUES, WireType.STRUCT]))
    values = VALUES.get(item, st.dictionaries(IDS, fields(depth - 1), max_size=3))
    items = draw(st.lists(values, max_size=20))
    return wire, (item if items else WireType.STOP, items)


TREES: st.SearchStrategy[Tree] = st.dictionaries(IDS, fields(), max_size=6)


@settings(max_examples=share(200))
@given(tree=TREES, before=st.binary(max_size=3), after=st.binary(max_size=3))
def test_a_tree_is_read_as_it_was_written(tree: Tree, before: bytes, after: bytes) -> None:
    body = written(tree)

    assert read_tree(before + body + after, len(before)) == (tree, len(before) + len(body))


def numbers_in(tree: Tree) -> dict[int, Any]:
    return {
        id_: numbers_in(value) if wire is WireType.STRUCT else value
        for id_, (wire, value) in tree.items()
        if wire not in {WireType.STRING, WireType.BOOL}
    }


PLAIN = {WireType.I16, WireType.I32, WireType.I64, WireType.STRING, WireType.BOOL}
PLAIN_FIELDS = st.recursive(
    st.sampled_from(sorted(PLAIN)).flatmap(lambda wire: st.tuples(st.just(wire), VALUES[wire])),
    lambda inner: st.tuples(
        st.just(WireType.STRUCT), st.dictionaries(st.integers(1, 15), inner, max_size=4)
    ),
    max_leaves=10,
)


@settings(max_examples=share(200))
@given(
    tree=st.dictionaries(st.integers(1, 15), PLAIN_FIELDS, max_size=6), after=st.binary(max_size=3)
)
def test_numbers_are_read_like_trees(tree: Tree, after: bytes) -> None:
    body = written(tree)

    assert read_numbers(body + after) == (numbers_in(tree), len(body))


@settings(max_examples=share(300))
@given(data=st.binary(max_size=60))
def test_any_bytes_are_a_struct_or_an_error(data: bytes) -> None:
    try:
        tree, end = read_tree(data)
    except MalformedStructError:
        pass
    else:
        assert read_tree(written(tree))[0] == tree
        assert end <= len(data)
    with suppress(MalformedStructError, IndexError):
        read_numbers(data)
