"""The page for those who come from other programs names fields that there are."""

import re
from collections.abc import Iterator, Mapping

import pytest

from landfall import registry
from landfall_operator.api.crd import at, schema
from tests.support.markdown import DOCS

PAGE = (DOCS / "guides/coming-from.md").read_text()


def rows(heading: str) -> Iterator[tuple[str, str]]:
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    for line in section.splitlines():
        if line.startswith("|") and not line.startswith("|---"):
            theirs, ours, _ = (cell.strip() for cell in line.strip("|").split("|", 2))
            yield theirs, ours


HEADINGS = ["Secor", "Kafka Connect's S3 sink"]


@pytest.mark.parametrize("heading", HEADINGS)
def test_every_setting_has_a_field_that_exists_or_a_reason(heading: str) -> None:
    found = list(rows(heading))[1:]
    fields = [field for _, ours in found for field in re.findall("`([^`]+)`", ours)]

    spec = {"properties": {"spec": schema()["properties"]["spec"]}}
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
    ("field", "names"),
    [("decode.format", registry.DECODERS), ("output.format", registry.FORMATS)],
)
def test_what_takes_the_place_of_a_class_exists(field: str, names: Mapping[str, str]) -> None:
    meant = [
        name
        for line in PAGE.splitlines()
        if f"| `{field}` |" in line
        for name in re.findall(r"→ `(\w+)`", line)
    ]

    assert len(meant) > 6
    assert set(meant) <= names.keys()


def test_a_field_that_does_not_exist_would_be_found() -> None:
    with pytest.raises(KeyError):
        at({"properties": {"spec": schema()["properties"]["spec"]}}, "spec.output.bucket")
