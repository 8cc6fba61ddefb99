"""``Filter``: which rows stay, which are left out, which are rejected, and what is refused."""

import numpy as np
import pyarrow as pa
import pytest

from landfall.pipeline.transforms import expression
from landfall.pipeline.transforms.expression import All, IsNull, Matches, Not, OneOf, Ordered, Some
from landfall.pipeline.transforms.masks import Typed, evaluate
from tests.support.driver.transformed import Group, rejected, spec_error

ROWS = [
    {"device": "phone", "n": 1, "meta": {"x": True}},
    {"device": "debug-1", "n": 2.5, "user-id": "u"},
    {"device": None, "n": -3},
    {},
    None,
]


def kept(where: str, *rows: object, option: str = "where") -> list[int]:
    decoded = Group([{"use": "Filter", "options": {option: where}}]).apply(*(rows or ROWS))
    assert not decoded.bad
    assert decoded.filtered + len(decoded.records) == len(rows or ROWS)
    return [offset - 100 for offset in decoded.records.offsets.tolist()]


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ('device == "phone"', [0]),
        ('device = "phone"'.replace("=", "!="), [1, 2, 3, 4]),
        ('device in ("phone", "debug-1")', [0, 1]),
        ('device in ("phone")', [0]),
        ('device not in ("phone",)', [1, 2, 3, 4]),
        ('not matches(device, "^debug-")', [0, 2, 3, 4]),
        ("device is null", [2, 3, 4]),
        ("device is not None", [0, 1]),
        ("n > 1", [1]),
        ("n >= 1 and n <= 2.5", [0, 1]),
        ("-3 <= n < 2", [0, 2]),
        ("2.5 == n or n == -3", [1, 2]),
        ("meta.x", [0]),
        ("meta.x == false", []),
        ("not meta.x", [1, 2, 3, 4]),
        ('field("user-id") == "u"', [1]),
        ('field("meta", "x") == true', [0]),
        ('device\n== "phone"\n  or n < 0', [0, 2]),
    ],
)
def test_a_row_is_kept_if_the_condition_holds(where: str, rows: list[int]) -> None:
    assert kept(where) == rows


def test_drop_is_the_opposite_of_where() -> None:
    assert kept('device == "phone"', option="drop") == [1, 2, 3, 4]


def test_text_is_not_compared_with_a_number() -> None:
    decoded = Group([{"use": "Filter", "options": {"where": "n > 1"}}]).apply(
        {"n": 2}, {"n": "2"}, {"n": 0}, {"n": True}, {"n": {}}, {"n": None}
    )

    assert decoded.records.offsets.tolist() == [100]
    assert decoded.filtered == 2
    assert rejected(decoded) == {
        1: "filter: n is text, compared with a number",
        3: "filter: n is a boolean, compared with a number",
        4: "filter: n is no single value, compared with a number",
    }


@pytest.mark.parametrize("n", [2**53 + 1, 2**63, -(2**70)])
def test_large_integers_are_compared_exactly(n: int) -> None:
    rows = [{"n": n - 1}, {"n": n}, {"n": n + 1}, {"n": float(n)}, {"n": None}]

    assert kept(f"n == {n}", *rows) == [i for i in range(4) if rows[i]["n"] == n]
    assert kept(f"n > {n}", *rows) == [i for i in range(4) if (rows[i]["n"] or 0) > n]


def test_a_column_of_doubles_is_compared_exactly() -> None:
    doubles = pa.array([float(2**53), 2.0**53 + 2, float("nan"), None])

    def holds(where: str) -> list[bool]:
        tested = evaluate(expression.parse(where), lambda _: Typed(doubles), 4)
        return [bool(each) for each in tested.holds]

    assert holds(f"n == {2**53 + 1}") == [False, False, False, False]
    assert holds(f"n < {2**53 + 1}") == [True, False, False, False]
    assert holds("n in (1, 2)") == [False, False, False, False]
    assert holds("n != 1") == [True, True, True, True]


