"""Every key that Secor reads: its replacement, its default, or why it is not needed.

Sources: SecorConfig.java and src/main/config/secor.common.properties of Secor; the defaults come
from the latter, which every configuration that Secor ships with includes.
"""

from collections.abc import Iterator

from landfall_migrate.keys import Keys, Row

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
    Row("secor.kafka.group", ("source.kafka.groupId",)),
    Row("secor.kafka.topic_filter", ("source.kafka.topicPattern",), default=".*"),
    Row("secor.kafka.topic_blacklist", ("source.kafka.exclude",)),
    Row("kafka.new.consumer.topic.list", ("source.kafka.topics",), is_list=True),
    Row("kafka.seed.broker.host", ("source.kafka.bootstrapServers",)),
    Row("kafka.seed.broker.port", ("source.kafka.bootstrapServers",), default="9092"),
    Row(
        "kafka.consumer.auto.offset.reset",
        ("source.kafka.startingOffsets",),
        default="smallest",
        why="only Secor's legacy consumer reads it",
    ),
    Row(
        "kafka.new.consumer.auto.offset.reset",
        ("source.kafka.startingOffsets",),
        default="earliest",
        why="only Secor's new consumer reads it",
    ),
    Row("kafka.new.consumer.poll.timeout.seconds", why="tasks read ranges of offsets"),
    Row("kafka.new.consumer.partition.assignment.strategy.class", why=_NO_ASSIGNMENT),
    *(
        Row(f"kafka.new.consumer.{name}", ("source.kafka.propertiesSecretRef",), is_secret=True)
        for name in (
            "ssl.key.password",
            "ssl.keystore.password",
            "ssl.truststore.password",
            "sasl.jaas.config",
        )
    ),
    *(
        Row(f"kafka.new.consumer.{name}", ("source.kafka.properties",))
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
    Row("kafka.fetch.message.max.bytes", ("source.kafka.properties",)),
    Row("kafka.fetch.min.bytes", ("source.kafka.properties",)),
    Row("kafka.fetch.max.bytes", ("source.kafka.properties",)),
    Row("kafka.fetch.wait.max.ms", ("source.kafka.properties",)),
    Row("kafka.socket.receive.buffer.bytes", ("source.kafka.properties",)),
    Row("kafka.consumer.timeout.ms", why="tasks read ranges of offsets"),
    Row("kafka.partition.assignment.strategy", why=_NO_ASSIGNMENT),
    Row("kafka.rebalance.max.retries", why=_NO_ASSIGNMENT),
    Row("kafka.rebalance.backoff.ms", why=_NO_ASSIGNMENT),
    Row("kafka.message.timestamp.className", why=_CLASSES),
    Row("kafka.message.iterator.className", why=_CLASSES),
    Row("kafka.client.className", why=_CLASSES),
    Row("kafka.offsets.storage", default="zookeeper", why=_LEDGER),
    Row("kafka.dual.commit.enabled", default="true", why=_LEDGER),
    Row("zookeeper.*", why=_LEDGER),
    Row("kafka.zookeeper.path", why=_LEDGER),
    Row("secor.zookeeper.path", why=_LEDGER),
)

