"""Files of other programs in a folder, as the auditor reads them."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from landfall.audit import Unchecked
from landfall.audit.links import leads_out, open_below
from landfall.audit.sources import CannotCompare, FoundFile

_STAGING = ".landfall-staging"


@dataclass(frozen=True)
class SourcePath:
    """``SourceFolder`` of a folder of a file system."""

    root: Path

    def files(self) -> Iterator[FoundFile]:
        """All files, without the staging folder.

        A link to a file elsewhere is a file, of which nothing can be read.
        """
        for folder, _, names in os.walk(self.root):
            for name in names:
                path = Path(folder, name)
                relative = path.relative_to(self.root).as_posix()
                if not relative.startswith(f"{_STAGING}/") and path.is_file():
                    status = path.lstat() if leads_out(self.root, path) else path.stat()
                    modified = datetime.fromtimestamp(status.st_mtime, UTC)
                    yield FoundFile(relative, _etag(status), modified)

    def read(self, name: str, etag: str, start: int, end: int) -> bytes:
        """Some bytes of a version, looked at after the read."""
        try:
            with open_below(self.root, self.root / name) as stream:
                stream.seek(start)
                body = stream.read(end - start)
                if _etag(os.fstat(stream.fileno())) == etag:
                    return body
        except (FileNotFoundError, NotADirectoryError):
            pass
        raise CannotCompare(Unchecked.VERSION)


def _etag(status: os.stat_result) -> str:
    return f"{status.st_mtime_ns:x}-{status.st_size:x}-{status.st_ino:x}"
