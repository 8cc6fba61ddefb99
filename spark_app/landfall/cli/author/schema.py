"""``landfall schema``: the JSON schema of a resource, for editors."""

import argparse
import sys
from importlib import resources

from landfall.api.contract import ExitCode

SCHEMA = "consumergroup.schema.json"
"""The schema of a group file."""
MADE_BY = "Made by `landfall schema "
"""A text in every schema."""


def schema(arguments: argparse.Namespace) -> ExitCode:
    """Print the schema."""
    sys.stdout.write(schema_text(f"{arguments.kind.lower()}.schema.json"))
    return ExitCode.OK


def schema_text(file: str) -> str:
    """The content of a schema, by the name of its file."""
    return (resources.files("landfall.api") / "schemas" / file).read_text("utf-8")
