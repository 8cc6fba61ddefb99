"""Notifications of S3 in a queue of SQS.

A message is deleted once it is taken in, and one that cannot be read, too: it would come again for
ever. What is lost with it is found by listing.
"""

from collections.abc import Sequence
from typing import Any

from landfall.api.spec import EventQueue, S3Access
from landfall.errors import StoreAway
from landfall.store.s3.client import aws_client
from landfall.store.s3.errors import translate_errors

WAIT_SECONDS = 20
"""How long a request waits for a message: the longest that SQS allows, and so the fewest."""
_MAX_MESSAGES = 10


class QueueEvents:
    """``EventSource`` of a queue of SQS."""

    def __init__(self, queue: EventQueue, wait_seconds: int = WAIT_SECONDS) -> None:
        """Use the queue, without a request yet.

        Raises:
            StoreDenied: the secret is not there.
        """
        settings = S3Access(
            endpoint=queue.endpoint,
            region=queue.region,
            credentials_secret_ref=queue.credentials_secret_ref,
        )
        self._url = queue.queue_url
        self._wait_seconds = wait_seconds
        with translate_errors("connect", self._url):
            self._client: Any = aws_client("sqs", settings)
        self._receipts: list[str] = []

    def receive(self) -> Sequence[bytes]:
        """See ``EventSource``."""
        with translate_errors("receive", self._url):
            found = self._client.receive_message(
                QueueUrl=self._url,
                MaxNumberOfMessages=_MAX_MESSAGES,
                WaitTimeSeconds=self._wait_seconds,
            )
        messages = found.get("Messages", ())
        self._receipts = [message["ReceiptHandle"] for message in messages]
        return [message["Body"].encode(errors="replace") for message in messages]

    def forget(self) -> None:
        """See ``EventSource``."""
        if not self._receipts:
            return
        entries = [
            {"Id": str(number), "ReceiptHandle": receipt}
            for number, receipt in enumerate(self._receipts)
        ]
        with translate_errors("delete", self._url):
            answer = self._client.delete_message_batch(QueueUrl=self._url, Entries=entries)
        self._receipts = []
        for failed in answer.get("Failed", ()):
            raise StoreAway(f"delete {self._url}: {failed.get('Code')}")

    def close(self) -> None:
        """See ``EventSource``."""
        self._client.close()
