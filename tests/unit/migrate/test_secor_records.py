"""What Secor's parsers, folders, formats and codecs become; a driver takes each of the groups."""

from typing import Any

import pytest

from landfall import registry
from landfall.api.spec import parse_group
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.decoders import Wanted
from landfall.pipeline.records import filled
from landfall_migrate.keys import WITHOUT_EFFECT
from landfall_migrate.report import KeyOutcome
from landfall_migrate.secor.files import FORMATS
from landfall_migrate.secor.records import FIRST_FIELD, PARSERS
from landfall_migrate.secor.topics import orc_columns
from tests.support.pages.migrations import PACKAGE, Migrated, of_secor

REGISTRY = {"schema.registry.url": "http://registry:8081"}
PARSER = "secor.message.parser.class"
FACTORY = "secor.file.reader.writer.factory"
CODEC = "secor.compression.codec"
GRANULARITY = "partitioner.granularity"
PATTERN = "message.timestamp.input.pattern"


def with_parser(name: str, **more: str) -> Migrated:
    given = {key.replace("__", "."): value for key, value in more.items()}
    return of_secor({PARSER: f"{PACKAGE}.parser.{name}", **REGISTRY, **given})


def with_format(name: str, given: dict[str, str] | None = None) -> Migrated:
    factory = f"{PACKAGE}.io.impl.{name}FileReaderWriterFactory"
    return of_secor({FACTORY: factory, **REGISTRY, **(given or {})})


NESTED = {"message.timestamp.name": "meta/at", "message.timestamp.name.separator": "/"}


@pytest.mark.parametrize(
    ("parser", "given", "decode"),
    [
        ("JsonMessageParser", {}, {"format": "Json", "timestamp": {
            "field": "timestamp", "missing": "DeadLetter"}}),
        ("JsonMessageParser", NESTED, {"format": "Json", "timestamp": {
            "field": "meta/at", "separator": "/", "missing": "DeadLetter"}}),
        ("JsonMessageParser", {"message.timestamp.name": "a.b"}, {"format": "Json", "timestamp": {
            "field": "a.b", "separator": "", "missing": "DeadLetter"}}),
        ("JsonMessageParser", {"message.timestamp.required": "false"}, {
            "format": "Json", "timestamp": {"field": "timestamp", "missing": "Epoch"}}),
        ("JsonMessageParser", {"kafka.useTimestamp": "true"}, {"format": "Raw"}),
        ("Iso8601MessageParser", {}, {"format": "Json", "timestamp": {
            "field": "timestamp", "unit": "Iso8601", "missing": "DeadLetter"}}),
        ("DateMessageParser", {PATTERN: "yyyy-MM-dd", "secor.parser.timezone": "Europe/Berlin"},
         {"format": "Json", "timestamp": {
             "field": "timestamp", "unit": "Custom", "format": "%Y-%m-%d",
             "timezone": "Europe/Berlin", "missing": "DeadLetter"}}),
        ("SplitByFieldMessageParser", {"message.split.field.name": "kind",
                                       "kafka.useTimestamp": "true"},
         {"format": "Json", "timestamp": {"field": "timestamp"}}),
        ("AvroMessageParser", {}, {"format": "Avro", "timestamp": {
            "field": "timestamp", "missing": "DeadLetter"},
            "registry": {"urls": ["http://registry:8081"]}}),
        ("AvroIso8601MessageParser", {}, {"format": "Avro", "timestamp": {
            "field": "timestamp", "unit": "Iso8601", "missing": "DeadLetter"},
            "registry": {"urls": ["http://registry:8081"]}}),
        ("AvroSplitByFieldMessageParser", {"message.split.field.name": "kind"},
         {"format": "Avro", "timestamp": {"field": "timestamp", "missing": "DeadLetter"},
          "registry": {"urls": ["http://registry:8081"]}}),
        ("ThriftMessageParser", {"message.timestamp.id": "3"}, {
            "format": "Thrift", "timestamp": {"field": "3"}, "options": {
                "struct": "Message", "idl": "struct Message { 3: i64 timestamp }"}}),
        ("ThriftMessageParser", {
            "message.timestamp.type": "i32",
            "secor.thrift.protocol.class": "org.apache.thrift.protocol.TCompactProtocol"}, {
            "format": "Thrift", "timestamp": {"field": "1"}, "options": {
                "protocol": "Compact", "struct": "Message",
                "idl": "struct Message { 1: i32 timestamp }"}}),
        ("ProtobufMessageParser", {}, {"format": "Protobuf", "timestamp": {"field": "t"},
         "options": {"message": "Message", "descriptors": FIRST_FIELD}}),
        ("MessagePackParser", {}, {"format": "MessagePack", "timestamp": {"field": "timestamp"}}),
        ("RegexMessageParser", {PATTERN: "^([0-9]+)-"}, {
            "format": "Regex", "timestamp": {"field": "1"}, "options": {"pattern": "^([0-9]+)-"}}),
        ("OffsetMessageParser", {}, {"format": "Raw"}),
        ("PartitionedMessageParser", {}, {"format": "Raw"}),
        ("DailyOffsetMessageParser", {}, {"format": "Raw"}),
    ],
)  # fmt: skip
def test_a_parser_is_a_decoder(parser: str, given: dict[str, str], decode: Any) -> None:
    group = with_parser(parser, **{key.replace(".", "__"): text for key, text in given.items()})

    assert group.check()["decode"] == decode
    assert group.report.is_complete == (not PARSERS[parser].refusal)


