"""An example decoder: lines of ``key=value`` pairs, as many services log them.

    level=info msg="user logged in" user=42 at=2026-11-21T04:00:00Z

Use it in a group as::

    decode: {format: "examples.plugins.logfmt:Logfmt", timestamp: {field: at}}

A payload is good when it is UTF-8 and holds a pair. Of a repeated key the last value counts; values
are text.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import orjson
import pyarrow as pa

from landfall.pipeline.decoders import Decoded, Path, Wanted
from landfall.pipeline.decoders.options import read_options
from landfall.pipeline.decoders.texts import utf8
from landfall.pipeline.records import Records

_PAIR = re.compile(r'([\w.]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s"]*))')
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


class Options(msgspec.Struct, forbid_unknown_fields=True):
    """What Logfmt takes."""

    lower: bool = False
    """Whether keys are made lower case."""


@dataclass(frozen=True)
class Logfmt:
    """Lines of pairs."""

    lower: bool
    wanted: Wanted

    @classmethod
    def of(cls, options: Mapping[str, object], wanted: Wanted) -> "Logfmt":
        """Build the decoder; a ValueError here becomes a condition that names ``spec.decode``."""
        if wanted.schema is not None:
            raise ValueError("Logfmt has no typed columns")
        return cls(read_options(options, Options).lower, wanted)

    def decode(self, records: Records) -> Decoded:
        """Every row that holds a pair. What is wrong with a payload is data, never an exception."""
        checked, errors = utf8(records.values)
        texts = checked.to_pylist()
        rows = [self._pairs(text) for text in texts]
        none = {
            row: "logfmt: no key=value"
            for row, text in enumerate(texts)
            if text is not None and not rows[row]
        }
        fields = {path: [row.get(_name(path)) for row in rows] for path in self.wanted.fields}
        if self.wanted.json:
            valid = records.values.is_valid().to_pylist()
            lines = [
                orjson.dumps(row) if there else None for row, there in zip(rows, valid, strict=True)
            ]
            records = records.with_values(pa.array(lines, pa.binary()))
        return Decoded(records, fields).reject({**none, **errors})

    def _pairs(self, text: str | None) -> dict[str, str]:
        """The pairs; none for a tombstone."""
        pairs = _PAIR.findall(text or "")
        return {
            key.lower() if self.lower else key: _ESCAPED.sub(r"\1", quoted) or bare
            for key, quoted, bare in pairs
        }


def _name(path: Path) -> str:
    return ".".join(path)
