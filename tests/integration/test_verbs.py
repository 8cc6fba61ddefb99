"""What an engineer on call does: eight ways in which a topic partition stops, and how it goes on.

Each test takes the next step that ``/status`` shows, lands the rest, and lets fsck and audit
check the whole. Nothing is lost but what was recorded as lost, and nothing is there twice.
"""

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from socket import socket
from typing import Any

import pytest
import yaml
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Position

from dev.servers.s3 import S3
from dev.servers.server import Server, ServerKind
from landfall.api.contract import ExitCode
from landfall.api.verbs import Outcome, RetryRequest, UnblockRequest
from landfall.cli import main
from landfall.driver.decide import deleted
from landfall.ledger import Add, Drop, Hole, Lost, Unblock
from landfall.ledger.offsets import TopicPartition
from landfall.store.s3.store import S3Store
from tests.integration.test_lost_uploads import die_at_commit
from tests.support.audit.independent_audit import events
from tests.support.kafka.broker import Broker, Message
from tests.support.landing.group import Landing, Scene
from tests.support.landing.on_call import OnCall, blocked, landed
from tests.support.landing.processes import Processes
from tests.support.stores.rotated_keys import RotatedKeys
from tests.support.waiting import wait_for

pytestmark = pytest.mark.xdist_group("verbs")

BY = ["--why", "INC-12", "--who", "kim"]


@pytest.fixture
def on_call(scene: Scene, tmp_path: Path) -> OnCall:
    made = OnCall(scene, tmp_path / "group.yaml", {})
    made.edit()
    return made


def test_expired_records_are_skipped_exactly(on_call: OnCall, capsys: Any) -> None:
    scene, kafka = on_call.scene, on_call.scene.kafka
    topic = scene.topic()
    kafka.produce(topic, events(range(1000)))
    assert on_call.land().code is ExitCode.OK
    kafka.produce(topic, events(range(1000, 1500)))
    kafka.expire_before(topic, 0, 1200)
    stopped = on_call.stalls("DataLoss")

    on_call.follow(stopped.next_step, "--dry-run")
    assert f"would record HOLE: {topic}/0[1000, 1200) is not landed" in capsys.readouterr().out
    on_call.follow(stopped.next_step)

    on_call.lands_all(topic, [*range(1000), *range(1200, 1500)])
    (hole,) = on_call.decided(Hole)
    assert str(hole.piece) == f"{topic}/0[1000, 1200)"


def test_bad_records_over_the_limit_are_taken_as_dead_letters(on_call: OnCall) -> None:
    on_call.edit(badRecords={"maxRatio": "0.1", "minCount": 1})
    topic, kafka = on_call.scene.topic(), on_call.scene.kafka
    kafka.produce(topic, [*events(range(100)), *(b"not JSON %d" % n for n in range(50))])
    stopped = on_call.stalls("BadRecordsOverLimit")

    on_call.follow(stopped.next_step)

    on_call.lands_all(topic, range(100))
    assert on_call.scene.state().totals.dead_lettered == 50
    (unblock,) = on_call.decided(Unblock)
    assert unblock.entries[0].bad_records_until == 150
    kafka.produce(topic, [*events(range(100, 110)), *(b"bad again" for _ in range(50))])
    assert on_call.stalls("BadRecordsOverLimit").checkpoint == 150


def test_a_running_driver_takes_what_is_bad_and_lands_on(on_call: OnCall) -> None:
    on_call.edit(badRecords={"maxRatio": "0.1", "minCount": 1})
    topic, kafka = on_call.scene.topic(), on_call.scene.kafka
    kafka.produce(topic, [*events(range(100)), *(b"not JSON %d" % n for n in range(50))])
    running = on_call.running()
    running.wait_until(lambda s: any(p.blocked for p in s.partitions), "it is stopped")

    answer = running.driver.decide(
        UnblockRequest(who="kim", why="INC-12", topic=topic, partition=0)
    )

    assert answer.outcome is Outcome.DONE
    running.wait_until_landed()
    assert running.stop() is ExitCode.OK
    on_call.lands_all(topic, range(100))


