"""What a change of spec asks for, by the fields that changed. One table; a test holds it to the model, field by field.

    Ignore          only the operator reads it
    Live            told to the running driver
    Restart         the driver starts again and goes on: a pause of half a minute
    NewGeneration   another driver is warmed up and takes over, is watched, and is taken back if it fails

Pure.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from landfall.api.spec import GroupSpec


class Change(IntEnum):
    """How much a change asks for; the strongest counts."""

    IGNORE = 0
    LIVE = 1
    RESTART = 2
    NEW_GENERATION = 3

    def __str__(self) -> str:
        return "".join(word.capitalize() for word in self.name.split("_"))


FIELDS: Mapping[str, Change] = {
    "generation": Change.NEW_GENERATION,
    "image": Change.NEW_GENERATION,
    "state": Change.LIVE,
    "replicas": Change.LIVE,
    "source": Change.RESTART,
    "decode": Change.NEW_GENERATION,
    "transforms": Change.NEW_GENERATION,
    "route": Change.NEW_GENERATION,
    "output": Change.NEW_GENERATION,
    "output.s3": Change.RESTART,
    "uploadPolicy": Change.RESTART,
    "badRecords": Change.RESTART,
    "autoscaling": Change.LIVE,
    "upgrade.strategy": Change.IGNORE,
    "upgrade.drainTimeout": Change.RESTART,  # the pod's grace period
    "upgrade.rollback": Change.IGNORE,
    "driver": Change.RESTART,
    "executor": Change.RESTART,
    "tuning": Change.RESTART,
}
"""By path; the longest that fits counts."""


@dataclass(frozen=True, slots=True)
class Difference:
    """What changed, and what that asks for."""

    change: Change
    fields: tuple[str, ...]


def difference(before: GroupSpec, after: GroupSpec) -> Difference:
    """Compare two specs; ``fields`` are paths, sorted."""
    old, new = (
        dict(leaves(spec.model_dump(mode="json", by_alias=True))) for spec in (before, after)
    )
    absent = object()
    changed = sorted(
        path for path in old.keys() | new.keys() if old.get(path, absent) != new.get(path, absent)
    )
    return Difference(max(map(weight, changed), default=Change.IGNORE), tuple(changed))


def weight(path: str) -> Change:
    """What a change of this field asks for.

    Raises:
        ValueError: the table does not know it.
    """
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        if (prefix := ".".join(parts[:end])) in FIELDS:
            return FIELDS[prefix]
    raise ValueError(f"no class of change for field {path!r}")


def leaves(value: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, object]]:
    """Every value that is not a mapping with something in it, by its path."""
    for name, item in value.items():
        at = f"{path}.{name}" if path else name
        if isinstance(item, Mapping) and item:
            yield from leaves(item, at)
        else:
            yield at, item
