"""What the configuration of Connect's S3 sink becomes; a driver takes each of the groups."""

from typing import Any

import pytest

from landfall.migrate import connect
from landfall.migrate.properties import UnreadableError, without_includes
from landfall.migrate.report import Outcome
from landfall.migrate.secor import Wanted
from tests.support.migrations import SINK, of_sink

PARTITIONER = "partitioner.class"
PARTITIONERS = "io.confluent.connect.storage.partitioner"
REGISTRY = "value.converter.schema.registry.url"
AVRO = {
    "value.converter": "io.confluent.connect.avro.AvroConverter",
    REGISTRY: "http://registry:8081",
}
PARQUET = {**AVRO, "format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat"}
BYTES = {
    "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
    "format.class": "io.confluent.connect.s3.format.bytearray.ByteArrayFormat",
}
BY_TIME = {
    PARTITIONER: f"{PARTITIONERS}.TimeBasedPartitioner",
    "path.format": "'dt'=YYYY-MM-dd/'hr'=HH",
    "partition.duration.ms": "3600000",
    "timestamp.extractor": "Record",
    "timezone": "UTC",
}


def test_the_least_configuration_says_what_the_sink_does_by_default() -> None:
    group = of_sink().check()

    assert group.report.is_complete
    assert group.made["metadata"] == {"name": "s3-sink"}
    assert group.made["spec"] == {
        "generation": 1,
        "source": {
            "kafka": {
                "bootstrapServers": "kafka:9092",
                "groupId": "connect-s3-sink",
                "topics": ["clicks"],
                "startingOffsets": "Earliest",
            }
        },
        "decode": {"format": "Json"},
        "output": {
            "url": "s3://logs/topics",
            "existingObjects": "Keep",
            "s3": {"region": "us-west-2"},
            "format": "Json",
            "codec": "None",
            "rotate": {"maxRecords": 1000},
        },
        "route": {"pattern": "partition={kafka_partition}"},
        "badRecords": {"policy": "Fail"},
    }


