"""A store in an S3 bucket: slots by ``If-None-Match: *``, two-phase objects by multipart uploads.

It relies on strongly consistent reads and listings, on exactly one winner among racing conditional
PUTs (``probe`` tests that), and on parts becoming visible only by CompleteMultipartUpload.

- ``create`` returns WON only for a 200 to its own conditional PUT. If a response was lost, boto3's
  retry finds the object of the first attempt and gets 412: that is TAKEN, and the caller compares
  the content. A 409 (a concurrent write is in progress) is retried; after that, the object at the
  key decides.
- ``complete`` is unconditional. After a 409 to a conditional one, AWS requires that every part is
  uploaded again, and a decided upload could no longer be rolled forward. An upload therefore
  replaces an object at its key, but by the ledger's rules there is none. A HEAD proves the object,
  unless the response is clear beyond doubt: see ``completion.ensure``.
- ``retire`` deletes by name, without a condition, which few servers know. An upload that has made
  its object is used up, one that has not is aborted: neither makes it again. Only if a server was
  joining the parts at that moment, as versitygw does while neither upload nor object is to be
  found, an object that was never visible may be visible afterwards.
- MinIO lists open uploads only if the prefix is a whole key. ``open_uploads`` finds none there, and
  orphans are left to a lifecycle rule.
"""

import io
import logging
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, TypedDict
from uuid import uuid4

import stamina
from botocore.exceptions import BotoCoreError, ClientError

from landfall.api import spec
from landfall.errors import Retry, StoreAway, StoreDenied
from landfall.objects import ObjectStat, OpenUpload, Part, Upload, multipart_etag
from landfall.store import Created, lifecycle
from landfall.store.completion import ensure
from landfall.store.probe import PREFIX
from landfall.store.retirement import ensure_retired
from landfall.store.s3.client import s3_client
from landfall.store.s3.errors import (
    blames_credentials,
    code_of,
    is_about_lock,
    status_of,
    translate_errors,
)
from landfall.store.s3.options import WriteOptions

if TYPE_CHECKING:
    from botocore.response import StreamingBody
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import ListMultipartUploadsOutputTypeDef, MultipartUploadTypeDef


# Whether an S3 server's confirmation of a completion is true.
#
# versitygw 1.8 answers 200, with the ETag one expects, to the completion of an upload that was
# aborted, if any object is at the key. So a server is asked once, with such an upload of our own.


class ObjectAddress(TypedDict):
    """Where an object is, as boto3's methods take it."""

    Bucket: str
    Key: str


def confirms_truly(client: "S3Client", bucket: str, root: str, options: WriteOptions) -> bool:
    """Return whether the server refuses to complete an upload that was aborted; five requests.

    Like ``landfall.store.probe`` it writes an object of a few bytes, and deletes it if it may.

    Raises:
        Retry: the server does not answer, or refuses.
    """
    at: ObjectAddress = {"Bucket": bucket, "Key": f"{root}{PREFIX}0/{uuid4().hex}/answer"}
    with translate_errors("probe", f"s3://{bucket}/{at['Key']}"):
        client.put_object(**at, **options.of_slot(b"another"))
        upload_id = client.create_multipart_upload(**at, **options.every)["UploadId"]
        part = client.upload_part(
            **at, UploadId=upload_id, PartNumber=1, **options.of_part(b"aborted")
        )
        client.abort_multipart_upload(**at, UploadId=upload_id)
        try:
            client.complete_multipart_upload(
                **at,
                UploadId=upload_id,
                MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]},
            )
        except ClientError as error:
            return code_of(error) == "NoSuchUpload"
        finally:
            with suppress(ClientError):
                client.delete_object(**at)
    return False


log = logging.getLogger(__name__)

TOKEN = "landfall-token"  # noqa: S105  # the name of a metadata field
"""Metadata field with an upload's token."""
PAUSES_BEFORE_LOST = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 20)
"""Seconds, a minute in all, which is the default timeout of a response: another driver's completion
that is in progress has ended by then.
"""
_ABSENT = frozenset({"404", "NoSuchKey", "NotFound"})
_STATUS_ONLY = frozenset({"400", "403"})
"""Codes of responses to a HEAD, which have no body. The cause may be anything from missing
permissions to a wrong clock or an expired token.
"""
_NO_SOURCE = _ABSENT | {"NoSuchVersion"}
_GONE = frozenset({"NoSuchUpload", "404"})
_IN_DOUBT = _GONE | {"InvalidPart", "InvalidPartOrder"}
_READ_BYTES = 1 << 20


