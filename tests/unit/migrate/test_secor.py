"""What Secor's settings become: source, store, policies."""

from typing import Any

import pytest

from landfall.api.spec import parse_group
from landfall.errors import Stalled
from landfall_migrate.report import KeyOutcome
from landfall_migrate.secor import GroupChoices, SecorInput
from landfall_migrate.secor.keys import ENVIRONMENT, KEYS
from tests.support.pages.migrations import PACKAGE, of_files, of_secor

NEW = "kafka.new.consumer"
LEGACY = {"kafka.message.iterator.className": f"{PACKAGE}.reader.LegacyKafkaMessageIterator"}
BLACKLIST = "secor.kafka.topic_blacklist"
BAD = "secor.consumer.max_bad_messages"
MINUTE_MARK = "secor.kafka.upload_at_minute_mark.topic_filter"
PARSER = "secor.message.parser.class"


def test_the_least_settings_say_what_secor_does_by_default() -> None:
    group = of_secor().check()

    assert group.report.is_complete
    assert group.made["metadata"] == {"name": "secor-backup"}
    assert group.made["spec"] == {
        "generation": 2,
        "source": {
            "kafka": {
                "bootstrapServers": "kafka:9092",
                "groupId": "secor_backup",
                "topicPattern": ".*",
                "startingOffsets": "Earliest",
            }
        },
        "decode": {
            "format": "Json",
            "timestamp": {"field": "timestamp", "missing": "DeadLetter"},
        },
        "route": {"pattern": "dt={date}", "timezone": "UTC"},
        "output": {
            "url": "s3://logs/raw",
            "existingObjects": "Keep",
            "format": "SequenceFile",
            "codec": "Deflate",
            "options": {"extension": ""},
        },
        "uploadPolicy": {"maxBytes": 200_000_000, "maxAge": "3600s"},
        "badRecords": {"policy": "DeadLetter", "maxRatio": "0.5", "minCount": 1000},
    }


