"""Columns that readers of folders do not see, and where a user is warned of them."""

import logging
from pathlib import Path
from typing import Any

import pytest
import yaml

from landfall.api.contract import ExitCode
from landfall.api.hidden_columns import hidden_columns
from landfall.api.spec import parse_group
from landfall.cli import main
from landfall.driver.process.run import RunOptions, run_group
from tests.support.kubernetes.groups import document

DT = (
    "column dt is hidden by folder dt=: Spark and DuckDB show the folder's value instead; rename "
    "one of them"
)


def group(pattern: str, **spec: Any) -> Any:
    columns = [
        {"name": "dt", "type": "Date"},
        {"name": "country", "type": "String", "field": "meta.country"},
    ]
    return document(
        decode__format="Json",
        decode__columns=columns,
        output__format="Parquet",
        route__pattern=pattern,
        **spec,
    )


def hidden(pattern: str, **spec: Any) -> list[str]:
    warnings = hidden_columns(parse_group(group(pattern, **spec)).spec)
    return [warning.split(":")[0].removeprefix("column ") for warning in warnings]


def test_a_folder_with_the_name_of_a_column_hides_it() -> None:
    assert hidden_columns(parse_group(group("dt={date}")).spec) == (DT,)
    assert hidden("hr={hour}/DT={time:%Y}-{time:%m}") == ["dt is hidden by folder DT="]
    assert hidden("country={field:country}") == ["country is hidden by folder country="]
    assert hidden("country=x{field:meta.country}") == ["country is hidden by folder country="]
    assert hidden("{topic}", route__topicPath="dt={header:day}/{topic}") == [
        "dt is hidden by folder dt="
    ]


def test_a_folder_that_is_the_column_or_has_another_name_hides_nothing() -> None:
    assert hidden("day={date}/{date}/x-dt={hour}") == []
    assert hidden("country={field:meta.country}/dt={field:dt}") == []


def test_columns_of_keys_and_headers_are_hidden_too() -> None:
    of_key: dict[str, Any] = {
        "decode__key": {"format": "Json", "columns": [{"name": "id", "type": "Int64"}]},
        "decode__headerColumns": [{"name": "tenant", "type": "String"}],
    }

    assert hidden("id={field:id}/tenant={header:x}", **of_key) == [
        "id is hidden by folder id=",
        "tenant is hidden by folder tenant=",
    ]
    assert hidden("id={key:id}/tenant={header:tenant}", **of_key) == []


def test_a_run_warns_once_for_each_column(caplog: pytest.LogCaptureFixture) -> None:
    suspended = parse_group(group("dt={date}", state="Suspended"))

    with caplog.at_level(logging.WARNING):
        assert run_group(suspended, RunOptions()) == ExitCode.OK

    assert [
        (record.field, record.why)  # type: ignore[attr-defined]  # of the event
        for record in caplog.records
        if record.message == "column hidden by a folder"
    ] == [("spec.route", DT)]


def test_explain_warns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "group.yaml"
    file.write_text(yaml.safe_dump(group("dt={date}")))

    assert main(["explain", str(file), "clicks"]) == ExitCode.OK

    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == f"# warning: {DT}"
    assert yaml.safe_load("\n".join(lines))["route"]["pattern"] == "dt={date}"
