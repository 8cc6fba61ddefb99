"""The rows of a part of a file, read independently of the code that lands them.

What a part has is a rule of the formats and not of the writer: the lines, blocks, sync marks and
row groups that begin in it. A reader yields a part's rows in order. What is damaged ends it, after
the rows before the damage, with ``CannotCompare``.

Rows of typed files are JSON, as the documentation of readers says. A row that the writer cannot
read is landed as a dead letter with its bytes in the file, and so it is given here.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from landfall.api.spec import Feed
from landfall.audit.feed_lists import Part
from landfall.audit.sources import SourceFolder


@dataclass(frozen=True, slots=True)
class FileRow:
    """A row of a file: its payload, and its key if the format has one."""

    value: bytes | None
    key: bytes | None = None


Reader: TypeAlias = Callable[[SourceFolder, Part], Iterator[FileRow]]
"""Yields the rows of a part, in order.

Raises:
    CannotCompare: the file is damaged, gone, or has another version.
"""
Options: TypeAlias = Mapping[str, object]


def reader_of(feed: Feed) -> Reader | None:
    """How the files of a feed are read; None if only the writer's own reader can do that."""
    # Arrow and the like take time to import, and a group needs one reader or two.
    options: Options = feed.reader_options
    match feed.reader:
        case "Lines" | "JsonLines" | "Whole":
            from landfall.audit.readers import text  # noqa: PLC0415

            return text.reader_of(feed.reader, options)
        case "Csv":
            from landfall.audit.readers import csv_text  # noqa: PLC0415

            return csv_text.reader_of(options)
        case "SequenceFile":
            from landfall.audit.readers import sequence_file  # noqa: PLC0415

            return sequence_file.reader_of(options)
        case "Avro":
            from landfall.audit.readers import avro  # noqa: PLC0415

            return avro.reader_of(options)
        case "Parquet":
            from landfall.audit.readers import parquet  # noqa: PLC0415

            return parquet.rows
    return None
