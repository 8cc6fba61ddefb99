"""Each key that has fields in a table is taken by them, under settings in which it counts."""

from collections.abc import Callable, Iterable, Mapping

import pytest

from landfall_migrate.client_properties import NOT_NEEDED, REFUSED, RENAMED
from landfall_migrate.connect.keys import KEYS as CONNECT
from landfall_migrate.keys import Keys
from landfall_migrate.report import KeyOutcome
from landfall_migrate.secor import GroupChoices
from landfall_migrate.secor.keys import KEYS as SECOR
from tests.support.pages.migrations import PACKAGE, Migrated, of_secor, of_sink

NEW = "kafka.new.consumer"
GRANULARITY = "partitioner.granularity"


def parser(name: str) -> dict[str, str]:
    return {"secor.message.parser.class": f"{PACKAGE}.parser.{name}"}


def factory(name: str) -> dict[str, str]:
    return {"secor.file.reader.writer.factory": f"{PACKAGE}.io.impl.{name}FileReaderWriterFactory"}


OF_SECOR = (
    {
        **{f"{NEW}.{name}": "x" for name in ("topic.list", "sasl.mechanism", "security.protocol")},
        **{f"{NEW}.{name}": "x" for name in ("sasl.kerberos.service.name", "ssl.key.password")},
        **{f"{NEW}.{name}": "9" for name in ("request.timeout.ms", "ssl.keystore.password")},
        f"{NEW}.ssl.keystore.type": "PKCS12",
        f"{NEW}.ssl.keystore.location": "/k.p12",
        f"{NEW}.auto.offset.reset": "earliest",
        f"{NEW}.sasl.jaas.config": 'x.PlainLoginModule required username="u" password="p";',
        **{f"kafka.fetch.{name}.bytes": "9" for name in ("min", "max")},
        "kafka.seed.broker.port": "1",
        "kafka.socket.receive.buffer.bytes": "9",
        "cloud.service": "S3",
        "secor.s3.filesystem": "s3a",
        "aws.role": "arn:x",
        **{f"aws.{name}": "x" for name in ("access.key", "secret.key", "session.token", "region")},
        "aws.endpoint": "h",
        "aws.client.pathstyleaccess": "true",
        "aws.sse.type": "KMS",
        "aws.sse.kms.key": "k",
        "aws.proxy.isEnabled": "true",
        "aws.proxy.http.host": "p",
        "aws.proxy.http.port": "1",
        "secor.generation": "1",
        "secor.upload.manager.class": f"{PACKAGE}.uploader.S3UploadManager",
        "message.timestamp.name": "a/b",
        "message.timestamp.name.separator": "/",
        **{f"{GRANULARITY}.{unit}": "true" for unit in ("hour", "minute")},
        **{f"{GRANULARITY}.{unit}.prefix": "x=" for unit in ("date", "hour", "minute")},
        f"{GRANULARITY}.date.format": "yyyy",
        f"{GRANULARITY}.hour.format": "HH",
        f"{GRANULARITY}.minute.format": "mm",
        "message.timestamp.required": "true",
        "secor.parser.timezone": "UTC",
        "secor.max.file.size.bytes": "9",
        "secor.max.file.age.seconds": "9000",
        "secor.kafka.upload_at_minute_mark.topic_filter": "a",
        "secor.upload.minute_mark": "5",
        "secor.consumer.max_bad_messages": "9",
        "partitioner.finalizer.delay.seconds": "9",
        "secor.finalizer.lookback.periods": "9",
        "secor.file.extension": ".x",
        "secor.file.writer.Delimiter": "|",
        "secor.compression.codec": "org.apache.hadoop.io.compress.GzipCodec",
        **factory("FlexibleDelimited"),
    },
    {
        "kafka.message.iterator.className": "x.LegacyKafkaMessageIterator",
        "kafka.consumer.auto.offset.reset": "smallest",
        "secor.kafka.topic_blacklist": "a",
        "kafka.fetch.message.max.bytes": "9",
        "kafka.fetch.wait.max.ms": "9",
        "cloud.service": "GS",
        "secor.gs.bucket": "b",
        "secor.gs.path": "p",
        "secor.gs.credentials.path": "/c",
        "secor.gs.connect.timeout.ms": "9",
        "secor.gs.read.timeout.ms": "9",
        "kafka.useTimestamp": "true",
    },
    {
        "cloud.service": "Azure",
        **{f"secor.azure.{name}": "x" for name in ("account.name", "account.key", "path")},
        "secor.azure.container.name": "x",
        "secor.azure.endpoints.protocol": "http",
        **parser("ThriftMessageParser"),
        "message.timestamp.id": "3",
        "message.timestamp.type": "i32",
        "secor.thrift.protocol.class": "x.TCompactProtocol",
    },
    {
        "secor.kafka.topic_filter": "a.*",
        **parser("AvroSplitByFieldMessageParser"),
        "message.split.field.name": "f",
        f"{GRANULARITY}.field.prefix": "g=",
        "schema.registry.url": "http://r",
        **factory("AvroParquet"),
        "parquet.block.size": "9",
        "parquet.page.size": "9",
        "parquet.enable.dictionary": "t",
    },
    {**parser("AvroMessageParser"), "secor.avro.message.schema.a": "/a.avsc"},
    {**parser("RegexMessageParser"), "message.timestamp.input.pattern": "(a)"},
    {**factory("JsonORC"), "secor.orc.message.schema.a": "struct<a:int>"},
)
ANSWERED_OTHERWISE = {
    *(f"{NEW}.{name}" for name in (*REFUSED, *NOT_NEEDED)),  # by the client's own table
    f"{NEW}.ssl.keystore.type",  # goes with the key store
    "secor.upload.class",  # in Python, or refused
    "secor.message.transformer.class",
    "secor.orc.schema.provider",
    "secor.topic.message.format.*",
    "secor.protobuf.message.class.*",  # taken, and refused because the schema is missing
    "secor.thrift.message.class.*",
    "secor.hive.table.name.*",  # needs a metastore
    "secor.hive.prefix",
    "hive.table.prefix",
    "secor.enable.qubole",
    "key.converter",  # only where something reads keys or headers
    "key.converter.*",
    "header.converter",
    "header.converter.*",
    "s3.schema.partition.affix.type",
    "predicates",
    "predicates.*",
}
"""Keys whose fields are advice: what takes their place must be written by hand."""
REGISTRY = "value.converter.schema.registry.url"
LOGIN = "value.converter.basic.auth.user.info"
ROLE = "s3.credentials.provider.sts.role"
AVRO = {"value.converter": "x.AvroConverter", REGISTRY: "http://r", LOGIN: "u:p"}
OF_CONNECT = (
    {
        "topics.dir": "t", "storage.class": "x.S3Storage", "s3.region": "r",
        "store.url": "http://h", "s3.path.style.access.enabled": "true",
        "aws.access.key.id": "a", "aws.secret.access.key": "b", "s3.acl.canned": "private",
        "s3.credentials.provider.class": "x.AwsAssumeRoleCredentialsProvider",
        **{f"{ROLE}.{name}": "x" for name in ("arn", "session.name", "external.id")},
        "s3.ssea.name": "aws:kms", "s3.sse.kms.key.id": "k", "s3.proxy.url": "http://p",
        "s3.proxy.user": "u", "s3.proxy.password": "p", "s3.part.size": "5242880",
        "s3.part.retries": "1", "s3.compression.type": "gzip", "timezone": "UTC",
        "errors.tolerance": "all", "behavior.on.null.values": "fail",
        "rotate.interval.ms": "9", "rotate.schedule.interval.ms": "9",
        "partitioner.class": "x.TimeBasedPartitioner", "path.format": "YYYY",
        "partition.duration.ms": "9", "timestamp.extractor": "RecordField",
        "timestamp.field": "a", "consumer.override.auto.offset.reset": "latest",
        "consumer.override.security.protocol": "SSL",
        "transforms": "a", "transforms.a.type": "x.Flatten$Value",
    },
    {**AVRO, "format.class": "x.AvroFormat", "avro.codec": "snappy", "topics": "",
     "topics.regex": "a", "schema.compatibility": "FULL"},
    {**AVRO, LOGIN: "", "value.converter.schema.registry.basic.auth.user.info": "u:p",
     "format.class": "x.ParquetFormat", "parquet.codec": "gzip"},
    {"value.converter": "x.ByteArrayConverter", "format.class": "x.ByteArrayFormat",
     "format.bytearray.extension": ".x", "format.bytearray.separator": "|"},
    {"partitioner.class": "x.FieldAndTimeBasedPartitioner", "partition.field.name": "a",
     "path.format": "YYYY", "partition.field.format.path": "true",
     "bootstrap.servers": "kafka:9092"},
)  # fmt: skip


