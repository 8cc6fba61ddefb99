"""An example of a transform: drops rows below a level, rejects unknown levels, and adds a field.

Use it in a group like this::

    transforms: [{use: "examples.plugins.levels:Levels", options: {least: info}}]
    route: {pattern: "dt={date}/urgent={field:urgent}"}
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import msgspec
import numpy as np

from landfall.pipeline.decoders import Decoded, Path
from landfall.pipeline.decoders.options import read_options

LEVELS = ("debug", "info", "warn", "error")
LEVEL: Path = ("level",)
URGENT: Path = ("urgent",)


class Options(msgspec.Struct, forbid_unknown_fields=True):
    """Options of ``Levels``."""

    least: Literal["debug", "info", "warn", "error"] = "info"
    """The lowest level that is landed."""


@dataclass(frozen=True)
class Levels:
    """Keeps rows of a minimum level, and adds the field ``urgent`` to route by.

    Attributes:
        least: the minimum level, as an index into ``LEVELS``.
    """

    least: int

    @classmethod
    def of(cls, options: Mapping[str, object]) -> "Levels":
        """Build the step from its options.

        Raises:
            ValueError: an option is wrong. Landfall turns this into a condition of the group that
                names ``spec.transforms.<n>.options``.
        """
        return cls(LEVELS.index(read_options(options, Options).least))

    @property
    def fields(self) -> tuple[Path, ...]:
        """The field this step reads; the decoder extracts it."""
        return (LEVEL,)

    def apply(self, decoded: Decoded) -> Decoded:
        """Reject rows without a known level, drop those below the minimum, and add ``urgent``."""
        unknown = {
            row: f"no level: {level!r:.80}"
            for row, level in enumerate(_levels(decoded))
            if level not in LEVELS
        }
        known = decoded.reject(unknown)
        numbers = np.array([LEVELS.index(str(level)) for level in _levels(known)], np.int64)
        kept = known.keep(numbers >= self.least)
        urgent: list[object] = [level == "error" for level in _levels(kept)]
        return replace(kept, fields={**kept.fields, URGENT: urgent})


def _levels(decoded: Decoded) -> list[object]:
    # A decoder delivers a field as a list, an Arrow array or an int64 array; see FieldValues.
    levels = decoded.fields[LEVEL]
    return levels if isinstance(levels, list) else levels.tolist()
