"""Which fault strikes which request: rules, and what they have struck. No I/O and no clock.

A ``Rule`` says what goes wrong, with whom, how likely and how often. ``Rules`` holds those in force
and answers, for a request, what is to be done to it. Each rule throws dice of its own, made of the
seed and the rule's number, so that what one rule does is no other's doing.
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
    """What goes wrong; of those that end in ``After``, the request has done its work at the server."""

    LATENCY = "Latency"
    """Everything comes right, later: ``seconds``, give or take ``jitter``."""
    RESET = "Reset"
    """The connection is reset, and the server never hears of the request."""
    RESET_AFTER = "ResetAfter"
    ERROR_500 = "Error500"
    """InternalError, and the server never hears of it."""
    ERROR_500_AFTER = "Error500After"
    SLOW_DOWN = "SlowDown"
    """503, and the server never hears of it."""
    ERROR_200 = "Error200"
    """200 with an ``<Error>`` for a body, as CompleteMultipartUpload may answer, and the server
    never hears of it.
    """
    ERROR_200_AFTER = "Error200After"
    TRUNCATE = "Truncate"
    """Half of the answer's body, then a reset. An answer without a body cannot be hit, and is
    passed on.
    """
    SILENCE = "Silence"
    """No answer until the rule is lifted, then a reset; the server never hears of it."""
    PARTITION = "Partition"
    """Connections are reset at once, those that there are too; what they had under way may be done
    or not.
    """
    DELAY = "Delay"
    """A reset now, and ``seconds`` later the server does what was asked: a zombie's write."""


LATE = "Late"
"""In the log, beside the faults, and not one itself: what a ``DELAY`` held back has now been done.
"""


class Operation(StrEnum):
    """What a request asks of S3."""

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
    """A connection that was refused, before anything was asked."""
    OTHER = "Other"


