"""Converts Secor's settings to a group: its sections in order, and the short ones here.

Sources: Secor's classes SecorConfig, SecorKafkaMessageIterator, LegacyKafkaMessageIterator,
Consumer and Uploader; docs/guides/coming-from.md lists the replacements.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from landfall.api.group_text import group_name
from landfall_migrate import client_properties
from landfall_migrate.draft import Draft
from landfall_migrate.offsets import put_offsets, warn_of_start
from landfall_migrate.properties import PropertyLine, Read, listed, with_includes
from landfall_migrate.secor.files import file_format, take_format
from landfall_migrate.secor.keys import ENVIRONMENT, EXTRA_OPTIONS, KEYS, options_of
from landfall_migrate.secor.records import take_records
from landfall_migrate.secor.store import take_store
from landfall_migrate.secor.topics import take_topics
from landfall_migrate.settings import ProgramSettings, Variables, resolved

GROUP = "secor.kafka.group"
_SECOR = "Secor's default"
_AGE = "secor.max.file.age.seconds"
_HOUR = 3600
BAD = "secor.consumer.max_bad_messages"
_BUDGET = 0.001
"""By how much of itself Secor's count of bad messages shrinks with a good one (Consumer.DECAY)."""
_OPTION = "kafka.new.consumer."
_PROPERTIES = {
    "kafka.fetch.message.max.bytes": ("fetch.message.max.bytes", True),
    "kafka.fetch.wait.max.ms": ("fetch.wait.max.ms", True),
    "kafka.fetch.max.bytes": ("fetch.max.bytes", False),
    "kafka.fetch.min.bytes": ("fetch.min.bytes", None),
    "kafka.socket.receive.buffer.bytes": ("socket.receive.buffer.bytes", None),
}
"""Properties of Kafka's client, and whether only Secor's legacy consumer reads them; None: both."""


@dataclass(frozen=True, slots=True)
class SecorInput:
    """The input that Secor is started with.

    Attributes:
        file: path of the properties file.
        options: keys and values of ``-D``, in order.
        environment: variables of Secor's image; empty if they do not count.
    """

    file: str
    options: Sequence[tuple[str, str]] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupChoices:
    """The user's choices for the group.

    Attributes:
        name: of the group; made of the name of Secor's group, or of the connector, if not given.
        namespace: of the group.
        generation: of the group; one above the input's if not given.
        bootstrap_servers: Kafka's addresses, which replace those in the input.
        finalizer: whether Secor's finalizer has run alongside.
        offsets: the next offset of topic partitions, by topic and Kafka partition.
    """

    name: str = ""
    namespace: str | None = None
    generation: int | None = None
    bootstrap_servers: str = ""
    finalizer: bool = False
    offsets: Mapping[str, Mapping[str, int]] | None = None


def settings_of(given: SecorInput, read: Read) -> ProgramSettings:
    """Secor's settings: the file, then the image's variables, then ``-D``; the last one counts.

    Raises:
        UnreadableError: a file is missing or malformed.
    """
    extra = options_of(given.environment.get(EXTRA_OPTIONS, ""))
    variables = [
        PropertyLine(key, tuple(listed(given.environment[name])), f"environment variable {name}")
        for name, key in ENVIRONMENT.items()
        if given.environment.get(name)
    ]
    options = [
        PropertyLine(key, tuple(listed(value)), "-D") for key, value in (*extra, *given.options)
    ]
    over = {line.key: line for line in (*variables, *options)}
    lines = [line for line in with_includes(given.file, read) if line.key not in over]
    system = {key: line.values[0] for key, line in over.items()}
    known = Variables(given.environment, system, KEYS.is_secret)
    return ProgramSettings(resolved([*lines, *over.values()], known), KEYS.defaults)


def convert(settings: ProgramSettings, wanted: GroupChoices) -> Draft:
    """The group that replaces Secor; ``document.accepted`` makes the document of it."""
    name = wanted.name or group_name(settings.text(GROUP) or "secor")
    draft = Draft(settings, KEYS, name, wanted.namespace)
    _take_generation(draft, wanted)
    _take_kafka(draft, wanted)
    format_ = file_format(draft)
    take_records(draft, format_)
    take_topics(draft, format_)
    take_store(draft)
    take_format(draft, format_)
    _take_policies(draft)
    if wanted.finalizer:
        _take_finalizer(draft)
    return draft


