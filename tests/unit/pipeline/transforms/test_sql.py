"""``Sql``: what a query gives, which rows it rejects, and which queries are refused."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from landfall.errors import Stalled
from landfall.pipeline.transforms import TransformContext, sql
from landfall.pipeline.transforms.sql import Sql
from landfall.pipeline.transforms.sql_query import _CAST_TYPES, FUNCTIONS
from tests.support.driver.transformed import Group, apply, payloads, records, rejected, spec_error

COLUMNS = {"a": "Int64", "s": "String", "d": "Float64", "t": "Timestamp", "ok": "Boolean"}
ROWS = [
    {"a": 1, "s": "x", "d": 0.5, "t": 1_763_700_000_000, "ok": True},
    {"a": 2, "s": "17", "d": None, "t": None, "ok": False},
    {"a": None, "s": None, "d": -1.5, "t": 0, "ok": None},
]


def group(query: str, **columns: str) -> Group:
    return Group([{"use": "Sql", "options": {"query": query}}], columns or COLUMNS)


def result(query: str, *rows: object) -> list[dict[str, object]]:
    columns = group(query).apply(*(rows or ROWS)).columns
    assert columns is not None
    return list(columns.to_pylist())


def test_the_columns_of_the_query_replace_the_columns() -> None:
    assert result("SELECT upper(s) AS big, a + 1 AS more, t FROM records WHERE a >= 1") == [
        {"big": "X", "more": 2, "t": datetime(2025, 11, 21, 4, 40, tzinfo=UTC)},
        {"big": "17", "more": 3, "t": None},
    ]


def test_rows_without_a_true_condition_are_left_out() -> None:
    got = group("SELECT * FROM records WHERE s <> 'x'").apply(*ROWS)

    assert got.records.offsets.tolist() == [101]
    assert got.filtered == 2
    assert [json.loads(each or b"") for each in payloads(got)] == [
        {"a": 2, "s": "17", "d": None, "t": None, "ok": False}
    ]


def test_a_row_for_which_an_expression_fails_is_rejected() -> None:
    got = group("SELECT s::INT AS n FROM records").apply(*ROWS)

    assert got.columns is not None
    assert got.columns.to_pylist() == [{"n": 17}, {"n": None}]
    assert list(rejected(got)) == [0]
    assert rejected(got)[0].startswith("sql: Conversion Error: Could not convert string 'x' to INT")


def test_a_row_for_which_the_condition_fails_is_rejected() -> None:
    got = group("SELECT a FROM records WHERE s <> 'x' AND s::INT > 1").apply(*ROWS)

    assert got.records.offsets.tolist() == [101]
    assert list(rejected(got)) == [0]
    assert got.filtered == 1


def test_columns_that_pass_keep_their_types() -> None:
    columns = group(
        "SELECT * REPLACE (a + 1 AS a), t + INTERVAL 1 DAY AS later, a::INT AS small FROM records"
    ).apply(*ROWS)

    assert columns.columns is not None
    assert {field.name: str(field.type) for field in columns.columns.schema} == {
        "a": "int64",
        "s": "string",
        "d": "double",
        "t": "timestamp[us, tz=UTC]",
        "ok": "bool",
        "later": "timestamp[us, tz=UTC]",
        "small": "int32",
    }


def test_only_what_the_query_makes_is_written() -> None:
    schema = pa.schema([("a", pa.int64()), ("s", pa.string()), ("d", pa.float64())])

    def written(query: str) -> set[str]:
        step = Sql.of({"query": query}, TransformContext(schema))
        return {name for (name,) in step.writes}

    assert written("SELECT * FROM records") == set()
    assert written("SELECT * EXCLUDE (a), a * 2 AS a FROM records") == {"a"}
    assert written("SELECT * REPLACE (upper(s) AS s) FROM records") == {"s"}
    assert written("SELECT a, r.s, d AS a2 FROM records r") == {"a2"}


def test_a_route_uses_what_the_query_made() -> None:
    step = {"use": "Sql", "options": {"query": "SELECT *, lower(s) AS country FROM records"}}
    routed = Group([step], COLUMNS, {"route__pattern": "c={field:country}"})

    assert [name for name, _ in routed.partition({"s": "DE"}).outputs] == ["c=de"]


def test_many_rows_stay_in_order() -> None:
    rows = [{"a": row} for row in range(25_000)]

    got = group("SELECT a * 2 AS b FROM records WHERE a % 3 = 0").apply(*rows)

    assert got.columns is not None
    assert got.columns.column("b").to_pylist() == [2 * row for row in range(0, 25_000, 3)]
    assert [offset - 100 for offset in got.records.offsets.tolist()] == [*range(0, 25_000, 3)]


def test_no_rows_give_the_same_columns() -> None:
    got = group("SELECT a * 2 AS b FROM records WHERE a > 5").apply(*ROWS)

    assert got.columns is not None
    assert got.columns.schema.names == ["b"]
    assert (len(got.records), got.filtered) == (0, 3)


values = st.fixed_dictionaries(
    {
        "a": st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 2),
        "s": st.none() | st.sampled_from(["x", "1", "22", "", "1e3"]),
    }
)


@given(st.lists(values, max_size=9), st.integers(0, 9))
def test_a_row_is_looked_at_by_itself(rows: list[dict[str, object]], cut: int) -> None:
    query = "SELECT a * 3 AS b, CASE WHEN a > 0 AND s::INT > 1 THEN 'y' END AS c FROM records "
    made = group(query + "WHERE s <> 'x' OR s::INT > a", a="Int64", s="String").pipeline()

    def outcome(*part: object) -> tuple[list[object], list[str], int]:
        got = apply(made, records(*part))
        assert got.columns is not None
        return got.columns.to_pylist(), list(got.bad.errors), got.filtered

    whole, first, second = outcome(*rows), outcome(*rows[:cut]), outcome(*rows[cut:])

    assert whole == (first[0] + second[0], first[1] + second[1], first[2] + second[2])
    assert len(whole[0]) + len(whole[1]) + whole[2] == len(rows)


ITEMS = (
    *("s::INT AS v", "a * 3 AS v", "s::DOUBLE / a AS v", "to_hex(a::TINYINT) AS v", "a - 1 AS v"),
    *("strptime(s, '%Y') AS v", "regexp_matches('x', s) AS v", "json_extract(s, '$.a') AS v"),
    *("CASE WHEN a > 0 AND s::INT > 1 THEN s::INT ELSE 0 END AS v", "coalesce(a, s::INT) AS v"),
    *("coalesce(s, 'x')::INT AS v", "s::INT IN (1, a) AS v", "s::INT BETWEEN 1 AND a AS v"),
    *("[s::INT, a] AS v", "{'x': s::INT, 'y': a::TINYINT} AS v", "try_cast(s AS INT) AS v"),
    *(
        "'x'::INT AS v",
        "concat(s::INT, '') AS v",
        "timezone(s, t) AS v",
        "'a' LIKE s ESCAPE s AS v",
    ),
    *("s::DOUBLE AS v", "a::TINYINT AS v", "s::BOOLEAN AS v", "s::DATE AS v", "a::VARCHAR AS v"),
    *("round(s::DOUBLE, 1) AS v", "(s::INT * 100)::TINYINT AS v", "ln(s::DOUBLE) > 1 AS v"),
    *("s::INT - s::TINYINT AS v", "s::INT > a::TINYINT AS v", "nullif(s::INT, 1) AS v"),
    *("s::INT = strlen(s) AS v", "s::INT + strptime(s, '%Y').year() AS v", "s::INT < s AS v"),
    *("s", "records.a AS v", "1 AS v", "* REPLACE (a * 3 AS a, s::INT AS s)"),
)
CONDITIONS = (
    *("", "s <> 'x'", "s <> 'x' AND s::INT > 1", "s::INT > 1 OR a::TINYINT > 1", "a IS NULL"),
    *("coalesce(a, s::INT) > 0", "CASE WHEN a > 0 THEN s::INT > 0 ELSE true END", "NOT s::BOOLEAN"),
)
odd_values = st.fixed_dictionaries(
    {
        "a": st.none() | st.sampled_from([2**63 - 1, -(2**63), 0, 1, -1, 200]),
        "s": st.none()
        | st.sampled_from(["x", "1", "22", "", "1e3", "(", '{"a": 1}', "true"])
        | st.sampled_from(["it's", "é", "a\\b", "two\nlines", "nul\0", "9" * 30, "y" * 300]),
        "t": st.none() | st.sampled_from([0, 1_763_700_000_000]),
    }
)


@given(
    st.lists(st.sampled_from(ITEMS), min_size=1, max_size=3, unique=True),
    st.sampled_from(CONDITIONS),
    st.lists(odd_values, min_size=1, max_size=20),
)
def test_the_same_rows_fail_with_the_same_errors_as_each_alone(
    items: list[str], condition: str, rows: list[dict[str, object]]
) -> None:
    names = (item.replace(" AS v", f" AS v{i}") for i, item in enumerate(items))
    query = f"SELECT {', '.join(dict.fromkeys(names))} FROM records"
    try:
        step = group(
            f"{query} WHERE {condition}" if condition else query,
            a="Int64",
            s="String",
            t="Timestamp",
        ).pipeline()
    except Stalled:  # two columns of one name
        reject()

    def outcome(*part: object) -> tuple[list[object], dict[int, str], int]:
        got = apply(step, records(*part))
        assert got.columns is not None
        return got.columns.to_pylist(), rejected(got), got.filtered

    alone = [outcome(row) for row in rows]
    together = outcome(*rows)

    assert together == (
        [row for kept, _, _ in alone for row in kept],
        {row: errors[0] for row, (_, errors, _) in enumerate(alone) if errors},
        sum(filtered for _, _, filtered in alone),
    )


@dataclass
class CountedConnection:
    """A connection, and the queries that it has run."""

    connection: sql.Connection
    queries: list[str] = field(default_factory=list)

    def sql(self, text: str) -> object:
        self.queries.append(text)
        return self.connection.sql(text)

    def execute(self, text: str, *parameters: object) -> object:
        self.queries.append(text)
        return self.connection.execute(text, *parameters)

    def register(self, name: str, table: pa.Table) -> None:
        self.connection.register(name, table)


@pytest.fixture
def queries(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The queries that are run."""
    counted = CountedConnection(sql._connection())
    sql._names.cache_clear()
    monkeypatch.setattr(sql, "_connection", lambda: counted)
    return counted.queries


