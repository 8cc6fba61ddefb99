"""Notifications in a queue of SQS, as moto plays it."""

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from landfall.api.spec import EventQueue
from landfall.errors import StoreDenied
from landfall.source.event_queue import QueueEvents

REGION = "eu-west-1"


@pytest.fixture
def sqs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    with mock_aws():
        yield boto3.client("sqs", REGION)


@pytest.fixture
def url(sqs: Any) -> str:
    return str(sqs.create_queue(QueueName="files")["QueueUrl"])


def left(sqs: Any, url: str) -> int:
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    return sum(map(int, found.values()))


def opened(url: str) -> QueueEvents:
    return QueueEvents(EventQueue(queue_url=url, region=REGION), wait_seconds=0)


def test_messages_are_deleted_once_they_are_taken_in(sqs: Any, url: str) -> None:
    for text in ("one", "two"):
        sqs.send_message(QueueUrl=url, MessageBody=text)
    events = opened(url)

    received = sorted(events.receive())
    assert left(sqs, url) == 2
    events.forget()

    assert received == [b"one", b"two"]
    assert left(sqs, url) == 0
    assert events.receive() == []
    events.forget()
    events.close()


def test_a_queue_that_is_not_there_is_named(sqs: Any, url: str) -> None:
    with pytest.raises(StoreDenied, match=r"receive .*/gone"):
        opened(url.replace("/files", "/gone")).receive()
