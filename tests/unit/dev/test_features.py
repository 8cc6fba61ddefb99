"""``make test FEATURE=…``: every file of tests belongs to a feature, and every word finds some."""

from pathlib import Path

from tests.features import FEATURES, TESTS, files


def test_every_file_of_tests_belongs_to_a_feature() -> None:
    found = {path for feature in FEATURES for path in files(feature)}
    below = {f"tests/{path.relative_to(TESTS).as_posix()}" for path in TESTS.rglob("test_*.py")}

    assert below - found == set()


def test_every_word_finds_a_file() -> None:
    paths = [path.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py")]
    words = {word for words in FEATURES.values() for word in words}

    assert {word for word in words if not any(word in path for path in paths)} == set()


def test_contributing_lists_the_features() -> None:
    page = (Path(__file__).parents[3] / "CONTRIBUTING.md").read_text()

    assert ", ".join(f"`{feature}`" for feature in FEATURES) in " ".join(page.split())
