"""``explain`` and ``check`` name what means something else by ``decode.values: Common``."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from landfall.api.contract import ExitCode
from landfall.api.spec import parse_group
from landfall.cli import main
from landfall.cli.author.changed_values import changed_values
from tests.support.kubernetes.groups import document

TIME = {"type": "long", "logicalType": "timestamp-millis"}
SCHEMA = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "at", "type": TIME},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-millis"}},
        {"name": "body", "type": ["null", "bytes"]},
        {"name": "n", "type": "long"},
    ],
}
AVRO = {"format": "Avro", "options": {"schema": json.dumps(SCHEMA)}, "values": "Common"}
AT = 'text, as of an instant "2026-11-21T04:00:00.000000Z", and was the number of its'


def spec(decode: Mapping[str, Any], pattern: str = "all", *where: str, **more: Any) -> Any:
    made = document(route__pattern=pattern)
    made["spec"]["decode"] = {**decode, **more}
    made["spec"]["transforms"] = [{"use": "Filter", "options": {"where": each}} for each in where]
    made["spec"]["output"]["format"] = "SequenceFile"
    return made


def named(made: Any) -> list[tuple[str, str]]:
    return list(changed_values(parse_group(made).spec))


def test_a_route_by_a_time_and_one_by_bytes_are_named() -> None:
    assert named(spec(AVRO, "{field:at}/{field:n}/{field:body}")) == [
        ("spec.route.pattern", f"field at is {AT} timestamp[ms, tz=UTC]"),
        ("spec.route.pattern", "field body is base64 text, and was the text of its bytes"),
    ]


def test_a_filter_that_compares_a_time_with_a_number_is_named() -> None:
    made = spec(AVRO, "all", "n > 1", "at > 1795233600000 or n == 2", 'at > "2026"')

    first, second = named(made)

    assert first[0] == "spec.transforms[1] (Filter)"
    assert first[1].endswith("; compared with a number, every such record is a dead letter")
    assert second == ("spec.transforms[2] (Filter)", f"field at is {AT} timestamp[ms, tz=UTC]")


def test_an_event_time_that_is_read_otherwise_is_named() -> None:
    custom = {"field": "at", "unit": "Custom", "format": "%Y%m%d"}
    of_zone = {"field": "local", "unit": "Auto", "timezone": "Europe/Berlin"}
    plain = {"field": "at", "unit": "Milliseconds"}

    (first,) = named(spec(AVRO, "{date}", timestamp=custom))
    (second,) = named(spec(AVRO, "{date}", timestamp=of_zone))

    assert first[0] == second[0] == "spec.decode.timestamp"
    assert first[1].startswith("unit Custom reads at")
    assert "wall time of Europe/Berlin" in second[1]
    assert named(spec(AVRO, "{date}", timestamp=plain)) == []


def test_what_a_registry_knows_is_named_with_a_condition() -> None:
    registry = {"urls": ["http://registry:8081"]}

    ((place, text),) = named(
        spec({"format": "Avro", "values": "Common"}, "{field:x}", registry=registry)
    )

    assert place == "spec.route.pattern"
    assert "if it is a time" in text


def test_json_that_is_made_of_payloads_is_named() -> None:
    made = spec({"format": "MessagePack", "values": "Common"})
    made["spec"]["output"]["format"] = "Json"

    ((place, _),) = named(made)

    assert place == "spec.decode.values"


@pytest.mark.parametrize(
    "decode", [{**AVRO, "values": "ByDecoder"}, {"format": "Json", "values": "Common"}]
)
def test_nothing_else_is_named(decode: Mapping[str, Any]) -> None:
    assert named(spec(decode, "{field:at}", "at > 1")) == []


@pytest.fixture
def file(tmp_path: Path) -> Path:
    written = tmp_path / "group.yaml"
    written.write_text(yaml.safe_dump(spec(AVRO, "{field:at}")))
    return written


def test_explain_prints_it_as_a_note(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(file), "clicks"]) == ExitCode.OK

    out = capsys.readouterr().out
    assert f"# note: spec.route.pattern: field at is {AT} timestamp[ms, tz=UTC]\n" in out
    assert "  values: Common  # group\n" in out


def test_check_warns_of_it(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--offline", "--json", str(file)]) == ExitCode.OK

    (warning,) = json.loads(capsys.readouterr().out)["warnings"]
    assert warning == f"{file}: spec.route.pattern: field at is {AT} timestamp[ms, tz=UTC]"
