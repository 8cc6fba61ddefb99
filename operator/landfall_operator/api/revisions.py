"""Names and digests by which specs are compared, and the documents they are computed from. Pure.

The *digest* of a spec differs between two specs if a change from one to the other needs another
driver. The *revision* names the digest and with it the driver's Deployment, which never changes.
Both depend only on fields that differ from their defaults, so neither a release that adds a field
nor an upgrade of the operator replaces any driver.

In the former scheme, a revision named fewer fields than the digest covers, and a Deployment could
change its digest. Deployments and records of that scheme may still exist:
``landfall_operator.core.snapshot.GroupObservation`` finds them by their digest.
"""

import hashlib
import json
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from landfall.api.spec import ConsumerGroup, parse_group
from landfall_operator.api.change_impact import ChangeImpact, leaves, weight

_Texts = dict[int, tuple[weakref.ref[ConsumerGroup], str]]
"""Texts by their group's ``id``, for groups cannot be hashed: a pass over one asks a dozen times.

The reference shows whether that place in memory still has the same group.
"""
_digests: _Texts = {}
_files: _Texts = {}


def revision_of(group: ConsumerGroup) -> str:
    """The revision of a group's spec: generation and half of its digest, as ``g3-1a2b3c4d``."""
    return revision_with(group.spec.generation, digest_of(group))


def revision_with(generation: int, digest: str) -> str:
    """The revision of a spec from its generation and digest alone."""
    return f"g{generation}-{digest[:8]}"


def generation_of(revision: str) -> int:
    """The generation that a revision names; 0 if it is not the name of a revision."""
    number = revision.partition("-")[0].removeprefix("g")
    return int(number) if number.isdecimal() else 0


def digest_of(group: ConsumerGroup) -> str:
    """Sixteen hexadecimal digits that differ between specs that need different drivers."""
    return _text_of(group, _digests, lambda: _hash(_driver_fields(group))[:16])


def document(group: ConsumerGroup) -> dict[str, Any]:
    """The resource without status and defaults; ``parse_group`` of it returns an equal group."""
    return group.model_dump(mode="json", by_alias=True, exclude_defaults=True)


def group_file(group: ConsumerGroup) -> str:
    """The group file that the driver reads, as JSON; ``$${`` escapes ``${``."""
    return _text_of(group, _files, lambda: as_json(_escaped(document(group))))


def parse_group_file(text: str) -> ConsumerGroup:
    """The resource in a group file that ``group_file`` wrote.

    Raises:
        Stalled: SPEC_INVALID, this release cannot read the spec.
    """
    return parse_group(_unescaped(json.loads(text)))


def as_json(value: Mapping[str, Any]) -> str:
    """A document in a ConfigMap."""
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def manifest_hash(manifest: Mapping[str, Any]) -> str:
    """Sixteen hexadecimal digits that identify the content of a manifest."""
    return _hash(manifest)[:16]


def _text_of(group: ConsumerGroup, known: _Texts, compute: Callable[[], str]) -> str:
    """The text of a group, computed once for as long as the group is in memory."""
    key = id(group)
    found = known.get(key)
    if found is not None and found[0]() is group:
        return found[1]
    text = compute()
    known[key] = weakref.ref(group, lambda _: known.pop(key, None)), text
    return text


def _driver_fields(group: ConsumerGroup) -> dict[str, object]:
    """The fields whose change needs another driver, with their values, by path."""
    return {
        path: value
        for path, value in leaves(document(group)["spec"])
        if weight(path) is ChangeImpact.NEW_REVISION
    }


def _hash(value: object) -> str:
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _escaped(value: Any) -> Any:
    return _texts(value, lambda text: text.replace("${", "$${"))


def _unescaped(value: Any) -> Any:
    return _texts(value, lambda text: text.replace("$${", "${"))


def _texts(value: Any, changed: Callable[[str], str]) -> Any:
    """A copy of the document in which ``changed`` was applied to every string."""
    match value:
        case str():
            return changed(value)
        case dict():
            return {key: _texts(item, changed) for key, item in value.items()}
        case list():
            return [_texts(item, changed) for item in value]
    return value
