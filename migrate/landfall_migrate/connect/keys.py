"""Every key of Confluent's S3 sink: its replacement, its default, or why it is not needed.

Sources: Confluent's documentation, "Amazon S3 Sink Connector Configuration Properties" and "Kafka
Connect Sink Configuration Properties".
"""

from landfall_migrate.keys import Keys, Row

_NAMES = "names of objects are fixed"
_LEDGER = "the ledger decides what counts"
_FRAMEWORK = "no cluster of Connect runs the group"
_TYPES = "schemas are taken as they are registered, not by way of Connect's types"
_SECRET = "output.s3.credentialsSecretRef"  # noqa: S105  # the name of a field
_PRODUCERS = "only producers read it"
_STORAGE = "there is one kind of storage in this connector"
_LICENSE = "Landfall needs no license"

SOURCE = (
    Row("name", ("source.kafka.groupId",)),
    Row("connector.class", why="names the connector"),
    Row("tasks.max", why="replicas and executor.cores set how much runs at once"),
    Row("tasks.max.enforce", why="replicas and executor.cores set how much runs at once"),
    Row("bootstrap.servers", ("source.kafka.bootstrapServers",)),
    Row("topics", ("source.kafka.topics",)),
    Row("topics.regex", ("source.kafka.topicPattern",), why="topics counts more"),
    Row(
        "consumer.override.auto.offset.reset",
        ("source.kafka.startingOffsets",),
        default="earliest",
    ),
    Row("consumer.override.*", ("source.kafka.properties",)),
    Row("config.action.reload", why=_FRAMEWORK),
    Row("key.converter", ("decode.key",), why="nothing reads keys"),
    Row("key.converter.*", ("decode.key",), why="nothing reads keys"),
    Row("header.converter", ("decode.headerColumns",), why="nothing reads headers"),
    Row("header.converter.*", ("decode.headerColumns",), why="nothing reads headers"),
    Row("value.converter", ("decode.format",)),
    Row("value.converter.schemas.enable", ("decode.timestamp.field",), default="true"),
    Row("value.converter.schema.registry.url", ("decode.registry",)),
    Row("value.converter.basic.auth.credentials.source", why="a Secret holds the login"),
    Row(
        "value.converter.basic.auth.user.info",
        ("decode.registry",),
        is_secret=True,
        why="no registry is asked",
    ),
    Row(
        "value.converter.schema.registry.basic.auth.user.info",
        is_secret=True,
        why="no registry is asked",
    ),
    Row("value.converter.enhanced.avro.schema.support", why=_TYPES),
    Row("value.converter.schemas.cache.*", why="a schema is asked for once"),
    Row("value.converter.decimal.format", why="decimals in JSON are text"),
    Row("value.converter.auto.register.schemas", why=_PRODUCERS),
    Row("value.converter.use.latest.version", why=_PRODUCERS),
    Row("value.converter.latest.compatibility.strict", why=_PRODUCERS),
    Row("value.converter.value.subject.name.strategy", why="payloads name their schema by its id"),
    Row("internal.key.converter", why=_FRAMEWORK),
    Row("internal.key.converter.*", why=_FRAMEWORK),
    Row("internal.value.converter", why=_FRAMEWORK),
    Row("internal.value.converter.*", why=_FRAMEWORK),
)

STORE = (
    Row("s3.bucket.name", ("output.url",)),
    Row("topics.dir", ("output.url",), default="topics", why="goes with s3.bucket.name"),
    Row("storage.class", ("output.url",), why=_STORAGE),
    Row("s3.region", ("output.s3.region",), default="us-west-2"),
    Row("store.url", ("output.s3.endpoint",)),
    Row("s3.path.style.access.enabled", ("output.s3.pathStyle",), why="it is off"),
    Row("aws.access.key.id", (_SECRET,), is_secret=True),
    Row("aws.secret.access.key", (_SECRET,), is_secret=True),
    Row("s3.credentials.provider.class", ("output.s3.assumeRole",)),
    Row("s3.credentials.provider.sts.role.arn", ("output.s3.assumeRole",)),
    Row("s3.credentials.provider.sts.role.session.name", ("output.s3.assumeRole",)),
    Row("s3.credentials.provider.sts.role.external.id", ("output.s3.assumeRole",)),
    Row(
        "s3.credentials.provider.*",
        is_secret=True,
        refusal="only Confluent's own provider is: give a Secret, or output.s3.assumeRole",
    ),
    Row("s3.ssea.name", ("output.s3.sse",)),
    Row("s3.sse.kms.key.id", ("output.s3.sse",)),
    Row(
        "s3.sse.customer.key",
        is_secret=True,
        refusal="every reader would need a key of the customer: use aws:kms with a key of your own",
        off=(),
    ),
    Row("s3.proxy.url", ("output.s3.proxy",)),
    Row("s3.proxy.user", (_SECRET,), is_secret=True, why="goes with s3.proxy.url"),
    Row("s3.proxy.password", (_SECRET,), is_secret=True, why="goes with s3.proxy.url"),
    Row("s3.acl.canned", ("output.s3.acl",)),
    Row("s3.object.tagging", why="its tags are offsets and counts, which the ledger has"),
    Row("s3.object.tagging.*", why="its tags are offsets and counts, which the ledger has"),
    Row("s3.wan.mode", refusal="there is no transfer acceleration; only speed differs"),
    Row("s3.part.size", ("output.s3.partBytes",)),
    Row("s3.part.retries", ("output.s3.maxAttempts",)),
    Row("s3.retry.backoff.ms", why="pauses grow by themselves"),
    Row("retry.backoff.ms", why="landing waits, and is not stopped"),
    Row("s3.http.send.expect.continue", why="the client decides"),
    Row("s3.elastic.buffer.*", why="memory is bounded by tuning.taskMemory"),
)