def test_poison_is_skipped_up_to_an_offset(on_call: OnCall) -> None:
    on_call.edit(badRecords={"policy": "Fail"})
    topic, kafka = on_call.scene.topic(), on_call.scene.kafka
    kafka.produce(topic, [*(b"poison" for _ in range(20)), *events(range(100))])
    on_call.stalls("BadRecordsOverLimit")

    skip = ["skip", str(on_call.file), f"{topic}/0", "--until", "20", *BY]
    assert main(skip) is ExitCode.OK

    on_call.lands_all(topic, range(100))
    assert on_call.scene.state().totals.skipped == 20


def test_a_deleted_topic_with_unlanded_records_is_recorded_as_lost(
    on_call: OnCall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deleted, "PATIENCE", timedelta(seconds=1))
    kafka = on_call.scene.kafka
    topic, other = on_call.scene.topic("gone"), on_call.scene.topic("kept")
    kafka.produce(topic, events(range(1000)))
    kafka.produce(other, events(range(100)))
    assert on_call.land().code is ExitCode.OK
    gone, due = TopicPartition(topic, 0), on_call.scene.document()["spec"]["uploadPolicy"]
    on_call.edit(uploadPolicy={"maxBytes": "1G", "maxAge": "1h"})
    kafka.produce(topic, events(range(1000, 1200)))
    running = on_call.running()
    running.wait_until(lambda s: s.lag_records == 200, "it has seen what is not landed")
    kafka.delete_topic(topic)
    status = running.wait_until(
        lambda s: any(p.blocked for p in s.partitions) and gone in on_call.scene.state().blocked,
        "it is stopped, over restarts, too",
    )
    stopped = blocked(status, "TopicMissing")
    running.stop()

    on_call.edit(uploadPolicy=due)
    on_call.follow(stopped.next_step)

    (hole,) = on_call.decided(Hole)
    assert str(hole.piece) == f"{topic}/0[1000, 1200)"
    kafka.produce(other, events(range(100, 200)))
    on_call.lands_all(other, range(200))


def test_a_recreated_topic_lands_from_its_start_in_a_new_generation(on_call: OnCall) -> None:
    scene, kafka = on_call.scene, on_call.scene.kafka
    topic = scene.topic()
    kafka.produce(topic, events(range(1000)))
    assert on_call.land().code is ExitCode.OK
    kafka.delete_topic(topic)
    scene.topic()
    kafka.produce(topic, events(range(2000, 2500)))
    stopped = on_call.stalls("TopicRecreated")

    on_call.edit(generation=2)
    on_call.follow(stopped.next_step)

    on_call.lands_all(topic, [*range(1000), *range(2000, 2500)])
    (add,) = (r for r in on_call.records(Add) if r.decision)
    assert (add.entries[0].start, scene.state().generation) == (0, 2)


def test_a_lost_object_whose_records_expired_is_given_up(on_call: OnCall) -> None:
    scene, kafka = on_call.scene, on_call.scene.kafka
    topic, other = scene.topic("a"), scene.topic("b")
    kafka.produce(topic, events(range(1000)))
    group = scene.group()
    die_at_commit(group, None, written=True)  # type: ignore[arg-type]  # tasks run in this process
    client, name = scene.bucket.server.client, scene.bucket.name
    (upload, *_) = client.list_multipart_uploads(Bucket=name)["Uploads"]
    client.abort_multipart_upload(Bucket=name, Key=upload["Key"], UploadId=upload["UploadId"])
    kafka.expire_before(topic, 0, 999)
    kafka.produce(other, events(range(100)))
    fail_fast = S3Store(scene.bucket.name, "", group.spec.output.s3, pauses=(0.1,))
    stopped = Landing(group, None, fail_fast).start()
    assert stopped.end() is ExitCode.STALLED
    assert landed(scene, other) == Counter((other, 0, n) for n in range(100))

    on_call.follow(blocked(stopped.now, "ObjectLost").next_step)

    kafka.produce(topic, events(range(1000, 1100)))
    again = on_call.land()
    if again.code is ExitCode.STALLED:  # what the first batch had not committed expired, too
        on_call.follow(blocked(again.now, "DataLoss").next_step)
    assert on_call.land().code is ExitCode.OK
    (lost,) = on_call.decided(Lost)
    skipped = sum(len(hole.piece.offsets) for hole in on_call.decided(Hole))
    gone = sum(o.rows for o in lost.objects) + skipped
    assert len(landed(scene, topic)) == 1100 - gone
    assert max(landed(scene, topic).values()) == 1
    assert main(["verify", str(on_call.file), "--kafka"]) is ExitCode.OK
    assert main(["fsck", str(on_call.file), "--deep"]) is ExitCode.OK
    assert main(["audit", str(on_call.file)]) is ExitCode.OK


