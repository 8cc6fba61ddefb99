"""Decoder Avro beside fastavro and the specification, on random schemas and payloads.

Compared are the columns of the schema, declared columns and fields, and JSON with what
``reference`` says; that with what fastavro reads; JSON with what the auditor reads; payloads that
are copied into files with what fastavro makes of them; and what is read as another schema with what
fastavro reads as it.
"""

import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
from fastavro.schema import SchemaParseException
from hypothesis import strategies as st

from landfall.api.spec import Column
from landfall.formats.columns import storable
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.decoders import Decoded, Wanted
from landfall.pipeline.decoders.typed_columns import schema_of
from landfall.pipeline.records import filled
from landfall.schemas.avro import AvroDecoder
from landfall_audit.readers.avro_json import AvroJson
from tests.fuzz.avro.payloads import payload
from tests.fuzz.avro.reference import (
    BadError,
    Branch,
    Reference,
    Text,
    members,
    value_of_bytes,
    without_logical,
    wrong_inside,
)
from tests.fuzz.avro.reference import Decoded as LogicalValue
from tests.fuzz.avro.schemas import Declared, evolved, full_name, kind_of, schemas

Rows = dict[int, Any]
"""What is found in each row that is no dead letter."""
Make = Callable[[Any], Any]


@dataclass(frozen=True)
class Case:
    """Payloads of a schema, and another schema that they are read as."""

    schema: Declared
    reader: Declared
    payloads: tuple[bytes, ...]

    def __repr__(self) -> str:
        """All of it, as one can read it."""
        rows = [each.hex(" ") for each in self.payloads]
        return f"{json.dumps(self.schema)}\nread as {json.dumps(self.reader)}\n{rows}"

    def _repr_pretty_(self, printer: Any, _is_cycle: bool) -> None:
        printer.text(repr(self))


@st.composite
def cases(draw: Any) -> Case:
    """A random case."""
    schema = draw(schemas())
    reference, has_bad_text = Reference(schema), draw(st.integers(0, 3)) == 0
    # More than walking one by one is for, now and then.
    some = draw(st.sampled_from([1, 2, 4, 60]))
    first = draw(st.integers(0, 2**20))
    made = [payload(reference, first + n, has_bad_text=has_bad_text) for n in range(some)]
    return Case(schema, draw(evolved(schema)), tuple(made))


CASES = cases()


def check(case: Case) -> Sequence[str]:
    """Compare the decoder with the reference; see ``tests.fuzz``."""
    reference = Reference(case.schema)
    values = _values(case, reference)
    _check_fastavro(case, reference, values)
    return [
        *_check_columns(case, reference, values),
        *_check_json(case, reference, values),
        *_check_declared(case, reference, values),
        *_check_bodies(case, values),
        *_check_evolved(case, values),
        *(["good payloads"] * len(values)),
    ]


def _values(case: Case, reference: Reference) -> Rows:
    """The values of the payloads that are one; inside of them may be wrong ones."""
    found: Rows = {}
    for row, each in enumerate(case.payloads):
        try:
            found[row] = reference.value(each)
        except BadError:
            continue
    return found


def _check_fastavro(case: Case, reference: Reference, values: Rows) -> None:
    """Whether the reference and fastavro read the same values."""
    plain = without_logical(case.schema)
    for row, value in values.items():
        if wrong_inside(value):
            continue
        found, end = _by_fastavro(plain, None, case.payloads[row])
        assert end == len(case.payloads[row])
        assert repr(found) == repr(reference.plain(case.schema, value)), "fastavro"


def _by_fastavro(schema: Declared, reader: Declared, content: bytes) -> tuple[Any, int]:
    stream = io.BytesIO(content)
    parsed = fastavro.parse_schema(schema, _write_hint=False)
    of_reader = None if reader is None else fastavro.parse_schema(reader, _write_hint=False)
    return fastavro.schemaless_reader(stream, parsed, of_reader), stream.tell()


def _decoder(case: Case, wanted: Wanted, reader: Declared = None) -> AvroDecoder:
    options = {"schema": json.dumps(case.schema)}
    if reader is not None:
        options["readerSchema"] = json.dumps(reader)
    return AvroDecoder.of(options, wanted)


def _decode(case: Case, decoder: AvroDecoder) -> Decoded:
    rows = list(case.payloads)
    decoded = decoder.decode(filled(TopicPartition("t", 0), range(len(rows)), rows))
    assert len(decoded.records) + len(decoded.bad) == len(rows)
    return decoded


