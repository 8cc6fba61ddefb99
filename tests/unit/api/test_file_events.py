"""The parts of a feed that need S3: events and dedupe."""

from typing import Any

import pytest
from pydantic import ValidationError

from landfall.api.spec import Feed

TOPIC = {"bootstrapServers": "kafka:9092", "topic": "s3.events"}
QUEUE = {"queueUrl": "https://sqs.eu-west-1.amazonaws.com/1/files", "region": "eu-west-1"}


def feed(**fields: Any) -> Feed:
    return Feed.model_validate({"topic": "hits", "url": "s3://logs/in", **fields})


def test_events_come_from_one_place_with_its_secrets() -> None:
    kafka = feed(events={"kafka": {**TOPIC, "propertiesSecretRef": {"name": "kafka"}}}).events
    sqs = feed(events={"sqs": {**QUEUE, "credentialsSecretRef": {"name": "sqs"}}}).events
    neither = feed(events={"sqs": QUEUE}).events

    assert [each and each.secrets for each in (kafka, sqs, neither)] == [("kafka",), ("sqs",), ()]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"events": {}}, "exactly one of kafka and sqs is needed"),
        ({"events": {"kafka": TOPIC, "sqs": QUEUE}}, "exactly one of kafka and sqs is needed"),
        ({"events": {"kafka": {**TOPIC, "bootstrapServers": "kafka"}}}, "HOST:PORT"),
        ({"events": {"sqs": {"queueUrl": "files"}}}, "must be a URL such as"),
        ({"dedupe": {"by": "Name"}}, "ETag"),
        ({"url": "file:///in", "dedupe": {}}, "dedupe: only files in S3 have them"),
        ({"url": "file:///in", "events": {"sqs": QUEUE}}, "events: only files in S3 have them"),
    ],
)
def test_what_cannot_be_is_refused(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        feed(**fields)


@pytest.mark.parametrize(("name", "counts"), [("a\nb.json", True), ("a\nb.json.tmp", False)])
def test_patterns_match_names_with_line_breaks(name: str, *, counts: bool) -> None:
    assert feed(include=r"a.*", exclude=r".*\.tmp").counts(name) is counts
