"""Fails when a name in the code uses a word that the glossary replaces: ``python -m dev.glossary``.

One thing has one word, and it is the word that Kafka, Spark or Kubernetes has for it
(``docs/glossary.md``). Names are checked, prose is not: a word may be right in a sentence and
wrong as a name.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

REPLACED: Mapping[str, str] = {
    "bearings": "lane view",
    "chores": "housekeeping",
    "course": "desired state",
    "doomed": "kill target",
    "face": "http",
    "hands": "executor",
    "heard": "report, inputs",
    "hear": "dispatch",
    "lookout": "monitor",
    "roster": "membership",
    "setback": "backoff",
    "setbacks": "backoff",
    "stock": "cache",
    "strangers": "recreated topics, foreign objects",
    "tally": "counters",
    "told": "describe, translate, report",
    "twin": "fake",
    "twins": "fakes",
    "unheard": "unreachable",
    "verdict": "decision, result",
    "victim": "target",
    "victims": "targets",
}
"""The words that are not used in names, each with the words that are."""

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def words(name: str) -> list[str]:
    """The lower-case words of a snake_case or CamelCase name."""
    return [word.lower() for word in _WORDS.findall(name)]


def names(source: str) -> Iterator[tuple[int, str]]:
    """Every name that the source defines, binds or imports under, with its line."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.lineno, node.name
            case ast.arg():
                yield node.lineno, node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.lineno, node.id
            case ast.Attribute(ctx=ast.Store()):
                yield node.lineno, node.attr
            case ast.alias(asname=str(name)):
                yield 1, name
            case _:
                pass


def findings(path: Path, source: str) -> Iterator[str]:
    """A line for every replaced word in the module's own name and in the names inside it."""
    for line, name in [(1, path.stem), *names(source)]:
        found = words(name)
        for word, following in pairwise([*found, ""]):
            # "hands over" is the verb of the glossary; only the noun is replaced
            if word in REPLACED and (word, following) != ("hands", "over"):
                yield f"{path}:{line}: {name}: say {REPLACED[word]} instead of {word}"


def main() -> int:
    """Check every Python file that git tracks; the exit code is 1 when there is a finding."""
    tracked = subprocess.run(
        ["git", "ls-files", "-z", "*.py"], check=True, capture_output=True, text=True
    )
    paths = [Path(name) for name in tracked.stdout.split("\0") if name and Path(name).exists()]
    found = [line for path in paths for line in findings(path, path.read_text("utf-8"))]
    print(*dict.fromkeys(found), sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
