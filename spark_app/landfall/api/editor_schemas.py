"""The JSON schemas of the resources, which are files of this package, for editors.

``landfall_operator.api.editor_schema`` makes them.
"""

from importlib import resources

MADE_BY = "Made by `landfall schema "
"""A text in every schema, before its kind."""


def file_name(kind: str) -> str:
    """The name of a kind's file."""
    return f"{kind.lower()}.schema.json"


def schema_text(kind: str) -> str:
    """The schema of a kind, as ``landfall schema`` prints it.

    Raises:
        FileNotFoundError: there is no such kind.
    """
    return (resources.files("landfall.api") / "schemas" / file_name(kind)).read_text("utf-8")