def test_every_parser_is_tested_above() -> None:
    marks = test_a_parser_is_a_decoder.pytestmark  # type: ignore[attr-defined]

    assert {case[0] for case in marks[0].args[1]} == PARSERS.keys()


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({PARSER: "own.Parser"}, PARSER),
        ({PARSER: f"{PACKAGE}.parser.RegexMessageParser", PATTERN: "(?<=a)(b)"}, PATTERN),
        ({PARSER: f"{PACKAGE}.parser.DateMessageParser", PATTERN: "YYYY"}, PATTERN),
        ({PARSER: f"{PACKAGE}.parser.SplitByFieldMessageParser", "message.split.field.name": "a.b"},
         "message.split.field.name"),
        ({PARSER: f"{PACKAGE}.parser.ThriftMessageParser",
          "secor.thrift.protocol.class": "x.TJSONProtocol"}, "secor.thrift.protocol.class"),
        ({FACTORY: "own.Factory"}, FACTORY),
        ({CODEC: "org.apache.hadoop.io.compress.BZip2Codec"}, CODEC),
        ({f"{GRANULARITY}.date.format": "YYYY-MM-dd"}, f"{GRANULARITY}.date.format"),
        ({f"{GRANULARITY}.date.prefix": "{x}"}, f"{GRANULARITY}.date.prefix"),
        ({"secor.parser.timezone": "Mars/Olympus"}, "secor.parser.timezone"),
    ],
)  # fmt: skip
def test_what_has_no_counterpart_says_so(given: dict[str, str], key: str) -> None:
    group = of_secor({**REGISTRY, **given})

    assert group.account(key).outcome is KeyOutcome.NOT_SUPPORTED
    assert not group.report.is_complete


@pytest.mark.parametrize(
    ("given", "pattern"),
    [
        ({}, "dt={date}"),
        ({f"{GRANULARITY}.hour": "true"}, "dt={date}/hr={hour}"),
        ({f"{GRANULARITY}.minute": "true"}, "dt={date}/hr={hour}/min={minute}"),
        ({f"{GRANULARITY}.hour": "true", f"{GRANULARITY}.date.prefix": "day=",
          f"{GRANULARITY}.hour.prefix": "h=", f"{GRANULARITY}.hour.format": "HH"},
         "day={date}/h={hour}"),
        ({f"{GRANULARITY}.date.prefix": "", f"{GRANULARITY}.date.format": "yyyy/MM/dd"},
         "%Y/%m/%d"),
        ({f"{GRANULARITY}.minute": "true", f"{GRANULARITY}.minute.format": "mm'm'"},
         "dt={date}/hr={hour}/min=%Mm"),
    ],
)  # fmt: skip
def test_folders_are_a_route(given: dict[str, str], pattern: str) -> None:
    assert of_secor(given).check()["route.pattern"] == pattern


