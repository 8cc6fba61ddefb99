"""What makes two specs the same: names and digests, and the documents they are taken from.

A *revision* is what a hand-over is needed for; it names the driver's Deployment. A *digest* also
covers what the driver has to be started again for; the Deployment bears it, and is only ever
changed when it differs. Both are taken from what differs from the defaults: a release that adds a
field, or an operator that is upgraded, restarts nobody. Pure.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from landfall.api.spec import ConsumerGroup, parse_group
from landfall_operator.api.change_impact import Change, leaves, weight


def revision_of(group: ConsumerGroup) -> str:
    """The name of a group's software and way of landing, such as ``g3-1a2b3c4d``."""
    return f"g{group.spec.generation}-{_hash(_part(group, Change.NEW_GENERATION))[:8]}"


def digest_of(group: ConsumerGroup) -> str:
    """Sixteen hexadecimal digits that differ when the driver would have to be started again."""
    return _hash(_part(group, Change.RESTART))[:16]


def document(group: ConsumerGroup) -> dict[str, Any]:
    """The resource without its status and whatever equals a default; ``parse_group`` reads it back the same."""
    return group.model_dump(mode="json", by_alias=True, exclude_defaults=True)


def contract(group: ConsumerGroup) -> str:
    """The resource as the driver reads it: JSON, in which ``${`` is written ``$${`` as in any group file."""
    return (
        json.dumps(_escaped(document(group)), indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    )


def contract_read(text: str) -> ConsumerGroup:
    """The resource in a contract.

    Raises:
        Stalled: SPEC_INVALID, this release no longer reads it.
    """
    return parse_group(_unescaped(json.loads(text)))


def manifest_hash(manifest: Mapping[str, Any]) -> str:
    """Of an object as we would apply it."""
    return _hash(manifest)[:16]


def _part(group: ConsumerGroup, least: Change) -> dict[str, object]:
    """The fields whose change would ask for ``least`` or more."""
    return {path: value for path, value in leaves(document(group)["spec"]) if weight(path) >= least}


def _hash(value: object) -> str:
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _escaped(value: Any) -> Any:
    return _texts(value, lambda text: text.replace("${", "$${"))


def _unescaped(value: Any) -> Any:
    return _texts(value, lambda text: text.replace("$${", "${"))


def _texts(value: Any, changed: Callable[[str], str]) -> Any:
    """The same document with every text in it changed."""
    match value:
        case str():
            return changed(value)
        case dict():
            return {key: _texts(item, changed) for key, item in value.items()}
        case list():
            return [_texts(item, changed) for item in value]
    return value
