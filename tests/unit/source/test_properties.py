"""Where librdkafka properties come from, and which are reserved."""

from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException

from landfall.api.spec import ConsumerGroup, parse_group
from landfall.errors import Reason, Stalled
from landfall.source.properties import (
    EXACTNESS_PROPERTIES,
    create_client,
    kafka_properties,
    with_fetch_properties,
)
from landfall.source.property_names import NAMES


def group(**kafka: object) -> ConsumerGroup:
    document = {
        "apiVersion": "landfall.dev/v1alpha1",
        "kind": "ConsumerGroup",
        "metadata": {"name": "clicks", "namespace": "logs"},
        "spec": {
            "source": {"kafka": {"bootstrapServers": "b:1", "topicPattern": ".*", **kafka}},
            "output": {"url": "file:///x"},
        },
    }
    return parse_group(document)


@pytest.fixture
def secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LANDFALL_SECRETS", str(tmp_path))
    folder = tmp_path / "auth"
    folder.mkdir()
    return folder


def test_addresses_and_group_id_are_always_set() -> None:
    assert kafka_properties(group()) == {"bootstrap.servers": "b:1", "group.id": "logs.clicks"}


def test_secret_files_override_lines_and_lines_override_the_spec(secret: Path) -> None:
    (secret / "properties").write_text(
        "# a comment\n\nsasl.username = from-lines\nsasl.mechanism=PLAIN\na=b=c\n"
    )
    (secret / "sasl.mechanism").write_text("SCRAM-SHA-512\n")
    plain = {
        "sasl.username": "from-spec",
        "socket.keepalive.enable": True,
        "client.id": None,
        "retries": 3,
    }

    found = kafka_properties(group(properties=plain, propertiesSecretRef={"name": "auth"}))

    assert found == {
        "bootstrap.servers": "b:1",
        "group.id": "logs.clicks",
        "socket.keepalive.enable": "true",
        "retries": "3",
        "sasl.username": "from-lines",
        "sasl.mechanism": "SCRAM-SHA-512",
        "a": "b=c",
    }


@pytest.mark.parametrize(
    "key", ["isolation.level", "enable.auto.commit", "group.id", "auto.offset.reset"]
)
def test_a_reserved_property_is_refused_in_spec_and_secret(key: str, secret: Path) -> None:
    (secret / key).write_text("x")

    for refused in (group(properties={key: "x"}), group(propertiesSecretRef={"name": "auth"})):
        with pytest.raises(Stalled, match=f"landfall sets {key} itself") as stalled:
            kafka_properties(refused)
        assert stalled.value.reason is Reason.SPEC_INVALID


def test_a_line_that_is_no_property_is_named_but_not_shown(secret: Path) -> None:
    (secret / "properties").write_text("a=b\nhunter2\n")

    with pytest.raises(Stalled, match=r"line 2: not key=value$"):
        kafka_properties(group(propertiesSecretRef={"name": "auth"}))


def test_a_property_the_client_rejects_is_named_without_its_value() -> None:
    with pytest.raises(Stalled, match=r"security\.protocol") as stalled:
        create_client(Consumer, {"group.id": "g", "security.protocol": "hunter2"})

    assert "hunter2" not in str(stalled.value)
    assert stalled.value.reason is Reason.SPEC_INVALID


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("securty.protocol", "SSL", "librdkafka has no such property, did you mean security.pr"),
        ("sasl.user", "me", "librdkafka has no such property, did you mean sasl.username?"),
        ("zzz", "me", "librdkafka has no such property"),
        ("security.protocol", "hunter2", "librdkafka does not accept this value"),
        ("socket.timeout.ms", "5", "must be a number from 10 to 300000"),
        ("socket.timeout.ms", "hunter2", "librdkafka does not accept this value"),
        ("check.crcs", "hunter2", "must be true or false"),
        (
            "sasl.jaas.config",
            "hunter2",
            "is a property of the Java client, librdkafka has sasl.username and sasl.password",
        ),
        (
            "ssl.truststore.type",
            "JKS",
            "is a property of the Java client, librdkafka has ssl.ca.location, a PEM file",
        ),
    ],
)
def test_a_refused_property_is_named_by_its_path_with_what_is_right(
    name: str, value: str, message: str
) -> None:
    with pytest.raises(Stalled) as stalled:
        create_client(Consumer, {"group.id": "g", name: value})

    assert f"spec.source.kafka.properties.{name}: {message}" in str(stalled.value)
    assert "hunter2" not in str(stalled.value)


@pytest.mark.parametrize("more", [{"sasl.mechanism": "GSSAPI"}, {}])
def test_kerberos_names_the_way_out(more: dict[str, str]) -> None:
    with pytest.raises(Stalled) as stalled:
        create_client(Consumer, {"group.id": "g", "security.protocol": "SASL_SSL", **more})

    message = str(stalled.value)
    assert message.startswith("spec.source.kafka.properties.sasl.mechanism: GSSAPI (Kerberos)")
    assert "install confluent-kafka into the image from source" in message


def test_names_that_are_suggested_are_librdkafkas() -> None:
    unknown = []
    for name in NAMES:
        try:
            Consumer({"group.id": "g", "log_level": 0, name: "\x01"}).close()
        except KafkaException as error:
            unknown += [name] if "No such" in str(error) else []
        except (ValueError, TypeError):
            continue  # not a value of this property

    assert unknown == []


LIMITS = ("message.max.bytes", "fetch.max.bytes", "receive.message.max.bytes")


@pytest.mark.parametrize(
    ("of_user", "fetch_bytes", "answer_bytes"),
    [
        ({}, 64 * 2**20, 256 * 2**20),
        ({"message.max.bytes": "100000000"}, 100_000_000, 256 * 2**20),
        ({"message.max.bytes": "1000000000"}, 1_000_000_000, 1_000_000_512),
        ({"fetch.max.bytes": "300000000"}, "300000000", 300_000_512),
        ({"fetch.max.bytes": "2147483135"}, "2147483135", 2_147_483_647),
        ({"receive.message.max.bytes": "10000000"}, 9_999_488, "10000000"),
        ({"fetch.message.max.bytes": "100000000"}, 64 * 2**20, 256 * 2**20),
        ({"queued.max.messages.kbytes": "1"}, 64 * 2**20, 256 * 2**20),
    ],
)
def test_limits_follow_those_that_a_user_sets(
    of_user: dict[str, str], fetch_bytes: object, answer_bytes: object
) -> None:
    properties = {**with_fetch_properties(kafka_properties(group(properties=of_user)))}

    # librdkafka itself compares the limits with each other.
    create_client(Consumer, {**properties, **EXACTNESS_PROPERTIES}).close()

    assert [properties.get(name) for name in LIMITS] == [
        of_user.get("message.max.bytes"),
        fetch_bytes,
        answer_bytes,
    ]


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_that_is_no_number_is_refused_by_its_name(name: str) -> None:
    properties = with_fetch_properties(kafka_properties(group(properties={name: "much"})))

    with pytest.raises(Stalled) as caught:
        create_client(Consumer, properties)

    assert name in str(caught.value)
