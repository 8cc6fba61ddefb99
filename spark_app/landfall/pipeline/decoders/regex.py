r"""Decoder ``Regex``: splits text by a regular expression whose groups are the columns.

| option | default | meaning |
|---|---|---|
| ``pattern`` | required | RE2 syntax with groups, such as ``(?P<ip>\S+) - (?P<user>\S+)`` |
| ``fields`` | none | names of the groups, in the order of their opening parentheses |

A group is named in the pattern, ``(?P<name>...)`` or ``(?<name>...)``, or by ``fields``. Without a
name it is called by its number, ``1`` for the first, as in patterns of Java. ``(?:...)`` is no
group.

The pattern may match anywhere in the payload unless it is anchored with ``^``. A payload is decoded
if it is UTF-8 and the pattern matches. One line break at its end does not count, so ``$`` is before
it, as in Java and Python; it counts for a pattern that matches only with it. A group that takes no
part in the match is empty text. Tombstones pass, with every column absent.

RE2 takes time linear in the length of the payload, so no payload can make the decoder hang.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from landfall.pipeline.decoders import Decoded, Wanted
from landfall.pipeline.decoders.options import read_options
from landfall.pipeline.decoders.texts import Texts, utf8, without_line_break
from landfall.pipeline.records import Records


class Options(msgspec.Struct, forbid_unknown_fields=True):
    """Options of ``Regex``."""

    pattern: str
    fields: tuple[str, ...] | None = None


@dataclass(frozen=True)
class RegexDecoder:
    """Extracts groups from text; ``texts`` has their names, maybe not the ones in ``pattern``."""

    texts: Texts
    pattern: str

    @classmethod
    def of(cls, options: Mapping[str, object], wanted: Wanted) -> "RegexDecoder":
        """Build the decoder.

        Raises:
            ValueError: the pattern is invalid or has no group, ``fields`` does not fit its groups,
                or a wanted field is not a group.
        """
        checked = read_options(options, Options)
        pattern, names = _with_named_groups(checked.pattern)
        try:
            # Matching an empty column compiles the pattern.
            pc.extract_regex(pa.array([], pa.string()), pattern)
        except pa.ArrowInvalid as error:
            raise ValueError(f"options: pattern {checked.pattern!r}: {error}") from error
        if not names:
            raise ValueError(f"options: pattern {checked.pattern!r} has no group")
        if checked.fields is not None:
            if len(checked.fields) != len(names) or not all(map(str.isdecimal, names)):
                raise ValueError(
                    f"options: fields names {len(checked.fields)} groups, "
                    f"the pattern's groups are {', '.join(names)}"
                )
            names = checked.fields
        return cls(Texts(names, wanted), pattern)

    def decode(self, records: Records) -> Decoded:
        """Return every row in which the pattern matches; all other rows are bad."""
        texts, errors = utf8(records.values)
        matches = self._matches(texts)
        unmatched = np.flatnonzero(pc.and_(texts.is_valid(), matches.is_null())).tolist()
        columns = [pc.struct_field(matches, [i]) for i in range(len(self.texts.names))]
        return self.texts.decoded(
            records, columns, {**dict.fromkeys(unmatched, "regex: pattern not found"), **errors}
        )

    def _matches(self, texts: pa.StringArray) -> pa.StructArray:
        """Return the groups of each text, null where the pattern is not found."""
        lines = without_line_break(texts)
        matches = pc.extract_regex(lines, self.pattern)
        is_other = pc.and_(matches.is_null(), pc.not_equal(lines, texts))
        others = texts.filter(is_other)
        if not len(others) or pc.extract_regex(others, self.pattern).null_count == len(others):
            return matches
        # The pattern itself has the line break, as ``(.*)\n`` does.
        return pc.extract_regex(pc.if_else(is_other, texts, lines), self.pattern)


_PIECE = re.compile(
    r"""
      \\Q.*?(?:\\E|$)                      # quoted text
    | \\.                                  # an escaped character
    | \[\^?\]?(?:\[:\w+:\]|\\.|[^\]\\])*\]   # a class
    | \((?:\?P?<(?P<name>\w+)>|(?!\?))     # the opening of a group
    """,
    re.VERBOSE | re.DOTALL,
)


def _with_named_groups(pattern: str) -> tuple[str, tuple[str, ...]]:
    """The pattern with all its groups named, as Arrow wants it, and the groups' own names."""
    names: list[str] = []

    def renamed(match: re.Match[str]) -> str:
        if match[0][0] != "(":
            return match[0]
        names.append(match["name"] or str(len(names) + 1))
        return f"(?P<group{len(names)}>"

    return _PIECE.sub(renamed, pattern), tuple(names)
