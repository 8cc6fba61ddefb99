"""The rules that choose which requests the fault proxy breaks, and how. No I/O and no clock.

A ``Rule`` says which fault hits which requests of which clients, with what probability and how
often. ``Rules`` holds the rules in force and chooses the fault of a request. Each rule has a random
generator of its own, seeded with the seed and the rule's number: which requests a rule hits does
not depend on other rules.
"""

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import ip_address, ip_network
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec


class Fault(StrEnum):
    """What goes wrong. With those that end in ``After`` the server executes the request first."""

    LATENCY = "Latency"
    """The request is passed on after ``seconds``, plus or minus ``jitter``."""
    RESET = "Reset"
    """The connection is reset, and the server never receives the request."""
    RESET_AFTER = "ResetAfter"
    ERROR_500 = "Error500"
    """The answer is InternalError, and the server never receives the request."""
    ERROR_500_AFTER = "Error500After"
    SLOW_DOWN = "SlowDown"
    """The answer is 503, and the server never receives the request."""
    DENIED = "Denied"
    """The answer is 403 AccessDenied, and the server never receives the request."""
    ERROR_200 = "Error200"
    """The answer is 200 with an ``<Error>`` body, which S3 allows for CompleteMultipartUpload.

    The server never receives the request.
    """
    ERROR_200_AFTER = "Error200After"
    TRUNCATE = "Truncate"
    """Half of the answer's body is sent, then the connection is closed.

    An answer without a body is passed on and does not count.
    """
    SILENCE = "Silence"
    """There is no answer until the rule is lifted, then a reset.

    The server never receives the request.
    """
    PARTITION = "Partition"
    """Existing connections are reset, and new ones at once.

    The server may or may not execute the requests that were in flight.
    """
    DELAY = "Delay"
    """The connection is reset now, and the server gets the request ``seconds`` later.

    To the store this looks like the write of a zombie.
    """


LATE = "Late"
"""The kind of a log line that is no fault: a request that ``DELAY`` held back has been executed."""


class Operation(StrEnum):
    """The S3 operation of a request."""

    LIST_BUCKETS = "ListBuckets"
    CREATE_BUCKET = "CreateBucket"
    DELETE_BUCKET = "DeleteBucket"
    HEAD_BUCKET = "HeadBucket"
    LIST_OBJECTS = "ListObjects"
    LIST_OBJECTS_V2 = "ListObjectsV2"
    LIST_UPLOADS = "ListMultipartUploads"
    DELETE_OBJECTS = "DeleteObjects"
    GET_OBJECT = "GetObject"
    HEAD_OBJECT = "HeadObject"
    PUT_OBJECT = "PutObject"
    DELETE_OBJECT = "DeleteObject"
    CREATE_UPLOAD = "CreateMultipartUpload"
    UPLOAD_PART = "UploadPart"
    COMPLETE_UPLOAD = "CompleteMultipartUpload"
    ABORT_UPLOAD = "AbortMultipartUpload"
    LIST_PARTS = "ListParts"
    CONNECT = "Connect"
    """A connection that was refused before it carried a request."""
    OTHER = "Other"


_SERVICE_OPERATIONS = {("GET", ""): Operation.LIST_BUCKETS}
_BUCKET_OPERATIONS = {
    ("PUT", ""): Operation.CREATE_BUCKET,
    ("DELETE", ""): Operation.DELETE_BUCKET,
    ("HEAD", ""): Operation.HEAD_BUCKET,
    ("GET", ""): Operation.LIST_OBJECTS,
    ("GET", "list-type"): Operation.LIST_OBJECTS_V2,
    ("GET", "uploads"): Operation.LIST_UPLOADS,
    ("POST", "delete"): Operation.DELETE_OBJECTS,
}
_OBJECT_OPERATIONS = {
    ("GET", ""): Operation.GET_OBJECT,
    ("HEAD", ""): Operation.HEAD_OBJECT,
    ("PUT", ""): Operation.PUT_OBJECT,
    ("DELETE", ""): Operation.DELETE_OBJECT,
    ("POST", "uploads"): Operation.CREATE_UPLOAD,
    ("PUT", "uploadId"): Operation.UPLOAD_PART,
    ("POST", "uploadId"): Operation.COMPLETE_UPLOAD,
    ("DELETE", "uploadId"): Operation.ABORT_UPLOAD,
    ("GET", "uploadId"): Operation.LIST_PARTS,
}
_NEUTRAL_PARAMETERS = re.compile(
    r"prefix|delimiter|marker|max-keys|encoding-type|x-id|versionId|partNumber|fetch-owner|continuation-token"
    r"|start-after|key-marker|upload-id-marker|max-uploads|max-parts|part-number-marker|response-.*|X-Amz-.*|AWSAccess.*"
)
"""Query parameters that do not change the operation."""


@dataclass(frozen=True)
class S3Request:
    """A request as the rules see it.

    Attributes:
        operation: what it asks of S3.
        key: ``bucket/key``.
        client: address of the client.
    """

    operation: Operation
    key: str
    client: str


def parse_request(method: str, target: str, client: str) -> S3Request:
    """Parse the method and target of a request.

    The bucket is expected in the path, where every client of these tests puts it.
    """
    parts = urlsplit(target)
    path = unquote(parts.path).removeprefix("/")
    bucket, _, key = path.partition("/")
    by_level = _OBJECT_OPERATIONS if key else _BUCKET_OPERATIONS if bucket else _SERVICE_OPERATIONS
    subresources = [
        name
        for name, _ in parse_qsl(parts.query, keep_blank_values=True)
        if not _NEUTRAL_PARAMETERS.fullmatch(name)
    ]
    operation = by_level.get((method, subresources[0] if subresources else ""), Operation.OTHER)
    return S3Request(operation, path, client)


