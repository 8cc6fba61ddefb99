"""The store in a folder of a local or network file system, safe against a crash at any line.

::

    <root>/<key>                                        what is visible
    <root>/.landfall-staging/uploads/<id>/about.json    an open upload: key, token, begun
                                         /<number>-<md5>  its parts
                            /owners/<hash of key>.json  which upload an object came from: token, size, ETag
                            /new/                       files being written

A slot is written aside, synced and given its name by ``link(2)``, which fails if the name exists:
one winner, and never half a value. An object is joined aside the same way, and linked too: unlike
``rename`` that cannot replace another's object. Before the link, the object's owner file is created
by the same means, so that there is no moment at which an object is visible and its token is not; an
owner whose upload is gone and whose object never came may be succeeded.

Whatever is reported done has been synced, files and folders both. Needs hard links; keys are paths,
so a key cannot be both an object and a folder of others, and its pieces are at most 255 bytes.
"""

import hashlib
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

import msgspec

from landfall.errors import Reason, Retry, Stalled
from landfall.objects import ObjectStat, OpenUpload, Part, Upload, multipart_etag
from landfall.store import Created
from landfall.store.completion import ensure
from landfall.store.disk import (
    created,
    keys,
    link,
    make_folder,
    move,
    size_of,
    sweep,
    sync,
    sync_folder,
    told,
    written,
)

STAGING = ".landfall-staging"
"""The folder under the root that holds what is not visible; no key may start with it."""
ABANDONED_AFTER = timedelta(days=1)
"""Age at which a file half written is taken for a crashed writer's."""
_UPLOAD_ID = re.compile(r"[0-9a-f]{32}")


class _About(msgspec.Struct, frozen=True):
    """What ``begin`` writes beside the parts."""

    key: str
    token: str
    begun: datetime


class _Owner(msgspec.Struct, frozen=True):
    """The upload an object came from, or is about to."""

    upload_id: str
    token: str
    size: int
    etag: str