class _Conflict(Exception):  # noqa: N818  # stays in this module
    """The response to a conditional PUT was 409: another write of the key is in progress."""


class S3Store:
    """A ``Store`` under a prefix of a bucket. Thread-safe; a process should use only one.

    Args:
        bucket: name of the bucket.
        prefix: prefix of every key; slashes at its ends are removed. May be empty.
        settings: endpoint, credentials, timeouts, encryption.
        pauses: see ``Uploads.pauses_before_lost``; they depend on the server.
    """

    least_part_bytes = 5 * 2**20
    discards_uploads = True

    def __init__(
        self,
        bucket: str,
        prefix: str,
        settings: spec.S3,
        pauses: Sequence[float] = PAUSES_BEFORE_LOST,
    ) -> None:
        self.requests: Counter[str] = Counter()
        """Number of HTTP requests sent, retries included, by operation such as ``PutObject``."""
        self._bucket = bucket
        self._root = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        with translate_errors("connect", f"s3://{bucket}"):
            self._client = s3_client(settings, self.requests)
        self._options = WriteOptions(settings)
        self.pauses_before_lost = pauses
        self._asking = threading.Lock()
        self._is_truthful: bool | None = None

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
                    f"create {self._url(key)}: 409 to every attempt, but no object is there"
                ) from error
        return Created.TAKEN

    def _create_once(self, key: str, body: bytes) -> Created:
        with translate_errors("create", self._url(key), self._options.hint_for_slot):
            try:
                self._client.put_object(
                    **self._at(key), IfNoneMatch="*", **self._options.of_slot(body)
                )
            except ClientError as error:
                if status_of(error) == 412:
                    return Created.TAKEN
                if status_of(error) == 409:
                    raise _Conflict from error
                raise
        return Created.WON

    def read(self, key: str) -> bytes | None:
        """The whole value; None if the key does not exist."""
        try:
            with self.open(key) as stream:
                return stream.read()
        except FileNotFoundError:
            return None

    def list_after(self, prefix: str, after: str = "") -> Iterator[ObjectStat]:
        """Visible objects in key order, 1,000 per request."""
        request: dict[str, Any] = {"Bucket": self._bucket, "Prefix": self._root + prefix}
        if after:
            request["StartAfter"] = self._root + after
        for page in pages(self._client, "list_objects_v2", self._url(prefix), request):
            for entry in page.get("Contents", ()):
                yield ObjectStat(
                    entry["Key"].removeprefix(self._root), entry["Size"], entry["ETag"].strip('"')
                )

    def overwrite(self, key: str, body: bytes) -> None:
        """Write a hint."""
        with translate_errors("overwrite", self._url(key), self._options.hint_for_slot):
            self._client.put_object(**self._at(key), **self._options.of_slot(body))

    def read_range(self, key: str, start: int, length: int) -> bytes | None:
        """Some of a value's bytes, by a ranged GET."""
        wanted = f"bytes={start}" if start < 0 else f"bytes={start}-{start + length - 1}"
        with translate_errors("read", self._url(key)):
            try:
                body = self._client.get_object(**self._at(key), Range=wanted)["Body"].read()
            except ClientError as error:
                if code_of(error) in _ABSENT:
                    return None
                if code_of(error) == "InvalidRange":  # there are no bytes from there on
                    return b""
                raise
        return body[:length]

    def delete_slots(self, keys: Sequence[str]) -> None:
        """Delete values that a segment replaces, a thousand per request."""
        delete_keys(self._client, self._bucket, [self._root + key for key in keys])

    # -------------------------------------------------------------------------------------- uploads

    def begin(self, key: str, token: str) -> str:
        """Begin a multipart upload."""
        options = self._options.of_upload(datetime.now(UTC))
        with translate_errors("begin", self._url(key), self._options.hint_for_upload):
            answer = self._client.create_multipart_upload(
                **self._at(key), Metadata={TOKEN: token}, **options
            )
            return answer["UploadId"]

    def put_part(self, key: str, upload_id: str, number: int, body: bytes) -> Part:
        """Upload a part. The signature covers its SHA-256, so the store rejects damaged bytes."""
        with translate_errors("put part", self._url(key), self._options.hint_for_upload):
            try:
                answer = self._client.upload_part(
                    **self._at(key),
                    UploadId=upload_id,
                    PartNumber=number,
                    **self._options.of_part(body),
                )
            except ClientError as error:
                self._raise_if_aborted(error, key, upload_id)
                raise
        return Part(answer["ETag"], len(body))

    def put_copy(  # noqa: PLR0913, PLR0917  # as the protocol's
        self, key: str, upload_id: str, number: int, source: str, start: int, length: int
    ) -> Part:
        """Copy a part, by UploadPartCopy: the bytes stay in S3."""
        answer = None
        with translate_errors("copy part", self._url(key), self._options.hint_for_upload):
            try:
                answer = self._client.upload_part_copy(
                    **self._at(key),
                    UploadId=upload_id,
                    PartNumber=number,
                    CopySource={"Bucket": self._bucket, "Key": self._root + source},
                    CopySourceRange=f"bytes={start}-{start + length - 1}",
                )
            except ClientError as error:
                self._raise_if_aborted(error, key, upload_id)
                if code_of(error) not in _NO_SOURCE:
                    raise
        if answer is None:
            raise FileNotFoundError(self._url(source))
        return Part(answer["CopyPartResult"]["ETag"], length)

    def _raise_if_aborted(self, error: ClientError, key: str, upload_id: str) -> None:
        if code_of(error) == "NoSuchUpload":
            raise Retry(
                f"put part {self._url(key)}: upload {upload_id} is gone: it was aborted"
            ) from error

    def complete(self, upload: Upload, *, is_fresh: bool = False) -> None:
        """Make the upload's object visible, by the rule of ``completion.ensure``."""
        believes = is_fresh and self._confirms_truly()
        ensure(
            upload,
            finish=lambda upload: self._finish(upload) and believes,
            is_open=self._is_open,
            stat=self.stat,
        )

    def _confirms_truly(self) -> bool:
        """Return whether the server confirms no completion that it did not do; asked once."""
        with self._asking:
            if self._is_truthful is None:
                self._is_truthful = confirms_truly(
                    self._client, self._bucket, self._root, self._options
                )
                log.info(
                    "completion of an upload examined", extra={"confirmed_truly": self._is_truthful}
                )
            return self._is_truthful

    def _finish(self, upload: Upload) -> bool:
        """Send the completion; returns whether the answer is to one request and has the ETag."""
        with translate_errors("complete", self._url(upload.key)):
            parts = [
                {"PartNumber": number, "ETag": part.etag}
                for number, part in enumerate(upload.parts, 1)
            ]
            try:
                answer = self._client.complete_multipart_upload(
                    **self._at(upload.key),
                    UploadId=upload.upload_id,
                    MultipartUpload={"Parts": parts},  # type: ignore[typeddict-item]  # a list of the literal dict
                )
            except ClientError as error:
                # A server without versions refuses to replace an object that Object Lock protects,
                # which is the upload's own if the request is a repetition.
                if code_of(error) in _IN_DOUBT or is_about_lock(error):
                    raise Retry(code_of(error)) from error
                raise
        # A repeated request may be confirmed long after the object was replaced or deleted.
        was_sent_once = answer["ResponseMetadata"]["RetryAttempts"] == 0
        return was_sent_once and answer.get("ETag", "").strip('"') == multipart_etag(upload.parts)

    def _is_open(self, upload: Upload) -> bool:
        request = {**self._at(upload.key), "UploadId": upload.upload_id}
        found = pages(self._client, "list_parts", self._url(upload.key), request, absent=_GONE)
        stored = {
            part["PartNumber"]: part["ETag"].strip('"')
            for page in found
            for part in page.get("Parts", ())
        }
        return all(
            stored.get(number) == part.etag.strip('"')
            for number, part in enumerate(upload.parts, 1)
        )

    def abort(self, key: str, upload_id: str) -> None:
        """Discard an upload."""
        with translate_errors("abort", self._url(key)):
            try:
                self._client.abort_multipart_upload(**self._at(key), UploadId=upload_id)
            except ClientError as error:
                if code_of(error) not in _GONE:
                    raise

    def retire(self, upload: Upload) -> None:
        """Abort the upload if it was not completed, then delete its object."""
        ensure_retired(
            upload,
            drop=lambda upload: self.abort(upload.key, upload.upload_id),
            stat=self.stat,
            delete=lambda found: delete_object(self._client, self._bucket, self._root + found.key),
        )

    def open_uploads(self, prefix: str) -> Iterator[OpenUpload]:
        """Open uploads in key order."""
        for entry in OpenUploadListing(self._client, self._bucket, self._root + prefix):
            yield OpenUpload(
                entry["Key"].removeprefix(self._root), entry["UploadId"], entry["Initiated"]
            )

    def upload_lifetime(self) -> timedelta | None:
        """How long the bucket's lifecycle rules keep uploads; None also if they may not be read."""
        try:
            answer = self._client.get_bucket_lifecycle_configuration(Bucket=self._bucket)
        except (BotoCoreError, ClientError) as error:
            # Most groups lack the right to read them, and some servers have none.
            log.debug("lifecycle rules unknown", extra={"why": type(error).__name__})
            return None
        return lifecycle.upload_lifetime(answer.get("Rules", ()), self._root)

    # -------------------------------------------------------------------------------------- objects

    def stat(self, key: str) -> ObjectStat | None:
        """Size, ETag and token of an object; None if there is none.

        The ETag is empty under SSE-KMS, where it is not an MD5.
        """
        with translate_errors("stat", self._url(key)):
            try:
                found = self._client.head_object(**self._at(key))
            except ClientError as error:
                if code_of(error) in _ABSENT:
                    return None
                if code_of(error) in _STATUS_ONLY:
                    self._raise_reason(key)
                raise
        etag = "" if _is_opaque(found) else found["ETag"].strip('"')
        return ObjectStat(key, found["ContentLength"], etag, found["Metadata"].get(TOKEN, ""))

    def _raise_reason(self, key: str) -> None:
        """Raise the error that the store gives to a GET of the same key.

        The response to a HEAD has no body, so it does not show whether access is denied or, for
        example, the clock is wrong.

        Raises:
            ClientError: the same failure, with the store's error code.
            StoreAway: the GET did not fail.
        """
        try:
            self._client.get_object(**self._at(key))["Body"].close()
        except ClientError as error:
            if code_of(error) not in _ABSENT:
                raise
        raise StoreAway(f"stat {self._url(key)}: HEAD was rejected, but GET was not")

    def open(self, key: str) -> AbstractContextManager[BinaryIO]:
        """Read an object as a stream, which raises ``Retry`` if the connection breaks."""
        url = self._url(key)
        body = self._body(key, url)
        if body is None:
            raise FileNotFoundError(url)
        return io.BufferedReader(ResponseBody(body, url), _READ_BYTES)

    def _body(self, key: str, url: str) -> "StreamingBody | None":
        with translate_errors("open", url):
            try:
                return self._client.get_object(**self._at(key))["Body"]
            except ClientError as error:
                if code_of(error) in _ABSENT:
                    return None
                raise

    # -------------------------------------------------------------------------------------- private

    def _at(self, key: str) -> ObjectAddress:
        return {"Bucket": self._bucket, "Key": self._root + key}

    def _url(self, key: str) -> str:
        return f"s3://{self._bucket}/{self._root}{key}"