def secor(given: Mapping[str, str]) -> Migrated:
    return of_secor(given, GroupChoices(finalizer=True))


@pytest.mark.parametrize(
    ("keys", "inputs", "migrated"), [(SECOR, OF_SECOR, secor), (CONNECT, OF_CONNECT, of_sink)]
)
def test_each_key_with_fields_is_taken_where_it_counts(
    keys: Keys, inputs: Iterable[dict[str, str]], migrated: Callable[..., Migrated]
) -> None:
    accounts = [each for given in inputs for each in migrated(given).report.accounts]
    taken = {each.key for each in accounts if each.outcome in {KeyOutcome.TAKEN, KeyOutcome.SECRET}}

    never = [
        row.key
        for row in keys.rows
        if row.fields and not any(keys.find(key) is row for key in taken)
    ]

    assert [key for key in never if key not in ANSWERED_OTHERWISE] == []


@pytest.mark.parametrize("name", sorted({*REFUSED, *NOT_NEEDED, *RENAMED}))
def test_a_property_of_the_java_client_has_an_answer(name: str) -> None:
    key = f"consumer.override.{name}"
    group = of_sink({key: "9"})

    expected = (
        KeyOutcome.NOT_SUPPORTED
        if name in REFUSED
        else KeyOutcome.NOT_NEEDED
        if name in NOT_NEEDED
        else KeyOutcome.TAKEN
    )
    assert group.account(key).outcome is expected
    if name in RENAMED:
        assert group.made["spec"]["source"]["kafka"]["properties"] == {RENAMED[name]: 9}
