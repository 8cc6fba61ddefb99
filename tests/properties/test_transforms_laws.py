"""Laws of the built-in transforms: every row accounted for, in order, and by itself alone."""

import json
import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from landfall.pipeline.decoders import Decoded
from landfall.registry import Pipeline
from tests.support.driver import transformed
from tests.support.driver.transformed import Group, records

COLUMNS = {"s": "String", "n": "Int64", "d": "Float64", "ok": "Boolean", "at": "Timestamp"}
CHAINS: dict[str, list[dict[str, object]]] = {
    "filter": [
        {"use": "Filter", "options": {"where": 's in ("a", "b") or not n >= 1'}},
        {"use": "Filter", "options": {"drop": 'd > 0.5 and ok or matches(s, "^b")'}},
    ],
    "shape": [
        {"use": "Set", "options": {"day": "{date}", "o": "{offset}", "t": "{event_time}", "c": 1}},
        {"use": "Rename", "options": {"s": "d", "d": "s"}},
        {"use": "Select", "options": {"drop": ["ok"]}},
        {"use": "Flatten", "options": {}},
        {"use": "LogId", "options": {}},
        {"use": "Mask", "options": {"fields": ["d"], "kind": "Ip"}},
    ],
    "sql": [
        {
            "use": "Sql",
            "options": {
                "query": "SELECT *, n * 2 AS twice, s::DOUBLE AS v FROM records "
                "WHERE s <> 'a' OR n::INT > 1"
            },
        }
    ],
    "files": [
        {
            "use": "Lookup",
            "options": {
                "file": "examples/transforms/devices.csv",
                "sha256": "da2290249696b8a2e075f3780a52fe46055b4f8f8c37f2653200e837ce2caf8c",
                "key": "s",
                "match": "kind",
                "missing": "Reject",
            },
        },
    ],
    "cast": [
        {"use": "Cast", "options": {"n": "String", "d": "Int32", "s": "Float64", "ok": "String"}},
        {"use": "Cast", "options": {"at": "String", "n": "Int64"}},
    ],
}

texts = st.one_of(
    st.sampled_from(
        ["a", "b", "phone", "", "12", "1.5", "true", "ä", '"\\\n', "a@b.c", "10.1.2.3"]
    ),
    st.text(max_size=5),
)
integers = st.integers(-(2**63), 2**63 - 1)
scalars = st.one_of(st.none(), texts, integers, st.floats(allow_nan=False, allow_infinity=False))
typed = st.fixed_dictionaries(
    {},
    optional={
        "s": st.none() | texts,
        "n": st.none() | st.integers(-3, 3) | integers,
        "d": st.none() | st.floats(-2, 2),
        "ok": st.none() | st.booleans(),
        "at": st.none() | st.integers(0, 2**41),
    },
)
untyped = st.dictionaries(
    st.sampled_from(["s", "n", "d", "ok", "at", "m", "x"]),
    scalars | st.booleans() | st.dictionaries(st.sampled_from(["s", "x"]), scalars, max_size=2),
    max_size=5,
)
chains = st.sampled_from(sorted(CHAINS))
PIPELINES: dict[tuple[str, bool], Pipeline] = {}


def pipeline(chain: str, *, is_typed: bool) -> Pipeline:
    key = (chain, is_typed)
    if key not in PIPELINES:
        PIPELINES[key] = Group(CHAINS[chain], COLUMNS if is_typed else None).pipeline()
    return PIPELINES[key]


def apply(stages: Pipeline, rows: list[Any], start: int = 0) -> Decoded:
    return transformed.apply(stages, records(*rows).take(np.arange(start, len(rows))))


def results(decoded: Decoded) -> list[object]:
    """Everything about every row that is kept, and why others are not."""
    columns = decoded.columns.to_pylist() if decoded.columns is not None else None
    kept = [
        (offset, payload, repr(columns[row]) if columns is not None else None)
        for row, (offset, payload) in enumerate(
            zip(
                decoded.records.offsets.tolist(),
                decoded.records.values.to_pylist(),
                strict=True,
            )
        )
    ]
    return [kept, list(decoded.bad.errors), decoded.filtered]


def forms(chain: str) -> Iterator[tuple[bool, Any]]:
    """Typed columns and JSON payloads, which ``Sql`` does not read."""
    yield True, typed
    if chain != "sql":
        yield False, untyped


@given(chains, st.data())
def test_every_row_is_kept_dropped_or_rejected_and_order_stays(chain: str, data: Any) -> None:
    for is_typed, rows in forms(chain):
        given_rows = data.draw(st.lists(st.none() | rows, max_size=12))

        decoded = apply(pipeline(chain, is_typed=is_typed), given_rows)

        assert len(decoded.records) + decoded.filtered + len(decoded.bad) == len(given_rows)
        offsets = decoded.records.offsets.tolist()
        assert offsets == sorted(set(offsets))
        bad = {100 + row for row in decoded.bad.rows.tolist()}
        assert not bad & set(offsets)
        assert decoded.columns is None or len(decoded.columns) == len(offsets)


@given(chains, st.data())
def test_the_result_does_not_depend_on_where_a_batch_begins(chain: str, data: Any) -> None:
    for is_typed, rows in forms(chain):
        stages = pipeline(chain, is_typed=is_typed)
        given_rows = data.draw(st.lists(st.none() | rows, min_size=1, max_size=12))
        cut = data.draw(st.integers(0, len(given_rows)))

        whole = results(apply(stages, given_rows))
        parts = [results(apply(stages, given_rows[:cut])), results(apply(stages, given_rows, cut))]

        assert whole == [first + second for first, second in zip(*parts, strict=True)]  # type: ignore[operator]  # of lists, and of counts


OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
numbers = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)


@given(
    st.sampled_from(sorted(OPERATORS)),
    st.tuples(st.just(numbers), numbers) | st.tuples(st.just(texts), texts),
    st.data(),
)
def test_a_comparison_is_pythons(symbol: str, kind: Any, data: Any) -> None:
    strategy, constant = kind
    values = data.draw(st.lists(st.none() | st.just(constant) | strategy, max_size=8))
    where = f"x {symbol} {constant!r}"

    decoded = Group([{"use": "Filter", "options": {"where": where}}]).apply(
        *(json.dumps({"x": value}).encode() for value in values)
    )

    assert not decoded.bad
    assert decoded.records.offsets.tolist() == [
        100 + row
        for row, value in enumerate(values)
        if (symbol == "!=" if value is None else OPERATORS[symbol](value, constant))
    ]
