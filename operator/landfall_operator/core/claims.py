"""Decides which operator manages a group, where several watch its namespace. Pure.

An operator writes its name into an annotation of each group that it manages, before anything else.
Another operator leaves such a group alone. The API server lets only one of two that write at the
same time succeed, because the patch names the group's version.

A claim does not expire: whether another operator still runs cannot be seen without rights in its
namespace. It ends when the group no longer has the labels that its operator looks for, or when a
user removes the annotation.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from landfall_operator.objects.names import OPERATOR_ANNOTATION

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9])?"
_VALUE = r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)?"
_REQUIREMENT = re.compile(
    rf"\s*(?:(?P<absent>!\s*{_NAME})"
    rf"|(?P<key>{_NAME})\s*(?:(?P<operator>==|=|!=)\s*(?P<value>{_VALUE})"
    rf"|\s(?P<set>in|notin)\s*\((?P<values>\s*{_VALUE}(?:\s*,\s*{_VALUE})*\s*)\))?)\s*(?:,|$)"
)


@dataclass(frozen=True, slots=True)
class _Requirement:
    """A condition on the value of a label; None stands for an absent label."""

    key: str
    values: frozenset[str | None]
    is_negated: bool = False

    def holds(self, labels: Mapping[str, str]) -> bool:
        return (labels.get(self.key) in self.values) != self.is_negated


_ABSENT: frozenset[str | None] = frozenset({None})


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """Requirements on the labels of an object."""

    requirements: tuple[_Requirement, ...] = ()

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Return whether an object with these labels is selected."""
        return all(requirement.holds(labels) for requirement in self.requirements)


def parse_selector(text: str) -> LabelSelector:
    """The selector.

    Raises:
        ValueError: The text is not a label selector.
    """
    found = []
    position = 0
    while position < len(text.strip()):
        match = _REQUIREMENT.match(text, position)
        if match is None:
            raise ValueError(f"{text!r} is not a label selector")
        found.append(_requirement(match))
        position = match.end()
    if text.rstrip().endswith(","):
        raise ValueError(f"{text!r} is not a label selector")
    return LabelSelector(tuple(found))


def _requirement(match: re.Match[str]) -> _Requirement:
    if match["absent"]:
        return _Requirement(match["absent"].removeprefix("!").strip(), _ABSENT)
    if match["operator"]:
        values = [match["value"]]
    elif match["set"]:
        values = [value.strip() for value in match["values"].split(",")]
    else:
        return _Requirement(match["key"], _ABSENT, is_negated=True)
    is_negated = match["operator"] == "!=" or match["set"] == "notin"
    return _Requirement(match["key"], frozenset(values), is_negated)


class Claim(Enum):
    """How an operator treats a group."""

    MANAGE = auto()
    """It manages the group, and may have to write its claim."""
    LEAVE = auto()
    """Another operator manages it, or its labels do not match this operator's selector."""
    RELEASE = auto()
    """It managed the group, whose labels no longer match its selector."""


@dataclass(frozen=True, slots=True)
class Claims:
    """The claim of one operator.

    Attributes:
        operator: its name; empty if it claims nothing, and manages every group that it sees.
        selector: the labels of the groups that it manages.
    """

    operator: str = ""
    selector: LabelSelector = field(default_factory=LabelSelector)

    def on(self, labels: Mapping[str, str], annotations: Mapping[str, str]) -> Claim:
        """Return how this operator treats a group."""
        holder = claimed_by(annotations)
        is_mine = bool(self.operator) and holder == self.operator
        if not self.selector.selects(labels):
            return Claim.RELEASE if is_mine else Claim.LEAVE
        if holder and self.operator and not is_mine:
            return Claim.LEAVE
        return Claim.MANAGE

    def must_be_written(self, annotations: Mapping[str, str]) -> bool:
        """Return whether a group that this operator manages lacks its claim."""
        return bool(self.operator) and OPERATOR_ANNOTATION not in annotations


def claimed_by(annotations: Mapping[str, str]) -> str:
    """Return the operator that the group's annotation names; empty if there is none."""
    return annotations.get(OPERATOR_ANNOTATION, "")