@pytest.mark.parametrize(
    ("given", "field", "expected"),
    [
        ({"kafka.seed.broker.port": "9094"}, "source.kafka.bootstrapServers", "kafka:9094"),
        ({"secor.kafka.topic_filter": "app[.].+"}, "source.kafka.topicPattern", "app[.].+"),
        ({f"{NEW}.topic.list": "a, b"}, "source.kafka.topics", ["a", "b"]),
        ({f"{NEW}.auto.offset.reset": "latest"}, "source.kafka.startingOffsets", "Latest"),
        ({**LEGACY, "kafka.consumer.auto.offset.reset": "largest"}, "source.kafka.startingOffsets",
         "Latest"),
        ({"kafka.consumer.auto.offset.reset": "largest"}, "source.kafka.startingOffsets",
         "Earliest"),
        ({**LEGACY, BLACKLIST: "b.*", "secor.kafka.topic_filter": ""}, "source.kafka.exclude",
         "b.*"),
        ({BLACKLIST: "b.*"}, "source.kafka.exclude", None),
        ({"secor.generation": "4"}, "generation", 5),
        ({"cloud.service": "GS", "secor.gs.bucket": "b", "secor.gs.path": "data"}, "output.url",
         "gs://b/data"),
        ({"secor.upload.manager.class": f"{PACKAGE}.uploader.GsUploadManager",
          "secor.gs.bucket": "b", "secor.gs.read.timeout.ms": "1000"}, "output.gcs.readTimeout",
         "1000ms"),
        ({"secor.upload.manager.class": f"{PACKAGE}.uploader.AzureUploadManager",
          "secor.azure.container.name": "c", "secor.azure.account.name": "a",
          "secor.azure.path": "/x/"}, "output.url", "abfss://c@a.dfs.core.windows.net/x"),
        ({"aws.region": "eu-central-1"}, "output.s3.region", "eu-central-1"),
        ({"aws.endpoint": "minio:9000"}, "output.s3.endpoint", "https://minio:9000"),
        ({"aws.endpoint": "http://minio:9000"}, "output.s3.endpoint", "http://minio:9000"),
        ({"aws.client.pathstyleaccess": "true"}, "output.s3.pathStyle", True),
        ({"aws.role": "arn:aws:iam::1:role/x"}, "output.s3.assumeRole",
         {"roleArn": "arn:aws:iam::1:role/x"}),
        ({"aws.sse.type": "S3"}, "output.s3.sse", {"type": "AES256"}),
        ({"aws.sse.type": "KMS", "aws.sse.kms.key": "k"}, "output.s3.sse",
         {"type": "aws:kms", "kmsKeyId": "k"}),
        ({"aws.proxy.isEnabled": "true", "aws.proxy.http.host": "p", "aws.proxy.http.port": "3128"},
         "output.s3.proxy", "http://p:3128"),
        ({"secor.max.file.size.bytes": "5000"}, "uploadPolicy.maxBytes", 5000),
        ({"secor.max.file.age.seconds": "300"}, "uploadPolicy.maxAge", "300s"),
        ({"secor.upload.deterministic": "true", "secor.max.input.payload.size.bytes": "9000"},
         "uploadPolicy", {"maxBytes": 9000}),
        ({"secor.upload.deterministic": "true", "secor.max.file.timestamp.range.millis": "60000"},
         "uploadPolicy", {"maxAge": "60000ms"}),
        ({MINUTE_MARK: "a.*", "secor.max.file.age.seconds": "7200"}, "uploadPolicy.overrides",
         [{"topics": "a.*", "maxAge": "1h"}]),
        ({MINUTE_MARK: "a.*", "secor.max.file.age.seconds": "600"}, "uploadPolicy",
         {"maxAge": "600s", "maxBytes": 200_000_000}),
        ({BAD: "-1"}, "badRecords", {"policy": "DeadLetter", "maxRatio": "1"}),
        ({BAD: "0"}, "badRecords", {"policy": "Fail"}),
        ({BAD: "10"}, "badRecords", {"policy": "DeadLetter", "maxRatio": "0.009901",
                                     "minCount": 10}),
        ({f"{NEW}.security.protocol": "SASL_SSL"}, "source.kafka.properties",
         {"security.protocol": "SASL_SSL"}),
        ({f"{NEW}.request.timeout.ms": "30000"}, "source.kafka.properties",
         {"socket.timeout.ms": 30000}),
        ({**LEGACY, "kafka.fetch.wait.max.ms": "50"}, "source.kafka.properties",
         {"fetch.wait.max.ms": 50}),
        ({"kafka.socket.receive.buffer.bytes": "65536"}, "source.kafka.properties",
         {"socket.receive.buffer.bytes": 65536}),
        ({f"{NEW}.ssl.keystore.location": "/k.p12", f"{NEW}.ssl.keystore.type": "PKCS12"},
         "source.kafka.properties", {"ssl.keystore.location": "/k.p12"}),
    ],
)  # fmt: skip
def test_a_setting_is_taken(given: dict[str, str], field: str, expected: Any) -> None:
    group = of_secor(given).check()

    assert group[field] == expected
    assert group.report.is_complete
    taken = {key for key in given if given[key] and group.account(key).outcome is KeyOutcome.TAKEN}
    assert taken or expected in {None, "Earliest"}


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"secor.s3.prefix.md5hash": "true"}, "secor.s3.prefix.md5hash"),
        ({"secor.s3.alter.path.date": "2026-01-01"}, "secor.s3.alter.path.date"),
        ({"cloud.service": "Swift"}, "cloud.service"),
        ({"aws.sse.type": "customer", "aws.sse.customer.key": "k"}, "aws.sse.type"),
        ({"secor.upload.manager.class": "own.Manager"}, "secor.upload.manager.class"),
        ({"secor.upload.class": "own.Uploader"}, "secor.upload.class"),
        ({"secor.message.transformer.class": "own.T"}, "secor.message.transformer.class"),
        ({f"{NEW}.ssl.truststore.location": "/t.jks"}, f"{NEW}.ssl.truststore.location"),
        ({f"{NEW}.ssl.keystore.location": "/k.jks"}, f"{NEW}.ssl.keystore.location"),
        ({f"{NEW}.sasl.login.class": "own.Login"}, f"{NEW}.sasl.login.class"),
        ({f"{NEW}.sasl.jaas.config": "x.Krb5LoginModule required;"}, f"{NEW}.sasl.jaas.config"),
        ({f"{NEW}.auto.offset.reset": "none"}, f"{NEW}.auto.offset.reset"),
        ({BAD: "many"}, BAD),
        ({"aws.region": "${env:REGION}"}, "aws.region"),
        ({"secor.max.file.age.seconds": "soon"}, "secor.max.file.age.seconds"),
        ({"secor.kafka.topic_filter": "a("}, "secor.kafka.topic_filter"),
    ],
)
def test_what_is_not_supported_says_so_and_a_group_is_made(given: dict[str, str], key: str) -> None:
    group = of_secor(given)

    assert group.account(key).outcome is KeyOutcome.NOT_SUPPORTED
    assert group.account(key).why
    assert not group.report.is_complete


def test_the_refusal_of_a_field_names_the_key_and_not_its_value() -> None:
    why = of_secor({"secor.max.file.age.seconds": "soon"}).account("secor.max.file.age.seconds").why

    assert why.startswith("spec.uploadPolicy.maxAge: ")
    assert "soon" not in why


