"""SQS on this machine: moto's, answering over HTTP to every program that asks, such as a driver."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import boto3
from moto.sqs.responses import SQSResponse

from tests.support.stores.aws_server import KEYS, REGION, aws_server


class SqsQueue:
    """A queue, and the URLs of it and of its server."""

    def __init__(self, client: Any, server: str, url: str) -> None:
        self._client, self.server, self.url = client, server, url

    def send(self, *bodies: str) -> None:
        for body in bodies:
            self._client.send_message(QueueUrl=self.url, MessageBody=body)

    def left(self) -> int:
        """How many messages were not deleted."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self._client.get_queue_attributes(QueueUrl=self.url, AttributeNames=names)
        return sum(map(int, found["Attributes"].values()))


@contextmanager
def sqs_queue() -> Iterator[SqsQueue]:
    """A server with one queue."""
    session = boto3.Session(KEYS["aws_access_key_id"], KEYS["aws_secret_access_key"])
    with (
        aws_server(SQSResponse) as address,
        closing(session.client("sqs", REGION, endpoint_url=address)) as client,
    ):
        yield SqsQueue(client, address, client.create_queue(QueueName="files")["QueueUrl"])