_OF_SERVICE = {("GET", ""): Operation.LIST_BUCKETS}
_OF_BUCKET = {
    ("PUT", ""): Operation.CREATE_BUCKET,
    ("DELETE", ""): Operation.DELETE_BUCKET,
    ("HEAD", ""): Operation.HEAD_BUCKET,
    ("GET", ""): Operation.LIST_OBJECTS,
    ("GET", "list-type"): Operation.LIST_OBJECTS_V2,
    ("GET", "uploads"): Operation.LIST_UPLOADS,
    ("POST", "delete"): Operation.DELETE_OBJECTS,
}
_OF_OBJECT = {
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
_PLAIN = re.compile(
    r"prefix|delimiter|marker|max-keys|encoding-type|x-id|versionId|partNumber|fetch-owner|continuation-token"
    r"|start-after|key-marker|upload-id-marker|max-uploads|max-parts|part-number-marker|response-.*|X-Amz-.*|AWSAccess.*"
)
"""Parameters of a query that do not change what is asked."""


@dataclass(frozen=True)
class Asked:
    """A request: what of S3, ``bucket/key``, and the client's address."""

    operation: Operation
    key: str
    client: str


def asked(method: str, target: str, client: str) -> Asked:
    """Read a request's first line; buckets are in the path, as every client of ours has them."""
    parts = urlsplit(target)
    place = unquote(parts.path).removeprefix("/")
    bucket, _, key = place.partition("/")
    by_level = _OF_OBJECT if key else _OF_BUCKET if bucket else _OF_SERVICE
    special = [
        name
        for name, _ in parse_qsl(parts.query, keep_blank_values=True)
        if not _PLAIN.fullmatch(name)
    ]
    operation = by_level.get((method, special[0] if special else ""), Operation.OTHER)
    return Asked(operation, place, client)


class Rule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A fault, and whom it strikes.

    Attributes:
        fault: what goes wrong.
        operations: whose requests; every one's if empty.
        key: regular expression that is found in ``bucket/key``.
        clients: addresses or networks (``10.1.2.3``, ``10.1.0.0/16``); everyone if empty.
        probability: of each such request.
        times: how many requests are struck, then the rule ends; no limit if None.
        seconds: of latency, or of delay.
        jitter: seconds, by which latency and delay vary to either side.
    """

    fault: Fault
    operations: tuple[Operation, ...] = ()
    key: str = ""
    clients: tuple[str, ...] = ()
    probability: float = 1.0
    times: int | None = None
    seconds: float = 0.0
    jitter: float = 0.0

    def is_for(self, request: Asked) -> bool:
        """Whether such a request can be struck."""
        return (
            (not self.operations or request.operation in self.operations)
            and (not self.key or re.search(self.key, request.key) is not None)
            and self.is_for_client(request.client)
        )

    def is_for_client(self, address: str) -> bool:
        """Whether this client can be struck."""
        return not self.clients or any(
            ip_address(address) in ip_network(client) for client in self.clients
        )


@dataclass
class Active:
    """A rule in force, with its dice and how many requests it may still strike."""

    number: int
    rule: Rule
    dice: random.Random
    left: int | None

    def strikes(self, request: Asked) -> bool:
        """Throw the dice."""
        return (self.left is None or self.left > 0) and self.rule.is_for(request) and self._chance()

    def _chance(self) -> bool:
        return self.dice.random() < self.rule.probability

    def take(self) -> None:
        """Count one that is struck."""
        if self.left is not None:
            self.left -= 1

    def give_back(self) -> None:
        """It could not be struck after all."""
        if self.left is not None:
            self.left += 1

    def seconds(self) -> float:
        """How long, this time."""
        return max(0.0, self.rule.seconds + self.dice.uniform(-self.rule.jitter, self.rule.jitter))


@dataclass
class Rules:
    """All that are in force, in the order in which they came; the first that strikes, strikes.
    Latency comes on top.
    """

    seed: int
    active: dict[int, Active] = field(default_factory=dict)
    _number: int = 0

    def add(self, rule: Rule) -> Active:
        """Put a rule in force; its number lifts it.

        Raises:
            ValueError: a client is no address.
        """
        for client in rule.clients:
            ip_network(client)
        re.compile(rule.key)
        self._number += 1
        dice = random.Random(f"{self.seed}/{self._number}")
        self.active[self._number] = Active(self._number, rule, dice, rule.times)
        return self.active[self._number]

    def lift(self, number: int | None = None) -> list[Active]:
        """End a rule, or all; those that were in force."""
        numbers = list(self.active) if number is None else [number]
        return [self.active.pop(n) for n in numbers if n in self.active]

    def latencies(self, request: Asked) -> list[Active]:
        """Those that make it wait, counted as taken."""
        return list(self._struck(request, lambda fault: fault is Fault.LATENCY))

    def strike(self, request: Asked) -> Active | None:
        """What goes wrong with a request, counted as taken."""
        return next(self._struck(request, lambda fault: fault is not Fault.LATENCY), None)

    def partition_of(self, client: str) -> Active | None:
        """The rule by which nothing of this client is let in, if there is one."""
        partitions = (
            active for active in self.active.values() if active.rule.fault is Fault.PARTITION
        )
        return next((active for active in partitions if active.rule.is_for_client(client)), None)

    def _struck(self, request: Asked, of: Callable[[Fault], bool]) -> Iterator[Active]:
        for active in self.active.values():
            if of(active.rule.fault) and active.strikes(request):
                active.take()
                yield active


class Counts(msgspec.Struct):
    """What was done so far.

    Attributes:
        faults: by kind, by operation.
        requests: that came in, by operation.
        rules: how often each has struck, by its number.
        pending: requests held back by ``DELAY`` that the server has not had yet.
    """

    faults: dict[str, dict[str, int]]
    requests: dict[str, int]
    rules: dict[int, int] = {}
    pending: int = 0

    @property
    def total(self) -> int:
        """All faults."""
        return sum(sum(by_operation.values()) for by_operation in self.faults.values())


@dataclass
class Tally:
    """Counts as they grow."""

    faults: dict[str, Counter[str]] = field(default_factory=dict)
    requests: Counter[str] = field(default_factory=Counter)
    rules: Counter[int] = field(default_factory=Counter)
    pending: int = 0

    def told(self) -> Counts:
        """So far."""
        return Counts(
            {kind: dict(by) for kind, by in self.faults.items()},
            dict(self.requests),
            dict(self.rules),
            self.pending,
        )
