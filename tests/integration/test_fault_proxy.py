"""Each fault of chaos' proxy in front of a real S3 server: what its client sees, and whether the
server did what was asked.
"""

import http.client
import json
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import (
    ClientError,
    HTTPClientError,
    IncompleteReadError,
    ReadTimeoutError,
    ResponseStreamingError,
)

from landfall.api import spec
from landfall.store.s3 import S3Store
from tests.chaos.child_process import Refused
from tests.chaos.faults import LATE, Fault, Operation, Rule
from tests.chaos.proxy import FaultProxy
from tests.support.s3 import Bucket, S3Server
from tests.support.stores import content, uploaded
from tests.support.waiting import eventually

BROKEN = (HTTPClientError, ResponseStreamingError, IncompleteReadError)
"""What boto3 raises for a connection that ended before an answer did."""


@dataclass(frozen=True)
class Through:
    """A bucket by way of the proxy; ``bucket`` itself shows what is there."""

    proxy: FaultProxy
    bucket: Bucket
    log: Path

    def client(self, read_timeout: float = 60) -> Any:
        """One that tries once."""
        patience = Config(
            retries={"total_max_attempts": 1},
            read_timeout=read_timeout,
            s3={"addressing_style": "path"},
        )
        keys = self.bucket.server.env
        return boto3.client(
            "s3",
            endpoint_url=self.proxy.endpoint,
            aws_access_key_id=keys["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=keys["AWS_SECRET_ACCESS_KEY"],
            region_name="us-east-1",
            config=patience,
        )

    def put(self, key: str = "k", **patience: float) -> None:
        self.client(**patience).put_object(Bucket=self.bucket.name, Key=key, Body=b"body")

    def told(self) -> list[tuple[str, str, str, int | None]]:
        """Kind, operation, key and the server's status of every fault in this bucket, by the log."""
        lines = map(json.loads, self.proxy.log.read_text().splitlines())
        mine = (line for line in lines if line["key"].startswith(self.bucket.name))
        return [
            (line["kind"], line["operation"], line["key"].partition("/")[2], line.get("status"))
            for line in mine
        ]


@pytest.fixture(scope="module")
def proxy(s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultProxy]:
    proxy = FaultProxy(s3.endpoint, "127.0.0.1:0", seed=1, folder=tmp_path_factory.mktemp("proxy"))
    yield proxy
    assert proxy.stop() == 0


@pytest.fixture
def through(proxy: FaultProxy, bucket: Bucket) -> Iterator[Through]:
    yield Through(proxy, bucket, proxy.log)
    proxy.lift()


def seen(call: Callable[[], object]) -> str:
    """How a client fares: S3's code, or what became of the connection."""
    try:
        call()
    except ClientError as error:
        return error.response["Error"]["Code"]
    except ReadTimeoutError:
        return "timeout"
    except BROKEN:
        return "broken"
    return "fine"


@pytest.mark.parametrize(
    ("fault", "sees", "is_done"),
    [
        (Fault.RESET, "broken", False),
        (Fault.RESET_AFTER, "broken", True),
        (Fault.ERROR_500, "InternalError", False),
        (Fault.ERROR_500_AFTER, "InternalError", True),
        (Fault.SLOW_DOWN, "SlowDown", False),
        (Fault.LATENCY, "fine", True),
    ],
)
def test_a_fault_of_a_put(through: Through, fault: Fault, sees: str, is_done: bool) -> None:
    through.proxy.inject(
        Rule(fault=fault, operations=(Operation.PUT_OBJECT,), times=1, seconds=0.2, jitter=0.1)
    )

    assert seen(through.put) == sees

    assert through.bucket.keys() == (["k"] if is_done else [])
    status = 200 if is_done and fault is not Fault.LATENCY else None
    assert through.told() == [(fault, "PutObject", "k", status)]
    assert seen(lambda: through.put("next")) == "fine"


@pytest.mark.parametrize(
    ("fault", "is_done"),
    [(Fault.ERROR_200, False), (Fault.ERROR_200_AFTER, True), (Fault.ERROR_500_AFTER, True)],
)
def test_a_completion_that_fails_with_status_200(
    through: Through, fault: Fault, is_done: bool
) -> None:
    client, place = through.client(), {"Bucket": through.bucket.name, "Key": "k"}
    upload = client.create_multipart_upload(**place)["UploadId"]
    etag = client.upload_part(**place, UploadId=upload, PartNumber=1, Body=b"body")["ETag"]
    parts = {"Parts": [{"PartNumber": 1, "ETag": etag}]}
    through.proxy.inject(Rule(fault=fault, operations=(Operation.COMPLETE_UPLOAD,)))

    code = seen(
        lambda: client.complete_multipart_upload(**place, UploadId=upload, MultipartUpload=parts)
    )

    assert code == "InternalError"
    assert (through.bucket.keys(), through.bucket.open_uploads()) == (
        (["k"], []) if is_done else ([], ["k"])
    )


def test_a_body_is_cut_in_the_middle_though_its_length_was_promised(through: Through) -> None:
    through.bucket.write("k", b"0123456789" * 100_000)
    through.proxy.inject(Rule(fault=Fault.TRUNCATE, times=1))
    answer = through.client().get_object(Bucket=through.bucket.name, Key="k")
    got = bytearray()

    def read() -> None:
        while piece := answer["Body"].read(1000):
            got.extend(piece)

    assert (answer["ContentLength"], seen(read)) == (1_000_000, "broken")
    assert bytes(got) == (b"0123456789" * 100_000)[: len(got)]
    assert len(got) <= 500_000
    assert through.told() == [(Fault.TRUNCATE, "GetObject", "k", 200)]


def test_an_answer_without_a_body_cannot_be_truncated_and_leaves_it_to_the_next(
    through: Through,
) -> None:
    through.bucket.write("k", b"body")
    through.proxy.inject(Rule(fault=Fault.TRUNCATE, times=1))
    client, place = through.client(), {"Bucket": through.bucket.name, "Key": "k"}

    assert client.head_object(**place)["ContentLength"] == 4
    assert through.told() == []
    assert seen(client.get_object(**place)["Body"].read) == "broken"


def test_silence_lasts_until_it_is_lifted(through: Through) -> None:
    with through.proxy.during(Rule(fault=Fault.SILENCE, key=f"^{through.bucket.name}/")):
        assert seen(lambda: through.put(read_timeout=0.5)) == "timeout"
        waits = threading.Thread(target=lambda: outcome.append(seen(lambda: through.put("waits"))))
        outcome: list[str] = []
        waits.start()
        eventually(through.told, lambda told: len(told) == 2)
        assert outcome == []

    waits.join()
    assert outcome == ["broken"]
    assert through.bucket.keys() == []
    assert seen(through.put) == "fine"


def test_a_delayed_request_is_done_when_its_client_has_given_up(through: Through) -> None:
    through.proxy.inject(
        Rule(fault=Fault.DELAY, operations=(Operation.PUT_OBJECT,), times=1, seconds=3600)
    )

    assert seen(through.put) == "broken"

    assert (through.bucket.keys(), through.proxy.counts().pending) == ([], 1)
    assert through.proxy.release() == 1
    assert (through.bucket.keys(), through.proxy.counts().pending) == (["k"], 0)
    assert LATE not in through.proxy.counts().faults
    assert through.bucket.read("k") == b"body"
    assert through.told() == [(Fault.DELAY, "PutObject", "k", None), (LATE, "PutObject", "k", 200)]


def test_a_delayed_request_comes_by_itself_in_the_end(through: Through) -> None:
    through.proxy.inject(
        Rule(
            fault=Fault.DELAY, operations=(Operation.PUT_OBJECT,), times=1, seconds=0.5, jitter=0.1
        )
    )

    assert seen(through.put) == "broken"

    eventually(through.bucket.keys, lambda keys: keys == ["k"])


def test_a_late_create_finds_its_slot_taken(through: Through) -> None:
    through.proxy.inject(
        Rule(fault=Fault.DELAY, operations=(Operation.PUT_OBJECT,), times=1, seconds=3600)
    )
    zombie = {"Bucket": through.bucket.name, "Key": "slot", "Body": b"zombie", "IfNoneMatch": "*"}

    assert seen(lambda: through.client().put_object(**zombie)) == "broken"
    through.client().put_object(**{**zombie, "Body": b"successor"})

    assert through.proxy.release() == 1
    assert through.told()[-1] == (LATE, "PutObject", "slot", 412)
    assert through.bucket.read("slot") == b"successor"


def test_a_partition_keeps_out_one_client_and_no_other(through: Through) -> None:
    host, port = urlsplit(through.proxy.endpoint).hostname, urlsplit(through.proxy.endpoint).port

    def ask(connection: http.client.HTTPConnection) -> http.client.HTTPConnection:
        connection.request("GET", "/")
        connection.getresponse().read()  # that it may not
        return connection

    def other() -> http.client.HTTPConnection:
        return ask(http.client.HTTPConnection(host or "", port, source_address=("127.0.0.2", 0)))

    connected = other()

    with through.proxy.during(Rule(fault=Fault.PARTITION, clients=("127.0.0.2",))):
        for attempt in (lambda: ask(connected), other):
            with pytest.raises((OSError, http.client.HTTPException)):
                attempt()
        assert seen(through.put) == "fine"

    other()
    assert through.proxy.counts().faults[Fault.PARTITION] == {"Connect": 2}


def test_a_rule_that_makes_no_sense_is_refused_and_the_proxy_goes_on(through: Through) -> None:
    with pytest.raises(Refused, match="driver-0"):
        through.proxy.inject(Rule(fault=Fault.RESET, clients=("driver-0",)))

    assert seen(through.put) == "fine"


def test_faults_and_requests_are_counted_by_operation(
    s3: S3Server, bucket: Bucket, tmp_path: Path
) -> None:
    through = Through(
        FaultProxy(s3.endpoint, "127.0.0.1:0", seed=1, folder=tmp_path), bucket, tmp_path
    )
    through.proxy.inject(Rule(fault=Fault.SLOW_DOWN, operations=(Operation.PUT_OBJECT,), times=3))
    through.proxy.inject(Rule(fault=Fault.RESET, key="/k4$"))

    outcomes = [seen(lambda n=n: through.put(f"k{n}")) for n in range(6)]  # type: ignore[misc]  # its default tells

    counts = through.proxy.counts()
    assert outcomes == ["SlowDown"] * 3 + ["fine", "broken", "fine"]
    assert counts.faults == {"SlowDown": {"PutObject": 3}, "Reset": {"PutObject": 1}}
    assert counts.rules == {1: 3, 2: 1}
    assert (counts.total, counts.requests, counts.pending) == (4, {"PutObject": 6}, 0)
    assert through.proxy.stop() == 0


def test_the_store_completes_whatever_a_completion_answers(
    through: Through, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in through.bucket.server.env.items():
        monkeypatch.setenv(name, value)
    reached = spec.S3(endpoint=through.proxy.endpoint, path_style=True)
    store = S3Store(through.bucket.name, "root", reached, pauses=(0.05, 0.1, 0.2, 0.4))
    faults = (
        Fault.ERROR_200,
        Fault.ERROR_200_AFTER,
        Fault.RESET_AFTER,
        Fault.ERROR_500_AFTER,
        Fault.SLOW_DOWN,
    )
    for number, fault in enumerate(faults):
        upload = uploaded(store, f"data/{number}")
        through.proxy.inject(Rule(fault=fault, operations=(Operation.COMPLETE_UPLOAD,), times=1))
        store.complete(upload)

    assert [content(store, f"data/{number}") for number, _ in enumerate(faults)] == [b"body"] * len(
        faults
    )
    assert [kind for kind, *_ in through.told()] == list(faults)


# -------------------------------------------------------------------------------------- to the byte


class _Recorder(socketserver.StreamRequestHandler):
    """Notes what it is asked, and answers with what it is given."""

    def handle(self) -> None:
        server = self.server
        assert isinstance(server, Upstream)
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += self.rfile.readline()
        server.heads.append(head)
        server.bodies.append(self._body(head))
        self.wfile.write(server.answer)

    def _body(self, head: bytes) -> bytes:
        headers = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if line)
        if b"transfer-encoding" not in headers:
            return self.rfile.read(int(headers.get(b"content-length", b"0")))
        pieces = []
        while size := int(self.rfile.readline(), 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)


class Upstream(socketserver.ThreadingTCPServer):
    """A server that shows what comes out of the proxy."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Recorder)
        self.answer = b""
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []


@dataclass(frozen=True)
class Between:
    """The proxy in front of such a server."""

    proxy: FaultProxy
    upstream: Upstream

    def connect(
        self, answer: bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    ) -> socket.socket:
        """A connection to the proxy, and what the server will say to whatever is asked."""
        self.upstream.answer = answer
        self.upstream.heads.clear()
        self.upstream.bodies.clear()
        place = urlsplit(self.proxy.endpoint)
        return socket.create_connection((place.hostname, place.port), 60)


@pytest.fixture(scope="module")
def between(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Between]:
    with Upstream() as upstream:
        threading.Thread(target=upstream.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{upstream.server_address[1]}"
        proxy = FaultProxy(
            address, "127.0.0.1:0", seed=1, folder=tmp_path_factory.mktemp("between")
        )
        yield Between(proxy, upstream)
        proxy.stop()
        upstream.shutdown()


def until(connection: socket.socket, end: bytes) -> bytes:
    got = b""
    while end not in got:
        piece = connection.recv(65536)
        assert piece, got
        got += piece
    return got


def test_path_query_host_and_headers_are_passed_on_to_the_byte(between: Between) -> None:
    target = b"/b/a%2Fb//c/./../d%20+%7e~'!*()?x-id=a+b&y=%2f&empty&z="
    kept = [
        b"Host: s3.somewhere.example:1234",
        b"x-amz-meta-a: 1",
        b"x-amz-meta-a: 2",
        b"Range: bytes=1-2",
    ]
    with between.connect() as connection:
        connection.sendall(b"GET " + target + b" HTTP/1.1\r\n" + b"\r\n".join(kept) + b"\r\n\r\n")
        until(connection, b"\r\n\r\n")

    line, *headers = between.upstream.heads[0].rstrip().split(b"\r\n")
    assert line == b"GET " + target + b" HTTP/1.1"
    assert sorted(headers) == sorted([*kept, b"Connection: close"])


@pytest.mark.parametrize("encoding", [b"gzip", b"aws-chunked"])
def test_a_body_is_passed_on_to_the_byte_whatever_it_says_it_is(
    between: Between, encoding: bytes
) -> None:
    body = bytes(range(256)) * 4096
    head = b"PUT /b/k HTTP/1.1\r\nHost: h\r\nContent-Encoding: %b\r\nContent-Length: %d\r\n\r\n" % (
        encoding,
        len(body),
    )
    with between.connect() as connection:
        connection.sendall(head + body)
        until(connection, b"\r\n\r\n")

    assert between.upstream.bodies == [body]
    assert b"Content-Encoding: " + encoding in between.upstream.heads[0]


def test_a_chunked_body_is_passed_on(between: Between) -> None:
    head = b"PUT /b/k HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    with between.connect() as connection:
        connection.sendall(head + b"3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n")
        until(connection, b"\r\n\r\n")

    assert between.upstream.bodies == [b"abcdefg"]


def test_a_client_that_asks_first_is_told_to_go_on(between: Between) -> None:
    with between.connect() as connection:
        connection.sendall(
            b"PUT /b/k HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n"
        )
        assert until(connection, b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"body")
        assert until(connection, b"\r\n\r\n").startswith(b"HTTP/1.1 200 OK\r\n")

    assert between.upstream.bodies == [b"body"]


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        (b"HEAD", b'HTTP/1.1 200 OK\r\nContent-Length: 1234\r\nETag: "e"\r\n\r\n'),
        (b"DELETE", b"HTTP/1.1 204 No Content\r\nx-amz-a: b\r\n\r\n"),
        (b"GET", b'HTTP/1.1 304 Not Modified\r\nETag: "e"\r\n\r\n'),
        (
            b"GET",
            b"HTTP/1.1 206 Partial Content\r\nContent-Length: 3\r\nContent-Encoding: gzip\r\n\r\nabc",
        ),
    ],
)
def test_answers_are_passed_on_and_the_connection_is_kept(
    between: Between, method: bytes, answer: bytes
) -> None:
    with between.connect(answer) as connection:
        for _ in range(2):
            connection.sendall(method + b" /b/k HTTP/1.1\r\nHost: h\r\n\r\n")
            head, _, body = until(
                connection, b"abc" if answer.endswith(b"abc") else b"\r\n\r\n"
            ).partition(b"\r\n\r\n")
            told, _, expected = answer.partition(b"\r\n\r\n")
            assert set(told.lower().split(b"\r\n")) <= set(head.lower().split(b"\r\n"))
            assert body == expected
            assert b"Transfer-Encoding" not in head

    assert len(between.upstream.heads) == 2


def test_a_server_that_is_away_is_a_reset(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = f"http://127.0.0.1:{closed.getsockname()[1]}"
    proxy = FaultProxy(nobody, "127.0.0.1:0", seed=1, folder=tmp_path)
    place = urlsplit(proxy.endpoint)
    with socket.create_connection((place.hostname, place.port), 60) as connection:
        connection.sendall(b"GET /b/k HTTP/1.1\r\nHost: h\r\n\r\n")
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
    assert (proxy.counts().faults, proxy.stop()) == ({}, 0)