def test_what_was_dropped_comes_back_by_a_reset(on_call: OnCall) -> None:
    scene, kafka = on_call.scene, on_call.scene.kafka
    topic = scene.topic()
    scene.topic("other")
    kafka.produce(topic, events(range(500)))
    assert on_call.land().code is ExitCode.OK
    assert main(["drop", str(on_call.file), f"{topic}/0", *BY]) is ExitCode.OK
    kafka.produce(topic, events(range(500, 800)))
    assert on_call.land().code is ExitCode.OK
    assert len(landed(scene, topic)) == 500

    back = ["reset", str(on_call.file), f"{topic}/0", "--to", "500", *BY]
    assert main(back) is ExitCode.REFUSED  # the names of generation 1 are taken
    on_call.edit(generation=2)
    assert main(back) is ExitCode.OK

    on_call.lands_all(topic, range(800))
    assert len(on_call.decided(Drop)) == 1


def test_dead_letters_are_landed_by_a_mended_decoder(on_call: OnCall) -> None:
    scene, kafka = on_call.scene, on_call.scene.kafka
    on_call.edit(badRecords={"maxRatio": "1"})
    topic = scene.topic()
    missing = (Message(b'{"id":%d,"p":0,"when":%d}' % (n, 1767225600000 + n)) for n in range(50))
    kafka.produce(topic, [*missing, *events(range(50, 200))])
    assert on_call.land().code is ExitCode.OK
    assert scene.state().totals.dead_lettered == 50
    replay = ["replay-dead-letters", str(on_call.file), topic, *BY]
    assert main(replay) is ExitCode.REFUSED  # only in a new generation

    mended = {"field": "ts", "unit": "Milliseconds", "missing": "KafkaTimestamp"}
    on_call.edit(generation=2, decode={"format": "Json", "timestamp": mended})
    assert main([*replay, "--dry-run"]) is ExitCode.OK
    assert main(replay) is ExitCode.OK
    assert main(replay) is ExitCode.REFUSED  # each dead letter once

    totals = scene.state().totals
    assert (totals.landed, totals.replayed, totals.dead_lettered) == (200, 50, 50)
    assert on_call.land().code is ExitCode.OK
    assert main(["fsck", str(on_call.file), "--deep"]) is ExitCode.OK
    # What was replayed is compared by the spec of the generation that replayed it.
    assert main(["audit", str(on_call.file)]) is ExitCode.OK
    assert main(["audit", str(on_call.file), "--generation", "1"]) is ExitCode.OK
    assert main(["verify", str(on_call.file)]) is ExitCode.OK
    assert main(["verify", str(on_call.file), "--kafka"]) is ExitCode.OK
    replayed = next(key for key in scene.bucket.keys(f"{topic}/") if "/2_0_" in key)
    scene.bucket.server.client.delete_object(Bucket=scene.bucket.name, Key=replayed)
    assert main(["verify", str(on_call.file)]) is ExitCode.FAULT


def test_committed_offsets_of_another_consumer_are_where_landing_begins(
    on_call: OnCall, capsys: Any
) -> None:
    scene, kafka = on_call.scene, on_call.scene.kafka
    topic = scene.topic(partitions=2)
    kafka.produce(topic, [*events(range(100)), *events(range(100, 150), 1)])
    secor = {"bootstrap.servers": kafka.bootstrap, "group.id": f"{scene.prefix}.secor"}
    consumer = Consumer(secor)
    consumer.commit(offsets=[Position(topic, 0, 40)], asynchronous=False)
    consumer.close()
    capsys.readouterr()

    assert main(["import-offsets", str(on_call.file), secor["group.id"]]) is ExitCode.OK
    printed = capsys.readouterr()
    assert f"begin at their log start: {topic}/1" in printed.err
    offsets = yaml.safe_load(printed.out)["spec"]["source"]["kafka"]
    assert offsets == {"startingOffsets": {"offsets": {topic: {"0": 40}}}}
    assert main(["import-offsets", str(on_call.file), "nobody"]) is ExitCode.FAULT
    assert "has committed no offset here" in capsys.readouterr().err

    add = ["import-offsets", str(on_call.file), secor["group.id"], "--add"]
    assert main(add) is ExitCode.USAGE  # a decision needs a reason
    assert main([*add, *BY]) is ExitCode.OK
    assert on_call.land().code is ExitCode.OK
    assert scene.state().totals.landed == 60 + 50
    assert main(["audit", str(on_call.file)]) is ExitCode.OK