FILES = (
    Row("format.class", ("output.format",)),
    Row("s3.compression.type", ("output.codec",), default="none"),
    Row("s3.compression.level", why="levels are fixed"),
    Row("parquet.codec", ("output.codec",), default="snappy", why="only ParquetFormat reads it"),
    Row("avro.codec", ("output.codec",), default="null", why="only AvroFormat reads it"),
    Row("format.bytearray.extension", ("output.options",), default=".bin"),
    Row("format.bytearray.separator", ("output.options",), default="\n"),
    Row("schema.compatibility", ("output.columns",), default="NONE"),
    Row("schema.cache.size", why="a schema is asked for once"),
    Row("schemas.cache.config", why="a schema is asked for once"),
    Row(
        "schema.generator.class", why="it names partition columns for Hive, which this sink has not"
    ),
    Row("enhanced.avro.schema.support", why=_TYPES),
    Row("connect.meta.data", why=_TYPES),
    Row("allow.optional.map.keys", why=_TYPES),
    Row("json.decimal.format", why="decimals in JSON are text"),
    Row("behavior.on.null.values", ("output.options",), default="fail"),
    Row("report.null.values.to.dlq", why="tombstones that a format cannot hold are dead letters"),
    Row("tombstone.encoded.partition", why="goes with behavior.on.null.values write"),
    Row("store.kafka.keys", refusal="take Parquet without columns, which has them"),
    Row("store.kafka.headers", refusal="take Parquet without columns, which has them"),
    Row("keys.format.class", why="goes with store.kafka.keys"),
    Row("headers.format.class", why="goes with store.kafka.headers"),
    Row("filename.offset.zero.pad.width", why=_NAMES),
    Row("file.delim", why=_NAMES),
    Row("directory.delim", refusal="folders are parted by /", off=("/",)),
    Row("locale", why="names of months are English"),
)

ROUTE = (
    Row(
        "partitioner.class",
        ("route.pattern",),
        default="io.confluent.connect.storage.partitioner.DefaultPartitioner",
    ),
    Row("path.format", ("route.pattern",)),
    Row("partition.duration.ms", ("route.pattern",)),
    Row("partition.field.name", ("route.pattern",)),
    Row(
        "s3.schema.partition.affix.type",
        ("route.pattern",),
        refusal="{schema:name} in route.pattern is the whole name of a folder",
        off=("none",),
    ),
    Row("partition.field.format.path", ("route.pattern",)),
    Row("timezone", ("route.timezone",)),
    Row("timestamp.extractor", ("decode.timestamp",), default="Wallclock"),
    Row("timestamp.field", ("decode.timestamp",), default="timestamp"),
    Row("partitioner.max.open.files", why="memory bounds open objects: tuning.taskMemory"),
    Row("rotate.file.on.partition.change", why="each output partition is an object of its own"),
)

OPERATION = (
    Row("flush.size", ("output.rotate.maxRecords",)),
    Row("rotate.interval.ms", ("uploadPolicy.maxAge",)),
    Row("rotate.schedule.interval.ms", ("uploadPolicy.maxAge",)),
    Row("shutdown.timeout.ms", why=_LEDGER),
    Row("enable.conditional.writes", why=_LEDGER),
    Row("max.files.scan.limit", why=_LEDGER),
    Row("max.write.duration.ms", why=_LEDGER),
    Row("errors.tolerance", ("badRecords.policy",), default="none"),
    Row("errors.deadletterqueue.topic.name", why="dead letters are objects in the output root"),
    Row("errors.deadletterqueue.*", why="dead letters are objects in the output root"),
    Row("errors.log.*", why="the reason is stored with each dead letter"),
    Row("errors.retry.*", why="landing waits, and is not stopped"),
    Row("reporter.*", why="the ledger and the metrics show what is landed", is_secret=True),
    Row("confluent.license", is_secret=True, why=_LICENSE),
    Row("confluent.topic.*", is_secret=True, why=_LICENSE),
)

STEPS = (
    Row("transforms", ("transforms",)),
    Row("transforms.*", ("transforms",), why="transforms does not name it"),
    Row("predicates", ("transforms",), why="goes with a transform"),
    Row("predicates.*", ("transforms",), why="goes with a transform"),
)

KEYS = Keys((*SOURCE, *STORE, *FILES, *ROUTE, *OPERATION, *STEPS))
