"""``landfall init``: a group file for a topic, from arguments and its records.

The sections that depend on records are guessed by trial: a guess is used only if the stages that
would land the records land all of them. The written file has passed ``landfall check --offline``.
"""

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from landfall.api import group_file
from landfall.api.contract import ExitCode
from landfall.api.group_text import as_yaml, group_name
from landfall.api.spec import ConsumerGroup, TopicSpecs, parse_group
from landfall.cli.author.try_records import RecordFile, Wish, from_log
from landfall.cli.group_store import explain_kafka
from landfall.cli.text import console
from landfall.errors import Reason, Retry, Stalled
from landfall.ledger.offsets import TopicPartition
from landfall.logs import visible
from landfall.pipeline.records import Records
from landfall.task.partitioning import Partitioner
from landfall.task.trial import Fate, trials

SAMPLE = 50
"""How many of the last records are examined."""
_MAX_FIELDS = 12
"""How many fields are tried as the one that dates a record."""
_MAX_DEPTH = 3
_TIME_WORDS = ("timestamp", "time", "ts", "at", "date", "created", "when", "datetime")
_FAR_DAYS = 5 * 366
"""A field whose times differ from Kafka's timestamps by more than this is not a time."""
_SCHEMA_ID = 5
"""Bytes of a schema id before a payload: a zero and four of the number."""
_WITH_SCHEMA = ("Avro", "Protobuf")
_MORE = """\
# What else most groups set; docs/reference/fields.md has all fields.
#   spec.source.kafka.startingOffsets: Latest    # what the topic holds by then never lands
#   spec.source.kafka.properties: {security.protocol: SASL_SSL}    # how librdkafka logs in
#   spec.output.format: Parquet                  # or Json, Orc, Avro, Text, SequenceFile
#   spec.output.s3: {region: eu-central-1}       # other servers: endpoint and pathStyle: true
#   spec.uploadPolicy: {maxBytes: 256M, maxAge: 5m}    # when an object is written
"""

Document = dict[str, Any]


