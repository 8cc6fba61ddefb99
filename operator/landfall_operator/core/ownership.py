"""Checks that applied fields still belong to the operator, by the API server's record. Pure.

With server-side apply, the API server keeps which fields each manager applied. A field that another
client changes or removes is taken from its former managers. So an object whose hash annotation is
intact, and whose applied fields all still belong to the operator, has the content that was applied.
What an admission webhook changes in the operator's own request stays the operator's: it is not
restored again and again.
"""

import json
import sys
from collections.abc import Mapping
from typing import Any

from landfall_operator.objects.names import OPERATOR
from landfall_operator.objects.overlay import Json

_NOT_APPLIED = frozenset({"apiVersion", "kind", "metadata"})
_METADATA = ("labels", "annotations")


def applied_fields(body: Mapping[str, Any]) -> str | None:
    """The fields that belong to the operator because it applied them, as JSON.

    None if the object does not record its managers. The text is the same object for all groups with
    the same fields.
    """
    managed = body["metadata"].get("managedFields")
    if not managed:
        return None
    own: Json = next((entry.get("fieldsV1", {}) for entry in managed if _is_ours(entry)), {})
    metadata = own.get("f:metadata", {})
    kept = {f"f:{name}": metadata.get(f"f:{name}", None) for name in _METADATA}
    present = {name: fields for name, fields in kept.items() if fields is not None}
    return sys.intern(json.dumps({**own, "f:metadata": present}, separators=(",", ":")))


def is_intact(fields: str | None, manifest: Json) -> bool:
    """Return whether, as far as known, every field of a manifest still belongs to the operator."""
    if fields is None:
        return True
    metadata = {name: manifest["metadata"].get(name, {}) for name in _METADATA}
    content = {name: value for name, value in manifest.items() if name not in _NOT_APPLIED}
    if "spec" in content and manifest["kind"] == "Deployment":
        # Scaling is an action of its own, which takes the field from what was applied.
        content["spec"] = {k: v for k, v in content["spec"].items() if k != "replicas"}
    known = json.loads(fields)
    return _covers(known, content) and all(
        _covers(known["f:metadata"].get(f"f:{name}"), value)
        for name, value in metadata.items()
        if value
    )


def _is_ours(entry: Mapping[str, Any]) -> bool:
    return (
        entry.get("manager") == OPERATOR
        and entry.get("operation") == "Apply"
        and not entry.get("subresource")
    )


def _covers(fields: Mapping[str, Any] | None, value: object) -> bool:
    """Return whether managed fields contain a value; one without parts is managed as a whole."""
    if fields is None:
        return False
    if not fields:
        return True
    match value:
        case dict():
            return all(_covers(fields.get(f"f:{name}"), item) for name, item in value.items())
        case list():
            return all(_covers(_item(fields, item), item) for item in value)
    return True


def _item(fields: Mapping[str, Any], item: object) -> Mapping[str, Any] | None:
    """The managed fields of an item of a list; the API server adds defaults to the item's key."""
    for name, inner in fields.items():
        kind, _, text = name.partition(":")
        if kind == "v" and json.loads(text) == item:
            return {}
        if kind == "k" and isinstance(item, dict):
            key = json.loads(text)
            if all(item.get(part, value) == value for part, value in key.items()):
                return inner  # type: ignore[no-any-return]  # JSON
    return None
