"""Sections of a page that a run of tests writes, below what people write."""

from collections.abc import Mapping
from pathlib import Path


def replace(file: Path, mark: str, sections: Mapping[str, str]) -> None:
    """Replace the sections with these titles, after a line of the page; others stay. Sorted."""
    before, _, after = file.read_text().partition(mark)
    texts = {of.partition("\n")[0]: of.partition("\n")[2].strip() for of in _split(after)}
    texts |= sections
    written = [f"## {title}\n\n{texts[title]}" for title in sorted(texts)]
    file.write_text("\n\n".join([f"{before}{mark}", *written]) + "\n")


def _split(text: str) -> list[str]:
    return [of.strip() for of in text.split("\n## ")[1:]]
