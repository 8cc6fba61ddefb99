"""A store in a folder of a local or network file system, safe against a crash at any point.

::

    <root>/<key>                                          visible objects and slots
    <root>/.landfall-staging/uploads/<id>/about.json      an open upload: key, token, begun
                                         /<number>-<md5>  its parts
                            /owners/<hash of key>.json    the upload an object came from:
                                                          id, token, size, ETag
                            /new/                         files being written

A slot is written under another name, synced, and given its key's name by ``link(2)``, which fails
if the name exists: there is one winner, and never a partial value. The parts of an object are
joined and linked in the same way; unlike ``rename``, that cannot replace an object of another
upload. The object's owner file is created before the link, so that no object is ever visible
without its token. An owner file may be replaced if its upload is gone and its object was never
linked.

Files and folders are synced before a call returns. The file system must support hard links. Keys
are paths: a key cannot be an object and a folder of other keys at once, and each of its steps is at
most 255 bytes long. Other programs' links that lead out of the root are never followed.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

import msgspec

from landfall import untrusted_json
from landfall.errors import Reason, Retry, Stalled
from landfall.objects import ObjectStat, OpenUpload, Part, Upload, multipart_etag
from landfall.store import Created
from landfall.store.completion import ensure
from landfall.store.copying import read_exactly
from landfall.store.disk import (
    check_inside,
    create_file,
    delete_abandoned,
    keys,
    leads_out,
    link,
    make_folder,
    move,
    open_inside,
    size_of,
    sync,
    sync_folder,
    translate_errors,
    write_new,
)
from landfall.store.lifecycle import PROBES
from landfall.store.retirement import ensure_retired

STAGING = ".landfall-staging"
"""The folder under the root for everything that is not visible; no key may start with it."""
ABANDONED_AFTER = timedelta(days=1)
"""Age at which a partly written file is deleted, since its writer must have crashed."""
_UPLOAD_ID = re.compile(r"[0-9a-f]{32}")


class _About(msgspec.Struct, frozen=True):
    """The file that ``begin`` writes alongside an upload's parts."""

    key: str
    token: str
    begun: datetime


class _Owner(msgspec.Struct, frozen=True):
    """The upload that an object came from, or is about to come from."""

    upload_id: str
    token: str
    size: int
    etag: str


