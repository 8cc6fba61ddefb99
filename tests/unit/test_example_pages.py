"""A page for each decoder and transform, all alike; and what any page shows happens."""

import importlib
import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from landfall import registry
from tests.support.pages.markdown import DOCS, ROOT, pages
from tests.support.pages.page_examples import Example, examples, outcomes

FOLDERS: Mapping[str, Mapping[str, str]] = {
    "decoders": registry.DECODERS,
    "transforms": registry.TRANSFORMS,
}
PAGES = [
    (DOCS / folder / f"{each.lower()}.md", each)
    for folder, names in FOLDERS.items()
    for each in names
]
ALL = [page for folder in FOLDERS for page in sorted((DOCS / folder).glob("*.md"))]
EXAMPLES = [example for page in pages() for example in examples(page)]
HEADINGS = ["Example", "Options", "Dead letters", "Cost", "See also"]
OTHER_OPTIONS = {"Protobuf": "landfall.pipeline.decoders.protobuf"}
"""Modules whose options a decoder takes as well, where it asks no registry."""
INTERNAL = {"registry"}
"""Options that are not in ``options``, but a field of their own."""


def section(page: Path, heading: str) -> str:
    return page.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def table(text: str) -> list[list[str]]:
    """The rows of the first table, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [re.split(r"(?<!\\)\|", line.strip("|")) for line in lines]
    return [[cell.strip() for cell in row] for row in cells[2:]]


# ---------------------------------------------------------------------------------------- examples


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_what_a_page_shows_happens(
    example: Example, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("LANDFALL_SECRETS", str(ROOT / "tests/support/secrets"))

    assert outcomes(example, tmp_path) == list(example.outcomes)


def test_an_example_that_is_not_true_is_found(tmp_path: Path) -> None:
    example = Example(tmp_path, 1, {"decode": {"format": "Json"}}, "text", ['{"a": 1}', "7"], [])

    assert outcomes(example, tmp_path) == [
        '{"a": 1}',
        "dead letter: json: Expected `object`, got `int`",
    ]


def test_blocks_out_of_place_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    for text in ('```text title="Output"\n```\n', '```text title="Input"\na\n```\n'):
        page.write_text(text)
        with pytest.raises(ValueError, match=r"page\.md"):
            list(examples(page))


# ----------------------------------------------------------------------------------------- a shape


@pytest.mark.parametrize(("page", "of"), PAGES, ids=lambda value: getattr(value, "name", value))
def test_a_page_has_the_shape_of_the_others(page: Path, of: str) -> None:
    title, _, text = page.read_text().partition("\n\n")
    headings = re.findall("^## (.+)$", page.read_text(), re.MULTILINE)
    used = [example for example in EXAMPLES if example.page == page]
    dead = [text for each in used for text in each.outcomes if text.startswith("dead letter: ")]

    assert title == f"# {of}"
    assert text[:1].isalpha()
    assert [heading for heading in headings if heading in HEADINGS] == HEADINGS
    assert (headings[0], headings[-1]) == (HEADINGS[0], HEADINGS[-1])
    assert dead or section(page, "Dead letters").startswith("\nNone")
    assert all(_uses(example, of) for example in used)
    assert used


def _uses(example: Example, of: str) -> bool:
    steps = [step["use"] for step in example.spec.get("transforms", ())]
    return of in steps or example.spec.get("decode", {}).get("format") == of


def test_there_are_no_pages_of_what_does_not_exist() -> None:
    common = {"index", "columns", "keys-and-headers", "schema-registry", "files", "values"} | {
        *("debezium", "envelopes")
    }

    assert {page.stem for page in ALL} == {page.stem for page, _ in PAGES} | common


# ----------------------------------------------------------------------------------------- options


def options(of: str, path: str) -> Mapping[str, Any]:
    """The options that the code takes, by name; empty if their names are free."""
    modules = [path.partition(":")[0], *filter(None, [OTHER_OPTIONS.get(of)])]
    found: dict[str, Any] = {}
    for module in modules:
        declared = getattr(importlib.import_module(module), "Options", None)
        if declared is not None:
            found |= {each.encode_name: each for each in msgspec.structs.fields(declared)}
    return {each: found[each] for each in found.keys() - INTERNAL}


@pytest.mark.parametrize(("page", "of"), PAGES, ids=lambda value: getattr(value, "name", value))
def test_a_page_names_the_options_and_their_defaults(page: Path, of: str) -> None:
    taken = options(of, FOLDERS[page.parent.name][of])
    rows = table(section(page, "Options")) if taken else []

    shown = {row[0].strip("`"): row[1] for row in rows}
    assert shown.keys() == taken.keys()
    # An option that either of two modules needs is not needed always.
    is_either = of in OTHER_OPTIONS
    wrong = {key: cell for key, cell in shown.items() if not _is_default(cell, taken[key])}
    assert {key for key in wrong if not (is_either and taken[key].required)} == set()


def _is_default(cell: str, option: Any) -> bool:
    if option.required:
        return cell == "required"
    if option.default in (None, (), ""):
        return re.fullmatch("required|`[^<`]*`", cell) is None  # words that say what holds then
    default = option.default
    return cell == f"`{default if isinstance(default, str) else json.dumps(default)}`"


# ------------------------------------------------------------------------------------------- index


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_index_leads_to_every_page(folder: str) -> None:
    rows = re.findall(r"^\| \[`(\w+)`\]\((\S+)\)", _index(folder), re.MULTILINE)

    assert dict(rows) == {each: f"{each.lower()}.md" for each in FOLDERS[folder]}
    assert len(rows) == len(FOLDERS[folder])


EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_extras_of_the_index_are_those_that_there_are(folder: str) -> None:
    rows = re.findall(r"^\| \[`(\w+)`\]\(\S+\) \|[^|]*\| `(\w+)` \|", _index(folder), re.MULTILINE)

    # An extra is called like what needs it.
    assert dict(rows) == {each: each.lower() for each in FOLDERS[folder] if each.lower() in EXTRAS}


def _index(folder: str) -> str:
    return (DOCS / folder / "index.md").read_text()


def test_the_index_says_which_decoders_ask_a_registry() -> None:
    shown = {
        each
        for each, cells in re.findall(
            r"^\| \[`(\w+)`\]\(\S+\) \|(.*)$", _index("decoders"), re.MULTILINE
        )
        if "registry" in cells.split("|")[2]
    }

    assert shown == {
        each for each, path in registry.DECODERS.items() if path.startswith("landfall.schemas.")
    }


# ------------------------------------------------------------------------------------------- costs


@pytest.mark.parametrize(("page", "of"), PAGES, ids=lambda value: getattr(value, "name", value))
def test_a_cost_is_one_that_was_measured(page: Path, of: str) -> None:
    """Every figure of a page stands in a row of its name in the tables of the benchmarks."""
    measured = (DOCS / "performance.md").read_text().partition("\n### Payloads with a schema\n")[2]
    lines = measured.partition("\n### What requests cost")[0].splitlines()
    rows = [line for line in lines if re.match(rf"\|.*`{of}`|\| {of} to ", line, re.IGNORECASE)]
    known = set(re.findall(NUMBER, "".join(rows))) | NOT_OF_A_ROW
    figures = set(re.findall(NUMBER, re.sub(r"\]\(.*?\)", "", section(page, "Cost"))))

    assert {figure.removesuffix(",000") for figure in figures} - known == set()
    assert len(figures) > 0 or of == "Raw"


NUMBER = r"\d(?:[\d,.]*\d)?"
NOT_OF_A_ROW = {"250", "340"}
"""The bytes of an event, and what the page says elsewhere about validating JSON."""
