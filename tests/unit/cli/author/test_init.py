"""``landfall init`` writes a group file that ``landfall check --offline`` accepts."""

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import yaml

from landfall.api.contract import ExitCode
from landfall.cli import main
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.records import HEADERS, of_columns

NOW = int(time.time() * 1000)
Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LANDFALL_KAFKA", raising=False)
    return tmp_path


def made(folder: Path, lines: list[str], *more: str) -> dict[str, Any]:
    """The spec of the group that is made for records of these payloads; it was checked."""
    (folder / "records").write_text("\n".join(lines))
    typed = ("init", "--topic", "app.web", "--url", f"file://{folder}/landed")
    servers = ("--bootstrap-servers", "127.0.0.1:1", "--records", "records", "--force")

    assert main([*typed, *servers, *more]) == ExitCode.OK
    assert main(["check", "--offline", "group.yaml"]) == ExitCode.OK

    spec: dict[str, Any] = yaml.safe_load(Path("group.yaml").read_text())["spec"]
    return spec


def test_records_of_json_are_dated_by_their_field_of_time(folder: Path, capsys: Captured) -> None:
    events = [
        {"user": 1_234_567_890, "page": "/a", "meta": {"ts": NOW - n * 1000}} for n in range(20)
    ]

    spec = made(folder, [json.dumps(event) for event in events])

    assert spec["decode"] == {"format": "Json", "timestamp": {"field": "meta.ts"}}
    assert spec["source"]["kafka"] == {"bootstrapServers": "127.0.0.1:1", "topics": ["app.web"]}
    assert spec["output"] == {"url": f"file://{folder}/landed"}
    said = capsys.readouterr().out
    assert "consumergroup.schema.json: the fields of a group, for editors" in said
    assert "20 records looked at: JSON, dated by meta.ts" in said
    assert "next: landfall run group.yaml --until-caught-up" in said
    first, second, *_ = Path("group.yaml").read_text().splitlines()
    assert first == "# yaml-language-server: $schema=consumergroup.schema.json"
    assert second == "# Made by `landfall init --topic app.web`."
    assert main(["schema", "ConsumerGroup"]) == ExitCode.OK
    assert Path("consumergroup.schema.json").read_text() == capsys.readouterr().out


def test_a_schema_of_another_program_stays_and_one_of_another_version_does_not(
    folder: Path,
) -> None:
    schema = folder / "consumergroup.schema.json"
    schema.write_text("{}")

    made(folder, [])
    kept = schema.read_text()
    schema.write_text('{"$comment": "Made by `landfall schema ConsumerGroup`."}')
    made(folder, [])

    assert kept == "{}"
    assert "timestamp" in schema.read_text()


@pytest.mark.parametrize("end", ["\n", "\r", "\x85", "\u2028", "\u2029"], ids=ascii)
def test_names_of_fields_end_no_comment(folder: Path, capsys: Captured, end: str) -> None:
    """The file is run next: a field of a record adds nothing to it."""
    name = f"at{end}injected: {{use: 'a\\x2eb:c'}}{end}# time"

    spec = made(folder, [json.dumps({name: NOW})] * 3, "--name", "web")

    written = yaml.safe_load(Path("group.yaml").read_text())
    assert written.keys() == {"apiVersion", "kind", "metadata", "spec"}
    assert spec["decode"]["timestamp"] == {"field": name}
    assert end not in capsys.readouterr().out.replace("\n", "" if end == "\n" else "\n")


@pytest.mark.parametrize(
    ("event", "field"),
    [
        ({"id": NOW, "at": "2026-11-21T05:00:00Z"}, "at"),
        ({"shipped_on": "2026-11-21T05:00:00+01:00", "size": 1_700_000_000}, "shipped_on"),
        ({"a": {"b": {"created_at": NOW / 1000}}}, "a.b.created_at"),
        # The year 1990 is no time of this topic.
        ({"birth_date": "1990-01-01", "seen": NOW}, "seen"),
        (
            {"accessedBy": "2026-11-21 Ann", "createdAt": NOW, "a": "2026-11-20T01:00:00Z"},
            "createdAt",
        ),
        ({"expires_at": NOW + 86_400_000, "ts_ms": NOW}, "ts_ms"),
        ({"closes_at": NOW + 86_400_000, "time": NOW}, "time"),
        ({"received_at": NOW, "event_time": NOW - 5_000}, "event_time"),
        ({"at": NOW - 400 * 86_400_000, "time": NOW}, "time"),
    ],
)
def test_the_likeliest_field_that_dates_all_records_is_taken(
    event: dict[str, Any], field: str, folder: Path
) -> None:
    assert made(folder, [json.dumps(event)] * 3)["decode"]["timestamp"] == {"field": field}


