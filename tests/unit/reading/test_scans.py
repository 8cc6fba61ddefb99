"""A scan has exactly the rows that are visible at its slot."""

import io
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import landfall
from landfall.errors import LandfallError, Reason, Stalled
from landfall.reading import objects
from landfall_audit.buckets import open_bucket
from landfall_audit.ledger.inventory import Inventory
from tests.support.audit.audited_spec import for_auditor
from tests.support.ledger.readable import BODIES, CLICKS, ORDERS, Readable, Row, parquet
from tests.support.ledger.sample_ledger import GROUP

FIRST, SECOND = "dt=2026-11-21/hr=04", "dt=2026-11-21/hr=05"


def rows(first: int, end: int) -> list[Row]:
    return [{"id": i, "name": f"n{i}"} for i in range(first, end)]


@pytest.fixture
def landed(tmp_path: Path) -> Readable:
    return Readable(tmp_path)


def ids(scan: Any) -> list[int]:
    found: list[int] = scan.to_arrow()["id"].to_pylist()
    return found


def test_a_scan_has_what_is_visible_and_nothing_else(landed: Readable) -> None:
    landed.land(CLICKS, (FIRST, rows(0, 7)), (SECOND, rows(7, 9)))
    landed.land(ORDERS, (FIRST, rows(0, 3))).settle()
    landed.land(CLICKS, (SECOND, rows(9, 20)))
    orphan = landed.root / "landed/clicks" / FIRST / "9_9_00000000000000000000.parquet"
    orphan.write_bytes(parquet(rows(100, 105)))

    opened = landfall.open(landed.url)

    assert opened.topics() == ["clicks", "orders"]
    assert ids(opened.scan("clicks")) == [*range(9)]
    assert opened.scan("clicks").rows == 9


def test_a_slot_gives_the_same_rows_for_ever(landed: Readable) -> None:
    slots = []
    for i in range(4):
        landed.land(CLICKS, (FIRST, rows(10 * i, 10 * i + 10)))
        slots.append(landed.settle())
    before = {slot: ids(landfall.open(landed.url).scan("clicks", slot=slot)) for slot in slots}
    pinned = landfall.open(landed.url).scan("clicks")
    landed.land(CLICKS, (FIRST, rows(40, 50))).settle()

    opened = landfall.open(landed.url)

    assert {slot: ids(opened.scan("clicks", slot=slot)) for slot in slots} == before
    assert before == {slot: [*range(10 * i)] for i, slot in enumerate(slots, 1)}
    assert ids(pinned) == [*range(40)]
    assert ids(opened.scan("clicks", after=slots[1], slot=slots[2])) == [*range(20, 30)]


def test_a_scan_says_what_is_committed_and_not_in_it(landed: Readable) -> None:
    before = landed.settle()
    landed.land(CLICKS, ("dt=2026-11-21/hr=04", [{"id": 7}, {"id": 8}]))
    group = landfall.open(landed.url)

    scan = group.scan("clicks")
    assert (scan.unconfirmed, group.scan("clicks", slot=before).unconfirmed) == (2, 0)
    landed.settle()
    assert group.scan("clicks").unconfirmed == 0
    assert group.scan("clicks").rows == scan.rows + 2


def test_a_slot_that_is_not_there_yet_is_refused(landed: Readable) -> None:
    last = landed.land(CLICKS, (FIRST, rows(0, 1))).settle()

    with pytest.raises(ValueError, match=rf"slot {last + 1} is not in the ledger.* {last}"):
        landfall.open(landed.url).scan("clicks", slot=last + 1)


def test_a_reader_that_is_ahead_of_the_ledger_has_read_another_one(landed: Readable) -> None:
    last = landed.land(CLICKS, (FIRST, rows(0, 1))).settle()
    opened = landfall.open(landed.url)
    refused = rf"slot {last + 1} is not in the ledger, whose last is {last}"

    with pytest.raises(ValueError, match=refused):
        opened.scan("clicks", after=last + 1)
    with pytest.raises(ValueError, match=refused):
        next(opened.follow("clicks", last + 1, 1))
    assert opened.scan("clicks", after=last).rows == 0


