"""Payloads that are text in columns: ``Csv``, ``Delimited`` and ``Regex``, one at a time.

Values are parted by plain Python. Patterns are matched by RE2, for their syntax is RE2's and only
it takes time that is linear in the length of a payload; what their groups are called, and which
line break counts, is found out here.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from landfall_audit.payloads import BadPayload, Undecided
from landfall_audit.readers.csv_text import CsvDialect

Options = Mapping[str, object]
Document = Callable[[bytes], Mapping[str, object]]


def csv(options: Options) -> tuple[Document, Sequence[str]]:
    """Return the reader of ``Csv`` payloads, and the names of their values."""
    dialect = CsvDialect.of(options)
    header = options.get("header")
    names = (
        [name or "" for name in dialect.split(str(header))]
        if header is not None
        else _names(options)
    )

    def document(payload: bytes) -> Mapping[str, object]:
        try:
            values = dialect.split(payload.decode())
        except ValueError as error:
            raise BadPayload(f"csv: {error}") from None
        return _named("csv", names, values)

    return document, names


def delimited(options: Options) -> tuple[Document, Sequence[str]]:
    """Return the reader of ``Delimited`` payloads, and the names of their values."""
    names, separator = _names(options), str(options.get("separator", ","))
    split = _quoted_split(separator) if options.get("quote") else _plain_split(separator)

    def document(payload: bytes) -> Mapping[str, object]:
        try:
            values = split(payload.decode())
        except ValueError as error:
            raise BadPayload(f"delimited: {error}") from None
        return _named("delimited", names, values)

    return document, names


def regex(options: Options) -> tuple[Document, Sequence[str]]:
    """Return the reader of ``Regex`` payloads, and the names of their values."""
    pattern, names = _groups(str(options.get("pattern")))
    fields = options.get("fields")
    if isinstance(fields, Sequence):
        names = [str(name) for name in fields]

    def document(payload: bytes) -> Mapping[str, object]:
        try:
            text = payload.decode()
        except ValueError as error:
            raise BadPayload(f"regex: {error}") from None
        for candidate in (_without_line_break(text), text):
            found = pc.extract_regex(pa.scalar(candidate, pa.string()), pattern).as_py()
            if found is not None:
                return dict(zip(names, found.values(), strict=True))
        raise BadPayload("regex: pattern not found")

    return document, names


_OPENING = re.compile(r"\((?:\?P?<(\w+)>|(?!\?))")


def _groups(pattern: str) -> tuple[str, list[str]]:
    """The pattern with a name of ours for each group, and what the groups are called, in order.

    Raises:
        Undecided: the pattern has what hides parentheses in other ways than escapes and classes do.
    """
    if "\\Q" in pattern or "[:" in pattern:
        raise Undecided("a pattern with quoted text or a class of POSIX")
    made, names, at, is_class = "", list[str](), 0, False
    while at < len(pattern):
        piece = pattern[at : at + 2] if pattern[at] == "\\" else pattern[at]
        opening = None if is_class else _OPENING.match(pattern, at)
        if is_class:
            is_class = piece != "]"
        elif piece == "[":
            # A bracket that closes at the beginning of a class is a character of it.
            starts = ("[^]", "[]", "[^", "[")
            piece = next(start for start in starts if pattern.startswith(start, at))
            is_class = True
        if opening:
            names.append(opening[1] or str(len(names) + 1))
            made, at = f"{made}(?P<g{len(names)}>", opening.end()
        else:
            made, at = made + piece, at + len(piece)
    return made, names


def _plain_split(separator: str) -> Callable[[str], Sequence[str]]:
    if set(separator) & {"\r", "\n"}:
        return lambda text: text.split(separator)
    return lambda text: _without_line_break(text).split(separator)


def _quoted_split(separator: str) -> Callable[[str], Sequence[str | None]]:
    """Split values that may be in quotes; unquoted ones may have quotes, but not at their start."""
    dialect = CsvDialect.of({"separator": separator})
    ends = re.compile(f"[{re.escape(separator)}\r\n]")
    return replace(dialect, in_unquoted=ends).split


def _names(options: Options) -> list[str]:
    names = options.get("columns")
    if not isinstance(names, Sequence) or isinstance(names, str):
        raise Undecided("columns without names")
    return [str(name) for name in names]


def _named(
    decoder: str, names: Sequence[str], values: Sequence[str | None]
) -> Mapping[str, object]:
    if len(values) != len(names):
        raise BadPayload(f"{decoder}: {len(values)} values for {len(names)} columns")
    return dict(zip(names, values, strict=True))


def _without_line_break(text: str) -> str:
    for end in ("\r\n", "\n", "\r"):
        if text.endswith(end):
            return text.removesuffix(end)
    return text
