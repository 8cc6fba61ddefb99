"""The page of the transforms: what it shows is what happens."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from landfall.pipeline.decoders import Decoded
from landfall.pipeline.transforms.payloads import json_objects
from tests.support.groups import document
from tests.support.markdown import DOCS
from tests.support.transformed import apply_spec

PAGE = DOCS / "guides/transforms.md"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def sections() -> Iterator[Any]:
    """For each section with examples: input lines, YAML, output lines."""
    for section in PAGE.read_text().split("\n## ")[1:]:
        title, blocks = section.split("\n")[0], _BLOCK.findall(section)
        inputs: list[str] = []
        given = ""
        for number, (language, text) in enumerate(blocks):
            match language:
                case "json":
                    inputs = text.splitlines()
                case "yaml":
                    given = text
                case "text":
                    yield pytest.param(inputs, given, text.splitlines(), id=f"{title}-{number}")


def outcome(decoded: Decoded, rows: int, *, from_columns: bool) -> list[object]:
    """What became of each row: the object that is landed, or how it fell out."""
    values = decoded.records.values
    if from_columns:
        assert decoded.columns is not None
        values = json_objects(decoded.columns)
    landed = zip(decoded.records.offsets.tolist(), values.to_pylist(), strict=True)
    by_row: dict[int, object] = {offset - 100: json.loads(value) for offset, value in landed}
    by_row |= {
        row: f"rejected: {error}"
        for row, error in zip(decoded.bad.rows.tolist(), decoded.bad.errors, strict=True)
    }
    return [by_row.get(row, "left out") for row in range(rows)]


@pytest.mark.parametrize(("inputs", "given", "shown"), list(sections()))
def test_what_the_page_shows_happens(
    inputs: list[str],
    given: str,
    shown: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(DOCS.parent)
    monkeypatch.setenv("LANDFALL_SECRETS", str(Path("tests/support/secrets").resolve()))
    spec = {"output": {"url": "s3://b/x", "format": "Json"}, "decode": {"format": "Json"}}
    for section, value in yaml.safe_load(given).items():
        spec[section] = {**spec.get(section, {}), **value} if isinstance(value, dict) else value
    group = document()
    group["spec"] |= spec

    decoded = apply_spec(group, [line.encode() for line in inputs])

    is_parquet = spec["output"]["format"] == "Parquet"
    got = outcome(decoded, len(inputs), from_columns=is_parquet and "columns" in spec["decode"])
    assert got == [json.loads(line) if line.startswith("{") else line for line in shown]