def test_a_topic_that_the_ledger_does_not_have_is_refused(landed: Readable) -> None:
    landed.land(CLICKS, (FIRST, rows(0, 1))).settle()
    opened = landfall.open(landed.url)

    with pytest.raises(ValueError, match=r"^topic no\.such is not in .* has clicks, orders$"):
        opened.scan("no.such")
    assert opened.scan("orders").rows == 0  # nothing of it is landed yet


def test_an_opened_group_goes_on(landed: Readable) -> None:
    opened = landfall.open(landed.url)
    assert opened.topics() == []
    landed.land(CLICKS, (FIRST, rows(0, 3))).settle()
    assert ids(opened.scan("clicks")) == [0, 1, 2]
    landed.land(CLICKS, (FIRST, rows(3, 5))).settle()

    assert ids(opened.scan("clicks")) == [*range(5)]


@pytest.mark.parametrize("first", ["ms", "us"])
def test_objects_of_milliseconds_and_of_microseconds_are_scanned_together(
    landed: Readable, first: str
) -> None:
    """Earlier versions landed milliseconds (ADR 0038)."""
    at = datetime(2026, 11, 21, 4, 5, 6, 789000, tzinfo=UTC)
    landed.land(CLICKS, (FIRST, [{"id": 0, "at": at}]), (SECOND, [{"id": 1, "at": at}])).settle()
    other = FIRST if first == "ms" else SECOND
    (path,) = (landed.root / "landed/clicks" / other).iterdir()
    found = pq.read_table(io.BytesIO(path.read_bytes()))
    in_millis = found["at"].cast(pa.timestamp("ms", "UTC"))
    pq.write_table(found.set_column(found.schema.get_field_index("at"), "at", in_millis), path)

    table = landfall.open(landed.url).scan("clicks").to_arrow()

    assert table.schema.field("at").type == pa.timestamp("us", "UTC")
    assert table["at"].to_pylist() == [at, at]


@pytest.mark.parametrize("format_", BODIES)
def test_every_format_has_the_rows_that_others_read(tmp_path: Path, format_: str) -> None:
    landed = Readable(tmp_path, format_)
    landed.land(CLICKS, (FIRST, rows(0, 12)), (SECOND, rows(12, 17))).settle()
    scan = landfall.open(landed.url).scan("clicks")
    if format_ == "Json":
        scan = scan.with_schema(pa.schema({"id": pa.int64(), "hr": pa.string()}))

    table = scan.to_arrow()

    column = "value" if format_ == "Text" else "id"
    assert [int(value) for value in table[column].to_pylist()] == [*range(17)]
    assert table["hr"].to_pylist() == ["04"] * 12 + ["05"] * 5


def test_json_is_text_unless_columns_are_asked_for(tmp_path: Path) -> None:
    landed = Readable(tmp_path, "Json")
    landed.land(CLICKS, (FIRST, rows(0, 2))).settle()
    connection = duckdb.connect()

    landfall.open(landed.url).scan("clicks").to_duckdb(connection, "clicks")

    query = "SELECT (value->>'id')::INT, dt, hr FROM clicks ORDER BY 1"
    assert connection.sql(query).fetchall() == [
        (0, "2026-11-21", "04"),
        (1, "2026-11-21", "04"),
    ]


def test_duckdb_reads_the_files_that_the_auditor_finds_named(landed: Readable) -> None:
    for i in range(5):
        landed.land(
            CLICKS, (FIRST, rows(10 * i, 10 * i + 6)), (SECOND, rows(10 * i + 6, 10 * i + 10))
        )
    landed.settle()
    scan = landfall.open(landed.url).scan("clicks")
    inventory = Inventory(open_bucket(for_auditor(landed.group.spec.output)), GROUP)
    named = [
        key
        for life in inventory.partitions()
        for each in inventory.ranges(life)
        for key in each.objects or ()
    ]
    inventory.close()
    connection = duckdb.connect()
    scan.to_duckdb(connection, "clicks")

    truth = connection.execute(
        "SELECT count(*), sum(id), count(DISTINCT id) FROM read_parquet($files)",
        {"files": [str(landed.root / "landed" / key) for key in named]},
    ).fetchall()

    assert truth == [(50, sum(range(50)), 50)]
    assert (
        connection.sql("SELECT count(*), sum(id), count(DISTINCT id) FROM clicks").fetchall()
        == truth
    )
    assert connection.sql("SELECT count(*) FROM clicks WHERE hr = '04'").fetchall() == [(30,)]
    assert sorted(file.key for file in scan.files()) == sorted(named)


