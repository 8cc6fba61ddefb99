"""The examples in docs/guides/payloads.md: each input gives the output shown."""

from itertools import pairwise

import pytest
import yaml

from landfall import registry
from landfall.api.spec import parse_group
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.records import filled
from tests.support.groups import document
from tests.support.markdown import DOCS, Code, code

BLOCKS = code(DOCS / "guides/payloads.md")
EXAMPLES = [
    (written, payloads, output)
    for (written, payloads), (_, output) in zip(
        pairwise(BLOCKS), pairwise(BLOCKS[1:]), strict=False
    )
    if written.language == "yaml"
]


def test_there_is_an_example_of_each_decoder() -> None:
    formats = {yaml.safe_load(written.text)["decode"]["format"] for written, _, _ in EXAMPLES}

    assert formats == registry.DECODERS.keys() - {"Raw", "Json", "Delimited", "Regex"}


@pytest.mark.parametrize(
    ("written", "payloads", "output"), EXAMPLES, ids=[str(i) for i in range(len(EXAMPLES))]
)
def test_the_input_gives_the_output(written: Code, payloads: Code, output: Code) -> None:
    spec = yaml.safe_load(written.text)
    base = document("example")
    base["spec"] |= {**spec, "output": base["spec"]["output"] | spec["output"]}
    pipeline = registry.pipeline(parse_group(base).spec)
    values = (
        [bytes.fromhex(line) for line in payloads.text.splitlines()]
        if payloads.language == "hex"
        else [line.encode() for line in payloads.text.splitlines()]
    )

    decoded = pipeline.decoder.decode(
        filled(TopicPartition("t", 0), range(len(values)), list(values))
    )

    assert output.language == "json"
    assert [error for error in decoded.bad.errors if error] == []
    assert [value.decode() for value in decoded.records.values.to_pylist()] == (
        output.text.splitlines()
    )
    assert not pipeline.router.route(decoded.records, decoded.fields).bad
