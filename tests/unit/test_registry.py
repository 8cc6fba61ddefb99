from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pytest

from landfall import registry
from landfall.api.spec import ConsumerGroup, Decode, parse_group
from landfall.errors import Reason, Stalled
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.decoders import Wanted
from landfall.pipeline.decoders.json import JsonDecoder
from landfall.pipeline.records import of_columns
from tests.support.payloads.protobuf_payloads import inline


def group(**spec: object) -> ConsumerGroup:
    base = {
        "source": {"kafka": {"bootstrapServers": "localhost:9092", "topics": ["t"]}},
        "output": {"url": "file:///tmp/out", "format": "Text"},
    }
    return parse_group(
        {
            "apiVersion": "landfall.dev/v1alpha1",
            "kind": "ConsumerGroup",
            "metadata": {"name": "g"},
            "spec": base | spec,
        }
    )


OPTIONS: Mapping[str, Mapping[str, object]] = {
    "Delimited": {"columns": ["a"]},
    "Csv": {"columns": ["a"]},
    "Regex": {"pattern": "(?P<a>x)"},
    "Thrift": {"idl": "struct A { 1: i64 a }", "struct": "A"},
    "Avro": {"schema": '{"type": "record", "name": "R", "fields": []}'},
    "Protobuf": {"descriptors": inline(), "message": "shop.Event"},
    "JsonSchema": {"schema": "{}"},
}
"""The options that a decoder cannot be without."""


def test_every_built_in_name_can_be_built() -> None:
    for name in registry.DECODERS:
        registry.check_spec(group(decode={"format": name, "options": OPTIONS.get(name, {})}))
    for name in registry.FORMATS:
        decoder = "Avro" if name == "Avro" else "Json"
        registry.check_spec(
            group(
                decode={"format": decoder, "options": OPTIONS.get(decoder, {})},
                output={"url": "file:///tmp/out", "format": name},
            )
        )


@pytest.mark.parametrize(
    ("spec", "output_format"),
    [
        ({}, "SequenceFile"),
        ({"decode": {}}, "SequenceFile"),
        ({"decode": {"format": "Raw"}}, "SequenceFile"),
        ({"decode": {"format": "Json"}}, "Json"),
        ({"decode": {"format": "examples.plugins.logfmt:Logfmt"}}, "Json"),
    ],
)
def test_the_default_output_format_fits_the_decoder(
    spec: Mapping[str, object], output_format: str
) -> None:
    made = group(output={"url": "s3://logs/backup"}, **spec)

    registry.check_spec(made)
    assert made.spec.output.format == output_format


def test_the_decoder_extracts_what_all_stages_read() -> None:
    stages = registry.pipeline(
        group(
            decode={
                "format": "Json",
                "timestamp": {"field": "meta.ts"},
                "columns": [{"name": "a", "type": "Int64"}],
            },
            transforms=[{"use": "examples.plugins.levels:Levels"}],
            route={"pattern": "dt={date}/{field:country}"},
        ).spec
    )

    assert isinstance(stages.decoder, JsonDecoder)
    assert list(stages.decoder.documents.fields) == [("meta", "ts"), ("country",), ("level",)]
    assert [leaf.path for leaf in stages.decoder.documents.columns] == [("a",)]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"decode": {"format": "Jsn"}},
            "spec.decode.format: must be Raw, Json, Delimited, Regex, MessagePack, Csv, Thrift, ",
        ),
        (
            {"decode": {"format": "Json", "registry": {"urls": ["http://registry:8081"]}}},
            "spec.decode.registry: Json asks no schema registry; those that do are Avro, Proto",
        ),
        (
            {"decode": {"format": "nowhere:Name"}},
            "spec.decode.format: cannot import decoder 'nowhere:Name': No module",
        ),
        (
            {"decode": {"format": "json:Name"}},
            "spec.decode.format: cannot import decoder 'json:Name': module 'json' has",
        ),
        ({"decode": {"format": ":"}}, "spec.decode.format: must be Raw, Json, Delimited"),
        (
            {"decode": {"format": "json:loads"}},
            "spec.decode: 'function' object has no attribute 'of'",
        ),
        (
            {"decode": {"format": "Json", "options": {"x": 1}}},
            "spec.decode.options: unknown option x; there are none",
        ),
        (
            {"decode": {"timestamp": {"field": "a.b"}}},
            "spec.decode: Raw payloads have no fields (a.b); decode.format Json, Avro",
        ),
        ({"route": {"pattern": "dt={when}"}}, "spec.route.pattern: unknown placeholder '{when}'"),
        (
            {"transforms": [{"use": "nowhere:Name"}]},
            "spec.transforms[0].use: cannot import transform 'nowhere:Name'",
        ),
        (
            {
                "transforms": [
                    {"use": "examples.plugins.levels:Levels", "options": {"least": "loud"}}
                ]
            },
            "spec.transforms[0].options: Invalid enum value 'loud' - at `$.least`",
        ),
        (
            {"output": {"url": "file:///tmp/x", "format": "Csv"}},
            "spec.output.format: must be Text, Json, SequenceFile, Parquet, Orc, Avro, or package.",
        ),
        (
            {"output": {"url": "file:///tmp/x", "format": "Text", "options": {"x": 1}}},
            "spec.output.options: unknown option x; the options are codec, delimiter, ",
        ),
        (
            {"output": {"url": "file:///tmp/x", "format": "Text", "codec": "Snappy"}},
            "spec.output.codec: must be Gzip, Zstd or None, got 'Snappy'",
        ),
        (
            {"output": {"url": "file:///tmp/x", "format": "Text", "options": {"delimeter": "x"}}},
            "spec.output.options: unknown option delimeter, did you mean delimiter?; the options",
        ),
        (
            {"output": {"url": "file:///tmp/x", "format": "Text", "options": {"delimiter": 1}}},
            "spec.output.options.delimiter: 1 is not text",
        ),
        (
            {"output": {"url": "file:///tmp/x", "format": "Json"}},
            "spec.decode: Raw payloads have no JSON, which output.format Json writes; choose",
        ),
    ],
)
def test_a_wrong_spec_is_refused_with_the_path_of_the_field(
    spec: Mapping[str, object], message: str
) -> None:
    with pytest.raises(Stalled) as refused:
        registry.check_spec(group(**spec))

    assert refused.value.reason is Reason.SPEC_INVALID
    assert str(refused.value)[: len(message)] == message


@pytest.mark.parametrize("name", registry.DECODERS)
@pytest.mark.parametrize("cut", [slice(0, 0), slice(1, 3)])
def test_a_decoder_takes_no_rows_and_a_part_of_a_column(name: str, cut: slice) -> None:
    decode = Decode(format=name, options=dict(OPTIONS.get(name, {})))
    decoder = registry.decoder(decode, Wanted())
    whole = pa.array([b"xx", None, b"", b"xxx"], pa.binary())
    part = whole[cut]

    got = decoder.decode(of_columns(TopicPartition("t", 0), np.arange(len(part)), part))

    assert len(got.records) + len(got.bad) == len(part)
    # To the others an empty payload is bad; the tombstone before it never is.
    takes_empty = name in {"Raw", "Delimited", "Csv", "Protobuf", "Avro"}
    assert got.bad.rows.tolist() == ([1] if len(part) and not takes_empty else [])
