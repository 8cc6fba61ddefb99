"""The examples in docs/guides/typed-files.md: each input gives the rows shown."""

import io
from itertools import pairwise

import msgspec
import pytest
import yaml

from landfall.registry import output_format
from tests.support.driver.slice_landing import group
from tests.support.pages.markdown import DOCS, Code, code
from tests.support.payloads.own_schemas import is_data, landed

BLOCKS = code(DOCS / "guides/typed-files.md")
EXAMPLES = [
    (written, payloads, output)
    for (written, payloads), (_, output) in zip(
        pairwise(BLOCKS), pairwise(BLOCKS[1:]), strict=False
    )
    if written.language == "yaml" and output.language == "json"
]


def test_there_are_examples() -> None:
    formats = {yaml.safe_load(written.text)["output"]["format"] for written, _, _ in EXAMPLES}

    assert {"Parquet", "Orc", "Avro"} <= formats


@pytest.mark.parametrize(
    ("written", "payloads", "output"), EXAMPLES, ids=[str(i) for i in range(len(EXAMPLES))]
)
def test_the_input_gives_the_rows(written: Code, payloads: Code, output: Code) -> None:
    spec = yaml.safe_load(written.text)
    spec["output"] = {"url": "s3://bucket/root", **spec["output"]}
    values = [bytes.fromhex(line) for line in payloads.text.splitlines()]

    made, objects = landed([(100 + i, value) for i, value in enumerate(values)], spec)

    assert made.errors == ()
    format_ = output_format(group(**spec).spec.output)
    rows = [
        row
        for key, body in objects.items()
        if is_data(key)
        for row in format_.rows(io.BytesIO(body))
    ]
    assert [row.offset for row in rows] == [100 + i for i in range(len(values))]
    shown = [msgspec.json.decode(line) for line in output.text.splitlines()]
    assert [msgspec.json.decode(row.value or b"") for row in rows] == shown
