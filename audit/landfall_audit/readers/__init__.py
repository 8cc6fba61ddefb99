"""The rows of a part of a file, read independently of the code that lands them.

The content of a part is a rule of the formats and not of the writer: the lines, blocks, sync marks
and row groups that begin in it. A reader yields a part's rows in order. What is damaged ends it,
after the rows before the damage, with ``CannotCompare``.

Rows of typed files are JSON, as the documentation of readers defines them. A row that the writer
cannot read is landed as a dead letter with its bytes in the file, and so it is given here.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from landfall_audit.buckets import SourceFolder
from landfall_audit.feeds.lists import FeedFilePart


@dataclass(frozen=True, slots=True)
class FileRow:
    """A row of a file: its payload, and its key if the format has one."""

    value: bytes | None
    key: bytes | None = None


Reader: TypeAlias = Callable[[SourceFolder, FeedFilePart], Iterator[FileRow]]
"""Yields the rows of a part, in order.

Raises:
    CannotCompare: the file is damaged, gone, or has another version.
"""
Options: TypeAlias = Mapping[str, object]
