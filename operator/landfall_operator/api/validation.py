"""Validates a user's resource: by the model, and against the other groups. Pure.

The API server rejects most invalid resources itself, by the CRD (``landfall_operator.api.crd``).
This module finds what a CRD cannot express, and checks objects that are older than a rule.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from landfall.api.column_names import column_problems
from landfall.api.spec import ConsumerGroup, Root, parse_group
from landfall.errors import Stalled
from landfall_operator.api.output_roots import may_collide


def parsed(resource: Mapping[str, Any]) -> tuple[ConsumerGroup | None, str]:
    """The group in a resource, and an empty text; or None, and its errors, one per line."""
    try:
        group = parse_group({key: value for key, value in resource.items() if key != "status"})
    except Stalled as error:
        return None, str(error)
    if problems := column_problems(group):
        return None, "\n".join(problems)
    return group, ""


def conflict(group: ConsumerGroup, others: Iterable[ConsumerGroup]) -> str:
    """Why a group and one of the others exclude each other; empty if none does.

    Both groups get the error, because only users know which of them should stay. Output roots must
    not be equal, and nested ones not be such that two objects may get one name. Groups of another
    API server are not seen here; what drivers and tasks claim in the store keeps those apart.
    """
    for other in (each for each in others if each.full_name != group.full_name):
        name, url = other.full_name, group.spec.output.url
        if shared := _shared_root(group, other):
            return shared
        if may_collide(group, other):
            return (
                f"spec.output.url: objects in {url} may get the names of objects of {name} in "
                f"{other.spec.output.url}, because one output root is in the other"
            )
        if _kafka_group(group) and _kafka_group(other) == _kafka_group(group):
            return (
                f"spec.source.kafka.groupId: {group.kafka_group_id} is also the Kafka group of "
                f"{name}"
            )
    return ""


def _shared_root(group: ConsumerGroup, other: ConsumerGroup) -> str:
    """Which root of a group is one of another's, too; empty if none is."""
    theirs = {_place(root): root.section for root in other.spec.roots}
    for root in group.spec.roots:
        if section := theirs.get(_place(root)):
            return f"spec.{root.section}.url: {root.url} is also the {section} of {other.full_name}"
    return ""


def _place(root: Root) -> tuple[str, str | None]:
    return root.url.rstrip("/"), root.access.endpoint


def _kafka_group(group: ConsumerGroup) -> tuple[str, str] | None:
    """What no two groups share; None for a group of files."""
    kafka = group.spec.source.kafka
    return (group.kafka_group_id, kafka.bootstrap_servers) if kafka else None
