"""Files and folders of HDFS by absolute paths: what ``store.hdfs`` needs, over ``hdfs-native``.

A new file gets its name by a rename, which the name node does in one step: it is there with all its
bytes, or not at all, and of racing renames to one name one succeeds.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from hdfs_native import AsyncClient, AsyncFileReader, FileStatus, WriteOptions

from landfall.store.hdfs.requests import Requests

_CHUNK = 4 << 20


class Tree:
    """Operations on one file system. Thread-safe."""

    def __init__(self, client: AsyncClient, requests: Requests, new: str) -> None:
        """``new`` is the folder of files that are being written."""
        self._client = client
        self._requests = requests
        self.new = new

    # -------------------------------------------------------------------------------------- folders

    def make_folder(self, folder: str) -> None:
        """Create a folder and its parents, in one step; nothing if it exists."""
        self._requests.again(lambda: self._client.mkdirs(folder, create_parent=True))

    def entries(self, folder: str) -> list[FileStatus]:
        """List a folder; empty if it does not exist."""

        async def listed() -> list[FileStatus]:
            return [entry async for entry in self._client.list_status(folder)]

        try:
            return self._requests.again(listed)
        except FileNotFoundError:
            return []

    def status(self, path: str) -> FileStatus | None:
        """Return the status of a path; None if nothing exists there."""
        try:
            return self._requests.again(lambda: self._client.get_file_info(path))
        except FileNotFoundError:
            return None

    def rename(self, path: str, new: str, *, overwrite: bool = False) -> None:
        """Give a file or folder another name. The new name's folder must exist.

        Raises:
            FileExistsError: there is something of this name, unless it may be overwritten.
            FileNotFoundError: there is nothing at ``path``, or no folder for the new name.
        """
        self._requests.once(self._client.rename(path, new, overwrite))

    def delete(self, path: str) -> None:
        """Delete a file, or a folder with all that is in it in one step, if it exists."""
        with suppress(FileNotFoundError):
            self._requests.again(lambda: self._client.delete(path, recursive=True))

    # ---------------------------------------------------------------------------------------- files

    def write(self, path: str, body: bytes) -> None:
        """Write a file in an existing folder: its bytes are on the data nodes' disks."""
        self._write(
            path,
            [memoryview(body)[start : start + _CHUNK] for start in range(0, len(body), _CHUNK)],
        )

    def _write(
        self, path: str, chunks: Iterator[memoryview | bytes] | Sequence[memoryview]
    ) -> None:
        options = WriteOptions(overwrite=True, create_parent=False)
        file = self._requests.once(self._client.create(path, options))
        for chunk in chunks:
            self._requests.once(file.write(chunk))
        self._requests.once(file.hsync())
        self._requests.once(file.close())

    def join(self, paths: Sequence[str], whole: str) -> None:
        """Write a file of the bytes of other files.

        Raises:
            FileNotFoundError: there is no such file, or no folder for the new one.
        """

        def chunks() -> Iterator[bytes]:
            for path in paths:
                file = self.reader(path)
                while chunk := self.read(file, _CHUNK):
                    yield chunk

        self._write(whole, chunks())

    def write_new(self, body: bytes) -> str:
        """Write a file with a random name, and return its path."""
        path = f"{self.new}/{uuid4().hex}"
        try:
            self.write(path, body)
        except FileNotFoundError:
            self.make_folder(self.new)
            self.write(path, body)
        return path

    def create(self, path: str, body: bytes) -> bool:
        """Create a file with this body; False if there is one."""
        if self.status(path):
            return False
        new = self.write_new(body)
        try:
            self.make_folder(_parent(path))
            self.rename(new, path)
        except FileExistsError:
            self.delete(new)
            return False
        return True

    def replace(self, path: str, body: bytes) -> None:
        """Write a file in place of the one that is there, if any."""
        new = self.write_new(body)
        self.make_folder(_parent(path))
        self.rename(new, path, overwrite=True)

    def reader(self, path: str) -> AsyncFileReader:
        """Open a file for ``read``.

        Raises:
            FileNotFoundError: there is none.
        """
        return self._requests.again(lambda: self._client.read(path))

    def read(self, file: AsyncFileReader, size: int) -> bytes:
        """The next bytes of a file, at most ``size``; none at its end."""
        return self._requests.once(file.read(size))

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """A range of bytes of a file; it must be complete."""

        async def ranged() -> bytes:
            return await (await self._client.read(path)).read_range(start, length)

        return self._requests.again(ranged)

    # ------------------------------------------------------------------------------------- listings

    def files(self, root: str, prefix: str, after: str, hidden: str) -> Iterator[FileStatus]:
        """The files under ``root`` in the order of the UTF-8 bytes of their paths relative to it.

        A folder sorts by its name with the slash, as the paths of its files do. Folders that cannot
        contain a match are not read.

        Args:
            root: the folder, without a slash at its end.
            prefix: only relative paths that start with it.
            after: only relative paths greater than it.
            hidden: name of a folder directly under ``root`` to leave out.
        """
        yield from self._files(root, "", (prefix, after, hidden))

    def _files(self, root: str, folder: str, choice: tuple[str, str, str]) -> Iterator[FileStatus]:
        prefix, after, hidden = choice
        found = {
            f"{folder}{name_of(entry)}{'/' * entry.isdir}": entry
            for entry in self.entries(f"{root}/{folder}".rstrip("/"))
        }
        for key in sorted(found, key=str.encode):
            if not key.endswith("/"):
                if key.startswith(prefix) and key.encode() > after.encode():
                    yield found[key]
            elif key != f"{hidden}/" and _may_hold(key, prefix, after):
                yield from self._files(root, key, choice)

    def delete_abandoned(self, now: datetime, older_than: timedelta) -> None:
        """Delete files that were begun longer ago and never got a name: their writers died."""
        for entry in self.entries(self.new):
            if now - time_of(entry) > older_than:
                self.delete(entry.path)


def name_of(status: FileStatus) -> str:
    """The last step of a path."""
    name: str = status.path.rstrip("/").rpartition("/")[2]
    return name


def time_of(status: FileStatus) -> datetime:
    """When a file or folder was last changed."""
    return datetime.fromtimestamp(status.modification_time / 1000, UTC)


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _may_hold(folder: str, prefix: str, after: str) -> bool:
    """Return whether a folder can contain paths with this prefix greater than ``after``."""
    return (folder.startswith(prefix) or prefix.startswith(folder)) and (
        folder.encode() > after.encode() or after.startswith(folder)
    )
