"""A store in memory with fault injection, for tests of everything above a store.

Faults are injected below ``ensure``, which the real stores use too, so a driver meets them as it
would on S3. ``repeat_completes`` chooses the response to a repeated completion: AWS reports success
again, MinIO "no such upload". As on S3, a completion replaces any object at the key; with
``keeps_parts`` it replaces none, and leaves the upload to be dropped, as in Cloud Storage.
"""

import contextlib
import hashlib
import io
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from typing import BinaryIO, Protocol, TypeVar

from landfall.errors import LandfallError, Retry, StoreAway
from landfall.objects import (
    FileChanged,
    ListedFile,
    ObjectStat,
    OpenUpload,
    Part,
    Upload,
    multipart_etag,
)
from landfall.store import Created
from landfall.store.completion import ensure
from landfall.store.retirement import ensure_retired

# Faults that ``MemoryStore`` can inject into its calls, and plans that choose when.
#
# A plan sees every call before it runs and after it has returned, so it can also stop a driver at
# any call by raising an exception of its own.


class Operation(StrEnum):
    """The calls of a store; each page of a listing is one."""

    CREATE = "create"
    READ = "read"
    LIST = "list"
    OVERWRITE = "overwrite"
    BEGIN = "begin"
    PUT_PART = "put-part"
    PUT_COPY = "put-copy"
    COMPLETE = "complete"
    ABORT = "abort"
    OPEN_UPLOADS = "open-uploads"
    STAT = "stat"
    OPEN = "open"
    DELETE = "delete"
    DROP = "drop"
    """What is left of an upload whose object is there, or retires."""
    RETIRE = "retire"
    """The deletion of an object that retires, by its name."""


class CallFault(StrEnum):
    """How a call fails."""

    REQUEST_LOST = "request-lost"
    """The call times out without effect."""
    ANSWER_LOST = "answer-lost"
    """The call times out after its effect."""
    LATE = "late"
    """The call times out, and has its effect when ``MemoryStore.deliver`` is called, perhaps after
    the caller has died.
    """
    REPEATED = "repeated"
    """The response is lost and the client library sends the request again: ``create`` gets TAKEN
    after its own success, ``complete`` gets what the store responds to a repetition.
    """
    THROTTLED = "throttled"
    """Every attempt gets 503 SlowDown."""
    CONFLICT = "conflict"
    """Every attempt gets 409: another write of the key is in progress."""
    ERROR_BODY = "error-body"
    """The response is a 200 whose body is InternalError; the call has no effect."""
    EXPIRED = "expired"
    """A lifecycle rule aborts the key's open uploads just before the call, which then succeeds."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call to the store.

    Attributes:
        operation: which call.
        key: its key; the prefix for listings.
        number: how many calls the store had before.
    """

    operation: Operation
    key: str
    number: int


class Plan(Protocol):
    """Decides which calls fail."""

    def before(self, call: Call) -> CallFault | None:
        """The fault to inject, chosen before the call. If this raises, the call does not run."""
        ...

    def after(self, call: Call) -> None:
        """Called after the call has run or failed. If this raises, the caller gets no response."""
        ...


class NoFaults:
    """A plan under which no call fails."""

    def before(self, call: Call) -> CallFault | None:
        """No fault."""

    def after(self, call: Call) -> None:
        """Do nothing."""


@dataclass
class Scripted(NoFaults):
    """A plan that lists the faults of each operation's calls in order.

    With ``Scripted({Operation.CREATE: [None, Fault.CONFLICT]})`` the second ``create`` fails.

    Attributes:
        script: the faults per operation; calls beyond the list do not fail.
        calls: every call so far, for assertions.
    """

    script: Mapping[Operation, list[CallFault | None]] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)

    def before(self, call: Call) -> CallFault | None:
        """Take the operation's next fault."""
        self.calls.append(call)
        remaining = self.script.get(call.operation)
        return remaining.pop(0) if remaining else None


@dataclass
class Random(NoFaults):
    """A plan that injects a random fault into each call with probability ``rate``, reproducibly."""

    seed: int
    rate: float
    faults: tuple[CallFault, ...] = tuple(CallFault)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311  # reproducible faults, no secret

    def before(self, call: Call) -> CallFault | None:  # noqa: ARG002  # the plan's shape
        """A random fault, or None."""
        return self._random.choice(self.faults) if self._random.random() < self.rate else None


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _MemoryObject:
    body: bytes
    etag: str
    token: str = ""


