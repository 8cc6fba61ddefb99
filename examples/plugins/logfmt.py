"""An example of a decoder: lines of ``key=value`` pairs, as many services log them.

A payload looks like this::

    level=info msg="user logged in" user=42 at=2026-11-21T04:00:00Z

Use the decoder in a group like this::

    decode: {format: "examples.plugins.logfmt:Logfmt", timestamp: {field: at}}

A payload is decoded if it is UTF-8 and contains at least one pair. Of a repeated key the last value
counts. All values are text. A tombstone passes, with every field absent.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import orjson
import pyarrow as pa

from landfall.pipeline.decoders import Decoded, Wanted
from landfall.pipeline.decoders.options import read_options
from landfall.pipeline.decoders.texts import utf8
from landfall.pipeline.records import Records

_PAIR = re.compile(r'([\w.]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s"]*))')
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


class Options(msgspec.Struct, forbid_unknown_fields=True):
    """Options of ``Logfmt``."""

    lower: bool = False
    """Whether keys are converted to lower case."""


@dataclass(frozen=True)
class Logfmt:
    """Decodes lines of pairs.

    Attributes:
        lower: whether keys are converted to lower case.
        wanted: what the later stages need.
    """

    lower: bool
    wanted: Wanted

    @classmethod
    def of(cls, options: Mapping[str, object], wanted: Wanted) -> "Logfmt":
        """Build the decoder.

        Raises:
            ValueError: an option is wrong, or the group declares typed columns, which this decoder
                cannot deliver. Landfall turns this into a condition of the group that names
                ``spec.decode``.
        """
        if wanted.schema is not None:
            raise ValueError("Logfmt has no typed columns")
        return cls(read_options(options, Options).lower, wanted)

    def decode(self, records: Records) -> Decoded:
        """Return every row that contains a pair; the others are bad rows, never an exception."""
        checked, errors = utf8(records.values)
        texts = checked.to_pylist()
        rows = [self._pairs(text) for text in texts]
        without_pairs = {
            row: "logfmt: no key=value"
            for row, text in enumerate(texts)
            if text is not None and not rows[row]
        }
        fields = {path: [row.get(".".join(path)) for row in rows] for path in self.wanted.fields}
        if self.wanted.json:
            # The format writes JSON, so payloads are replaced. A tombstone must stay null.
            valid = records.values.is_valid().to_pylist()
            lines = [
                orjson.dumps(row) if is_valid else None
                for row, is_valid in zip(rows, valid, strict=True)
            ]
            records = records.with_values(pa.array(lines, pa.binary()))
        return Decoded(records, fields).reject({**without_pairs, **errors})

    def _pairs(self, text: str | None) -> dict[str, str]:
        """Return the pairs of a payload; none for a tombstone."""
        pairs = _PAIR.findall(text or "")
        return {
            key.lower() if self.lower else key: _ESCAPED.sub(r"\1", quoted) or bare
            for key, quoted, bare in pairs
        }
