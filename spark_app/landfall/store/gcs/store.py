"""A store in a bucket of Google Cloud Storage: ``gs://BUCKET/PREFIX``.

It relies on strongly consistent reads and listings, and on exactly one winner among racing uploads
with ``ifGenerationMatch=0`` (``probe`` tests that). Parts are objects of their own, with names that
no reader looks at (``parts``); *compose* makes the object of them, which are then deleted (ADR 23).

- ``create`` returns WON only for a 200 to its own upload. If a response was lost, the client's
  retry finds the object of the first attempt and gets 412 conditionNotMet: that is TAKEN, and the
  caller compares the content.
- ``begin`` sends nothing, and an upload exists as long as it has parts. A part that comes after
  ``abort`` begins it again, for the next sweep. Its other parts are gone, so it never completes.
- ``complete`` has the condition that there is no object. Nothing depends on it: an emulator ignores
  it. All completions of an upload make the same object of the same parts. There is no other
  upload of the key that any driver completes, since the ledger decides one; it decides another only
  after ``UploadLost``, when parts are missing, without which a compose fails as a whole.
- After a completion the parts are deleted, by each who completes, as soon as the object was seen.
  So an object that a user deletes later is not made again: its upload is lost. Only if a driver
  was killed in between, and before a sweep, its successor makes it again, with the same bytes.
- ``retire`` deletes the parts before the object, so after it there is nothing to compose. Google
  does not state the outcome of a compose that began before, and ends later; and an object of one
  part could be made again if that part is sent once more, by a task that was frozen since.
"""

import io
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from datetime import timedelta
from hashlib import md5
from itertools import groupby
from typing import Any, BinaryIO
from uuid import uuid4

from google.api_core.exceptions import (
    NotFound,
    PreconditionFailed,
    RequestRangeNotSatisfiable,
)
from google.cloud.storage import Blob

from landfall.api import spec
from landfall.errors import LandfallError, Retry, StoreDenied
from landfall.objects import ObjectStat, OpenUpload, Part, Upload, multipart_etag
from landfall.store import Created
from landfall.store.completion import ensure
from landfall.store.copying import read_exactly
from landfall.store.gcs import parts
from landfall.store.gcs.client import RenewableBucket
from landfall.store.gcs.errors import translate_errors
from landfall.store.gcs.parts import (
    PARTS,
    folder_of,
    joins,
    part_name,
    part_names,
    upload_of,
)
from landfall.store.retirement import ensure_retired

TOKEN, ETAG = "landfall-token", "landfall-etag"
"""Metadata fields with an upload's token, and with ``multipart_etag``: a composed object has no MD5
in Google's own.
"""
_BINARY = "application/octet-stream"
_READ_BYTES = 8 << 20
_DELETERS = 8


