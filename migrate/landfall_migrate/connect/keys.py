"""Every key of Confluent's S3 sink: its replacement, its default, or why it is not needed.

Sources: Confluent's documentation, "Amazon S3 Sink Connector Configuration Properties" and "Kafka
Connect Sink Configuration Properties".
"""

from landfall_migrate.keys import KeyRow, Keys

_NAMES = "names of objects are fixed"
_LEDGER = "the ledger decides what counts"
_FRAMEWORK = "no cluster of Connect runs the group"
_TYPES = "schemas are taken as they are registered, not by way of Connect's types"
_SECRET = "output.s3.credentialsSecretRef"  # noqa: S105  # the name of a field
_PRODUCERS = "only producers read it"
_STORAGE = "there is one kind of storage in this connector"
_LICENSE = "Landfall needs no license"

SOURCE = (
    KeyRow("name", ("source.kafka.groupId",)),
    KeyRow("connector.class", why="names the connector"),
    KeyRow("tasks.max", why="replicas and executor.cores set how much runs at once"),
    KeyRow("tasks.max.enforce", why="replicas and executor.cores set how much runs at once"),
    KeyRow("bootstrap.servers", ("source.kafka.bootstrapServers",)),
    KeyRow("topics", ("source.kafka.topics",)),
    KeyRow("topics.regex", ("source.kafka.topicPattern",), why="topics counts more"),
    KeyRow(
        "consumer.override.auto.offset.reset",
        ("source.kafka.startingOffsets",),
        default="earliest",
    ),
    KeyRow("consumer.override.*", ("source.kafka.properties",)),
    KeyRow("config.action.reload", why=_FRAMEWORK),
    KeyRow("key.converter", ("decode.key",), why="nothing reads keys"),
    KeyRow("key.converter.*", ("decode.key",), why="nothing reads keys"),
    KeyRow("header.converter", ("decode.headerColumns",), why="nothing reads headers"),
    KeyRow("header.converter.*", ("decode.headerColumns",), why="nothing reads headers"),
    KeyRow("value.converter", ("decode.format",)),
    KeyRow("value.converter.schemas.enable", ("decode.timestamp.field",), default="true"),
    KeyRow("value.converter.schema.registry.url", ("decode.registry",)),
    KeyRow("value.converter.basic.auth.credentials.source", why="a Secret holds the login"),
    KeyRow(
        "value.converter.basic.auth.user.info",
        ("decode.registry",),
        is_secret=True,
        why="no registry is asked",
    ),
    KeyRow(
        "value.converter.schema.registry.basic.auth.user.info",
        is_secret=True,
        why="no registry is asked",
    ),
    KeyRow("value.converter.enhanced.avro.schema.support", why=_TYPES),
    KeyRow("value.converter.schemas.cache.*", why="a schema is asked for once"),
    KeyRow("value.converter.decimal.format", why="decimals in JSON are text"),
    KeyRow("value.converter.auto.register.schemas", why=_PRODUCERS),
    KeyRow("value.converter.use.latest.version", why=_PRODUCERS),
    KeyRow("value.converter.latest.compatibility.strict", why=_PRODUCERS),
    KeyRow(
        "value.converter.value.subject.name.strategy", why="payloads name their schema by its id"
    ),
    KeyRow("internal.key.converter", why=_FRAMEWORK),
    KeyRow("internal.key.converter.*", why=_FRAMEWORK),
    KeyRow("internal.value.converter", why=_FRAMEWORK),
    KeyRow("internal.value.converter.*", why=_FRAMEWORK),
)

STORE = (
    KeyRow("s3.bucket.name", ("output.url",)),
    KeyRow("topics.dir", ("output.url",), default="topics", why="goes with s3.bucket.name"),
    KeyRow("storage.class", ("output.url",), why=_STORAGE),
    KeyRow("s3.region", ("output.s3.region",), default="us-west-2"),
    KeyRow("store.url", ("output.s3.endpoint",)),
    KeyRow("s3.path.style.access.enabled", ("output.s3.pathStyle",), why="it is off"),
    KeyRow("aws.access.key.id", (_SECRET,), is_secret=True),
    KeyRow("aws.secret.access.key", (_SECRET,), is_secret=True),
    KeyRow("s3.credentials.provider.class", ("output.s3.assumeRole",)),
    KeyRow("s3.credentials.provider.sts.role.arn", ("output.s3.assumeRole",)),
    KeyRow("s3.credentials.provider.sts.role.session.name", ("output.s3.assumeRole",)),
    KeyRow("s3.credentials.provider.sts.role.external.id", ("output.s3.assumeRole",)),
    KeyRow(
        "s3.credentials.provider.*",
        is_secret=True,
        refusal="only Confluent's own provider is: give a Secret, or output.s3.assumeRole",
    ),
    KeyRow("s3.ssea.name", ("output.s3.sse",)),
    KeyRow("s3.sse.kms.key.id", ("output.s3.sse",)),
    KeyRow(
        "s3.sse.customer.key",
        is_secret=True,
        refusal="every reader would need a key of the customer: use aws:kms with a key of your own",
        off=(),
    ),
    KeyRow("s3.proxy.url", ("output.s3.proxy",)),
    KeyRow("s3.proxy.user", (_SECRET,), is_secret=True, why="goes with s3.proxy.url"),
    KeyRow("s3.proxy.password", (_SECRET,), is_secret=True, why="goes with s3.proxy.url"),
    KeyRow("s3.acl.canned", ("output.s3.acl",)),
    KeyRow("s3.object.tagging", why="its tags are offsets and counts, which the ledger has"),
    KeyRow("s3.object.tagging.*", why="its tags are offsets and counts, which the ledger has"),
    KeyRow("s3.wan.mode", refusal="there is no transfer acceleration; only speed differs"),
    KeyRow("s3.part.size", ("output.s3.partBytes",)),
    KeyRow("s3.part.retries", ("output.s3.maxAttempts",)),
    KeyRow("s3.retry.backoff.ms", why="pauses grow by themselves"),
    KeyRow("retry.backoff.ms", why="landing waits, and is not stopped"),
    KeyRow("s3.http.send.expect.continue", why="the client decides"),
    KeyRow("s3.elastic.buffer.*", why="memory is bounded by tuning.taskMemory"),
)

