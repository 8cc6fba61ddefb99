"""How libraries of tables reach S3."""

import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from landfall.api.spec.output import Output
from landfall.publish.s3_access import landed_files

UPLOAD = b"<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>"


class Recorder(BaseHTTPRequestHandler):
    """Takes the parts of an upload, and refuses to complete it."""

    headers_of_parts: list[dict[str, str]]

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.headers_of_parts.append({n.lower(): v for n, v in self.headers.items()})
        self._answer(200, b"")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        self._answer(200 if "uploads" in self.path else 400, UPLOAD)

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("ETag", '"e"')
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def test_no_checksum_follows_the_body_of_an_upload(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.delenv("AWS_REQUEST_CHECKSUM_CALCULATION", raising=False)
    Recorder.headers_of_parts = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Recorder) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        endpoint = f"http://127.0.0.1:{server.server_port}"
        settings = {"endpoint": endpoint, "pathStyle": True, "region": "us-east-1"}
        output = Output.model_validate({"url": "s3://lake/landed", "s3": settings})
        system, path = landed_files(output)
        with pytest.raises(OSError), system.open_output_stream(f"{path}/x") as stream:  # noqa: PT011
            stream.write(b"metadata")
        server.shutdown()

    (sent,) = Recorder.headers_of_parts
    assert "x-amz-trailer" not in sent
    assert sent["content-length"] == str(len(b"metadata"))
    assert os.environ["AWS_REQUEST_CHECKSUM_CALCULATION"] == "when_required"
