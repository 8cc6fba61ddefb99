"""Every key that Secor reads: its replacement, its default, or why it is not needed.

Sources: SecorConfig.java and src/main/config/secor.common.properties of Secor; the defaults come
from the latter, which every configuration that Secor ships with includes.
"""

from collections.abc import Iterator

from landfall_migrate.keys import KeyRow, Keys

_LEDGER = "the ledger in the output root replaces it"
_METRICS = "metrics are Prometheus', on tuning.httpPort"
_NO_DISK = "nothing is kept on a local disk"
_NO_ASSIGNMENT = "no consumer group of Kafka assigns topic partitions"
_DETERMINISTIC = "the same range of offsets always gives the same objects"
_SWIFT = "goes with cloud.service Swift only"
_FINALIZER = "only Secor's finalizer reads it: --finalizer makes completeness and a publisher of it"
_PARQUET = "only a Parquet format reads it"
_CLASSES = "Landfall has one client of Kafka"
_JVM = "a setting of Java"
_PACKAGE = "com.pinterest.secor"

KAFKA = (
    KeyRow("secor.kafka.group", ("source.kafka.groupId",)),
    KeyRow("secor.kafka.topic_filter", ("source.kafka.topicPattern",), default=".*"),
    KeyRow("secor.kafka.topic_blacklist", ("source.kafka.exclude",)),
    KeyRow("kafka.new.consumer.topic.list", ("source.kafka.topics",), is_list=True),
    KeyRow("kafka.seed.broker.host", ("source.kafka.bootstrapServers",)),
    KeyRow("kafka.seed.broker.port", ("source.kafka.bootstrapServers",), default="9092"),
    KeyRow(
        "kafka.consumer.auto.offset.reset",
        ("source.kafka.startingOffsets",),
        default="smallest",
        why="only Secor's legacy consumer reads it",
    ),
    KeyRow(
        "kafka.new.consumer.auto.offset.reset",
        ("source.kafka.startingOffsets",),
        default="earliest",
        why="only Secor's new consumer reads it",
    ),
    KeyRow("kafka.new.consumer.poll.timeout.seconds", why="tasks read ranges of offsets"),
    KeyRow("kafka.new.consumer.partition.assignment.strategy.class", why=_NO_ASSIGNMENT),
    *(
        KeyRow(f"kafka.new.consumer.{name}", ("source.kafka.propertiesSecretRef",), is_secret=True)
        for name in (
            "ssl.key.password",
            "ssl.keystore.password",
            "ssl.truststore.password",
            "sasl.jaas.config",
        )
    ),
    *(
        KeyRow(f"kafka.new.consumer.{name}", ("source.kafka.properties",))
        for name in (
            "request.timeout.ms",
            "ssl.keystore.location",
            "ssl.truststore.location",
            "isolation.level",
            "max.poll.interval.ms",
            "max.poll.records",
            "sasl.client.callback.handler.class",
            "sasl.kerberos.service.name",
            "sasl.login.callback.handler.class",
            "sasl.login.class",
            "sasl.mechanism",
            "security.protocol",
            "ssl.enabled.protocols",
            "ssl.keystore.type",
            "ssl.protocol",
            "ssl.provider",
            "ssl.truststore.type",
        )
    ),
    KeyRow("kafka.fetch.message.max.bytes", ("source.kafka.properties",)),
    KeyRow("kafka.fetch.min.bytes", ("source.kafka.properties",)),
    KeyRow("kafka.fetch.max.bytes", ("source.kafka.properties",)),
    KeyRow("kafka.fetch.wait.max.ms", ("source.kafka.properties",)),
    KeyRow("kafka.socket.receive.buffer.bytes", ("source.kafka.properties",)),
    KeyRow("kafka.consumer.timeout.ms", why="tasks read ranges of offsets"),
    KeyRow("kafka.partition.assignment.strategy", why=_NO_ASSIGNMENT),
    KeyRow("kafka.rebalance.max.retries", why=_NO_ASSIGNMENT),
    KeyRow("kafka.rebalance.backoff.ms", why=_NO_ASSIGNMENT),
    KeyRow("kafka.message.timestamp.className", why=_CLASSES),
    KeyRow("kafka.message.iterator.className", why=_CLASSES),
    KeyRow("kafka.client.className", why=_CLASSES),
    KeyRow("kafka.offsets.storage", default="zookeeper", why=_LEDGER),
    KeyRow("kafka.dual.commit.enabled", default="true", why=_LEDGER),
    KeyRow("zookeeper.*", why=_LEDGER),
    KeyRow("kafka.zookeeper.path", why=_LEDGER),
    KeyRow("secor.zookeeper.path", why=_LEDGER),
)

