"""What is in the repository's Markdown: prose, blocks of code, links and anchors."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"


@dataclass(frozen=True)
class Code:
    """A fenced block.

    Attributes:
        page: the file it is in.
        language: what follows the fence.
        text: its lines.
        title: what the site shows above it; empty if it has none.
        made_by: the command that printed it, from the comment before it; empty if there is none.
    """

    page: Path
    language: str
    text: str
    made_by: str
    title: str = ""


def pages() -> list[Path]:
    """Everything people read."""
    return [
        *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY", "CHANGELOG")),
        *sorted(DOCS.rglob("*.md")),
    ]


def name(page: Path) -> str:
    """As a person would say it."""
    return str(page.relative_to(ROOT))


_FENCED = re.compile(
    r"(?:<!-- made by: (.*?) -->\n+)?^```([\w-]*)(?: title=\"([^\"\n]*)\")?\n(.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


def code(page: Path, language: str | None = None) -> list[Code]:
    """Its fenced blocks, of one language or of all."""
    found = [
        Code(page, kind, text, made_by, title)
        for made_by, kind, title, text in _FENCED.findall(page.read_text())
    ]
    return [block for block in found if language in (None, block.language)]


def prose(page: Path) -> Iterator[tuple[int, str]]:
    """The lines outside of code and tables, with their numbers."""
    fenced = False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        fenced ^= line.startswith("```")
        if not fenced and not line.startswith(("```", "|", "    ")):
            yield number, line


def links(page: Path) -> list[str]:
    """Targets of links and pictures."""
    text = re.sub(r"`[^`\n]*`", "", _FENCED.sub("", page.read_text()))
    return re.findall(r"\]\(<?([^)\s>]+)>?\)", text)


@cache
def anchors(page: Path) -> set[str]:
    """What GitHub and the site both make of its headings."""
    text = _FENCED.sub("", page.read_text())
    return {_slug(heading) for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}


def _slug(heading: str) -> str:
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", plain).strip().lower().replace(" ", "-")
