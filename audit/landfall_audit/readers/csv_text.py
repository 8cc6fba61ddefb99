"""Rows of comma-separated values, as JSON objects of text.

Python's ``csv`` reads what is not RFC 4180, such as quotes inside of unquoted values, and does not
report which values were quoted. So a row without quotes is split at its separators, and another one
is read value by value.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

import orjson

from landfall_audit import Unchecked
from landfall_audit.buckets import CannotCompare, SourceFolder
from landfall_audit.feeds.lists import FeedFilePart
from landfall_audit.readers import FileRow, Options, Reader
from landfall_audit.readers.text import raw_lines, without_end


def reader_of(options: Options) -> Reader:
    """The reader with these options."""
    return partial(_rows, options=options, dialect=CsvDialect.of(options))


def _rows(
    source: SourceFolder, part: FeedFilePart, *, options: Options, dialect: "CsvDialect"
) -> Iterator[FileRow]:
    records = _records(source, part, options, dialect)
    first = next(records, None)
    if first is None:
        return
    has_header = bool(options.get("header", True))
    names = options.get("columns") or ()
    if not isinstance(names, Sequence) or not names:
        # Any part needs the names, which the first line of the file has.
        of_file = replace(part, start=0, end=max(part.end, 1))
        header = first if part.start == 0 else next(_records(source, of_file, options, dialect))
        names = _names(header, dialect)
    if not (has_header and part.start == 0):
        records = chain([first], records)
    for record in records:
        if record:
            yield FileRow(_payload(record, names, dialect))


def _records(
    source: SourceFolder, part: FeedFilePart, options: Options, dialect: "CsvDialect"
) -> Iterator[bytes]:
    """The records that begin in the part: lines, or with ``multiline`` as many as end a quote."""
    lines = raw_lines(source, part, options.get("compression", "Auto"))
    if not options.get("multiline"):
        yield from map(without_end, lines)
        return
    quote, record = dialect.quote.encode(), b""
    for line in lines:
        record += line
        if record.count(quote) % 2 == 0:
            yield without_end(record)
            record = b""
    if record:
        raise CannotCompare(Unchecked.FILE)


def _names(header: bytes, dialect: "CsvDialect") -> tuple[str, ...]:
    try:
        names = tuple(name or "" for name in dialect.split(header.decode()))
    except ValueError as error:
        raise CannotCompare(Unchecked.FILE) from error
    if len(set(names)) < len(names):
        raise CannotCompare(Unchecked.FILE)
    return names


def _payload(record: bytes, names: Sequence[str], dialect: "CsvDialect") -> bytes:
    """The record as JSON; as it is if it is malformed, or has another number of values."""
    try:
        values = dialect.split(record.decode())
    except ValueError:
        return record
    if len(values) != len(names):
        return record
    return orjson.dumps(dict(zip(names, values, strict=True)))


@dataclass(frozen=True)
class CsvDialect:
    """How records are written; see the options of the decoder ``Csv``.

    Attributes:
        blanks: what is around values and does not count.
        in_quoted: what does not stand for itself in a value in quotes.
        in_unquoted: what does not stand for itself in another value.
    """

    separator: str
    quote: str
    escape: str | None
    null_text: str | None
    blanks: str
    in_quoted: re.Pattern[str]
    in_unquoted: re.Pattern[str]

    @classmethod
    def of(cls, options: Options) -> "CsvDialect":
        """The dialect that options describe."""
        separator, quote = str(options.get("separator", ",")), str(options.get("quote", '"'))
        escape, null_text = options.get("escape"), options.get("nullText")
        blanks = " \t".replace(separator, "") if options.get("trim") else ""
        special = re.escape(f"{quote}{escape or ''}")
        return cls(
            separator,
            quote,
            None if escape is None else str(escape),
            None if null_text is None else str(null_text),
            blanks,
            re.compile(f"[{special}]"),
            re.compile(f"[{special}{re.escape(separator)}\r\n]"),
        )

    def split(self, text: str) -> list[str | None]:
        """The values of one record.

        Raises:
            ValueError: it is malformed.
        """
        for end in ("\r\n", "\n", "\r"):
            if text.endswith(end):
                text = text.removesuffix(end)
                break
        if not set(text) & {self.quote, self.escape, "\r", "\n"}:
            return [self._unquoted(value) for value in text.split(self.separator)]
        values, at = [], -1
        while at < len(text):
            value, at = self._value(text, at + 1)
            values.append(value)
            if at < len(text) and text[at] != self.separator:
                raise ValueError(f"no separator at {at}")
        return values

    def _value(self, text: str, at: int) -> tuple[str | None, int]:
        """The value that begins at a position, and the position of what ends it."""
        begin = self._behind_blanks(text, at)
        if text[begin : begin + 1] == self.quote:
            return self._quoted(text, begin + 1)
        end = _next(self.in_unquoted, text, at)
        while text[end : end + 1] == self.escape:
            if end + 1 == len(text):
                raise ValueError("an escape at the end")
            end = _next(self.in_unquoted, text, end + 2)
        return self._unquoted(text[at:end]), end

    def _quoted(self, text: str, at: int) -> tuple[str, int]:
        found: list[str] = []
        while True:
            end = _next(self.in_quoted, text, at)
            if end == len(text):
                raise ValueError("a quote that is not closed")
            found.append(text[at:end])
            if text[end] == self.quote and text[end + 1 : end + 2] != self.quote:
                return "".join(found), self._behind_blanks(text, end + 1)
            found.append(text[end + 1 : end + 2])
            at = end + 2

    def _unquoted(self, text: str) -> str | None:
        if self.blanks:
            escaped = f"{re.escape(self.escape)}." if self.escape else "(?!)"
            # Up to the last character that is no blank, or is escaped.
            whole = re.match(
                f"(?:[{self.blanks}]*(?:{escaped}|[^{self.blanks}]))*", text, re.DOTALL
            )
            text = whole[0].lstrip(self.blanks) if whole else text
        if text == self.null_text:
            return None
        if self.escape is None:
            return text
        return re.sub(f"{re.escape(self.escape)}(.)", r"\1", text, flags=re.DOTALL)

    def _behind_blanks(self, text: str, at: int) -> int:
        while at < len(text) and text[at] in self.blanks:
            at += 1
        return at


def _next(characters: re.Pattern[str], text: str, at: int) -> int:
    """Where one of these characters comes next; the end if none does."""
    match = characters.search(text, at)
    return match.start() if match else len(text)
