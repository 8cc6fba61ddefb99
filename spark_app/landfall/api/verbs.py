"""Requests to a group and their answers: ``skip``, ``unblock``, ``drop`` and the rest.

The same requests reach a running driver as JSON (``POST /control/<verb>``) and a lane without a
driver through the command line. ``landfall.driver.decide.requests`` defines what each of them
records. Every request but ``RetryRequest`` leaves a record in the ledger with who asked, when and
why. ``landfall.api.next_steps`` maps problems to the requests that resolve them. Pure.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Literal

import msgspec

Position = int | Literal["earliest", "latest"]
"""An offset, or the log's start or end when the request is executed."""


MAX_NAMES = 1000
"""How many files a request names at most."""

MAX_TAKEN_FILES = 1000
"""How many files are taken at once, at most: ``landfall.ledger.feeds.leases.MAX_TAKEN``."""
MAX_LEASE_SECONDS = 30 * 86400
"""How long a lease lasts at most."""
MAX_LABEL = 200
"""The maximum length of a lease holder's name and of an id: both are stored in the ledger."""
MAX_TEXT = 2000
"""The maximum length of the reason why files failed: it is stored with each of them."""


class _Request(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """Fields of every request.

    Attributes:
        who: who asks, such as ``user@host``.
        why: the reason, for those who read the ledger later.
        dry_run: answer what would be recorded, and record nothing.
        id: names the request: a driver executes requests with the same id once.
    """

    who: str
    why: str
    dry_run: bool = False
    id: str = ""

    def __post_init__(self) -> None:
        if not self.who.strip() or not self.why.strip():
            raise ValueError("who asks, and why, must not be empty")


class _OfTopicPartition(_Request, frozen=True):
    topic: str
    partition: int

    def __post_init__(self) -> None:
        super().__post_init__()  # a Struct class is replaced when decorated
        if not self.topic or self.partition < 0:
            raise ValueError(f"not a topic partition: {self.topic!r}/{self.partition}")


class SkipRequest(_OfTopicPartition, frozen=True):
    """Continue after a lost range, or at ``until``, and record the skipped range.

    Without ``until`` exactly the lost range is skipped: offsets that Kafka has deleted, or
    committed objects that cannot be recreated.
    """

    until: int | None = None


class UnblockRequest(_OfTopicPartition, frozen=True):
    """Land a topic partition again that is blocked.

    Bad records over the limit are allowed below ``bad_records_until``, by default below the end of
    the log. A truncated log is accepted: landing continues at the checkpoint.
    """

    bad_records_until: int | None = None


class DropRequest(_OfTopicPartition, frozen=True):
    """Stop landing a topic partition, until ``ResetRequest`` adds it again."""


class ResetRequest(_OfTopicPartition, frozen=True):
    """Continue at another offset: ahead at any time, back only in a new generation."""

    to: Position


class ReplayRequest(_Request, frozen=True):
    """Land dead letters again, through the present decoder and route, each dead-letter object once.

    Attributes:
        topic: of the dead letters.
        partition: the Kafka partition; None for all.
        first: only objects with a dead letter at or after this offset,
        until: and before this one; None for no limit.
    """

    topic: str
    partition: int | None = None
    first: int = 0
    until: int | None = None


class UndoRequest(_Request, frozen=True):
    """Restore the objects that the REPLACE in ``slot`` replaced.

    They get new names. Their replacements are deleted, and copies are kept as of the old objects:
    so an undo can be undone.

    Attributes:
        slot: of the REPLACE.
        output_partitions: only the objects in these; ``*`` stands for any text. None for all.
    """

    slot: int
    output_partitions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.slot < 0:
            raise ValueError(f"not a slot of a ledger: {self.slot}")


class PromoteRequest(_Request, frozen=True):
    """Replace the live objects by those that a backfill has landed of the same ranges.

    Readers see the change at once and as a whole. ``UndoRequest`` reverts it.

    Attributes:
        name: of the backfill.
    """

    name: str

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.name:
            raise ValueError("name the backfill to promote")


class RetryRequest(_Request, frozen=True):
    """Retry everything now: forget waits and refusals that are not recorded."""

    why: str = "retry"


class _OfFiles(_Request, frozen=True, kw_only=True):
    """Fields of requests about files of a feed: its topic, and their names."""

    topic: str
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.topic or not all(self.names) or len(self.names) > MAX_NAMES:
            raise ValueError(f"not a feed and at most {MAX_NAMES} names of files: {self.topic!r}")


class RetryFilesRequest(_OfFiles, frozen=True, kw_only=True):
    """Retry files that could not be read, or land the new version of a rewritten one.

    Without names, all parked files of the feed are retried, after any number of tries. Files that
    were given up are retried, too, if they are named.
    """

    why: str = "retry"


class IgnoreFilesRequest(_OfFiles, frozen=True, kw_only=True):
    """Give up files that could not be read, or skip the new version of a rewritten one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.names:
            raise ValueError(f"name the files of {self.topic} to give up")


class TakeFilesRequest(_Request, frozen=True, kw_only=True):
    """Take files of an external feed: they belong to ``who``, the holder, for a while.

    A repeated request with the same ``id`` gets the same lease, as long as it is not over.

    Attributes:
        topic: of the feed.
        limit: how many files at most.
        lease_seconds: for how long.
    """

    topic: str
    limit: int = 100
    lease_seconds: int = 3600
    why: str = "take"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_lease(self.who, self.id, self.lease_seconds)
        if not self.topic or not 0 < self.limit <= MAX_TAKEN_FILES:
            raise ValueError(f"not a feed and 1 to {MAX_TAKEN_FILES} files of it: {self.limit}")


class _OfLease(_Request, frozen=True, kw_only=True):
    """Fields of requests about files of a lease.

    Attributes:
        lease: the number of the lease.
        numbers: the files, by number,
        names: or by name; without either, all that are left.
    """

    lease: int
    numbers: tuple[int, ...] = ()
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_lease(self.who, self.id)
        if max(len(self.numbers), len(self.names)) > MAX_TAKEN_FILES or len(self.why) > MAX_TEXT:
            raise ValueError(
                f"names more than {MAX_TAKEN_FILES} files, or has a reason of over {MAX_TEXT} "
                "characters"
            )


class FilesDoneRequest(_OfLease, frozen=True, kw_only=True):
    """Files of a lease are processed."""

    why: str = "done"


class FilesFailedRequest(_OfLease, frozen=True, kw_only=True):
    """Files of a lease could not be processed; ``why`` is stored with them."""


class ReturnFilesRequest(_OfLease, frozen=True, kw_only=True):
    """Files of a lease are given back, as if they had not been taken."""

    why: str = "return"


class ExtendLeaseRequest(_Request, frozen=True, kw_only=True):
    """Extend a lease to ``lease_seconds`` from now."""

    lease: int
    lease_seconds: int = 3600
    why: str = "extend"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_lease(self.who, self.id, self.lease_seconds)


def _check_lease(who: str, id_: str, seconds: int = 1) -> None:
    if not 0 < seconds <= MAX_LEASE_SECONDS:
        raise ValueError(f"a lease of {seconds} seconds, not 1 to {MAX_LEASE_SECONDS}")
    if len(who) > MAX_LABEL or len(id_) > MAX_LABEL:
        raise ValueError(f"who asks, or the id, has over {MAX_LABEL} characters")


LeaseRequest = (
    TakeFilesRequest
    | FilesDoneRequest
    | FilesFailedRequest
    | ReturnFilesRequest
    | ExtendLeaseRequest
)
FilesRequest = RetryFilesRequest | IgnoreFilesRequest
Request = (
    SkipRequest
    | UnblockRequest
    | DropRequest
    | ResetRequest
    | ReplayRequest
    | UndoRequest
    | PromoteRequest
    | RetryRequest
    | RetryFilesRequest
    | IgnoreFilesRequest
    | LeaseRequest
)

VERBS: Mapping[str, type[Request]] = MappingProxyType(
    {
        "skip": SkipRequest,
        "unblock": UnblockRequest,
        "drop": DropRequest,
        "reset": ResetRequest,
        "replay-dead-letters": ReplayRequest,
        "undo": UndoRequest,
        "promote": PromoteRequest,
        "retry": RetryRequest,
        "files-retry": RetryFilesRequest,
        "files-ignore": IgnoreFilesRequest,
        "files-take": TakeFilesRequest,
        "files-done": FilesDoneRequest,
        "files-failed": FilesFailedRequest,
        "files-return": ReturnFilesRequest,
        "files-extend": ExtendLeaseRequest,
    }
)
"""The requests by their names in the paths of control and in the ledger.

They are those on the command line, where ``files-retry`` is ``files retry``.
"""

VERB_PATHS: Mapping[str, type[Request]] = MappingProxyType(
    {f"/control/{verb}": kind for verb, kind in VERBS.items()}
)


def verb_of(request: Request) -> str:
    """The request's name on the command line."""
    return next(verb for verb, kind in VERBS.items() if isinstance(request, kind))


class Outcome(StrEnum):
    """The outcome of a request."""

    DONE = "done"
    DRY_RUN = "dry run"
    WAITING = "waiting"
    """Accepted and not executed yet: ask again with the same id."""
    REFUSED = "refused"
    """Nothing was recorded; the message has the reason, and what would help."""
    FAILED = "failed"
    """A service did not answer; asking again may succeed."""


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer to a request.

    Attributes:
        outcome: the result.
        records: a line per ledger record that was, or would be, appended.
        message: details, for people.
    """

    outcome: Outcome
    records: tuple[str, ...] = ()
    message: str = ""


class LeasedFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file that a client has taken.

    Attributes:
        number: names the file in the lease.
        url: of the file.
        name: its name, without the feed's url.
        etag: of the version that was found; read this version, or report that the file failed.
        size: of that version, in bytes.
        modified: when it was last modified, ISO 8601 in UTC.
        attempt: how often it was taken, with this time, counted from 1.
    """

    number: int
    url: str
    name: str
    etag: str
    size: int
    modified: str
    attempt: int


class LeaseAnswer(Answer, frozen=True):
    """The answer to a request about files that are taken.

    Attributes:
        lease: the number of the lease; None if there was nothing to take, or it is over.
        until: when it may be ended as overdue, ISO 8601 in UTC; empty without a lease.
        files: what is left of the lease; of other requests than taking, nothing is listed.
    """

    lease: int | None = None
    until: str = ""
    files: tuple[LeasedFile, ...] = ()


def answer_type(request: Request) -> type[Answer]:
    """Return the type of a request's answer."""
    return LeaseAnswer if isinstance(request, LeaseRequest) else Answer
