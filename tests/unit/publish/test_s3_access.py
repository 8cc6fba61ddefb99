"""How libraries of tables reach S3."""

import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from landfall.api.spec import S3
from landfall.api.spec.output import Output
from landfall.publish.delta import storage_options
from landfall.publish.iceberg.catalog import file_properties
from landfall.publish.s3_access import landed_files, s3_access
from tests.support.stores.scripted import Answer, scripted

UPLOAD = b"<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>"

NOTHING = Answer(
    200,
    b"<ListBucketResult><Name>lake</Name><KeyCount>0</KeyCount><MaxKeys>1000</MaxKeys>"
    b"<IsTruncated>false</IsTruncated></ListBucketResult>",
)


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


@pytest.fixture
def proxy_login(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    """The reference to a Secret with the login of a proxy; keys are in the environment."""
    monkeypatch.setenv("LANDFALL_SECRETS", str(tmp_path))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    (tmp_path / "proxy").mkdir()
    (tmp_path / "proxy" / "PROXY_USER").write_text("me@corp")
    (tmp_path / "proxy" / "PROXY_PASSWORD").write_text("a:b/c")
    return {"name": "proxy"}


def test_arrow_reads_through_the_proxy(proxy_login: dict[str, str]) -> None:
    with scripted([Answer(200, b"", {"Content-Length": "4"})]) as proxy:
        settings = {"endpoint": "http://s3.invalid", "pathStyle": True, "region": "us-east-1"}
        settings |= {"proxy": proxy.endpoint, "credentialsSecretRef": proxy_login}
        system, path = landed_files(Output.model_validate({"url": "s3://lake/l", "s3": settings}))
        found = system.get_file_info(f"{path}/x")

    assert found.size == 4
    assert proxy.asked[0].path == "http://s3.invalid/lake/l/x"
    assert proxy.asked[0].headers["proxy-authorization"] == "Basic bWVAY29ycDphOmIvYw=="


def test_delta_pays_and_goes_through_the_proxy(proxy_login: dict[str, str]) -> None:
    with scripted([NOTHING] * 4) as proxy:
        settings = {"endpoint": "http://s3.invalid", "pathStyle": True, "region": "us-east-1"}
        settings |= {"proxy": proxy.endpoint, "credentialsSecretRef": proxy_login}
        settings |= {"requesterPays": True}
        options = storage_options(s3_access(S3.model_validate(settings))) | {"max_retries": "0"}
        with pytest.raises(TableNotFoundError):
            DeltaTable("s3://lake/t", storage_options=options)

    asked = proxy.asked[0]
    assert asked.path.startswith("http://s3.invalid/lake")
    assert asked.headers["x-amz-request-payer"] == "requester"
    assert asked.headers["proxy-authorization"] == "Basic bWVAY29ycDphOmIvYw=="


def test_tables_use_the_endpoint_that_landing_uses(proxy_login: dict[str, str]) -> None:
    settings = {"region": "us-west-2", "useFips": True, "proxy": "http://proxy:3128"}
    access = s3_access(S3.model_validate({**settings, "credentialsSecretRef": proxy_login}))

    delta, iceberg = storage_options(access), file_properties(access)

    fips = "https://s3-fips.us-west-2.amazonaws.com"
    assert (delta["aws_endpoint_url"], iceberg["s3.endpoint"]) == (fips, fips)
    login = "http://me%40corp:a%3Ab%2Fc@proxy:3128"
    assert (delta["proxy_url"], iceberg["s3.proxy-uri"]) == (login, login)
    assert {"a:b/c", "a%3Ab%2Fc"} <= set(access.secrets)
