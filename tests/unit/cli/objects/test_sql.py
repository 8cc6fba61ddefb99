"""``landfall sql``: how it prints rows, and how it ends."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from landfall.api.contract import ExitCode
from landfall.cli import main
from tests.support.kubernetes.groups import document
from tests.support.ledger.readable import CLICKS, Readable
from tests.support.ledger.sample_ledger import GROUP

FIRST, SECOND = "dt=2026-11-21/hr=04", "dt=2026-11-21/hr=05"
ROWS: list[dict[str, Any]] = [
    {"id": 1, "name": "a, b", "price": 1.5},
    {"id": 22, "name": None, "price": 10.25},
    {"id": 3, "name": "\x1b[31mred", "price": 0.0},
]


@pytest.fixture
def group(tmp_path: Path) -> Path:
    """The file of a group that has landed three rows in one hour, and one in the next."""
    made = Readable(tmp_path)
    later = {"id": 4, "name": "later", "price": 2.0}
    made.land(CLICKS, (FIRST, ROWS), (SECOND, [later])).settle()
    return written(tmp_path, made.url)


def written(folder: Path, url: str) -> Path:
    described = document(GROUP)
    described["spec"]["output"] = {"url": url, "format": "Parquet"}
    file = folder / "group.yaml"
    file.write_text(yaml.safe_dump(described))
    return file


def test_rows_are_a_table(group: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = "SELECT id, name, price FROM clicks WHERE hr = '04' ORDER BY id"

    assert main(["sql", str(group), query]) == ExitCode.OK

    shown = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert shown == [
        "id  name         price",
        " 1  a, b           1.5",
        " 3  \\x1b[31mred    0.0",
        "22  NULL         10.25",
    ]


def test_json_has_a_line_for_each_row(group: Path, capsys: pytest.CaptureFixture[str]) -> None:
    numbers = "0.10::DECIMAL(9, 2) AS d, sum(9007199254740993) OVER () AS s, id"
    query = f"SELECT id, name, [price] AS prices, {numbers} FROM clicks ORDER BY id"

    assert main(["sql", str(group), query, "-o", "json"]) == ExitCode.OK

    lines = capsys.readouterr().out.splitlines()
    assert (
        lines[0] == '{"id":1,"name":"a, b","prices":[1.5],"d":0.10,"s":36028797018963972,"id_1":1}'
    )
    assert [json.loads(line)["name"] for line in lines] == ["a, b", "\x1b[31mred", "later", None]


def test_csv_has_a_header(group: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = 'SELECT id, name, id > 3 AS "more, or less" FROM clicks ORDER BY id'

    assert main(["sql", str(group), query, "--csv"]) == ExitCode.OK

    found = list(csv.reader(capsys.readouterr().out.splitlines()))
    assert found[:2] == [["id", "name", "more, or less"], ["1", "a, b", "false"]]
    assert found[-1] == ["22", "", "true"]


def test_a_table_of_many_rows_says_that_it_ends(
    group: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    query = "SELECT n FROM range(1001) t(n)"

    assert main(["sql", str(group), query]) == ExitCode.OK
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 1 + 1_000
    assert "the first 1,000 rows; --json and --csv print all" in shown.err

    assert main(["sql", str(group), query, "--csv"]) == ExitCode.OK
    shown = capsys.readouterr()
    assert (len(shown.out.splitlines()), shown.err) == (1 + 1_001, "")


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        (["--where", "hr=05"], [4]),
        (["--where", "hr=05", "--where", "hr=04"], [1, 3, 4, 22]),
        (["--output-partition", "dt=2026-11-21/hr=04/"], [1, 3, 22]),
        (["--from", "2026-11-21T05:00Z"], [4]),
        (["--until", "2026-11-21T05:00Z"], [1, 3, 22]),
    ],
)
def test_objects_are_chosen(
    group: Path, capsys: pytest.CaptureFixture[str], options: list[str], ids: list[int]
) -> None:
    query = "SELECT id FROM clicks ORDER BY id"

    assert main(["sql", str(group), query, *options, "--csv"]) == ExitCode.OK

    assert capsys.readouterr().out.split() == ["id", *map(str, ids)]


def test_a_copy_prints_how_many_rows_it_wrote(
    group: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    query = f"COPY (SELECT id FROM clicks ORDER BY id) TO '{tmp_path}/ids.csv'"

    assert main(["sql", str(group), query]) == ExitCode.OK

    assert (tmp_path / "ids.csv").read_text().split() == ["id", "1", "3", "4", "22"]
    assert capsys.readouterr().out.split() == ["Count", "4"]


def test_a_statement_without_rows_prints_none(
    group: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sql", str(group), "-- nothing is asked"]) == ExitCode.OK

    assert capsys.readouterr().out == ""


def test_a_wrong_query_is_the_users_fault(group: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", str(group), "SELECT * FROM visits"]) == ExitCode.USAGE

    said = capsys.readouterr().err
    assert "Table with name visits does not exist" in said
    assert "tables are topics: clicks" in said


def test_a_group_that_never_ran_has_nothing_to_ask(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, f"file://{tmp_path}/empty")

    assert main(["sql", str(file), "SELECT 1"]) == ExitCode.NOTHING

    assert "there is no ledger of the group" in capsys.readouterr().err
