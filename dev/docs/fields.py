"""Every field of a ``ConsumerGroup``, from the CRD, with the same words as ``kubectl explain``."""

import re
from collections.abc import Iterator

from dev.docs.text import prose
from landfall_operator.api.change_impact import weight
from landfall_operator.api.crd import schema
from landfall_operator.api.schema import Schema

HEAD = """# Every field of a ConsumerGroup

<!-- Made by `make crds` from the models. -->

[The ConsumerGroup](consumer-group.md) is the page to begin with. `kubectl explain cg.spec.output`
prints the same texts. **Bold** fields are required. The last column shows what a change of the
field leads to:

| change | what happens |
|---|---|
| Ignore | nothing; only the operator reads the field |
| Live | the running driver applies it |
| NewRevision | [a new driver takes over](../guides/change-a-group.md), or is rolled back |

`status.plan` shows which of them the last change was.
"""

_MIXED = {
    "x-kubernetes-int-or-string": "text or number",
    "maximum": "text or number",
    "pattern": "word or mapping",
}
_RECURSIVE = {"items": "mapping, as a column", "fields": "list of columns"}
"""Fields that the schema leaves open, as Kubernetes' schemas have no recursion."""
DEEPEST = 6
"""Markdown has no deeper headings."""
_WORDS = {"object": "mapping", "string": "text", "integer": "number", "boolean": "true or false"}


def page() -> str:
    """The whole file."""
    properties = schema()["properties"]
    spec, status = properties["spec"], properties["status"]
    return "\n".join([HEAD, *section("spec", spec, with_weight=True), *section("status", status)])


def section(path: str, node: Schema, *, with_weight: bool = False) -> Iterator[str]:
    """A mapping, then the mappings in it; for a group's spec with the effect of a change."""
    fields = node["properties"]
    yield f"{'#' * min(path.count('.') + 2, DEEPEST)} `{path}`\n"
    if "description" in node:
        yield f"{prose(node['description'])}\n"
    yield "| field | type | meaning | change |" if with_weight else "| field | type | meaning |"
    yield "|---|---|---|---|" if with_weight else "|---|---|---|"
    for name, child in fields.items():
        shown = f"**`{name}`**" if name in node.get("required", ()) else f"`{name}`"
        cells = [shown, _RECURSIVE.get(name) or _type(child), _text(child)]
        yield f"| {' | '.join([*cells, *([_weight(f'{path}.{name}')] if with_weight else [])])} |"
    yield ""
    for name, child in fields.items():
        below = child.get("items", child)
        if "properties" in below and not _of_kubernetes(below):
            inner = f"{path}.{name}{'[]' if 'items' in child else ''}"
            yield from section(inner, below, with_weight=with_weight)


def _of_kubernetes(node: Schema) -> bool:
    """Return whether it is passed on, and so explained by Kubernetes."""
    return node.get("type") == "object" and "x-kubernetes-preserve-unknown-fields" in node


def _type(node: Schema) -> str:
    if _of_kubernetes(node):
        return "Kubernetes' own"
    match node:
        case {"enum": words}:
            return " ".join(f"`{word}`" for word in words)
        case {"items": each}:
            return f"list of {_type(each)}"
        case {"additionalProperties": each}:
            return f"mapping to {_type(each)}"
    if "type" in node:
        return _WORDS.get(node["type"], "anything")
    return next((label for key, label in _MIXED.items() if key in node), "anything")


def _weight(path: str) -> str:
    """The class of change; none for a mapping whose fields differ."""
    inner = re.sub(r"\[\].*", "", path).removeprefix("spec.")
    try:
        return str(weight(inner))
    except ValueError:
        return ""


def _text(node: Schema) -> str:
    """Return its description; only the first sentence if it has a section of its own."""
    description: str = node.get("description", "")
    if "properties" in node.get("items", node):
        description = description.partition(". ")[0].rstrip(".") + "."
    return description.replace("|", "\\|")
