"""A Python file has at most 400 lines, and a function at most 50.

A module is one idea, and a function fits on a screen. ruff holds the columns, the complexity and
the number of arguments.
"""

import ast
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("operator", "spark_app", "dev", "tests", "docker", "examples", "charts")
MAX_FILE_LINES, MAX_FUNCTION_LINES = 400, 50


def python_files() -> Iterator[Path]:
    """Every module, and every script without a suffix whose first line names Python."""
    for path in sorted(chain.from_iterable((ROOT / name).rglob("*") for name in FOLDERS)):
        if path.suffix == ".py" or (path.is_file() and not path.suffix and is_script(path)):
            yield path


def is_script(path: Path) -> bool:
    with path.open("rb") as stream:
        first = stream.readline()
    return first.startswith(b"#!") and b"python" in first


def long_functions(path: Path, tree: ast.Module) -> Iterator[str]:
    """Functions that are too long, with their sizes. Their decorators are not counted."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > MAX_FUNCTION_LINES:
                yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {lines} lines"


@pytest.fixture(scope="module")
def sources() -> dict[Path, str]:
    return {path: path.read_text("utf-8") for path in python_files()}


def test_no_file_is_longer_than_400_lines(sources: dict[Path, str]) -> None:
    sizes = {path.relative_to(ROOT): len(text.splitlines()) for path, text in sources.items()}

    assert {str(path): size for path, size in sizes.items() if size > MAX_FILE_LINES} == {}


def test_no_function_is_longer_than_50_lines(sources: dict[Path, str]) -> None:
    found = [long_functions(path, ast.parse(text)) for path, text in sources.items()]

    assert list(chain.from_iterable(found)) == []


def test_all_of_the_project_is_measured(sources: dict[Path, str]) -> None:
    measured = {str(path.relative_to(ROOT)) for path in sources}

    assert {"spark_app/landfall/plan.py", "dev/kafka", "tests/unit/test_code_sizes.py"} <= measured
