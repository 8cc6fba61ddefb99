"""The parts of a text file together hold each record once, in order, however it is cut."""

import csv
import io
import json

from hypothesis import example, given
from hypothesis import strategies as st

from landfall.formats.csv import CsvReader
from landfall.formats.line_parts import JsonLinesReader, LinesReader
from landfall.formats.parts import FilePart, ReadLimits
from tests.support.payloads.file_records import (
    SUFFIXES,
    MemoryFile,
    compressed,
    parts_at,
    read_all,
    read_parts,
    values,
)

PIECES = st.sampled_from([b"\n", b"\r\n", b"\r", b"a", b"bcd", "é€😀".encode(), b" ", b"\x00\xff"])
CONTENT = st.lists(PIECES, max_size=40).map(b"".join)
LIMITS = st.builds(ReadLimits, window_bytes=st.integers(1, 40), chunk_rows=st.integers(1, 10))
CUTS = st.lists(st.integers(1, 150), max_size=12)


def lines_of(content: bytes) -> list[tuple[int, bytes]]:
    """Every line with its position, found byte by byte."""
    found, start = [], 0
    for at in range(len(content)):
        if content[at : at + 1] == b"\n":
            line = content[start:at]
            found.append((start, line[:-1] if line.endswith(b"\r") else line))
            start = at + 1
    return [*found, (start, content[start:])] if start < len(content) else found


@given(content=CONTENT, cuts=CUTS, limits=LIMITS)
@example(content=b"", cuts=[], limits=ReadLimits())
@example(content=b"a\nb\n", cuts=[2], limits=ReadLimits())
@example(content=b"a\r\nb", cuts=[1, 2, 3], limits=ReadLimits(window_bytes=1))
@example(content=b"\n\n\n", cuts=[1, 2], limits=ReadLimits(window_bytes=1))
def test_each_line_is_in_one_part(content: bytes, cuts: list[int], limits: ReadLimits) -> None:
    file, reader = MemoryFile("app.log", content), LinesReader(limits=limits)

    found = read_parts(reader, file, parts_at(len(content), cuts))

    assert [(position, value) for position, value, _, _ in found] == lines_of(content)


@given(content=CONTENT, cuts=CUTS, limits=LIMITS)
def test_a_line_is_in_the_part_with_its_first_byte(
    content: bytes, cuts: list[int], limits: ReadLimits
) -> None:
    file, reader = MemoryFile("app.log", content), LinesReader(limits=limits)

    for part in parts_at(len(content), cuts):
        assert all(position in part for position, *_ in read_parts(reader, file, [part]))


@given(content=CONTENT, mark=st.booleans(), cuts=CUTS, limits=LIMITS)
def test_json_lines_are_those_with_anything_in_them(
    content: bytes, mark: bool, cuts: list[int], limits: ReadLimits
) -> None:
    whole = b"\xef\xbb\xbf" * mark + content
    file, reader = MemoryFile("events.jsonl", whole), JsonLinesReader(limits=limits)

    found = values(read_parts(reader, file, parts_at(len(whole), cuts)))

    assert found == [line for _, line in lines_of(content) if line.strip(b" \t\r")]


@given(content=CONTENT, at=st.integers(0, 60), suffix=st.sampled_from(SUFFIXES), limits=LIMITS)
def test_compressed_lines_are_those_of_the_contents(
    content: bytes, at: int, suffix: str, limits: ReadLimits
) -> None:
    packed = MemoryFile(f"app.log{suffix}", compressed(suffix, content, at))

    assert read_all(LinesReader(limits=limits), packed, 1) == read_all(
        LinesReader(limits=limits), MemoryFile("app.log", content)
    )


FIELDS = st.text(st.sampled_from('ab,;"é \t'), max_size=5)
MULTILINE = st.text(st.sampled_from('ab,"\r\né '), max_size=5)


def rows(fields: st.SearchStrategy[str]) -> st.SearchStrategy[list[list[str]]]:
    return st.lists(st.lists(fields, min_size=2, max_size=2), max_size=8)


def written(table: list[list[str]], end: str, quoting: int = csv.QUOTE_MINIMAL) -> bytes:
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator=end, quoting=quoting).writerows(table)  # type: ignore[arg-type]  # one of csv's constants
    return out.getvalue().encode()


def objects(table: list[list[str]], names: tuple[str, str]) -> list[dict[str, str]]:
    return [dict(zip(names, row, strict=True)) for row in table]


ENDS = st.sampled_from(["\n", "\r\n"])


@given(table=rows(FIELDS), end=ENDS, has_header=st.booleans(), cuts=CUTS, limits=LIMITS)
def test_csv_records_are_those_of_pythons_module(
    table: list[list[str]], end: str, has_header: bool, cuts: list[int], limits: ReadLimits
) -> None:
    content = written([["x", 'y"'], *table] if has_header else table, end)
    reader = CsvReader(() if has_header else ("x", "z"), has_header, limits=limits)
    file = MemoryFile("table.csv", content)

    found = read_parts(reader, file, parts_at(len(content), cuts))

    parsed = [json.loads(value or b"") for value in values(found)]
    assert parsed == objects(table, ("x", 'y"' if has_header else "z"))


@given(table=rows(MULTILINE), end=ENDS, limits=LIMITS, suffix=st.sampled_from(["", *SUFFIXES]))
def test_csv_values_may_hold_line_ends(
    table: list[list[str]], end: str, limits: ReadLimits, suffix: str
) -> None:
    content = written([["x", "y\nz"], *table], end, csv.QUOTE_ALL)
    file = MemoryFile("t.csv" + suffix, compressed(suffix, content, 9) if suffix else content)

    found = read_all(CsvReader(multiline=True, limits=limits), file, 3)

    assert [json.loads(value or b"") for value in values(found)] == objects(table, ("x", "y\nz"))


@given(content=CONTENT, cuts=CUTS, limits=LIMITS)
def test_rows_of_csv_are_bad_or_good_whatever_the_parts(
    content: bytes, cuts: list[int], limits: ReadLimits
) -> None:
    file, reader = MemoryFile("t.csv", content), CsvReader(("a",), has_header=False, limits=limits)

    found = read_parts(reader, file, parts_at(len(content), cuts))

    assert found == read_all(CsvReader(("a",), has_header=False), file)
    assert len(found) == sum(line != b"" for _, line in lines_of(content))


SIZES = st.integers(10**6, 10**12).flatmap(
    lambda part_bytes: st.tuples(st.just(part_bytes), st.integers(0, 1000 * part_bytes))
)
"""Bytes of a part, and of a file with up to a thousand of them."""


@given(sizes=SIZES)
def test_parts_are_all_bytes_in_order(sizes: tuple[int, int]) -> None:
    part_bytes, size = sizes

    parts = LinesReader().parts("app.log", size, part_bytes)

    assert (parts[0].start, parts[-1].end) == (0, size)
    assert [part.end for part in parts[:-1]] == [part.start for part in parts[1:]]
    assert all(0 < len(part) <= part_bytes for part in parts) or parts == (FilePart(0, 0),)