def _same(found: Rows, expected: Rows, what: str) -> None:
    # As text, for NaN is not equal to itself.
    assert {row: repr(value) for row, value in found.items()} == {
        row: repr(value) for row, value in expected.items()
    }, what


# --------------------------------------------------------------------------- columns of the schema


def _check_columns(case: Case, reference: Reference, values: Rows) -> Sequence[str]:
    found = _own_rows(_decode(case, _decoder(case, Wanted(own_columns=True))))

    expected = {
        row: reference.column(case.schema, value)
        for row, value in values.items()
        if not wrong_inside(value)
    }
    shown = {
        row: _shown(reference, case.schema, content, expected.get(row))
        for row, content in found.items()
    }
    _same(_with_json(shown, expected), expected, "columns of the schema")
    return ("columns",)


def _own_rows(decoded: Decoded) -> Rows:
    rows: Rows = {}
    kept = decoded.records.offsets.tolist()
    for part in decoded.by_schema or ():
        assert part.columns is not None
        part.columns.validate(full=True)
        columns = [storable(column, _as_number) for column in part.columns.columns]
        for row, content in zip(
            part.rows.tolist(), _lists(columns, part.columns.schema.names), strict=True
        ):
            rows[kept[row]] = content
    return rows


def _lists(columns: list[pa.Array], names: list[str]) -> list[dict[str, Any]]:
    texts = [column.to_pylist(maps_as_pydicts="strict") for column in columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*texts, strict=True)]


def _as_number(column: pa.Array) -> pa.Array:
    type_ = column.type
    if pa.types.is_decimal(type_) and type_.precision > 38:
        return pa.array([None if v is None else f"{v:f}" for v in column.to_pylist()], pa.string())
    if pa.types.is_temporal(type_):
        return column.view(pa.int32() if type_.bit_width == 32 else pa.int64())
    return column


def _with_json(found: Rows, expected: Rows) -> Rows:
    """The rows with texts of JSON as what they contain, where JSON is expected."""
    return {row: _parsed(value, expected.get(row)) for row, value in found.items()}


def _parsed(found: Any, expected: Any) -> Any:
    match found, expected:
        case str(), Text():
            return Text(json.loads(found))
        case dict(), dict() if found.keys() == expected.keys():
            return {key: _parsed(found[key], expected[key]) for key in expected}
        case list(), list() if len(found) == len(expected):
            return [_parsed(a, b) for a, b in zip(found, expected, strict=True)]
    return found


# -------------------------------------------------------------------------------------------- JSON


def _check_json(case: Case, reference: Reference, values: Rows) -> Sequence[str]:
    """JSON is as documented, and the auditor has the same bytes."""
    try:
        decoder = _decoder(case, Wanted(json=True))
    except ValueError as error:
        if "no record" in str(error):
            return ("no JSON",)
        raise
    decoded = _decode(case, decoder)
    found = dict(
        zip(decoded.records.offsets.tolist(), decoded.records.values.to_pylist(), strict=True)
    )

    good = {row: value for row, value in values.items() if not wrong_inside(value)}
    expected: Rows = {}
    for row, value in good.items():
        schema, content = case.schema, value
        if isinstance(value, Branch):
            schema, content = schema[value.number], value.value
        expected[row] = None if content is None else reference.json(schema, content)
    _same({row: None if text is None else json.loads(text) for row, text in found.items()},
          expected, "JSON")  # fmt: skip
    # Of files, whose payloads of other schemas are objects with a member ``value``.
    if isinstance(case.schema, list) or case.schema["type"] != "record":
        return ("JSON",)
    auditor = AvroJson(case.schema)
    for row in good:
        assert auditor.payload(case.payloads[row], 0) == (found[row], len(case.payloads[row]))
    return ("JSON", "JSON of the auditor")


# -------------------------------------------------------------------------------- declared columns

OF_LEAVES = {
    "boolean": "Boolean", "int": "Int64", "long": "Int64", "float": "Float64", "double": "Float64",
    "string": "String", "enum": "String", "array": "Json", "map": "Json",
}  # fmt: skip


@dataclass(frozen=True)
class _Leaf:
    path: tuple[str, ...]
    type: str
    declared: Declared


