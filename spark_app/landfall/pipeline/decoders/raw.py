"""Payloads as they are: nothing is read, nothing can be wrong, tombstones pass through."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from landfall.pipeline.decoders import Decoded, Wanted
from landfall.pipeline.decoders.options import read_options
from landfall.pipeline.records import Records


class Options(msgspec.Struct, forbid_unknown_fields=True):
    """Raw takes none."""


@dataclass(frozen=True)
class Raw:
    """Verbatim payloads."""

    @classmethod
    def of(cls, options: Mapping[str, object], wanted: Wanted) -> "Raw":
        """Build the decoder.

        Raises:
            ValueError: there are options, or somebody wants to look inside the payloads.
        """
        read_options(options, Options)
        if wanted.fields or wanted.schema is not None or wanted.json:
            paths = ", ".join(".".join(path) for path in wanted.fields)
            asked = (
                f"fields ({paths})"
                if paths
                else "typed columns"
                if wanted.schema is not None
                else "JSON"
            )
            raise ValueError(f"Raw payloads have no {asked}")
        return cls()

    def decode(self, records: Records) -> Decoded:
        """Every row, untouched."""
        return Decoded(records)
