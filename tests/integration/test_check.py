"""``landfall check`` on a real broker and a real S3 server; and on a broker with access lists."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from landfall.api.contract import ExitCode
from landfall.cli import main
from tests.support.audit.independent_audit import events
from tests.support.landing.group import Scene


def checked(file: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    capsys.readouterr()
    code = main(["check", str(file)])
    return code, [line.removeprefix(f"{file}: ") for line in capsys.readouterr().out.splitlines()]


def test_a_group_whose_servers_answer_is_ok_and_nothing_stays_in_the_bucket(
    s3_scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    s3_scene.topic()
    file = s3_scene.file(tmp_path)

    assert checked(file, capsys) == (ExitCode.OK, ["ok"])
    assert s3_scene.bucket.keys("") == []


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        (
            {"kafka": {"topicPattern": None, "topics": ["no.such.topic", "nor.this"]}},
            "spec.source.kafka.topics: Kafka has no topic no.such.topic (TopicMissing)",
        ),
        (
            {"kafka": {"topicPattern": "no such topic"}},
            "spec.source.kafka.topicPattern: Kafka has no topic that it matches (TopicMissing)",
        ),
        (
            {"kafka": {"properties": {"security.protocol": "SSL"}}},
            "does not speak TLS, which this client is configured for (SourceUnavailable)",
        ),
    ],
    ids=["topics", "pattern", "tls"],
)
def test_what_kafka_does_not_have_is_named(
    s3_scene: Scene,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    spec: dict[str, Any],
    line: str,
) -> None:
    s3_scene.topic()
    document = s3_scene.document(**spec)
    kafka = document["spec"]["source"]["kafka"]
    document["spec"]["source"]["kafka"] = {k: v for k, v in kafka.items() if v is not None}
    file = tmp_path / "group.yaml"
    file.write_text(yaml.safe_dump(document))

    code, lines = checked(file, capsys)

    assert lines[0].endswith(line)
    assert code == (ExitCode.UNAVAILABLE if "Unavailable" in line else ExitCode.USAGE)
    assert len(lines) == (2 if "topics:" in line else 1)


def test_a_record_of_each_kind_of_topic_is_tried(
    s3_scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, empty, torn = s3_scene.topic("a"), s3_scene.topic("b"), s3_scene.topic("c")
    s3_scene.kafka.produce(good, events(range(3)))
    s3_scene.kafka.produce(torn, [b"{}", b"{torn"])
    entries = [{"pattern": re.escape(topic)} for topic in (empty, torn)]
    file = s3_scene.file(tmp_path, topics=entries)

    capsys.readouterr()
    code = main(["check", str(file)])

    said = capsys.readouterr()
    assert (code, said.out) == (ExitCode.OK, f"{file}: ok\n")
    (line,) = said.err.splitlines()
    assert line.startswith(f"warning: {file}: {torn}/")
    assert "would become a dead letter: decode: " in line
    assert s3_scene.bucket.keys("") == []


def test_kafka_and_the_bucket_are_both_named(
    s3_scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = {"url": "s3://there-is-no-such-bucket/x"}
    file = s3_scene.file(tmp_path, kafka={"bootstrapServers": "127.0.0.1:1"}, output=output)

    code, lines = checked(file, capsys)

    assert code == ExitCode.USAGE
    assert [line.partition(": ")[0] for line in lines] == [
        "spec.source.kafka.bootstrapServers",
        "spec.output.url",
    ]
    assert "there-is-no-such-bucket" in lines[1]
    assert "StoreDenied" in lines[1]
