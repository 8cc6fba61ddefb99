"""What the fuzzers compare: rows of a decoder, and rows of a reference, as text."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from hypothesis import strategies as st

from landfall.api.spec import Column
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.decoders import Decoded, Decoder
from landfall.pipeline.records import filled
from tests.support.payloads.decoded import as_list

Rows: TypeAlias = dict[int, Any]
"""What is found in each row that is no dead letter."""


PATHS = (("a",), ("m", "a"), ("b",), ("é",), ("m", "m", "b"))
"""Paths of fields that payloads of named values may have."""


@dataclass(frozen=True)
class Case:
    """Payloads, and the columns that are declared."""

    columns: tuple[Column, ...]
    payloads: tuple[bytes | None, ...]

    def __repr__(self) -> str:
        """All of it, as one can read it."""
        names = [f"{column.name}: {column.type} of {column.path}" for column in self.columns]
        return f"{names}: {self.payloads}"

    def _repr_pretty_(self, printer: Any, _is_cycle: bool) -> None:
        printer.text(repr(self))


def cases(
    columns: Sequence[Column], payloads: st.SearchStrategy[bytes | None], most: int
) -> st.SearchStrategy[Case]:
    """Cases with up to four of the columns, and up to so many payloads."""
    chosen = st.lists(st.sampled_from(columns), min_size=1, max_size=4, unique_by=lambda c: c.name)
    rows = st.lists(payloads, min_size=1, max_size=most)
    return st.builds(Case, chosen.map(tuple), rows.map(tuple))


class BadError(Exception):
    """A reference says that a row is a dead letter."""


def decode(decoder: Decoder, payloads: Sequence[bytes | None]) -> Decoded:
    """What a decoder makes of payloads, whose rows are their offsets; all are accounted for."""
    decoded = decoder.decode(
        filled(TopicPartition("t", 0), range(len(payloads)), list(payloads))
    ).with_schema()
    rows = [*decoded.records.offsets.tolist(), *decoded.bad.rows.tolist()]
    assert sorted(rows) == list(range(len(payloads))), "rows are missing or doubled"
    return decoded


def column(name: str, type_: str, **more: str) -> Column:
    """A declared column."""
    return Column.model_validate({"name": name, "type": type_, **more})


def json_rows(decoded: Decoded) -> Rows:
    """The payloads as parsed JSON, objects as lists of pairs."""
    values = decoded.records.values.to_pylist()
    return dict(zip(decoded.records.offsets.tolist(), map(parsed, values), strict=True))


def parsed(text: bytes | str | None) -> Any:
    """JSON by the standard library: objects as lists of pairs, so that order and repeats count."""
    if text is None:
        return None
    return json.loads(text, object_pairs_hook=list, parse_constant=_refused)


def _refused(constant: str) -> Any:
    raise ValueError(f"JSON has no {constant}")


def field_rows(decoded: Decoded) -> Rows:
    """The fields by path."""
    columns = {path: as_list(values) for path, values in decoded.fields.items()}
    return {
        offset: {path: values[row] for path, values in columns.items()}
        for row, offset in enumerate(decoded.records.offsets.tolist())
    }


def column_rows(decoded: Decoded) -> Rows:
    """The declared columns."""
    assert decoded.columns is not None
    decoded.columns.validate(full=True)
    return dict(zip(decoded.records.offsets.tolist(), decoded.columns.to_pylist(), strict=True))


def own_rows(decoded: Decoded) -> Rows:
    """The columns of the payloads' own schema."""
    kept = decoded.records.offsets.tolist()
    rows: Rows = {}
    for part in decoded.by_schema or ():
        assert part.columns is not None
        part.columns.validate(full=True)
        made = part.columns.to_pylist()
        rows |= {kept[row]: value for row, value in zip(part.rows.tolist(), made, strict=True)}
    return rows


def expected(
    payloads: Sequence[bytes | None], value: Callable[[bytes], Any], of_tombstone: Any
) -> Rows:
    """What a reference makes of each payload; ``value`` raises ``BadError`` for a dead letter."""
    rows: Rows = {}
    for row, payload in enumerate(payloads):
        try:
            rows[row] = of_tombstone if payload is None else value(payload)
        except BadError:
            continue
    return rows


def same(found: Mapping[int, Any], wanted: Mapping[int, Any], what: str, decoded: Decoded) -> None:
    """Assert that rows are equal, in types too; NaN equals itself."""
    ours = {row: repr(value) for row, value in found.items()}
    theirs = {row: repr(value) for row, value in wanted.items()}
    if ours == theirs:
        return
    errors = dict(zip(decoded.bad.rows.tolist(), decoded.bad.errors, strict=True))
    differing = "\n".join(
        f"  row {row}: {ours.get(row, errors.get(row))}\n  but is {theirs.get(row, 'bad')}"
        for row in sorted({*ours, *theirs})
        if ours.get(row) != theirs.get(row)
    )
    raise AssertionError(f"{what} differ:\n{differing}")