def _is_opaque(answer: Mapping[str, Any]) -> bool:
    """Return whether the response's ETag is no MD5 of the bytes, though it may look like one."""
    return (
        str(answer.get("ServerSideEncryption", "")).startswith("aws:kms")
        or "SSECustomerAlgorithm" in answer
    )


class ResponseBody(io.RawIOBase):
    """The body of a response, with errors translated. boto3 checks its length."""

    def __init__(self, body: "StreamingBody", url: str) -> None:
        """Read ``body``; errors name ``url``."""
        super().__init__()
        self._body = body
        self._url = url

    def readable(self) -> bool:
        """Always true."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read into the buffer, and return how many bytes.

        Raises:
            StoreAway: the connection broke, or ended early.
        """
        with translate_errors("read", self._url):
            return int(self._body.readinto(buffer))

    def close(self) -> None:
        """Give the connection back."""
        self._body.close()
        super().close()


Listing = Literal["list_objects_v2", "list_parts"]


def pages(
    client: "S3Client",
    operation: Listing,
    url: str,
    request: dict[str, Any],
    absent: frozenset[str] = frozenset(),
) -> Iterator[Any]:
    """The pages of a listing of ``url``, which ends at a response with one of the ``absent`` codes.

    Each page is a request of its own, made when the caller comes to it.
    """
    found = iter(client.get_paginator(operation).paginate(**request))
    while page := _next_page(found, f"{operation} {url}", absent):
        yield page


