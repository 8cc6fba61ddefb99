"""The defaults of a spec's fields, as they were when ``v1alpha1`` was first released, and now.

``python -m tests.support.frozen_defaults`` adds the fields that came since to the file. It changes
no line of the file: a default that an API server has stored in objects is part of the version
(docs/adr/0069).
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from landfall.api.spec import GroupSpec
from landfall_operator.api.schema import Schema, structural

FILE = (
    Path(__file__).resolve().parents[1] / "unit/landfall_operator/last_release/default_values.json"
)


def present() -> dict[str, Any]:
    """The default of each field by its path; None for a field without one."""
    return dict(_fields(structural(GroupSpec.model_json_schema()), "spec"))


def frozen() -> dict[str, Any]:
    """The defaults that may not change."""
    values: dict[str, Any] = json.loads(FILE.read_text())
    return values


def _fields(node: Schema, path: str) -> Iterator[tuple[str, Any]]:
    for name, child in node.get("properties", {}).items():
        yield f"{path}.{name}", child.get("default")
        yield from _fields(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            yield from _fields(node[key], f"{path}[]")


if __name__ == "__main__":
    known = frozen() if FILE.exists() else {}
    FILE.write_text(json.dumps({**present(), **known}, indent=1, sort_keys=True) + "\n")
