"""A store in a container of Azure Blob Storage: ``abfss://CONTAINER@ACCOUNT.dfs.core.windows.net``.

It relies on strongly consistent reads and listings, and on exactly one winner among racing requests
with ``If-None-Match: *`` (``probe`` tests that). Objects are block blobs, made in two phases: *Put
Block* uploads a part, which no reader sees, and *Put Block List* makes the object of such parts.

- ``create`` returns WON only for a 201 to its own *Put Blob*. If a response was lost, the client's
  retry finds the blob of the first attempt and gets 409 BlobAlreadyExists: that is TAKEN, and the
  caller compares the content.
- The id of an upload is made up here, and is in the name of each of its blocks. So uploads of one
  key do not touch each other's blocks, and ``begin`` sends no request.
- ``complete`` has the condition that there is no blob. Losing that race destroys nothing that was
  decided: it costs the blocks of the other uploads of the key; the ledger decides only one.
- No process can discard blocks, other than by writing the blob. So ``abort`` does nothing, and no
  open upload is listed: Azure deletes blocks a week after the last one was put. ``retire``
  completes an upload that was not completed, and then deletes the blob, which is visible for a
  moment.
- After ``retire`` there are no blocks to complete. Only if a task that was frozen since sends them
  all once more, the blob could be made again.
"""

import hashlib
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, BinaryIO
from uuid import uuid4

from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError, ResourceExistsError
from azure.storage.blob import BlobBlock

from landfall.api import spec
from landfall.errors import Retry
from landfall.objects import ObjectStat, OpenUpload, Part, Upload, UploadLost, multipart_etag
from landfall.store import Created
from landfall.store.azure.client import RenewableContainer, is_folder
from landfall.store.azure.errors import code_of, translate_errors
from landfall.store.completion import ensure
from landfall.store.copying import read_exactly
from landfall.store.retirement import ensure_retired

if TYPE_CHECKING:
    from azure.storage.blob import BlobClient, BlobProperties

TOKEN = "landfalltoken"  # noqa: S105  # the name of a metadata field
"""Metadata field with an upload's token. Names must be identifiers of C#: without a dash."""
ETAG = "landfalletag"
"""Metadata field with ``multipart_etag``; Azure's own ETags do not depend on the content."""
BLOCKS_LIVE = timedelta(days=7)
"""How long Azure keeps the blocks that belong to no blob."""
_ABSENT = frozenset({"BlobNotFound", "ResourceNotFound"})
_EXISTS = "BlobAlreadyExists"
_IN_DOUBT = frozenset({_EXISTS, "InvalidBlockList"})
"""Answers to a completion after which the object must be looked at."""
_UPLOAD_ID = re.compile(r"[0-9a-f]{32}")
_READ_BYTES = 1 << 20


