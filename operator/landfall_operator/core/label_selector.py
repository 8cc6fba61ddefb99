"""Label selectors in the notation of ``kubectl --selector``. Pure.

    team=logs,tier!=test,stage in (canary, next),!legacy

All requirements of a selector must hold; an empty one selects everything.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9])?"
_VALUE = r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)?"
_REQUIREMENT = re.compile(
    rf"\s*(?:(?P<absent>!\s*{_NAME})"
    rf"|(?P<key>{_NAME})\s*(?:(?P<operator>==|=|!=)\s*(?P<value>{_VALUE})"
    rf"|\s(?P<set>in|notin)\s*\((?P<values>\s*{_VALUE}(?:\s*,\s*{_VALUE})*\s*)\))?)\s*(?:,|$)"
)


class _Kind(StrEnum):
    IN = "in"
    NOT_IN = "notin"
    EXISTS = "exists"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class _Requirement:
    key: str
    kind: _Kind
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.kind:
            case _Kind.IN:
                return value in self.values
            case _Kind.NOT_IN:
                return value not in self.values
            case _Kind.EXISTS:
                return value is not None
            case _Kind.ABSENT:
                return value is None


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """What labels of an object must say."""

    requirements: tuple[_Requirement, ...] = ()

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        return all(requirement.holds(labels) for requirement in self.requirements)


def parse_selector(text: str) -> LabelSelector:
    """The selector.

    Raises:
        ValueError: The text is not a label selector.
    """
    found, position = [], 0
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
        return _Requirement(match["absent"].removeprefix("!").strip(), _Kind.ABSENT)
    key = match["key"]
    if match["operator"]:
        kind = _Kind.NOT_IN if match["operator"] == "!=" else _Kind.IN
        return _Requirement(key, kind, frozenset({match["value"]}))
    if match["set"]:
        values = frozenset(value.strip() for value in match["values"].split(","))
        return _Requirement(key, _Kind(match["set"]), values)
    return _Requirement(key, _Kind.EXISTS)
