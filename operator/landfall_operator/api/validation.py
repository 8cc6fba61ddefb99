"""Validates a user's resource: by the model, and against the other groups. Pure.

The API server rejects most invalid resources itself, by the CRD (``landfall_operator.api.crd``).
This module finds what a CRD cannot express, and checks objects that are older than a rule.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from landfall.api.column_names import column_problems
from landfall.api.plain_http import plain_http
from landfall.api.spec import ConsumerGroup, Root, parse_group
from landfall.api.spec.roots import LettersPlace
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


def secrets_over_plain_http(group: ConsumerGroup) -> str:
    """Return the fields that send a secret over plain HTTP, and to whom; empty if none does.

    It is no error, because a group that ran before must continue.
    """
    return "; ".join(f"{field}: {warning}" for field, warning in plain_http(group.spec))


@dataclass(frozen=True, slots=True)
class Claimant:
    """A group and what it claims: its roots, the names of its objects, its Kafka group.

    Attributes:
        wanted: the group with the spec that its resource has; None if that is not valid.
        held: the group with each spec that its drivers have, which may be older ones.
        since: ``metadata.creationTimestamp`` and uid.
    """

    wanted: ConsumerGroup | None
    held: tuple[ConsumerGroup, ...]
    since: tuple[str, str]

    def excludes(self, group: ConsumerGroup) -> bool:
        """Return whether it claims by its drivers what a group would claim."""
        return any(conflict(group, held) for held in self.held)


@dataclass(frozen=True, slots=True)
class ClaimConflict:
    """The reason why a group is refused: another one has what it asks for.

    Attributes:
        message: for the group's users, who may not see other namespaces.
        other: namespace and name of the group that has what this one wants.
    """

    message: str
    other: str


def refusal(mine: Claimant, others: Iterable[Claimant]) -> ClaimConflict | None:
    """Return why a claim of the group belongs to another one; None if it does not.

    Of two groups that exclude each other, one is refused and the other one is not affected: the
    group that lands keeps what it has, regardless of other groups; if both or none of them land,
    the one that was created first does. Groups of another API server are not seen here; what
    drivers and tasks claim in the store keeps those apart.
    """
    group = mine.wanted
    if group is None:
        return None
    for other in others:
        for claim in (*other.held, *([other.wanted] if other.wanted else [])):
            if claim.full_name == group.full_name or not (found := conflict(group, claim)):
                continue
            if not _comes_first(mine, other):
                same = claim.metadata.namespace == group.metadata.namespace
                name = claim.full_name if same else "a group of another namespace"
                return ClaimConflict(found.format(name), claim.full_name)
    return None


def _comes_first(mine: Claimant, other: Claimant) -> bool:
    """Return whether this group keeps its claim when the two exclude each other."""
    is_held = any(other.excludes(held) for held in mine.held)
    mine_first = is_held or (other.wanted is not None and mine.excludes(other.wanted))
    other_first = is_held or (mine.wanted is not None and other.excludes(mine.wanted))
    return mine.since < other.since if mine_first == other_first else mine_first


def conflict(group: ConsumerGroup, other: ConsumerGroup) -> str:
    """Return why two groups exclude each other, with ``{}`` for the other one's name; empty if not.

    No two roots must be equal, nested output roots not be such that two objects may get one name,
    and a place of dead letters neither be in a root of the other group nor around one.
    """
    url = _literal(group.spec.output.url)
    if shared := _shared_root(group, other) or _nested_letters(group, other):
        return shared
    if may_collide(group, other):
        return (
            f"spec.output.url: objects in {url} may get the names of objects of {{}}, because one "
            "output root is in the other"
        )
    if _kafka_group(group) and _kafka_group(other) == _kafka_group(group):
        name = _literal(group.kafka_group_id)
        return f"spec.source.kafka.groupId: {name} is also the Kafka group of {{}}"
    return ""


def _shared_root(group: ConsumerGroup, other: ConsumerGroup) -> str:
    """Return which root of a group is also a root of the other; empty if none is."""
    theirs = {_place(root): root.section for root in other.spec.roots}
    for root in group.spec.roots:
        if section := theirs.get(_place(root)):
            url = _literal(root.url)
            return f"spec.{root.section}.url: {url} is also the {section} of {{}}"
    return ""


def _nested_letters(group: ConsumerGroup, other: ConsumerGroup) -> str:
    """Return how roots of two groups are nested, if one is a place of dead letters; empty if not.

    Policies of buckets distinguish dead letters from all else by prefixes.
    """
    for root, theirs in product(group.spec.roots, other.spec.roots):
        has_letters = isinstance(root, LettersPlace) or isinstance(theirs, LettersPlace)
        one, server = _place(root)
        two, other_server = _place(theirs)
        is_nested = one.startswith(f"{two}/") or two.startswith(f"{one}/")
        if has_letters and is_nested and server == other_server:
            return (
                f"spec.{root.section}.url: {_literal(root.url)} is in the {theirs.section} of "
                "{}, or around it, and a place of dead letters is for one group alone"
            )
    return ""


def _literal(text: str) -> str:
    """A text that ``str.format`` leaves as it is."""
    return text.replace("{", "{{").replace("}", "}}")


def _place(root: Root) -> tuple[str, str | None]:
    return root.url.rstrip("/"), root.access.endpoint


def _kafka_group(group: ConsumerGroup) -> tuple[str, str] | None:
    """Return the values that no two groups may share; None for a group of files."""
    kafka = group.spec.source.kafka
    return (group.kafka_group_id, kafka.bootstrap_servers) if kafka else None