class Rule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A fault, and the requests that it may hit.

    Attributes:
        fault: what goes wrong.
        operations: the operations that it may hit; all if empty.
        key: regular expression that is searched for in ``bucket/key``.
        clients: addresses or networks (``10.1.2.3``, ``10.1.0.0/16``); all clients if empty.
        probability: of hitting a matching request.
        times: how many requests the rule hits before it stops; no limit if None.
        seconds: length of a latency or a delay.
        jitter: seconds by which latency and delay vary to either side.
    """

    fault: Fault
    operations: tuple[Operation, ...] = ()
    key: str = ""
    clients: tuple[str, ...] = ()
    probability: float = 1.0
    times: int | None = None
    seconds: float = 0.0
    jitter: float = 0.0

    def matches(self, request: S3Request) -> bool:
        """Whether the rule may hit the request."""
        return (
            (not self.operations or request.operation in self.operations)
            and (not self.key or re.search(self.key, request.key) is not None)
            and self.matches_client(request.client)
        )

    def matches_client(self, address: str) -> bool:
        """Whether the rule may hit requests of this client."""
        return not self.clients or any(
            ip_address(address) in ip_network(client) for client in self.clients
        )


@dataclass
class ActiveRule:
    """A rule in force, with its random generator and the number of requests it may still hit."""

    number: int
    rule: Rule
    rng: random.Random
    remaining: int | None

    def hits(self, request: S3Request) -> bool:
        """Whether the rule hits the request; draws a random number if it may."""
        if self.remaining is not None and self.remaining <= 0:
            return False
        # Only matching requests draw: the others must not shift the sequence of the seed.
        return self.rule.matches(request) and self.rng.random() < self.rule.probability

    def consume(self) -> None:
        """Count a request that is hit."""
        if self.remaining is not None:
            self.remaining -= 1

    def restore(self) -> None:
        """Undo ``consume``, for a request that could not be hit after all."""
        if self.remaining is not None:
            self.remaining += 1

    def seconds(self) -> float:
        """Draw the length of this latency or delay, in seconds."""
        return max(0.0, self.rule.seconds + self.rng.uniform(-self.rule.jitter, self.rule.jitter))


@dataclass
class Rules:
    """The rules in force, in the order in which they were added.

    The first rule that hits a request decides its fault; latencies come on top of it.
    """

    seed: int
    active: dict[int, ActiveRule] = field(default_factory=dict)
    _number: int = 0

    def add(self, rule: Rule) -> ActiveRule:
        """Put a rule in force; ``lift`` ends it by its number.

        Raises:
            ValueError: a client is neither an address nor a network.
            re.error: ``key`` is no regular expression.
        """
        # Both are checked now: later the error would reach a client of the proxy, not the test.
        for client in rule.clients:
            ip_network(client)
        re.compile(rule.key)
        self._number += 1
        rng = random.Random(f"{self.seed}/{self._number}")
        self.active[self._number] = ActiveRule(self._number, rule, rng, rule.times)
        return self.active[self._number]

    def lift(self, number: int | None = None) -> list[ActiveRule]:
        """End one rule, or all, and return those that were in force."""
        numbers = list(self.active) if number is None else [number]
        return [self.active.pop(n) for n in numbers if n in self.active]

    def latencies(self, request: S3Request) -> list[ActiveRule]:
        """The latencies that hit the request; each is counted."""
        return list(self._choose(request, lambda fault: fault is Fault.LATENCY))

    def choose_fault(self, request: S3Request) -> ActiveRule | None:
        """The rule whose fault hits the request, counted, or None; latencies are left out."""
        return next(self._choose(request, lambda fault: fault is not Fault.LATENCY), None)

    def partition_of(self, client: str) -> ActiveRule | None:
        """The rule that refuses connections of this client, or None."""
        partitions = (
            active for active in self.active.values() if active.rule.fault is Fault.PARTITION
        )
        return next((active for active in partitions if active.rule.matches_client(client)), None)

    def _choose(
        self, request: S3Request, eligible: Callable[[Fault], bool]
    ) -> Iterator[ActiveRule]:
        for active in self.active.values():
            if eligible(active.rule.fault) and active.hits(request):
                active.consume()
                yield active


class Counts(msgspec.Struct):
    """What the proxy has done so far.

    Attributes:
        faults: number of faults by kind, by operation.
        requests: number of requests received, by operation.
        rules: number of requests that each rule hit, by the rule's number.
        pending: requests that ``DELAY`` holds back from the server.
    """

    faults: dict[str, dict[str, int]]
    requests: dict[str, int]
    rules: dict[int, int] = {}
    pending: int = 0

    @property
    def total(self) -> int:
        """The number of all faults."""
        return sum(sum(by_operation.values()) for by_operation in self.faults.values())


@dataclass
class Counters:
    """The counters behind ``Counts``."""

    faults: dict[str, Counter[str]] = field(default_factory=dict)
    requests: Counter[str] = field(default_factory=Counter)
    rules: Counter[int] = field(default_factory=Counter)
    pending: int = 0

    def snapshot(self) -> Counts:
        """Return a copy of the counters."""
        return Counts(
            {kind: dict(by) for kind, by in self.faults.items()},
            dict(self.requests),
            dict(self.rules),
            self.pending,
        )