STORE = (
    KeyRow("cloud.service", ("output.url",), default="S3"),
    KeyRow("secor.s3.filesystem", ("output.url",), default="s3n", why="s3n and s3a are s3"),
    KeyRow("secor.s3.bucket", ("output.url",)),
    KeyRow("secor.s3.path", ("output.url",)),
    KeyRow("aws.access.key", ("output.s3.credentialsSecretRef",), is_secret=True),
    KeyRow("aws.secret.key", ("output.s3.credentialsSecretRef",), is_secret=True),
    KeyRow("aws.session.token", ("output.s3.credentialsSecretRef",), is_secret=True),
    KeyRow("aws.role", ("output.s3.assumeRole",)),
    KeyRow("aws.region", ("output.s3.region",)),
    KeyRow("aws.endpoint", ("output.s3.endpoint",)),
    KeyRow("aws.client.pathstyleaccess", ("output.s3.pathStyle",)),
    KeyRow("aws.sse.type", ("output.s3.sse",)),
    KeyRow("aws.sse.kms.key", ("output.s3.sse",)),
    KeyRow("aws.sse.customer.key", is_secret=True, why="goes with keys of the customer only"),
    KeyRow("aws.proxy.isEnabled", ("output.s3.proxy",), why="it is off"),
    KeyRow("aws.proxy.http.host", ("output.s3.proxy",)),
    KeyRow("aws.proxy.http.port", ("output.s3.proxy",)),
    KeyRow("secor.gs.bucket", ("output.url",)),
    KeyRow("secor.gs.path", ("output.url",)),
    KeyRow("secor.gs.credentials.path", ("output.gcs",)),
    KeyRow("secor.gs.connect.timeout.ms", ("output.gcs",)),
    KeyRow("secor.gs.read.timeout.ms", ("output.gcs",)),
    KeyRow("secor.gs.upload.direct", why="objects are composed of parts"),
    KeyRow("secor.gs.threadpool.fixed.size", why="tasks upload"),
    KeyRow("secor.gs.tasks.ratelimit.pr.second", why="tasks upload"),
    KeyRow("secor.azure.endpoints.protocol", ("output.url",), why="requests are https"),
    KeyRow("secor.azure.account.name", ("output.url",)),
    KeyRow("secor.azure.account.key", ("output.azure",), is_secret=True),
    KeyRow("secor.azure.container.name", ("output.url",)),
    KeyRow("secor.azure.path", ("output.url",)),
    KeyRow("swift.password", is_secret=True, why=_SWIFT),
    KeyRow("swift.api.key", is_secret=True, why=_SWIFT),
    KeyRow("secor.swift.*", why=_SWIFT),
    KeyRow("swift.*", why=_SWIFT),
    KeyRow(
        "secor.s3.prefix.md5hash",
        refusal="S3 has spread keys by itself since 2018, and objects have no such prefix: "
        "readers of the new objects look below output.url",
    ),
    KeyRow(
        "secor.s3.alter.path.date",
        refusal="a group has one root: once the date has passed, set output.url to "
        "secor.s3.alternative.path",
    ),
    KeyRow("secor.s3.alternative.path", why="goes with secor.s3.alter.path.date"),
    KeyRow(
        "secor.upload.manager.class",
        ("output.store",),
        default=f"{_PACKAGE}.uploader.HadoopS3UploadManager",
        why="the scheme of output.url chooses the store",
    ),
    KeyRow(
        "secor.upload.class",
        ("output.store",),
        refusal="an uploader of your own is a store of your own: output.store",
        off=(f"{_PACKAGE}.uploader.uploader",),
    ),
)

