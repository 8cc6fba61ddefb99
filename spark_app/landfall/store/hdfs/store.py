"""A store in a folder of HDFS: ``hdfs://NAMENODE:PORT/FOLDER``.

::

    <root>/<key>                                            visible objects and slots
    <root>/.landfall-staging/uploads/<id>/at/<key>/         an open upload, as old as the folder at
                                         /<number>-<md5>    its parts
                            /owners/<key>/<owner>/          the upload an object came from
                            /new/                           files being written

It relies on one thing: the name node renames in one step, and fails if there is something of the
new name (``probe`` tests that). A slot is written under another name, closed, and renamed; so is an
object of one part, which is its part. Several parts are joined in a file of their own first. The
object's owner is claimed before (``Owners``).

Files are on the data nodes' disks before they are renamed. ``:`` and ``//`` are in no name of HDFS,
and a name is at most 255 bytes long: keys with such names are refused. A key cannot be an object
and a folder of other keys at once.
"""

import hashlib
import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, BinaryIO
from urllib.parse import quote, unquote
from uuid import uuid4

from hdfs_native import AsyncFileReader, FileStatus

from landfall.api import spec
from landfall.errors import Reason, Retry, Stalled, StoreDenied
from landfall.objects import ObjectStat, OpenUpload, Part, Upload, multipart_etag
from landfall.store import Created
from landfall.store.completion import ensure
from landfall.store.copying import read_exactly
from landfall.store.hdfs.client import client
from landfall.store.hdfs.errors import translate_errors
from landfall.store.hdfs.requests import Requests
from landfall.store.hdfs.tree import Tree, name_of, time_of
from landfall.store.retirement import ensure_retired

STAGING = ".landfall-staging"
"""The folder under the root for everything that is not visible; no key may start with it."""
ABANDONED_AFTER = timedelta(days=1)
"""Age at which a partly written file is deleted, since its writer must have crashed."""
LONGEST_NAME = 255
"""Bytes of a name, unless ``dfs.namenode.fs-limits.max-component-length`` is set otherwise."""
_AT = "at"
_UPLOAD_ID = re.compile(r"[0-9a-f]{32}")
_CHUNK = 1 << 20
_NO_NAME = frozenset({"", ".", ".."})