@dataclass
class _OpenUpload:
    key: str
    token: str
    begun: datetime
    parts: dict[int, bytes] = field(default_factory=dict)


class MemoryStore:
    """A ``Store`` in memory. Thread-safe.

    Args:
        plan: which calls fail, and how.
        repeat_completes: whether a second completion of an upload succeeds, as on AWS, or finds no
            such upload, as on MinIO.
        least_part_bytes: minimum size of every part but the last; a completion with a smaller part
            fails.
        clock: source of the uploads' times.
        pauses: see ``Uploads.pauses_before_lost``.
        keeps_parts: whether a completion leaves the parts, which are dropped by a call of their
            own; until then a deleted object can be made again.

    ``requests`` counts the calls by operation. ``discards_uploads`` may be changed.
    """

    discards_uploads: bool = True

    def __init__(  # noqa: PLR0913  # what differs between stores
        self,
        plan: Plan | None = None,
        *,
        repeat_completes: bool = True,
        least_part_bytes: int = 1,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        pauses: Sequence[float] = (),
        keeps_parts: bool = False,
    ) -> None:
        self.pauses_before_lost = pauses
        self.least_part_bytes = least_part_bytes
        self.requests: Counter[str] = Counter()
        self._plan = plan or NoFaults()
        self._repeat_completes = repeat_completes
        self._keeps_parts = keeps_parts
        self._clock = clock
        self._lock = threading.RLock()
        self._calls = 0
        self._objects: dict[str, _MemoryObject] = {}
        self._uploads: dict[str, _OpenUpload] = {}
        self._completed: set[str] = set()
        self._late: list[Callable[[], object]] = []
        self._begun = 0

    # ---------------------------------------------------------------------------------------- slots

    def create(self, key: str, body: bytes) -> Created:
        """Create the key if it is absent."""
        return self._call(Operation.CREATE, key, lambda: self._create(key, body))

    def read(self, key: str) -> bytes | None:
        """The whole value; None if the key does not exist."""
        found = self._call(Operation.READ, key, lambda: self._objects.get(key))
        return None if found is None else found.body

    def list_after(self, prefix: str, after: str = "") -> Iterator[ObjectStat]:
        """Visible objects in key order."""

        def listed() -> list[ObjectStat]:
            keys = sorted(key for key in self._objects if key.startswith(prefix) and key > after)
            return [
                ObjectStat(key, len(self._objects[key].body), self._objects[key].etag)
                for key in keys
            ]

        yield from self._call(Operation.LIST, prefix, listed)

    def overwrite(self, key: str, body: bytes) -> None:
        """Write a hint."""
        self._call(
            Operation.OVERWRITE,
            key,
            lambda: self._objects.update({key: _MemoryObject(body, _md5(body))}),
        )

    def read_range(self, key: str, start: int, length: int) -> bytes | None:
        """Some of a value's bytes."""
        found = self._call(Operation.READ, key, lambda: self._objects.get(key))
        if found is None:
            return None
        first = max(len(found.body) + start, 0) if start < 0 else start
        return found.body[first : first + length]

    def delete_slots(self, keys: Sequence[str]) -> None:
        """Delete values that a segment replaces."""
        for key in keys:
            self._call(Operation.DELETE, key, partial(self._objects.pop, key, None))

    # -------------------------------------------------------------------------------------- uploads

    def begin(self, key: str, token: str) -> str:
        """Begin an upload."""
        return self._call(Operation.BEGIN, key, lambda: self._begin(key, token))

    def put_part(self, key: str, upload_id: str, number: int, body: bytes) -> Part:
        """Upload a part."""
        return self._call(
            Operation.PUT_PART, key, lambda: self._put_part(key, upload_id, number, body)
        )

    def put_copy(  # noqa: PLR0913, PLR0917  # as the protocol's
        self, key: str, upload_id: str, number: int, source: str, start: int, length: int
    ) -> Part:
        """Copy a part, in one call."""

        def copied() -> Part | None:
            found = self._objects.get(source)
            if found is None:
                return None
            body = found.body[start : start + length]
            if len(body) < length:
                raise Retry(f"{source}: {len(body)} bytes from {start} on, not {length}")
            return self._put_part(key, upload_id, number, body)

        part = self._call(Operation.PUT_COPY, key, copied)
        if part is None:
            raise FileNotFoundError(source)
        return part

    def complete(self, upload: Upload, *, is_fresh: bool = False) -> None:
        """Make the upload's object visible, by the rule of ``completion.ensure``."""
        ensure(
            upload,
            finish=lambda upload: self._finish(upload) and is_fresh,
            is_open=self._is_open,
            stat=self.stat,
        )
        if self._keeps_parts:
            with contextlib.suppress(LandfallError):
                self._drop(upload)

    def retire(self, upload: Upload) -> None:
        """Drop the upload, look, and delete the object, in three calls."""
        ensure_retired(
            upload,
            drop=self._drop,
            stat=self.stat,
            delete=lambda found: self._call(
                Operation.RETIRE, found.key, partial(self._remove, found.key)
            ),
        )

    def _remove(self, key: str) -> None:
        self._objects.pop(key, None)

    def _drop(self, upload: Upload) -> None:
        self._call(Operation.DROP, upload.key, lambda: self._uploads.pop(upload.upload_id, None))

    def abort(self, key: str, upload_id: str) -> None:
        """Discard an upload."""
        if self.discards_uploads:
            self._call(Operation.ABORT, key, lambda: self._uploads.pop(upload_id, None))

    def open_uploads(self, prefix: str) -> Iterator[OpenUpload]:
        """Open uploads in key order."""

        def listed() -> list[OpenUpload]:
            opened = (
                OpenUpload(u.key, name, u.begun)
                for name, u in self._uploads.items()
                if u.key.startswith(prefix) and self.discards_uploads
            )
            return sorted(opened, key=lambda upload: (upload.key, upload.begun, upload.upload_id))

        yield from self._call(Operation.OPEN_UPLOADS, prefix, listed)

    # -------------------------------------------------------------------------------------- objects

    def stat(self, key: str) -> ObjectStat | None:
        """Size, ETag and token of an object; None if there is none."""
        found = self._call(Operation.STAT, key, lambda: self._objects.get(key))
        return None if found is None else ObjectStat(key, len(found.body), found.etag, found.token)

    def open(self, key: str) -> AbstractContextManager[BinaryIO]:
        """Read an object as a stream."""
        found = self._call(Operation.OPEN, key, lambda: self._objects.get(key))
        if found is None:
            raise FileNotFoundError(key)
        return io.BytesIO(found.body)

    # ------------------------------------------------------ what other programs do to a store

    def deliver(self) -> int:
        """Run the effects of the late calls, in the order of the calls; return their number."""
        with self._lock:
            late = self._late
            self._late = []
            for effect in late:
                # The caller has stopped waiting: neither a result nor an error can reach it.
                with contextlib.suppress(LandfallError):
                    effect()
            return len(late)

    def expire(self, key: str) -> None:
        """Abort the key's open uploads, as a lifecycle rule does."""
        with self._lock:
            self._uploads = {
                name: upload for name, upload in self._uploads.items() if upload.key != key
            }

    def delete(self, key: str) -> None:
        """Remove an object, as a user might; Landfall itself retires its upload, too."""
        with self._lock:
            self._objects.pop(key, None)

    # -------------------------------------------------------------------------------------- effects

    def _call(self, operation: Operation, key: str, effect: Callable[[], T]) -> T:
        with self._lock:
            call = Call(operation, key, self._calls)
            self._calls += 1
            self.requests[operation] += 1
        # Outside the lock: a plan may block one caller here while other ones continue.
        fault = self._plan.before(call)
        try:
            with self._lock:
                return self._run(fault, call, effect)
        finally:
            self._plan.after(call)

    def _run(self, fault: CallFault | None, call: Call, effect: Callable[[], T]) -> T:
        match fault:
            case None:
                return effect()
            case CallFault.EXPIRED:
                self.expire(call.key)
                return effect()
            case CallFault.REPEATED:
                effect()
                return effect()
            case CallFault.ANSWER_LOST:
                effect()
            case CallFault.LATE:
                self._late.append(effect)
            case (
                CallFault.REQUEST_LOST
                | CallFault.THROTTLED
                | CallFault.CONFLICT
                | CallFault.ERROR_BODY
            ):
                pass
        raise StoreAway(f"{call.operation} {call.key}: {fault}")

    def _create(self, key: str, body: bytes) -> Created:
        if key in self._objects:
            return Created.TAKEN
        self._objects[key] = _MemoryObject(body, _md5(body))
        return Created.WON

    def _begin(self, key: str, token: str) -> str:
        self._begun += 1
        upload_id = f"upload-{self._begun}"
        self._uploads[upload_id] = _OpenUpload(key, token, self._clock())
        return upload_id

    def _put_part(self, key: str, upload_id: str, number: int, body: bytes) -> Part:
        if (upload := self._uploads.get(upload_id)) is None:
            raise Retry(f"{key}: upload {upload_id} is gone: it was aborted")
        upload.parts[number] = bytes(body)
        return Part(_md5(body), len(body))

    def _finish(self, upload: Upload) -> bool:
        self._call(Operation.COMPLETE, upload.key, lambda: self._finish_once(upload))
        return True

    def _finish_once(self, upload: Upload) -> None:
        if (
            upload.upload_id in self._completed
            and self._repeat_completes
            and upload.key in self._objects
        ):
            return
        if not self._holds(upload) or any(
            part.size < self.least_part_bytes for part in upload.parts[:-1]
        ):
            raise Retry(
                f"{upload.key}: no such upload, or not with these parts: {upload.upload_id}"
            )
        if self._keeps_parts and upload.key in self._objects:
            raise Retry(f"{upload.key}: an object is there already")
        opened = self._uploads[upload.upload_id]
        if not self._keeps_parts:
            del self._uploads[upload.upload_id]
        body = b"".join(opened.parts[number] for number in range(1, len(upload.parts) + 1))
        self._objects[upload.key] = _MemoryObject(body, multipart_etag(upload.parts), opened.token)
        self._completed.add(upload.upload_id)

    def _is_open(self, upload: Upload) -> bool:
        return self._call(Operation.OPEN_UPLOADS, upload.key, lambda: self._holds(upload))

    def _holds(self, upload: Upload) -> bool:
        opened = self._uploads.get(upload.upload_id)
        recorded = {number: part.etag for number, part in enumerate(upload.parts, 1)}
        return (
            opened is not None
            and recorded.items() <= {n: _md5(body) for n, body in opened.parts.items()}.items()
        )


