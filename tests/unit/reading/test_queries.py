"""Queries give what DuckDB gives over all rows in memory, and read only the columns they need."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import landfall
from landfall.errors import Reason, Retry, Stalled
from landfall.formats import column_reading
from landfall.ledger.offsets import TopicPartition
from landfall.reading import File, LandedGroup, RowSource, Scan
from landfall.reading.queries import answer
from landfall.reading.tail import Tail
from tests.support.ledger import tailed
from tests.support.ledger.landed_group import PARQUET
from tests.support.ledger.readable import CLICKS, ORDERS, Readable, Row
from tests.support.ledger.tailed import ROW, Tailed

FIRST, SECOND = "dt=2026-11-21/hr=04", "dt=2026-11-21/hr=05"


def rows(first: int, end: int) -> list[Row]:
    return [
        {"id": n, "name": f"n{n % 3}", "place": {"city": f"c{n % 2}", "zip": n}, "a.b": n * 10}
        for n in range(first, end)
    ]


@pytest.fixture
def landed(tmp_path: Path) -> Readable:
    made = Readable(tmp_path)
    made.land(CLICKS, (FIRST, rows(0, 7)), (SECOND, rows(7, 12)))
    made.land(ORDERS, (FIRST, rows(5, 15))).settle()
    return made


@pytest.fixture
def group(landed: Readable) -> LandedGroup:
    return landfall.open(landed.url)


def asked(group: LandedGroup, query: str, **choice: Any) -> list[tuple[Any, ...]]:
    with answer(group, query, **choice) as found:
        assert found is not None
        return sorted([(*found.columns,), *found.fetchall()], key=repr)


QUERIES = [
    "SELECT count(*) FROM clicks",
    "FROM clicks",
    "SELECT id, place.city FROM clicks WHERE name = 'n1' AND hr = '04'",
    "SELECT place.zip FROM clicks WHERE place.city = 'c1'",
    'SELECT "a.b" FROM clicks WHERE id > 3',
    "SELECT c.id FROM clicks c JOIN orders o USING (id) WHERE o.name > 'n0'",
    "SELECT clicks FROM clicks",
    "SELECT * EXCLUDE (place) FROM clicks",
    "SELECT COLUMNS('[in].*') FROM clicks",
    "WITH x AS (SELECT * FROM clicks) SELECT count(DISTINCT name) FROM x",
    "WITH x AS MATERIALIZED (FROM clicks) SELECT a.id, b.name FROM x a JOIN x b ON a.id = b.id + 1",
    "WITH RECURSIVE n(i) AS (SELECT 0 UNION SELECT i + 1 FROM n WHERE i < 9) FROM clicks, n",
    "SELECT id FROM clicks WHERE id > (SELECT avg(o.id) FROM orders o WHERE o.name = clicks.name)",
    "SELECT * FROM clicks NATURAL JOIN orders",
    "SELECT id FROM clicks UNION ALL BY NAME SELECT name FROM orders",
    "SELECT hr, sum(id) AS total FROM clicks GROUP BY ALL ORDER BY total DESC LIMIT 1",
    "SELECT id FROM clicks WHERE EXISTS (SELECT * FROM orders WHERE orders.id = clicks.id)",
    "SELECT (SELECT max(id) FROM orders), min(id) FROM clicks WHERE dt IN (SELECT dt FROM orders)",
    "SELECT * FROM clicks WHERE false",
    "SELECT id FROM clicks WHERE hr = '05' OR id = 2",
    "SELECT id FROM clicks WHERE hr <> '05' AND name IN ('n0', 'n2') AND id BETWEEN 1 AND 5",
    "SELECT id FROM clicks WHERE hr > '04' AND place.city = 'c1' AND name IS NOT NULL",
    "SELECT id FROM clicks WHERE dt IS NULL OR hr IS NULL",
    "SELECT id FROM clicks WHERE name LIKE 'n%' AND NOT (id > 3 AND hr = '04')",
    "FROM (FROM clicks WHERE false) FULL JOIN (SELECT sum(id) AS n FROM clicks) ON true",
    "PIVOT clicks ON name USING count(*)",
    "FROM (PIVOT clicks ON name USING max(id))",
    "PIVOT clicks ON name IN ('n0', 'n1') USING sum(id) GROUP BY hr",
    'UNPIVOT (SELECT id, "a.b" FROM clicks) ON COLUMNS(*)',
    "SELECT id, row_number() OVER (PARTITION BY name ORDER BY id) FROM clicks QUALIFY id > 3",
    "SELECT a.id, b.id FROM clicks a ASOF JOIN orders b ON a.id >= b.id",
    "SELECT CLICKS.Id FROM Clicks ORDER BY ID LIMIT 3",
    "SUMMARIZE SELECT id, name FROM clicks",
    "DESCRIBE clicks",
]


@pytest.mark.parametrize("query", QUERIES)
def test_the_answer_is_that_over_all_rows_in_memory(group: LandedGroup, query: str) -> None:
    with closing(duckdb.connect()) as connection:
        for topic in group.topics():
            connection.register(topic, group.scan(topic).to_arrow())
        expected = connection.sql(query)
        by_duckdb = sorted([(*expected.columns,), *expected.fetchall()], key=repr)

    assert asked(group, query) == by_duckdb


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """The columns of each read of a row group."""
    seen = list[set[str]]()
    there = column_reading.there

    def noted(columns: Any, schema: pa.Schema) -> list[str] | None:
        found = there(columns, schema)
        seen.append({*(schema.names if found is None else found)})
        return found

    monkeypatch.setattr(column_reading, "there", noted)
    return seen


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("SELECT count(*) FROM clicks", {"id"}),
        ("SELECT max(id) FROM clicks WHERE name = 'n1'", {"id", "name"}),
        ("SELECT max(id) FROM clicks WHERE place.zip > 3 AND name > 'n0'", {"id", "name", "place"}),
        ("SELECT place.city FROM clicks", {"place"}),
        ('SELECT "a.b" FROM clicks ORDER BY id LIMIT 1', {"a.b", "id"}),
        ("WITH x AS (SELECT * FROM clicks) SELECT name FROM x", {"name"}),
        ("SELECT * FROM clicks NATURAL JOIN orders", {"id", "name", "place", "a.b"}),
    ],
)
def test_only_the_columns_that_a_query_needs_are_read(
    group: LandedGroup, read: list[set[str]], query: str, columns: set[str]
) -> None:
    assert len(asked(group, query)) > 1

    assert set[str]().union(*read) == columns


@pytest.mark.parametrize(
    ("condition", "hours"),
    [
        ("true", {"04", "05"}),
        ("hr = '05'", {"05"}),
        ("hr IN ('05', '06') AND id > 3", {"05"}),
        ("hr < '05' OR id = 3", {"04", "05"}),
        ("hr > '05'", set()),
        ("dt IS NULL", set()),
        ("dt || hr = '2026-11-2105'", {"04", "05"}),
    ],
)
def test_only_objects_in_folders_that_the_condition_admits_are_read(
    group: LandedGroup, monkeypatch: pytest.MonkeyPatch, condition: str, hours: set[str]
) -> None:
    seen = set[str | None]()
    batches = RowSource.batches

    def noted(source: RowSource, store: Any, files: Sequence[File]) -> Iterator[pa.RecordBatch]:
        seen.update(file.partition_values["hr"] for file in files)
        return batches(source, store, files)

    monkeypatch.setattr(RowSource, "batches", noted)

    asked(group, f"SELECT id FROM clicks WHERE {condition}")

    assert seen == hours


@pytest.mark.parametrize(
    ("condition", "rows_read"), [("dt IS NOT NULL", 7), ("dt IS NULL", 2), ("hr = '04'", 9)]
)
def test_a_folder_without_a_value_is_known_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, condition: str, rows_read: int
) -> None:
    made = Readable(tmp_path)
    made.land(CLICKS, (FIRST, rows(0, 7)), ("dt=__HIVE_DEFAULT_PARTITION__/hr=04", rows(7, 9)))
    made.settle()
    seen = list[int]()
    batches = RowSource.batches

    def noted(source: RowSource, store: Any, files: Sequence[File]) -> Iterator[pa.RecordBatch]:
        seen.extend(file.rows for file in files)
        return batches(source, store, files)

    monkeypatch.setattr(RowSource, "batches", noted)

    found = asked(landfall.open(made.url), f"SELECT count(*) AS n FROM clicks WHERE {condition}")

    assert found[-1] == (rows_read,)
    assert sum(seen) == rows_read


def test_all_topics_are_read_at_one_slot(landed: Readable) -> None:
    group = landfall.open(landed.url)
    query = "SELECT (SELECT count(*) FROM clicks) AS c, (SELECT count(*) FROM orders) AS o"
    with answer(group, query) as found:
        landed.land(ORDERS, (SECOND, rows(15, 18))).settle()
        assert found is not None
        assert found.fetchall() == [(12, 10)]
    assert asked(group, query)[-1] == (12, 13)


def test_only_chosen_objects_are_read(group: LandedGroup) -> None:
    query = "SELECT count(*) AS n, min(hr) AS hr FROM clicks"

    assert asked(group, query, where={"hr": "05"})[-1] == (5, "05")
    assert asked(group, query, output_partition=FIRST)[-1] == (7, "04")


def test_rows_of_json_have_fields(tmp_path: Path) -> None:
    Readable(tmp_path, format="Json").land(CLICKS, (FIRST, rows(0, 3))).settle()
    group = landfall.open(f"file://{tmp_path}/landed")

    assert asked(group, "SELECT sum((value->>'$.id')::BIGINT) AS n FROM clicks") == [("n",), (3,)]


DOTTED = TopicPartition("web.clicks-2", 0)


def test_a_topic_whose_name_is_no_word_is_quoted(tmp_path: Path) -> None:
    made = Readable(tmp_path)
    made.ledger.add(DOTTED)
    made.land(DOTTED, (FIRST, rows(0, 3))).settle()

    query = "SELECT count(id) AS n FROM \"web.clicks-2\" WHERE name <> 'n0'"
    assert asked(landfall.open(made.url), query) == [("n",), (2,)]


def test_two_topics_with_one_name_in_sql_are_refused(landed: Readable) -> None:
    other = TopicPartition("Clicks", 0)
    landed.ledger.add(other)
    landed.land(other, (FIRST, rows(0, 3))).settle()

    said = refusal(landfall.open(landed.url), "FROM clicks")

    assert said == "the query: Clicks and clicks are two topics, and one name in SQL"


def test_a_column_whose_name_is_odd_is_read(tmp_path: Path) -> None:
    odd = [{'we"ird': n, "id": n, "Id": 10 * n, "a\nb": n} for n in range(3)]
    made = Readable(tmp_path)
    made.land(CLICKS, (FIRST, odd)).settle()
    group = landfall.open(made.url)

    assert asked(group, 'SELECT sum("we""ird") AS n FROM clicks')[-1] == (3,)
    assert asked(group, 'SELECT sum("a\nb") AS n FROM clicks')[-1] == (3,)
    assert asked(group, "SELECT sum(id_1) AS n FROM clicks")[-1] == (30,)


def test_a_query_writes_a_file(group: LandedGroup, tmp_path: Path) -> None:
    with answer(group, f"COPY (SELECT id, name FROM clicks) TO '{tmp_path}/made.parquet'"):
        pass

    assert pq.read_table(tmp_path / "made.parquet").num_rows == 12


def refusal(group: LandedGroup, query: str) -> str:
    with pytest.raises(Stalled) as stalled:
        asked(group, query)
    assert stalled.value.reason is Reason.SPEC_INVALID
    return str(stalled.value)


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT * FROM visits", "Table with name visits does not exist"),
        ("SELEC 1", "syntax error"),
        ("SELECT missing FROM clicks", '"missing" not found'),
        ("SELECT name::INT FROM clicks", "Could not convert"),
        ("SELECT * FROM 's3://logs/x.parquet'", "httpfs"),
    ],
)
def test_what_duckdb_refuses_is_said_with_the_topics(
    group: LandedGroup, query: str, why: str
) -> None:
    said = refusal(group, query)

    assert why in said
    assert said.startswith("the query: ")
    assert said.endswith("\ntables are topics: clicks, orders; and dead_letters")


def test_a_lost_object_is_named(landed: Readable, group: LandedGroup) -> None:
    lost = next(landed.root.glob(f"landed/clicks/{SECOND}/*"))
    with pytest.raises(Stalled) as stalled:
        schema_then(group, lost)

    assert stalled.value.reason is Reason.OBJECT_LOST
    assert lost.name in str(stalled.value)


def schema_then(group: LandedGroup, lost: Path) -> None:
    """Lose an object after its columns were read."""
    with answer(group, "SELECT sum(id) FROM clicks") as found:
        lost.unlink()
        assert found is not None
        found.fetchall()


def test_a_store_that_is_away_is_no_fault_of_the_query(
    group: LandedGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object, tail: bool) -> Iterator[pa.RecordBatch]:
        raise Retry("the store is away")
        yield

    monkeypatch.setattr(Scan, "batches_of", away)

    with pytest.raises(Retry, match="is away"):
        asked(group, "FROM clicks")


def test_a_tail_is_in_the_tables() -> None:
    made = Tailed(PARQUET)
    made.produce(tailed.CLICKS[0], *[ROW] * 6)
    query = "SELECT _landfall_source AS half, count(*) AS n FROM clicks GROUP BY ALL"

    assert asked(made.reader(), query, tail=True) == [("half", "n"), ("tail", 6)]


def test_only_the_half_that_the_condition_admits_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    tails = list[Tail]()
    tail_batches = RowSource.tail_batches

    def noted(source: RowSource, tail: Tail) -> Iterator[pa.RecordBatch]:
        tails.append(tail)
        return tail_batches(source, tail)

    monkeypatch.setattr(RowSource, "tail_batches", noted)
    made = Tailed(PARQUET)
    made.produce(tailed.CLICKS[0], *[ROW] * 6)
    made.land(tailed.CLICKS[0], 4, complete=True)
    made.confirm(1)
    query = "SELECT count(*) AS n, max(_landfall_source) FROM clicks WHERE _landfall_source = "

    assert asked(made.reader(), f"{query}'landed'", tail=True)[-1] == (4, "landed")
    assert tails == []
    assert asked(made.reader(), f"{query}'tail'", tail=True)[-1] == (2, "tail")
