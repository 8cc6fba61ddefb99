r"""Decoders Csv, Delimited and Regex beside readers that go character by character.

The readers here are the rules of the decoders' pages, written as automata. Where Python's csv
module is asked for the same (no escapes, no trimming, no null text), it must agree, too. Regular
expressions are compared with Python's on patterns that both engines know.
"""

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from landfall.pipeline.decoders import Wanted
from landfall.pipeline.decoders.csv import CsvDecoder
from landfall.pipeline.decoders.delimited import DelimitedDecoder
from landfall.pipeline.decoders.regex import RegexDecoder
from landfall.pipeline.decoders.typed_columns import schema_of
from tests.fuzz.compared import (
    BadError,
    column,
    column_rows,
    decode,
    expected,
    field_rows,
    json_rows,
    same,
)

NAMES = ("a", "b", "c", "d")
PIECES = (
    "a", "b", " ", "\t", ",", ";", "||", '"', '""', '"a"', "'", "\\", "\\\\", '\\"', "\n", "\r",
    "\r\n", "\x00", "é", "\U0001f600", "N", "\\N", "1", "\u2028", "\x0b", "\x85", "\ufeff", "\xa0",
    "§", "x" * 20,
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A decoder's options, and payloads."""

    format: str
    options: dict[str, Any]
    payloads: tuple[bytes | None, ...]

    def _repr_pretty_(self, printer: Any, _is_cycle: bool) -> None:
        printer.text(repr(self))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        if self.format == "Regex":
            return tuple(str(i + 1) for i in range(re.compile(self.options["pattern"]).groups))
        return tuple(self.options["columns"])


@st.composite
def _csv_options(draw: Any) -> dict[str, Any]:
    options: dict[str, Any] = {"columns": NAMES[: draw(st.integers(1, 4))]}
    if draw(st.booleans()):
        options["separator"] = draw(st.sampled_from((",", ";", "\t", "|", "§", "a", " ", ".")))
    if draw(st.integers(0, 3)) == 0:
        options["quote"] = draw(st.sampled_from(("'", "|", "é", "^", "-")))
    if draw(st.integers(0, 2)) == 0:
        options["escape"] = draw(st.sampled_from(("\\", "!", "]", "b")))
    if draw(st.integers(0, 2)) == 0:
        options["trim"] = True
    if draw(st.integers(0, 2)) == 0:
        options["nullText"] = draw(st.sampled_from(("", "N", "\\N", "b")))
    return options


@st.composite
def _delimited_options(draw: Any) -> dict[str, Any]:
    options: dict[str, Any] = {"columns": NAMES[: draw(st.integers(1, 4))]}
    choices: tuple[str, ...] = (",", ";", "\t", "||", "a", "\n", "\r\n", "ab", "§")
    if draw(st.booleans()):
        options["quote"] = '"'
        choices = (",", ";", "\t", "a", "§", " ")
    options["separator"] = draw(st.sampled_from(choices))
    return options


PATTERNS = (
    r"(a*)(b?)", r"^(a+)$", r"(\w+) (\w+)", r"^([^,]*),([^,]*)$", r"a(.)b", r"(a|(b))+",
    r"(?:x)(a)?", r"^(.*)$", r"(.*)\n", r"([\s\S]*)", r"(N)|(1)", r"(é+)", r"(\d)[^,]*",
    r"((a)(b))", r"^(\S+)\s+(\S+)",
)  # fmt: skip


@st.composite
def cases(draw: Any) -> Case:
    """A random case."""
    format_ = draw(st.sampled_from(("Csv", "Csv", "Csv", "Delimited", "Delimited", "Regex")))
    options: dict[str, Any]
    if format_ == "Csv":
        options = draw(_csv_options().filter(lambda options: _accepts(CsvDecoder, options)))
    elif format_ == "Delimited":
        options = draw(_delimited_options())
    else:
        options = {"pattern": draw(st.sampled_from(PATTERNS))}
    own = [
        str(value) for name, value in options.items() if name in {"separator", "quote", "escape"}
    ]
    pieces = st.sampled_from((*PIECES, *own * 4, *(["\n"] if format_ == "Delimited" else [])))
    texts = st.lists(pieces, max_size=10).map("".join)
    likely = _written(options) if format_ != "Regex" else texts
    bad = texts.map(lambda text: text.encode()[:3] + b"\xe9" + text.encode()[3:])
    rows = st.one_of(
        texts.map(str.encode), likely.map(str.encode), likely.map(str.encode), bad, st.none()
    )
    return Case(format_, options, tuple(draw(st.lists(rows, min_size=1, max_size=8))))


def _accepts(decoder: Any, options: dict[str, Any]) -> bool:
    try:
        decoder.of(options, Wanted())
    except ValueError:
        return False
    return True


@st.composite
def _written(draw: Any, options: dict[str, Any]) -> str:
    """Text that may well be one record."""
    separator = str(options.get("separator", ","))
    quote = str(options.get("quote") or '"')
    escape = str(options.get("escape") or "")
    null_text = str(options.get("nullText") or "")
    values = []
    for _ in options["columns"]:
        text = draw(st.lists(st.sampled_from((*PIECES, separator)), max_size=3).map("".join))
        how = draw(st.integers(0, 5))
        if how < 3:
            text = quote + text.replace(escape, 2 * escape) if escape else quote + text
            text = quote + text[len(quote) :].replace(quote, 2 * quote) + quote
        if how == 3:
            text = null_text
        if how in {0, 4}:
            text = draw(st.sampled_from(("", " ", "\t", " \t "))) + text
            text += draw(st.sampled_from(("", " ", "\t")))
        values.append(text)
    end: str = draw(st.sampled_from(("", "", "\n", "\r\n", "\r", "\n\n")))
    return separator.join(values) + end


CASES = cases()

# ---------------------------------------------------------------------------------------- reference


def _text(payload: bytes) -> str:
    try:
        return payload.decode()
    except UnicodeDecodeError as error:
        raise BadError("not UTF-8") from error


def _line(text: str) -> str:
    """Text without the line break at its end."""
    for end in ("\r\n", "\n", "\r"):
        if text.endswith(end):
            return text[: -len(end)]
    return text


def csv_values(text: str, options: dict[str, Any]) -> list[str | None]:
    """The values of a record of Csv; raises BadError."""
    return _record(_line(text), options)


def _record(text: str, options: dict[str, Any]) -> list[str | None]:
    separator, quote = options.get("separator", ","), options.get("quote", '"')
    escape = options.get("escape")
    blanks = " \t".replace(separator, "") if options.get("trim") else ""
    values: list[str | None] = []
    at = 0
    while True:
        begin = at
        while blanks and at < len(text) and text[at] in blanks:
            at += 1
        if text[at : at + 1] == quote:
            quoted, at = _quoted(text, at + 1, quote, escape)
            while blanks and at < len(text) and text[at] in blanks:
                at += 1
            values.append(quoted)
        else:
            value, at = _plain(text, begin, options, blanks)
            values.append(value)
        if at == len(text):
            return values
        if text[at] != separator:
            raise BadError(f"{text[at]!r} after a value")
        at += 1


def _quoted(text: str, at: int, quote: str, escape: str | None) -> tuple[str, int]:
    value = ""
    while at < len(text):
        char = text[at]
        if char == escape:
            if at + 1 == len(text):
                break
            value, at = value + text[at + 1], at + 2
        elif char == quote and text[at + 1 : at + 2] == quote:
            value, at = value + quote, at + 2
        elif char == quote:
            return value, at + 1
        else:
            value, at = value + char, at + 1
    raise BadError("a quote that is not closed")


def _plain(text: str, at: int, options: dict[str, Any], blanks: str) -> tuple[str | None, int]:
    separator, quote = options.get("separator", ","), options.get("quote", '"')
    escape = options.get("escape")
    value, raws = "", list[str]()
    kept: set[int] = set()
    while at < len(text) and text[at] != separator:
        char = text[at]
        if char in "\r\n" or (char == quote and not options.get("quotes inside")):
            raise BadError(f"{char!r} in a plain value")
        if char == escape:
            if at + 1 == len(text):
                raise BadError("nothing to escape")
            at += 1
            kept.add(len(value))
        raws.append((char if len(value) in kept else "") + text[at])
        value, at = value + text[at], at + 1
    first, last = 0, len(value)
    while first < last and value[first] in blanks and first not in kept:
        first += 1
    while first < last and value[last - 1] in blanks and last - 1 not in kept:
        last -= 1
    is_null = "".join(raws[first:last]) == options.get("nullText")
    return None if is_null else value[first:last], at


def delimited_values(text: str, options: dict[str, Any]) -> list[str | None]:
    """The values of a row of Delimited; raises BadError."""
    separator = options["separator"]
    if not set(separator) & set("\r\n"):
        text = _line(text)
    if not options.get("quote"):
        return list(text.split(separator))
    if '"' not in text and not set(text) & set("\r\n"):
        return list(text.split(separator))
    return _record(text, {"separator": separator, "quotes inside": True})


def regex_values(text: str, options: dict[str, Any]) -> list[str | None]:
    """The groups of a match; raises BadError."""
    # RE2 counts only ASCII as words, digits and spaces, and no vertical tab; $ is the very end.
    text_of = options["pattern"].replace("$", r"\Z").replace(r"[\s\S]", "(?s:.)")
    text_of = text_of.replace(r"\s", r"[\t\n\f\r ]").replace(r"\S", r"[^\t\n\f\r ]")
    pattern = re.compile(text_of, re.ASCII)
    found = pattern.search(_line(text)) or pattern.search(text)
    if found is None:
        raise BadError("not found")
    return [group or "" for group in found.groups()]


READERS = {"Csv": csv_values, "Delimited": delimited_values, "Regex": regex_values}
DECODERS: dict[str, Any] = {"Csv": CsvDecoder, "Delimited": DelimitedDecoder, "Regex": RegexDecoder}


def values_of(case: Case, payload: bytes) -> list[str | None]:
    """The values of a payload; raises BadError."""
    values = READERS[case.format](_text(payload), case.options)
    if len(values) != len(case.names):
        raise BadError("another number of values")
    return values


# ------------------------------------------------------------------------------------------- checks


def check(case: Case) -> Sequence[str]:
    """Compare the decoder with the reference; see ``tests.fuzz``."""
    decoder, names = DECODERS[case.format], case.names
    wanted = expected(case.payloads, lambda payload: values_of(case, payload), None)
    paths = tuple((name,) for name in names)
    decoded = decode(decoder.of(case.options, Wanted(paths, json=True)), case.payloads)
    objects = {
        row: None if values is None else list(zip(names, values, strict=True))
        for row, values in wanted.items()
    }
    same(json_rows(decoded), objects, "JSON", decoded)
    fields = {
        row: {path: (values[i] or None) if values else None for i, path in enumerate(paths)}
        for row, values in wanted.items()
    }
    same(field_rows(decoded), fields, "fields", decoded)
    columns = [column(f"c{name}", "String", field=name) for name in names]
    typed = decode(decoder.of(case.options, Wanted(schema=schema_of(columns))), case.payloads)
    rows = {
        row: {f"c{name}": values[i] if values else None for i, name in enumerate(names)}
        for row, values in wanted.items()
    }
    same(column_rows(typed), rows, "columns", typed)
    _check_module(case, wanted)
    return [case.format, *["good rows"] * len(wanted)]


def _check_module(case: Case, wanted: dict[int, Any]) -> None:
    """What Python's csv module reads, where it means the same."""
    is_plain = not {"escape", "trim", "nullText"} & case.options.keys()
    if case.format != "Csv" or not is_plain:
        return
    quote = case.options.get("quote", '"')
    for row, values in wanted.items():
        payload = case.payloads[row]
        if payload is None or not payload:
            continue
        text = _line(payload.decode())
        if not text:
            continue
        separator = case.options.get("separator", ",")
        (read,) = csv.reader([text], delimiter=separator, quotechar=quote, strict=True)
        assert read == values, f"row {row}: the csv module reads {read}, not {values}"
