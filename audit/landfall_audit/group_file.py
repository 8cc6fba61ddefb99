"""Reading ``GROUP.yaml``: the document that a cluster takes, with environment variables in it.

``${NAME}`` is an environment variable, ``${NAME:-default}`` has a default for one that is unset or
empty, and ``$${`` is a literal ``${``. They are replaced after the document is parsed, so the
content of a variable is never read as YAML.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path

import yaml
from pydantic import ValidationError

from landfall_audit.errors import AuditReason, AuditStalled
from landfall_audit.spec import AuditedGroup, AuditedTopics

_VARIABLE = re.compile(r"\$(\$)?\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_MAX_VALUES = 100_000
"""The most values of a document with its aliases filled in: a few lines can give billions."""


def load(path: Path, environment: Mapping[str, str]) -> AuditedGroup:
    """Return the group that a file describes.

    Raises:
        AuditStalled: SPEC_INVALID, with one line per fault: file, then field, then the fault.
    """
    document = _expanded(_read(path), environment, path, "")
    try:
        group = AuditedGroup.model_validate(document)
        AuditedTopics.of(group.spec)
    except ValidationError as error:
        lines = (
            f"{path}: {'.'.join(map(str, detail['loc'])) or 'document'}: {detail['msg']}"
            for detail in error.errors(include_url=False, include_input=False)
        )
        raise AuditStalled(AuditReason.SPEC_INVALID, "\n".join(lines)) from None
    except (ValueError, KeyError, RecursionError) as error:
        raise AuditStalled(AuditReason.SPEC_INVALID, f"{path}: spec.topics: {error}") from None
    return group


def _read(path: Path) -> object:
    try:
        text = path.read_text("utf-8")
        if path.suffix == ".json":
            return json.loads(text)
        return _yaml(text)
    except OSError as error:
        raise AuditStalled(AuditReason.SPEC_INVALID, f"{path}: {error.strerror}") from error
    except RecursionError:
        raise AuditStalled(AuditReason.SPEC_INVALID, f"{path}: nested too deeply") from None
    except (yaml.YAMLError, ValueError) as error:
        kind = "JSON" if path.suffix == ".json" else "YAML"
        raise AuditStalled(AuditReason.SPEC_INVALID, f"{path}: invalid {kind}: {error}") from error


def _yaml(text: str) -> object:
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        if _size(node, {}) > _MAX_VALUES:
            raise ValueError(f"with its aliases it has more than {_MAX_VALUES} values")
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _size(node: yaml.Node, sizes: dict[int, int]) -> int:
    """The number of values below a node; too many for one that is inside of itself."""
    if id(node) in sizes:
        return sizes[id(node)]
    sizes[id(node)] = _MAX_VALUES + 1
    inner = node.value if isinstance(node, yaml.CollectionNode) else ()
    nodes = (n for entry in inner for n in (entry if isinstance(entry, tuple) else (entry,)))
    sizes[id(node)] = 1 + sum(_size(child, sizes) for child in nodes)
    return sizes[id(node)]


def _expanded(value: object, environment: Mapping[str, str], path: Path, field: str) -> object:
    if isinstance(value, dict):
        return {
            name: _expanded(inner, environment, path, f"{field}.{name}".lstrip("."))
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [
            _expanded(inner, environment, path, f"{field}[{i}]") for i, inner in enumerate(value)
        ]
    if not isinstance(value, str):
        return value

    def replacement(match: re.Match[str]) -> str:
        escape, name, default = match.groups()
        if escape:
            return match[0][1:]
        if found := environment.get(name) or default:
            return found
        if default is None:
            raise AuditStalled(
                AuditReason.SPEC_INVALID, f"{path}: {field}: environment variable {name} is not set"
            )
        return ""

    return _VARIABLE.sub(replacement, value)
