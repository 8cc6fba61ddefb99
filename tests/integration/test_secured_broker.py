"""A Kafka with SASL and TLS: access by Kafka properties and secret files, and its errors."""

import base64
import json
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from dev.servers.server import Server
from landfall.api.spec import ConsumerGroup, parse_group
from landfall.driver.process.preflight import server_faults
from landfall.errors import LandfallError, Reason, Stalled
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.native import HotPath
from landfall.source import Bound
from landfall.source.kafka import KafkaLog
from landfall.source.properties import kafka_properties
from landfall.source.reader import KafkaReader
from tests.support.driver.hot_paths import BOTH, running
from tests.support.kafka.broker import SECONDS, Broker
from tests.support.kafka.secured import ADMIN, PASSWORD, SECURED_KAFKA, USER
from tests.support.waiting import eventually

pytestmark = pytest.mark.xdist_group("secured")

WRONG = "hunter2-was-wrong"
PLAIN = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
TOPIC = "orders"
TP = TopicPartition(TOPIC, 0)


@pytest.fixture(scope="module")
def ca(broker: Broker) -> str:
    """The path of the CA certificate."""
    return str(broker.client["ssl.ca.location"])


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A secured broker with a hundred records in ``TOPIC``."""
    server = Server(SECURED_KAFKA, tmp_path_factory.mktemp("secured"))
    try:
        address = server.up().address
        trusted = {"ssl.ca.location": f"{server.home}/ca.pem"}
        broker = Broker(f"{address}", {"log_level": 2, **PLAIN, **trusted, **credentials(PASSWORD)})
        broker.create_topic(TOPIC)
        broker.produce(TOPIC, [b"%d" % n for n in range(100)])
        yield broker
    finally:
        server.down(at_once=True)


@pytest.fixture
def group(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., ConsumerGroup]:
    """Creates a group from properties and secret files: ``group(properties, secrets)``."""
    monkeypatch.setenv("LANDFALL_SECRETS", str(tmp_path))
    (tmp_path / "kafka-auth").mkdir()

    def of(properties: Mapping[str, str], secret: Mapping[str, str]) -> ConsumerGroup:
        for name, text in secret.items():
            (tmp_path / "kafka-auth" / name).write_text(text)
        kafka = {
            "bootstrapServers": broker.bootstrap,
            "topics": [TOPIC],
            "properties": properties,
            "propertiesSecretRef": {"name": "kafka-auth"},
        }
        return parse_group(
            {
                "apiVersion": "landfall.dev/v1alpha1",
                "kind": "ConsumerGroup",
                "metadata": {"name": f"secured-{uuid4().hex[:8]}"},
                "spec": {"source": {"kafka": kafka}, "output": {"url": "file:///nowhere"}},
            }
        )

    return of


def credentials(password: str) -> dict[str, str]:
    return {"sasl.username": USER, "sasl.password": password}


def lines(properties: Mapping[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in properties.items())


def read(group: ConsumerGroup, seconds: int = 60) -> list[bytes]:
    reader = KafkaReader(kafka_properties(group), timedelta(seconds=seconds))
    try:
        chunks = reader.read(Slice(TP, OffsetRange(10, 90)))
        return [value for records in chunks for value in records.values.to_pylist()]
    finally:
        reader.close()


def ask(group: ConsumerGroup) -> object:
    log = KafkaLog(group)
    try:
        return [topic.name for topic in log.topics().topics], log.offsets([TP], Bound.END).offsets
    finally:
        log.close()


def mirrored(broker: Broker, group: ConsumerGroup) -> int:
    log = KafkaLog(group)
    log.mirror({TP: 42})
    log.close()
    anybody = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": group.kafka_group_id, **broker.client}
    )
    (committed,) = anybody.committed([Position(TOPIC, 0)], SECONDS)
    anybody.close()
    return int(committed.offset)


def test_a_secret_file_per_property_gives_access(
    broker: Broker, ca: str, group: Callable[..., ConsumerGroup]
) -> None:
    secret = {"sasl.username": f"{USER}\n", "sasl.password": f"{PASSWORD}\n"}
    ours = group({**PLAIN, "ssl.ca.location": ca}, secret)

    assert ask(ours) == ([TOPIC], {TP: 100})
    assert read(ours) == [b"%d" % n for n in range(10, 90)]
    assert mirrored(broker, ours) == 42


def test_a_secret_properties_file_gives_access(
    broker: Broker, ca: str, group: Callable[..., ConsumerGroup]
) -> None:
    ours = group(
        {}, {"properties": lines({**PLAIN, "ssl.ca.location": ca, **credentials(PASSWORD)})}
    )

    assert ask(ours) == ([TOPIC], {TP: 100})
    assert read(ours) == [b"%d" % n for n in range(10, 90)]
    assert mirrored(broker, ours) == 42


def test_the_certificate_can_be_a_secret_file(ca: str, group: Callable[..., ConsumerGroup]) -> None:
    ours = group(PLAIN, {"ssl.ca.pem": Path(ca).read_text(), **credentials(PASSWORD)})

    assert ask(ours) == ([TOPIC], {TP: 100})


@pytest.mark.parametrize("attempt", [ask, read])
def test_a_wrong_password_is_reported_but_never_shown(
    attempt: Callable[[ConsumerGroup], object],
    ca: str,
    group: Callable[..., ConsumerGroup],
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    ours = group({**PLAIN, "ssl.ca.location": ca}, credentials(WRONG))

    with pytest.raises(Stalled, match=r"(?i)authentication") as stalled:
        attempt(ours)

    assert stalled.value.reason is Reason.SOURCE_DENIED
    assert WRONG not in "".join([str(stalled.value), caplog.text, *capfd.readouterr()])


@pytest.mark.parametrize("attempt", [ask, read])
def test_an_untrusted_certificate_is_named_as_the_reason(
    attempt: Callable[[ConsumerGroup], object], group: Callable[..., ConsumerGroup]
) -> None:
    ours = group(PLAIN, credentials(PASSWORD))

    with pytest.raises(Stalled, match="certificate") as stalled:
        attempt(ours)

    assert stalled.value.reason is Reason.SOURCE_DENIED


def test_a_check_names_topics_that_may_be_described_but_not_read(
    broker: Broker, ca: str, group: Callable[..., ConsumerGroup]
) -> None:
    ours = group({**PLAIN, "ssl.ca.location": ca}, credentials(PASSWORD))
    admin = AdminClient(
        {"bootstrap.servers": broker.bootstrap, **broker.client, "sasl.username": "admin"}
        | {"sasl.password": ADMIN}
    )
    assert list(server_faults_of_kafka(ours)) == []
    rule = AclBinding(
        ResourceType.TOPIC,
        TOPIC,
        ResourcePatternType.LITERAL,
        f"User:{USER}",
        "*",
        AclOperation.DESCRIBE,
        AclPermissionType.ALLOW,
    )
    for future in admin.create_acls([rule]).values():
        future.result(SECONDS)
    try:
        found = eventually(lambda: list(server_faults_of_kafka(ours)), bool)
    finally:
        rules = AclBindingFilter(*(getattr(rule, name) for name in _OF_RULES))
        for future in admin.delete_acls([rules]).values():
            future.result(SECONDS)

    assert [str(fault) for fault in found] == [
        f"spec.source.kafka: {TOPIC}: the login may not READ it: grant READ"
    ]


_OF_RULES = (
    *("restype", "name", "resource_pattern_type"),
    *("principal", "host", "operation", "permission_type"),
)


def server_faults_of_kafka(group: ConsumerGroup) -> Iterator[LandfallError]:
    return (fault for fault in server_faults(group) if "source.kafka" in str(fault))


# ----------------------------------------------------------------------------- mechanisms, logins

SCRAM = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"}
TOKENS = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "enable.sasl.oauthbearer.unsecure.jwt": "true",
    "sasl.oauthbearer.config": f"principal={USER}",
}


@pytest.fixture(params=BOTH)
def hot_path(request: pytest.FixtureRequest) -> Iterator[None]:
    path: HotPath = request.param
    with running(path):
        yield


@pytest.fixture(scope="module")
def admin(broker: Broker) -> AdminClient:
    login = {"sasl.username": "admin", "sasl.password": ADMIN}
    config: dict[str, str | int | float | bool] = {**broker.client, **login}
    return AdminClient({"bootstrap.servers": broker.bootstrap, **config})


@pytest.fixture(scope="module")
def scram(admin: AdminClient) -> dict[str, str]:
    """The login of a user who has a SCRAM credential."""
    mechanism = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    change = UserScramCredentialUpsertion("scrammer", mechanism, b"a-long-secret")
    for future in admin.alter_user_scram_credentials([change]).values():
        future.result(SECONDS)
    return {"sasl.username": "scrammer", "sasl.password": "a-long-secret"}


@pytest.mark.usefixtures("hot_path")
def test_scram_gives_access(
    scram: dict[str, str], ca: str, group: Callable[..., ConsumerGroup]
) -> None:
    ours = group({**SCRAM, "ssl.ca.location": ca}, scram)

    eventually(lambda: ask(ours) == ([TOPIC], {TP: 100}), bool)
    assert read(ours) == [b"%d" % n for n in range(10, 90)]


@pytest.mark.usefixtures("hot_path")
def test_oauthbearer_gives_access_and_its_tokens_are_renewed(
    ca: str, group: Callable[..., ConsumerGroup]
) -> None:
    brief = TOKENS["sasl.oauthbearer.config"] + " lifeSeconds=2"
    ours = group({**TOKENS, "ssl.ca.location": ca, "sasl.oauthbearer.config": brief}, {})

    assert ask(ours) == ([TOPIC], {TP: 100})
    reader = KafkaReader(kafka_properties(ours), timedelta(seconds=60))
    try:
        for _ in range(3):
            found = [r.values.to_pylist() for r in reader.read(Slice(TP, OffsetRange(10, 90)))]
            assert [value for values in found for value in values] == [
                b"%d" % n for n in range(10, 90)
            ]
            time.sleep(1.5)
    finally:
        reader.close()


def unsecured_token(config: str) -> tuple[str, float]:
    """What ``oauth_cb`` names below: a token without a signature, which this broker takes."""
    now = time.time()
    claims = {"sub": config, "iat": now, "exp": now + 5}
    parts = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
        for part in ({"alg": "none"}, claims)
    ]
    _CALLS.append(config)
    return ".".join([*parts, ""]), now + 5


_CALLS: list[str] = []


@pytest.mark.usefixtures("hot_path")
def test_a_function_gives_tokens_and_renews_them(
    ca: str, group: Callable[..., ConsumerGroup]
) -> None:
    named = {"oauth_cb": f"{__name__}:unsecured_token", "sasl.oauthbearer.config": USER}
    of_librdkafka = "enable.sasl.oauthbearer.unsecure.jwt"
    tokens = {name: text for name, text in TOKENS.items() if name != of_librdkafka}
    ours = group({**tokens, **named, "ssl.ca.location": ca}, {})

    assert ask(ours) == ([TOPIC], {TP: 100})
    before = len(_CALLS)
    reader = KafkaReader(kafka_properties(ours), timedelta(seconds=60))
    try:
        for _ in range(3):
            chunks = reader.read(Slice(TP, OffsetRange(10, 90)))
            assert sum(len(records) for records in chunks) == 80
            time.sleep(3)
    finally:
        reader.close()
    assert set(_CALLS) == {USER}
    assert len(_CALLS) >= before + 2


@pytest.mark.parametrize("hot_path", BOTH, indirect=True)
@pytest.mark.usefixtures("hot_path")
def test_a_topic_that_an_acl_denies_is_named(
    admin: AdminClient, ca: str, group: Callable[..., ConsumerGroup]
) -> None:
    rule = AclBinding(
        ResourceType.TOPIC,
        TOPIC,
        ResourcePatternType.LITERAL,
        f"User:{USER}",
        "*",
        AclOperation.READ,
        AclPermissionType.DENY,
    )
    ours = group({**PLAIN, "ssl.ca.location": ca}, credentials(PASSWORD))
    for future in admin.create_acls([rule]).values():
        future.result(SECONDS)
    try:
        refused = eventually(lambda: refusal(ours), bool)
    finally:
        rules = AclBindingFilter(*(getattr(rule, name) for name in _OF_RULES))
        for future in admin.delete_acls([rules]).values():
            future.result(SECONDS)

    assert refused is not None
    assert refused.reason is Reason.SOURCE_DENIED
    assert TOPIC in str(refused)


def refusal(group: ConsumerGroup) -> Stalled | None:
    try:
        read(group, 8)  # a denial is told from silence when nothing has come for so long
    except Stalled as stalled:
        return stalled
    return None