class GcsStore:
    """A ``Store`` under a prefix of a bucket. Thread-safe; a process should use only one.

    Args:
        bucket: name of the bucket.
        prefix: prefix of every key; slashes at its ends are removed. May be empty.
        settings: endpoint, credentials, timeouts.
    """

    least_part_bytes = 1
    discards_uploads = True
    pauses_before_lost: Sequence[float] = ()

    def __init__(self, bucket: str, prefix: str, settings: spec.Gcs) -> None:
        self.requests: Counter[str] = Counter()
        """Number of HTTP requests sent, retries included, by operation such as
        ``objects.insert``.
        """
        self._url_of_root = f"gs://{bucket}/"
        self._root = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        with translate_errors("connect", self._url_of_root):
            self._client = RenewableBucket(bucket, settings, self.requests)
        self._how = self._client.how

    def __repr__(self) -> str:
        return f"GcsStore({self._url('')})"

    # ---------------------------------------------------------------------------------------- slots

    def create(self, key: str, body: bytes) -> Created:
        """Create the key if it is absent."""
        with translate_errors("create", self._url(key)):
            try:
                self._client.renewed(
                    lambda: self._put(self._blob(key), body, if_generation_match=0)
                )
            except PreconditionFailed:
                return Created.TAKEN
        return Created.WON

    def read(self, key: str) -> bytes | None:
        """The whole value; None if the key does not exist. Its checksum is compared."""
        with translate_errors("read", self._url(key)):
            return self._client.found(lambda: self._download(self._blob(key), checksum="auto"))

    def list_after(self, prefix: str, after: str = "") -> Iterator[ObjectStat]:
        """Visible objects in key order, a thousand per request. Parts are not visible."""
        fields = "items(name,size,metadata),nextPageToken"
        for blob in self._list(prefix, fields, start_offset=self._root + after if after else None):
            key = blob.name.removeprefix(self._root)
            if key > after and not key.startswith(PARTS):
                yield ObjectStat(key, blob.size, _etag(blob))

    def overwrite(self, key: str, body: bytes) -> None:
        """Write a hint."""
        with translate_errors("overwrite", self._url(key)):
            self._client.renewed(lambda: self._put(self._blob(key), body))

    def read_range(self, key: str, start: int, length: int) -> bytes | None:
        """Some of a value's bytes, by a ranged GET. From the end, it gets all that follow."""
        end = start + length - 1 if start >= 0 else None
        with translate_errors("read", self._url(key)):
            try:
                found = self._client.found(
                    lambda: self._download(self._blob(key), start=start, end=end)
                )
            except RequestRangeNotSatisfiable:  # there are no bytes from there on
                return b""
        return None if found is None else found[:length]

    def delete_slots(self, keys: Sequence[str]) -> None:
        """Delete values that a segment replaces, one per request."""
        with ThreadPoolExecutor(_DELETERS) as threads:
            list(threads.map(self._delete, keys))

    def _delete(self, key: str) -> None:
        with translate_errors("delete", self._url(key)):
            self._client.found(lambda: self._blob(key).delete(**self._how))

    # -------------------------------------------------------------------------------------- uploads

    def begin(self, key: str, token: str) -> str:  # noqa: ARG002  # both come with the completion
        """A new id. Nothing is sent: the first part begins the upload."""
        return uuid4().hex

    def put_part(self, key: str, upload_id: str, number: int, body: bytes) -> Part:
        """Upload a part as an object. The store rejects one that does not have its checksum."""
        part = Part(md5(body, usedforsecurity=False).hexdigest(), len(body))
        with translate_errors("put part", self._url(key)):
            self._client.renewed(
                lambda: self._put(self._short_lived(part_name(key, upload_id, number, part)), body)
            )
        return part

    def put_copy(  # noqa: PLR0913, PLR0917  # as the protocol's
        self, key: str, upload_id: str, number: int, source: str, start: int, length: int
    ) -> Part:
        """Upload a part that is read from the object.

        Google copies objects only whole, and has no MD5 of those that it composed.
        """
        return self.put_part(key, upload_id, number, read_exactly(self, source, start, length))

    def complete(self, upload: Upload, *, is_fresh: bool = False) -> None:
        """Make the upload's object visible, by the rule of ``completion.ensure``.

        Afterwards its parts are deleted. If that fails they stay, as an open upload.
        """
        ensure(
            upload,
            finish=lambda upload: self._finish(upload) and is_fresh,
            is_open=self._is_open,
            stat=self.stat,
        )
        with suppress(LandfallError):
            self._drop(upload)

    def _drop(self, upload: Upload) -> None:
        """Delete the parts, and then what was joined of them: nothing can join it again."""
        names = [*part_names(upload), *(name for name, _ in joins(upload) if name != upload.key)]
        for name in names:
            self._delete(name)

    def _finish(self, upload: Upload) -> bool:
        """Send the completion. Its 200 means that all parts were there, and that this is made."""
        with translate_errors("complete", self._url(upload.key)):
            for name, sources in joins(upload):
                self._compose(upload, name, sources)
        return True

    def _compose(self, upload: Upload, name: str, sources: Sequence[str]) -> None:
        def compose() -> None:
            made = self._short_lived(name)
            if name == upload.key:
                made = self._blob(name)
                made.metadata = {TOKEN: upload.token, ETAG: multipart_etag(upload.parts)}
            made.content_type = _BINARY
            made.compose(
                [self._blob(source) for source in sources], if_generation_match=0, **self._how
            )

        try:
            self._client.renewed(compose)
        except PreconditionFailed as error:
            if name == upload.key:
                raise Retry("an object is there already") from error
        except NotFound as error:
            raise Retry("a part is missing") from error

    def _is_open(self, upload: Upload) -> bool:
        folder = folder_of(upload.key, upload.upload_id)
        fields = "items(name,size),nextPageToken"
        sizes = {
            blob.name.removeprefix(self._root): blob.size for blob in self._list(folder, fields)
        }
        return all(
            sizes.get(name) == part.size
            for name, part in zip(part_names(upload), upload.parts, strict=True)
        )

    def abort(self, key: str, upload_id: str) -> None:
        """Delete the upload's parts."""
        for blob in self._list(folder_of(key, upload_id), "items(name),nextPageToken"):
            self._delete(blob.name.removeprefix(self._root))

    def retire(self, upload: Upload) -> None:
        """Delete the upload's parts, then its object."""
        ensure_retired(
            upload,
            drop=self._drop,
            stat=self.stat,
            delete=lambda found: self._delete(found.key),
        )

    def open_uploads(self, prefix: str) -> Iterator[OpenUpload]:
        """The uploads that have parts, in the order of their names.

        Among them are those that were completed, and whose parts could not be deleted.
        """
        fields = "items(name,timeCreated),nextPageToken"
        parts = (
            (upload, blob.time_created)
            for blob in self._list(PARTS + prefix, fields)
            if (upload := upload_of(blob.name.removeprefix(self._root)))
        )
        for (key, upload_id), created in groupby(parts, key=lambda part: part[0]):
            if key.startswith(prefix):
                yield OpenUpload(key, upload_id, min(time for _, time in created))

    # -------------------------------------------------------------------------------------- objects

    def stat(self, key: str) -> ObjectStat | None:
        """Size, ETag and token of an object; None if there is none."""
        with translate_errors("stat", self._url(key)):
            found = self._client.found(lambda: self._described(key))
        if found is None:
            return None
        return ObjectStat(key, found.size, _etag(found), (found.metadata or {}).get(TOKEN, ""))

    def open(self, key: str) -> AbstractContextManager[BinaryIO]:
        """Read an object as a stream, which raises ``Retry`` if the connection breaks.

        All bytes are of the generation that was there when it was opened.
        """
        with translate_errors("open", self._url(key)):
            found = self._client.found(lambda: self._described(key))
        if found is None:
            raise FileNotFoundError(self._url(key))

        def download(start: int, end: int) -> bytes:
            with translate_errors("read", self._url(key)):
                return self._client.renewed(
                    lambda: self._download(self._blob(key, found.generation), start=start, end=end)
                )

        return io.BufferedReader(_GcsDownload(download, found.size), _READ_BYTES)

    # --------------------------------------------------------------------------------------- advice

    def upload_lifetime(self) -> timedelta | None:
        """The shortest time after which a lifecycle rule deletes parts; None without the right."""
        bucket = self._bucket()
        return bucket and parts.upload_lifetime(bucket.lifecycle_rules, self._root)

    def advice(self) -> Sequence[str]:
        """The settings by which deleted parts cost storage; none without the right to read them."""
        bucket = self._bucket()
        return parts.of(bucket._properties) if bucket else ()  # noqa: SLF001  # the plain response

    def _bucket(self) -> Any:
        try:
            with translate_errors("get bucket", self._url_of_root):
                bucket = self._client.current.client.bucket(self._client.current.name)
                self._client.renewed(lambda: bucket.reload(**self._how))
        except StoreDenied:
            return None
        return bucket

    # -------------------------------------------------------------------------------------- private

    def _put(self, blob: Blob, body: bytes, **condition: int) -> None:
        blob.upload_from_string(
            body, content_type=_BINARY, checksum="auto", **condition, **self._how
        )

    def _download(self, blob: Blob, checksum: str | None = None, **which: int | None) -> bytes:
        # Raw: Google would decompress an object that a user has marked as gzip.
        data: bytes = blob.download_as_bytes(
            raw_download=True, checksum=checksum, **which, **self._how
        )
        return data

    def _described(self, key: str) -> Blob:
        blob = self._blob(key)
        blob.reload(**self._how)
        return blob

    def _list(self, prefix: str, fields: str, start_offset: str | None = None) -> Iterator[Blob]:
        return self._client.listed(
            self._url(prefix),
            prefix=self._root + prefix,
            start_offset=start_offset,
            fields=fields,
        )

    def _blob(self, key: str, generation: int | None = None) -> Blob:
        return self._client.current.blob(self._root + key, generation=generation)

    def _short_lived(self, key: str) -> Blob:
        """An object of the class that costs nothing more if it is deleted early."""
        blob = self._blob(key)
        blob.storage_class = "STANDARD"
        return blob

    def _url(self, key: str) -> str:
        return f"{self._url_of_root}{self._root}{key}"


class _GcsDownload(io.RawIOBase):
    """An object of known size as a raw stream over ranged requests."""

    def __init__(self, download: Callable[[int, int], bytes], size: int) -> None:
        super().__init__()
        self._download = download
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        length = min(len(buffer), self._size - self._position)
        if not length:
            return 0
        data = self._download(self._position, self._position + length - 1)
        if len(data) != length:
            raise Retry(f"read: got {len(data)} bytes, not {length}")
        buffer[:length] = data
        self._position += length
        return length


def _etag(found: Blob) -> str:
    etag: str = (found.metadata or {}).get(ETAG, "")
    return etag