def test_columns_that_came_later_are_null_before(landed: Readable) -> None:
    landed.land(CLICKS, (FIRST, [{"id": 1}]))
    landed.land(CLICKS, (FIRST, [{"id": 2, "country": "NL"}])).settle()

    table = landfall.open(landed.url).scan("clicks").to_arrow()

    assert table.select(["id", "country"]).to_pylist() == [
        {"id": 1, "country": None},
        {"id": 2, "country": "NL"},
    ]


@pytest.mark.parametrize("value", [["a"], {"city": "c"}, [{"n": 1}], b"b", 1.5, True])
def test_a_column_of_any_type_may_come_later(landed: Readable, value: object) -> None:
    landed.land(CLICKS, (FIRST, [{"id": 1}]))
    landed.land(CLICKS, (FIRST, [{"id": 2, "more": value}])).settle()

    table = landfall.open(landed.url).scan("clicks").select("id", "more").to_arrow()

    assert table.to_pylist() == [{"id": 1, "more": None}, {"id": 2, "more": value}]


def test_columns_that_do_not_fit_are_named(landed: Readable) -> None:
    landed.land(CLICKS, (FIRST, [{"id": 1}]))
    landed.land(CLICKS, (FIRST, [{"id": {"a": 2}}])).settle()

    with pytest.raises(Stalled, match=r"clicks/.*: its columns do not fit .*id") as raised:
        _ = landfall.open(landed.url).scan("clicks").schema

    assert raised.value.reason is Reason.SPEC_INVALID


def test_a_folder_takes_the_place_of_a_column_as_in_hive(landed: Readable) -> None:
    landed.land(CLICKS, ("country=a%2Fb", [{"id": 1, "country": "x"}]))
    landed.land(
        CLICKS, ("country=__HIVE_DEFAULT_PARTITION__", [{"id": 2, "country": "x"}])
    ).settle()

    table = landfall.open(landed.url).scan("clicks").to_arrow()

    assert table.to_pylist() == [{"id": 1, "country": "a/b"}, {"id": 2, "country": None}]


def test_selected_columns_only(landed: Readable) -> None:
    landed.land(CLICKS, (FIRST, rows(0, 3))).settle()
    scan = landfall.open(landed.url).scan("clicks")

    assert scan.select("name").to_arrow().to_pylist() == [{"name": f"n{i}"} for i in range(3)]
    assert scan.select("hr").to_arrow().to_pylist() == [{"hr": "04"}] * 3


def test_each_object_is_read_by_the_spec_that_made_it(tmp_path: Path) -> None:
    landed = Readable(tmp_path, "Json")
    landed.land(CLICKS, (FIRST, rows(0, 3))).settle()
    landed.format, landed.route = "Parquet", {"pattern": "day={date}"}
    landed.open(2).land(CLICKS, ("day=2026-11-21", rows(3, 5))).settle()
    asked = pa.schema({"id": pa.int64(), "day": pa.string(), "dt": pa.string()})
    opened = landfall.open(landed.url)

    table = opened.scan("clicks").with_schema(asked).to_arrow()

    assert table["id"].to_pylist() == [*range(5)]
    assert table["day"].to_pylist() == [None] * 3 + ["2026-11-21"] * 2
    since = datetime(2026, 11, 21, 5, tzinfo=UTC)
    assert opened.scan("clicks", since=since).rows == 2


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({}, 24),
        ({"output_partition": "dt=2026-11-21"}, 24),
        ({"output_partition": "dt=2026-11-22"}, 0),
        ({"output_partition": "dt=2026-11-21/hr=0?"}, 10),
        ({"where": {"hr": "07"}}, 1),
        ({"where": {"hr": ["07", "08"], "dt": "2026-11-21"}}, 2),
        ({"where": {"other": "1"}}, 0),
        ({"since": datetime(2026, 11, 21, 22, 59, tzinfo=UTC)}, 2),
        ({"until": datetime(2026, 11, 21, 2, tzinfo=UTC)}, 2),
        ({"until": datetime(2026, 11, 21, 2, 0, 1, tzinfo=UTC)}, 3),
    ],
)
def test_output_partitions_are_chosen(
    landed: Readable, choice: dict[str, Any], expected: int
) -> None:
    parts = [(f"dt=2026-11-21/hr={hour:02}", rows(hour, hour + 1)) for hour in range(24)]
    landed.land(CLICKS, *parts).settle()

    assert landfall.open(landed.url).scan("clicks", **choice).rows == expected