def test_a_field_comes_before_the_date() -> None:
    split = {"message__split__field__name": "kind"}
    prefixed = {**split, "partitioner__granularity__field__prefix": "k-"}

    assert with_parser("SplitByFieldMessageParser", **split)["route.pattern"] == (
        "{field:kind}/dt={date}"
    )
    assert with_parser("AvroSplitByFieldMessageParser", **split)["route.pattern"] == (
        "kind={field:kind}/dt={date}"
    )
    assert with_parser("AvroSplitByFieldMessageParser", **prefixed)["route.pattern"] == (
        "k-{field:kind}/dt={date}"
    )


def test_dates_of_text_have_no_hours_in_secor() -> None:
    group = with_parser(
        "DateMessageParser", **{PATTERN.replace(".", "__"): "yyyy"},
        partitioner__granularity__hour="true",
    )  # fmt: skip

    assert group["route.pattern"] == "dt={date}"
    assert group.account(f"{GRANULARITY}.hour").outcome is KeyOutcome.NOT_NEEDED


def test_a_setting_of_another_parser_has_no_effect() -> None:
    assert of_secor({PATTERN: "yyyy"}).account(PATTERN).why == WITHOUT_EFFECT


# ------------------------------------------------------------------------------------------ formats

GZIP, SNAPPY = (f"org.apache.hadoop.io.compress.{name}Codec" for name in ("Gzip", "Snappy"))
TYPED = {"envelope": False, "extension": ""}


@pytest.mark.parametrize(
    ("name", "given", "output"),
    [
        ("Sequence", {}, {"format": "SequenceFile", "codec": "Deflate",
                          "options": {"extension": ""}}),
        ("Sequence", {CODEC: GZIP}, {"format": "SequenceFile", "codec": "Gzip",
                                     "options": {"extension": ".gz"}}),
        ("Sequence", {"secor.file.extension": ".seq"}, {
            "format": "SequenceFile", "codec": "Deflate", "options": {"extension": ".seq"}}),
        ("MessagePackSequence", {}, {"format": "SequenceFile", "codec": "Deflate",
                                     "options": {"keyMode": "MessagePack", "extension": ""}}),
        ("DelimitedText", {}, {"format": "Text", "codec": "None", "options": {
            "delimiterInside": "Keep", "extension": ""}}),
        ("DelimitedText", {CODEC: GZIP, "secor.file.extension": ".log.gz"}, {
            "format": "Text", "codec": "Gzip", "options": {
                "delimiterInside": "Keep", "extension": ".log.gz"}}),
        ("FlexibleDelimited", {"secor.file.writer.Delimiter": "|"}, {
            "format": "Text", "codec": "None", "options": {
                "delimiterInside": "Keep", "extension": "", "delimiter": "|"}}),
        ("FlexibleDelimited", {"secor.file.writer.Delimiter": r"\t"}, {
            "format": "Text", "codec": "None", "options": {
                "delimiterInside": "Keep", "extension": "", "delimiter": r"\t"}}),
        ("Avro", {PARSER: f"{PACKAGE}.parser.AvroMessageParser", CODEC: SNAPPY}, {
            "format": "Avro", "codec": "Snappy",
            "options": {"envelope": False, "extension": ".snappy"}}),
        ("AvroParquet", {PARSER: f"{PACKAGE}.parser.AvroMessageParser",
                         "parquet.block.size": "1048576", "parquet.enable.dictionary": "true"}, {
            "format": "Parquet", "codec": "None", "columns": "FromSchema",
            "options": {**TYPED, "rowGroupBytes": 1048576, "dictionary": True}}),
        ("JsonORC", {CODEC: GZIP, "secor.orc.message.schema.*": r"struct<timestamp:bigint>"}, {
            "format": "Orc", "codec": "Deflate",
            "options": {"envelope": False, "extension": ".gz"}}),
    ],
)  # fmt: skip
def test_a_factory_is_a_format(name: str, given: dict[str, str], output: Any) -> None:
    group = with_format(name, given)

    assert group.check()["output"] == {
        "url": "s3://logs/raw",
        "existingObjects": "Keep",
        **output,
    }
    assert group.report.is_complete