def test_typed_columns_are_compared_by_type() -> None:
    group = Group(
        [{"use": "Filter", "options": {"where": 'at >= "2026-01-01T00:00:00Z" and ok and n < 5'}}],
        {"at": "Timestamp", "ok": "Boolean", "n": "Int32"},
    )

    decoded = group.apply(
        {"at": "2026-01-01T00:00:00Z", "ok": True, "n": 4},
        {"at": "2025-12-31T23:59:59.999Z", "ok": True, "n": 4},
        {"at": "2026-01-01T00:00:00Z", "ok": None, "n": 4},
        {"at": "2026-01-01T00:00:00Z", "ok": True, "n": 5},
    )

    assert decoded.records.offsets.tolist() == [100]
    assert decoded.columns is not None
    assert len(decoded.columns) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give one of where and drop"),
        ({"where": "a", "drop": "b"}, "give one of where and drop"),
        ({"were": "a"}, "unknown option were, did you mean where?"),
        ({"where": "a = 1"}, "options.where: cannot read it at '= 1'"),
        ({"where": "a == 1 AND b"}, "options.where: cannot read it at 'AND b'"),
        ({"where": "user-id == 1"}, "expected a field, got user - id; a name that is no"),
        ({"where": "a + 1"}, "not a condition: a + 1"),
        ({"where": "__import__('os').system('x')"}, "expected a field, got"),
        ({"where": "a == b"}, "expected text, a number, true, false or null, got b"),
        ({"where": "a == null"}, "write is null instead"),
        ({"where": "a in (1, null)"}, "a list holds values, not null"),
        ({"where": 'a in (1, "x")'}, "values of different kinds in one list"),
        ({"where": "a in ()"}, "a list holds values"),
        ({"where": "a < true"}, "true and false have no order"),
        ({"where": "a is 1"}, "is takes null, got 1"),
        ({"where": "a < 1e999"}, "number out of range"),
        ({"where": 'matches(a, "(")'}, "pattern '(': "),
        ({"where": "matches(a, 1)"}, "matches takes a pattern as text, got 1"),
        ({"where": "(" * 4000 + "a" + ")" * 4000}, "too"),
        ({"where": "not " * 101 + "a"}, "too deeply nested"),
        ({"where": "a" * 10_001}, "longer than 10000 characters"),
    ],
)
def test_what_is_no_condition_is_refused(options: dict[str, object], message: str) -> None:
    error = spec_error("Filter", options)

    assert error.startswith("spec.transforms[0]")
    assert message in error


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("n == 'x'", "n is a number (int64), compared with text"),
        ("s > 1", "s is text (string), compared with a number"),
        ("at > 5", "at is a time (timestamp[us, tz=UTC]), compared with a number"),
        ("at > 'soon'", "at: "),
        ("matches(n, 'x')", "n is a number (int64), compared with text"),
    ],
)
def test_a_column_of_another_kind_is_refused(where: str, message: str) -> None:
    columns = {"n": "Int64", "s": "String", "at": "Timestamp"}

    assert message in spec_error("Filter", {"where": where}, columns)


def test_a_condition_is_data() -> None:
    parsed = expression.parse('a in ("x", "y") and not (b < 1 or matches(c.d, "e")) or f is null')

    assert parsed == Some(
        (
            All(
                (
                    OneOf(("a",), ("x", "y")),
                    Not(Some((Ordered(("b",), "<", 1), Matches(("c", "d"), "e")))),
                )
            ),
            IsNull(("f",)),
        )
    )
    assert expression.paths(parsed) == (("a",), ("b",), ("c", "d"), ("f",))


def test_half_of_a_surrogate_pair_is_compared_with_text() -> None:
    def tested(where: str) -> tuple[list[bool], list[int]]:
        got = evaluate(expression.parse(where), lambda _: ["a", "\ud800"], 2)
        return np.asarray(got.holds).tolist(), list(got.wrong)

    assert tested('x == "a"') == ([True, False], [])
    assert tested('matches(x, "a")') == ([True, False], [1])
