"""Guesses what payloads of text are: rows of a table, or lines. Pure."""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

Sections = dict[str, Any]

_SEPARATORS = (",", "\t", ";", "|")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?")
_PROSE_WIDTH = 2
"""Text with a comma here and there is a table of this width, too."""


def tables(payloads: Sequence[bytes]) -> Iterator[tuple[Sections, str]]:
    """Yield sections of a spec for payloads that are rows of a table, each with its name.

    All have the same number of values, and one column at least holds numbers or times alone.
    """
    texts = _texts(payloads)
    if texts is None:
        return
    for separator in _SEPARATORS:
        rows = [_row(text, separator) for text in texts]
        width = len(rows[0])
        if width < 2 or any(len(row) != width for row in rows):
            continue
        header = rows[0] if _is_header(rows) else None
        if not _is_table(rows[1:] if header else rows):
            continue
        options: dict[str, Any] = {"columns": [f"c{i + 1}" for i in range(width)]}
        if header:
            options = {"header": texts[0]}
        if separator != ",":
            options["separator"] = separator
        sections: Sections = {"decode": {"format": "Csv", "options": options}}
        if header:
            # The line itself is a record, too.
            is_header = " and ".join(f'{name} == "{name}"' for name in header[:3])
            sections["transforms"] = [{"use": "Filter", "options": {"drop": is_header}}]
        yield sections, f"{_NAMES[separator]}, {'with' if header else 'without'} a header"


_NAMES = {
    ",": "CSV",
    "\t": "values between tabs",
    ";": "values between semicolons",
    "|": "values between bars",
}


def text_lines(payloads: Sequence[bytes], records: int) -> Iterator[tuple[Sections, str]]:
    """Yield the sections for payloads that are a line of text each, of so many records."""
    texts = _texts(payloads)
    if texts is not None and len(texts) == records and all(map(_is_line, texts)):
        yield {"decode": {"format": "Raw"}, "output": {"format": "Text"}}, "lines of text"


def _texts(payloads: Sequence[bytes]) -> list[str] | None:
    with suppress(UnicodeDecodeError):
        return [re.sub(r"\r?\n\Z", "", payload.decode()) for payload in payloads]
    return None


def _is_line(text: str) -> bool:
    return all(letter.isprintable() or letter == "\t" for letter in text)


def _row(text: str, separator: str) -> list[str]:
    """The values of one row; none if it is not exactly one."""
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True))
    except csv.Error:
        return []
    return rows[0] if len(rows) == 1 else []


def _is_table(rows: Sequence[Sequence[str]]) -> bool:
    columns = list(zip(*rows, strict=True))
    if not any(all(map(_is_value, column)) for column in columns):
        return False
    return len(columns) > _PROSE_WIDTH or all(" " not in value for row in rows for value in row)


def _is_header(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row has words where the other rows have numbers or times."""
    first, *rest = rows
    is_named = all(map(_NAME.fullmatch, first)) and len(set(first)) == len(first)
    return is_named and bool(rest) and _is_table(rest)


def _is_value(text: str) -> bool:
    """Return whether a text is a number or a time."""
    if _NUMBER.fullmatch(text):
        return True
    with suppress(ValueError):
        return bool(datetime.fromisoformat(text))
    return False
