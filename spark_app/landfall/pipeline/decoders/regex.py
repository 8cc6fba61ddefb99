r"""Decoder ``Regex``: splits text by a regular expression whose named groups are the columns.

| option | default | meaning |
|---|---|---|
| ``pattern`` | required | RE2 syntax with named groups, such as ``(?P<ip>\S+) - (?P<user>\S+)`` |

The pattern may match anywhere in the payload unless it is anchored with ``^``. A payload is decoded
if it is UTF-8 and the pattern matches. A group that takes no part in the match is empty text.
Tombstones pass, with every column absent.

RE2 takes time linear in the length of the payload, so no payload can make the decoder hang.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from landfall.pipeline.decoders import Decoded, Wanted
from landfall.pipeline.decoders.options import read_options
from landfall.pipeline.decoders.texts import Texts, utf8
from landfall.pipeline.records import Records


class Options(msgspec.Struct, forbid_unknown_fields=True):
    """Options of ``Regex``."""

    pattern: str


@dataclass(frozen=True)
class Regex:
    """Extracts named groups from text."""

    texts: Texts
    pattern: str

    @classmethod
    def of(cls, options: Mapping[str, object], wanted: Wanted) -> "Regex":
        """Build the decoder.

        Raises:
            ValueError: the pattern is invalid or has no named group, or a wanted
                field is not a group.
        """
        pattern = read_options(options, Options).pattern
        try:
            # Matching an empty column compiles the pattern, and its type names the groups.
            groups = pc.extract_regex(pa.array([], pa.string()), pattern).type
        except pa.ArrowInvalid as error:
            raise ValueError(f"options: pattern {pattern!r}: {error}") from error
        return cls(Texts(tuple(field.name for field in groups), wanted), pattern)

    def decode(self, records: Records) -> Decoded:
        """Return every row in which the pattern matches; the others are bad."""
        texts, errors = utf8(records.values)
        matches = pc.extract_regex(texts, self.pattern)
        unmatched = np.flatnonzero(pc.and_(texts.is_valid(), matches.is_null())).tolist()
        columns = [pc.struct_field(matches, [i]) for i in range(len(self.texts.names))]
        return self.texts.decoded(
            records, columns, {**dict.fromkeys(unmatched, "regex: pattern not found"), **errors}
        )