class HdfsStore:
    """A ``Store`` in a folder, which is created by the first write. Thread-safe.

    Args:
        authority: host and port of the name node, or a name service.
        folder: path of the root.
        settings: how to access it.
        clock: source of the time, to know what is abandoned.
    """

    least_part_bytes = 1
    discards_uploads = True
    pauses_before_lost: Sequence[float] = ()

    def __init__(
        self,
        authority: str,
        folder: str,
        settings: spec.Hdfs,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._root = f"/{folder.strip('/')}"
        self._url_of_root = f"hdfs://{authority}{self._root}/"
        staging = f"{self._root}/{STAGING}"
        self._uploads = f"{staging}/uploads"
        self._clock = clock
        self._is_swept = False
        with translate_errors("connect", self._url_of_root):
            made = client(authority, settings)
        self.requests = Requests(settings)
        self._tree = Tree(made, self.requests, f"{staging}/new")
        self._owners = Owners(self._tree, f"{staging}/owners")

    def __repr__(self) -> str:
        return f"HdfsStore({self._url_of_root})"

    # ---------------------------------------------------------------------------------------- slots

    def create(self, key: str, body: bytes) -> Created:
        """Create the key if it is absent."""
        with translate_errors("create", self._url(key)):
            won = self._tree.create(self._path(key), body)
        return Created.WON if won else Created.TAKEN

    def read(self, key: str) -> bytes | None:
        """The whole value; None if the key does not exist."""
        try:
            with self.open(key) as stream:
                return stream.read()
        except FileNotFoundError:
            return None

    def list_after(self, prefix: str, after: str = "") -> Iterator[ObjectStat]:
        """Visible objects in key order, two requests for each folder."""
        files = self._tree.files(self._root, prefix, after, STAGING)
        while (found := self._next(files, prefix)) is not None:
            key = found.path.removeprefix(f"{self._root}/")
            with translate_errors("list", self._url(prefix)):
                owner = self._owners.of(key)
            known = owner if owner and owner.size == found.length else None
            yield ObjectStat(key, found.length, known.etag if known else "")

    def overwrite(self, key: str, body: bytes) -> None:
        """Write a hint."""
        with translate_errors("overwrite", self._url(key)):
            self._tree.replace(self._path(key), body)

    def read_range(self, key: str, start: int, length: int) -> bytes | None:
        """Some of a value's bytes."""
        with translate_errors("read", self._url(key)):
            found = self._file(key)
            if found is None:
                return None
            begin = max(found.length + start, 0) if start < 0 else start
            size = min(length, found.length - begin)
            if size <= 0:
                return b""
            return self._tree.read_range(found.path, begin, size)

    def delete_slots(self, keys: Sequence[str]) -> None:
        """Delete values that a segment replaces, one per request."""
        for key in keys:
            with translate_errors("delete", self._url(key)):
                self._tree.delete(self._path(key))

    # -------------------------------------------------------------------------------------- uploads

    def begin(self, key: str, token: str) -> str:  # noqa: ARG002  # it comes with the completion
        """Begin an upload, in a folder of its own."""
        upload_id = uuid4().hex
        with translate_errors("begin", self._url(key)):
            if not self._is_swept:
                self._tree.delete_abandoned(self._clock(), ABANDONED_AFTER)
                self._is_swept = True
            self._path(key)
            self._tree.make_folder(f"{self._folder(upload_id)}/{_AT}/{key}")
        return upload_id

    def put_part(self, key: str, upload_id: str, number: int, body: bytes) -> Part:
        """Upload a part. The MD5 in its name keeps a repeated part with other bytes apart."""
        part = Part(hashlib.md5(body, usedforsecurity=False).hexdigest(), len(body))
        folder = self._folder(upload_id)
        with translate_errors("put part", self._url(key)):
            new = self._tree.write_new(body)
            try:
                self._tree.rename(new, f"{folder}/{_part_name(number, part)}")
            except FileExistsError:  # this part, which an earlier attempt has put
                self._tree.delete(new)
            except FileNotFoundError as error:
                self._tree.delete(new)
                raise Retry(
                    f"put part {key}: upload {upload_id} is gone: it was aborted"
                ) from error
        return part

    def put_copy(  # noqa: PLR0913, PLR0917  # as the protocol's
        self, key: str, upload_id: str, number: int, source: str, start: int, length: int
    ) -> Part:
        """Upload a part that is read from the object and written again: HDFS does not copy."""
        return self.put_part(key, upload_id, number, read_exactly(self, source, start, length))

    def complete(self, upload: Upload, *, is_fresh: bool = False) -> None:  # noqa: ARG002  # a look is cheap
        """Make the upload's object visible, by the rule of ``completion.ensure``.

        An object of another upload is never replaced.
        """
        ensure(upload, finish=self._finish, is_open=self._is_open, stat=self.stat)
        self.abort(upload.key, upload.upload_id)

    def _finish(self, upload: Upload) -> bool:
        path = self._path(upload.key)
        with translate_errors("complete", self._url(upload.key)):
            if self._tree.status(path):
                raise Retry("an object is there already")
            try:
                whole = self._joined(upload)
                self._owners.claim(
                    upload.key,
                    UploadOwner.of(upload),
                    is_open=lambda found: self._tree.status(self._folder(found)) is not None,
                    is_visible=lambda: self._tree.status(path) is not None,
                )
                self._tree.make_folder(path.rpartition("/")[0])
                self._tree.rename(whole, path)
            except FileExistsError:
                raise Retry("another driver created the object first") from None
            except FileNotFoundError:
                raise Retry("the upload was aborted or completed meanwhile") from None
        return False

    def _joined(self, upload: Upload) -> str:
        """The path of a file of all the parts, in the upload's folder.

        Raises:
            FileNotFoundError: a part is missing.
        """
        folder = self._folder(upload.upload_id)
        paths = [f"{folder}/{_part_name(n, part)}" for n, part in enumerate(upload.parts, 1)]
        if len(paths) == 1:
            # Another driver may rename it first: then this one claims the key for the same owner.
            if self._tree.status(paths[0]) is None:
                raise FileNotFoundError(paths[0])
            return paths[0]
        whole = f"{folder}/whole-{uuid4().hex}"
        self._tree.join(paths, whole)
        return whole

    def _is_open(self, upload: Upload) -> bool:
        with translate_errors("list parts", self._url(upload.key)):
            found = self._tree.entries(self._folder(upload.upload_id))
        sizes = {name_of(entry): entry.length for entry in found}
        return all(
            sizes.get(_part_name(number, part)) == part.size
            for number, part in enumerate(upload.parts, 1)
        )

    def abort(self, key: str, upload_id: str) -> None:
        """Discard an upload: its folder disappears in one step."""
        with translate_errors("abort", self._url(key)):
            self._tree.delete(self._folder(upload_id))

    def retire(self, upload: Upload) -> None:
        """Discard the upload, delete its object, and forget where that came from.

        A driver that is about to make the object renames a file of the upload's folder, which is
        gone.
        """
        ensure_retired(
            upload,
            drop=lambda upload: self.abort(upload.key, upload.upload_id),
            stat=self.stat,
            delete=lambda found: self.delete_slots([found.key]),
        )
        with translate_errors("retire", self._url(upload.key)):
            self._owners.forget(upload.key, UploadOwner.of(upload))

    def open_uploads(self, prefix: str) -> Iterator[OpenUpload]:
        """Open uploads in key order, a request for each folder of their keys."""
        with translate_errors("list uploads", self._url(prefix)):
            names = [name_of(entry) for entry in self._tree.entries(self._uploads)]
            opened = [upload for name in names if (upload := self._opened(name))]
        yield from sorted(
            (upload for upload in opened if upload.key.startswith(prefix)),
            key=lambda upload: (upload.key, upload.begun, upload.upload_id),
        )

    def _opened(self, upload_id: str) -> OpenUpload | None:
        """The upload of this id; None if it is gone."""
        at = f"{self._folder(upload_id)}/{_AT}"
        begun = self._tree.status(at)
        path = at
        while found := self._tree.entries(path):
            path = found[0].path
        key = path.removeprefix(at).lstrip("/")
        return OpenUpload(key, upload_id, time_of(begun)) if begun and key else None

    # -------------------------------------------------------------------------------------- objects

    def stat(self, key: str) -> ObjectStat | None:
        """Size, ETag and token of an object; None if there is none.

        ETag and token are empty if the object does not come from an upload.
        """
        with translate_errors("stat", self._url(key)):
            found = self._file(key)
            if found is None:
                return None
            owner = self._owners.of(key)
            if owner is None and self._file(key) is None:  # it has retired meanwhile
                return None
        if owner is None or owner.size != found.length:
            return ObjectStat(key, found.length, "")
        return ObjectStat(key, found.length, owner.etag, owner.token)

    def open(self, key: str) -> AbstractContextManager[BinaryIO]:
        """Read an object as a stream."""
        url = self._url(key)
        with translate_errors("open", url):
            found = self._file(key)
        if found is None:
            raise FileNotFoundError(url)
        with translate_errors("open", url):
            return io.BufferedReader(
                _HdfsDownload(self._tree, self._tree.reader(found.path), url), _CHUNK
            )

    # -------------------------------------------------------------------------------------- private

    def _file(self, key: str) -> FileStatus | None:
        found = self._tree.status(self._path(key))
        return None if found is None or found.isdir else found

    def _next(self, files: Iterator[FileStatus], prefix: str) -> FileStatus | None:
        with translate_errors("list", self._url(prefix)):
            return next(files, None)

    def _path(self, key: str) -> str:
        steps = key.split("/")
        if not _NO_NAME.isdisjoint(steps) or steps[0] == STAGING or "\0" in key:
            raise ValueError(f"not a key of a store in HDFS: {key!r}")
        if ":" in key or any(len(step.encode()) > LONGEST_NAME for step in steps):
            raise StoreDenied(
                f"{self._url(key)}: HDFS takes no name with a colon, or of more than "
                f"{LONGEST_NAME} bytes"
            )
        return f"{self._root}/{key}"

    def _folder(self, upload_id: str) -> str:
        if not _UPLOAD_ID.fullmatch(upload_id):
            raise ValueError(f"not an upload id of a store in HDFS: {upload_id!r}")
        return f"{self._uploads}/{upload_id}"

    def _url(self, key: str) -> str:
        return f"{self._url_of_root}{key}"


class _HdfsDownload(io.RawIOBase):
    """A file as a raw stream, with errors translated."""

    def __init__(self, tree: Tree, file: AsyncFileReader, url: str) -> None:
        super().__init__()
        self._tree = tree
        self._file = file
        self._url_of_file = url

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with translate_errors("read", self._url_of_file):
            data = self._tree.read(self._file, len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _part_name(number: int, part: Part) -> str:
    return f"{number:05d}-{part.etag}"


# Which upload each object in HDFS comes from: it is in the names of folders.
#
# ``<owners>/<key>/<owner>/``, where the owner is the id, token, size and ETag of the upload. They
# are folders and not files, because a name node keeps them without a block, and makes one in a
# millisecond, where a client needs half a second to close a file.
#
# An owner is claimed before its object becomes visible, so no object is ever visible without its
# token. A claim is void if its upload is gone and its object was never visible; another owner takes
# over such a claim by renaming it, which is one step, so that there is never a moment without one.


@dataclass(frozen=True)
class UploadOwner:
    """The upload that an object came from, or is about to come from."""

    upload_id: str
    token: str
    size: int
    etag: str

    @classmethod
    def of(cls, upload: Upload) -> "UploadOwner":
        """The owner of the upload's object."""
        return cls(upload.upload_id, upload.token, upload.size, multipart_etag(upload.parts))

    @property
    def name(self) -> str:
        """As the name of a folder."""
        values = (self.upload_id, self.token, str(self.size), self.etag)
        return ",".join(quote(value, "") for value in values)

    @classmethod
    def parse(cls, name: str) -> "UploadOwner | None":
        """The owner that has this name; None if none has."""
        match name.split(","):
            case [upload_id, token, size, etag] if size.isdecimal():
                return cls(unquote(upload_id), unquote(token), int(size), unquote(etag))
        return None


class Owners:
    """The owners of the objects under one root. Thread-safe."""

    def __init__(self, tree: Tree, folder: str) -> None:
        """``folder`` is where they are kept."""
        self._tree = tree
        self._folder = folder

    def of(self, key: str) -> UploadOwner | None:
        """Return the claimant of a key; None if it is unclaimed."""
        names = [name_of(entry) for entry in self._tree.entries(f"{self._folder}/{key}")]
        return next(filter(None, map(UploadOwner.parse, names)), None)

    def claim(
        self,
        key: str,
        owner: UploadOwner,
        *,
        is_open: Callable[[str], bool],
        is_visible: Callable[[], bool],
    ) -> None:
        """Record that the object about to be visible comes from this owner.

        Args:
            key: of the object.
            owner: who claims it.
            is_open: whether an upload of the key, given by its id, is still there.
            is_visible: whether the object is.

        Raises:
            FileExistsError: the object is visible, and comes from another upload.
            Retry: another driver claims it at this moment.
            Stalled: LEDGER_BROKEN, another open upload has claimed the key.
        """
        found = self.of(key) or self._claimed(key, owner)
        if found == owner:
            return
        # In this order: what was open before and is gone now is seen as its object.
        still_open = is_open(found.upload_id)
        if is_visible():
            raise FileExistsError(key)
        if still_open:
            raise Stalled(
                Reason.LEDGER_BROKEN,
                f"{key}: claimed by upload {found.upload_id} with token {found.token}, "
                "which is still open",
            )
        folder = f"{self._folder}/{key}"
        try:
            self._tree.rename(f"{folder}/{found.name}", f"{folder}/{owner.name}")
        except FileNotFoundError:
            # Another driver may have renamed it first, for the same upload.
            if self.of(key) != owner:
                raise Retry(f"{key}: another driver claims it too") from None

    def forget(self, key: str, owner: UploadOwner) -> None:
        """Remove a claim whose object has retired, if it is there. No other upload claims it."""
        if self.of(key) == owner:
            self._tree.delete(f"{self._folder}/{key}")

    def _claimed(self, key: str, owner: UploadOwner) -> UploadOwner:
        """Claim a key that has no owner; return its owner then."""
        claim, made = f"{self._folder}/{key}", f"{self._tree.new}/{uuid4().hex}"
        self._tree.make_folder(f"{made}/{owner.name}")
        self._tree.make_folder(claim.rpartition("/")[0])
        try:
            self._tree.rename(made, claim)
        except FileExistsError:
            self._tree.delete(made)
            found = self.of(key)
            if found is None:
                raise Retry(f"{key}: there is a folder without an owner") from None
            return found
        return owner