def _check_declared(case: Case, reference: Reference, values: Rows) -> Sequence[str]:
    """Columns of some members; what nothing reads is not checked."""
    leaves = [*_leaves(reference, case.schema, (), frozenset())]
    chosen = [leaf for n, leaf in enumerate(leaves) if n % 3 == len(leaves) % 3 or n == 1]
    if not chosen:
        return ()
    columns = [
        Column(name=f"c{n}", type=leaf.type, field=".".join(leaf.path))  # type: ignore[arg-type]  # pydantic converts the text
        for n, leaf in enumerate(chosen)
    ]
    decoded = _decode(case, _decoder(case, Wanted(schema=schema_of(columns))))
    assert decoded.columns is not None
    decoded.columns.validate(full=True)
    kept = decoded.records.offsets.tolist()
    found = dict(zip(kept, decoded.columns.to_pylist(), strict=True))

    expected: Rows = {}
    for row, value in values.items():
        made = {f"c{n}": _at(reference, case.schema, value, leaf) for n, leaf in enumerate(chosen)}
        if not any(wrong_inside(each) for each in made.values()):
            expected[row] = made
    _same(_with_json(found, expected), expected, "declared columns")
    return ("declared columns",)


def _leaves(
    reference: Reference, declared: Declared, path: tuple[str, ...], inside: frozenset[str]
) -> Sequence[_Leaf]:
    of = reference.of(declared)
    if isinstance(of, list):
        names = members(of)
        if len(names) != 1:
            return [_Leaf(path, "Json", of)] if path and names else []
        (inner,) = [each for each in of if kind_of(each) != "null"]
        return _leaves(reference, inner, path, inside)
    if of["type"] == "record":
        name = full_name(of)
        if name in inside:
            return [_Leaf(path, "Json", of)]
        return [
            leaf
            for field in of["fields"]
            for leaf in _leaves(reference, field["type"], (*path, field["name"]), inside | {name})
        ]
    if not path or of["type"] == "null":
        return []
    return [_Leaf(path, _type_of(of), of)]


def _type_of(declared: Declared) -> str:
    kind = declared["type"]
    if kind in {"bytes", "fixed"}:
        return "Json" if "logicalType" in declared else "Binary"
    return OF_LEAVES[kind]


def _at(reference: Reference, declared: Declared, value: Any, leaf: _Leaf) -> Any:
    of = reference.of(declared)
    for name in leaf.path:
        while isinstance(value, Branch):
            of, value = reference.of(of[value.number]), value.value
        if value is None:
            return None
        of, value = next(f["type"] for f in of["fields"] if f["name"] == name), value[name]
        of = reference.of(of)
    while isinstance(value, Branch) and len(members(of)) == 1:
        of, value = reference.of(of[value.number]), value.value
    if isinstance(value, Branch) and value.value is None and kind_of(of[value.number]) == "null":
        return None
    if value is None or wrong_inside(value):
        return value
    if leaf.type == "Json":
        return Text(reference.json(of, value))
    return value


# ------------------------------------------------------------------------ payloads that are copied


def _check_bodies(case: Case, values: Rows) -> Sequence[str]:
    """Payloads that are copied into files are such that fastavro reads them."""
    decoded = _decode(case, _decoder(case, Wanted(bodies=True)))
    kept = decoded.records.offsets.tolist()
    good = [row for row, value in values.items() if not wrong_inside(value)]
    missing = set(good) - set(kept)
    errors = dict(zip(decoded.bad.rows.tolist(), decoded.bad.errors, strict=True))
    assert set(kept) <= set(good), "copied"
    assert all("not a UUID" in errors[row] for row in missing), errors
    for row in kept:
        try:
            _by_fastavro(case.schema, None, case.payloads[row])
        except SchemaParseException:
            return ("copied payloads of a schema that fastavro refuses",)
        except (OverflowError, ValueError) as error:
            # A date or a time outside of the years 1 to 9999, for which Python has no type.
            if "UUID" in str(error):
                raise
    return ("copied payloads",) if kept else ()


# ---------------------------------------------------------------------------------- another schema


