"""An example transform: leaves out rows below a level, rejects unknown levels, and adds a field to route on.

Use it in a group as::

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
    """What Levels takes."""

    least: Literal["debug", "info", "warn", "error"] = "info"


@dataclass(frozen=True)
class Levels:
    """Lets rows of a level and above through."""

    least: int

    @classmethod
    def of(cls, options: Mapping[str, object]) -> "Levels":
        """Build the step; a ValueError here becomes a condition that names ``spec.transforms.<n>.options``."""
        return cls(LEVELS.index(read_options(options, Options).least))

    @property
    def fields(self) -> tuple[Path, ...]:
        """What the decoder must bring for this step."""
        return (LEVEL,)

    def apply(self, decoded: Decoded) -> Decoded:
        """Reject what has no level, leave out what is below, and say of the rest whether it is urgent."""
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
    levels = decoded.fields[LEVEL]
    return levels if isinstance(levels, list) else levels.tolist()
