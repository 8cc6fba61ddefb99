"""What is unreleased becomes a release: nothing is lost, and a person reads the notes."""

from collections import Counter
from datetime import date

import pytest

from dev.release.changelog import OTHER, UNRELEASED, Change, cut, notes, of_release, parsed
from tests.support.landing.processes import ROOT

TEXT = """\
# Changelog

All notable changes.

## Unreleased

Tables follow what is merged.

- A topic partition without a leader
  is named.
- **Iceberg tables follow merges**, in one
  commit of the [catalog](docs/publishers/iceberg.md).
- **`landfall log`** lists the records. It needs no driver.
- The Iceberg publisher waits.

## 0.1.0 (2026-01-02)

- The first.
"""
RELEASED = """\
# Changelog

All notable changes.

## Unreleased

## 0.2.0 (2026-12-01)

Tables follow what is merged.

### Published tables

- **Iceberg tables follow merges**, in one
  commit of the [catalog](docs/publishers/iceberg.md).
- The Iceberg publisher waits.

### Command line

- **`landfall log`** lists the records. It needs no driver.

### Kafka

- A topic partition without a leader
  is named.

## 0.1.0 (2026-01-02)

- The first.
"""
NOTES = """\
# Landfall 0.2.0

Tables follow what is merged.

2 of 4 changes; CHANGELOG.md has all, with details.

### Published tables

- Iceberg tables follow merges

### Command line

- `landfall log` lists the records
"""
DAY = date(2026, 12, 1)


def test_what_is_unreleased_becomes_a_release_by_area() -> None:
    assert cut(TEXT, "0.2.0", DAY) == RELEASED


def test_notes_have_the_summary_and_the_headlines() -> None:
    assert notes(parsed(TEXT, UNRELEASED), "0.2.0") == NOTES


def test_notes_are_the_same_before_and_after_the_cut() -> None:
    assert of_release(TEXT, "0.2.0") == of_release(RELEASED, "0.2.0") == NOTES


@pytest.mark.parametrize(
    ("text", "version", "problem"),
    [
        (RELEASED, "0.3.0", "no changes"),
        (TEXT.replace("Tables follow what is merged.\n\n", ""), "0.2.0", "no summary"),
        (TEXT, "0.1.0", "has 0.1.0 already"),
        ("# Changelog\n", "0.2.0", "no section Unreleased"),
    ],
)
def test_a_cut_that_makes_no_release_is_refused(text: str, version: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        cut(text, version, DAY)


@pytest.mark.parametrize(
    ("text", "headline"),
    [
        ("- **A name**: what it does. And more.", "A name: what it does"),
        ("- **A whole\n  sentence is bold.** And more.", "A whole sentence is bold"),
        (
            "- **Files as\n  [a source](docs/guides/files.md)** are read. And more.",
            "Files as a source",
        ),
        ("- A small change, **bold later**.", ""),
    ],
)
def test_a_headline_is_a_clause(text: str, headline: str) -> None:
    assert Change(text).headline == headline


def test_the_cut_of_the_real_changelog_loses_nothing() -> None:
    """And hardly a change has no area of its own."""
    more = f"## {UNRELEASED}\n\nA summary.\n\n- A change.\n\n"
    text = (ROOT / "CHANGELOG.md").read_text().replace(f"## {UNRELEASED}\n\n", more, 1)
    before = parsed(text, UNRELEASED)

    after = parsed(cut(text, "999.0.0", DAY), "999.0.0")

    entries = [Counter(change.text for change in section.changes) for section in (before, after)]
    assert entries[0] == entries[1]
    assert after.summary == before.summary == "A summary."
    assert len(before.by_area()[OTHER]) <= 1 + len(before.changes) // 20