def test_a_key_that_nobody_knows_is_unknown() -> None:
    report = of_secor({"secor.s3.buckets": "x"}).report

    assert [each.key for each in report.of(KeyOutcome.UNKNOWN)] == ["secor.s3.buckets"]
    assert not report.is_complete


@pytest.mark.parametrize(
    ("left_out", "field", "value"),
    [
        ("kafka.seed.broker.host", "source.kafka.bootstrapServers", "SET-ME"),
        ("secor.s3.bucket", "output.url", "SET-ME"),
    ],
)
def test_what_a_group_needs_and_is_not_there_is_missing(
    left_out: str, field: str, value: str
) -> None:
    group = of_secor({left_out: ""})

    assert group[field] == value
    assert any(field in each for each in group.report.missing)
    assert not group.report.is_complete
    with pytest.raises(Stalled, match=rf"spec\.{field}: .*SET-ME"):
        parse_group(group.made)


def test_without_a_parser_the_report_asks_for_decode_and_route_once() -> None:
    group = of_secor({PARSER: ""})

    assert [each for each in group.report.missing if PARSER in each] == [
        f"{PARSER} is not given: set decode and route"
    ]


def test_secrets_are_named_with_their_keys_and_a_command() -> None:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    jaas = f"{module} required username=\"u\" password='p q';"
    given = {"aws.access.key": "A", "aws.secret.key": "B", f"{NEW}.sasl.jaas.config": jaas}
    group = of_secor(given, GroupChoices(namespace="logs"))

    s3, kafka = sorted(group.report.secrets, key=lambda each: each.name, reverse=True)
    assert group["output.s3.credentialsSecretRef"] == {"name": "secor-backup-s3"}
    assert group["source.kafka.propertiesSecretRef"] == {"name": "secor-backup-kafka"}
    assert s3.command("logs") == (
        "kubectl -n logs create secret generic secor-backup-s3 "
        "--from-literal=AWS_ACCESS_KEY_ID=… --from-literal=AWS_SECRET_ACCESS_KEY=…"
    )
    assert list(kafka.keys) == ["sasl.username", "sasl.password"]
    assert {group.account(key).outcome for key in given} == {KeyOutcome.SECRET}
    assert group.report.is_complete


def test_one_key_of_two_means_the_default_credentials_as_in_secor() -> None:
    group = of_secor({"aws.access.key": "A"})

    assert group.report.secrets == ()
    assert group.account("aws.access.key").outcome is KeyOutcome.NOT_NEEDED


def test_a_key_file_of_google_is_a_file_of_a_secret() -> None:
    given = {"cloud.service": "GS", "secor.gs.bucket": "b", "secor.gs.credentials.path": "/c.json"}
    (secret,) = of_secor(given).report.secrets

    assert "--from-file=key.json=FILE" in secret.command(None)


def test_the_finalizer_becomes_completeness_and_a_publisher() -> None:
    given = {"partitioner.finalizer.delay.seconds": "600", "secor.finalizer.lookback.periods": "3"}
    without, with_it = of_secor(given), of_secor(given, GroupChoices(finalizer=True)).check()

    assert without["completeness"] is None
    assert with_it["completeness"] == {"delay": "600s"}
    assert with_it["publish"] == [
        {"name": "success", "type": "Success", "options": {"lookback": 3}}
    ]


def test_hive_tables_of_the_finalizer_are_not_made_silently() -> None:
    given = {"secor.hive.prefix": "log_"}

    assert of_secor(given).report.is_complete
    assert not of_secor(given, GroupChoices(finalizer=True)).report.is_complete


def test_what_the_user_wants_counts_more_than_the_input() -> None:
    wanted = GroupChoices("clicks", "logs", 9, "k1:1,k2:2", offsets={"a": {"0": 7}})
    group = of_secor(wanted=wanted)

    assert group.made["metadata"] == {"name": "clicks", "namespace": "logs"}
    assert group["generation"] == 9
    assert group["source.kafka.bootstrapServers"] == "k1:1,k2:2"
    assert group["source.kafka.startingOffsets"] == {"offsets": {"a": {"0": 7}}}


def test_offsets_of_topics_that_are_not_landed_are_left_out() -> None:
    given = {f"{NEW}.topic.list": "a"}
    group = of_secor(given, GroupChoices(offsets={"a": {"0": 7}, "b": {"0": 1}}))

    assert group["source.kafka.startingOffsets"] == {"offsets": {"a": {"0": 7}}}
    assert any(each.endswith(": b") for each in group.report.next_steps)


@pytest.mark.parametrize(
    ("given", "step"),
    [
        ({"kafka.offsets.storage": "kafka"}, "landfall import-offsets GROUP.yaml secor_backup"),
        ({"kafka.zookeeper.path": "/k"}, "in ZooKeeper, below /k/consumers/secor_backup/offsets"),
    ],
)
def test_the_report_says_where_the_offsets_are(given: dict[str, str], step: str) -> None:
    assert any(step in each for each in of_secor(given).report.next_steps)