def _next_page(found: Iterator[Any], request: str, absent: frozenset[str]) -> Any:
    operation, _, url = request.partition(" ")
    with translate_errors(operation, url):
        try:
            return next(found, None)
        except ClientError as error:
            if code_of(error) in absent:
                return None
            raise


_DELETED_AT_ONCE = 1000  # the most keys that a DeleteObjects request may have


def delete_object(client: "S3Client", bucket: str, key: str) -> None:
    """Delete an object, if it exists.

    Raises:
        StoreDenied, StoreAway: see ``s3.errors``.
    """
    with translate_errors("retire", f"s3://{bucket}/{key}"):
        try:
            client.delete_object(Bucket=bucket, Key=key)
        except ClientError as error:
            # S3 confirms it; versitygw does not if another driver is a moment faster.
            if code_of(error) != "NoSuchKey":
                raise


def delete_keys(client: "S3Client", bucket: str, keys: Sequence[str]) -> None:
    """Delete the objects that exist, a thousand per request.

    Raises:
        StoreDenied, StoreAway: one of them was not deleted; other ones may be.
    """
    for first in range(0, len(keys), _DELETED_AT_ONCE):
        some = [{"Key": key} for key in keys[first : first + _DELETED_AT_ONCE]]
        with translate_errors("delete", f"s3://{bucket}/{keys[first]}"):
            answer = client.delete_objects(
                Bucket=bucket,
                Delete={"Objects": some, "Quiet": True},  # type: ignore[typeddict-item]  # a list of the literal dict
            )
        for failed in answer.get("Errors", ()):
            code = failed.get("Code", "")
            kind = StoreDenied if blames_credentials(0, code) else StoreAway
            raise kind(f"delete s3://{bucket}/{failed['Key']}: {code}: {failed.get('Message')}")