@pytest.mark.parametrize(
    ("lines", "note"),
    [
        ([], "no record was looked at"),
        (["GET / 200", "GET /a 404"], "2 records looked at: lines of text, dated by Kafka's"),
        (["a\x07", "b"], "2 records looked at: in no form that init knows"),
        (["\0\0\0\0\1abc"], "they begin with the id of a schema; --schema-registry"),
    ],
)
def test_without_a_guess_payloads_land_byte_for_byte(
    lines: list[str], note: str, folder: Path, capsys: Captured
) -> None:
    assert made(folder, lines)["decode"] == {"format": "Raw"}
    assert note in capsys.readouterr().out


def test_json_without_a_time_is_dated_by_kafka(folder: Path, capsys: Captured) -> None:
    lines = ['{"user": 1}'] * 30 + ["oops"]

    assert made(folder, lines)["decode"] == {"format": "Json"}

    said = capsys.readouterr()
    assert "31 records looked at: JSON, dated by Kafka's timestamp" in said.out
    tried = "tried 31 records: 30 would land in 1 output partition, 0 left out, 1 dead letter"
    assert tried in said.out
    assert f"# {tried}\n" in Path("group.yaml").read_text()
    assert "warning: a dead letter: app.web/0 offset 30: decode: json: " in said.err