def test_a_row_for_which_only_the_probe_fails_is_asked_for_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Null of a probe never becomes null of a column."""
    real = sql._errors

    def first_only(asked: Sequence[str], columns: pa.RecordBatch) -> list[str | None]:
        return [*real(asked, columns)[:1], *[None] * (len(asked) - 1)]

    monkeypatch.setattr(sql, "_errors", first_only)
    made = group("SELECT s::DATE AS unasked FROM records", s="String").pipeline()

    got = apply(made, records(*({"s": text} for text in ("2026-01-01", "x", "y", "z"))))

    assert got.columns is not None
    assert got.columns.num_rows == 1
    assert sorted(rejected(got)) == [1, 2, 3]


@pytest.mark.parametrize("share", [10_000, 100, 10, 1], ids=lambda share: f"1 of {share}")
def test_failing_rows_need_a_query_for_each_distinct_error(share: int, queries: list[str]) -> None:
    texts = ("n/a", "-", "null")
    rows = [
        {"a": row, "s": texts[row % 3] if row % share == 5 % share else "12.5"}
        for row in range(10_000)
    ]
    made = group("SELECT a, s::DOUBLE AS d FROM records", a="Int64", s="String").pipeline()
    queries.clear()

    got = apply(made, records(*rows))

    assert len(got.bad.rows) == 10_000 // share
    # It fails, rows and values are found, with their names, and each text is asked for.
    assert len(queries) <= 2 + len(texts) + 1


def test_casts_of_different_texts_need_two_queries_for_all_errors(queries: list[str]) -> None:
    rows = [{"a": row, "s": f"n/a {row}" if row % 10 == 5 else "12.5"} for row in range(10_000)]
    made = group("SELECT a, s::DOUBLE AS d FROM records", a="Int64", s="String").pipeline()
    queries.clear()

    got = apply(made, records(*rows))

    assert [error.split("'")[1] for error in rejected(got).values()] == [
        f"n/a {row}" for row in range(5, 10_000, 10)
    ]
    assert len(queries) == 2 + 2 + 1


@pytest.mark.parametrize("around", ["round({}, 2)", "{} * 2 > 7", "concat('is ', {} + 1)"])
def test_so_do_casts_that_functions_take(around: str, queries: list[str]) -> None:
    rows = [{"a": row, "s": f"n/a {row}" if row % 10 == 5 else "12.5"} for row in range(10_000)]
    query = f"SELECT a, {around.format('s::DOUBLE')} AS d FROM records"
    made = group(query, a="Int64", s="String").pipeline()
    queries.clear()

    got = apply(made, records(*rows))

    assert [error.split("'")[1] for error in rejected(got).values()] == [
        f"n/a {row}" for row in range(5, 10_000, 10)
    ]
    assert len(queries) == 2 + 2 + 1


CAST_TYPES = sorted(_CAST_TYPES)


AROUND_CASTS = (
    "{}",
    "coalesce({}, {})",
    "concat({}, '-')",
    "{}::VARCHAR::INT",
    "[{}, {}]",
    "if(s < 'x', {}, {})",
    "{} = 'n/a'",
    "regexp_matches(s, '(') = ({} IS NULL)",
)


@given(
    st.sampled_from(CAST_TYPES),
    st.sampled_from(AROUND_CASTS),
    st.lists(st.sampled_from(["n/a", "1"]) | st.text(max_size=250), min_size=2, max_size=9),
)
def test_errors_of_casts_are_what_duckdb_says_of_each_alone(
    kind: str, around: str, texts: list[str]
) -> None:
    query = f"SELECT {around.format(*[f's::{kind}'] * 2)} AS v FROM records"
    try:
        made = group(query, s="String").pipeline()
    except Stalled:  # the constant is of no such type
        reject()
    rows = [{"s": text} for text in texts]

    together = rejected(apply(made, records(*rows)))
    alone = [rejected(apply(made, records(row))) for row in rows]

    assert together == {row: errors[0] for row, errors in enumerate(alone) if errors}


@pytest.mark.parametrize(
    "expression",
    [
        *("twice(CASE WHEN a < 0 THEN a ELSE s::INT END)", "twice(coalesce(a, s::INT))"),
        *("twice(a) + s::INT", "(s::INT + 0) * twice(a)", "twice(a) * (s::INT + 0)"),
        *("round(twice(a), s::INT)", "[u::INT, s::INT]", "[twice(a), s::INT]"),
        *("a IS NULL OR twice(a) > s::INT", "twice(if(a < 0, a, s::INT))", "u::INT + s::INT"),
        *("twice(nullif(a, s::INT))", "twice(s::INT)", "twice(a + 0) BETWEEN s::INT AND u::INT"),
    ],
)
def test_what_fails_first_gives_the_error(expression: str) -> None:
    # No BIGINT, which the multiplication makes of its arguments, holds twice of -2.
    expression = expression.replace("twice", "4611686018427387905 * ")
    query = f"SELECT {expression} AS v FROM records"
    step = group(query, a="Int64", s="String", u="String").pipeline()
    rows = [
        {"a": a, "s": s, "u": u}
        for a, u in ((-2, "u"), (-2, "1"), (None, None), (1, "1"), (1, "u"))
        for s in ("x", "y", "z", "1")
    ]

    together = rejected(apply(step, records(*rows)))
    alone = [rejected(apply(step, records(row))) for row in rows]

    assert together == {row: errors[0] for row, errors in enumerate(alone) if errors}
    assert together


def test_more_errors_than_are_remembered_are_all_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql, "_KNOWN_ERRORS", 3)
    made = group("SELECT s::INT + 1 AS v FROM records", s="String").pipeline()
    first = rejected(apply(made, records({"s": "x"}, {"s": "y"})))

    both = rejected(apply(made, records({"s": "x"}, {"s": "z"}, {"s": "y"}, {"s": "w"})))

    assert {row: error.split("'")[1] for row, error in both.items()} == dict(enumerate("xzyw"))
    assert [both[0], both[2]] == [*first.values()]


def test_a_failing_condition_needs_as_few_queries(queries: list[str]) -> None:
    rows = [{"a": row, "s": "x" if row % 100 == 7 else "1"} for row in range(10_000)]
    made = group("SELECT a FROM records WHERE s::INT > 0", a="Int64", s="String").pipeline()
    queries.clear()

    got = apply(made, records(*rows))

    assert (len(got.bad.rows), len(got.records)) == (100, 9_900)
    assert len(queries) == 2 + 1 + 1 + 1


def test_an_argument_of_coalesce_is_evaluated_where_it_is_asked_for_only() -> None:
    query = "SELECT coalesce(a, s::INT) AS b, coalesce(a, s::INT + 1) AS c FROM records"

    got = group(query).apply({"a": 1, "s": "x"}, {"s": "7"}, {"s": "x"})

    assert got.columns is not None
    assert got.columns.to_pylist() == [{"b": 1, "c": 1}, {"b": 7, "c": 8}]
    assert list(rejected(got)) == [2]


def test_a_failure_of_any_kind_is_the_rows_own() -> None:
    """DuckDB says these by other exceptions than those of wrong values."""
    query = "SELECT timezone(s, t) AS u, unhex(s) AS h FROM records"

    got = group(query).apply({"s": "ab"}, {"s": "61", "t": None}, {"s": "x", "t": 0}, {"s": "é"})

    assert got.columns is not None
    assert got.columns.to_pylist() == [{"u": None, "h": b"\xab"}, {"u": None, "h": b"a"}]
    of_time, of_text = rejected(got).values()
    assert of_time.startswith("sql: Not implemented Error: Unknown Time")
    assert of_text.startswith(("sql: 'utf-8' codec can't decode byte 0xc", "sql: UnicodeDecode"))


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT now() FROM records", "the function now is not allowed"),
        ("SELECT random() FROM records", "the function random is not allowed"),
        ("SELECT uuid() FROM records", "the function uuid is not allowed"),
        ("SELECT current_localtime() FROM records", "current_localtime is not allowed"),
        ("SELECT age(t) FROM records", "the function age is not allowed"),
        ("SELECT current_date FROM records", "no column 'current_date'"),
        ("SELECT current_timestamp FROM records", "no column 'current_timestamp'"),
        (
            "SELECT a FROM records WHERE current_date > DATE '2026-01-01'",
            "no column 'current_date'",
        ),
        ("SELECT * REPLACE (random() AS a) FROM records", "the function random is not allowed"),
        ("SELECT lowr(s) FROM records", "the function lowr is not allowed, did you mean lower?"),
        ("SELECT getenv('HOME') FROM records", "the function getenv is not allowed"),
        ("SELECT sum(a) FROM records", "the function sum is not allowed"),
        ("SELECT count(*) FROM records", "the function count_star is not allowed"),
        ("SELECT upper(DISTINCT s) FROM records", "aggregates: not allowed"),
        ("SELECT row_number() OVER () FROM records", "window functions: not allowed"),
        ("SELECT a FROM records ORDER BY a", "ORDER BY: not allowed"),
        ("SELECT a FROM records LIMIT 1", "LIMIT: not allowed"),
        ("SELECT DISTINCT a FROM records", "DISTINCT: not allowed"),
        ("SELECT a FROM records GROUP BY a", "GROUP BY: not allowed"),
        ("SELECT a FROM records GROUP BY ALL", "GROUP BY: not allowed"),
        ("SELECT a FROM records USING SAMPLE 3", "SAMPLE: not allowed"),
        ("SELECT a FROM records TABLESAMPLE 10%", "samples"),
        ("SELECT a FROM records UNION ALL SELECT 1", "UNION and its like"),
        ("WITH t AS (SELECT 1) SELECT a FROM records", "WITH: not allowed"),
        ("SELECT (SELECT 1) FROM records", "subqueries: not allowed"),
        ("SELECT a FROM records WHERE a IN (SELECT 1)", "subqueries: not allowed"),
        ("SELECT a FROM (SELECT * FROM records)", "subqueries: not allowed"),
        ("SELECT a FROM records JOIN records r USING (a)", "joins (the step Lookup"),
        ("SELECT a FROM records, records r", "joins"),
        ("SELECT unnest([1, 2]) FROM records", "the function unnest is not allowed"),
        ("SELECT * FROM read_csv('/etc/passwd')", "table functions: not allowed"),
        ("SELECT * FROM '/etc/passwd'", "the only table is records"),
        ("SELECT * FROM main.records", "the only table is records"),
        ("SELECT 1", "without FROM records"),
        ("SELECT $1 FROM records", "parameters: not allowed"),
        ("SELECT #1 FROM records", "positions such as #1"),
        ("SELECT COLUMNS('a') FROM records", "COLUMNS: not allowed"),
        ("SELECT list_transform([a], lambda x: x) FROM records", "list_transform is not allowed"),
        ("SELECT s COLLATE NOCASE FROM records", "collations: not allowed"),
        ("SELECT try(a) FROM records", "TRY (TRY_CAST is allowed)"),
        ("SELECT landfall_row FROM records", "no column 'landfall_row'"),
        ("SELECT z FROM records", "no column 'z'"),
        ("SELECT a AS b, s AS b FROM records", "two columns are called 'b'"),
        ("SELECT NULL AS n FROM records", "column n would be null; cast it"),
        ("SELECT INTERVAL 1 DAY AS i FROM records", "cast it to another type"),
        ("SELECT a FROM records WHERE a + 1", "WHERE is int64, and not true or false"),
        ("SELECT upper(a, s) FROM records", "Binder Error: No function matches"),
        ("SELECT a FROM records; SELECT a FROM records", "expected one SELECT"),
        ("DROP TABLE records", "Only SELECT"),
        ("SELEC a", "syntax error"),
    ],
)
def test_a_query_that_is_not_of_each_row_is_refused(query: str, message: str) -> None:
    error = spec_error("Sql", {"query": query}, COLUMNS)

    assert error.startswith("spec.transforms[0].options.query: ")
    assert message in error


def test_json_payloads_have_no_columns() -> None:
    assert "Sql reads typed columns" in spec_error("Sql", {"query": "SELECT 1 FROM records"})


def test_without_duckdb_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql, "duckdb", None)

    error = spec_error("Sql", {"query": "SELECT a FROM records"}, COLUMNS)

    assert "install the extra sql of landfall-kafka" in error


def test_the_database_reaches_neither_files_nor_settings() -> None:
    connection = sql._connection()

    for statement in (
        "SELECT * FROM read_text('/etc/hostname')",
        "SET threads = 2",
        "SET enable_external_access = true",
        "COPY (SELECT 1) TO '/tmp/x.csv'",
        "INSTALL httpfs",
    ):
        with pytest.raises(duckdb.Error, match=r"disabled|locked"):
            connection.execute(statement)


def test_no_allowed_function_is_volatile_by_duckdbs_own_account() -> None:
    rows = (
        duckdb.connect()
        .sql("SELECT DISTINCT function_name, function_type, stability FROM duckdb_functions()")
        .fetchall()
    )
    volatile = {name for name, _, stability in rows if stability not in {None, "CONSISTENT"}}
    of_many = {name for name, type_, _ in rows if type_ in {"aggregate", "window"}}
    of_one = {name for name, type_, _ in rows if type_ in {"scalar", "macro"}}

    assert volatile & FUNCTIONS == set()
    assert of_many & FUNCTIONS - of_one == set()


def test_spark_is_refused_as_an_engine() -> None:
    error = spec_error("Sql", {"query": "SELECT n FROM records", "engine": "Spark"}, {"n": "Int64"})

    assert error.startswith(
        "spec.transforms[0].options.engine: Spark's SQL has no errors by record"
    )
