"""SQS on this machine: moto's, answering over HTTP to whoever asks, such as a driver."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import boto3
from botocore.awsrequest import AWSPreparedRequest
from botocore.compat import HTTPHeaders
from moto.core.request import normalize_request
from moto.sqs.responses import SQSResponse

REGION = "eu-west-1"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = HTTPHeaders()
        for name, value in self.headers.items():
            headers[name] = value
        url = f"http://{self.headers['Host']}{self.path}"
        request = AWSPreparedRequest("POST", url, headers, body, stream_output=False)
        status, found, answer = SQSResponse.dispatch(normalize_request(request), url, headers)
        content = answer.encode() if isinstance(answer, str) else answer
        self.send_response(status)
        for name, value in found.items():
            if name.lower() not in {"content-length", "server", "date"}:
                self.send_header(name, str(value))
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # its name
        pass


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
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    client = boto3.client(
        "sqs",
        REGION,
        endpoint_url=address,
        aws_access_key_id="testing",
        aws_secret_access_key="testing",  # of nothing
    )
    try:
        yield SqsQueue(client, address, client.create_queue(QueueName="files")["QueueUrl"])
    finally:
        client.close()
        server.shutdown()
        server.server_close()
