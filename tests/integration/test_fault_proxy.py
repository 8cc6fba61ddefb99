"""The faults of the chaos proxy in front of a real S3 server: what each of them does.

Each test checks the client's view and whether the server executed the request.
"""

import http.client
import json
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
from tests.chaos.child_process import Refused
from tests.chaos.faults import LATE, Fault, Operation, Rule
from tests.chaos.proxy import FaultProxy
from tests.support.stores.every_store import PatientStore, content, uploaded
from tests.support.stores.s3 import Bucket, S3Server
from tests.support.waiting import eventually

BROKEN = (HTTPClientError, ResponseStreamingError, IncompleteReadError)
"""What boto3 raises when the connection ends before the response is complete."""


@dataclass(frozen=True)
class ProxiedBucket:
    """A bucket behind the proxy; ``bucket`` itself bypasses it."""

    proxy: FaultProxy
    bucket: Bucket
    log: Path

    def client(self, read_timeout: float = 60) -> Any:
        """A client without retries."""
        config = Config(
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
            config=config,
        )

    def put(self, key: str = "k", **timeouts: float) -> None:
        self.client(**timeouts).put_object(Bucket=self.bucket.name, Key=key, Body=b"body")

    def faults(self) -> list[tuple[str, str, str, int | None]]:
        """The faults in this bucket by the log: kind, operation, key and the server's status."""
        lines = map(json.loads, self.proxy.log.read_text().splitlines())
        matching = (line for line in lines if line["key"].startswith(self.bucket.name))
        return [
            (line["kind"], line["operation"], line["key"].partition("/")[2], line.get("status"))
            for line in matching
        ]


@pytest.fixture(scope="module")
def proxy(s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultProxy]:
    proxy = FaultProxy(s3.endpoint, "127.0.0.1:0", seed=1, folder=tmp_path_factory.mktemp("proxy"))
    yield proxy
    assert proxy.stop() == 0


@pytest.fixture
def proxied(proxy: FaultProxy, bucket: Bucket) -> Iterator[ProxiedBucket]:
    yield ProxiedBucket(proxy, bucket, proxy.log)
    proxy.lift()


def outcome_of(call: Callable[[], object]) -> str:
    """What the client of a call sees: S3's error code, or what happened to the connection."""
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
    ("fault", "expected", "is_done"),
    [
        (Fault.RESET, "broken", False),
        (Fault.RESET_AFTER, "broken", True),
        (Fault.ERROR_500, "InternalError", False),
        (Fault.ERROR_500_AFTER, "InternalError", True),
        (Fault.SLOW_DOWN, "SlowDown", False),
        (Fault.DENIED, "AccessDenied", False),
        (Fault.LATENCY, "fine", True),
    ],
)
def test_a_fault_of_a_put(
    proxied: ProxiedBucket, fault: Fault, expected: str, is_done: bool
) -> None:
    proxied.proxy.inject(
        Rule(fault=fault, operations=(Operation.PUT_OBJECT,), times=1, seconds=0.2, jitter=0.1)
    )

    assert outcome_of(proxied.put) == expected

    assert proxied.bucket.keys() == (["k"] if is_done else [])
    status = 200 if is_done and fault is not Fault.LATENCY else None
    assert proxied.faults() == [(fault, "PutObject", "k", status)]
    assert outcome_of(lambda: proxied.put("next")) == "fine"


@pytest.mark.parametrize(
    ("fault", "is_done"),
    [(Fault.ERROR_200, False), (Fault.ERROR_200_AFTER, True), (Fault.ERROR_500_AFTER, True)],
)
def test_a_completion_that_fails_with_status_200(
    proxied: ProxiedBucket, fault: Fault, is_done: bool
) -> None:
    client, target = proxied.client(), {"Bucket": proxied.bucket.name, "Key": "k"}
    upload = client.create_multipart_upload(**target)["UploadId"]
    etag = client.upload_part(**target, UploadId=upload, PartNumber=1, Body=b"body")["ETag"]
    parts = {"Parts": [{"PartNumber": 1, "ETag": etag}]}
    proxied.proxy.inject(Rule(fault=fault, operations=(Operation.COMPLETE_UPLOAD,)))

    code = outcome_of(
        lambda: client.complete_multipart_upload(**target, UploadId=upload, MultipartUpload=parts)
    )

    assert code == "InternalError"
    assert (proxied.bucket.keys(), proxied.bucket.open_uploads()) == (
        (["k"], []) if is_done else ([], ["k"])
    )