class AzureStore:
    """A ``Store`` under a prefix of a container. Thread-safe; a process should use only one.

    Args:
        account: host name of the account, such as ``logs.dfs.core.windows.net``.
        container: name of the container.
        prefix: prefix of every key; slashes at its ends are removed. May be empty.
        settings: endpoint, credentials, timeouts.
    """

    least_part_bytes = 1
    discards_uploads = False
    pauses_before_lost: Sequence[float] = ()

    def __init__(self, account: str, container: str, prefix: str, settings: spec.Azure) -> None:
        self.requests: Counter[str] = Counter()
        """Number of HTTP requests sent, retries included, by operation such as ``PutBlock``."""
        self._url_of_root = f"abfss://{container}@{account}/"
        self._root = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        with translate_errors("connect", self._url_of_root):
            self._client = RenewableContainer(account, container, settings, self.requests)

    def __repr__(self) -> str:
        return f"AzureStore({self._url('')})"

    # ---------------------------------------------------------------------------------------- slots

    def create(self, key: str, body: bytes) -> Created:
        """Create the key if it is absent."""
        with translate_errors("create", self._url(key)):
            try:
                self._client.renewed(lambda: self._put(key, body, overwrite=False))
            except ResourceExistsError as error:
                if code_of(error) == _EXISTS:
                    return Created.TAKEN
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
        """Visible objects in key order, 5,000 per request."""
        listed = self._client.listed(
            self._url(prefix),
            name_starts_with=self._root + prefix,
            include=["metadata"],
            start_from=self._root + after if after else None,
        )
        for blob in listed:
            key = blob.name.removeprefix(self._root)
            if key > after and not is_folder(blob):
                yield ObjectStat(key, blob.size, _etag(blob))

    def overwrite(self, key: str, body: bytes) -> None:
        """Write a hint."""
        with translate_errors("overwrite", self._url(key)):
            self._client.renewed(lambda: self._put(key, body, overwrite=True))

    def read_range(self, key: str, start: int, length: int) -> bytes | None:
        """Some of a value's bytes, by a ranged GET. Azure knows no range from the end."""
        if start < 0:
            found = self.stat(key)
            if found is None:
                return None
            start = max(found.size + start, 0)
        with translate_errors("read", self._url(key)):
            try:
                return self._client.renewed(
                    lambda: self._blob(key).download_blob(offset=start, length=length).readall()
                )
            except HttpResponseError as error:
                if code_of(error) in _ABSENT:
                    return None
                if code_of(error) == "InvalidRange":  # there are no bytes from there on
                    return b""
                raise

    def delete_slots(self, keys: Sequence[str]) -> None:
        """Delete values that a segment replaces, one per request."""
        for key in keys:
            self._delete(key)

    def _delete(self, key: str) -> None:
        with translate_errors("delete", self._url(key)):
            try:
                self._client.renewed(lambda: self._blob(key).delete_blob())
            except HttpResponseError as error:
                if code_of(error) not in _ABSENT:
                    raise

    # -------------------------------------------------------------------------------------- uploads

    def begin(self, key: str, token: str) -> str:  # noqa: ARG002  # both come with the completion
        """A new id. Nothing is sent: the first block begins the upload."""
        return uuid4().hex

    def put_part(self, key: str, upload_id: str, number: int, body: bytes) -> Part:
        """Upload a part as a block. The store rejects one that does not have its MD5."""
        md5 = hashlib.md5(body, usedforsecurity=False)
        part = Part(md5.hexdigest(), len(body))
        with translate_errors("put part", self._url(key)):
            self._client.renewed(
                lambda: self._blob(key).stage_block(
                    _block(upload_id, number, part),
                    body,
                    length=len(body),
                    transactional_content_md5=bytearray(md5.digest()),
                )
            )
        return part

    def put_copy(  # noqa: PLR0913, PLR0917  # as the protocol's
        self, key: str, upload_id: str, number: int, source: str, start: int, length: int
    ) -> Part:
        """Upload a part that is read from the object.

        *Put Block From URL* would need a signature for reading that not all credentials can make,
        and the id of a block has the MD5 of its bytes.
        """
        return self.put_part(key, upload_id, number, read_exactly(self, source, start, length))

    def complete(self, upload: Upload, *, is_fresh: bool = False) -> None:
        """Make the upload's object visible, by the rule of ``completion.ensure``.

        An object of another upload is never replaced.
        """
        ensure(
            upload,
            finish=lambda upload: self._finish(upload) and is_fresh,
            is_open=self._is_open,
            stat=self.stat,
        )

    def _finish(self, upload: Upload) -> bool:
        """Send the completion. Its 201 means that there was no blob, and that this is one now."""
        blocks = [BlobBlock(block) for block in _blocks(upload)]
        metadata = {TOKEN: upload.token, ETAG: multipart_etag(upload.parts)}
        with translate_errors("complete", self._url(upload.key)):
            try:
                self._client.renewed(
                    lambda: self._blob(upload.key).commit_block_list(
                        blocks, metadata=metadata, match_condition=MatchConditions.IfMissing
                    )
                )
            except HttpResponseError as error:
                if code_of(error) in _IN_DOUBT:
                    raise Retry(code_of(error)) from error
                raise
        return True

    def _is_open(self, upload: Upload) -> bool:
        with translate_errors("list blocks", self._url(upload.key)):
            try:
                _, uncommitted = self._client.renewed(
                    lambda: self._blob(upload.key).get_block_list("uncommitted")
                )
            except HttpResponseError as error:
                if code_of(error) in _ABSENT:
                    return False
                raise
        sizes = {block.id: block.size for block in uncommitted}
        return all(
            sizes.get(block) == part.size
            for block, part in zip(_blocks(upload), upload.parts, strict=True)
        )

    def abort(self, key: str, upload_id: str) -> None:
        """Nothing: Azure deletes the blocks by itself, after ``BLOCKS_LIVE``."""

    def retire(self, upload: Upload) -> None:
        """Use up the upload's blocks, then delete its blob."""
        ensure_retired(
            upload,
            drop=self._use_up,
            stat=self.stat,
            delete=lambda found: self._delete(found.key),
        )

    def _use_up(self, upload: Upload) -> None:
        """Complete an upload that is open, since only that leaves no blocks."""
        if self._is_open(upload):
            with suppress(UploadLost):  # another driver has retired it meanwhile
                self.complete(upload)

    def open_uploads(self, prefix: str) -> Iterator[OpenUpload]:  # noqa: ARG002  # none is listed
        """None: an upload that is never completed needs no cleanup."""
        return iter(())

    def upload_lifetime(self) -> timedelta | None:
        """How long blocks live, which cannot be changed."""
        return BLOCKS_LIVE

    # -------------------------------------------------------------------------------------- objects

    def stat(self, key: str) -> ObjectStat | None:
        """Size, ETag and token of an object; None if there is none."""
        with translate_errors("stat", self._url(key)):
            try:
                found = self._client.renewed(lambda: self._blob(key).get_blob_properties())
            except HttpResponseError as error:
                if code_of(error) in _ABSENT:
                    return None
                raise
        if is_folder(found):
            return None
        return ObjectStat(key, found.size, _etag(found), (found.metadata or {}).get(TOKEN, ""))

    def open(self, key: str) -> AbstractContextManager[BinaryIO]:
        """Read an object as a stream, which raises ``Retry`` if the connection breaks."""
        with translate_errors("open", self._url(key)):
            try:
                found = self._client.renewed(lambda: self._blob(key).download_blob())
            except HttpResponseError as error:
                if code_of(error) not in _ABSENT:
                    raise
                found = None
        if found is None:
            raise FileNotFoundError(self._url(key))
        return io.BufferedReader(_AzureDownload(found, self._url(key)), _READ_BYTES)

    # -------------------------------------------------------------------------------------- private

    def _put(self, key: str, body: bytes, *, overwrite: bool) -> None:
        self._blob(key).upload_blob(
            body, length=len(body), overwrite=overwrite, validate_content=True, max_concurrency=1
        )

    def _blob(self, key: str) -> "BlobClient":
        return self._client.current.get_blob_client(self._root + key)

    def _url(self, key: str) -> str:
        return f"{self._url_of_root}{self._root}{key}"


class _AzureDownload(io.RawIOBase):
    """A download as a raw stream, with errors translated. The client continues broken ones."""

    def __init__(self, download: Any, url: str) -> None:
        super().__init__()
        self._download = download
        self._url = url

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with translate_errors("read", self._url):
            data: bytes = self._download.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _blocks(upload: Upload) -> list[str]:
    return [_block(upload.upload_id, n, part) for n, part in enumerate(upload.parts, 1)]


def _block(upload_id: str, number: int, part: Part) -> str:
    """The id of a block, 48 characters: the ids of one blob must have the same length.

    The MD5 in it keeps a repeated part with other bytes apart.
    """
    if not _UPLOAD_ID.fullmatch(upload_id):
        raise ValueError(f"not an upload id of an Azure store: {upload_id!r}")
    return f"{upload_id[:22]}-{number:05d}-{part.etag[:19]}"


def _etag(found: "BlobProperties") -> str:
    return (found.metadata or {}).get(ETAG, "")
