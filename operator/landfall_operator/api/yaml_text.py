"""Writes generated documents as YAML. Pure."""

from typing import Any

import yaml


def yaml_text(document: Any, *, flow: bool | None = False) -> str:
    """The document as YAML, with its keys in their order.

    Args:
        document: plain mappings, lists and scalars.
        flow: PyYAML's ``default_flow_style``; None writes the innermost collections on one line.
    """
    return yaml.dump(
        document,
        Dumper=_Dumper,
        sort_keys=False,
        default_flow_style=flow,
        width=120,
        allow_unicode=True,
    )


class _Dumper(yaml.SafeDumper):
    """Writes shared values out instead of as aliases, so the text depends on values alone."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002  # PyYAML's signature
        return True
