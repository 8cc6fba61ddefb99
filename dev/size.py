"""Prints how large the product is, by room: ``python -m dev.size``.

Only lines of code are counted: no blank lines, comments, docstrings or imports. A package with more
files than a person can survey is marked.
"""

import ast
import io
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PODS = ("spark_app/landfall", "spark_app/pyspark_landfall", "operator/landfall_operator")
"""The packages that run in pods."""
APART = ("audit/landfall_audit", "migrate/landfall_migrate")
"""Distributions that are installed on demand."""
WIDTH = 27
FLAT = 25
"""A folder with more files than this is marked, and a test refuses it."""

_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def code_lines(source: str) -> int:
    """Lines of Python code: without blanks, comments, docstrings and imports."""
    lines = {
        number
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in _NO_CODE
        for number in range(token.start[0], token.end[0] + 1)
    }
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt) and (_is_import(node) or _is_text(node)):
            lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def table(root: Path = ROOT) -> Iterator[str]:
    """One line for each room with its files and lines of code: of pods, then of the rest."""
    for packages, sum_ in ((PODS, "in pods"), (APART, "apart")):
        yield from _table(root, packages, sum_)


def _table(root: Path, packages: Iterable[str], sum_: str) -> Iterator[str]:
    files: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    for package in packages:
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root / package).parts
            room = "/".join((Path(package).name, *parts[:-1][:1]))
            files[room] += 1
            lines[room] += code_lines(path.read_text())
    for room, count in sorted(lines.items(), key=lambda item: -item[1]):
        yield f"{room:{WIDTH}}  {files[room]:4} files  {count:7,} lines"
    yield f"{sum_:{WIDTH}}  {files.total():4} files  {lines.total():7,} lines"
    for folder, count in too_flat(root, packages):
        yield f"more than {FLAT} files: {folder} ({count})"


def too_flat(root: Path = ROOT, packages: Iterable[str] = PODS + APART) -> list[tuple[str, int]]:
    """The folders with more files than a person can survey, with their numbers."""
    files = Counter(
        str(path.parent.relative_to(root))
        for package in packages
        for path in sorted((root / package).rglob("*.py"))
    )
    return [(folder, count) for folder, count in files.items() if count > FLAT]


def _is_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def _is_text(node: ast.stmt) -> bool:
    """Return whether a statement is a docstring, or the text below an attribute."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


if __name__ == "__main__":
    sys.stdout.write("".join(f"{line}\n" for line in table()))