class FileStore:
    """A ``Store`` in a folder, made when first written to. Safe for threads and for processes that share the file system.

    Args:
        root: the folder.
        clock: dates uploads.
    """

    least_part_bytes = 1

    def __init__(
        self, root: Path, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._root = root.absolute()
        self._clock = clock
        self._uploads = self._root / STAGING / "uploads"
        self._owners = self._root / STAGING / "owners"
        self._new = self._root / STAGING / "new"
        with told("connect", self._root):
            sweep(self._new, clock(), ABANDONED_AFTER)

    def __repr__(self) -> str:
        return f"FileStore({self._root})"

    # ---------------------------------------------------------------------------------------- slots

    def create(self, key: str, body: bytes) -> Created:
        """Create the key if it is absent."""
        path = self._path(key)
        with told("create", path):
            return Created.WON if created(self._new, path, body) else Created.TAKEN

    def read(self, key: str) -> bytes | None:
        """The whole value, or None."""
        path = self._path(key)
        with told("read", path):
            return path.read_bytes() if path.is_file() else None

    def list_after(self, prefix: str, after: str = "") -> Iterator[ObjectStat]:
        """Visible objects in key order."""
        for key in keys(self._root, prefix, after, hidden=STAGING):
            # One may have been removed since by a person.
            if found := self.stat(key):
                yield ObjectStat(found.key, found.size, found.etag)

    def overwrite(self, key: str, body: bytes) -> None:
        """Write a hint."""
        path = self._path(key)
        with told("overwrite", path):
            make_folder(path.parent)
            move(written(self._new, body), path)

    # -------------------------------------------------------------------------------------- uploads

    def begin(self, key: str, token: str) -> str:
        """Begin an upload: a folder of its own."""
        upload_id = uuid4().hex
        with told("begin", self._path(key)):
            make_folder(self._uploads)
            folder = self._new / upload_id
            make_folder(folder)
            move(
                written(self._new, msgspec.json.encode(_About(key, token, self._clock()))),
                folder / "about.json",
            )
            move(folder, self._folder(upload_id))
        return upload_id

    def put_part(self, key: str, upload_id: str, number: int, body: bytes) -> Part:
        """Upload a part; its name tells its bytes, so a part put again differently is another file."""
        part = Part(hashlib.md5(body, usedforsecurity=False).hexdigest(), len(body))
        folder = self._folder(upload_id)
        with told("put part", self._path(key)):
            new = written(self._new, body)
            try:
                move(new, folder / _part_name(number, part))
            except FileNotFoundError as error:
                new.unlink(missing_ok=True)
                raise Retry(
                    f"put part {key}: upload {upload_id} is gone: it was aborted"
                ) from error
        return part

    def complete(self, upload: Upload) -> None:
        """Make the upload's object visible, by the rule of ``ensure``; another's object is never replaced."""
        ensure(upload, finish=self._finish, is_open=self._is_open, stat=self.stat)
        with told("complete", self._path(upload.key)):
            # Whoever linked it may have died before this.
            sync_folder(self._path(upload.key).parent)
            self._forget(upload.upload_id)

    def _finish(self, upload: Upload) -> None:
        path = self._path(upload.key)
        with told("complete", path):
            if path.is_file():
                raise Retry("an object is there already")
            whole = self._joined(upload)
            try:
                self._claim(upload, path)
                link(whole, path)
            except FileExistsError:
                raise Retry("somebody else was faster") from None
            except FileNotFoundError:
                raise Retry("the upload went away meanwhile") from None
            finally:
                whole.unlink(missing_ok=True)

    def _joined(self, upload: Upload) -> Path:
        """A synced file of all the parts, in the upload's folder, so that it goes when the upload is aborted."""
        folder = self._folder(upload.upload_id)
        whole = folder / f"whole-{uuid4().hex}"
        try:
            if len(upload.parts) == 1:
                whole.hardlink_to(folder / _part_name(1, upload.parts[0]))
                return whole
            with whole.open("xb") as joined:
                for number, part in enumerate(upload.parts, 1):
                    with (folder / _part_name(number, part)).open("rb") as stream:
                        shutil.copyfileobj(stream, joined, 1 << 20)
                sync(joined)
        except FileNotFoundError as error:
            whole.unlink(missing_ok=True)
            raise Retry(f"no such upload, or not with these parts: {upload.upload_id}") from error
        return whole

    def _claim(self, upload: Upload, path: Path) -> None:
        """Write down that the object to come is this upload's."""
        owner = _Owner(upload.upload_id, upload.token, upload.size, multipart_etag(upload.parts))
        owned = self._owner_path(upload.key)
        if created(self._new, owned, msgspec.json.encode(owner)):
            return
        found = self._owner(upload.key)
        if found == owner:
            return
        if path.is_file():
            raise FileExistsError(path)
        if found is not None and self._folder(found.upload_id).exists():
            raise Stalled(
                Reason.LEDGER_BROKEN,
                f"{upload.key}: claimed by upload {found.upload_id} with token {found.token}, which is still open",
            )
        move(written(self._new, msgspec.json.encode(owner)), owned)

    def _is_open(self, upload: Upload) -> bool:
        folder = self._folder(upload.upload_id)
        return all(
            (folder / _part_name(number, part)).exists()
            for number, part in enumerate(upload.parts, 1)
        )

    def abort(self, key: str, upload_id: str) -> None:
        """Forget an upload."""
        with told("abort", self._path(key)):
            self._forget(upload_id)

    def _forget(self, upload_id: str) -> None:
        """Take the upload's folder away at one stroke, then delete it."""
        gone = self._new / f"gone-{uuid4().hex}"
        try:
            self._folder(upload_id).rename(gone)
        except FileNotFoundError:
            return
        shutil.rmtree(gone, ignore_errors=True)

    def open_uploads(self, prefix: str) -> Iterator[OpenUpload]:
        """Open uploads in key order."""
        with told("list uploads", self._uploads):
            folders = list(self._uploads.iterdir()) if self._uploads.is_dir() else []
            opened = [upload for folder in folders if (upload := _opened(folder))]
        yield from sorted(
            (u for u in opened if u.key.startswith(prefix)),
            key=lambda u: (u.key, u.begun, u.upload_id),
        )

    # -------------------------------------------------------------------------------------- objects

    def stat(self, key: str) -> ObjectStat | None:
        """Size, ETag and token, or None; ETag and token are empty for what did not come from an upload."""
        path = self._path(key)
        with told("stat", path):
            size = size_of(path)
            if size is None:
                return None
            owner = self._owner(key)
        if owner is None or owner.size != size:
            return ObjectStat(key, size, "")
        return ObjectStat(key, size, owner.etag, owner.token)

    def open(self, key: str) -> AbstractContextManager[BinaryIO]:
        """Read an object as a stream."""
        path = self._path(key)
        with told("open", path):
            found = path.open("rb") if path.is_file() else None
        if found is None:
            raise FileNotFoundError(path)
        return found

    # -------------------------------------------------------------------------------------- private

    def _path(self, key: str) -> Path:
        pieces = key.split("/")
        if not {"", ".", ".."}.isdisjoint(pieces) or pieces[0] == STAGING or "\0" in key:
            raise ValueError(f"not a key of a file store: {key!r}")
        return self._root / key

    def _folder(self, upload_id: str) -> Path:
        if not _UPLOAD_ID.fullmatch(upload_id):
            raise ValueError(f"not an upload id of a file store: {upload_id!r}")
        return self._uploads / upload_id

    def _owner_path(self, key: str) -> Path:
        name = hashlib.sha256(key.encode()).hexdigest()
        return self._owners / name[:2] / f"{name}.json"

    def _owner(self, key: str) -> _Owner | None:
        try:
            return msgspec.json.decode(self._owner_path(key).read_bytes(), type=_Owner)
        except FileNotFoundError:
            return None


def _opened(folder: Path) -> OpenUpload | None:
    try:
        about = msgspec.json.decode((folder / "about.json").read_bytes(), type=_About)
    except FileNotFoundError:
        return None
    return OpenUpload(about.key, folder.name, about.begun)


def _part_name(number: int, part: Part) -> str:
    return f"{number:05d}-{part.etag}"