# ---------------------------------------------------------------- files as they are in the field

BASE = """
# everything that Secor asks for, as it comes
secor.kafka.topic_filter=.*
secor.kafka.topic_blacklist=
cloud.service=S3
aws.access.key=
aws.secret.key=
aws.role=
aws.sse.type=
secor.s3.filesystem=s3a
kafka.new.consumer.auto.offset.reset=earliest
kafka.new.consumer.topic.list=
kafka.new.consumer.sasl.jaas.config=
include=kafka.properties
secor.generation=1
secor.consumer.threads=7
partitioner.granularity.date.prefix=dt=
partitioner.granularity.date.format=yyyy-MM-dd
partitioner.granularity.hour=true
qubole.api.token=
secor.enable.qubole=true
secor.file.reader.writer.factory=com.pinterest.secor.io.impl.SequenceFileReaderWriterFactory
secor.file.writer.Delimiter=\\n
secor.compression.codec=
secor.orc.message.schema.*=struct<a:int\\,b:array<string>>
statsd.hostport=
"""
PROD = """
include=base.properties
kafka.seed.broker.host=
zookeeper.quorum=
secor.s3.bucket=
secor.max.file.size.bytes=200000000
secor.max.file.age.seconds=3600
"""
BACKUP = """
include=prod.properties
secor.kafka.group=secor_backup
secor.message.parser.class=com.pinterest.secor.parser.JsonMessageParser
secor.s3.path=raw_logs/secor_backup
secor.local.path=/mnt/secor_data/message_logs/backup
ostrich.port=9999
"""
FILES = {
    "backup.properties": BACKUP,
    "prod.properties": PROD,
    "base.properties": BASE,
    "kafka.properties": "kafka.useTimestamp=false\n",
}


def test_a_chain_of_files_with_options_is_a_whole_group() -> None:
    options = [("kafka.seed.broker.host", "kafka"), ("secor.s3.bucket", "logs")]
    group = of_files(FILES, SecorInput("backup.properties", options)).check()

    assert group.report.is_complete
    assert group["output.url"] == "s3://logs/raw_logs/secor_backup"
    assert group["route.pattern"] == "dt={date}/hr={hour}"
    assert len(group.report.accounts) == 34
    assert group.account("kafka.useTimestamp").place == "kafka.properties:1"


def test_variables_of_the_image_count_more_than_the_file_and_options_most() -> None:
    environment = {
        "KAFKA_SEED_BROKER_HOST": "k",
        "SECOR_S3_BUCKET": "from-env",
        "SECOR_MAX_FILE_SECONDS": "60",
        "SECOR_EXTRA_OPTS": "-Dsecor.generation=5 -Xmx1g -Dsecor.s3.path=extra",
        "HOME": "/root",
    }
    given = SecorInput("backup.properties", [("secor.s3.path", "last")], environment)
    group = of_files(FILES, given)

    assert group["output.url"] == "s3://from-env/last"
    assert group["generation"] == 6
    assert group["uploadPolicy.maxAge"] == "60s"
    assert group.account("secor.s3.bucket").place == "environment variable SECOR_S3_BUCKET"


def test_every_variable_of_the_image_is_a_key_that_is_known() -> None:
    assert [key for key in ENVIRONMENT.values() if KEYS.find(key) is None] == []


def test_of_a_key_that_repeats_the_first_value_counts_as_in_secor() -> None:
    files = {"a.properties": "include=b.properties\nsecor.s3.bucket=late", "b.properties": (
        "secor.s3.bucket=early\nkafka.seed.broker.host=k\n"
    )}  # fmt: skip

    assert of_files(files)["output.url"] == "s3://early"


def test_a_list_where_secor_reads_one_value_is_said_to_be_one() -> None:
    group = of_secor({"kafka.seed.broker.host": "k1,k2"})

    assert group["source.kafka.bootstrapServers"] == "k1:9092"
    assert group.account("kafka.seed.broker.host").why.startswith("the first of 2 values")


def test_the_yaml_says_why_a_field_is_there_that_nobody_asked_for() -> None:
    lines = of_secor({"secor.max.file.age.seconds": "60"}).yaml.splitlines()

    assert "    maxBytes: 200000000  # Secor's default" in lines
    assert "    maxAge: 60s" in lines


def test_a_start_at_the_end_says_what_is_lost() -> None:
    report = of_secor({f"{NEW}.auto.offset.reset": "latest"}).report

    assert dict(report.defaults)["source.kafka.startingOffsets"].endswith(
        "or what arrives between its stop and the first start is lost"
    )
