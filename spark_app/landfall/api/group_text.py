"""The text of a group file: the document as YAML with comments, and names for groups. Pure."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from landfall.api.values import MAX_GROUP_NAME

FieldPath = tuple[str, ...]
"""A field below ``spec``: its steps; steps in ``options`` may contain dots."""


def group_name(text: str) -> str:
    """A valid name for a group, as similar to the text as possible."""
    plain = re.sub("[^a-z0-9]+", "-", text.lower()).strip("-")
    named = plain if re.match("[a-z]", plain) else f"group-{plain}".rstrip("-")
    return named[:MAX_GROUP_NAME].rstrip("-")


def as_yaml(document: Mapping[str, Any], comments: Mapping[FieldPath, str]) -> str:
    """Return the document as YAML; comments are by field, and follow it on its line."""
    placed = {("spec", *path): text for path, text in comments.items()}
    return "".join(f"{line}\n" for line in _lines(document, placed, (), ""))


def _lines(
    value: Mapping[str, Any], comments: Mapping[FieldPath, str], at: FieldPath, indent: str
) -> Iterator[str]:
    for name, inner in value.items():
        path = (*at, name)
        key = _scalar(name)
        comment = f"  # {comments[path]}" if path in comments else ""
        if isinstance(inner, Mapping) and inner:
            yield f"{indent}{key}:{comment}"
            yield from _lines(inner, comments, path, f"{indent}  ")
        elif isinstance(inner, list) and inner and isinstance(inner[0], Mapping):
            yield f"{indent}{key}:{comment}"
            text = _dumped(inner, flow=False)
            yield from (f"{indent}  {line}" for line in text.rstrip("\n").split("\n"))
        else:
            yield f"{indent}{key}: {_scalar(inner)}{comment}"


def _scalar(value: object) -> str:
    return _dumped(value, flow=True).removesuffix("\n").removesuffix("\n...").strip()


class _EscapingDumper(yaml.SafeDumper):
    """Escapes text that has more than one line, or invisible characters."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None if text.isprintable() else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_EscapingDumper.add_representer(str, _text)


def _dumped(value: object, *, flow: bool) -> str:
    text: str = yaml.dump(
        value,
        Dumper=_EscapingDumper,
        default_flow_style=flow,
        sort_keys=False,
        allow_unicode=True,
        width=10**6,
    )
    return text
