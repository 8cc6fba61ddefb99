"""What the configuration of Connect's S3 sink becomes; a driver takes each of the groups."""

from typing import Any

import pytest

from landfall.errors import Stalled
from landfall_migrate import connect
from landfall_migrate.connect import ConnectInput
from landfall_migrate.connect.route import OF_PARTITIONERS
from landfall_migrate.properties import UnreadableError, without_includes
from landfall_migrate.report import KeyOutcome
from landfall_migrate.secor import GroupChoices
from tests.support.pages.migrations import SINK, of_sink

PARTITIONER = "partitioner.class"
PARTITIONERS = "io.confluent.connect.storage.partitioner"
SCHEMAS = "value.converter.schemas.enable"
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
        ({PARTITIONER: "own.Partitioner", "path.format": "YYYY"}, "path.format"),
        ({"format.class": "own.Format", "s3.compression.type": "gzip"}, "s3.compression.type"),
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

    assert group.account(key).outcome is KeyOutcome.NOT_SUPPORTED
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
    without = of_sink(wanted=GroupChoices())
    overridden = of_sink({"consumer.override.bootstrap.servers": "k:1"}, GroupChoices())

    assert any("--bootstrap-servers" in each for each in without.report.missing)
    assert overridden["source.kafka.bootstrapServers"] == "k:1"
    assert overridden.report.is_complete


@pytest.mark.parametrize(
    ("given", "field", "left"),
    [
        ({"value.converter": None}, "decode.format", "SET-ME"),
        ({"value.converter": "own.Converter"}, "decode.format", "SET-ME"),
        ({"format.class": None}, "output.format", "SET-ME"),
        ({"format.class": "own.Format"}, "output.format", "SET-ME"),
        ({"value.converter": "a.StringConverter"}, "output.format", "SET-ME"),
        ({PARTITIONER: "own.Partitioner"}, "route.pattern", "{SET-ME}"),
        ({**BY_TIME, "path.format": "'w'=w"}, "route.pattern", "{SET-ME}"),
        ({PARTITIONER: f"{PARTITIONERS}.TimeBasedPartitioner"}, "route.pattern", "{SET-ME}"),
        ({PARTITIONER: f"{PARTITIONERS}.FieldPartitioner"}, "route.pattern", "{SET-ME}"),
        ({**PARQUET, "value.converter": "x.JsonSchemaConverter"}, "output.columns", "SET-ME"),
    ],
)  # fmt: skip
def test_what_nothing_decides_is_left_open_and_no_driver_takes_the_group(
    given: dict[str, str | None], field: str, left: str
) -> None:
    group = of_sink(given)

    assert group[field] == left
    assert f"{field.rpartition('.')[2]}: " in group.yaml
    assert any(each.startswith(f"{field}: set it: ") for each in group.report.missing)
    with pytest.raises(Stalled, match=rf"spec\.{field}: .*SET-ME"):
        group.check()


def test_what_is_decided_is_kept_beside_what_is_not() -> None:
    subway = {
        "value.converter": None,
        "schema.generator.class": f"{PARTITIONERS}.DefaultSchemaGenerator",
        "s3.compression.type": "gzip",
    }
    parquet = {"value.converter": None, "format.class": "x.ParquetFormat"}

    assert of_sink(subway)["output.format"] == "Json"
    assert of_sink(subway)["output.codec"] == "Gzip"
    assert of_sink(subway).account("schema.generator.class").outcome is KeyOutcome.NOT_NEEDED
    assert of_sink(parquet)["output.columns"] == "FromSchema"
    assert of_sink(parquet)["output.options"] == {"envelope": False}


WORKER = {
    "bootstrap.servers": "broker:9092",
    "group.id": "connect-cluster",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    SCHEMAS: "false",
    "consumer.security.protocol": "SSL",
    "consumer.auto.offset.reset": "latest",
    "plugin.path": "/plugins",
}


def test_a_worker_says_what_a_connector_leaves_out() -> None:
    without = {"value.converter": None, "value.converter.schemas.enable": None}

    group = of_sink(without, GroupChoices(), worker=WORKER).check()

    assert group.report.is_complete
    assert group["decode.format"] == "Json"
    assert group["source.kafka.bootstrapServers"] == "broker:9092"
    assert group["source.kafka.properties"] == {"security.protocol": "SSL"}
    assert group["source.kafka.startingOffsets"] == "Latest"
    assert "plugin.path" not in {each.key for each in group.report.accounts}


def test_a_connector_counts_more_than_its_worker() -> None:
    worker = {**WORKER, "value.converter": "x.AvroConverter", "value.converter.own": "x"}
    own = {"consumer.override.auto.offset.reset": "earliest"}

    group = of_sink(own, GroupChoices(), worker=worker).check()

    assert group.report.is_complete
    assert group["decode.format"] == "Json"
    assert group["source.kafka.startingOffsets"] == "Earliest"


def test_options_of_a_converter_that_is_the_workers_are_not_read() -> None:
    """Connect reads them only beside the connector's own converter."""
    given = {"value.converter": None, SCHEMAS: "false"}
    default = {key: text for key, text in WORKER.items() if key != SCHEMAS}

    of_both = of_sink(given, GroupChoices(), worker={**WORKER, SCHEMAS: "true"})
    of_default = of_sink(given, GroupChoices(), worker=default)

    assert of_both.account(SCHEMAS).outcome is KeyOutcome.NOT_SUPPORTED
    assert of_default.account(SCHEMAS).outcome is KeyOutcome.NOT_NEEDED
    assert any(each.startswith(f"{SCHEMAS} is not read") for each in of_default.report.missing)


