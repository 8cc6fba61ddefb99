"""Whether what a user wrote can be run: by the model, by its name, and beside the other groups. Pure.

The API server refuses most of it before (``landfall_operator.api.crd``); this is for what it cannot
tell, and for objects that are older than a rule.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from landfall.api.spec import ConsumerGroup, parse_group
from landfall.errors import Stalled
from landfall_operator.api.crd import LONGEST_NAME

_NAME = re.compile(rf"[a-z]([-a-z0-9]{{0,{LONGEST_NAME - 2}}}[a-z0-9])?")


def parsed(resource: Mapping[str, Any]) -> tuple[ConsumerGroup | None, str]:
    """The group in a resource as the API server has it, or what is wrong with it, a line per fault."""
    try:
        group = parse_group({key: value for key, value in resource.items() if key != "status"})
    except Stalled as fault:
        return None, str(fault)
    if not _NAME.fullmatch(group.metadata.name):
        return None, (
            f"metadata.name: must be at most {LONGEST_NAME} lower case letters, digits and -, a letter first, "
            f"got {group.metadata.name!r}"
        )
    return group, ""


def conflict(group: ConsumerGroup, others: Iterable[ConsumerGroup]) -> str:
    """What a group and another one cannot both have; empty when there is nothing.

    Both see it: which of them came first is for a person to know. A root inside another's root is
    fine, since each ledger has its group's name and each name its topic, unless they land the same
    topics: so only equal roots are refused.
    """
    for other in others:
        if _id(other) != _id(group) and _root(other) == _root(group):
            return f"spec.output.url: {group.spec.output.url} is also the output of {_id(other)}"
        if _id(other) != _id(group) and _mirror(other) == _mirror(group):
            return f"spec.source.kafka.groupId: {group.kafka_group_id} is also the Kafka group of {_id(other)}"
    return ""


def _id(group: ConsumerGroup) -> str:
    return f"{group.metadata.namespace}/{group.metadata.name}"


def _root(group: ConsumerGroup) -> tuple[str, str | None]:
    return group.spec.output.url.rstrip("/"), group.spec.output.s3.endpoint


def _mirror(group: ConsumerGroup) -> tuple[str, str]:
    return group.kafka_group_id, group.spec.source.kafka.bootstrap_servers
