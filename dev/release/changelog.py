"""Cuts "Unreleased" of CHANGELOG.md into a release, by area, and shortens it to notes.

    python -m dev.release.changelog notes           the notes of this version, on standard output
    python -m dev.release.changelog cut [DATE]      CHANGELOG.md gets the section of this version

"Unreleased" grows by a line for each change, the newest first, and begins with a summary by hand:
what users who upgrade have to know. A release has the summary, then areas, and in each the
changes whose first words are bold before the smaller ones. Notes have only the bold words.
"""

import argparse
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from dev.release import versions

ROOT = Path(__file__).resolve().parents[2]
UNRELEASED = "Unreleased"
BOLD = re.compile(r"\*\*(.+?)\*\*")
LINK = re.compile(r"\[([^]]+)\]\([^)]+\)")
LONGEST_NAME = 3
"""Up to so many bold words are only a name: ``landfall init``."""
WEIGHT_OF_HEADLINE = 4
"""How often a word of the first sentence counts for the area of a change."""

AREAS = {
    "Published tables": r"iceberg|delta\b|delta table|hive|bigquery|publish|catalog|snapshot",
    "Merging, corrections and backfills": r"merge|compact|backfill|promot|undo|replace|retire",
    "Reading": r"scan|landfall\.open|readers?\b|duckdb|\btail\b|landfall (sql|cat)",
    "Kubernetes": r"operator|chart|helm|kubectl|\bpods?\b|namespace|openshift|executor|CRD",
    "Command line": r"`landfall \w+|exit code|--json|command",
    "Decoders and columns": r"avro|protobuf|thrift|csv|json\b|debezium|decode|column|regex|"
    r"timestamp|decimal|payload|`sql`|cast|envelope|schema|registry|messagepack|transform",
    "Formats and routes": r"parquet|orc\b|sequencefile|gzip|zstd|row group|route|output partition",
    "Files as a source": r"feeds?\b|source\.files|files? of other programs|lease|inventory",
    "Dead letters": r"dead.letter|bad record|badrecords|replay",
    "Kafka": r"kafka|broker|librdkafka|topic partition|offset|consumer",
    "Stores": r"\bs3\b|azure|gcs|hdfs|\bstores?\b|upload|bucket|folder",
    "Ledger and drivers": r"ledger|driver|commit|fence|handover|lane|slot|fsck|task|schedule",
    "Security": r"secret|tenant|credential|hostile|sign(s|ed|ature)\b|\brights?\b|tls|certificate",
    "Audit and migration": r"landfall.audit|auditor|migrate|secor|verify",
    "Development": r"make [a-z-]+`|\btests?\b|\bCI\b|crash machine|documentation|\bpages?\b",
}
"""Words by which a change belongs to an area; of two that have as many, to the first."""
OTHER = "Other changes"


@dataclass(frozen=True, slots=True)
class Change:
    """One entry.

    Attributes:
        text: its lines, as they are in the file, the dash included.
    """

    text: str

    @property
    def headline(self) -> str:
        """The subject, in a clause; empty if it does not begin with bold words.

        These are the bold words, and the sentence that they begin if they only name something.
        """
        line = " ".join(self.text.removeprefix("- ").split())
        words = BOLD.match(line)
        if not words:
            return ""
        only_a_name = len(words[1].split()) <= LONGEST_NAME and not words[1].endswith(".")
        clause = _first_sentence(line) if only_a_name else words[1]
        return LINK.sub(r"\1", clause.replace("**", "")).rstrip(".:")

    @property
    def area(self) -> str:
        """The area with most of its words; words of the first sentence count more than once."""
        weighted = _first_sentence(self.text) * WEIGHT_OF_HEADLINE + self.text
        hits = {
            area: len(re.findall(words, weighted, re.IGNORECASE)) for area, words in AREAS.items()
        }
        best = max(hits, key=lambda area: hits[area])
        return best if hits[best] else OTHER


