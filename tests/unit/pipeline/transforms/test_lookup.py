"""``Lookup``: what is found by a key, what is not, and which tables are refused."""

import json
from hashlib import sha256
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from landfall.errors import Stalled
from landfall.pipeline.pinned import PinnedFile, pinned_files
from tests.support.driver.transformed import Group, payloads, rejected

DEVICES = b'id,kind,"owner, it"\n7,phone,"a ""b"""\n08,tablet,\nx,,c\n'


@pytest.fixture
def csv(tmp_path: Path) -> dict[str, object]:
    return pinned(tmp_path / "devices.csv", DEVICES)


@pytest.fixture
def parquet(tmp_path: Path) -> dict[str, object]:
    table = pa.table({"id": [7, 8, None], "kind": ["phone", "tablet", "none"], "n": [1.5, None, 0]})
    pq.write_table(table, tmp_path / "devices.parquet")
    return pinned(tmp_path / "devices.parquet", (tmp_path / "devices.parquet").read_bytes())


def pinned(path: Path, data: bytes) -> dict[str, object]:
    path.write_bytes(data)
    return {"file": str(path), "sha256": sha256(data).hexdigest(), "key": "id"}


def lookup(**options: object) -> list[dict[str, object]]:
    return [{"use": "Lookup", "options": options}]


def in_json(group: Group, *rows: object) -> list[object]:
    return [each and json.loads(each) for each in payloads(group.apply(*rows))]


def test_fields_of_a_csv_are_text(csv: dict[str, object]) -> None:
    got = in_json(
        Group(lookup(**csv)),
        {"id": "7"},
        {"id": 7},
        {"id": "08"},
        {"id": 8},
        {"id": True},
        {"id": [7]},
        {},
        None,
        {"id": "x", "kind": "other"},
    )

    assert got == [
        {"id": "7", "kind": "phone", "owner, it": 'a "b"'},
        {"id": 7, "kind": "phone", "owner, it": 'a "b"'},
        {"id": "08", "kind": "tablet", "owner, it": ""},
        {"id": 8},
        {"id": True},
        {"id": [7]},
        {},
        None,
        {"id": "x", "kind": "", "owner, it": "c"},
    ]


def test_columns_of_parquet_keep_their_types(parquet: dict[str, object]) -> None:
    group = Group(lookup(**parquet), {"id": "Int64"})

    columns = group.apply({"id": 8}, {"id": 9}, {"id": None}, {"id": 7}).columns

    assert columns is not None
    assert columns.to_pylist() == [
        {"id": 8, "kind": "tablet", "n": None},
        {"id": 9, "kind": None, "n": None},
        {"id": None, "kind": None, "n": None},
        {"id": 7, "kind": "phone", "n": 1.5},
    ]


@pytest.mark.parametrize("columns", [None, {"id": "Int64"}])
def test_rows_without_a_match_are_dropped_or_rejected(
    parquet: dict[str, object], columns: dict[str, str] | None
) -> None:
    rows = [{"id": 9}, {"id": 7}, {"id": None}]

    dropped = Group(lookup(**parquet, missing="Drop"), columns).apply(*rows)
    refused = Group(lookup(**parquet, missing="Reject"), columns).apply(*rows)

    expected = [{"id": 7, "kind": "phone", "n": 1.5}]
    assert [json.loads(each or b"") for each in payloads(dropped)] == expected
    assert [json.loads(each or b"") for each in payloads(refused)] == expected
    assert dropped.filtered == 2
    assert rejected(refused) == dict.fromkeys((0, 2), "lookup: nothing found by id")


def test_another_column_is_matched_and_some_are_added(csv: dict[str, object]) -> None:
    options = {**csv, "key": "m.k", "match": "kind", "columns": ["id"]}

    assert in_json(Group(lookup(**options)), {"m": {"k": "tablet"}}) == [
        {"m": {"k": "tablet"}, "id": "08"}
    ]


def test_a_route_uses_what_was_found(parquet: dict[str, object]) -> None:
    for columns in (None, {"id": "Int64"}):
        group = Group(lookup(**parquet), columns, {"route__pattern": "k={field:kind}"})

        assert [name for name, _ in group.partition({"id": 7}).outputs] == ["k=phone"]


def test_a_group_says_which_files_it_has_read(csv: dict[str, object]) -> None:
    steps = [*lookup(**csv), *lookup(**csv, match="kind"), {"use": "LogId", "options": {}}]

    read = pinned_files(Group(steps).pipeline().transforms)

    assert read == (PinnedFile(str(csv["file"]), str(csv["sha256"])),)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sha256": "0" * 64}, "options.sha256: .*devices.csv has [0-9a-f]{64}"),
        ({"sha256": "ABC"}, "options.sha256: expected 64 hexadecimal digits"),
        ({"file": "/nowhere.csv"}, "options.file: cannot read /nowhere.csv: No such file"),
        ({"match": "z"}, "options.match: the table has no column 'z'"),
        ({"columns": ["z"]}, "options.columns: the table has no column z"),
        ({"missing": "Keep"}, "Keep"),
        ({"key": "n"}, "column n is int64, and the table's is string; Cast changes it"),
        ({"key": "kind", "match": "id"}, "options.columns: there is a column kind already"),
    ],
)
def test_what_does_not_fit_is_refused(
    csv: dict[str, object], change: dict[str, object], message: str
) -> None:
    options = {"match": "id", **csv, **change}
    columns = {"n": "Int64", **({"kind": "String"} if change.get("key") == "kind" else {})}

    with pytest.raises(Stalled, match=message):
        Group(lookup(**options), columns).pipeline()


def test_a_key_that_occurs_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Stalled, match=r"options.match: a key occurs twice in column 'id'"):
        Group(lookup(**pinned(tmp_path / "x.csv", b"id,a\n1,2\n1,3\n"))).pipeline()


def test_a_damaged_table_is_refused(tmp_path: Path) -> None:
    for data in (b"PAR1 and no more", b"id,a\n1\n", b""):
        with pytest.raises(Stalled, match=r"options.file: "):
            Group(lookup(**pinned(tmp_path / "x", data))).pipeline()
