"""Wrong specs of the kinds that people write: the field that is wrong, and what is expected there.

A spec is written as ``path: value`` under ``spec``. ``place`` is the field that each message must
name, in full, and ``expects`` a part of the message that says what is right or what was got.
"""

from dataclasses import dataclass

import yaml

from tests.support.kubernetes.groups import Json, changed, document


@dataclass(frozen=True)
class WrongSpec:
    """One mistake."""

    written: str
    place: str
    expects: str

    @property
    def id(self) -> str:
        """Its name as a test's parameter."""
        return self.written

    def resource(self, url: str = "") -> Json:
        """The group with the mistake, for the API server or in a file."""
        made = document()
        if url:
            made = changed(made, "spec.output.url", url)
        path, _, value = self.written.partition(": ")
        return changed(made, f"spec.{path}", yaml.safe_load(value))


def _wrong(written: str, expects: str, place: str = "") -> WrongSpec:
    return WrongSpec(written, place or f"spec.{written.partition(': ')[0]}", expects)


WRONG_SPECS: tuple[WrongSpec, ...] = (
    # Sizes and times, with units that other programs use.
    _wrong("uploadPolicy.maxAge: 5min", "5m"),
    _wrong("uploadPolicy.maxAge: 5 minutes", "5m"),
    _wrong("uploadPolicy.maxAge: 300", "5m"),
    _wrong("uploadPolicy.maxAge: -5m", "5m"),
    _wrong("uploadPolicy.maxBytes: 256MB", "256M"),
    _wrong("uploadPolicy.maxBytes: big", "256Mi"),
    _wrong("uploadPolicy.maxBytes: -1", "256Mi"),
    _wrong("executor.memory: 4GB", "unknown field"),
    _wrong("executor.cores: two", "integer"),
    _wrong("executor.cores: 0", "1"),
    _wrong("replicas: -1", "0"),
    _wrong("executor.replicas: 2", "replicas is a field of spec"),
    _wrong("tuning.pollInterval: soon", "5m"),
    _wrong("tuning.httpPort: 99999", "65535"),
    _wrong("tuning.httpPort: http", "integer"),
    _wrong("source.kafka.discoveryInterval: 1x", "5m"),
    # Words of an enumeration.
    _wrong("output.format: CSV", "Parquet"),
    _wrong("output.codec: gz", "Gzip"),
    _wrong("state: Paused", "Suspended"),
    _wrong("source.kafka.startingOffsets: earliest", "Earliest"),
    _wrong("source.kafka.startingOffsets: Beginning", "Earliest"),
    _wrong("badRecords.action: DeadLetters", "unknown field"),
    # Fields that are misspelt or in another section, and fields of nobody.
    _wrong("outptu: {}", "output"),
    _wrong("output.formt: Json", "format"),
    _wrong("output.ulr: s3://a/b", "url"),
    _wrong("uploadPolicy.max_bytes: 1Mi", "maxBytes"),
    _wrong("uploadPolicy.maxage: 5m", "maxAge"),
    _wrong("source.kafka.bootstrap_servers: a:1", "bootstrapServers"),
    _wrong("source.kafka.topic: clicks", "topics"),
    _wrong("source.kafka.brokers: a:1", "unknown field"),
    _wrong("decode.timestmap: {field: ts}", "timestamp"),
    _wrong("route.patern: 'dt={date}'", "pattern"),
    _wrong("executor.instances: 2", "unknown field"),
    _wrong("upgrade.stratgy: Shadow", "strategy"),
    _wrong("unrelated: 1", "unknown field"),
    # Types.
    _wrong("source.kafka.topics: clicks", "list"),
    _wrong("source.kafka.topics: [1]", "text", "spec.source.kafka.topics[0]"),
    _wrong("source: kafka", "a mapping of fields"),
    _wrong("output: s3://logs/clicks", "a mapping of fields"),
    _wrong("transforms: {use: Select}", "list"),
    _wrong("publish: Success", "list"),
    _wrong("topics: {clicks: {}}", "list"),
    _wrong("generation: first", "integer"),
    _wrong("generation: -1", "0"),
    _wrong("badRecords.maxRatio: many", "1"),
    _wrong("badRecords.maxRatio: 2", "1"),
    # Texts that are not what they should be.
    _wrong("source.kafka.bootstrapServers: kafka", "HOST:PORT"),
    _wrong("source.kafka.bootstrapServers: 'kafka:port'", "HOST:PORT"),
    _wrong("source.kafka.bootstrapServers: ''", "at least 1"),
    _wrong("source.kafka.topics: []", "topicPattern", "spec.source.kafka"),
    _wrong("source.kafka.topics: ['a b']", "topic", "spec.source.kafka.topics[0]"),
    _wrong("source.kafka.topics: [a, a]", "a"),
    _wrong("output.url: logs/clicks", "s3://BUCKET"),
    _wrong("output.url: 's3:/logs/clicks'", "s3://BUCKET"),
    _wrong("output.url: 'ftp://logs/clicks'", "s3://BUCKET", "spec.output"),
    _wrong("output.s3.endpoint: minio:9000", "http"),
    _wrong("output.s3.credentialsSecretRef: keys", "a mapping of fields"),
    _wrong(
        "output.s3.credentialsSecretRef: {}",
        "is missing",
        "spec.output.s3.credentialsSecretRef.name",
    ),
    _wrong("schedule: {cron: '* * * *'}", "five", "spec.schedule.cron"),
    _wrong("schedule: {cron: '0 0 0 * * *'}", "five", "spec.schedule.cron"),
    _wrong("schedule: {cron: '61 * * * *'}", "minute", "spec.schedule.cron"),
    _wrong("route.timezone: Mars/Olympus", "time zone"),
    _wrong("route.pattern: 'dt={dat}'", "date"),
    _wrong("route.pattern: '/dt={date}'", "/"),
    _wrong("route.pattern: 'dt={date'", "{"),
    _wrong("groupId: clicks", "groupId is a field of kafka"),
    # Entries of lists.
    _wrong("publish: [{name: a, type: Success}, {name: a, type: Success}]", "a", "spec.publish"),
    _wrong("publish: [{type: Success}]", "is missing", "spec.publish[0].name"),
    _wrong("publish: [{name: a}]", "is missing", "spec.publish[0].type"),
    _wrong("transforms: [{options: {}}]", "is missing", "spec.transforms[0].use"),
    _wrong("transforms: [Select]", "a mapping of fields", "spec.transforms[0]"),
    _wrong("topics: [{decode: {format: Json}}]", "is missing", "spec.topics[0].pattern"),
    _wrong(
        "badRecords.overrides: [{maxRatio: 0.5}]",
        "is missing",
        "spec.badRecords.overrides[0].topics",
    ),
    _wrong("replicas: many", "whole number"),
    # Sections that do not fit each other.
    _wrong("source.files: [{topic: hits, url: 's3://in/x'}]", "one", "spec.source"),
    _wrong("autoscaling: {minReplicas: 5, maxReplicas: 2}", "max", "spec.autoscaling"),
)
"""At least 75, so that no kind is forgotten."""