@dataclass(frozen=True, slots=True)
class ReleaseSection:
    """A release in the changelog.

    Attributes:
        title: its heading, without the number signs: ``0.2.0 (2026-11-29)``, or ``Unreleased``.
        summary: what is between the heading and the first change.
        changes: in the order of the file.
    """

    title: str
    summary: str
    changes: tuple[Change, ...]

    def by_area(self) -> Mapping[str, list[Change]]:
        """The changes of each area that has any, with headlines first."""
        sorted_by: dict[str, list[Change]] = {area: [] for area in (*AREAS, OTHER)}
        for change in self.changes:
            sorted_by[change.area].append(change)
        return {
            area: sorted(changes, key=lambda change: not change.headline)
            for area, changes in sorted_by.items()
            if changes
        }


def parsed(text: str, title: str) -> ReleaseSection:
    """The section of a release.

    Args:
        text: of the changelog.
        title: how the heading begins: ``Unreleased``, or a version.

    Raises:
        ValueError: there is no such section.
    """
    heading = re.search(rf"^## ({re.escape(title)}(?: .*)?)$", text, re.MULTILINE)
    if not heading:
        raise ValueError(f"the changelog has no section {title}")
    body = re.split(r"^## ", text[heading.end() :], maxsplit=1, flags=re.MULTILINE)[0]
    summary, *entries = re.split(r"^(?=- )", body, flags=re.MULTILINE)
    changes = (re.split(r"^#", entry, maxsplit=1, flags=re.MULTILINE)[0] for entry in entries)
    summary = re.split(r"^### ", summary, maxsplit=1, flags=re.MULTILINE)[0].strip()
    return ReleaseSection(heading[1], summary, tuple(Change(text.strip()) for text in changes))


def cut(text: str, version: str, day: date) -> str:
    """The changelog with "Unreleased" as a release of that day, and nothing unreleased.

    Raises:
        ValueError: there is nothing unreleased, it has no summary, or the release exists.
    """
    section = parsed(text, UNRELEASED)
    if not section.changes or not section.summary:
        missing = "summary" if section.changes else "changes"
        raise ValueError(f"no {missing} below '## {UNRELEASED}'")
    if re.search(rf"^## {re.escape(version)}\b", text, re.MULTILINE):
        raise ValueError(f"the changelog has {version} already")
    before, _, rest = text.partition(f"## {UNRELEASED}\n")
    after = re.search(r"^## ", rest, re.MULTILINE)
    older = rest[after.start() :] if after else ""
    areas = _areas((area, (change.text for change in c)) for area, c in section.by_area().items())
    released = f"## {version} ({day.isoformat()})\n\n{section.summary}\n\n{areas}"
    return f"{before}## {UNRELEASED}\n\n{released}{older and chr(10) + older}"


def notes(section: ReleaseSection, version: str) -> str:
    """Return what a person reads of a release: the summary, and the headlines by area."""
    headlines = {
        area: [*dict.fromkeys(f"- {change.headline}" for change in changes if change.headline)]
        for area, changes in section.by_area().items()
    }
    count = sum(map(len, headlines.values()))
    listed = _areas((area, lines) for area, lines in headlines.items() if lines)
    more = f"{count} of {len(section.changes)} changes; CHANGELOG.md has all, with details."
    parts = [f"# Landfall {version}", section.summary, more, listed]
    return "\n\n".join(filter(None, parts)).rstrip() + "\n"


def of_release(text: str, version: str) -> str:
    """The notes of a version: of its section, or of what is unreleased if it has none yet."""
    has_section = re.search(rf"^## {re.escape(version)}\b", text, re.MULTILINE)
    return notes(parsed(text, version if has_section else UNRELEASED), version)


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=\.)\s", text, maxsplit=1)[0]


def _areas(areas: Iterable[tuple[str, Iterable[str]]]) -> str:
    return "\n".join("\n".join([f"### {area}", "", *lines, ""]) for area, lines in areas)


def main() -> None:
    """Print notes, or cut the changelog."""
    parser = argparse.ArgumentParser(prog="python -m dev.release.changelog", description=__doc__)
    parser.add_argument("command", choices=["notes", "cut"])
    parser.add_argument("date", nargs="?", type=date.fromisoformat, help="default: today in UTC")
    given = parser.parse_args()
    file = ROOT / "CHANGELOG.md"
    text, version = file.read_text(), versions.version()
    if given.command == "notes":
        print(of_release(text, version), end="")
    else:
        file.write_text(cut(text, version, given.date or datetime.now(UTC).date()))


if __name__ == "__main__":
    main()