RECORDS = (
    KeyRow("secor.generation", ("generation",), default="1"),
    KeyRow("secor.message.parser.class", ("decode.format",)),
    KeyRow("message.timestamp.name", ("decode.timestamp.field",), default="timestamp"),
    KeyRow("message.timestamp.name.separator", ("decode.timestamp.separator",)),
    KeyRow("message.timestamp.id", ("decode.timestamp.field",), default="1"),
    KeyRow("message.timestamp.type", ("decode.options",), default="i64"),
    KeyRow("secor.thrift.protocol.class", ("decode.options",)),
    KeyRow("message.timestamp.input.pattern", ("decode.timestamp.format", "decode.options")),
    KeyRow("message.timestamp.required", ("decode.timestamp.missing",), default="true"),
    KeyRow("message.timestamp.skew.max.ms", why="Secor reads it and never uses it"),
    KeyRow("kafka.useTimestamp", ("decode.timestamp",), why="it is off"),
    KeyRow("message.split.field.name", ("route.pattern",)),
    KeyRow("partitioner.granularity.hour", ("route.pattern",), why="it is off"),
    KeyRow("partitioner.granularity.minute", ("route.pattern",), why="it is off"),
    KeyRow("partitioner.granularity.date.prefix", ("route.pattern",), default="dt="),
    KeyRow("partitioner.granularity.hour.prefix", ("route.pattern",), default="hr="),
    KeyRow("partitioner.granularity.minute.prefix", ("route.pattern",), default="min="),
    KeyRow("partitioner.granularity.field.prefix", ("route.pattern",)),
    KeyRow("partitioner.granularity.date.format", ("route.pattern",), default="yyyy-MM-dd"),
    KeyRow("partitioner.granularity.hour.format", ("route.pattern",), default="HH"),
    KeyRow("partitioner.granularity.minute.format", ("route.pattern",), default="mm"),
    KeyRow("secor.offsets.per.partition", why="folders are dates; there are none of offsets"),
    KeyRow("secor.offsets.prefix", why="folders are dates; there are none of offsets"),
    KeyRow("secor.parser.timezone", ("route.timezone",), default="UTC"),
    KeyRow(
        "secor.file.reader.writer.factory",
        ("output.format",),
        default=f"{_PACKAGE}.io.impl.SequenceFileReaderWriterFactory",
    ),
    KeyRow("secor.compression.codec", ("output.codec",)),
    KeyRow("secor.file.extension", ("output.options",)),
    KeyRow("secor.file.writer.Delimiter", ("output.options",), default="\n"),
    KeyRow("secor.file.reader.Delimiter", why="only Secor's own reader reads it"),
    KeyRow("parquet.block.size", ("output.options",), why=_PARQUET),
    KeyRow("parquet.page.size", ("output.options",), why=_PARQUET),
    KeyRow("parquet.enable.dictionary", ("output.options",), why=_PARQUET),
    KeyRow("parquet.validation", why="every row is checked by its schema"),
    KeyRow("secor.orc.schema.provider", ("decode.columns",), why="columns are declared"),
    KeyRow("secor.orc.message.schema.*", ("decode.columns", "topics"), why="only ORC reads it"),
    KeyRow("secor.protobuf.message.class.*", ("topics",)),
    KeyRow("secor.thrift.message.class.*", ("topics",), why="only Parquet of Thrift reads it"),
    KeyRow("secor.avro.message.schema.*", ("topics",), why="schema.registry.url is set"),
    KeyRow(
        "secor.topic.message.format.*",
        ("topics",),
        refusal="messages in JSON are not made into Protobuf: decode.format Json and "
        "decode.columns make Parquet of them, in an entry of topics",
        off=("protobuf",),
    ),
    KeyRow(
        "secor.message.transformer.class",
        ("transforms",),
        refusal="write it as steps of transforms, or as a function in Python",
        off=(f"{_PACKAGE}.transformer.identitymessagetransformer".lower(),),
    ),
    KeyRow("schema.registry.url", ("decode.registry",), why="no schema is asked for", is_list=True),
)

