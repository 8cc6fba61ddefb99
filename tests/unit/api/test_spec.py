"""A spec is read as documented; an error names the path of the field, in the words of YAML."""

from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml

from landfall.api.spec import ConsumerGroup, Kafka, StartAtOffsets, StartAtTime, parse_group
from landfall.api.spec.decode import TRANSFORMS
from landfall.api.spec.shared import LEDGER_FOLDER
from landfall.errors import Reason, Stalled
from landfall.ledger.names import object_names

MINIMAL: dict[str, Any] = yaml.safe_load("""
apiVersion: landfall.dev/v1alpha1
kind: ConsumerGroup
metadata: {name: clicks}
spec:
  source: {kafka: {bootstrapServers: "127.0.0.1:9092", topics: [clicks]}}
  output: {url: "s3://logs/parsed"}
""")

FULL: dict[str, Any] = yaml.safe_load(r"""
apiVersion: landfall.dev/v1alpha1
kind: ConsumerGroup
metadata: {name: clickstream, namespace: logs, labels: {team: web}, resourceVersion: "7"}
spec:
  generation: 3
  image: registry.example/landfall-spark:0.1.0
  state: Suspended
  replicas: 2
  source:
    kafka:
      bootstrapServers: kafka.kafka:9092
      topicPattern: "^app\\..*"
      exclude: "test$"
      startingOffsets: {timestamp: 2026-11-21T00:00:00Z}
      onDataLoss: SkipAndRecord
      properties:
        {security.protocol: SSL, ssl.ca.location: /ca, fetch.wait.max.ms: 50, check.crcs: true}
      propertiesSecretRef: {name: kafka-auth}
  decode:
    format: Json
    timestamp:
      field: meta.ts
      unit: Custom
      format: "%d/%b/%Y:%H:%M:%S"
      timezone: Europe/Berlin
      missing: KafkaTimestamp
    columns: [{name: id, type: Int64, nullable: false}, {name: who, type: String, field: user.name}]
  transforms: [{use: "shop.steps:Anonymise", options: {fields: [ip, mail], salt: 7}}]
  route: {pattern: "dt={date}/hr={hour}", timezone: UTC}
  output:
    url: s3://logs/parsed
    format: Parquet
    codec: Zstd
    s3:
      endpoint: http://127.0.0.1:9000
      pathStyle: true
      credentialsSecretRef: {name: s3}
      sse: {type: "aws:kms", kmsKeyId: k}
      assumeRole: {roleArn: "arn:aws:iam::1:role/r"}
      partBytes: 8Mi
  uploadPolicy:
    maxBytes: 256Mi
    maxAge: 1h30m
    overrides: [{topics: "^app\\.billing$", maxAge: 90s}]
  badRecords: {policy: Fail, maxRatio: "0.01"}
  autoscaling: {minReplicas: 1, maxReplicas: 20, targetLag: 2m, catchUp: 30m}
  upgrade: {strategy: HandOver, drainTimeout: 10m, rollback: {window: 2h, maxCommitFailures: 5}}
  tuning: {pollInterval: 500ms, taskMemory: 1Gi, sparkConf: {spark.executor.memory: 2g}}
status: {phase: Running}
""")


def changed(path: str, value: object, base: dict[str, Any] = MINIMAL) -> dict[str, Any]:
    """The base document with one field set; the path's missing mappings are made."""
    document = deepcopy(base)
    *parents, last = path.split(".")
    at = document
    for name in parents:
        at = at.setdefault(name, {})
    at[last] = value
    return document


def refusal(document: object) -> str:
    with pytest.raises(Stalled) as caught:
        parse_group(document)
    assert caught.value.reason is Reason.SPEC_INVALID
    return str(caught.value)


def test_the_defaults_are_the_documented_ones() -> None:
    group = parse_group(MINIMAL)

    policy, source, bad = group.spec.upload_policy, group.spec.source.kafka, group.spec.bad_records
    assert (policy.max_bytes, policy.max_age) == (256 * 2**20, timedelta(minutes=5))
    assert (source.starting_offsets, source.on_data_loss, bad.policy) == (
        "Earliest",
        "Stall",
        "DeadLetter",
    )
    assert (group.kafka_group_id, group.spec.generation, group.spec.route.pattern) == (
        "default.clicks",
        1,
        "dt={date}",
    )


