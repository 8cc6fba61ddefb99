"""The impact of a change of the spec, by the fields that changed. Pure.

    Ignore         only the operator reads the field
    Live           the running driver receives the new value
    NewRevision    another driver warms up and takes over; it is rolled back if it fails

The impact of every field is in one table, ``FIELDS``; a test compares it with the model.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from landfall.api.spec import GroupSpec


class Change(IntEnum):
    """The impact of a change, in ascending order; the strongest of all changed fields applies."""

    IGNORE = 0
    LIVE = 1
    NEW_REVISION = 2

    def __str__(self) -> str:
        return "".join(word.capitalize() for word in self.name.split("_"))


FIELDS: Mapping[str, Change] = {
    "generation": Change.NEW_REVISION,
    "image": Change.NEW_REVISION,
    "state": Change.LIVE,
    "replicas": Change.LIVE,
    "source": Change.NEW_REVISION,
    "decode": Change.NEW_REVISION,
    "transforms": Change.NEW_REVISION,
    "route": Change.NEW_REVISION,
    "output": Change.NEW_REVISION,
    "ledger": Change.NEW_REVISION,
    "topics": Change.NEW_REVISION,
    "completeness": Change.NEW_REVISION,
    "compact": Change.NEW_REVISION,
    "schedule": Change.NEW_REVISION,
    "idle": Change.IGNORE,
    "uploadPolicy": Change.NEW_REVISION,
    "badRecords": Change.NEW_REVISION,
    "publish": Change.NEW_REVISION,
    "autoscaling": Change.LIVE,
    "upgrade.strategy": Change.IGNORE,
    "upgrade.image": Change.IGNORE,
    "upgrade.drainTimeout": Change.NEW_REVISION,  # it is the pod's grace period
    "upgrade.rollback": Change.IGNORE,
    "upgrade.shadow": Change.IGNORE,
    "upgrade.canary": Change.IGNORE,
    "upgrade.trialTimeout": Change.IGNORE,
    "driver": Change.NEW_REVISION,
    "executor": Change.NEW_REVISION,
    "tuning": Change.NEW_REVISION,
}
"""The impact by field path; the longest matching path applies."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The changed fields, and the impact of the change."""

    change: Change
    fields: tuple[str, ...]


def difference(before: GroupSpec, after: GroupSpec) -> Difference:
    """The difference between two specs; its ``fields`` are sorted paths."""
    old, new = (
        dict(leaves(spec.model_dump(mode="json", by_alias=True))) for spec in (before, after)
    )
    absent = object()
    changed = sorted(
        path for path in old.keys() | new.keys() if old.get(path, absent) != new.get(path, absent)
    )
    return Difference(max(map(weight, changed), default=Change.IGNORE), tuple(changed))


def weight(path: str) -> Change:
    """The impact of a change of this field.

    Raises:
        ValueError: the table has no entry for the field.
    """
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        if (prefix := ".".join(parts[:end])) in FIELDS:
            return FIELDS[prefix]
    raise ValueError(f"no impact is defined for field {path!r}")


def leaves(value: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, object]]:
    """Every leaf of nested mappings with its path; an empty mapping is a leaf."""
    for name, item in value.items():
        at = f"{path}.{name}" if path else name
        if isinstance(item, Mapping) and item:
            yield from leaves(item, at)
        else:
            yield at, item
