"""A backup group keeps what Kafka forgets, and another group lands JSON by date from it."""

from collections import Counter
from pathlib import Path

import pytest
import yaml

from landfall.api.contract import ExitCode
from landfall.cli import main
from landfall.ledger import Commit, decode
from landfall.ledger.offsets import TopicPartition
from tests.support.audit.independent_audit import EXACT, audit, events, in_bucket, in_kafka
from tests.support.kafka.broker import Broker
from tests.support.landing.group import Scene, land

SEQUENCE_FILES = {"format": "SequenceFile", "options": {"keyMode": "MessagePack"}}


def test_what_kafka_forgot_is_landed_from_the_backup(
    s3_scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = s3_scene.topic("a", partitions=2)
    for partition in range(2):
        s3_scene.kafka.produce(topic, events(range(3_000), partition))
    bad = s3_scene.topic("b")
    s3_scene.kafka.produce(bad, [b"no JSON", *(e.value for e in events(range(5)))])
    assert land(s3_scene.group(output=SEQUENCE_FILES), None).code is ExitCode.OK
    expected = in_kafka(s3_scene.kafka, topic)
    for each in (topic, bad):
        s3_scene.kafka.delete_topic(each)

    rewritten = s3_scene.bucket.server.create_bucket()
    landed = {"group": "scene", "topicPattern": rf"{s3_scene.prefix}\..*", **s3_scene.bucket.output}
    document = s3_scene.document("rewrite", source={"landed": landed}, output=rewritten.output)
    file = tmp_path / "rewrite.yaml"
    file.write_text(yaml.safe_dump(document))
    group = s3_scene.group("rewrite", source={"landed": landed}, output=rewritten.output)
    rewrite = land(group, None)

    assert rewrite.code is ExitCode.OK, rewrite.now
    found = in_bucket(rewritten)
    assert sum(count for (name, _, _), count in found.items() if name == bad) == 5
    of_topic = Counter({each: count for each, count in found.items() if each[0] == topic})
    assert audit(expected, of_topic) == EXACT
    totals = rewrite.driver.writer.state.totals
    assert (totals.landed, totals.dead_lettered) == (6_005, 1)
    assert rewrite.driver.writer.state.checkpoint[TopicPartition(bad, 0)] == 6
    for command in ("fsck", "verify", "status"):
        assert main([command, str(file)]) == ExitCode.OK, capsys.readouterr()
    tried = ["try", str(file), "--topic", bad, "--limit", "1", "--offset", "0"]
    assert main(tried) == ExitCode.OK
    assert "dead letter" in capsys.readouterr().out
    assert main(["audit", str(file)]) == ExitCode.USAGE


def test_a_gap_in_kafka_is_filled_from_the_backup(
    s3_scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kafka, topic = s3_scene.kafka, s3_scene.topic("a", partitions=2)
    bucket = s3_scene.bucket.server.create_bucket()
    backup = s3_scene.group("backup", output={**bucket.output, **SEQUENCE_FILES})
    place = {"group": "backup", **bucket.output}
    spec = {"kafka": {"onDataLoss": {"readFrom": place}}}
    produce(kafka, topic, range(300))
    assert land(s3_scene.group(**spec), None).code is ExitCode.OK
    produce(kafka, topic, range(300, 1_000))
    assert land(backup, None).code is ExitCode.OK
    produce(kafka, topic, range(1_000, 1_200))
    written = in_kafka(kafka, topic)
    kafka.expire_before(topic, 0, 800)
    kafka.expire_before(topic, 1, 1_100)  # of which the backup has a part only

    first = land(s3_scene.group(**spec), None)

    assert first.code is ExitCode.STALLED
    (stalled,) = (p for p in first.now.partitions if p.blocked)
    assert (stalled.partition, stalled.checkpoint) == (1, 1_000)
    assert "offsets [1000, 1100) expired before they were landed" in stalled.message
    assert "backup has landed it up to offset 1000" in stalled.message
    assert {p.read_from for status in first.statuses for p in status.partitions} == {"", "backup"}
    file = str(s3_scene.file(tmp_path, **spec))
    assert main(["skip", file, f"{topic}/1", "--why", "nobody has it"]) == ExitCode.OK
    assert f"{topic}/1[1000, 1100) is not landed" in capsys.readouterr().out
    assert land(s3_scene.group(**spec), None).code is ExitCode.OK

    gone = Counter({(topic, 1, offset): 1 for offset in range(1_000, 1_100)})
    assert audit(written - gone, in_bucket(s3_scene.bucket)) == EXACT
    assert from_backup(s3_scene) == {0: {*range(300, 800)}, 1: {*range(300, 1_000)}}
    assert s3_scene.faults(**spec) == []
    assert main(["verify", file, "--kafka"]) == ExitCode.OK
    # All but the first 300 of each, which came from Kafka and are not there any more.
    assert "payloads: the same 1,700 as in Kafka; 2 ranges are no longer" in capsys.readouterr().out


def produce(kafka: Broker, topic: str, numbers: range) -> None:
    for partition in range(2):
        kafka.produce(topic, events(numbers, partition))


def from_backup(scene: Scene) -> dict[int, set[int]]:
    """By Kafka partition, the offsets that COMMITs say were read from another group."""
    found: dict[int, set[int]] = {}
    for seq, body in scene.lane().bodies():
        record = decode(seq, body)
        for each in record.slices if isinstance(record, Commit) else ():
            if each.read_from == "backup":
                offsets = range(each.piece.offsets.start, each.piece.offsets.end)
                found.setdefault(each.piece.topic_partition.partition, set()).update(offsets)
    return found
