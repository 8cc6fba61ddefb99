"""The store in an S3 bucket: slots by ``If-None-Match: *``, two-phase objects by multipart uploads.

What it relies on: strong read-after-write and listing, one winner of racing conditional PUTs
(``probe`` checks that), and that only CompleteMultipartUpload makes parts visible. It never deletes
an object.

- ``create`` says WON only to a 200 of its own conditional PUT. If an answer was lost, boto3's repetition meets our own
  object and gets 412: that is TAKEN, and the caller compares what is there. 409 (a racing write under way) is asked
  again, then whatever is there decides.
- ``complete`` is unconditional: after a 409 to a conditional one AWS wants every part again, and a decided upload could
  no longer be rolled forward. An open upload hence replaces what stands at its key, which by the ledger's rules is
  nothing. Whatever is answered, a HEAD proves the object: see ``ensure``.
- MinIO lists open uploads only for a whole key as prefix: there ``open_uploads`` sees nothing, and orphans are left to a
  lifecycle rule.
"""

import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, TypedDict

import stamina
from botocore.exceptions import ClientError

from landfall.api import spec
from landfall.errors import Retry, StoreAway
from landfall.objects import ObjectStat, OpenUpload, Part, Upload
from landfall.store import Created
from landfall.store.completion import ensure
from landfall.store.s3client import s3_client
from landfall.store.s3errors import code_of, status_of, told

if TYPE_CHECKING:
    from botocore.response import StreamingBody
    from mypy_boto3_s3.literals import ServerSideEncryptionType

TOKEN = "landfall-token"  # noqa: S105  # the name of a metadata field
"""Metadata field that holds an upload's token."""
PAUSES_BEFORE_LOST = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 20)
"""A minute in all: a completion that is under way for somebody else takes no longer than they wait
for its answer.
"""
_ABSENT = frozenset({"404", "NoSuchKey", "NotFound"})
_MUTE = frozenset({"400", "403"})
"""What stands for a code where an answer has no body: anything from missing rights to a clock that
is wrong or a token that expired.
"""
_GONE = frozenset({"NoSuchUpload", "404"})
_IN_DOUBT = _GONE | {"InvalidPart", "InvalidPartOrder"}
_READ_BYTES = 1 << 20


_Listing = Literal["list_objects_v2", "list_parts", "list_multipart_uploads"]


class _Address(TypedDict):
    Bucket: str
    Key: str


class _Encryption(TypedDict, total=False):
    ServerSideEncryption: "ServerSideEncryptionType"
    SSEKMSKeyId: str


class _Conflict(Exception):  # noqa: N818  # stays in this module
    """409 to a conditional PUT: another one of the key is under way."""


