"""What an engineer on call does when the broker is the trouble: a truncated log, denied access.

As in ``test_verbs``, each test takes the next step that ``/status`` shows. Each has a broker of its
own, which it breaks.
"""

import shutil
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from dev.servers.kafka import KAFKA
from dev.servers.server import Server, ServerKind
from landfall.api.contract import ExitCode, PartitionStatus
from landfall.api.verbs import Outcome, RetryRequest
from landfall.driver.decide import deleted
from landfall.ledger import Add, Block, Drop, Hole, Unblock
from tests.support.audit.independent_audit import events
from tests.support.kafka.broker import Broker
from tests.support.kafka.secured import ADMIN, PASSWORD, SECURED_KAFKA, USER
from tests.support.landing.group import Landing, Scene
from tests.support.landing.on_call import OnCall, blocked, landed
from tests.support.stores.s3 import Bucket

pytestmark = pytest.mark.xdist_group("verbs_broker")

KEPT, LOST, AGAIN = range(100), range(100, 200), range(1000, 1150)
"""Records that both copies of the log have, that only the first has, and that only the second."""


@pytest.fixture
def keys(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    for name, value in bucket.server.env.items():
        monkeypatch.setenv(name, value)
    return bucket


# -------------------------------------------------------------------------------- a truncated log


@pytest.fixture
def truncated(
    keys: Bucket, own_server: Callable[[ServerKind], Server], tmp_path: Path
) -> tuple[OnCall, str]:
    """A group, and its topic, whose log was truncated after it had been landed, and has grown.

    While its broker is stopped, the partition's folder is replaced by an older copy: the broker
    then has what an out-of-date replica has that became the leader.
    """
    server, copy = own_server(KAFKA), tmp_path / "copy"
    scene = Scene(started(server), keys)
    topic = scene.topic()
    scene.kafka.produce(topic, events(KEPT))
    server.down()
    (folder,) = server.home.rglob(f"{topic}-0")
    shutil.copytree(folder, copy)
    scene = Scene(started(server), keys, scene.prefix)
    scene.kafka.produce(topic, events(LOST))
    on_call = OnCall(scene, tmp_path / "group.yaml", {})
    on_call.edit()
    assert on_call.land().code is ExitCode.OK
    server.down()
    shutil.rmtree(folder)
    shutil.copytree(copy, folder)
    on_call.scene = Scene(started(server), keys, scene.prefix)
    on_call.scene.kafka.produce(topic, events(AGAIN))
    on_call.edit()
    return on_call, topic


def started(server: Server) -> Broker:
    address = server.up().address
    assert address
    return Broker(address, {"log_level": 2})


def test_a_truncated_log_lands_on_at_the_checkpoint(truncated: tuple[OnCall, str]) -> None:
    on_call, topic = truncated
    stopped = on_call.stalls("DataLoss")
    assert stopped.next_step.startswith("landfall unblock")
    assert f"truncated at offset {len(KEPT)}" in stopped.message

    on_call.follow(stopped.next_step)

    on_call.lands_all(topic, [*KEPT, *LOST, *AGAIN[len(LOST) :]], ExitCode.UNCHECKED)
    (unblock,) = on_call.decided(Unblock)
    assert unblock.entries[0].topic_partition.topic == topic


def test_a_truncated_log_is_landed_anew_in_a_new_generation(truncated: tuple[OnCall, str]) -> None:
    on_call, topic = truncated
    on_call.stalls("DataLoss")

    on_call.edit(generation=2)
    on_call.follow(f"landfall reset GROUP.yaml {topic}/0 --to {len(KEPT)} --why INC-12")

    on_call.lands_all(topic, [*KEPT, *LOST, *AGAIN], ExitCode.UNCHECKED)
    assert len([add for add in on_call.records(Add) if add.decision]) == 1


# ---------------------------------------------------------------------------------- denied access


@pytest.fixture
def secured(
    keys: Bucket,
    own_server: Callable[[ServerKind], Server],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> OnCall:
    """A group that logs in to a broker with ACLs, as a user who is no administrator."""
    server = own_server(SECURED_KAFKA)
    address = server.up().address
    ca = f"{server.home}/ca.pem"
    login = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "ssl.ca.location": ca}
    admin = {**login, "sasl.username": "admin", "sasl.password": ADMIN}
    scene = Scene(Broker(f"{address}", {"log_level": 2, **admin}), keys)
    monkeypatch.setenv("LANDFALL_SECRETS", str(tmp_path))
    (tmp_path / "kafka").mkdir()
    (tmp_path / "kafka" / "sasl.username").write_text(USER)
    (tmp_path / "kafka" / "sasl.password").write_text(PASSWORD)
    on_call = OnCall(scene, tmp_path / "group.yaml", {})
    on_call.edit(kafka={"properties": login, "propertiesSecretRef": {"name": "kafka"}})
    return on_call


UNREADABLE = {
    AclOperation.DESCRIBE: AclPermissionType.ALLOW,
    AclOperation.READ: AclPermissionType.DENY,
}
"""The user may see the topic, and not read it."""
INVISIBLE = {AclOperation.DESCRIBE: AclPermissionType.DENY}
"""The user may not even see whether the topic exists."""


def acls(topic: str, rules: Mapping[AclOperation, AclPermissionType]) -> list[AclBinding]:
    where = (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{USER}", "*")
    return [AclBinding(*where, *rule) for rule in rules.items()]


def every_acl(topic: str) -> AclBindingFilter:
    """Without an ACL, everybody may do everything with the topic."""
    return AclBindingFilter(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )


def stopped_alone(
    secured: OnCall, deny_it: Callable[[str], None]
) -> tuple[Landing, PartitionStatus]:
    """A running driver that lands two topics, of which the first is denied halfway."""
    scene, kafka = secured.scene, secured.scene.kafka
    topic, other = scene.topic("denied"), scene.topic("granted")
    kafka.produce(topic, events(range(100)))
    kafka.produce(other, events(range(50)))
    running = secured.running()
    running.wait_until_landed()
    deny_it(topic)
    kafka.produce(topic, events(range(100, 200)))
    kafka.produce(other, events(range(50, 80)))
    status = running.wait_until(lambda s: any(p.blocked for p in s.partitions), "it is stopped")
    running.wait_until(lambda _: len(landed(scene, other)) == 80, "the other topic lands")
    stopped = blocked(status, "SourceDenied")
    assert stopped.topic == topic
    return running, stopped


def test_a_topic_that_kafka_denied_is_tried_at_once(secured: OnCall) -> None:
    def deny_reading(topic: str) -> None:
        for done in secured.scene.kafka.admin.create_acls(acls(topic, UNREADABLE)).values():
            done.result(60)

    running, stopped = stopped_alone(secured, deny_reading)
    topic = stopped.topic

    assert stopped.next_step.startswith("landfall retry")
    grant(secured, topic)
    assert running.driver.decide(RetryRequest(who="kim")).outcome is Outcome.DONE

    running.wait_until_landed()
    assert running.stop() is ExitCode.OK
    secured.lands_all(topic, range(200))


def test_a_topic_that_may_not_be_described_stops_alone_and_lands_by_itself(
    secured: OnCall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deleted, "PATIENCE", timedelta(seconds=2))
    running, stopped = stopped_alone(secured, partial(deny, secured))
    scene, topic = secured.scene, stopped.topic
    time.sleep(10)  # by then a deleted topic would be blocked

    assert f"{topic}: " in stopped.message
    assert "grant DESCRIBE" in stopped.message
    assert blocked(running.now, "SourceDenied")
    grant(secured, topic)
    running.wait_until(lambda _: len(landed(scene, topic)) == 200, "the denied topic lands")
    assert running.stop() is ExitCode.OK
    assert not [r for kind in (Block, Drop, Hole) for r in secured.records(kind)]
    secured.lands_all(topic, range(200))


def test_a_named_topic_that_was_never_described_holds_up_no_other(secured: OnCall) -> None:
    scene, kafka = secured.scene, secured.scene.kafka
    topic, other = scene.topic("denied"), scene.topic("granted")
    named = {"topicPattern": None, "topics": [topic, other]}
    kafka.produce(topic, events(range(100)))
    kafka.produce(other, events(range(50)))
    secured.edit(kafka={**secured.spec["kafka"], **named})
    deny(secured, topic)

    stopped = secured.land()

    assert stopped.code is ExitCode.STALLED
    assert f"SourceDenied: {topic}: " in stopped.now.message
    assert len(landed(scene, other)) == 50
    running = secured.running()
    grant(secured, topic)
    running.wait_until(lambda _: len(landed(scene, topic)) == 100, "the denied topic lands")
    assert running.stop() is ExitCode.OK


def deny(on_call: OnCall, topic: str) -> None:
    for done in on_call.scene.kafka.admin.create_acls(acls(topic, INVISIBLE)).values():
        done.result(60)


def grant(on_call: OnCall, topic: str) -> None:
    for done in on_call.scene.kafka.admin.delete_acls([every_acl(topic)]).values():
        done.result(60)
