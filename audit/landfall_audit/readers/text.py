"""Rows of text, line by line, and files that are one row."""

from collections.abc import Iterator
from functools import partial

from landfall_audit.buckets import SourceFolder
from landfall_audit.feeds.lists import FeedFilePart
from landfall_audit.readers import FileRow, Options, Reader
from landfall_audit.readers.streams import compression_of, contents, plain_bytes

_BLANKS = b" \t\r"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def reader_of(name: str, options: Options) -> Reader:
    """The reader ``Lines``, ``JsonLines`` or ``Whole``."""
    chosen = options.get("compression", "None" if name == "Whole" else "Auto")
    rows = {"Lines": _lines, "JsonLines": _json_lines, "Whole": _whole}[name]
    return partial(rows, chosen=chosen)


def raw_lines(source: SourceFolder, part: FeedFilePart, chosen: object) -> Iterator[bytes]:
    """The lines that begin in the part, with their ends; without the mark of a byte order."""
    is_first = part.start == 0
    for line in _all_lines(source, part, chosen):
        yield line.removeprefix(_BYTE_ORDER_MARK) if is_first else line
        is_first = False


def without_end(line: bytes) -> bytes:
    """A line without its end; a carriage return is part of the end only before a line feed."""
    text = line.removesuffix(b"\n")
    return text.removesuffix(b"\r") if text != line else text


def _lines(source: SourceFolder, part: FeedFilePart, chosen: object) -> Iterator[FileRow]:
    for line in _all_lines(source, part, chosen):
        yield FileRow(without_end(line))


def _json_lines(source: SourceFolder, part: FeedFilePart, chosen: object) -> Iterator[FileRow]:
    for line in raw_lines(source, part, chosen):
        text = without_end(line)
        if text.strip(_BLANKS):
            yield FileRow(text)


def _whole(source: SourceFolder, part: FeedFilePart, chosen: object) -> Iterator[FileRow]:
    yield FileRow(b"".join(contents(source, part, chosen)))


def _all_lines(source: SourceFolder, part: FeedFilePart, chosen: object) -> Iterator[bytes]:
    if compression_of(part.name, chosen) != "None":
        yield from _split(contents(source, part, chosen))
        return
    # The byte before the part shows whether a line begins with it.
    at = max(part.start - 1, 0)
    skip = part.start > 0
    for line in _split(plain_bytes(source, part, at)):
        if at >= part.end:
            return
        if not skip and at >= part.start:
            yield line
        skip, at = False, at + len(line)


def _split(chunks: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        yield from (line + b"\n" for line in lines)
    if rest:
        yield rest
