"""Public reasons for bad records, in words of the spec and of Landfall only. Pure.

An error quotes the value that is wrong, and so do the errors of libraries and plug-ins. Only the
dead letter has that text, because it has the payload, too, and the same readers. Status, logs,
Events, metrics and COMMITs have more readers: they get the stage, the built-in decoder or step, the
column, and the type that the spec gives it.

Nothing of the error's text is copied. It only chooses among the words that are known here, so that
a message of any kind, of a library that is not known here, shows nothing of a payload.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from landfall.api.spec import ColumnType, GroupSpec, ValueType
from landfall.pipeline.event_time.numbers import expected
from landfall.registry import DECODERS, TRANSFORMS
from landfall.task.partitioning import BadRecord

_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_STEPS = {_CAPITAL.sub(" ", name).lower() for name in (*DECODERS, *TRANSFORMS)}
_STEPS |= {name.lower() for name in DECODERS} | {"key"}
"""How errors of built-in decoders and steps begin."""
_OF_CAST = "Cast"


@dataclass(frozen=True)
class PublicReasons:
    """Describes bad records of topics under one spec.

    Attributes:
        columns: what the spec expects of each place that errors name: columns, and ``timestamp``.
        casts: likewise, fields that Cast names.
    """

    columns: Mapping[str, str]
    casts: Mapping[str, str]

    @classmethod
    def of(cls, spec: GroupSpec) -> "PublicReasons":
        """Take the names and types from a spec."""
        timestamp = spec.decode.timestamp
        of_key = spec.decode.key.columns if spec.decode.key else ()
        declared = (*spec.decode.columns, *of_key, *spec.decode.header_columns)
        known = {"timestamp": f"timestamp: expected {expected(timestamp)}"} if timestamp else {}
        for column in declared:
            text = f"column {column.name}: expected {_type(column)}"
            known |= {column.field or column.name: text, column.name: text}
        return cls(known, {name: f"{name}: expected {type_}" for name, type_ in _casts(spec)})

    def reason(self, bad: BadRecord) -> str:
        """Return such as ``decode: column n: expected Int64`` or ``transform: sql``."""
        if bad.is_unexpected:
            return f"{bad.stage}: {bad.error}"  # a kind of exception and its place: no payload
        words, rest = [bad.stage], bad.error
        step, colon, after = rest.partition(": ")
        if colon and step in _STEPS:
            words.append(step)
            rest = after
        known = self.casts if step == _OF_CAST.lower() else self.columns
        place = rest.partition(": ")[0].removeprefix("column ")
        return ": ".join([*words, *_of_place(place, known)])


def _of_place(place: str, known: Mapping[str, str]) -> Iterator[str]:
    """Yield the expected type at a place such as ``tags[3].x``, given the type of ``tags``."""
    while place not in known:
        cut = max(place.rfind("."), place.rfind("["))
        if cut < 0:
            return
        place = place[:cut]
    yield known[place]


def _type(declared: ValueType) -> str:
    if declared.type is ColumnType.DECIMAL:
        return f"Decimal({declared.precision},{declared.scale or 0})"
    return str(declared.type)


def _casts(spec: GroupSpec) -> Iterator[tuple[str, str]]:
    for step in spec.transforms:
        if step.use == _OF_CAST:
            for name, given in step.options.items():
                yield name, str(given.get("type") if isinstance(given, Mapping) else given)
