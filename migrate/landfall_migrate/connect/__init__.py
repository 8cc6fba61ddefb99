"""From the configuration of Confluent's S3 sink to a group: its source, store and policies.

Sources: Confluent's documentation, "Amazon S3 Sink Connector Configuration Properties";
docs/guides/coming-from.md lists the replacements.
"""

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from landfall.api.group_text import group_name
from landfall_migrate import client_properties
from landfall_migrate.connect.files import take_files
from landfall_migrate.connect.keys import KEYS
from landfall_migrate.connect.route import take_route
from landfall_migrate.connect.steps import take_steps
from landfall_migrate.connect.store import take_store
from landfall_migrate.draft import Draft
from landfall_migrate.keys import KeyRow
from landfall_migrate.offsets import put_offsets, warn_of_start
from landfall_migrate.properties import PropertyLine, UnreadableError
from landfall_migrate.secor import GroupChoices
from landfall_migrate.settings import ProgramSettings, Variables, looks_secret, names_in, resolved

CONNECTOR = "io.confluent.connect.s3.S3SinkConnector"
_OVERRIDE = "consumer.override."
_SINK = "connector.class"
_SERVERS = "bootstrap.servers"
_CONVERTERS = frozenset({"key.converter", "value.converter", "header.converter"})


def config_of(document: object, name: str) -> list[PropertyLine]:
    """The lines of a connector's configuration: the map itself, or that in ``config``.

    A KafkaConnector, the resource that Strimzi's operator takes, is one, too.

    Raises:
        UnreadableError: it is neither, or a value is a list or a map.
    """
    if isinstance(document, Mapping) and document.get("kind") == "KafkaConnector":
        config = _of_resource(document, name)
    elif isinstance(document, Mapping) and isinstance(document.get("config"), Mapping):
        outer = document.get("name")
        config = {**({"name": outer} if outer else {}), **document["config"]}
    elif isinstance(document, Mapping):
        config = dict(document)
    else:
        raise UnreadableError(f"{name}: a connector's configuration is a JSON object")
    for key, value in config.items():
        if isinstance(value, list | dict):
            raise UnreadableError(f"{name}: {key}: must be text, a number, true or false")
    return [PropertyLine(str(key), (_text(value),), name) for key, value in config.items()]


def _of_resource(document: Mapping[str, object], name: str) -> dict[str, object]:
    metadata, spec = document.get("metadata"), document.get("spec")
    if not isinstance(metadata, Mapping) or not isinstance(spec, Mapping):
        raise UnreadableError(f"{name}: a KafkaConnector has metadata and spec")
    config = spec.get("config") or {}
    if not isinstance(config, Mapping):
        raise UnreadableError(f"{name}: spec.config: must be a mapping")
    fields = {"name": metadata.get("name"), _SINK: spec.get("class")}
    more = {"tasks.max": spec["tasksMax"]} if "tasksMax" in spec else {}
    return {**config, **fields, **more}


def worker_config_of(document: object, name: str) -> list[PropertyLine]:
    """The lines of a worker's configuration, from the resource that Strimzi's operator takes.

    Raises:
        UnreadableError: it is none.
    """
    spec = document.get("spec") if isinstance(document, Mapping) else None
    if not isinstance(spec, Mapping) or not isinstance(spec.get("config", {}), Mapping):
        raise UnreadableError(f"{name}: a worker's configuration is a KafkaConnect resource")
    servers = {_SERVERS: spec["bootstrapServers"]} if "bootstrapServers" in spec else {}
    config = {**spec.get("config", {}), **servers}
    return [PropertyLine(str(key), (_text(value),), name) for key, value in config.items()]


@dataclass(frozen=True)
class ConnectInput:
    """The input of a connector.

    Attributes:
        lines: of its configuration.
        worker: lines of the worker's file.
        options: keys and values of ``-D``: values of variables, or of keys that are not variables.
        environment: variables; empty if they do not count.
    """

    lines: Sequence[PropertyLine]
    worker: Sequence[PropertyLine] = ()
    options: Sequence[tuple[str, str]] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


def settings_of(given: ConnectInput) -> ProgramSettings:
    """The connector's settings; of a key that repeats the last value counts.

    Of a worker's file a sink reads Kafka's address, what begins with ``consumer.``, which is as
    ``consumer.override.`` and counts less, and each converter that the sink does not name itself;
    then options of that converter in the sink's configuration are not read.
    """
    used = names_in([*given.lines, *given.worker])
    options = [PropertyLine(key, (value,), "-D") for key, value in given.options if key not in used]
    own = {line.key: line for line in (*given.lines, *options)}
    of_worker = {line.key: line for line in _for_sinks(given.worker, own)}
    unread = {}
    for name in _CONVERTERS & of_worker.keys():
        for key in [key for key in own if key.startswith(f"{name}.")]:
            if key in of_worker:
                del own[key]
            else:
                unread[key] = f"the worker has the {name}, and Connect reads its options there"
    variables = {**given.environment, **dict(given.options)}
    known = Variables(given.environment, {}, is_secret, variables)
    lines = {**of_worker, **own}.values()
    return ProgramSettings(resolved(lines, known, last_wins=True), KEYS.defaults, unread)


