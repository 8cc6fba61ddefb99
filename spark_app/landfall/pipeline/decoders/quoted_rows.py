"""Splits rows of quoted values, all rows at once.

A regular expression of Arrow's finds the rows that are well-formed (RFC 4180, section 2, rules 5 to
7). In these a separator is between two values if the quotes before it are even in number, and every
row has an even number of them; so one running count over all rows finds where values end.
"""

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from landfall.pipeline.records import Int64s


@dataclass(frozen=True)
class QuotedRows:
    """Splits well-formed rows.

    Attributes:
        separator: one character.
        quote: one character.
        null_text: the unquoted value that is null; None if there is none.
    """

    separator: str
    quote: str
    null_text: str | None

    @property
    def is_ascii(self) -> bool:
        """Return whether separator and quote are single bytes, as splitting rows here requires."""
        return self.separator.isascii() and self.quote.isascii()

    @cached_property
    def _well_formed(self) -> str:
        quote, separator = re.escape(self.quote), re.escape(self.separator)
        value = rf"(?:{quote}(?:[^{quote}]|{quote}{quote})*{quote}|[^{quote}{separator}\r\n]*)"
        return rf"\A{value}(?:{separator}{value})*\z"

    def are_regular(self, rows: pa.StringArray) -> pa.BooleanArray:
        """Return which rows are well-formed; there are no nulls."""
        return pc.match_substring_regex(rows, self._well_formed)

    def split(self, rows: pa.StringArray) -> tuple[pa.StringArray, Int64s]:
        """Return the values of all rows one after the other, and how many each row has.

        Args:
            rows: well-formed rows, at least one.
        """
        _, offsets, content = rows.buffers()
        bounds = np.frombuffer(offsets, np.int32)[rows.offset : rows.offset + len(rows) + 1]
        first = int(bounds[0])
        octets = np.frombuffer(content or b"", np.uint8)[first : int(bounds[-1])]
        ends_of_rows = bounds[1:].astype(np.int64) - first
        is_quote = octets == ord(self.quote)
        is_outside = np.cumsum(is_quote, dtype=np.int64) % 2 == 0
        separators = np.flatnonzero((octets == ord(self.separator)) & is_outside)
        starts, ends = _spans(ends_of_rows, separators)
        is_quoted = np.zeros(len(starts), np.bool_)
        holds = np.flatnonzero(starts < ends)
        is_quoted[holds] = is_quote[starts[holds]]
        values = _slices(octets, starts + is_quoted, ends - is_quoted)
        counts = np.diff(np.searchsorted(separators, ends_of_rows), prepend=0) + 1
        return self._unquoted(values, is_quoted), counts

    def _unquoted(
        self, values: pa.StringArray, is_quoted: "np.ndarray[tuple[int], np.dtype[np.bool_]]"
    ) -> pa.StringArray:
        values = pc.replace_substring(values, pattern=2 * self.quote, replacement=self.quote)
        if self.null_text is None:
            return values
        is_null = pc.and_(pc.equal(values, self.null_text), pa.array(~is_quoted))
        return pc.if_else(is_null, pa.scalar(None, pa.string()), values)


def _spans(ends_of_rows: Int64s, separators: Int64s) -> tuple[Int64s, Int64s]:
    """Return where each value starts and ends, from where rows end and where separators are."""
    both = np.concatenate((ends_of_rows, separators))
    # A stable sort: a row ends before a separator at the same place, which begins the next row.
    order = np.argsort(both, kind="stable")
    ends = both[order]
    is_separator = order >= len(ends_of_rows)
    starts = np.concatenate(([0], ends[:-1] + is_separator[:-1]))
    return starts, ends


def _slices(
    octets: "np.ndarray[tuple[int], np.dtype[np.uint8]]", starts: Int64s, ends: Int64s
) -> pa.StringArray:
    """Return the ranges ``[start, end)`` as text; they follow each other."""
    offsets = np.empty(2 * len(starts), np.int32)
    offsets[0::2], offsets[1::2] = starts, ends
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(octets)]
    # The ranges and the gaps between them; taking every second value copies in C++.
    with_gaps = pa.Array.from_buffers(pa.string(), 2 * len(starts) - 1, buffers)
    return with_gaps.take(pa.array(np.arange(0, 2 * len(starts) - 1, 2)))
