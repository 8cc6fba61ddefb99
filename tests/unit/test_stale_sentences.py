"""No page says that something cannot be done which can: the test knows the commands and the fields.

A sentence with "cannot … yet", "there is no command …" and the like is true when it is written. It
is found here if it speaks of a command, a section of the spec, a stage or a publisher that exists
now, and is then either wrong or to be said otherwise.
"""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from landfall import registry
from landfall.api.spec.parsing import _SECTIONS
from landfall.cli.parser import parser
from landfall.publish.building import BUILT_IN
from tests.support.pages.markdown import ROOT, pages

NEGATIVE = re.compile(
    r"\b(?:cannot|can't|has no|have no|there is no|there are no)\b"
    r"[^.|]*\b(?:yet|so far|at present|for now|until then)\b"
    r"|\bno (?:command|option|field|way)\b[^.|]*\b(?:yet|for (?:it|this|that)|lists|shows|prints)\b"
    r"|\b(?:not yet|will later|in a later release|is planned for|not implemented)\b",
    re.IGNORECASE,
)
VERBS = {
    "landed again": "backfill",
    "land again": "backfill",
    "lands again": "backfill",
    "in its place": "backfill",
    "taken back": "undo",
    "undone": "undo",
    "merged": "compact",
    "compacted": "compact",
    "history of": "log",
    "validate": "check",
    "progress": "run",
    "completion": "completion",
}
"""Words of people for what a command or a section of the spec does."""
HISTORY = ("docs/adr/", "docs/evidence/", "CHANGELOG.md")
"""What tells of the past."""
TRUE = {
    "docs/concepts/limits.md": "the page of what is not there: each line was looked at",
    "docs/reference/": "made from the code, where `not yet` is a state of a file or a record",
}
"""Pages that are left out, and why."""


def features() -> frozenset[str]:
    """The words for what exists: commands, sections of the spec, built-in stages, publishers."""
    root = parser()
    (commands,) = (a for a in root._actions if isinstance(a, argparse._SubParsersAction))
    stages = {*registry.DECODERS, *registry.TRANSFORMS, *BUILT_IN}
    return frozenset({*commands.choices, *_SECTIONS, *stages, *VERBS})


def stale(text: str, known: frozenset[str]) -> Iterator[str]:
    """The sentences that deny something that exists, by its name in code or in people's words."""
    plain = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    for sentence in re.split(r"(?<=[.:;])\s+|\n\n|\n\|", plain):
        line = " ".join(sentence.split())
        if not NEGATIVE.search(line):
            continue
        named = set(re.findall(r"`(?:landfall |spec\.)?([A-Za-z-]+)", line))
        if named & known or any(words in line for words in VERBS):
            yield line


def prose(page: Path) -> bool:
    name = str(page.relative_to(ROOT))
    return not name.startswith((*HISTORY, *TRUE))


@pytest.mark.parametrize("page", [*filter(prose, pages())], ids=lambda page: str(page.name))
def test_no_page_denies_what_exists(page: Path) -> None:
    assert [*stale(page.read_text(), features())] == []


@pytest.mark.parametrize(
    "sentence",
    [
        # As they stood on pages when the features came.
        "An hour that was landed wrongly cannot be landed again in its place yet. Two things work.",
        "There is no command that lists the ledger, as `log` could.",
        "Objects cannot be merged yet.",
        "`Delta` tables are not yet published.",
        "`spec.compact` is not implemented.",
        "A group cannot use `Protobuf` so far.",
    ],
)
def test_a_stale_sentence_is_found(sentence: str) -> None:
    assert [*stale(f"Before it. {sentence} After it.", features())]


@pytest.mark.parametrize(
    "sentence",
    [
        "The orders of the hour are complete, those of the clicks are not yet.",
        "A record that is not landed yet has no object.",
        "Whoever has `undo` needs no backup.",
    ],
)
def test_what_is_true_is_left_alone(sentence: str) -> None:
    assert [*stale(sentence, features())] == []