def _for_sinks(worker: Sequence[PropertyLine], own: Container[str]) -> Iterator[PropertyLine]:
    for line in worker:
        converter = next((name for name in _CONVERTERS if line.key.startswith(name)), None)
        if line.key.startswith("consumer."):
            yield replace(line, key=f"{_OVERRIDE}{line.key.removeprefix('consumer.')}")
        elif line.key == _SERVERS or (converter and converter not in own):
            yield line


def is_secret(key: str) -> bool:
    """Return whether a key holds a secret: overrides and options of plug-ins do by name."""
    row: KeyRow | None = KEYS.find(key)
    by_name = row is None or row.key.endswith("*")
    return KEYS.is_secret(key) or (by_name and looks_secret(key))


def convert(settings: ProgramSettings, wanted: GroupChoices) -> Draft:
    """The group that takes the connector's place."""
    name = wanted.name or group_name(settings.text("name") or "connect")
    draft = Draft(settings, KEYS, name, wanted.namespace)
    sink = settings.text(_SINK)
    if sink and sink.rpartition(".")[2] != CONNECTOR.rpartition(".")[2]:
        draft.refuse(_SINK, "only Confluent's S3 sink is understood")
    draft.put("generation", wanted.generation or 1)
    _take_source(draft, wanted)
    take_files(draft)
    take_route(draft)
    take_steps(draft)
    take_store(draft)
    _take_policies(draft)
    return draft


def _take_source(draft: Draft, wanted: GroupChoices) -> None:
    settings = draft.settings
    keys = (f"{_OVERRIDE}{_SERVERS}", _SERVERS)
    of_keys = next((settings.text(key) for key in keys if settings.has(key)), "")
    servers = wanted.bootstrap_servers or of_keys
    if servers:
        draft.put("source.kafka.bootstrapServers", servers, *keys)
    else:
        why = f"the worker's file has {_SERVERS}: give it by --worker, or --bootstrap-servers"
        draft.missing.append(why)
    name, own = settings.text("name"), f"{_OVERRIDE}group.id"
    group = settings.text(own) or (f"connect-{name}" if name else "")
    if group:
        draft.put("source.kafka.groupId", group, own if settings.has(own) else "name")
    names = [topic.strip() for topic in settings.text("topics").split(",") if topic.strip()]
    if names:
        draft.put("source.kafka.topics", names, "topics")
    elif settings.has("topics.regex"):
        draft.put("source.kafka.topicPattern", settings.text("topics.regex"), "topics.regex")
    _take_offsets(draft, wanted, group)
    for key in settings.given:
        if key.startswith(_OVERRIDE) and settings.given[key].text and not draft.claimed(key):
            client_properties.take(draft, key, key.removeprefix(_OVERRIDE))


def _take_offsets(draft: Draft, wanted: GroupChoices, group: str) -> None:
    reset = f"{_OVERRIDE}auto.offset.reset"
    field = "source.kafka.startingOffsets"
    if wanted.offsets:
        put_offsets(draft, wanted.offsets, reset)
        return
    start = {"earliest": "Earliest", "latest": "Latest"}.get(draft.settings.text(reset))
    if start is None:
        draft.refuse(reset, f"set {field}")
    else:
        draft.put(field, start, reset)
        warn_of_start(draft, start)
    group = group or "connect-NAME"
    step = f"then landfall import-offsets GROUP.yaml {group} prints where it stopped"
    draft.next_steps.append(f"{step}, as {field}: put it into the file, or add --add")


def _take_policies(draft: Draft) -> None:
    settings = draft.settings
    size = settings.text("flush.size")
    if size:
        value: object = int(size) if re.fullmatch(r"\d+", size) else size
        draft.put("output.rotate.maxRecords", value, "flush.size")
    keys = ("rotate.interval.ms", "rotate.schedule.interval.ms")
    ages = {key: settings.text(key) for key in keys if settings.has(key)}
    on = {key: text for key, text in ages.items() if not re.fullmatch(r"-\d+", text)}
    for key in ages.keys() - on.keys():
        draft.drop(key, "it is off")
    if on:
        numbers = [int(text) for text in on.values() if text.isdigit()]
        value = f"{min(numbers)}ms" if len(numbers) == len(on) else ", ".join(on.values())
        draft.put("uploadPolicy.maxAge", value, *on)
    tolerance = settings.text("errors.tolerance")
    ignores_nulls = settings.text("behavior.on.null.values") == "ignore"
    policy = {"none": "Fail", "all": "DeadLetter"}.get(tolerance)
    if policy is None:
        draft.refuse("errors.tolerance", "there are none and all")
    elif policy == "Fail" and ignores_nulls:
        why = "with Fail, tombstones would stop the topic partition, which the sink skips"
        draft.put("badRecords.policy", "DeadLetter", "errors.tolerance", why=why)
    else:
        note = "the connector's default: it stops at the first bad record"
        draft.put("badRecords.policy", policy, "errors.tolerance", default=note)
    if policy == "DeadLetter":
        why = "the connector continues at any share of bad records"
        draft.put("badRecords.maxRatio", "1", why=why)


def _text(value: object) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