OPERATION = (
    KeyRow("secor.max.file.size.bytes", ("uploadPolicy.maxBytes",), default="200000000"),
    KeyRow("secor.max.file.age.seconds", ("uploadPolicy.maxAge",), default="3600"),
    KeyRow("secor.kafka.upload_at_minute_mark.topic_filter", ("uploadPolicy.overrides",)),
    KeyRow("secor.upload.minute_mark", ("uploadPolicy.overrides",)),
    KeyRow("secor.file.age.youngest", why="age is counted from the oldest record"),
    KeyRow("secor.max.file.count", why="memory bounds open objects: tuning.taskMemory"),
    KeyRow("secor.upload.deterministic", why=_DETERMINISTIC),
    KeyRow("secor.max.file.timestamp.range.millis", why=_DETERMINISTIC),
    KeyRow("secor.max.input.payload.size.bytes", why=_DETERMINISTIC),
    KeyRow("secor.upload.on.shutdown", why="a driver that stops finishes the batches in flight"),
    KeyRow("secor.upload.last.seen.offset", why=_LEDGER),
    KeyRow("secor.upload.secor.upload.last.seen.offset", why=_LEDGER),
    KeyRow("secor.consumer.max_bad_messages", ("badRecords.maxRatio",), default="1000"),
    KeyRow("secor.consumer.threads", why="replicas and executor.cores set how much runs at once"),
    KeyRow("secor.messages.per.second", why="there is no limit of records per second"),
    KeyRow("secor.max.message.size.bytes", why="messages may have any size"),
    KeyRow("secor.local.path", why=_NO_DISK),
    KeyRow("secor.local.log.delete.age.hours", why=_NO_DISK),
    KeyRow("secor.topic_partition.forget.seconds", why=_METRICS),
    KeyRow("ostrich.port", why=_METRICS),
    KeyRow("tsdb.hostport", why=_METRICS),
    KeyRow("statsd.*", why=_METRICS),
    KeyRow("monitoring.*", why=_METRICS),
    KeyRow("secor.monitoring.*", why=_METRICS),
    KeyRow("secor.hive.table.name.*", ("publish",), why=_FINALIZER),
    KeyRow("secor.hive.prefix", ("publish",), why=_FINALIZER),
    KeyRow("hive.table.prefix", ("publish",), why=_FINALIZER),
    KeyRow("secor.enable.qubole", ("publish",), why=_FINALIZER),
    KeyRow("secor.qubole.timeout.ms", why="there are no calls of Qubole"),
    KeyRow("qubole.api.token", is_secret=True, why="there are no calls of Qubole"),
    KeyRow("partitioner.finalizer.delay.seconds", ("completeness.delay",), "3600", _FINALIZER),
    KeyRow("secor.finalizer.lookback.periods", ("publish",), "10", _FINALIZER),
)

PROCESS = (
    KeyRow("config", why="names the file"),
    KeyRow("secor_group", why="names the log of a process"),
    KeyRow("log4j.configuration", why="events are JSON on standard error"),
    KeyRow("java.*", why=_JVM),
    KeyRow("com.sun.*", why=_JVM),
)
"""The keys that Secor's scripts give a process by ``-D``."""

KEYS = Keys((*KAFKA, *STORE, *RECORDS, *OPERATION, *PROCESS))

ENVIRONMENT = {
    "ZOOKEEPER_QUORUM": "zookeeper.quorum",
    "ZOOKEEPER_PATH": "kafka.zookeeper.path",
    "KAFKA_SEED_BROKER_HOST": "kafka.seed.broker.host",
    "KAFKA_SEED_BROKER_PORT": "kafka.seed.broker.port",
    "SECOR_GROUP": "secor.kafka.group",
    "AWS_REGION": "aws.region",
    "AWS_ENDPOINT": "aws.endpoint",
    "AWS_PATH_STYLE_ACCESS": "aws.client.pathstyleaccess",
    "AWS_ACCESS_KEY": "aws.access.key",
    "AWS_SECRET_KEY": "aws.secret.key",
    "AWS_SESSION_TOKEN": "aws.session.token",
    "SECOR_S3_BUCKET": "secor.s3.bucket",
    "S3_PATH": "secor.s3.path",
    "SECOR_SCHEMA_REGISTRY": "schema.registry.url",
    "MESSAGE_TIMESTAMP_NAME": "message.timestamp.name",
    "MESSAGE_TIMESTAMP_NAME_SEPARATOR": "message.timestamp.name.separator",
    "SECOR_PARSER_TIMEZONE": "secor.parser.timezone",
    "CLOUD_SERVICE": "cloud.service",
    "SECOR_UPLOAD_MANAGER_CLASS": "secor.upload.manager.class",
    "SECOR_GS_BUCKET": "secor.gs.bucket",
    "SECOR_GS_PATH": "secor.gs.path",
    "SECOR_MAX_FILE_BYTES": "secor.max.file.size.bytes",
    "SECOR_MAX_FILE_SECONDS": "secor.max.file.age.seconds",
    "SECOR_KAFKA_TOPIC_FILTER": "secor.kafka.topic_filter",
    "SECOR_WRITER_FACTORY": "secor.file.reader.writer.factory",
    "SECOR_MESSAGE_PARSER": "secor.message.parser.class",
}
"""The variables of Secor's image and the keys that they set (docker-entrypoint.sh)."""
EXTRA_OPTIONS = "SECOR_EXTRA_OPTS"
"""The variable with more ``-Dkey=value``."""


def options_of(text: str) -> Iterator[tuple[str, str]]:
    """The ``-Dkey=value`` in a text, as a shell without quotes splits it."""
    for word in text.split():
        if word.startswith("-D"):
            key, _, value = word[2:].partition("=")
            yield key, value