class FileStore:
    """A ``Store`` in a folder, which is created by the first write.

    Safe for threads, and for processes that share the file system.

    Args:
        root: the folder.
        clock: source of the uploads' times.
    """

    least_part_bytes = 1
    discards_uploads = True
    pauses_before_lost = ()

    def __init__(
        self, root: Path, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._root = root.absolute()
        self._clock = clock
        self._uploads = self._root / STAGING / "uploads"
        self._owners = self._root / STAGING / "owners"
        self._new = self._root / STAGING / "new"
        with translate_errors("connect", self._root):
            for folder in (self._uploads, self._owners, self._new):
                check_inside(self._root, folder)
            delete_abandoned(self._new, clock(), ABANDONED_AFTER)

    def __repr__(self) -> str:
        return f"FileStore({self._root})"

    # ---------------------------------------------------------------------------------------- slots

    def create(self, key: str, body: bytes) -> Created:
        """Create the key if it is absent."""
        path = self._path(key)
        with translate_errors("create", path):
            return Created.WON if create_file(self._new, path, body) else Created.TAKEN

    def read(self, key: str) -> bytes | None:
        """The whole value; None if the key does not exist."""
        path = self._path(key)
        with translate_errors("read", path):
            stream = self._opened(path)
            if stream is None:
                return None
            with stream:
                return stream.read()

    def list_after(self, prefix: str, after: str = "") -> Iterator[ObjectStat]:
        """Visible objects in key order."""
        for key in keys(self._root, prefix, after, hidden=STAGING):
            if leads_out(self._root, self._root / key):
                continue  # a link that a user has put there is no object
            # A user may have removed the file since it was listed.
            if found := self.stat(key):
                yield ObjectStat(found.key, found.size, found.etag)

    def overwrite(self, key: str, body: bytes) -> None:
        """Write a hint."""
        path = self._path(key)
        with translate_errors("overwrite", path):
            make_folder(path.parent)
            move(write_new(self._new, body), path)

    def read_range(self, key: str, start: int, length: int) -> bytes | None:
        """Some of a value's bytes."""
        path = self._path(key)
        with translate_errors("read", path):
            stream = self._opened(path)
            if stream is None:
                return None
            with stream:
                size = stream.seek(0, os.SEEK_END)
                stream.seek(max(size + start, 0) if start < 0 else start)
                return stream.read(length)

    def delete_slots(self, keys: Sequence[str]) -> None:
        """Delete values that a segment replaces."""
        for key in keys:
            path = self._path(key)
            with translate_errors("delete", path):
                path.unlink(missing_ok=True)
                if key.startswith(PROBES):
                    _remove_empty(path.parent, self._path(PROBES.rstrip("/")))

    # -------------------------------------------------------------------------------------- uploads

    def begin(self, key: str, token: str) -> str:
        """Begin an upload, in a folder of its own."""
        upload_id = uuid4().hex
        with translate_errors("begin", self._path(key)):
            make_folder(self._uploads)
            folder = self._new / upload_id
            make_folder(folder)
            about = msgspec.json.encode(_About(key, token, self._clock()))
            move(write_new(self._new, about), folder / "about.json")
            # Last: an upload's folder is never seen without its about.json.
            move(folder, self._folder(upload_id))
        return upload_id

    def put_part(self, key: str, upload_id: str, number: int, body: bytes) -> Part:
        """Upload a part. The MD5 in its name keeps a repeated part with other bytes apart."""
        part = Part(hashlib.md5(body, usedforsecurity=False).hexdigest(), len(body))
        folder = self._folder(upload_id)
        with translate_errors("put part", self._path(key)):
            new = write_new(self._new, body)
            try:
                move(new, folder / _part_name(number, part))
            except FileNotFoundError as error:
                new.unlink(missing_ok=True)
                raise Retry(
                    f"put part {key}: upload {upload_id} is gone: it was aborted"
                ) from error
        return part

    def put_copy(  # noqa: PLR0913, PLR0917  # as the protocol's
        self, key: str, upload_id: str, number: int, source: str, start: int, length: int
    ) -> Part:
        """Upload a part that is read from the object, and written again."""
        return self.put_part(key, upload_id, number, read_exactly(self, source, start, length))

    def complete(self, upload: Upload, *, is_fresh: bool = False) -> None:  # noqa: ARG002  # a look is cheap
        """Make the upload's object visible, by the rule of ``completion.ensure``.

        An object of another upload is never replaced.
        """
        ensure(upload, finish=self._finish, is_open=self._is_open, stat=self.stat)
        with translate_errors("complete", self._path(upload.key)):
            # Another driver may have linked the object and died before it synced the folder.
            sync_folder(self._path(upload.key).parent)
            self._discard(upload.upload_id)

    def _finish(self, upload: Upload) -> bool:
        path = self._path(upload.key)
        with translate_errors("complete", path):
            if path.is_file():
                raise Retry("an object is there already")
            whole = self._joined(upload)
            try:
                self._claim(upload, path)
                link(whole, path)
            except FileExistsError:
                raise Retry("another driver created the object first") from None
            except FileNotFoundError:
                raise Retry("the upload was aborted or completed meanwhile") from None
            finally:
                whole.unlink(missing_ok=True)
        return False

    def _joined(self, upload: Upload) -> Path:
        """A synced file of all the parts.

        It is in the upload's folder, so that it is deleted when the upload is aborted.
        """
        folder = self._folder(upload.upload_id)
        whole = folder / f"whole-{uuid4().hex}"
        try:
            if len(upload.parts) == 1:
                only = folder / _part_name(1, upload.parts[0])
                check_inside(self._root, only)
                whole.hardlink_to(only)
                return whole
            with whole.open("xb") as joined:
                for number, part in enumerate(upload.parts, 1):
                    with open_inside(self._root, folder / _part_name(number, part)) as stream:
                        shutil.copyfileobj(stream, joined, 1 << 20)
                sync(joined)
        except FileNotFoundError as error:
            whole.unlink(missing_ok=True)
            raise Retry(f"no such upload, or not with these parts: {upload.upload_id}") from error
        return whole

    def _claim(self, upload: Upload, path: Path) -> None:
        """Record that the object about to be linked comes from this upload.

        Raises:
            FileExistsError: the object exists, and comes from another upload.
            Stalled: LEDGER_BROKEN, another open upload has claimed the key.
        """
        owner = _owner_of(upload)
        owned = self._owner_path(upload.key)
        if create_file(self._new, owned, msgspec.json.encode(owner)):
            return
        found = self._owner(upload.key)
        if found == owner:
            return
        # In this order: what was open before and is gone now is seen as its object.
        still_open = found is not None and self._folder(found.upload_id).exists()
        if path.is_file():
            raise FileExistsError(path)
        if found is not None and still_open:
            raise Stalled(
                Reason.LEDGER_BROKEN,
                f"{upload.key}: claimed by upload {found.upload_id} with token {found.token}, "
                "which is still open",
            )
        # The claiming upload is gone and its object was never linked: its claim is void.
        move(write_new(self._new, msgspec.json.encode(owner)), owned)

    def _is_open(self, upload: Upload) -> bool:
        folder = self._folder(upload.upload_id)
        return all(
            (folder / _part_name(number, part)).exists()
            for number, part in enumerate(upload.parts, 1)
        )

    def abort(self, key: str, upload_id: str) -> None:
        """Discard an upload."""
        with translate_errors("abort", self._path(key)):
            self._discard(upload_id)

    def _discard(self, upload_id: str) -> None:
        # Renamed first: the upload disappears at once, and never seems open with some parts
        # missing.
        gone = self._new / f"gone-{uuid4().hex}"
        try:
            self._folder(upload_id).rename(gone)
        except FileNotFoundError:
            return
        shutil.rmtree(gone, ignore_errors=True)

    def retire(self, upload: Upload) -> None:
        """Discard the upload, delete its object, and forget where that came from.

        A driver that is about to link the object does so from the upload's folder, which is gone.
        """
        ensure_retired(
            upload,
            drop=lambda upload: self.abort(upload.key, upload.upload_id),
            stat=self.stat,
            delete=lambda found: self._delete(found.key),
        )
        # In this order: no object is ever visible without its token. No other upload claims it.
        if self._owner(upload.key) == _owner_of(upload):
            with translate_errors("retire", self._path(upload.key)):
                self._owner_path(upload.key).unlink(missing_ok=True)

    def _delete(self, key: str) -> None:
        path = self._path(key)
        with translate_errors("retire", path):
            path.unlink(missing_ok=True)
            sync_folder(path.parent)

    def open_uploads(self, prefix: str) -> Iterator[OpenUpload]:
        """Open uploads in key order."""
        with translate_errors("list uploads", self._uploads):
            folders = list(self._uploads.iterdir()) if self._uploads.is_dir() else []
            opened = [upload for folder in folders if (upload := _opened(folder))]
        yield from sorted(
            (u for u in opened if u.key.startswith(prefix)),
            key=lambda u: (u.key, u.begun, u.upload_id),
        )

    # -------------------------------------------------------------------------------------- objects

    def stat(self, key: str) -> ObjectStat | None:
        """Size, ETag and token of an object; None if there is none.

        ETag and token are empty if the object does not come from an upload.
        """
        path = self._path(key)
        with translate_errors("stat", path):
            size = size_of(path)
            if size is None:
                return None
            owner = self._owner(key)
            if owner is None and size_of(path) is None:  # it has retired meanwhile
                return None
        if owner is None or owner.size != size:
            return ObjectStat(key, size, "")
        return ObjectStat(key, size, owner.etag, owner.token)

    def open(self, key: str) -> AbstractContextManager[BinaryIO]:
        """Read an object as a stream."""
        path = self._path(key)
        with translate_errors("open", path):
            found = self._opened(path)
        if found is None:
            raise FileNotFoundError(path)
        return found

    # -------------------------------------------------------------------------------------- private

    def _path(self, key: str) -> Path:
        steps = key.split("/")
        if not {"", ".", ".."}.isdisjoint(steps) or steps[0] == STAGING or "\0" in key:
            raise ValueError(f"not a key of a file store: {key!r}")
        path = self._root / key
        with translate_errors("look at", path):
            check_inside(self._root, path)
        return path

    def _opened(self, path: Path) -> BinaryIO | None:
        """A file, opened for reading; None if there is none."""
        try:
            return open_inside(self._root, path)
        except FileNotFoundError:
            return None

    def _folder(self, upload_id: str) -> Path:
        if not _UPLOAD_ID.fullmatch(upload_id):
            raise ValueError(f"not an upload id of a file store: {upload_id!r}")
        return self._uploads / upload_id

    def _owner_path(self, key: str) -> Path:
        name = hashlib.sha256(key.encode()).hexdigest()
        return self._owners / name[:2] / f"{name}.json"

    def _owner(self, key: str) -> _Owner | None:
        try:
            with open_inside(self._root, self._owner_path(key)) as stream:
                return untrusted_json.decode(stream.read(), type=_Owner)
        except FileNotFoundError:
            return None


def _remove_empty(folder: Path, root: Path) -> None:
    """Remove a folder, and those around it below ``root``, as long as they hold nothing."""
    with suppress(OSError):
        while folder != root:
            folder.rmdir()
            folder = folder.parent


def _owner_of(upload: Upload) -> _Owner:
    return _Owner(upload.upload_id, upload.token, upload.size, multipart_etag(upload.parts))


def _opened(folder: Path) -> OpenUpload | None:
    try:
        about = untrusted_json.decode((folder / "about.json").read_bytes(), type=_About)
    except FileNotFoundError:
        return None
    return OpenUpload(about.key, folder.name, about.begun)


def _part_name(number: int, part: Part) -> str:
    return f"{number:05d}-{part.etag}"