def _take_generation(draft: Draft, wanted: GroupChoices) -> None:
    text = draft.settings.text("secor.generation")
    last = int(text) if text.isdigit() else 0
    why = "above Secor's, so that no object of both has the same name"
    draft.put("generation", wanted.generation or last + 1, "secor.generation", why=why)


def is_legacy(settings: ProgramSettings) -> bool:
    """Return whether Secor is configured to read by Kafka's consumer of version 0.8."""
    return "Legacy" in settings.text("kafka.message.iterator.className")


def _take_kafka(draft: Draft, wanted: GroupChoices) -> None:
    settings = draft.settings
    host, port = settings.text("kafka.seed.broker.host"), settings.text("kafka.seed.broker.port")
    keys = ("kafka.seed.broker.host", "kafka.seed.broker.port")
    servers = wanted.bootstrap_servers or (f"{host}:{port}" if host else "")
    if servers:
        draft.put("source.kafka.bootstrapServers", servers, *keys)
    if settings.has(GROUP):
        draft.put("source.kafka.groupId", settings.text(GROUP), GROUP)
    _take_topic_names(draft)
    _take_start(draft, wanted)
    for key, (name, legacy) in _PROPERTIES.items():
        if settings.has(key) and legacy is not None and legacy != is_legacy(settings):
            draft.drop(key, "only Secor's other consumer reads it")
        elif settings.has(key):
            client_properties.take(draft, key, name)
    for key in [key for key in settings.given if key.startswith(_OPTION) and settings.has(key)]:
        row = KEYS.find(key)
        if row and not draft.claimed(key) and "source.kafka.properties" in "".join(row.fields):
            client_properties.take(draft, key, key.removeprefix(_OPTION))


def _take_start(draft: Draft, wanted: GroupChoices) -> None:
    settings, group = draft.settings, draft.settings.text(GROUP)
    legacy, field_ = is_legacy(settings), "source.kafka.startingOffsets"
    reset = "kafka.consumer.auto.offset.reset" if legacy else f"{_OPTION}auto.offset.reset"
    ours = {"smallest": "Earliest", "earliest": "Earliest", "largest": "Latest", "latest": "Latest"}
    start = ours.get(settings.text(reset))
    if wanted.offsets:
        put_offsets(draft, wanted.offsets, reset)
        return
    if start is None:
        draft.refuse(reset, f"set {field_}")
    else:
        draft.put(field_, start, reset)
        warn_of_start(draft, start)
    if settings.text("kafka.offsets.storage") == "kafka":
        step = f"then landfall import-offsets GROUP.yaml {group or 'ITS-GROUP'} prints where it"
        draft.next_steps.append(f"{step} stopped, as {field_}: put it into the file, or add --add")
    else:
        chroot = settings.text("kafka.zookeeper.path").rstrip("/")
        at = f"{chroot}/consumers/{group or 'ITS-GROUP'}/offsets"
        step = f"then dump its offsets in ZooKeeper, below {at}, and run this again with"
        draft.next_steps.append(f"{step} --offsets DUMP")


def _take_topic_names(draft: Draft) -> None:
    settings = draft.settings
    listing, filter_, without = (
        "kafka.new.consumer.topic.list",
        "secor.kafka.topic_filter",
        "secor.kafka.topic_blacklist",
    )
    names = settings.items(listing)
    legacy = is_legacy(settings)
    if names and not legacy:
        draft.put("source.kafka.topics", list(dict.fromkeys(names)), listing)
        draft.drop(filter_, "a list of topics counts more")
    elif legacy and settings.has(without) and not settings.has(filter_):
        draft.put("source.kafka.topicPattern", ".*", why="all topics that are not in the blacklist")
    else:
        pattern = settings.text(filter_)
        draft.put("source.kafka.topicPattern", pattern, filter_, default=_SECOR)
    if legacy:
        draft.drop(listing, "only Secor's new consumer reads it")
        if settings.has(without):
            draft.put("source.kafka.exclude", settings.text(without), without)
    elif settings.has(without):
        why = "Secor's new consumer does not read it and landed such topics: leave them out by "
        draft.drop(without, f"{why}source.kafka.exclude")