@pytest.mark.parametrize(
    ("given", "field", "expected"),
    [
        ({"topics": "", "topics.regex": "app[.].+"}, "source.kafka.topicPattern", "app[.].+"),
        ({"topics": "a, b"}, "source.kafka.topics", ["a", "b"]),
        ({"topics.dir": "/raw/x/"}, "output.url", "s3://logs/raw/x"),
        ({"topics.dir": ""}, "output.url", "s3://logs"),
        ({"consumer.override.auto.offset.reset": "latest"}, "source.kafka.startingOffsets",
         "Latest"),
        ({"consumer.override.security.protocol": "SSL",
          "consumer.override.max.poll.records": "500"}, "source.kafka.properties",
         {"security.protocol": "SSL"}),
        ({"consumer.override.fetch.max.wait.ms": "9"}, "source.kafka.properties",
         {"fetch.wait.max.ms": 9}),
        ({"s3.region": "eu-central-1", "store.url": "http://minio:9000"}, "output.s3",
         {"region": "eu-central-1", "endpoint": "http://minio:9000"}),
        ({"s3.path.style.access.enabled": "true"}, "output.s3.pathStyle", True),
        ({"s3.ssea.name": "aws:kms", "s3.sse.kms.key.id": "k"}, "output.s3.sse",
         {"type": "aws:kms", "kmsKeyId": "k"}),
        ({"s3.acl.canned": "bucket-owner-full-control"}, "output.s3.acl",
         "bucket-owner-full-control"),
        ({"s3.part.size": "26214400"}, "output.s3.partBytes", 26214400),
        ({"s3.part.retries": "3"}, "output.s3.maxAttempts", 4),
        ({"s3.proxy.url": "http://proxy:3128"}, "output.s3.proxy", "http://proxy:3128"),
        ({"s3.credentials.provider.class":
          "io.confluent.connect.s3.auth.AwsAssumeRoleCredentialsProvider",
          "s3.credentials.provider.sts.role.arn": "arn:x"}, "output.s3.assumeRole",
         {"roleArn": "arn:x"}),
        ({"s3.compression.type": "gzip"}, "output.codec", "Gzip"),
        (PARQUET, "output.codec", "Snappy"),
        ({**PARQUET, "parquet.codec": "gzip"}, "output.codec", "Gzip"),
        (PARQUET, "output.columns", "FromSchema"),
        (PARQUET, "output.options", {"envelope": False}),
        ({**AVRO, "format.class": "x.AvroFormat", "avro.codec": "snappy"}, "output.codec",
         "Snappy"),
        (AVRO, "decode", {"format": "Avro", "registry": {"urls": ["http://registry:8081"]}}),
        ({**AVRO, "schema.compatibility": "BACKWARD"}, "decode.options.readerSchema", "Latest"),
        (BYTES, "output.format", "Text"),
        (BYTES, "output.options", {"extension": ".bin", "delimiter": r"\n",
                                   "delimiterInside": "Keep"}),
        ({"rotate.interval.ms": "60000", "rotate.schedule.interval.ms": "-1"},
         "uploadPolicy.maxAge", "60000ms"),
        ({"rotate.interval.ms": "60000", "rotate.schedule.interval.ms": "30000"},
         "uploadPolicy.maxAge", "30000ms"),
        ({"errors.tolerance": "all"}, "badRecords", {"policy": "DeadLetter", "maxRatio": "1"}),
        ({"behavior.on.null.values": "ignore"}, "badRecords.policy", "DeadLetter"),
        ({PARTITIONER: f"{PARTITIONERS}.FieldPartitioner", "partition.field.name": "a,b.c"},
         "route.pattern", "a={field:a}/b.c={field:b.c}"),
        (BY_TIME, "route.pattern", "dt=%Y-%m-%d/hr=%H"),
        ({**BY_TIME, "path.format": "'y'=YYYY/'m'=mm", "partition.duration.ms": "900000"},
         "route.pattern", "y=%Y/m={minute:15}"),
        ({**BY_TIME, PARTITIONER: f"{PARTITIONERS}.HourlyPartitioner"}, "route.pattern",
         "year=%Y/month=%m/day=%d/hour=%H"),
        ({**BY_TIME, PARTITIONER: f"{PARTITIONERS}.DailyPartitioner"}, "route.pattern",
         "year=%Y/month=%m/day=%d"),
        ({**BY_TIME, "timezone": "Europe/Berlin"}, "route.timezone", "Europe/Berlin"),
        ({**BY_TIME, "timestamp.extractor": "RecordField", "timestamp.field": "meta.at"},
         "decode.timestamp", {"field": "meta.at"}),
        ({**BY_TIME, "timestamp.extractor": "RecordField"}, "decode.timestamp",
         {"field": "timestamp"}),
        ({"transforms": "a", "transforms.a.type": "x.ReplaceField$Value",
          "transforms.a.exclude": "ip,mail", "transforms.a.renames": "b:c"}, "transforms",
         [{"use": "Select", "options": {"drop": ["ip", "mail"]}},
          {"use": "Rename", "options": {"b": "c"}}]),
        ({"transforms": "f", "transforms.f.type": "x.Flatten$Value"}, "transforms",
         [{"use": "Flatten", "options": {"separator": "."}}]),
    ],
)  # fmt: skip
def test_a_setting_is_taken(given: dict[str, str], field: str, expected: Any) -> None:
    group = of_sink(given).check()

    assert group[field] == expected
    assert group.report.is_complete


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"connector.class": "own.Sink"}, "connector.class"),
        ({"value.converter": "own.Converter"}, "value.converter"),
        ({"value.converter": "a.StringConverter"}, "format.class"),
        ({"value.converter.schemas.enable": "true"}, "value.converter.schemas.enable"),
        ({"format.class": "own.Format"}, "format.class"),
        ({**PARQUET, "parquet.codec": "brotli"}, "parquet.codec"),
        ({"s3.wan.mode": "true"}, "s3.wan.mode"),
        ({"s3.sse.customer.key": "k"}, "s3.sse.customer.key"),
        ({"s3.acl.canned": "public-read"}, "s3.acl.canned"),
        ({"s3.credentials.provider.class": "own.Provider"}, "s3.credentials.provider.class"),
        ({"directory.delim": "-"}, "directory.delim"),
        ({"store.kafka.keys": "true"}, "store.kafka.keys"),
        ({"behavior.on.null.values": "write"}, "behavior.on.null.values"),
        ({PARTITIONER: "own.Partitioner"}, PARTITIONER),
        ({PARTITIONER: f"{PARTITIONERS}.TimeBasedPartitioner"}, PARTITIONER),
        ({**BY_TIME, "timestamp.extractor": "Wallclock"}, "timestamp.extractor"),
        ({**BY_TIME, "path.format": "'w'=w"}, "path.format"),
        ({**BY_TIME, "partition.duration.ms": "7200000"}, "path.format"),
        ({**PARQUET, "transforms": "a", "transforms.a.type": "x.Flatten$Value"}, "transforms"),
        ({"transforms": "a", "transforms.a.type": "x.RegexRouter"}, "transforms.a.type"),
        ({"transforms": "a", "transforms.a.type": "x.Flatten$Value",
          "transforms.a.predicate": "p"}, "transforms.a.predicate"),
        ({"consumer.override.own.setting": "1"}, "consumer.override.own.setting"),
        ({"flush.size": "many"}, "flush.size"),
    ],
)  # fmt: skip
def test_what_is_not_supported_says_so_and_a_group_is_made(given: dict[str, str], key: str) -> None:
    group = of_sink(given)

    assert group.account(key).outcome is Outcome.NOT_SUPPORTED
    assert group.account(key).why
    assert not group.report.is_complete