@pytest.mark.parametrize("name", FORMATS)
def test_every_factory_has_a_group_that_the_parser_takes(name: str) -> None:
    group = with_format(name)

    assert group["output.format"] == FORMATS[name].format
    assert group.account(FACTORY).outcome is KeyOutcome.TAKEN
    if FORMATS[name].decoder:
        assert group["decode.format"] == FORMATS[name].decoder


def test_a_class_of_every_topic_is_the_groups_own_and_needs_its_schema() -> None:
    key = "secor.protobuf.message.class.*"
    group = with_format("ProtobufParquet", {
        PARSER: f"{PACKAGE}.parser.ProtobufMessageParser", key: "shop.Protos$Click",
        "message.timestamp.name": "at",
    })  # fmt: skip

    assert group["decode.options"] == {"message": "Click", "file": "/opt/schemas/protobuf.bin"}
    assert group["decode.timestamp.field"] == "at"
    assert group.account(key).outcome is KeyOutcome.NOT_SUPPORTED


def test_classes_and_schemas_of_topics_are_entries() -> None:
    thrift = with_format("ThriftParquet", {
        PARSER: f"{PACKAGE}.parser.ThriftMessageParser",
        "secor.thrift.message.class.app.clicks": "shop.Click",
    })  # fmt: skip
    avro = of_secor({
        PARSER: f"{PACKAGE}.parser.AvroMessageParser",
        "secor.avro.message.schema.clicks": "/avro/click.avsc",
    })  # fmt: skip

    assert thrift["topics"] == [
        {
            "pattern": r"app\.clicks",
            "decode": {"options": {"struct": "Click", "file": "/opt/schemas/schema.thrift"}},
        }
    ]
    assert avro["topics"] == [
        {"pattern": "clicks", "decode": {"options": {"schemaFile": "/avro/click.avsc"}}}
    ]
    assert avro.report.is_complete


def test_topics_whose_messages_are_json_are_not_made_into_protobuf() -> None:
    key = "secor.topic.message.format.clicks"

    assert of_secor({key: "JSON"}).account(key).outcome is KeyOutcome.NOT_SUPPORTED
    assert of_secor({key: "PROTOBUF"}).account(key).outcome is KeyOutcome.NOT_NEEDED


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ("struct<a:int,b:bigint>", [("a", "Int32"), ("b", "Int64")]),
        ("struct<a:array<string>,b:map<int,int>,c:decimal(3,2)>",
         [("a", "Json"), ("b", "Json"), ("c", "Json")]),
        (" struct<`a b`:string, d:varchar(3)> ", [("a b", "String"), ("d", "String")]),
        ("int", None),
        ("struct<a>", None),
    ],
)  # fmt: skip
def test_a_schema_of_orc_is_columns(schema: str, expected: list[tuple[str, str]] | None) -> None:
    columns = orc_columns(schema)

    assert columns == (expected and [{"name": name, "type": kind} for name, kind in expected])


def test_nested_columns_are_said_to_be_text() -> None:
    key = "secor.orc.message.schema.*"
    given = {key: r"struct<timestamp:bigint\,b:array<int>>"}
    group = with_format("JsonORC", given).check()

    assert [each["type"] for each in group["decode.columns"]] == ["Int64", "Json"]
    assert group.account(key).outcome is KeyOutcome.NOT_SUPPORTED


def test_the_first_field_of_any_protobuf_message_is_its_time() -> None:
    payload = bytes.fromhex("0880ccc6a4aa331203616e6e")  # 1: 1763697600000, 2: "ann"
    decode = parse_group(with_parser("ProtobufMessageParser").made).spec.decode

    decoder = registry.decoder(decode, Wanted(fields=(("t",),)))
    decoded = decoder.decode(filled(TopicPartition("a", 0), [0], [payload]))

    assert decoded.fields[("t",)].tolist() == [1763697600000]


def test_a_thrift_message_is_dated_by_a_number_without_its_idl() -> None:
    payload = bytes.fromhex("0a00010000019aa491a6000b000200000003616e6e00")
    decode = parse_group(with_parser("ThriftMessageParser").made).spec.decode

    decoder = registry.decoder(decode, Wanted(fields=(("1",),)))
    decoded = decoder.decode(filled(TopicPartition("a", 0), [0], [payload]))

    assert decoded.fields[("1",)].tolist() == [1763697600000]