def test_every_documented_field_is_read() -> None:
    spec = parse_group(FULL).spec

    assert spec.source.kafka.starting_offsets == StartAtTime(
        timestamp=datetime(2026, 11, 21, tzinfo=UTC)
    )
    assert spec.source.kafka.properties["check.crcs"] is True
    assert spec.decode.timestamp
    assert spec.decode.timestamp.path == ("meta", "ts")
    assert (spec.upload_policy.max_age, spec.bad_records.max_ratio) == (timedelta(minutes=90), 0.01)
    assert spec.transforms[0].options == {"fields": ["ip", "mail"], "salt": 7}


@pytest.mark.parametrize("document", [MINIMAL, FULL], ids=["minimal", "full"])
def test_a_group_written_as_json_reads_back_the_same(document: dict[str, Any]) -> None:
    group = parse_group({**document, "status": None})

    assert ConsumerGroup.model_validate_json(group.model_dump_json(by_alias=True)) == group


def test_starting_offsets_may_be_explicit() -> None:
    document = changed("spec.source.kafka.startingOffsets", {"offsets": {"clicks": {"0": 42}}})

    assert parse_group(document).spec.source.kafka.starting_offsets == StartAtOffsets(
        offsets={"clicks": {"0": 42}}
    )


def test_a_separator_may_be_empty_for_a_name_with_dots() -> None:
    group = parse_group(changed("spec.decode.timestamp", {"field": "a.b", "separator": ""}))

    assert group.spec.decode.timestamp
    assert group.spec.decode.timestamp.path == ("a.b",)


