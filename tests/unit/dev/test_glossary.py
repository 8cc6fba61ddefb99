"""The check of names finds the words that the glossary replaces, and nothing else."""

from pathlib import Path

import pytest

from dev.glossary import findings, words


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("told_in", ["told", "in"]),
        ("TwinLog", ["twin", "log"]),
        ("HTTPFace", ["http", "face"]),
        ("_s3_stock2", ["s", "3", "stock", "2"]),
    ],
)
def test_a_name_is_split_into_its_words(name: str, expected: list[str]) -> None:
    assert words(name) == expected


@pytest.mark.parametrize(
    "source",
    [
        "def told(): ...",
        "class Lookout: ...",
        "def look(*, roster): ...",
        "tally = 1",
        "self.stock = 1",
        "import queue as chores",
        "for twin in (): ...",
    ],
)
def test_a_replaced_word_is_found_wherever_a_name_is_bound(source: str) -> None:
    (finding,) = findings(Path("module.py"), source)

    assert finding.startswith("module.py:1: ")


def test_the_name_of_a_module_is_checked_too() -> None:
    assert list(findings(Path("lookout.py"), "")) == [
        "lookout.py:1: lookout: say monitor instead of lookout"
    ]


@pytest.mark.parametrize(
    "source",
    [
        '"""What users are told."""',
        "interface = courses = None",
        "def hands_over(): ...",
        "print(told)",
    ],
)
def test_prose_other_words_and_mere_uses_are_let_through(source: str) -> None:
    assert list(findings(Path("module.py"), source)) == []
