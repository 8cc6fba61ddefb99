"""Counts phrases for which the field has a plainer word: ``python -m dev.words``.

A phrase may stand in docstrings, comments and messages of the product at most ``code`` times, and
in documentation ``docs`` times. More is an error, so that what is written next uses the other word.
Whoever removes some lowers the number. Quotes of what a program printed are not counted: in
documentation neither blocks nor `code` are.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
CODE = ("spark_app", "operator", "audit", "migrate", "dev")
DOCS = ("docs", "README.md", "CONTRIBUTING.md", "SECURITY.md")
GENERATED = ("docs/reference/cli.md", "docs/reference/fields.md")
"""Made from texts in the code, where they are counted."""
LISTS = ("dev/words.py", "dev/glossary.py", "docs/glossary.md")
"""Name the words that are not used."""


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words that are replaced, and how often they may still be written."""

    name: str
    pattern: re.Pattern[str]
    """Matched without regard to case, in text whose white space is single spaces."""
    better: str
    code: int
    docs: int


def _phrase(name: str, pattern: str, better: str, code: int, docs: int) -> Phrase:
    return Phrase(name, re.compile(pattern, re.IGNORECASE), better, code, docs)


PHRASES = (
    _phrase(
        "in the place of",
        r"\bin the place of|\b(takes?|took|taken|taking) (the|its|their) places?\b|\bwhose place",
        "replace, supersede",
        3,
        2,
    ),
    _phrase("what became of", r"\bwhat (has |had )?(became|becomes|become) of", "outcome", 0, 0),
    _phrase("says (of data)", r"\b(says?|said)\b", "contains, records, names, means", 8, 36),
    _phrase("tells (of data)", r"\b(tells?|told)\b", "reports, returns, shows", 1, 3),
    _phrase("bare others", r"\bothers\b", "the other objects, the other groups, …", 8, 17),
    _phrase("somebody", r"\b(some|any|no)body\b", "a user, another program, …", 3, 43),
    _phrase("whoever", r"\b(who|what|which|why|where)ever\b", "the noun", 0, 5),
    _phrase("those of which", r"\b(those|that) of\b|\bof which\b", "the noun", 5, 19),
    _phrase("anew", r"\banew\b", "again", 2, 1),
    _phrase("beside", r"\bbeside\b", "next to, alongside, in addition to", 0, 5),
    _phrase("behind", r"\bbehind\b", "after", 9, 4),
    _phrase("goes on", r"\b(goes|go|went|going) on\b", "continues", 1, 10),
    _phrase("docstring: What …", r"\A(What|Whether|Which|Who)\b", "Return …, or the noun", 6, 0),
)
DOCSTRING = PHRASES[-1]
TOO_OFTEN = "more than"


def texts(source: str) -> Iterator[tuple[int, str]]:
    """Each run of comments, and each string, docstrings among them, with its line."""
    comment: list[str] = []
    start = last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if comment and token.start[0] != last + 1:
                yield start, _plain(" ".join(comment))
                comment = []
            start = start if comment else token.start[0]
            last = token.start[0]
            comment.append(token.string.lstrip("# "))
        elif token.type == tokenize.STRING:
            yield token.start[0], _plain(token.string)
    if comment:
        yield start, _plain(" ".join(comment))


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """The docstring of the module, and of each class and function in it, with its line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield node.body[0].lineno, _plain(text)


def paragraphs(page: str) -> Iterator[tuple[int, str]]:
    """Each paragraph of a page of Markdown with its line, without blocks and inline code."""
    fenced = False
    start, held = 1, list[str]()
    for number, line in enumerate([*page.splitlines(), ""], 1):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        if fenced or not line.strip() or line.startswith("    "):
            if held:
                yield start, re.sub(r"`[^`]*`", "`", _plain(" ".join(held)))
                held = []
        else:
            start = start if held else number
            held.append(line)


def _plain(text: str) -> str:
    return " ".join(text.split())


def found(path: Path, text: str) -> Iterator[tuple[Phrase, int, str]]:
    """Each phrase in a file of Python or Markdown, with its line and the words around it."""
    if path.suffix == ".py":
        for line, docstring in docstrings(text):
            yield from _matches(DOCSTRING, line, docstring)
        pieces = texts(text)
    else:
        pieces = paragraphs(text)
    for line, piece in pieces:
        for phrase in PHRASES:
            if phrase is not DOCSTRING:
                yield from _matches(phrase, line, piece)


def _matches(phrase: Phrase, line: int, text: str) -> Iterator[tuple[Phrase, int, str]]:
    for match in phrase.pattern.finditer(text):
        yield phrase, line, text[max(0, match.start() - 40) : match.end() + 40]


def counted(root: Path = ROOT) -> Iterator[tuple[Path, Phrase, int, str]]:
    """Every phrase in every file that git tracks, generated pages and lists of words apart."""
    tracked = subprocess.run(
        ["git", "ls-files", "-z", *CODE, *DOCS],
        check=True,
        capture_output=True,
        text=True,
        cwd=root,
    ).stdout
    for name in sorted(filter(None, tracked.split("\0"))):
        path = root / name
        if name in GENERATED or name in LISTS or path.suffix not in (".py", ".md"):
            continue
        if path.exists():
            for phrase, line, words in found(path, path.read_text("utf-8")):
                yield path.relative_to(root), phrase, line, words


def table(counts: Mapping[tuple[str, str], int]) -> Iterator[str]:
    """A line for each phrase in code and in documentation; marked if it is there too often."""
    for phrase in PHRASES:
        for suffix, room, limit in ((".py", "code", phrase.code), (".md", "docs", phrase.docs)):
            number = counts.get((phrase.name, suffix), 0)
            mark = "" if number <= limit else f"  {TOO_OFTEN} {limit}: write {phrase.better}"
            yield f"{phrase.name:20} {room}  {number:5}{mark}"


def main(arguments: list[str]) -> int:
    """Print the counts, or with a phrase's name its places; 1 if a phrase is there too often."""
    places = list(counted())
    if arguments:
        for path, phrase, line, words in places:
            if phrase.name.startswith(arguments[0]):
                print(f"{path}:{line}: … {words} … ({phrase.better})")
        return 0
    lines = list(table(Counter((phrase.name, path.suffix) for path, phrase, _, _ in places)))
    print(*lines, sep="\n")
    return int(any(TOO_OFTEN in line for line in lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