@dataclass
class GroupDraft:
    """A group that is being written.

    Attributes:
        document: the group.
        comments: what is written after a field, by its path below ``spec``.
        notes: what is written above the group, a line each.
    """

    document: Document
    comments: dict[tuple[str, ...], str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def text(self) -> str:
        """The file."""
        # A note names a field as producers do: a line break in it would end the comment.
        head = "".join(f"# {visible(note)}\n" for note in self.notes)
        return f"{head}{as_yaml(self.document, self.comments)}{_MORE}"


def init(arguments: argparse.Namespace) -> ExitCode:
    """Write the file, or print it if it is named ``-``.

    Raises:
        Stalled: SPEC_INVALID, an argument is wrong or the file exists; TOPIC_MISSING.
        Retry: Kafka does not answer.
    """
    target = arguments.file
    if str(target) != "-" and target.exists() and not arguments.force:
        raise Stalled(Reason.SPEC_INVALID, f"{target}: exists; --force replaces it")
    draft = _draft(arguments)
    _guess(draft, _sample(draft, arguments), arguments.schema_registry)
    _group(draft)
    if str(target) == "-":
        print(draft.text(), end="")
        return ExitCode.OK
    _write(target, draft.text())
    if arguments.json:
        console.print_json({"file": str(target), "notes": draft.notes, "group": draft.document})
        return ExitCode.OK
    console.out().print(f"{target}: {'; '.join(draft.notes[1:])}", markup=False)
    for step in ("check", "try", "run"):
        last = " --until-caught-up" if step == "run" else ""
        console.out().print(f"next: landfall {step} {target}{last}", markup=False)
    return ExitCode.OK


def _draft(arguments: argparse.Namespace) -> GroupDraft:
    servers = arguments.bootstrap_servers
    if not servers and not os.environ.get("LANDFALL_KAFKA"):
        raise Stalled(
            Reason.SPEC_INVALID,
            "--bootstrap-servers: name Kafka's addresses, or set LANDFALL_KAFKA",
        )
    kafka: Document = {
        "bootstrapServers": servers or "${LANDFALL_KAFKA}",
        "topics": [arguments.topic],
    }
    if arguments.properties:
        kafka["properties"] = dict(arguments.properties)
    document: Document = {
        "apiVersion": "landfall.dev/v1alpha1",
        "kind": "ConsumerGroup",
        "metadata": {"name": arguments.name or group_name(arguments.topic)},
        "spec": {
            "source": {"kafka": kafka},
            "decode": {},
            "route": {"pattern": "dt={date}/hr={hour}"},
            "output": {"url": arguments.url},
        },
    }
    if arguments.format:
        document["spec"]["output"]["format"] = arguments.format
    comments: dict[tuple[str, ...], str] = {
        ("route", "pattern"): "a folder for each hour of the records' own time, in UTC",
        ("output", "url"): "the ledger is there, too: another URL begins again from the start",
    }
    if not servers:
        comments["source", "kafka", "bootstrapServers"] = "the environment variable"
    notes = [f"Made by `landfall init --topic {arguments.topic}`."]
    draft = GroupDraft(document, comments, notes)
    if not arguments.offline and not arguments.records:
        # A wrong address or URL is named before Kafka is asked.
        _group(GroupDraft({**document, "spec": {**document["spec"], "decode": {"format": "Raw"}}}))
    return draft


def _group(draft: GroupDraft) -> ConsumerGroup:
    """The group of a draft, as ``landfall check --offline`` accepts it."""
    # Other commands need not all stages.
    from landfall.driver.process.preflight import require_sound  # noqa: PLC0415

    group = parse_group(group_file.expand(draft.document, os.environ))
    try:
        require_sound(group)
    except Retry as error:
        # Credentials do not belong into the file.
        draft.notes.append(f"before it runs: {error}")
    return group


def _sample(draft: GroupDraft, arguments: argparse.Namespace) -> Sequence[Records]:
    """Some records of the topic; none if none are to be examined."""
    if arguments.records:
        file = RecordFile(arguments.records, "text", int(datetime.now(UTC).timestamp() * 1000))
        return [file.read(TopicPartition(arguments.topic, 0), SAMPLE)]
    if arguments.offline:
        return []
    from landfall.landed.opening import open_log  # noqa: PLC0415  # the Kafka client
    from landfall.source.properties import kafka_properties  # noqa: PLC0415  # as above
    from landfall.source.reader import KafkaReader  # noqa: PLC0415  # as above

    raw = {**draft.document, "spec": {**draft.document["spec"], "decode": {"format": "Raw"}}}
    group = parse_group(group_file.expand(raw, os.environ))
    explain_kafka(group)
    reader = KafkaReader(kafka_properties(group), group.spec.tuning.read_timeout)
    return list(from_log(open_log(group), reader, Wish(arguments.topic, limit=SAMPLE)))


def _guess(draft: GroupDraft, sample: Sequence[Records], registry: str) -> None:
    """Choose the decoder and the field that dates a record."""
    spec = draft.document["spec"]
    payloads = [p for records in sample for p in records.values.to_pylist() if p is not None]
    if not payloads:
        draft.notes.append(
            "no record was looked at: payloads land byte for byte until decode.format is set"
        )
        spec["decode"] = {"format": "Raw"}
    elif objects := _objects(payloads):
        _guess_json(draft, sample, objects, len(payloads))
    elif all(p[:1] == b"\0" and len(p) > _SCHEMA_ID for p in payloads):
        _guess_schema(draft, sample, registry)
    else:
        draft.notes.append(
            f"{console.counted(len(payloads), 'record')} looked at, which are no JSON: payloads "
            "land byte for byte, dated by Kafka; see the docs for Csv, Regex and other decoders"
        )
        spec["decode"] = {"format": "Raw"}


def _objects(payloads: Sequence[bytes]) -> list[Mapping[str, Any]]:
    """The payloads as JSON objects; empty if a tenth of them or more are not JSON objects."""
    found: list[Mapping[str, Any]] = []
    for payload in payloads:
        try:
            value = msgspec.json.decode(payload)
        except (msgspec.DecodeError, ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            found.append(value)
    return found if len(found) > 0.9 * len(payloads) else []


def _guess_json(
    draft: GroupDraft, sample: Sequence[Records], objects: Sequence[Mapping[str, Any]], total: int
) -> None:
    decode: Document = {"format": "Json"}
    seen = f"{console.counted(total, 'record')} looked at: JSON"
    for name in _time_fields(objects):
        tried = {**decode, "timestamp": {"field": name}}
        if _dates(draft, tried, sample) >= len(objects):
            decode = tried
            draft.comments["decode", "timestamp", "field"] = "dates a record, and so its folder"
            draft.notes.append(f"{seen}, dated by {name}")
            break
    else:
        draft.notes.append(f"{seen} without a field of time: Kafka's timestamp dates a record")
    if bad := total - len(objects):
        draft.notes.append(f"{console.counted(bad, 'record')} would be dead letters")
    draft.document["spec"]["decode"] = decode


def _guess_schema(draft: GroupDraft, sample: Sequence[Records], registry: str) -> None:
    spec = draft.document["spec"]
    if not registry:
        draft.notes.append(
            "records begin with the id of a schema: --schema-registry URL makes typed rows of "
            "them; payloads land byte for byte until then"
        )
        spec["decode"] = {"format": "Raw"}
        return
    total = sum(len(records) for records in sample)
    for name in _WITH_SCHEMA:
        decode = {"format": name, "registry": {"urls": [registry]}}
        if _dates(draft, decode, sample) == total:
            spec["decode"] = decode
            spec["output"].setdefault("format", "Parquet")
            spec["output"]["columns"] = "FromSchema"
            draft.notes.append(f"{console.counted(total, 'record')} looked at: {name}")
            return
    raise Stalled(
        Reason.SPEC_INVALID,
        f"--schema-registry: records are neither of {' nor of '.join(_WITH_SCHEMA)} with a schema "
        f"of {registry}",
    )


def _time_fields(objects: Sequence[Mapping[str, Any]]) -> list[str]:
    """Fields of all objects that may date a record, the likeliest first."""
    ranked = []
    for name, value in _leaves(objects[0]):
        word = name.rpartition(".")[2].lower().strip("@_")
        is_named = word.split("_")[-1] in _TIME_WORDS or word.endswith(("time", "date", "stamp"))
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and value > 1e9
        is_text = isinstance(value, str) and len(value) >= len("2026-11-21") and value[:1].isdigit()
        if is_number or is_text:
            ranked.append((not is_named, is_number, name.count("."), name))
    return [name for *_, name in sorted(ranked)[:_MAX_FIELDS]]


def _leaves(value: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name, inner in value.items():
        if "." in name or not name:
            continue  # such a name needs another separator
        if isinstance(inner, Mapping) and len(path) + 1 < _MAX_DEPTH:
            yield from _leaves(inner, (*path, name))
        else:
            yield ".".join((*path, name)), inner


def _dates(draft: GroupDraft, decode: Document, sample: Sequence[Records]) -> int:
    """How many records would land, in folders near the day on which Kafka got them."""
    document = {
        **draft.document,
        "spec": {**draft.document["spec"], "decode": decode, "route": {"pattern": "dt={date}"}},
    }
    group = parse_group(group_file.expand(document, os.environ))
    found = 0
    for records in sample:
        spec = TopicSpecs.of(group.spec).for_topic(records.topic_partition.topic)
        for trial in trials(Partitioner.of(spec, "spec"), spec, records):
            millis = int(records.timestamps[trial.row])
            found += trial.fate is Fate.LANDS and (millis < 0 or _is_near(trial.detail, millis))
    return found


def _is_near(folder: str, millis: int) -> bool:
    try:
        day = datetime.fromisoformat(folder.removeprefix("dt=")).replace(tzinfo=UTC)
        return abs((day - datetime.fromtimestamp(millis / 1000, UTC)).days) <= _FAR_DAYS
    except (ValueError, OverflowError):  # a timestamp may be of any year
        return False


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise Stalled(Reason.SPEC_INVALID, f"{path}: {error.strerror}") from error