# Lists the open multipart uploads of a bucket, by any way of paging that its server knows.
#
# A page of the listing ends at a key and an upload id, and S3 continues after both. versitygw 1.8
# looks for the id only under the key that comes next, and refuses the request (400
# InvalidArgument). After such a refusal pages continue by the key alone. That would skip the rest
# of the uploads of the key at which a page ended, so they are asked for by a request of their own,
# with the key as prefix. It shows the first 1,000 uploads of that key; further ones are listed when
# these are gone.


class OpenUploadListing:
    """The open uploads under a prefix of a bucket, in key order."""

    def __init__(self, client: "S3Client", bucket: str, prefix: str) -> None:
        """Nothing is requested before the first upload is asked for."""
        self._client = client
        self._bucket = bucket
        self._prefix = prefix

    def __iter__(self) -> "Iterator[MultipartUploadTypeDef]":
        """Each upload once; 1,000 per request.

        Raises:
            Retry: the server gives one page again and again, or does not answer.
        """
        page, by_key_alone = self._page(self._prefix), False
        while True:
            listed = page.get("Uploads", [])
            yield from listed
            if not page.get("IsTruncated"):
                return
            ended_at = _end_of(page)
            following = None if by_key_alone else self._after(*ended_at)
            if following is None:
                by_key_alone = True
                yield from self._rest_of(ended_at[0], listed)
                following = self._page(self._prefix, ended_at[0])
            if following.get("IsTruncated") and _end_of(following) == ended_at:
                raise StoreAway(f"list uploads {self._url}: stuck at {ended_at[0]}")
            page = following

    @property
    def _url(self) -> str:
        return f"s3://{self._bucket}/{self._prefix}"

    def _page(self, prefix: str, after: str = "") -> "ListMultipartUploadsOutputTypeDef":
        with translate_errors("list uploads", self._url):
            return self._client.list_multipart_uploads(
                Bucket=self._bucket, Prefix=prefix, KeyMarker=after
            )

    def _after(self, key: str, upload_id: str) -> "ListMultipartUploadsOutputTypeDef | None":
        """The page after an upload; None if the server cannot continue there."""
        with translate_errors("list uploads", self._url):
            try:
                return self._client.list_multipart_uploads(
                    Bucket=self._bucket,
                    Prefix=self._prefix,
                    KeyMarker=key,
                    UploadIdMarker=upload_id,
                )
            except ClientError as error:
                if code_of(error) == "InvalidArgument":
                    return None
                raise

    def _rest_of(
        self, key: str, listed: "list[MultipartUploadTypeDef]"
    ) -> "Iterator[MultipartUploadTypeDef]":
        """The uploads of a key that a page, which ended at it, did not list."""
        known = {upload["UploadId"] for upload in listed if upload["Key"] == key}
        for upload in self._page(key).get("Uploads", []):
            if upload["Key"] == key and upload["UploadId"] not in known:
                yield upload


def _end_of(page: "ListMultipartUploadsOutputTypeDef") -> tuple[str, str]:
    """The key and the upload id that a page ends at."""
    return page.get("NextKeyMarker", ""), page.get("NextUploadIdMarker", "")
