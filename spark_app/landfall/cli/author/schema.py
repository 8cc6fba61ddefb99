"""``landfall schema``: the JSON schema of a resource, for editors."""

import argparse
import sys

from landfall.api.contract import ExitCode
from landfall.api.editor_schemas import schema_text


def schema(arguments: argparse.Namespace) -> ExitCode:
    """Print the schema."""
    sys.stdout.write(schema_text(arguments.kind))
    return ExitCode.OK