def test_variables_have_the_values_of_options() -> None:
    given = {"topics": "${TXNS_TOPIC}", "s3.region": "${REGION}", "store.url": "http://${HOST}"}

    open_ = of_sink(given)
    group = of_sink(given, options={"TXNS_TOPIC": "txns", "REGION": "eu-west-1", "HOST": "minio"})

    assert open_.account("topics").why == "nothing defines ${TXNS_TOPIC}: give it with -D, or --env"
    assert open_["output.s3"] is None
    assert group.check().report.is_complete
    assert group["source.kafka.topics"] == ["txns"]
    assert group["output.s3"] == {"region": "eu-west-1", "endpoint": "http://minio"}


def test_an_option_that_is_no_variable_is_a_key() -> None:
    group = of_sink({"value.converter": None}, options={"value.converter": "x.JsonConverter"})

    assert group.check()["decode.format"] == "Json"


@pytest.mark.parametrize(
    ("reset", "otherwise"),
    [
        ("earliest", "or all that Kafka has is landed again"),
        ("latest", "or what arrives between its stop and the first start is lost"),
    ],
)
def test_a_start_says_what_happens_without_the_old_offsets(reset: str, otherwise: str) -> None:
    group = of_sink({"consumer.override.auto.offset.reset": reset})

    comment = dict(group.report.defaults)["source.kafka.startingOffsets"]
    assert comment == f"before the first start: the old program's offsets, {otherwise}"


def test_a_partitioner_of_fields_and_time_is_a_route() -> None:
    """As github.com/canelmas/kafka-connect-field-and-time-partitioner has it."""
    by_both = {
        **BY_TIME,
        PARTITIONER: "com.canelmas.kafka.connect.FieldAndTimeBasedPartitioner",
        "partition.field.name": "channel,app",
        "path.format": "'year'=YYYY/'month'=MM/'day'=dd",
        "partition.duration.ms": "86400000",
        "timezone": "Europe/Istanbul",
    }

    group = of_sink(by_both).check()
    plain = of_sink({**by_both, "partition.field.format.path": "false"}).check()

    assert group.report.is_complete
    assert group["route"] == {
        "pattern": "channel={field:channel}/app={field:app}/year=%Y/month=%m/day=%d",
        "timezone": "Europe/Istanbul",
    }
    assert plain["route.pattern"] == "{field:channel}/{field:app}/year=%Y/month=%m/day=%d"


@pytest.mark.parametrize("key", [*OF_PARTITIONERS, "timestamp.field"])
def test_a_key_that_decides_folders_is_open_with_them(key: str) -> None:
    value = {"partition.duration.ms": "9", "partition.field.format.path": "false"}.get(key, "x")

    account = of_sink({PARTITIONER: "own.Partitioner", key: value}).account(key)

    expected = KeyOutcome.NOT_NEEDED if key == "timestamp.field" else KeyOutcome.NOT_SUPPORTED
    assert account.outcome is expected
    assert "set route" in account.why or key == "timestamp.field"


def test_a_path_without_a_duration_makes_folders_and_is_reported() -> None:
    group = of_sink({**BY_TIME, "partition.duration.ms": ""})

    assert group.check()["route.pattern"] == "dt=%Y-%m-%d/hr=%H"
    assert any("partition.duration.ms is not given" in each for each in group.report.missing)
    assert group.account("path.format").outcome is KeyOutcome.TAKEN


def test_changes_of_debezium_are_not_unwrapped() -> None:
    given = {
        **PARQUET,
        "transforms": "u",
        "transforms.u.type": "io.debezium.transforms.ExtractNewRecordState",
    }

    assert "after.NAME" in of_sink(given).account("transforms.u.type").why


STRIMZI = {
    "apiVersion": "kafka.strimzi.io/v1beta2",
    "kind": "KafkaConnector",
    "metadata": {"name": "s3-sink", "labels": {"strimzi.io/cluster": "connect"}},
    "spec": {
        "class": SINK["connector.class"],
        "tasksMax": 2,
        "config": {
            key: text for key, text in SINK.items() if key not in {"name", "connector.class"}
        },
    },
}


def test_a_resource_of_strimzi_is_a_configuration() -> None:
    worker = {"kind": "KafkaConnect", "spec": {"bootstrapServers": "kafka:9092", "config": {}}}
    given = ConnectInput(
        connect.config_of(STRIMZI, "a.yaml"), connect.worker_config_of(worker, "b.yaml")
    )

    draft = connect.convert(connect.settings_of(given), GroupChoices())

    assert draft.close() == of_sink().made
    assert draft.report().is_complete


@pytest.mark.parametrize("document", [{}, [], {"spec": 1}, {"spec": {"config": 1}}, None])
def test_what_is_no_worker_is_refused(document: object) -> None:
    with pytest.raises(UnreadableError, match=r"^b.yaml: "):
        connect.worker_config_of(document, "b.yaml")


@pytest.mark.parametrize(
    "document", [{"name": "x", "config": {"topics": "a"}}, {"name": "x", "topics": "a"}]
)
def test_a_configuration_has_two_shapes(document: object) -> None:
    settings = connect.settings_of(ConnectInput(connect.config_of(document, "x.json")))

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
    settings = connect.settings_of(ConnectInput([*without_includes("sink.properties", text)]))

    draft = connect.convert(settings, GroupChoices(bootstrap_servers="kafka:9092"))

    assert draft.close() == of_sink().made
