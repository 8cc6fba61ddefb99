"""Delimited rows of objects that are not what was landed any more."""

from collections.abc import Iterator

import pytest

from landfall.formats import lines
from landfall.formats.lines import split


def test_a_row_without_end_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few megabytes may unpack to any length."""
    monkeypatch.setattr(lines, "MAX_ROW_BYTES", 1_000)
    taken = 0

    def endless() -> Iterator[bytes]:
        nonlocal taken
        yield b"a\n"
        while True:
            taken += 100
            assert taken < 2_000
            yield bytes(100)

    rows = split(endless(), b"\n")

    assert next(rows).value == b"a"
    with pytest.raises(ValueError, match="row 1: longer than 1000 bytes"):
        next(rows)


def test_a_row_of_the_greatest_length_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_ROW_BYTES", 1_000)
    row = b"x" * 1_000

    found = [read.value for read in split([row[:600], row[600:], b"\n", b"y\n"], b"\n")]

    assert found == [row, b"y"]
