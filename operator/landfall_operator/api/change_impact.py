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


class ChangeImpact(IntEnum):
    """The impact of a change, in ascending order; the strongest of all changed fields applies."""

    IGNORE = 0
    LIVE = 1
    NEW_REVISION = 2

    def __str__(self) -> str:
        return "".join(word.capitalize() for word in self.name.split("_"))


FIELDS: Mapping[str, ChangeImpact] = {
    "generation": ChangeImpact.NEW_REVISION,
    "image": ChangeImpact.NEW_REVISION,
    "state": ChangeImpact.LIVE,
    "replicas": ChangeImpact.LIVE,
    "source": ChangeImpact.NEW_REVISION,
    "decode": ChangeImpact.NEW_REVISION,
    "transforms": ChangeImpact.NEW_REVISION,
    "route": ChangeImpact.NEW_REVISION,
    "output": ChangeImpact.NEW_REVISION,
    "ledger": ChangeImpact.NEW_REVISION,
    "topics": ChangeImpact.NEW_REVISION,
    "completeness": ChangeImpact.NEW_REVISION,
    "compact": ChangeImpact.NEW_REVISION,
    "schedule": ChangeImpact.NEW_REVISION,
    "idle": ChangeImpact.IGNORE,
    "uploadPolicy": ChangeImpact.NEW_REVISION,
    "badRecords": ChangeImpact.NEW_REVISION,
    "publish": ChangeImpact.NEW_REVISION,
    "autoscaling": ChangeImpact.LIVE,
    "upgrade.strategy": ChangeImpact.IGNORE,
    "upgrade.image": ChangeImpact.IGNORE,
    "upgrade.drainTimeout": ChangeImpact.NEW_REVISION,  # it is the pod's grace period
    "upgrade.rollback": ChangeImpact.IGNORE,
    "upgrade.shadow": ChangeImpact.IGNORE,
    "upgrade.canary": ChangeImpact.IGNORE,
    "upgrade.trialTimeout": ChangeImpact.IGNORE,
    "driver": ChangeImpact.NEW_REVISION,
    "executor": ChangeImpact.NEW_REVISION,
    "tuning": ChangeImpact.NEW_REVISION,
}
"""The impact by field path; the longest matching path applies."""


@dataclass(frozen=True, slots=True)
class SpecDifference:
    """The changed fields, and the impact of the change."""

    change: ChangeImpact
    fields: tuple[str, ...]


def difference(before: GroupSpec, after: GroupSpec) -> SpecDifference:
    """The difference between two specs; its ``fields`` are sorted paths."""
    old, new = (
        dict(leaves(spec.model_dump(mode="json", by_alias=True))) for spec in (before, after)
    )
    absent = object()
    changed = sorted(
        path for path in old.keys() | new.keys() if old.get(path, absent) != new.get(path, absent)
    )
    return SpecDifference(max(map(weight, changed), default=ChangeImpact.IGNORE), tuple(changed))


def weight(path: str) -> ChangeImpact:
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