def _check_evolved(case: Case, values: Rows) -> Sequence[str]:
    """What is read as another schema is what fastavro reads."""
    try:
        decoder = _decoder(case, Wanted(own_columns=True), case.reader)
        decoded = _decode(case, decoder)
    except ValueError as error:
        if "cannot be read as" in str(error):
            return ("incompatible schemas",)
        raise
    found, reference = _own_rows(decoded), Reference(case.reader)
    plain = without_logical(case.schema), without_logical(case.reader)
    errors = dict(zip(decoded.bad.rows.tolist(), decoded.bad.errors, strict=True))
    for row, content in found.items():
        try:
            expected, _ = _by_fastavro(*plain, case.payloads[row])
        except (TypeError, UnicodeDecodeError) as error:
            # It does not find names in unions of readers, and wants UTF-8 where bytes are read. Of
            # a reader's union it takes the first branch, where Java takes the one of equal type.
            is_known = isinstance(error, TypeError) or wrong_inside(values[row])
            if is_known or _has_text_beside_bytes(case.reader):
                continue
            raise
        _alike(reference, case.reader, _shown(reference, case.reader, content, expected), expected)
    is_refused = [row for row in errors if row in values and not wrong_inside(values[row])]
    for row in is_refused:
        assert any(word in errors[row] for word in REFUSALS), errors[row]
    return ("read as another schema", *(["refused by the reader's schema"] * bool(is_refused)))


def _has_text_beside_bytes(declared: Declared) -> bool:
    """Whether a schema has a union of text and bytes, so that bytes may be promoted to text."""
    match declared:
        case list():
            kinds = {kind_of(each) for each in declared}
            return kinds >= {"string", "bytes"} or any(map(_has_text_beside_bytes, declared))
        case dict():
            inner = (declared.get(name) for name in ("type", "items", "values"))
            fields = [field["type"] for field in declared.get("fields", ())]
            return any(map(_has_text_beside_bytes, (*inner, *fields)))
        case _:
            return False


REFUSALS = (
    "symbol that the reader's schema does not have", "cannot be read as", "is not in the reader's",
    "not UTF-8", "not a decimal", "not a time of day", "make different columns",
)  # fmt: skip


def _shown(reference: Reference, schema: Declared, content: dict[str, Any], expected: Any) -> Any:
    """The value of a row of columns; a null of an optional record is a row of nulls."""
    if not _fields(reference, schema):
        return content["value"]
    is_null = expected is None and not any(each is not None for each in content.values())
    return None if is_null else content


def _fields(reference: Reference, schema: Declared) -> Sequence[Any]:
    of = reference.of(schema)
    if isinstance(of, list):
        present = [each for each in of if kind_of(each) != "null"]
        return _fields(reference, present[0]) if len(present) == 1 else ()
    return of["fields"] if of["type"] == "record" else ()


def _alike(  # noqa: C901, PLR0912  # a table
    reference: Reference,
    declared: Declared,
    found: Any,
    expected: Any,
    inside: frozenset[str] = frozenset(),
) -> None:
    """Assert that a value of a column is what fastavro has, which says nothing of branches."""
    of = reference.of(declared)
    match of:
        case list():
            names = members(of)
            if found is None or not names:
                assert (found, expected) == (None, None)
                return
            name, inner = next(iter(names)), found
            if len(names) > 1:
                ((short, inner),) = [(k, v) for k, v in found.items() if v is not None]
                name = next(kind for kind, member in names.items() if member == short)
            branch = next(each for each in of if kind_of(each) == name)
            _alike(reference, branch, inner, expected, inside)
        case {"type": "record", "fields": fields}:
            if full_name(of) in inside:
                json.loads(found)
                return
            within = inside | {full_name(of)}
            if not fields:
                assert (found, expected) == ("{}", {})
                return
            assert found.keys() == expected.keys() == {field["name"] for field in fields}
            for field in fields:
                name = field["name"]
                _alike(reference, field["type"], found[name], expected[name], within)
        case {"type": "array", "items": items}:
            assert len(found) == len(expected)
            for one, other in zip(found, expected, strict=True):
                _alike(reference, items, one, other, inside)
        case {"type": "map", "values": values}:
            assert found.keys() == expected.keys()
            for key, value in found.items():
                _alike(reference, values, value, expected[key], inside)
        case {"type": "float"}:
            with np.errstate(all="ignore"):
                assert repr(found) == repr(float(np.float32(expected)))
        # fastavro takes the first branch of a reader's union that fits, Landfall the same type.
        case {"type": "int" | "long"} if isinstance(expected, float):
            assert float(found) == expected
        case {"type": "string"} if isinstance(expected, bytes):
            assert found.encode() == expected
        case {"type": "bytes" | "fixed"}:
            texts = (
                [expected.encode(each, "replace") for each in ("latin-1", "utf-8")]
                if isinstance(expected, str)
                else [expected]
            )
            made = [_in_column(value_of_bytes(of, each)) for each in texts]
            assert found in made
        case _:
            assert repr(found) == repr(expected)


def _in_column(value: Any) -> Any:
    if isinstance(value, LogicalValue):
        return value.text if value.column is None else value.column
    return value
