"""The common parts of the definitions of all resources. Pure."""

from collections.abc import Iterable
from typing import Any

import yaml
from pydantic import BaseModel

from landfall_operator.api.schema import Schema, of_status, structural
from landfall_operator.api.status_values import UNOBSERVED

GROUP = "landfall.dev"
VERSION = "v1alpha1"

Column = tuple[str, str, str, str, int]
"""A column of ``kubectl get``: name, type, JSON path, description, priority (1: ``-o wide``)."""


def definition(  # noqa: PLR0913  # each is given once for a resource
    kind: str,
    plural: str,
    *,
    short_name: str,
    columns: Iterable[Column],
    schema: Schema,
    subresources: Schema,
) -> dict[str, Any]:
    """The complete definition of a namespaced resource."""
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}, **subresources},
        "additionalPrinterColumns": [_column(*column) for column in columns],
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": [short_name],
                "categories": ["landfall"],
            },
            "versions": [version],
        },
    }


def resource_schema(description: str, spec: type[BaseModel], status: type[BaseModel]) -> Schema:
    """The structural schema of a resource with these models, without rules that it adds."""
    text = {"type": "string"}
    return {
        "description": description,
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": text,
            "kind": text,
            "metadata": {"type": "object"},
            "spec": structural(spec.model_json_schema()),
            "status": {
                **of_status(structural(status.model_json_schema())),
                "default": {"observedGeneration": UNOBSERVED},
            },
        },
    }


def _column(name: str, kind: str, path: str, description: str, priority: int) -> dict[str, Any]:
    made = {"name": name, "type": kind, "jsonPath": path, "description": description}
    return {**made, "priority": priority} if priority else made


def yaml_text(document: Any, *, flow: bool | None = False) -> str:
    """The document as YAML, with its keys in their order.

    Args:
        document: plain mappings, lists and scalars.
        flow: PyYAML's ``default_flow_style``; None writes the innermost collections on one line.
    """
    return yaml.dump(
        document,
        Dumper=_NoAliasDumper,
        sort_keys=False,
        default_flow_style=flow,
        width=120,
        allow_unicode=True,
    )


class _NoAliasDumper(yaml.SafeDumper):
    """Writes shared values out instead of as aliases, so the text depends on values alone."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002  # PyYAML's signature
        return True
