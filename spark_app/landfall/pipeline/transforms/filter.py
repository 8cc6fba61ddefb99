"""Step ``Filter``: keeps the rows for which a condition holds, or leaves them out.

| option | meaning |
|---|---|
| ``where`` | rows for which this holds are kept |
| ``drop`` | rows for which this holds are left out; give one of the two |

All other rows are left out on purpose, which the task counts as filtered. A row with a value of
another kind than the one it is compared with is rejected, regardless of the rest of the condition.
``landfall.pipeline.transforms.expression`` has the language, ``…masks`` what holds for which row.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from landfall.pipeline.decoders import Decoded, Path
from landfall.pipeline.decoders.options import read_options
from landfall.pipeline.transforms import TransformContext
from landfall.pipeline.transforms.expression import (
    All,
    Condition,
    Matches,
    Not,
    Some,
    parse,
    paths,
)
from landfall.pipeline.transforms.masks import Typed, Values, evaluate


class Options(msgspec.Struct, forbid_unknown_fields=True):
    """Options of ``Filter``."""

    where: str | None = None
    drop: str | None = None


@dataclass(frozen=True)
class Filter:
    """Keeps the rows for which a condition holds.

    Attributes:
        condition: what holds for the rows that are kept.
        fields: the payload fields it reads.
    """

    condition: Condition
    fields: tuple[Path, ...]
    writes: tuple[Path, ...] = ()
    rewrites: bool = False

    @classmethod
    def of(cls, options: Mapping[str, object], context: TransformContext) -> "Filter":
        """Build the step.

        Raises:
            ValueError: not one of ``where`` and ``drop`` is given, or it cannot be read.
        """
        read = read_options(options, Options)
        if (read.where is None) == (read.drop is None):
            raise ValueError("options: give one of where and drop")
        name, text = ("where", read.where) if read.drop is None else ("drop", read.drop)
        try:
            assert text is not None, "one of the two is given"
            condition = parse(text)
            _check_patterns(condition)
        except ValueError as error:
            raise ValueError(f"option {name}: {error}") from error
        read_paths = paths(condition)
        return cls(
            condition if name == "where" else Not(condition),
            tuple(path for path in read_paths if not context.has_column(path)),
        )

    def apply(self, decoded: Decoded) -> Decoded:
        """Return the rows for which the condition holds, without those it cannot be asked about."""
        columns = decoded.columns

        def values_of(path: Path) -> Values:
            name = ".".join(path)
            if columns is not None and name in columns.schema.names:
                return Typed(columns.column(name))
            return decoded.fields[path]

        tested = evaluate(self.condition, values_of, len(decoded.records))
        wrong = {row: f"filter: {error}" for row, error in tested.wrong.items()}
        holds = np.delete(tested.holds, list(wrong)) if wrong else tested.holds
        return decoded.reject(wrong).keep(holds)


def _check_patterns(condition: Condition) -> None:
    match condition:
        case Not():
            _check_patterns(condition.condition)
        case All() | Some():
            for operand in condition.conditions:
                _check_patterns(operand)
        case Matches():
            try:
                pc.match_substring_regex(pa.array([""]), condition.pattern)
            except pa.ArrowInvalid as error:
                raise ValueError(f"pattern {condition.pattern!r}: {error}") from error
