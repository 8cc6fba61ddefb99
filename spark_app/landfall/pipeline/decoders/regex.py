r"""Text that a regular expression takes apart: the named groups are the columns.

| option | default | |
|---|---|---|
| ``pattern`` | needed | RE2 syntax, every group named: ``(?P<ip>\S+) - (?P<user>\S+)``; found anywhere unless anchored by ``^`` |

The pattern runs in RE2, in time linear in the payload: no payload can make it hang. Good is a payload that is UTF-8 and in
which the pattern is found. A group that takes no part is empty. Tombstones pass, with every column absent.
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
    """What Regex takes."""

    pattern: str


@dataclass(frozen=True)
class Regex:
    """Rows taken apart by a pattern."""

    texts: Texts
    pattern: str

    @classmethod
    def of(cls, options: Mapping[str, object], wanted: Wanted) -> "Regex":
        """Build the decoder.

        Raises:
            ValueError: the pattern is wrong or names no group, or a wanted field is no group.
        """
        pattern = read_options(options, Options).pattern
        try:
            groups = pc.extract_regex(pa.array([], pa.string()), pattern).type
        except pa.ArrowInvalid as error:
            raise ValueError(f"options: pattern {pattern!r}: {error}") from error
        return cls(Texts(tuple(field.name for field in groups), wanted), pattern)

    def decode(self, records: Records) -> Decoded:
        """Every row in which the pattern is found."""
        texts, errors = utf8(records.values)
        found = pc.extract_regex(texts, self.pattern)
        unlike = np.flatnonzero(pc.and_(texts.is_valid(), found.is_null())).tolist()
        columns = [pc.struct_field(found, [i]) for i in range(len(self.texts.names))]
        return self.texts.decoded(
            records, columns, {**dict.fromkeys(unlike, "regex: pattern not found"), **errors}
        )