def test_a_time_without_a_zone_is_refused(landed: Readable) -> None:
    landed.land(CLICKS, (FIRST, rows(0, 1))).settle()

    with pytest.raises(ValueError, match="since needs a time zone"):
        landfall.open(landed.url).scan("clicks", since=datetime(2026, 11, 21))  # noqa: DTZ001
    with pytest.raises(ValueError, match="until: expected a datetime with a time zone, got '2026'"):
        landfall.open(landed.url).scan("clicks", until="2026")  # type: ignore[arg-type]  # wrong


@pytest.mark.parametrize("format_", ["Parquet", "Orc", "Json"])
@pytest.mark.parametrize("small", [True, False])
def test_a_damaged_or_missing_object_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_: str, small: bool
) -> None:
    monkeypatch.setattr(objects, "SMALL_BYTES", 10**9 if small else 0)
    landed = Readable(tmp_path, format_)
    landed.land(CLICKS, (FIRST, rows(0, 50))).settle()
    scan = landfall.open(landed.url).scan("clicks")
    scan = scan.with_schema(pa.schema({"id": pa.int64()}))
    assert scan.to_arrow().num_rows == 50
    path = tmp_path / "landed" / scan.files()[0].key
    whole = path.read_bytes()

    for damaged in (whole[: len(whole) // 2], BODIES[format_](rows(0, 49)), None):
        path.unlink()
        if damaged is not None:
            path.write_bytes(damaged)
        with pytest.raises(LandfallError, match="clicks/") as raised:
            scan.to_arrow()
        assert isinstance(raised.value, Stalled)
        assert raised.value.reason is Reason.OBJECT_LOST


def test_memory_holds_a_row_group_of_a_large_object(
    landed: Readable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "SMALL_BYTES", 0)
    big = [{"id": i, "name": "x" * 10_000} for i in range(2_000)]
    landed.land(CLICKS, (FIRST, big)).settle()
    scan = landfall.open(landed.url).scan("clicks")
    before, most = pa.total_allocated_bytes(), 0

    for batch in scan.to_batches():
        most = max(most, pa.total_allocated_bytes() - before)
        assert batch.num_rows

    assert most < 5_000_000  # of 20 MB


def test_an_output_root_without_a_group_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Stalled, match="no group has landed here"):
        landfall.open(f"file://{tmp_path}")


def test_following_gives_each_file_once(landed: Readable) -> None:
    for i in range(7):
        landed.land(CLICKS, (FIRST, rows(i, i + 1)))
        if i % 2:
            landed.settle()
    landed.settle()
    opened = landfall.open(landed.url)

    found = list(opened.follow("clicks", -1, 2))

    keys = [file.key for _, files in found for file in files]
    assert keys == [file.key for file in opened.scan("clicks").files()]
    assert [len(files) for _, files in found] == [2, 2, 2, 1]
    assert list(opened.follow("clicks", found[-1][0], 2)) == []


def test_importing_the_package_imports_no_library() -> None:
    shown = subprocess.run(
        [sys.executable, "-c", "import sys, landfall; landfall.open; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    heavy = {"boto3", "confluent_kafka", "numpy", "pyarrow", "pyspark", "pydantic"}
    assert not heavy & set(shown.stdout.split())


def test_reading_needs_neither_kafka_nor_spark(landed: Readable) -> None:
    landed.land(CLICKS, (FIRST, rows(0, 1))).settle()
    script = f"import sys, landfall; landfall.open({landed.url!r}).scan('clicks').to_arrow()"
    shown = subprocess.run(
        [sys.executable, "-c", f"{script}; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert not {"confluent_kafka", "pyspark", "rich", "duckdb"} & set(shown.stdout.split())


def test_batches_have_the_schema_that_the_scan_was_given(landed: Readable) -> None:
    landed.land(CLICKS, (FIRST, rows(0, 3))).settle()
    columns = pa.schema([pa.field("id", pa.int64())], metadata={"made": "by a user"})

    [batch] = landfall.open(landed.url).scan("clicks").with_schema(columns).to_batches()

    assert batch.schema.equals(columns, check_metadata=True)