def test_a_truncated_body_ends_before_its_content_length(proxied: ProxiedBucket) -> None:
    proxied.bucket.write("k", b"0123456789" * 100_000)
    proxied.proxy.inject(Rule(fault=Fault.TRUNCATE, times=1))
    answer = proxied.client().get_object(Bucket=proxied.bucket.name, Key="k")
    received = bytearray()

    def read() -> None:
        while chunk := answer["Body"].read(1000):
            received.extend(chunk)

    assert (answer["ContentLength"], outcome_of(read)) == (1_000_000, "broken")
    assert bytes(received) == (b"0123456789" * 100_000)[: len(received)]
    assert len(received) <= 500_000
    assert proxied.faults() == [(Fault.TRUNCATE, "GetObject", "k", 200)]


def test_a_truncation_skips_a_response_without_a_body(
    proxied: ProxiedBucket,
) -> None:
    proxied.bucket.write("k", b"body")
    proxied.proxy.inject(Rule(fault=Fault.TRUNCATE, times=1))
    client, target = proxied.client(), {"Bucket": proxied.bucket.name, "Key": "k"}

    assert client.head_object(**target)["ContentLength"] == 4
    assert proxied.faults() == []
    assert outcome_of(client.get_object(**target)["Body"].read) == "broken"


def test_silence_lasts_until_it_is_lifted(proxied: ProxiedBucket) -> None:
    with proxied.proxy.during(Rule(fault=Fault.SILENCE, key=f"^{proxied.bucket.name}/")):
        assert outcome_of(lambda: proxied.put(read_timeout=0.5)) == "timeout"
        waits = threading.Thread(
            target=lambda: outcome.append(outcome_of(lambda: proxied.put("waits")))
        )
        outcome: list[str] = []
        waits.start()
        eventually(proxied.faults, lambda faults: len(faults) == 2)
        assert outcome == []

    waits.join()
    assert outcome == ["broken"]
    assert proxied.bucket.keys() == []
    assert outcome_of(proxied.put) == "fine"


def test_a_delayed_request_is_executed_after_its_client_has_given_up(
    proxied: ProxiedBucket,
) -> None:
    proxied.proxy.inject(
        Rule(fault=Fault.DELAY, operations=(Operation.PUT_OBJECT,), times=1, seconds=3600)
    )

    assert outcome_of(proxied.put) == "broken"

    assert (proxied.bucket.keys(), proxied.proxy.counts().pending) == ([], 1)
    assert proxied.proxy.release() == 1
    assert (proxied.bucket.keys(), proxied.proxy.counts().pending) == (["k"], 0)
    assert LATE not in proxied.proxy.counts().faults
    assert proxied.bucket.read("k") == b"body"
    assert proxied.faults() == [
        (Fault.DELAY, "PutObject", "k", None),
        (LATE, "PutObject", "k", 200),
    ]


def test_a_delayed_request_is_executed_when_its_delay_is_over(proxied: ProxiedBucket) -> None:
    proxied.proxy.inject(
        Rule(
            fault=Fault.DELAY, operations=(Operation.PUT_OBJECT,), times=1, seconds=0.5, jitter=0.1
        )
    )

    assert outcome_of(proxied.put) == "broken"

    eventually(proxied.bucket.keys, lambda keys: keys == ["k"])


