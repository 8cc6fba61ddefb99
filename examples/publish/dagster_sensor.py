"""A Dagster sensor that runs a job once for each hour of orders that is complete.

Landfall's publisher of the type ``Kafka`` sends ``Finished`` events to ``landfall-events``. The
sensor's cursor is the offset to read next, and the id of an event is the key of its run, so that
Dagster starts no second run for it.
"""

import json

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from dagster import Config as OpConfig
from dagster import (
    Definitions,
    OpExecutionContext,
    RunConfig,
    RunRequest,
    SensorResult,
    job,
    op,
    sensor,
)

TOPIC = "landfall-events"
SERVERS = "kafka:9092"


class Hour(OpConfig):
    """Which hour is complete."""

    folder: str


@op
def count(context: OpExecutionContext, config: Hour) -> None:
    """Say which hour is complete; a real op reads its folder."""
    context.log.info("complete: %s", config.folder)


@job
def hourly() -> None:
    """Run for each hour."""
    count()


@sensor(job=hourly, minimum_interval_seconds=30)
def finished_hours(context) -> SensorResult:  # noqa: ANN001  # given by Dagster
    """A run for each message since the last evaluation."""
    consumer = Consumer(
        {
            "bootstrap.servers": SERVERS,
            "group.id": "unused",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    offset = int(context.cursor) if context.cursor else OFFSET_BEGINNING
    consumer.assign([TopicPartition(TOPIC, 0, offset)])
    requests = []
    while message := consumer.poll(5):
        if message.error():
            break
        offset = message.offset() + 1
        event = json.loads(message.value())
        if event["data"].get("unit") == "hour":
            folder = f"s3://logs/parsed/{event['subject']}"
            config = RunConfig({"count": Hour(folder=folder)})
            requests.append(RunRequest(run_key=event["id"], run_config=config))
    consumer.close()
    return SensorResult(run_requests=requests, cursor=str(offset) if offset >= 0 else None)


defs = Definitions(jobs=[hourly], sensors=[finished_hours])