def test_a_pod_is_asked_over_its_control_port(
    on_call: OnCall, processes: Processes, tmp_path: Path, capsys: Any
) -> None:
    scene, kafka = on_call.scene, on_call.scene.kafka
    topic = scene.topic()
    kafka.produce(topic, events(range(1000)))
    assert on_call.land().code is ExitCode.OK
    kafka.produce(topic, events(range(1000, 1500)))
    kafka.expire_before(topic, 0, 1200)
    pod = processes.pod(scene.document(), "r1")
    status = pod.until(lambda s: any(p["blocked"] for p in s["partitions"]), "it is stopped")
    (stopped,) = (p for p in status["partitions"] if p["blocked"])
    token = tmp_path / "token"
    token.write_text(pod.token)

    url = pod._url("listening")
    on_call.follow(stopped["next_step"], "--driver", url, "--token-file", str(token))

    assert "HOLE" in capsys.readouterr().out
    pod.until(lambda s: s["lag_records"] == 0 and not s["commits"]["unapplied"], "all is landed")
    refused = ["skip", str(on_call.file), f"{topic}/0", *BY]
    assert main(refused) is ExitCode.REFUSED  # a driver has the lane
    assert "--take-over" in capsys.readouterr().err
    assert main([*refused, "--until", "1500", "--take-over"]) is ExitCode.REFUSED  # and all landed
    pod.popen.terminate()
    assert pod.end() == ExitCode.OK, pod.said
    on_call.lands_all(topic, [*range(1000), *range(1200, 1500)])


def test_a_local_run_is_asked_over_the_control_port_that_it_was_given(
    on_call: OnCall, processes: Processes, tmp_path: Path
) -> None:
    topic, token = on_call.scene.topic(), tmp_path / "token"
    on_call.scene.kafka.produce(topic, events(range(100)))
    with socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = str(unused.getsockname()[1])
    control = ("--control-port", port, "--token-file", str(token))
    running = processes.run(on_call.scene.document(), "--http-port", "0", *control)

    asked = ["drop", str(on_call.file), f"{topic}/0", *BY]
    asked += ["--driver", f"http://localhost:{port}", "--token-file", str(token)]
    wait_for(lambda: token.exists() and on_call.scene.state().totals.landed == 100, "all is landed")
    wait_for(lambda: main(asked) is ExitCode.OK, "it has the lane, and answers")

    assert token.stat().st_mode & 0o777 == 0o600
    (drop,) = on_call.decided(Drop)
    assert [str(tp) for tp in drop.topic_partitions] == [f"{topic}/0"]
    running.popen.terminate()
    assert running.end() == ExitCode.OK, running.said


# ------------------------------------------------------------------------------ denied and granted


def test_a_store_that_denied_access_is_tried_at_once(
    kafka: Broker,
    own_server: Callable[[ServerKind], Server],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys = RotatedKeys.start(kafka, own_server(S3), tmp_path, monkeypatch)
    on_call = OnCall(keys.scene, tmp_path / "group.yaml", {})
    on_call.edit(output=keys.output)
    topic = keys.scene.topic()
    kafka.produce(topic, events(range(1000)))
    running = on_call.running()
    running.wait_until_landed()
    keys.rotate()
    kafka.produce(topic, events(range(1000, 1500)))
    keys.wait_until_denied(running)

    keys.write_secret()
    assert running.driver.decide(RetryRequest(who="kim")).outcome is Outcome.DONE

    running.wait_until_landed()
    assert running.stop() is ExitCode.OK
    OnCall(keys.afterwards(), on_call.file, on_call.spec).lands_all(topic, range(1500))