class S3Store:
    """A ``Store`` under a prefix of a bucket. Safe for threads, of which all should share one.

    Args:
        bucket: its name.
        prefix: what every key starts with, without slashes at its ends; may be empty.
        settings: endpoint, credentials, patience, encryption.
        pauses: seconds between looks for the object of an upload that is gone, before it is given
            up for lost.
    """

    least_part_bytes = 5 * 2**20

    def __init__(
        self,
        bucket: str,
        prefix: str,
        settings: spec.S3,
        pauses: Sequence[float] = PAUSES_BEFORE_LOST,
    ) -> None:
        self.requests: Counter[str] = Counter()
        """HTTP requests sent so far by operation, repetitions included: ``PutObject``,
        ``UploadPart``, ...
        """
        self._bucket = bucket
        self._root = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        with told("connect", f"s3://{bucket}"):
            self._client = s3_client(settings, self.requests)
        self._encryption = _encryption(settings.sse)
        self._pauses = pauses

    def __repr__(self) -> str:
        return f"S3Store(s3://{self._bucket}/{self._root})"

    # ---------------------------------------------------------------------------------------- slots

    def create(self, key: str, body: bytes) -> Created:
        """Create the key if it is absent."""
        try:
            for attempt in stamina.retry_context(
                on=_Conflict, attempts=5, wait_initial=0.05, wait_jitter=0.1
            ):
                with attempt:
                    return self._create_once(key, body)
        except _Conflict as error:
            if self.stat(key) is None:
                raise StoreAway(
                    f"create {self._place(key)}: 409 to every attempt, and nothing is there"
                ) from error
        return Created.TAKEN

    def _create_once(self, key: str, body: bytes) -> Created:
        with told("create", self._place(key)):
            try:
                self._client.put_object(
                    **self._at(key), Body=body, IfNoneMatch="*", **self._encryption
                )
            except ClientError as error:
                if status_of(error) == 412:
                    return Created.TAKEN
                if status_of(error) == 409:
                    raise _Conflict from error
                raise
        return Created.WON

    def read(self, key: str) -> bytes | None:
        """The whole value, or None."""
        try:
            with self.open(key) as stream:
                return stream.read()
        except FileNotFoundError:
            return None

    def list_after(self, prefix: str, after: str = "") -> Iterator[ObjectStat]:
        """Visible objects in key order, 1,000 to a request."""
        request: dict[str, Any] = {"Bucket": self._bucket, "Prefix": self._root + prefix}
        if after:
            request["StartAfter"] = self._root + after
        for page in self._pages("list_objects_v2", prefix, request):
            for found in page.get("Contents", ()):
                yield ObjectStat(
                    found["Key"].removeprefix(self._root), found["Size"], found["ETag"].strip('"')
                )

    def overwrite(self, key: str, body: bytes) -> None:
        """Write a hint."""
        with told("overwrite", self._place(key)):
            self._client.put_object(**self._at(key), Body=body, **self._encryption)

    # -------------------------------------------------------------------------------------- uploads

    def begin(self, key: str, token: str) -> str:
        """Begin a multipart upload."""
        with told("begin", self._place(key)):
            answer = self._client.create_multipart_upload(
                **self._at(key), Metadata={TOKEN: token}, **self._encryption
            )
            return answer["UploadId"]

    def put_part(self, key: str, upload_id: str, number: int, body: bytes) -> Part:
        """Upload a part; the signed SHA-256 lets the store refuse damaged bytes."""
        with told("put part", self._place(key)):
            try:
                answer = self._client.upload_part(
                    **self._at(key), UploadId=upload_id, PartNumber=number, Body=body
                )
            except ClientError as error:
                if code_of(error) == "NoSuchUpload":
                    raise Retry(
                        f"put part {self._place(key)}: upload {upload_id} is gone: it was aborted"
                    ) from error
                raise
        return Part(answer["ETag"], len(body))

    def complete(self, upload: Upload) -> None:
        """Make the upload's object visible, by the rule of ``ensure``."""
        ensure(
            upload, finish=self._finish, is_open=self._is_open, stat=self.stat, pauses=self._pauses
        )

    def _finish(self, upload: Upload) -> None:
        with told("complete", self._place(upload.key)):
            parts = [
                {"PartNumber": number, "ETag": part.etag}
                for number, part in enumerate(upload.parts, 1)
            ]
            try:
                self._client.complete_multipart_upload(
                    **self._at(upload.key),
                    UploadId=upload.upload_id,
                    MultipartUpload={"Parts": parts},  # type: ignore[typeddict-item]  # a list of the literal dict
                )
            except ClientError as error:
                if code_of(error) in _IN_DOUBT:
                    raise Retry(code_of(error)) from error
                raise

    def _is_open(self, upload: Upload) -> bool:
        request = {**self._at(upload.key), "UploadId": upload.upload_id}
        pages = self._pages("list_parts", upload.key, request, absent=_GONE)
        stored = {
            part["PartNumber"]: part["ETag"].strip('"')
            for page in pages
            for part in page.get("Parts", ())
        }
        return all(
            stored.get(number) == part.etag.strip('"')
            for number, part in enumerate(upload.parts, 1)
        )

    def abort(self, key: str, upload_id: str) -> None:
        """Forget an upload."""
        with told("abort", self._place(key)):
            try:
                self._client.abort_multipart_upload(**self._at(key), UploadId=upload_id)
            except ClientError as error:
                if code_of(error) not in _GONE:
                    raise

    def open_uploads(self, prefix: str) -> Iterator[OpenUpload]:
        """Open uploads in key order."""
        request = {"Bucket": self._bucket, "Prefix": self._root + prefix}
        for page in self._pages("list_multipart_uploads", prefix, request):
            for found in page.get("Uploads", ()):
                yield OpenUpload(
                    found["Key"].removeprefix(self._root), found["UploadId"], found["Initiated"]
                )

    # -------------------------------------------------------------------------------------- objects

    def stat(self, key: str) -> ObjectStat | None:
        """Size, ETag and token, or None; no ETag under SSE-KMS, where it says nothing of the bytes."""
        with told("stat", self._place(key)):
            try:
                found = self._client.head_object(**self._at(key))
            except ClientError as error:
                if code_of(error) in _ABSENT:
                    return None
                if code_of(error) in _MUTE:
                    self._ask_why(key)
                raise
        etag = "" if _is_opaque(found) else found["ETag"].strip('"')
        return ObjectStat(key, found["ContentLength"], etag, found["Metadata"].get(TOKEN, ""))

    def _ask_why(self, key: str) -> None:
        """Raise what the store says to a GET: its answer to a HEAD has no body, so no code tells a refusal from a wrong clock.

        Raises:
            ClientError: the same, with the store's code.
            StoreAway: it refuses no longer.
        """
        try:
            self._client.get_object(**self._at(key))["Body"].close()
        except ClientError as error:
            if code_of(error) not in _ABSENT:
                raise
        raise StoreAway(f"stat {self._place(key)}: refused, but not when asked again")

    def open(self, key: str) -> AbstractContextManager[BinaryIO]:
        """Read an object as a stream; a connection that breaks on the way is a ``Retry``."""
        place = self._place(key)
        body = self._body(key, place)
        if body is None:
            raise FileNotFoundError(place)
        return io.BufferedReader(_Body(body, place), _READ_BYTES)

    def _body(self, key: str, place: str) -> "StreamingBody | None":
        with told("open", place):
            try:
                return self._client.get_object(**self._at(key))["Body"]
            except ClientError as error:
                if code_of(error) in _ABSENT:
                    return None
                raise

    # -------------------------------------------------------------------------------------- private

    def _at(self, key: str) -> "_Address":
        return {"Bucket": self._bucket, "Key": self._root + key}

    def _place(self, key: str) -> str:
        return f"s3://{self._bucket}/{self._root}{key}"

    def _pages(
        self,
        operation: "_Listing",
        key: str,
        request: dict[str, Any],
        absent: frozenset[str] = frozenset(),
    ) -> Iterator[Any]:
        """Every page of a listing; none if the answer to a request is one of the ``absent`` codes."""
        pages = iter(self._client.get_paginator(operation).paginate(**request))
        while page := self._next_page(pages, f"{operation} {self._place(key)}", absent):
            yield page

    @staticmethod
    def _next_page(pages: Iterator[Any], asked: str, absent: frozenset[str]) -> Any:
        with told(*asked.split(" ", 1)):
            try:
                return next(pages, None)
            except ClientError as error:
                if code_of(error) in absent:
                    return None
                raise


class _Body(io.RawIOBase):
    """An answer's body whose faults are told as ours; boto3 checks that it has the length it was announced with."""

    def __init__(self, body: "StreamingBody", place: str) -> None:
        super().__init__()
        self._body = body
        self._place = place

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with told("read", self._place):
            return int(self._body.readinto(buffer))

    def close(self) -> None:
        self._body.close()
        super().close()


def _encryption(sse: spec.Sse | None) -> _Encryption:
    if sse is None:
        return {}
    chosen: _Encryption = {"ServerSideEncryption": sse.type}
    return chosen | ({"SSEKMSKeyId": sse.kms_key_id} if sse.kms_key_id else {})


def _is_opaque(answer: Mapping[str, Any]) -> bool:
    """Whether the answer's ETag is no MD5 of the bytes, though it may look like one."""
    return (
        str(answer.get("ServerSideEncryption", "")).startswith("aws:kms")
        or "SSECustomerAlgorithm" in answer
    )
