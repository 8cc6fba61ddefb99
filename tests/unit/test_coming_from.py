"""The page for those who come from other programs names fields that there are."""

import re
from collections.abc import Iterator, Mapping

import pytest

from landfall import registry
from landfall.api.spec import Route
from landfall.pipeline.route import Router
from landfall_operator.api.crd import at
from tests.support.operator.crd_schema import group_schema
from tests.support.pages.markdown import DOCS

PAGE = (DOCS / "guides/coming-from.md").read_text()
MAPREDUCE = (DOCS / "guides/coming-from-mapreduce.md").read_text()


def rows(heading: str, page: str = PAGE) -> Iterator[tuple[str, str]]:
    section = page.partition(f"## {heading}\n")[2].partition("\n##")[0]
    for line in section.splitlines():
        if line.startswith("|") and not line.startswith("|---"):
            theirs, ours, *_ = (cell.strip() for cell in line.strip("|").split("|"))
            yield theirs, ours


HEADINGS = ["Secor", "Kafka Connect's S3 sink"]


@pytest.mark.parametrize("heading", HEADINGS)
def test_every_setting_has_a_field_that_exists_or_a_reason(heading: str) -> None:
    found = list(rows(heading))[1:]
    fields = [field for _, ours in found for field in re.findall("`([^`]+)`", ours)]

    spec = {"properties": {"spec": group_schema()["properties"]["spec"]}}
    for field in fields:
        if field != "Regex":
            at(spec, f"spec.{field}")
    assert len(found) > 25
    assert len(set(fields)) > 20


@pytest.mark.parametrize("heading", HEADINGS)
def test_a_setting_has_one_row(heading: str) -> None:
    settings = [name for theirs, _ in rows(heading) for name in re.findall("`([^`]+)`", theirs)]
    repeated = {name for name in settings if settings.count(name) > 1}

    assert repeated - {"transforms"} == set()  # whose steps are in two


@pytest.mark.parametrize(
    ("heading", "names"),
    [
        ("Secor's message parsers", registry.DECODERS),
        ("Secor's file formats", registry.FORMATS),
        ("Connect's converters", registry.DECODERS),
        ("Connect's formats", registry.FORMATS),
    ],
)
def test_what_takes_the_place_of_a_class_exists(heading: str, names: Mapping[str, str]) -> None:
    found = list(rows(heading))[1:]

    assert len(found) > 3
    assert {name for _, ours in found for name in re.findall("`(\\w+)`", ours)} <= names.keys()


def test_the_routes_of_partitioners_are_routes() -> None:
    line = re.compile(r"^\| `\w+Partitioner` \| `([^`…]+)`", re.MULTILINE)
    patterns = line.findall(PAGE)

    for pattern in patterns:
        Router.of(Route(pattern=pattern), None)
    assert len(patterns) == 4


def test_the_settings_of_camus_and_gobblin_have_fields_that_exist() -> None:
    spec = {"properties": {"spec": group_schema()["properties"]["spec"]}}
    found = list(rows("Settings of Camus and Gobblin", MAPREDUCE))[1:]
    fields = {field for _, ours in found for field in re.findall("`([^`]+)`", ours)}

    for field in fields:
        at(spec, f"spec.{field}")
    assert len(found) > 15
    assert len(fields) > 12


def test_fields_in_the_prose_about_mapreduce_exist() -> None:
    sections = "schedule|decode|route|output|badRecords|completeness|uploadPolicy|source"
    named = set(re.findall(rf"`(?:spec\.)?((?:{sections})(?:\.\w+)*)`", MAPREDUCE))

    spec = {"properties": {"spec": group_schema()["properties"]["spec"]}}
    for field in named:
        at(spec, f"spec.{field}")
    assert {"schedule.boundary", "completeness.delay", "uploadPolicy.maxBytes"} <= named


def test_a_field_that_does_not_exist_would_be_found() -> None:
    with pytest.raises(KeyError):
        at({"properties": {"spec": group_schema()["properties"]["spec"]}}, "spec.output.bucket")