def test_fields_of_json_with_schemas_are_below_the_payload() -> None:
    wrapped = {"value.converter.schemas.enable": "true"}
    by_field = {PARTITIONER: f"{PARTITIONERS}.FieldPartitioner", "partition.field.name": "a"}
    by_time = {**BY_TIME, "timestamp.extractor": "RecordField", "timestamp.field": "at"}

    assert of_sink({**wrapped, **by_field})["route.pattern"] == "a={field:payload.a}"
    assert of_sink({**wrapped, **by_time})["decode.timestamp.field"] == "payload.at"


def test_a_wall_clock_is_the_default_of_partitioners_by_time() -> None:
    given = {key: text for key, text in BY_TIME.items() if key != "timestamp.extractor"}

    report = of_sink(given).report

    assert any("timestamp.extractor is not given" in each for each in report.missing)


@pytest.mark.parametrize(
    ("given", "secret", "keys"),
    [
        ({"aws.access.key.id": "a", "aws.secret.access.key": "b"}, "s3-sink-s3",
         ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]),
        ({"s3.proxy.url": "http://u:p@proxy:1"}, "s3-sink-s3", ["PROXY_USER", "PROXY_PASSWORD"]),
        ({"s3.proxy.url": "http://proxy:1", "s3.proxy.user": "u", "s3.proxy.password": "p"},
         "s3-sink-s3", ["PROXY_USER", "PROXY_PASSWORD"]),
        ({**AVRO, "value.converter.basic.auth.user.info": "u:p"}, "s3-sink-registry",
         ["username", "password"]),
        ({**AVRO, REGISTRY: "http://u:p@registry:8081"}, "s3-sink-registry",
         ["username", "password"]),
        ({"consumer.override.ssl.key.password": "p"}, "s3-sink-kafka", ["ssl.key.password"]),
    ],
)  # fmt: skip
def test_secrets_are_named(given: dict[str, str], secret: str, keys: list[str]) -> None:
    report = of_sink(given).report

    assert [(each.name, list(each.keys)) for each in report.secrets] == [(secret, keys)]
    assert report.is_complete


def test_kafkas_address_is_missing_unless_it_is_given() -> None:
    without = of_sink(wanted=Wanted())
    overridden = of_sink({"consumer.override.bootstrap.servers": "k:1"}, Wanted())

    assert any("--bootstrap-servers" in each for each in without.report.missing)
    assert overridden["source.kafka.bootstrapServers"] == "k:1"
    assert overridden.report.is_complete


def test_a_converter_of_the_worker_is_missing() -> None:
    report = of_sink({"value.converter": ""}).report

    assert any(each.startswith("value.converter: ") for each in report.missing)


@pytest.mark.parametrize(
    "document", [{"name": "x", "config": {"topics": "a"}}, {"name": "x", "topics": "a"}]
)
def test_a_configuration_has_two_shapes(document: object) -> None:
    settings = connect.settings_of(connect.config_of(document, "x.json"), {})

    assert (settings.text("name"), settings.text("topics")) == ("x", "a")


def test_numbers_and_flags_are_text_and_null_is_empty() -> None:
    lines = connect.config_of({"a": 1, "b": True, "c": None}, "x.json")

    assert [line.values for line in lines] == [("1",), ("true",), ("",)]


@pytest.mark.parametrize("document", [[], "x", {"topics": ["a"]}, {"config": {"a": {}}}])
def test_what_is_no_configuration_is_refused(document: object) -> None:
    with pytest.raises(UnreadableError, match=r"^x.json: "):
        connect.config_of(document, "x.json")


def test_the_properties_of_a_standalone_worker_are_a_configuration() -> None:
    text = "".join(f"{key}={value}\n" for key, value in SINK.items())
    settings = connect.settings_of(list(without_includes("sink.properties", text)), {})

    draft = connect.convert(settings, Wanted(bootstrap_servers="kafka:9092"))

    assert draft.close() == of_sink().made
