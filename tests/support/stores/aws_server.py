"""A service of AWS on this machine: moto's, answering over HTTP to every program that asks."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from botocore.awsrequest import AWSPreparedRequest
from botocore.compat import HTTPHeaders
from moto.core.request import normalize_request
from moto.core.responses import BaseResponse

REGION = "eu-west-1"
KEYS = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}
"""What clients sign with; nobody checks it."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    service: type[BaseResponse]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = HTTPHeaders()
        for name, value in self.headers.items():
            headers[name] = value
        url = f"http://{self.headers['Host']}{self.path}"
        request = AWSPreparedRequest("POST", url, headers, body, stream_output=False)
        status, found, answer = self.service.dispatch(normalize_request(request), url, headers)
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


@contextmanager
def aws_server(service: type[BaseResponse]) -> Iterator[str]:
    """Serve one service, such as ``moto.glue.responses.GlueResponse``; yields the address."""
    handler = type("_HandlerOfService", (_Handler,), {"service": service})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