FILES = (
    KeyRow("format.class", ("output.format",)),
    KeyRow("s3.compression.type", ("output.codec",), default="none"),
    KeyRow("s3.compression.level", why="levels are fixed"),
    KeyRow("parquet.codec", ("output.codec",), default="snappy", why="only ParquetFormat reads it"),
    KeyRow("avro.codec", ("output.codec",), default="null", why="only AvroFormat reads it"),
    KeyRow("format.bytearray.extension", ("output.options",), default=".bin"),
    KeyRow("format.bytearray.separator", ("output.options",), default="\n"),
    KeyRow("schema.compatibility", ("output.columns",), default="NONE"),
    KeyRow("schema.cache.size", why="a schema is asked for once"),
    KeyRow("schemas.cache.config", why="a schema is asked for once"),
    KeyRow(
        "schema.generator.class", why="it names partition columns for Hive, which this sink has not"
    ),
    KeyRow("enhanced.avro.schema.support", why=_TYPES),
    KeyRow("connect.meta.data", why=_TYPES),
    KeyRow("allow.optional.map.keys", why=_TYPES),
    KeyRow("json.decimal.format", why="decimals in JSON are text"),
    KeyRow("behavior.on.null.values", ("output.options",), default="fail"),
    KeyRow(
        "report.null.values.to.dlq", why="tombstones that a format cannot hold are dead letters"
    ),
    KeyRow("tombstone.encoded.partition", why="goes with behavior.on.null.values write"),
    KeyRow("store.kafka.keys", refusal="take Parquet without columns, which has them"),
    KeyRow("store.kafka.headers", refusal="take Parquet without columns, which has them"),
    KeyRow("keys.format.class", why="goes with store.kafka.keys"),
    KeyRow("headers.format.class", why="goes with store.kafka.headers"),
    KeyRow("filename.offset.zero.pad.width", why=_NAMES),
    KeyRow("file.delim", why=_NAMES),
    KeyRow("directory.delim", refusal="folders are parted by /", off=("/",)),
    KeyRow("locale", why="names of months are English"),
)

ROUTE = (
    KeyRow(
        "partitioner.class",
        ("route.pattern",),
        default="io.confluent.connect.storage.partitioner.DefaultPartitioner",
    ),
    KeyRow("path.format", ("route.pattern",)),
    KeyRow("partition.duration.ms", ("route.pattern",)),
    KeyRow("partition.field.name", ("route.pattern",)),
    KeyRow(
        "s3.schema.partition.affix.type",
        ("route.pattern",),
        refusal="{schema:name} in route.pattern is the whole name of a folder",
        off=("none",),
    ),
    KeyRow("partition.field.format.path", ("route.pattern",)),
    KeyRow("timezone", ("route.timezone",)),
    KeyRow("timestamp.extractor", ("decode.timestamp",), default="Wallclock"),
    KeyRow("timestamp.field", ("decode.timestamp",), default="timestamp"),
    KeyRow("partitioner.max.open.files", why="memory bounds open objects: tuning.taskMemory"),
    KeyRow("rotate.file.on.partition.change", why="each output partition is an object of its own"),
)

OPERATION = (
    KeyRow("flush.size", ("output.rotate.maxRecords",)),
    KeyRow("rotate.interval.ms", ("uploadPolicy.maxAge",)),
    KeyRow("rotate.schedule.interval.ms", ("uploadPolicy.maxAge",)),
    KeyRow("shutdown.timeout.ms", why=_LEDGER),
    KeyRow("enable.conditional.writes", why=_LEDGER),
    KeyRow("max.files.scan.limit", why=_LEDGER),
    KeyRow("max.write.duration.ms", why=_LEDGER),
    KeyRow("errors.tolerance", ("badRecords.policy",), default="none"),
    KeyRow("errors.deadletterqueue.topic.name", why="dead letters are objects in the output root"),
    KeyRow("errors.deadletterqueue.*", why="dead letters are objects in the output root"),
    KeyRow("errors.log.*", why="the reason is stored with each dead letter"),
    KeyRow("errors.retry.*", why="landing waits, and is not stopped"),
    KeyRow("reporter.*", why="the ledger and the metrics show what is landed", is_secret=True),
    KeyRow("confluent.license", is_secret=True, why=_LICENSE),
    KeyRow("confluent.topic.*", is_secret=True, why=_LICENSE),
)

STEPS = (
    KeyRow("transforms", ("transforms",)),
    KeyRow("transforms.*", ("transforms",), why="transforms does not name it"),
    KeyRow("predicates", ("transforms",), why="goes with a transform"),
    KeyRow("predicates.*", ("transforms",), why="goes with a transform"),
)

KEYS = Keys((*SOURCE, *STORE, *FILES, *ROUTE, *OPERATION, *STEPS))
