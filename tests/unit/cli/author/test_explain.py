"""``landfall explain``: the effective spec of a topic as YAML, and where each value is from."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from landfall.api.contract import ExitCode
from landfall.api.spec import TopicSpecs, parse_group
from landfall.cli import main

GROUP = """
apiVersion: landfall.dev/v1alpha1
kind: ConsumerGroup
metadata: {name: shop}
spec:
  source: {kafka: {bootstrapServers: "kafka:9092", topics: [orders, clicks, logs]}}
  decode: {format: Json, timestamp: {field: at}}
  route: {pattern: "dt={date}"}
  output: {url: "s3://shop/${ROOT:-landed}", format: Parquet, options: {envelope: false}}
  uploadPolicy: {maxBytes: 64Mi, overrides: [{topics: orders, maxAge: 1m}]}
  topics:
    - pattern: orders
      decode:
        timestamp: {unit: Milliseconds}
        columns: [{name: id, type: Int64}]
      transforms: [{use: Filter, options: {where: 'id > 1 # "x"'}}]
    - pattern: cl.*
      decode: {format: Regex, options: {pattern: "(?P<at>a)\\n: b"}}
      output: {format: Json}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    written = tmp_path / "group.yaml"
    written.write_text(GROUP)
    return written


def explained(file: Path, topic: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["explain", str(file), topic]) == ExitCode.OK
    return capsys.readouterr().out


def test_each_value_says_where_it_comes_from(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = explained(file, "orders", capsys).splitlines()

    assert lines[0] == "# orders: spec.topics[0] applies"
    assert "  format: Json  # group" in lines
    assert "    field: at  # group" in lines
    assert "    unit: Milliseconds  # topics[0]" in lines
    assert "    missing: DeadLetter  # default" in lines
    assert "  columns:  # topics[0]" in lines
    assert "transforms:  # topics[0]" in lines
    assert "  timezone: UTC  # default" in lines
    assert "    envelope: false  # group" in lines
    assert "  maxBytes: 64Mi  # group" in lines
    assert "  maxAge: 60s  # uploadPolicy.overrides[0]" in lines


@pytest.mark.parametrize("topic", ["orders", "clicks", "logs"])
def test_it_is_yaml_of_the_effective_spec(
    file: Path, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = TopicSpecs.of(parse_group(yaml.safe_load(GROUP)).spec).for_topic(topic)
    expected = spec.model_dump(mode="json", by_alias=True)
    expected["output"]["url"] = "s3://shop/landed"
    expected["output"]["s3"]["partBytes"] = "16Mi"
    for elsewhere in ("azure", "gcs", "hdfs"):
        del expected["output"][elsewhere]  # it lands in S3

    found: dict[str, Any] = yaml.safe_load(explained(file, topic, capsys))

    for name in ("decode", "transforms", "route", "output"):
        assert found[name] == expected[name]


def test_options_of_the_groups_format_are_not_those_of_another(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = explained(file, "clicks", capsys).splitlines()

    assert lines[0] == "# clicks: spec.topics[1] applies"
    assert "  options: {}  # default" in lines
    assert "transforms: []  # default" in lines


@pytest.mark.parametrize("text", ["a: 1\n  b # c\n\n d", "a\n", "a\n\n", "\na \nb", " a\nb\t\n"])
def test_text_of_several_lines_is_that_text(
    file: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    document = yaml.safe_load(GROUP)
    document["spec"]["topics"][0]["transforms"][0]["options"] = {"where": text}
    document["spec"]["topics"][1]["decode"]["options"] = {"pattern": text}
    file.write_text(yaml.safe_dump(document))

    orders, clicks = (
        yaml.safe_load(explained(file, name, capsys)) for name in ("orders", "clicks")
    )

    assert orders["transforms"][0]["options"]["where"] == text
    assert clicks["decode"]["options"]["pattern"] == text


def test_text_of_several_lines_is_shown_in_lines(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "SELECT a\n  FROM b\n"
    document = yaml.safe_load(GROUP)
    document["spec"]["topics"][0]["transforms"][0]["options"] = {"where": text}
    document["spec"]["topics"][1]["decode"]["options"] = {"pattern": text}
    file.write_text(yaml.safe_dump(document))

    orders, clicks = (explained(file, name, capsys) for name in ("orders", "clicks"))

    assert "      where: |\n        SELECT a\n          FROM b\n" in orders
    assert "    pattern: |  # topics[1]\n      SELECT a\n        FROM b\n" in clicks


def test_a_topic_that_the_group_does_not_land_is_said_to_be_left_out(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = yaml.safe_load(file.read_text())
    kafka = document["spec"]["source"]["kafka"]
    kafka.pop("topics", None)
    kafka |= {"topicPattern": ".*", "exclude": "other"}
    file.write_text(yaml.safe_dump(document))
    internal = explained(file, "__consumer_offsets", capsys)
    lines = explained(file, "other", capsys).splitlines()

    assert "# spec.source leaves the topic out: shop does not land it" in internal
    assert "leaves the topic out" not in explained(file, "any", capsys)
    assert lines[:2] == [
        "# other: no entry of spec.topics applies",
        "# spec.source leaves the topic out: shop does not land it",
    ]


def test_the_publishers_of_a_topic_are_shown_with_their_defaults(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = "{name: lake, type: Iceberg, options: {table: 'lake.{topic}'}}"
    hook = "{name: hook, type: Webhook, topics: ['o.*', logs], minInterval: 5m}"
    file.write_text(f"{GROUP}  publish: [{lake}, {hook}]\n")

    orders, clicks = (
        yaml.safe_load(explained(file, topic, capsys))["publish"] for topic in ("orders", "clicks")
    )

    assert [(each["name"], each["minInterval"]) for each in orders] == [
        ("lake", "60s"),
        ("hook", "300s"),
    ]
    assert clicks == [
        {
            "name": "lake",
            "type": "Iceberg",
            "minInterval": "60s",
            "options": {"table": "lake.{topic}"},
        }
    ]


def test_without_publishers_none_are_shown(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "publish" not in yaml.safe_load(explained(file, "orders", capsys))


def test_a_group_that_is_not_valid_is_an_error(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(GROUP.replace("Milliseconds", "Hours"))

    assert main(["explain", str(file), "orders"]) == ExitCode.USAGE
    assert "spec.topics[0].decode.timestamp.unit: must be" in capsys.readouterr().err
