"""Files that are whole and stay, or are not there at all, whatever line a crash strikes: what ``file`` is made of.

A file gets its final name only after its bytes are synced; then its folder is synced, so that the
name stays too.
"""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from landfall.errors import Reason, Stalled, StoreAway

_PASSING = frozenset(
    {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EIO,
        errno.EAGAIN,
        errno.EINTR,
        errno.ESTALE,
        errno.ETIMEDOUT,
        errno.EMFILE,
    }
)
_NO_LINKS = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


@contextmanager
def told(operation: str, path: Path) -> Iterator[None]:
    """Tell the system's errors as ours: a full or ailing disk passes (``Retry``), missing rights need a person."""
    try:
        yield
    except OSError as error:
        said = f"{operation} {path}: {error.strerror or type(error).__name__}"
        if error.errno in _PASSING:
            raise StoreAway(said) from error
        reason = Reason.STORE_UNSAFE if error.errno in _NO_LINKS else Reason.STORE_DENIED
        raise Stalled(reason, said) from error


def sync(stream: BinaryIO) -> None:
    """Bring a file's bytes to the disk."""
    stream.flush()
    os.fsync(stream.fileno())


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(folder: Path) -> None:
    """Make the folder and those above it, each synced into its parent."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    try:
        folder.mkdir(exist_ok=True)
    except FileExistsError:
        # Not FileExistsError, which to our callers means that somebody else was faster.
        raise NotADirectoryError(
            errno.ENOTDIR, "an object stands where a folder is needed", str(folder)
        ) from None
    sync_folder(folder.parent)


def written(folder: Path, body: bytes) -> Path:
    """A synced new file in the folder, under a name of no meaning."""
    make_folder(folder)
    path = folder / uuid4().hex
    try:
        with path.open("xb") as stream:
            stream.write(body)
            sync(stream)
    except OSError:
        path.unlink(missing_ok=True)
        raise
    return path


def move(new: Path, path: Path) -> None:
    """Give a file its final name, replacing what has it."""
    new.replace(path)
    sync_folder(path.parent)


def link(new: Path, path: Path) -> None:
    """Give a file a second name, of which it is the only bearer from then on; FileExistsError if it is taken."""
    make_folder(path.parent)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "a folder stands where an object is to be", str(path))
    try:
        path.hardlink_to(new)
    finally:
        # Also when it is taken: what the caller reads next must not vanish in a power failure.
        sync_folder(path.parent)


def created(new_files: Path, path: Path, body: bytes) -> bool:
    """Create the file with this body; False if it exists. ``new_files`` is a folder on the same file system."""
    new = written(new_files, body)
    try:
        link(new, path)
    except FileExistsError:
        return False
    finally:
        new.unlink(missing_ok=True)
    return True


def size_of(path: Path) -> int | None:
    """A file's size in bytes; None if there is none."""
    try:
        return path.stat().st_size if path.is_file() else None
    except FileNotFoundError:
        return None


def sweep(folder: Path, now: datetime, older_than: timedelta) -> None:
    """Delete what nobody has written to for so long, as far as that can be done."""
    for left in folder.iterdir() if folder.is_dir() else ():
        with suppress(OSError):
            if now - datetime.fromtimestamp(left.stat().st_mtime, UTC) > older_than:
                shutil.rmtree(left) if left.is_dir() else left.unlink()


def keys(root: Path, prefix: str, after: str, *, hidden: str, folder: str = "") -> Iterator[str]:
    """Paths of files under ``root``, in the order of their UTF-8 bytes, that start with ``prefix`` and come after ``after``.

    A folder sorts by its name with the slash, which is what its files' paths begin with. Folders
    that cannot hold any such file are not looked into, nor is the one at the top named ``hidden``.
    ``folder`` is where to begin: empty, or a path that ends with a slash.
    """
    with told("list", root / folder):
        try:
            names = sorted(entry.name + "/" * entry.is_dir() for entry in os.scandir(root / folder))
        except FileNotFoundError:
            return
    for key in (folder + name for name in names):
        if not key.endswith("/"):
            if key.startswith(prefix) and key > after:
                yield key
        elif key != f"{hidden}/" and _may_hold(key, prefix, after):
            yield from keys(root, prefix, after, hidden=hidden, folder=key)


def _may_hold(folder: str, prefix: str, after: str) -> bool:
    """Whether a folder can hold keys that start with ``prefix`` and come after ``after``."""
    return (folder.startswith(prefix) or prefix.startswith(folder)) and (
        folder > after or after.startswith(folder)
    )
