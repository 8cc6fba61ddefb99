"""Loop variables of the product are nouns: ``for file in files``, not ``for each in files``."""

import ast
from collections.abc import Iterator

import pytest

from dev.words import CODE, ROOT

FOLDERS = (*CODE, "docker", "examples")
NO_NOUNS = {"each", "found", "at", "made"}
MOST = 0
"""So many loop variables may have such a name. If you rename some, lower the number."""


def loop_variables(source: str) -> Iterator[tuple[int, str]]:
    """The line and the name of each variable of a ``for`` statement or a comprehension."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            for target in ast.walk(node.target):
                if isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store):
                    yield target.lineno, target.id


def without_noun() -> Iterator[str]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for line, name in loop_variables(path.read_text("utf-8")):
                if name in NO_NOUNS:
                    yield f"{path.relative_to(ROOT)}:{line} {name}"


def test_loop_variables_are_nouns() -> None:
    found = list(without_noun())

    assert len(found) <= MOST, "give each a noun, as file, range_ or object_"


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("for each in files: pass", ["each"]),
        ("for number, (each, _) in pairs: each()", ["number", "each", "_"]),
        ("async def f():\n    async for found in rows: pass", ["found"]),
        ("[at for row in rows for at in row]", ["row", "at"]),
        ("{made: 1 for made in rows}, {each for each in rows}", ["made", "each"]),
        ("rows.sort(key=lambda each: each.at); found = 1", []),
        ("for place.at[each] in rows: pass", []),
    ],
)
def test_all_loop_variables_are_seen(source: str, names: list[str]) -> None:
    assert sorted(name for _, name in loop_variables(source)) == sorted(names)