def test_large_numbers_are_no_times(folder: Path) -> None:
    """Each would be one in some unit."""
    lines = [json.dumps({"serial": NOW // 1000 - 10**6 * n}) for n in range(20)]

    assert made(folder, lines)["decode"] == {"format": "Json"}


def test_a_format_with_notation_of_its_own_dates_records(folder: Path) -> None:
    spec = made(folder, ['{"time_local": "21/Nov/2026:04:00:00 +0100"}'] * 3)

    assert spec["decode"]["timestamp"] == {
        "field": "time_local",
        "unit": "Custom",
        "format": "%d/%b/%Y:%H:%M:%S %z",
    }


@pytest.mark.parametrize(
    ("lines", "options"),
    [
        (["a,1", "b,2"], {"columns": ["c1", "c2"]}),
        (["name;n", "a;1", "b;2"], {"header": "name;n", "separator": ";"}),
    ],
)
def test_rows_of_text_are_a_table(lines: list[str], options: Any, folder: Path) -> None:
    assert made(folder, lines)["decode"] == {"format": "Csv", "options": options}


@pytest.mark.parametrize(
    "lines",
    [
        ["done, at last", "no, not yet"],
        ["2026-11-21 04:00:00,123 INFO up", "2026-11-21 04:00:01,456 INFO down"],
        ["a,b", "c"],
        ["[1, 2]", "[3, 4]"],
    ],
)
def test_prose_and_logs_are_lines(lines: list[str], folder: Path) -> None:
    spec = made(folder, lines)

    assert (spec["decode"], spec["output"]["format"]) == ({"format": "Raw"}, "Text")


def test_a_format_that_is_asked_for_stays(folder: Path, capsys: Captured) -> None:
    assert made(folder, ["a,1", "b,2"], "--format", "Json")["output"]["format"] == "Json"
    assert made(folder, ["no, not yet"], "--format", "Parquet")["output"]["format"] == "Parquet"
    assert made(folder, [], "--format", "Json")["decode"] == {"format": "Json"}
    capsys.readouterr()

    with pytest.raises(AssertionError):
        made(folder, ["no, not yet"], "--format", "Json")

    assert "--format: records are in no form that has fields" in capsys.readouterr().err


def test_a_topic_is_looked_at(
    folder: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sample(log: object, reader: object, wish: Any) -> list[Any]:
        from landfall.cli.author.try_records import RecordFile

        (folder / "in").write_text('{"at": "2026-11-21T05:00:00Z"}\n')
        file = RecordFile(folder / "in", "text", NOW)
        return [file.read(TopicPartition(wish.topic, 0), wish.limit)]

    monkeypatch.setattr("landfall.cli.author.init.from_log", sample)
    monkeypatch.setenv("LANDFALL_KAFKA", "127.0.0.1:1")

    assert main(["init", "--topic", "shop.Orders_v2", "--url", "s3://logs/parsed", "-"]) == 0

    group = yaml.safe_load(capsys.readouterr().out)
    assert group["metadata"]["name"] == "shop-orders-v2"
    assert group["spec"]["source"]["kafka"]["bootstrapServers"] == "${LANDFALL_KAFKA}"
    assert group["spec"]["decode"]["timestamp"] == {"field": "at"}
    assert not Path("group.yaml").exists()


@pytest.mark.parametrize(
    ("key", "headers", "options", "parts"),
    [
        (b"k", [], [], "keys are"),
        (None, [("trace", b"1")], [], "headers are"),
        (b"k", [("trace", b"1")], [], "keys and headers are"),
        (b"k", [("trace", b"1")], ["--format", "Parquet"], ""),
        (None, [], [], ""),
    ],
)
def test_what_records_have_and_rows_do_not_is_named(
    key: bytes | None,
    headers: list[tuple[str, bytes]],
    options: list[str],
    parts: str,
    folder: Path,
    capsys: Captured,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def sample(log: object, reader: object, wish: Any) -> list[Any]:
        values = pa.array([b'{"id": 1}'], pa.binary())
        tp, offsets = TopicPartition(wish.topic, 0), np.array([7])
        return [
            of_columns(
                tp,
                offsets,
                values,
                timestamps=np.array([NOW]),
                keys=pa.array([key], pa.binary()),
                headers=pa.array([headers], HEADERS),
            )
        ]

    monkeypatch.setattr("landfall.cli.author.init.from_log", sample)
    monkeypatch.setenv("LANDFALL_KAFKA", "127.0.0.1:1")

    assert main(["init", "--topic", "t", "--url", "s3://logs/parsed", *options]) == 0

    said = capsys.readouterr().out
    assert (f"{parts} in no row: decode.key and" in said) == bool(parts)
    assert ("in no row" in said) == bool(parts)


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (("--topic", "a", "--url", "s3://b"), "--bootstrap-servers: name Kafka's addresses"),
        (("--topic", "a", "--url", "b", "--bootstrap-servers", "k:1"), "spec.output.url: "),
        (
            ("--topic", "a", "--url", "s3://b", "--bootstrap-servers", "k:1", "--format", "CSV"),
            "spec.output.format: ",
        ),
        (
            ("--topic", "a", "--url", "s3://b", "--bootstrap-servers", "k:1", "-D", "x.y=1"),
            "spec.source.kafka.properties",
        ),
        (("--topic", "a", "--url", "s3://b", "here.yaml"), "here.yaml: exists; --force replaces"),
    ],
)
def test_what_is_wrong_is_said_before_kafka_is_asked(
    typed: tuple[str, ...], message: str, folder: Path, capsys: Captured
) -> None:
    (folder / "here.yaml").write_text("mine")

    assert main(["init", *typed]) == ExitCode.USAGE

    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert (folder / "here.yaml").read_text() == "mine"
    assert not (folder / "group.yaml").exists()


def test_properties_and_variables_go_into_the_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEB_PASSWORD", "secret")

    spec = made(folder, [], "-D", "sasl.password=${WEB_PASSWORD}", "--format", "Parquet")

    assert spec["source"]["kafka"]["properties"] == {"sasl.password": "${WEB_PASSWORD}"}
    assert spec["output"]["format"] == "Parquet"
    assert "secret" not in Path("group.yaml").read_text()


def test_it_is_json_for_programs(folder: Path, capsys: Captured) -> None:
    made(folder, [])
    capsys.readouterr()
    words = ("--topic", "a", "--url", "s3://b", "--bootstrap-servers", "k:1", "--offline")

    assert main(["init", *words, "-o", "json", "b.yaml"]) == ExitCode.OK

    shown = json.loads(capsys.readouterr().out)
    assert shown["file"] == "b.yaml"
    assert shown["tried"] == {"Lands": 0, "LeftOut": 0, "DeadLetter": 0}
    assert shown["group"]["spec"]["source"]["kafka"]["topics"] == ["a"]
