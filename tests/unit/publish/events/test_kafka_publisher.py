"""The publisher ``Kafka`` without a broker: its options, its properties, what Kafka forgot."""

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError

from landfall.errors import DestinationAway, DestinationDenied, LandfallError, Stalled
from landfall.publish.cursor import Position, PublisherCursor
from landfall.publish.events.kafka import KafkaEvents, KafkaPublisher, position
from landfall.publish.events.kafka_transactions import BrokerState, Destination, translated
from landfall.store.memory import MemoryStore
from tests.support.ledger.event_ledger import EventLedger

TO = Destination("events", "landfall.default.shop.0.events", "ledger", {}, "field")


def publisher(options: dict[str, object], **more: Any) -> KafkaPublisher:
    made = KafkaEvents.of(options, EventLedger("Kafka", {}, **more).context)
    assert isinstance(made, KafkaPublisher)
    return made


def test_the_cluster_of_the_source_is_used_with_its_properties(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANDFALL_SECRETS", str(tmp_path))
    for name, files in {
        "source": {"properties": "sasl.username=reader\nsasl.password=r\n"},
        "writer": {"sasl.username": "writer\n"},
    }.items():
        (tmp_path / name).mkdir()
        for key, text in files.items():
            (tmp_path / name / key).write_text(text)
    spec = {
        "source__kafka__properties": {"security.protocol": "sasl_ssl"},
        "source__kafka__propertiesSecretRef": {"name": "source"},
    }
    entry = {"secretRef": {"name": "writer"}}

    made = publisher({"topic": "e", "properties": {"linger.ms": 9}}, spec=spec, entry=entry)

    to = made.destination()
    assert to.name == "landfall.default.shop.0.events"
    assert to.properties == {
        "bootstrap.servers": "kafka:9092",
        "group.id": "default.shop",
        "security.protocol": "sasl_ssl",
        "sasl.username": "writer",
        "sasl.password": "r",
        "linger.ms": "9",
    }


def test_another_cluster_has_nothing_of_the_source() -> None:
    spec = {"source__kafka__properties": {"security.protocol": "ssl"}}
    options: dict[str, object] = {"topic": "clicks", "bootstrapServers": "other:9092"}

    made = publisher(options, spec=spec)

    assert made.destination().properties == {"bootstrap.servers": "other:9092"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "options: Object missing required field `topic`"),
        ({"topic": "a b"}, "option topic: not the name of a topic: 'a b'"),
        ({"topic": "clicks"}, "option topic: the group lands clicks itself"),
        (
            {"topic": "e", "properties": {"transactional.id": "x", "acks": 1}},
            "option properties: landfall sets acks, transactional.id itself",
        ),
    ],
)
def test_options_that_do_not_fit(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match="option") as caught:
        publisher(options)

    assert str(caught.value).startswith(message)


def cursor(at: Position) -> PublisherCursor:
    made = PublisherCursor.of(MemoryStore(), ("shop", "0"), "events", "kafka")
    made.write(at)
    return made


@pytest.mark.parametrize(
    ("found", "at", "expected"),
    [
        (None, Position(), -1),
        (None, Position(7), 7),
        (None, Position(7, {"sending": 7}), 7),
        (5, Position(7), 5),
        (-1, Position(7, {"sending": 9}), -1),
        (9, Position(7, {"sending": 9}), 9),
    ],
)
def test_the_position_is_what_kafka_says_before_what_the_cursor_says(
    found: int | None, at: Position, expected: int
) -> None:
    assert position(BrokerState("cluster", found), cursor(at), TO) == expected


@pytest.mark.parametrize("at", [Position(7, {"sending": 9}), Position(-1, {"sending": 4})])
def test_if_neither_knows_somebody_decides(at: Position) -> None:
    with pytest.raises(Stalled, match=r"partition 0 to \d+ if they are, to \d+ if not"):
        position(BrokerState("cluster", None), cursor(at), TO)


@pytest.mark.parametrize(
    ("code", "kind", "text"),
    [
        (KafkaError._TRANSPORT, DestinationAway, ""),
        (KafkaError._TIMED_OUT, DestinationAway, ""),
        (KafkaError._FENCED, DestinationAway, "another publisher has begun under the name"),
        (KafkaError.INVALID_PRODUCER_EPOCH, DestinationAway, "another publisher has begun"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, DestinationDenied, "Write, Describe and Read"),
        (
            KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            DestinationDenied,
            "on the transactional id landfall.default.shop.0.events",
        ),
        (KafkaError.MSG_SIZE_TOO_LARGE, Stalled, ""),
    ],
)
def test_what_errors_of_the_client_mean(code: int, kind: type[LandfallError], text: str) -> None:
    error = translated(KafkaError(code), TO)

    assert type(error) is kind
    assert str(error).startswith("topic events: ")
    assert text in str(error)
