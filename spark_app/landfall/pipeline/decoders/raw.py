"""Decoder ``Raw``: passes payloads on unchanged, so no row is bad and tombstones pass."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from landfall.pipeline.decoders import Decoded, Wanted
from landfall.pipeline.decoders.options import read_options
from landfall.pipeline.records import Records


class Options(msgspec.Struct, forbid_unknown_fields=True):
    """Options of ``Raw``: none."""


@dataclass(frozen=True)
class RawDecoder:
    """Passes payloads on unchanged."""

    @classmethod
    def of(cls, options: Mapping[str, object], wanted: Wanted) -> "RawDecoder":
        """Build the decoder.

        Raises:
            ValueError: an option is given, or a later stage needs the contents of payloads.
        """
        read_options(options, Options)
        if wanted.fields or wanted.schema is not None or wanted.json:
            raise ValueError(_describe(wanted))
        return cls()

    def decode(self, records: Records) -> Decoded:
        """Return every row unchanged."""
        return Decoded(records)


def _describe(wanted: Wanted) -> str:
    if wanted.fields:
        names = ", ".join(".".join(path) for path in wanted.fields)
        return f"Raw payloads have no fields ({names}); decode.format Json, Avro, Csv and more have"
    if wanted.schema is not None:
        return "Raw payloads have no typed columns; decode.format Json, Avro, Csv and more have"
    return (
        "Raw payloads have no JSON, which output.format Json writes; choose decode.format Json, "
        "or output.format SequenceFile, Text or Parquet"
    )
