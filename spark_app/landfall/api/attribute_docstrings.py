"""Finds the strings below the fields of a class, which document them.

Reading sources takes a hundred times as long as defining the classes, so it is done only for those
who want the descriptions: the generator of the custom resource definition.
"""

import ast
import inspect
from collections.abc import Mapping
from functools import cache
from textwrap import dedent


def attribute_docstrings(cls: type) -> dict[str, str]:
    """By name, the documentation of each field that the class annotates, its bases included.

    A base of Pydantic has none, nor one whose source cannot be read, such as a class that was made
    at run time.
    """
    found: dict[str, str] = {}
    bases = [base for base in cls.__mro__ if base.__module__.partition(".")[0] != "pydantic"]
    for base in reversed(bases):
        found |= _own_docstrings(base)
    return found


@cache  # a base belongs to many classes, and a definition is made more than once
def _own_docstrings(cls: type) -> Mapping[str, str]:
    try:
        source = dedent(inspect.getsource(cls))
    except (OSError, TypeError):
        return {}
    definition = ast.parse(source).body[0]
    if not isinstance(definition, ast.ClassDef):
        return {}
    found = {}
    for field, text in zip(definition.body, definition.body[1:], strict=False):
        match field, text:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(said))),
            ):
                found[name] = inspect.cleandoc(said)
    return found