def _take_policies(draft: Draft) -> None:
    settings = draft.settings
    size, age = "secor.max.file.size.bytes", _AGE
    if settings.flag("secor.upload.deterministic"):
        _take_deterministic(draft)
    else:
        for key, name, unit in ((size, "maxBytes", ""), (age, "maxAge", "s")):
            text = settings.text(key)
            value = int(text) if text.isdigit() and not unit else f"{text}{unit}"
            draft.put(f"uploadPolicy.{name}", value, key, default=_SECOR)
        _take_minute_mark(draft, settings.text(age))
    _take_bad_messages(draft)


def _take_minute_mark(draft: Draft, age: str) -> None:
    """Uploads of some topics once an hour, in addition to uploads by size and age."""
    settings = draft.settings
    topics = "secor.kafka.upload_at_minute_mark.topic_filter"
    keys = (topics, "secor.upload.minute_mark")
    if not settings.has(topics):
        return
    if age.isdigit() and int(age) <= _HOUR:
        for key in keys:
            draft.drop(key, f"uploadPolicy.maxAge is no more than an hour, by {_AGE}")
        return
    entry = {"topics": settings.text(topics), "maxAge": "1h"}
    why = "once an hour; it does not look at the clock's minute"
    draft.put("uploadPolicy.overrides", [entry], *keys, why=why)


def _take_deterministic(draft: Draft) -> None:
    settings = draft.settings
    for key, name, unit in (
        ("secor.max.input.payload.size.bytes", "maxBytes", ""),
        ("secor.max.file.timestamp.range.millis", "maxAge", "ms"),
    ):
        text = settings.text(key)
        if text.isdigit() and int(text):
            draft.put(f"uploadPolicy.{name}", f"{text}{unit}" if unit else int(text), key)


def _take_bad_messages(draft: Draft) -> None:
    """Secor's count: one more with a bad message, a thousandth of itself less with a good one.

    So it stays above N only while bad messages are more than N thousandths of the good ones.
    """
    text = draft.settings.text(BAD)
    if not re.fullmatch(r"-1|\d+", text):
        draft.refuse(BAD, "it is no number: set badRecords.maxRatio")
        return
    limit = int(text)
    note = "Secor drops and counts bad messages; here they are dead letters"
    limits = "Secor's limit, as a share: its count shrinks with each good message"
    if limit == 0:
        draft.put("badRecords.policy", "Fail", BAD)
        return
    share = 1.0 if limit < 0 else limit * _BUDGET / (1 + limit * _BUDGET)
    draft.put("badRecords.policy", "DeadLetter", why=note)
    draft.put("badRecords.maxRatio", f"{share:.4g}", BAD, default=limits)
    if limit > 0:
        draft.put("badRecords.minCount", limit, BAD)


def _take_finalizer(draft: Draft) -> None:
    settings = draft.settings
    delay, lookback = "partitioner.finalizer.delay.seconds", "secor.finalizer.lookback.periods"
    draft.put("completeness.delay", f"{settings.text(delay)}s", delay, default=_SECOR)
    periods = settings.text(lookback)
    options = {"lookback": int(periods) if periods.isdigit() else periods}
    publisher = {"name": "success", "type": "Success", "options": options}
    draft.put("publish", [publisher], lookback, why="by --finalizer")
    hive = "the publisher Hive makes partitions of tables by a metastore: see its page"
    for key in settings.given:
        if key.startswith(("secor.hive.", "hive.table.")) and settings.has(key):
            draft.refuse(key, hive)
    if settings.flag("secor.enable.qubole") and settings.secret("qubole.api.token"):
        draft.refuse("secor.enable.qubole", hive)