STORE = (
    Row("cloud.service", ("output.url",), default="S3"),
    Row("secor.s3.filesystem", ("output.url",), default="s3n", why="s3n and s3a are s3"),
    Row("secor.s3.bucket", ("output.url",)),
    Row("secor.s3.path", ("output.url",)),
    Row("aws.access.key", ("output.s3.credentialsSecretRef",), is_secret=True),
    Row("aws.secret.key", ("output.s3.credentialsSecretRef",), is_secret=True),
    Row("aws.session.token", ("output.s3.credentialsSecretRef",), is_secret=True),
    Row("aws.role", ("output.s3.assumeRole",)),
    Row("aws.region", ("output.s3.region",)),
    Row("aws.endpoint", ("output.s3.endpoint",)),
    Row("aws.client.pathstyleaccess", ("output.s3.pathStyle",)),
    Row("aws.sse.type", ("output.s3.sse",)),
    Row("aws.sse.kms.key", ("output.s3.sse",)),
    Row("aws.sse.customer.key", is_secret=True, why="goes with keys of the customer only"),
    Row("aws.proxy.isEnabled", ("output.s3.proxy",), why="it is off"),
    Row("aws.proxy.http.host", ("output.s3.proxy",)),
    Row("aws.proxy.http.port", ("output.s3.proxy",)),
    Row("secor.gs.bucket", ("output.url",)),
    Row("secor.gs.path", ("output.url",)),
    Row("secor.gs.credentials.path", ("output.gcs",)),
    Row("secor.gs.connect.timeout.ms", ("output.gcs",)),
    Row("secor.gs.read.timeout.ms", ("output.gcs",)),
    Row("secor.gs.upload.direct", why="objects are composed of parts"),
    Row("secor.gs.threadpool.fixed.size", why="tasks upload"),
    Row("secor.gs.tasks.ratelimit.pr.second", why="tasks upload"),
    Row("secor.azure.endpoints.protocol", ("output.url",), why="requests are https"),
    Row("secor.azure.account.name", ("output.url",)),
    Row("secor.azure.account.key", ("output.azure",), is_secret=True),
    Row("secor.azure.container.name", ("output.url",)),
    Row("secor.azure.path", ("output.url",)),
    Row("swift.password", is_secret=True, why=_SWIFT),
    Row("swift.api.key", is_secret=True, why=_SWIFT),
    Row("secor.swift.*", why=_SWIFT),
    Row("swift.*", why=_SWIFT),
    Row(
        "secor.s3.prefix.md5hash",
        refusal="S3 has spread keys by itself since 2018, and objects have no such prefix: "
        "readers of the new objects look below output.url",
    ),
    Row(
        "secor.s3.alter.path.date",
        refusal="a group has one root: once the date has passed, set output.url to "
        "secor.s3.alternative.path",
    ),
    Row("secor.s3.alternative.path", why="goes with secor.s3.alter.path.date"),
    Row(
        "secor.upload.manager.class",
        ("output.store",),
        default=f"{_PACKAGE}.uploader.HadoopS3UploadManager",
        why="the scheme of output.url chooses the store",
    ),
    Row(
        "secor.upload.class",
        ("output.store",),
        refusal="an uploader of your own is a store of your own: output.store",
        off=(f"{_PACKAGE}.uploader.uploader",),
    ),
)

RECORDS = (
    Row("secor.generation", ("generation",), default="1"),
    Row("secor.message.parser.class", ("decode.format",)),
    Row("message.timestamp.name", ("decode.timestamp.field",), default="timestamp"),
    Row("message.timestamp.name.separator", ("decode.timestamp.separator",)),
    Row("message.timestamp.id", ("decode.timestamp.field",), default="1"),
    Row("message.timestamp.type", ("decode.options",), default="i64"),
    Row("secor.thrift.protocol.class", ("decode.options",)),
    Row("message.timestamp.input.pattern", ("decode.timestamp.format", "decode.options")),
    Row("message.timestamp.required", ("decode.timestamp.missing",), default="true"),
    Row("message.timestamp.skew.max.ms", why="Secor reads it and never uses it"),
    Row("kafka.useTimestamp", ("decode.timestamp",), why="it is off"),
    Row("message.split.field.name", ("route.pattern",)),
    Row("partitioner.granularity.hour", ("route.pattern",), why="it is off"),
    Row("partitioner.granularity.minute", ("route.pattern",), why="it is off"),
    Row("partitioner.granularity.date.prefix", ("route.pattern",), default="dt="),
    Row("partitioner.granularity.hour.prefix", ("route.pattern",), default="hr="),
    Row("partitioner.granularity.minute.prefix", ("route.pattern",), default="min="),
    Row("partitioner.granularity.field.prefix", ("route.pattern",)),
    Row("partitioner.granularity.date.format", ("route.pattern",), default="yyyy-MM-dd"),
    Row("partitioner.granularity.hour.format", ("route.pattern",), default="HH"),
    Row("partitioner.granularity.minute.format", ("route.pattern",), default="mm"),
    Row("secor.offsets.per.partition", why="folders are dates; there are none of offsets"),
    Row("secor.offsets.prefix", why="folders are dates; there are none of offsets"),
    Row("secor.parser.timezone", ("route.timezone",), default="UTC"),
    Row(
        "secor.file.reader.writer.factory",
        ("output.format",),
        default=f"{_PACKAGE}.io.impl.SequenceFileReaderWriterFactory",
    ),
    Row("secor.compression.codec", ("output.codec",)),
    Row("secor.file.extension", ("output.options",)),
    Row("secor.file.writer.Delimiter", ("output.options",), default="\n"),
    Row("secor.file.reader.Delimiter", why="only Secor's own reader reads it"),
    Row("parquet.block.size", ("output.options",), why=_PARQUET),
    Row("parquet.page.size", ("output.options",), why=_PARQUET),
    Row("parquet.enable.dictionary", ("output.options",), why=_PARQUET),
    Row("parquet.validation", why="every row is checked by its schema"),
    Row("secor.orc.schema.provider", ("decode.columns",), why="columns are declared"),
    Row("secor.orc.message.schema.*", ("decode.columns", "topics"), why="only ORC reads it"),
    Row("secor.protobuf.message.class.*", ("topics",)),
    Row("secor.thrift.message.class.*", ("topics",), why="only Parquet of Thrift reads it"),
    Row("secor.avro.message.schema.*", ("topics",), why="schema.registry.url is set"),
    Row(
        "secor.topic.message.format.*",
        ("topics",),
        refusal="messages in JSON are not made into Protobuf: decode.format Json and "
        "decode.columns make Parquet of them, in an entry of topics",
        off=("protobuf",),
    ),
    Row(
        "secor.message.transformer.class",
        ("transforms",),
        refusal="write it as steps of transforms, or as a function in Python",
        off=(f"{_PACKAGE}.transformer.identitymessagetransformer".lower(),),
    ),
    Row("schema.registry.url", ("decode.registry",), why="no schema is asked for", is_list=True),
)

