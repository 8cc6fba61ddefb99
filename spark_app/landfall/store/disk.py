"""File operations that survive a crash: a file is there with all its bytes, or not at all.

A file gets its final name only after its bytes are synced. Then its folder is synced, so that the
name survives too. ``landfall.store.file`` is built on these.

Other programs may write to a shared volume, links too. A link that leads out of the root would let
them have the pod's own files read, such as its secrets, or files of another program deleted, so
nothing is read or written there.
"""

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from landfall.errors import Reason, Stalled, StoreAway, StoreDenied

_TEMPORARY = frozenset(
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
def translate_errors(operation: str, path: Path) -> Iterator[None]:
    """Translate the operating system's errors to Landfall's.

    Raises:
        StoreAway: the error is temporary, such as a full disk.
        StoreDenied: any other error, such as missing permissions.
        Stalled: STORE_UNSAFE, the file system has no hard links.
    """
    try:
        yield
    except OSError as error:
        message = f"{operation} {path}: {error.strerror or type(error).__name__}"
        if error.errno in _TEMPORARY:
            raise StoreAway(message) from error
        if error.errno in _NO_LINKS:
            raise Stalled(Reason.STORE_UNSAFE, message) from error
        raise StoreDenied(message) from error


def leads_out(root: Path, path: Path) -> bool:
    """Return whether links lead from a path below the root to somewhere else."""
    return _is_out(root, os.path.realpath(path))


def check_inside(root: Path, path: Path) -> None:
    """Return unless links lead from a path below the root to somewhere else.

    Raises:
        PermissionError: they do.
    """
    if leads_out(root, path):
        raise _led_out(root, path)


def open_inside(root: Path, path: Path) -> BinaryIO:
    """Open a file for reading, unless links lead out of the root.

    It is the opened file that is looked at: no program can replace it by a link in between.

    Raises:
        FileNotFoundError: there is none, or it is no file.
        PermissionError: links lead out of the root.
    """
    check_inside(root, path)
    if not path.is_file():
        raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
    # What is no file any more must not block.
    stream = os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb")
    try:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
        if _is_out(root, _real_path(stream, path)):
            raise _led_out(root, path)
    except OSError:
        stream.close()
        raise
    return stream


def _real_path(stream: BinaryIO, path: Path) -> str:
    try:
        return str(Path(f"/proc/self/fd/{stream.fileno()}").readlink())
    except FileNotFoundError:  # only Linux has it
        return os.path.realpath(path)


def _is_out(root: Path, real: str) -> bool:
    return not f"{real}/".startswith(f"{os.path.realpath(root).rstrip('/')}/")


def _led_out(root: Path, path: Path) -> PermissionError:
    return PermissionError(errno.EACCES, f"a link leads out of {root}", str(path))


def sync(stream: BinaryIO) -> None:
    """Write a file's bytes through to the disk."""
    stream.flush()
    os.fsync(stream.fileno())


def sync_folder(folder: Path) -> None:
    """Write the names in a folder through to the disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(folder: Path) -> None:
    """Create the folder and its missing parents, each synced into its own parent."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    try:
        folder.mkdir(exist_ok=True)
    except FileExistsError:
        # Not FileExistsError, which means to callers that another process created the file first.
        raise NotADirectoryError(
            errno.ENOTDIR, "an object is where a folder is needed", str(folder)
        ) from None
    sync_folder(folder.parent)


def write_new(folder: Path, body: bytes) -> Path:
    """Write a new file with a random name into the folder, sync it, and return its path."""
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
    """Rename a file, replacing any file that has the new name."""
    new.replace(path)
    sync_folder(path.parent)


def link(new: Path, path: Path) -> None:
    """Give a file a second name.

    Raises:
        FileExistsError: the name is taken.
    """
    make_folder(path.parent)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "a folder is where an object is needed", str(path))
    try:
        path.hardlink_to(new)
    finally:
        # Also if it is taken: the caller reads that file next, and a power failure must not undo
        # it.
        sync_folder(path.parent)


def create_file(new_files: Path, path: Path, body: bytes) -> bool:
    """Create the file with this body; False if it exists.

    The body is first written to ``new_files``, a folder on the same file system.
    """
    new = write_new(new_files, body)
    try:
        link(new, path)
    except FileExistsError:
        return False
    finally:
        new.unlink(missing_ok=True)
    return True


def size_of(path: Path) -> int | None:
    """A file's size in bytes; None if there is no such file."""
    try:
        return path.stat().st_size if path.is_file() else None
    except FileNotFoundError:
        return None


def delete_abandoned(folder: Path, now: datetime, older_than: timedelta) -> None:
    """Delete the entries of a folder that were last written longer ago than ``older_than``.

    What cannot be deleted is skipped.
    """
    for entry in folder.iterdir() if folder.is_dir() else ():
        with suppress(OSError):
            if now - datetime.fromtimestamp(entry.stat().st_mtime, UTC) > older_than:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


def keys(root: Path, prefix: str, after: str, *, hidden: str, folder: str = "") -> Iterator[str]:
    """Relative paths of the files under ``root``, in the order of their UTF-8 bytes.

    A folder sorts by its name with the slash, as the paths of its files do. Folders that cannot
    contain a match are not read. Links to folders are listed as if they were files, and not
    followed: they may lead in circles, or elsewhere.

    Args:
        root: the folder the paths are relative to.
        prefix: only paths that start with it.
        after: only paths greater than it.
        hidden: name of a folder directly under ``root`` to leave out.
        folder: where to begin: empty, or a path that ends with a slash.
    """
    with translate_errors("list", root / folder):
        try:
            names = sorted(
                entry.name + "/" * entry.is_dir(follow_symlinks=False)
                for entry in os.scandir(root / folder)
            )
        except FileNotFoundError:
            return
    for key in (folder + name for name in names):
        if not key.endswith("/"):
            if key.startswith(prefix) and key > after:
                yield key
        elif key != f"{hidden}/" and _may_hold(key, prefix, after):
            yield from keys(root, prefix, after, hidden=hidden, folder=key)


def _may_hold(folder: str, prefix: str, after: str) -> bool:
    """Return whether a folder can contain keys with this prefix that are greater than ``after``."""
    return (folder.startswith(prefix) or prefix.startswith(folder)) and (
        folder > after or after.startswith(folder)
    )