STARTING_OFFSETS = (
    "must be Earliest, Latest, {timestamp: TIME} or {offsets: {TOPIC: {'PARTITION': OFFSET}}}"
)
ON_DATA_LOSS = "must be Stall, SkipAndRecord or {readFrom: {group: GROUP, url: URL}}"
REFUSED: list[tuple[str, object, str]] = [
    # field, what is written there, the message
    ("apiVersion", "v1", "apiVersion: must be 'landfall.dev/v1alpha1', got 'v1'"),
    ("kind", "Pod", "kind: must be 'ConsumerGroup', got 'Pod'"),
    (
        "metadata.name",
        "Clicks",
        (
            "metadata.name: must be at most 40 lowercase letters, digits and hyphens, "
            "start with a letter and not end with a hyphen, got 'Clicks'"
        ),
    ),
    ("spec.replica", 1, "spec.replica: unknown field, did you mean replicas?"),
    (
        "spec.uploadPolicy.max_bytes",
        1,
        "spec.uploadPolicy.max_bytes: unknown field, did you mean maxBytes?",
    ),
    ("spec.tuning.zzz", 1, "spec.tuning.zzz: unknown field"),
    ("spec.generation", -1, "spec.generation: must be at least 0, got -1"),
    (
        "spec.generation",
        "new",
        "spec.generation: must be a whole number, unable to parse string as an integer, got 'new'",
    ),
    ("spec.state", "Paused", "spec.state: must be 'Running' or 'Suspended', got 'Paused'"),
    ("spec.source", None, "spec.source: must be a mapping of fields, got nothing"),
    ("spec.source.kafka.topics", "clicks", "spec.source.kafka.topics: must be a list, got text"),
    (
        "spec.source.kafka.topics",
        ["a", "b c"],
        (
            "spec.source.kafka.topics[1]: must be a topic name (letters, digits, . _ - only), "
            "got 'b c'"
        ),
    ),
    ("spec.source.kafka.topics", ["a", "b", "a"], "spec.source.kafka.topics: named twice: a"),
    (
        "spec.source.kafka.topics",
        [],
        "spec.source.kafka: exactly one of topics and topicPattern is needed",
    ),
    (
        "spec.source.kafka.topicPattern",
        ".*",
        "spec.source.kafka: exactly one of topics and topicPattern is needed",
    ),
    (
        "spec.source.kafka.exclude",
        "a(",
        (
            "spec.source.kafka.exclude: not a regular expression: 'a(': "
            "missing ), unterminated subpattern at position 1"
        ),
    ),
    (
        "spec.source.kafka.startingOffsets",
        "earliest",
        (
            f"spec.source.kafka.startingOffsets: {STARTING_OFFSETS}, "
            "got 'earliest', did you mean Earliest?"
        ),
    ),
    (
        "spec.source.kafka.startingOffsets",
        {"at": 1},
        f"spec.source.kafka.startingOffsets: {STARTING_OFFSETS}, got a mapping",
    ),
    (
        "spec.source.kafka.startingOffsets",
        {"offsets": {"clicks": {"0": -2}}},
        ("spec.source.kafka.startingOffsets.offsets.clicks.0: must be at least 0, got -2"),
    ),
    (
        "spec.source.kafka.startingOffsets",
        {"offsets": {"other": {"0": 1}}},
        "spec.source.kafka: startingOffsets names topics that are not landed: other",
    ),
    (
        "spec.source.kafka.onDataLoss",
        "Skip",
        f"spec.source.kafka.onDataLoss: {ON_DATA_LOSS}, got 'Skip', did you mean SkipAndRecord?",
    ),
    (
        "spec.source.kafka.onDataLoss",
        {"readFrom": {"group": "backup", "url": "backup/raw"}},
        (
            "spec.source.kafka.onDataLoss.readFrom.url: must be s3://BUCKET/PREFIX, "
            "gs://BUCKET/PREFIX, hdfs://HOST:PORT/FOLDER, file:///FOLDER or "
            "abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PREFIX, got 'backup/raw'"
        ),
    ),
    (
        "spec.source.kafka.onDataLoss",
        {"readFrom": {"group": "backup", "url": "s3://b"}, "otherwise": "Skip"},
        (
            "spec.source.kafka.onDataLoss.otherwise: must be 'Stall' or 'SkipAndRecord', "
            "got 'Skip', did you mean SkipAndRecord?"
        ),
    ),
    (
        "spec.source.kafka.properties",
        {"sasl.password": ["hush"]},
        "spec.source.kafka.properties.sasl.password: must be text, a number, true, false or null",
    ),
    (
        "spec.decode.options",
        {"columns": [["a"]]},
        "spec.decode.options.columns: must be text, a number, true, false or null",
    ),
    (
        "spec.decode.timestamp",
        {"field": "meta..ts"},
        (
            "spec.decode.timestamp: field 'meta..ts' has an empty step; "
            "separator: '' takes it as one name"
        ),
    ),
    (
        "spec.decode.timestamp",
        {"field": "ts", "unit": "Custom"},
        "spec.decode.timestamp: unit Custom needs a format, and only Custom has one",
    ),
    (
        "spec.decode.timestamp",
        {"field": "ts", "unit": "Custom", "format": "yyyy"},
        "spec.decode.timestamp.format: not a strptime format such as %Y-%m-%d: 'yyyy'",
    ),
    (
        "spec.decode.columns",
        [{"name": "a", "type": "String"}, {"name": "a", "type": "Int64"}],
        "spec.decode.columns: named twice: a",
    ),
    (
        "spec.transforms",
        [{"use": "Anonymise"}],
        (
            f"spec.transforms[0].use: must be {', '.join(TRANSFORMS)}, "
            "or package.module:Name for one of your own, got 'Anonymise'"
        ),
    ),
    ("spec.route.pattern", "", "spec.route.pattern: must have at least 1 character, got ''"),
    (
        "spec.route.timezone",
        "Berlin",
        "spec.route.timezone: not an IANA time zone such as Europe/Berlin: 'Berlin'",
    ),
    (
        "spec.route.timezone",
        "Europe",
        "spec.route.timezone: not an IANA time zone such as Europe/Berlin: 'Europe'",
    ),
    (
        "spec.output.url",
        "/data",
        "spec.output.url: must be a URL such as s3://BUCKET/PREFIX or file:///FOLDER, got '/data'",
    ),
    (
        "spec.output.url",
        "ftp://logs",
        (
            "spec.output: url is none of s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, "
            "hdfs://HOST:PORT/FOLDER, "
            "abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PREFIX and file:///FOLDER, "
            "and no store of your own is named: 'ftp://logs'"
        ),
    ),
    (
        "spec.output.codec",
        "Lz4",
        "spec.output.codec: must be 'None', 'Gzip', 'Zstd', 'Deflate' or 'Snappy', got 'Lz4'",
    ),
    (
        "spec.output.s3.endpoint",
        "host:9000",
        "spec.output.s3.endpoint: must be a URL such as https://s3.example.com, got 'host:9000'",
    ),
    (
        "spec.output.s3.partBytes",
        "1Mi",
        "spec.output.s3.partBytes: must be at least 5Mi, got '1Mi'",
    ),
    (
        "spec.output.s3.sse",
        {"type": "AES256", "kmsKeyId": "k"},
        "spec.output.s3.sse: kmsKeyId goes with type aws:kms or aws:kms:dsse",
    ),
    (
        "spec.uploadPolicy.maxBytes",
        "256MB",
        (
            "spec.uploadPolicy.maxBytes: not a quantity such as 256Mi or 1G: '256MB', "
            "did you mean 256M?"
        ),
    ),
    ("spec.uploadPolicy.maxBytes", 0, "spec.uploadPolicy.maxBytes: must be above 0, got 0"),
    (
        "spec.uploadPolicy.maxAge",
        300,
        "spec.uploadPolicy.maxAge: not a duration such as 90s, 5m or 1h30m: 300",
    ),
    ("spec.uploadPolicy.maxAge", "0s", "spec.uploadPolicy.maxAge: must be longer than zero"),
    (
        "spec.badRecords.maxRatio",
        "1 %",
        "spec.badRecords.maxRatio: must be a number from 0 to 1, got '1 %'",
    ),
    (
        "spec.badRecords.maxRatio",
        None,
        "spec.badRecords.maxRatio: must be a number from 0 to 1, got None",
    ),
    (
        "spec.autoscaling",
        {"minReplicas": 3, "maxReplicas": 2},
        "spec.autoscaling: minReplicas 3 is over maxReplicas 2",
    ),
]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    REFUSED,
    ids=[f"{path}={value}"[:60] for path, value, _ in REFUSED],
)
def test_a_wrong_value_is_refused_with_its_path(path: str, value: object, message: str) -> None:
    assert refusal(changed(path, value)) == message


