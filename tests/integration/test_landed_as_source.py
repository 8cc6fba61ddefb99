"""A backup group keeps what Kafka forgets, and another group lands JSON by date from it."""

from collections import Counter
from pathlib import Path

import pytest
import yaml

from landfall.api.contract import ExitCode
from landfall.cli import main
from landfall.ledger.offsets import TopicPartition
from tests.support.independent_audit import EXACT, audit, events, in_bucket, in_kafka
from tests.support.landing import Scene, land

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