def _md5(body: bytes) -> str:
    return hashlib.md5(body, usedforsecurity=False).hexdigest()


class MemoryFiles:
    """``SourceFiles`` in memory. Thread-safe.

    Args:
        clock: the time at which a file is written. ``requests`` counts the calls, ``files``' calls
            by the thousand files, as on S3.
    """

    def __init__(self, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.requests: Counter[str] = Counter()
        self._clock = clock
        self._lock = threading.Lock()
        self._files: dict[str, tuple[ListedFile, bytes]] = {}

    def write(self, name: str, body: bytes) -> None:
        """Write a file, as another program does."""
        etag = hashlib.md5(body, usedforsecurity=False).hexdigest()
        with self._lock:
            self._files[name] = ListedFile(name, etag, len(body), self._clock()), body

    def delete(self, name: str) -> None:
        """Remove a file, as another program does."""
        with self._lock:
            self._files.pop(name, None)

    def files(self, prefix: str = "", after: str = "") -> Iterator[ListedFile]:
        """Files in the order of their names."""
        with self._lock:
            found = sorted(n for n in self._files if n.startswith(prefix) and n > after)
            listed = [self._files[name][0] for name in found]
        for count, file in enumerate(listed):
            self.requests["files"] += count % 1000 == 0
            yield file
        self.requests["files"] += not listed

    def find(self, name: str) -> ListedFile | None:
        """The file as it is now."""
        with self._lock:
            self.requests["find"] += 1
            found = self._files.get(name)
        return found[0] if found else None

    def read(self, file: ListedFile, start: int, end: int) -> bytes:
        """Some bytes of a version."""
        with self._lock:
            self.requests["read"] += 1
            found = self._files.get(file.name)
        if found is None or found[0].etag != file.etag:
            raise FileChanged(file.name, file.etag, found[0].etag if found else None)
        return found[1][start:end]
