"""Divides the rules of a Role into single rights, and removes one of them. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from landfall_operator.objects import rbac
from landfall_operator.objects.manifests import DRIVER_RULES
from landfall_operator.objects.names import OPERATOR
from tests.support.kubernetes.api_audit_log import Right

Rules = tuple[Mapping[str, Any], ...]

OPERATORS: Rules = (*rbac.GROUPS, *rbac.own(OPERATOR))
"""The operator's rules in a namespace that contains both groups and the operator."""
DRIVERS: Rules = DRIVER_RULES


def single(rules: Rules) -> Iterator[Right]:
    """Return every right that the rules grant."""
    for rule in rules:
        yield from (
            Right(g, r, v)
            for g in rule["apiGroups"]
            for r in rule["resources"]
            for v in rule["verbs"]
        )


def without(rules: Rules, right: Right) -> Rules:
    """Return rules that grant everything but this right."""
    return tuple(_without(rules, right))


def _without(rules: Iterable[Mapping[str, Any]], right: Right) -> Iterator[Mapping[str, Any]]:
    for rule in rules:
        if right.group not in rule["apiGroups"] or right.resource not in rule["resources"]:
            yield rule
            continue
        others = [name for name in rule["resources"] if name != right.resource]
        verbs = [verb for verb in rule["verbs"] if verb != right.verb]
        yield from (
            {**rule, **narrower}
            for narrower in ({"resources": others}, {"resources": [right.resource], "verbs": verbs})
            if all(narrower.values())
        )