def test_a_late_create_finds_its_slot_taken(proxied: ProxiedBucket) -> None:
    proxied.proxy.inject(
        Rule(fault=Fault.DELAY, operations=(Operation.PUT_OBJECT,), times=1, seconds=3600)
    )
    zombie = {"Bucket": proxied.bucket.name, "Key": "slot", "Body": b"zombie", "IfNoneMatch": "*"}

    assert outcome_of(lambda: proxied.client().put_object(**zombie)) == "broken"
    proxied.client().put_object(**{**zombie, "Body": b"successor"})

    assert proxied.proxy.release() == 1
    assert proxied.faults()[-1] == (LATE, "PutObject", "slot", 412)
    assert proxied.bucket.read("slot") == b"successor"


def test_a_partition_shuts_out_only_the_given_client(proxied: ProxiedBucket) -> None:
    host, port = urlsplit(proxied.proxy.endpoint).hostname, urlsplit(proxied.proxy.endpoint).port

    def ask(connection: http.client.HTTPConnection) -> http.client.HTTPConnection:
        connection.request("GET", "/")
        connection.getresponse().read()  # any status will do: it has no rights
        return connection

    def other() -> http.client.HTTPConnection:
        return ask(http.client.HTTPConnection(host or "", port, source_address=("127.0.0.2", 0)))

    connected = other()

    with proxied.proxy.during(Rule(fault=Fault.PARTITION, clients=("127.0.0.2",))):
        for attempt in (lambda: ask(connected), other):
            with pytest.raises((OSError, http.client.HTTPException)):
                attempt()
        assert outcome_of(proxied.put) == "fine"

    other()
    assert proxied.proxy.counts().faults[Fault.PARTITION] == {"Connect": 2}


def test_an_invalid_rule_is_rejected_and_the_proxy_keeps_running(proxied: ProxiedBucket) -> None:
    with pytest.raises(Refused, match="driver-0"):
        proxied.proxy.inject(Rule(fault=Fault.RESET, clients=("driver-0",)))

    assert outcome_of(proxied.put) == "fine"


def test_faults_and_requests_are_counted_by_operation(
    s3: S3Server, bucket: Bucket, tmp_path: Path
) -> None:
    proxied = ProxiedBucket(
        FaultProxy(s3.endpoint, "127.0.0.1:0", seed=1, folder=tmp_path), bucket, tmp_path
    )
    proxied.proxy.inject(Rule(fault=Fault.SLOW_DOWN, operations=(Operation.PUT_OBJECT,), times=3))
    proxied.proxy.inject(Rule(fault=Fault.RESET, key="/k4$"))

    outcomes = [outcome_of(lambda n=n: proxied.put(f"k{n}")) for n in range(6)]  # type: ignore[misc]  # n has a default

    counts = proxied.proxy.counts()
    assert outcomes == ["SlowDown"] * 3 + ["fine", "broken", "fine"]
    assert counts.faults == {"SlowDown": {"PutObject": 3}, "Reset": {"PutObject": 1}}
    assert counts.rules == {1: 3, 2: 1}
    assert (counts.total, counts.requests, counts.pending) == (4, {"PutObject": 6}, 0)
    assert proxied.proxy.stop() == 0


def test_the_store_completes_whatever_a_completion_answers(
    proxied: ProxiedBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in proxied.bucket.server.env.items():
        monkeypatch.setenv(name, value)
    reached = spec.S3(endpoint=proxied.proxy.endpoint, path_style=True)
    store = PatientStore(proxied.bucket.name, "root", reached, pauses=(0.05, 0.1, 0.2, 0.4))
    faults = (
        Fault.ERROR_200,
        Fault.ERROR_200_AFTER,
        Fault.RESET_AFTER,
        Fault.ERROR_500_AFTER,
        Fault.SLOW_DOWN,
    )
    for number, fault in enumerate(faults):
        upload = uploaded(store, f"data/{number}")
        proxied.proxy.inject(Rule(fault=fault, operations=(Operation.COMPLETE_UPLOAD,), times=1))
        store.complete(upload)

    assert [content(store, f"data/{number}") for number, _ in enumerate(faults)] == [b"body"] * len(
        faults
    )
    assert [kind for kind, *_ in proxied.faults()] == list(faults)