def test_all_errors_are_reported_at_once() -> None:
    document = changed("spec.replicas", -1, changed("spec.output", {}))

    assert refusal(document).splitlines() == [
        "spec.replicas: must be at least 0, got -1",
        "spec.output.url: is missing",
    ]


@pytest.mark.parametrize(
    ("document", "kind"), [(None, "nothing"), ([], "a list"), ("text", "text")]
)
def test_a_document_of_another_shape_is_refused(document: object, kind: str) -> None:
    assert refusal(document) == f"document: must be a mapping of fields, got {kind}"


def test_a_refusal_never_shows_a_propertys_value() -> None:
    assert "hush" not in refusal(
        changed("spec.source.kafka.properties", {"sasl.password": {"value": "hush"}})
    )


def test_a_topic_whose_folder_would_be_the_ledgers_is_refused() -> None:
    assert object_names.owner_key().partition("/")[0] == LEDGER_FOLDER
    assert "the folder of a topic '_landfall' would be the ledger's" in refusal(
        changed("spec.source.kafka", {"bootstrapServers": "k:1", "topics": ["a", "_landfall"]})
    )


@pytest.mark.parametrize(
    ("source", "topic", "is_landed"),
    [
        ({"topics": ["__debezium-heartbeat.shop"]}, "__debezium-heartbeat.shop", True),
        ({"topics": ["clicks"]}, "__debezium-heartbeat.shop", False),
        ({"topicPattern": ".*"}, "__debezium-heartbeat.shop", False),
        ({"topicPattern": ".*"}, "_schemas", True),
        ({"topics": ["__a", "b"], "exclude": "__.*"}, "__a", False),
        ({"topicPattern": ".*"}, "_landfall", False),
    ],
)
def test_a_topic_with_two_underscores_is_landed_only_if_it_is_listed(
    source: dict[str, object], topic: str, is_landed: bool
) -> None:
    kafka = Kafka.model_validate({"bootstrapServers": "kafka:9092", **source})

    assert kafka.selects(topic) is is_landed