OPERATION = (
    Row("secor.max.file.size.bytes", ("uploadPolicy.maxBytes",), default="200000000"),
    Row("secor.max.file.age.seconds", ("uploadPolicy.maxAge",), default="3600"),
    Row("secor.kafka.upload_at_minute_mark.topic_filter", ("uploadPolicy.overrides",)),
    Row("secor.upload.minute_mark", ("uploadPolicy.overrides",)),
    Row("secor.file.age.youngest", why="age is counted from the oldest record"),
    Row("secor.max.file.count", why="memory bounds open objects: tuning.taskMemory"),
    Row("secor.upload.deterministic", why=_DETERMINISTIC),
    Row("secor.max.file.timestamp.range.millis", why=_DETERMINISTIC),
    Row("secor.max.input.payload.size.bytes", why=_DETERMINISTIC),
    Row("secor.upload.on.shutdown", why="a driver that stops finishes the batches in flight"),
    Row("secor.upload.last.seen.offset", why=_LEDGER),
    Row("secor.upload.secor.upload.last.seen.offset", why=_LEDGER),
    Row("secor.consumer.max_bad_messages", ("badRecords.maxRatio",), default="1000"),
    Row("secor.consumer.threads", why="replicas and executor.cores set how much runs at once"),
    Row("secor.messages.per.second", why="there is no limit of records per second"),
    Row("secor.max.message.size.bytes", why="messages may have any size"),
    Row("secor.local.path", why=_NO_DISK),
    Row("secor.local.log.delete.age.hours", why=_NO_DISK),
    Row("secor.topic_partition.forget.seconds", why=_METRICS),
    Row("ostrich.port", why=_METRICS),
    Row("tsdb.hostport", why=_METRICS),
    Row("statsd.*", why=_METRICS),
    Row("monitoring.*", why=_METRICS),
    Row("secor.monitoring.*", why=_METRICS),
    Row("secor.hive.table.name.*", ("publish",), why=_FINALIZER),
    Row("secor.hive.prefix", ("publish",), why=_FINALIZER),
    Row("hive.table.prefix", ("publish",), why=_FINALIZER),
    Row("secor.enable.qubole", ("publish",), why=_FINALIZER),
    Row("secor.qubole.timeout.ms", why="there are no calls of Qubole"),
    Row("qubole.api.token", is_secret=True, why="there are no calls of Qubole"),
    Row("partitioner.finalizer.delay.seconds", ("completeness.delay",), "3600", _FINALIZER),
    Row("secor.finalizer.lookback.periods", ("publish",), "10", _FINALIZER),
)

PROCESS = (
    Row("config", why="names the file"),
    Row("secor_group", why="names the log of a process"),
    Row("log4j.configuration", why="events are JSON on standard error"),
    Row("java.*", why=_JVM),
    Row("com.sun.*", why=_JVM),
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
