"""``landfall init``: a group file for a topic, from arguments and its records.

The sections that depend on records are guessed by trial: a guess is used only if the stages that
would land the records land all of them. The written file has passed ``landfall check --offline``.
"""

import argparse
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from rich.markup import escape

from landfall.api import group_file
from landfall.api.contract import ExitCode
from landfall.api.editor_schemas import MADE_BY, file_name, schema_text
from landfall.api.group_text import as_yaml, group_name
from landfall.api.spec import ConsumerGroup, parse_group
from landfall.cli.author.guess import NOTHING_KNOWN, Guess, Sample, chosen, has_schema_ids
from landfall.cli.author.tried import TrialOutcomes
from landfall.cli.author.try_records import RecordFile, Wish, from_log
from landfall.cli.group_store import explain_kafka
from landfall.cli.text import console
from landfall.errors import Reason, Retry, Stalled
from landfall.ledger.offsets import TopicPartition
from landfall.logs import visible
from landfall.pipeline.records import Records
from landfall.registry import output_format
from landfall.task.trial import Fate

_KIND = "ConsumerGroup"
SAMPLE = 50
"""How many of the first and of the last records are examined."""
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

    def apply(self, guess: Guess) -> None:
        """Take over what was guessed."""
        self.document = guess.applied(self.document)
        self.comments |= guess.comments

    def text(self, schema: str = "") -> str:
        """The file, which names a schema for editors in its first line if there is one."""
        # A note names a field as producers do: a line break in it would end the comment.
        head = "".join(f"# {visible(note)}\n" for note in self.notes)
        first = f"# yaml-language-server: $schema={schema}\n" if schema else ""
        return f"{first}{head}{as_yaml(self.document, self.comments)}{_MORE}"


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
    outcomes = _guess(draft, _sample(draft, arguments), arguments)
    _group(draft)
    if outcomes.first_reason:
        reason = escape(visible(outcomes.first_reason))
        console.err().print(f"[yellow]warning:[/yellow] a dead letter: {reason}")
    if str(target) == "-":
        print(draft.text(), end="")
        return ExitCode.OK
    schema_file = _with_schema(target.parent)
    _write(target, draft.text(schema_file.name))
    if arguments.json:
        tried = {fate.value: outcomes.fates[fate] for fate in Fate}
        console.print_json(
            {"file": str(target), "notes": draft.notes, "tried": tried, "group": draft.document}
        )
        return ExitCode.OK
    for note in draft.notes[1:]:
        console.out().print(f"{target}: {visible(note)}", markup=False)
    console.out().print(f"{schema_file}: the fields of a group, for editors", markup=False)
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
        "kind": _KIND,
        "metadata": {"name": arguments.name or group_name(arguments.topic)},
        "spec": {
            "source": {"kafka": kafka},
            "decode": {"format": "Raw"},
            "route": {"pattern": "dt={date}/hr={hour}"},
            "output": {"url": arguments.url},
        },
    }
    if arguments.format:
        document["spec"]["output"]["format"] = arguments.format
    if arguments.format == "Json":  # which cannot be made of payloads that nothing is known of
        document["spec"]["decode"] = {"format": "Json"}
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
        _group(draft)
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


def _sample(draft: GroupDraft, arguments: argparse.Namespace) -> Sample:
    """Some records of the topic; none if none are to be examined."""
    chunks: Sequence[Records] = []
    if arguments.records:
        file = RecordFile(arguments.records, "text", int(datetime.now(UTC).timestamp() * 1000))
        chunks = [file.read(TopicPartition(arguments.topic, 0), 2 * SAMPLE)]
    elif not arguments.offline:
        chunks = _of_topic(draft, arguments.topic)
    return Sample(arguments.topic, [chunk for chunk in chunks if len(chunk)], os.environ)


def _of_topic(draft: GroupDraft, topic: str) -> Sequence[Records]:
    """The first and the last records of a topic: what it holds may have changed."""
    from landfall.landed.opening import open_log  # noqa: PLC0415  # the Kafka client
    from landfall.source.properties import kafka_properties  # noqa: PLC0415  # as above
    from landfall.source.reader import KafkaReader  # noqa: PLC0415  # as above

    group = parse_group(group_file.expand(draft.document, os.environ))
    explain_kafka(group)
    log, properties = open_log(group), kafka_properties(group)
    reader = KafkaReader(properties, group.spec.tuning.read_timeout)
    last = list(from_log(log, reader, Wish(topic, limit=SAMPLE)))
    seen = {chunk.topic_partition: int(chunk.offsets[0]) for chunk in reversed(last) if len(chunk)}
    first = []
    for chunk in from_log(log, reader, Wish(topic, offset=0, limit=SAMPLE)):
        before = seen.get(chunk.topic_partition)
        count = len(chunk) if before is None else int(np.searchsorted(chunk.offsets, before))
        first.append(chunk.take(np.arange(count)))
    return [*first, *last]


def _looked_at(sample: Sample, records: Path | None) -> str:
    """Name the records that were looked at."""
    count = f"{console.counted(sample.size, 'record')} looked at"
    if records:
        return count
    ranges: list[list[int]] = []
    for chunk in sample.chunks:
        start, end = int(chunk.offsets[0]), int(chunk.offsets[-1])
        if ranges and ranges[-1][1] + 1 == start:
            ranges[-1][1] = end
        else:
            ranges.append([start, end])
    tps = sorted({chunk.topic_partition for chunk in sample.chunks})
    if len(tps) > 1:
        return f"{count} in {len(tps)} Kafka partitions"
    offsets = " and ".join(f"{start} to {end}" for start, end in ranges)
    return f"{count}, offsets {offsets} of {tps[0]}"


def _guess(draft: GroupDraft, sample: Sample, arguments: argparse.Namespace) -> TrialOutcomes:
    """Choose how records are decoded, dated and written, and try the records with that."""
    registry = arguments.schema_registry
    if not sample.size:
        if arguments.format == "Json":
            draft.notes.append("no record was looked at: payloads must be JSON")
            return TrialOutcomes()
        draft.notes.append(
            "no record was looked at: payloads, keys and headers land byte for byte until "
            "decode.format is set"
        )
        draft.apply(NOTHING_KNOWN)
        return TrialOutcomes()
    seen = _looked_at(sample, arguments.records)
    if guess := chosen(draft.document, sample, registry):
        dated = f"dated by {guess.dated_by}" if guess.dated_by else "dated by Kafka's timestamp"
        draft.notes.append(f"{seen}: {guess.name}, {dated}")
        draft.apply(guess)
    elif arguments.format == "Json":
        raise Stalled(Reason.SPEC_INVALID, "--format: records are in no form that has fields")
    elif has_schema_ids(sample):
        if registry:
            raise Stalled(
                Reason.SPEC_INVALID,
                "--schema-registry: records are neither Avro nor Protobuf nor JSON with a schema "
                f"of {registry}",
            )
        draft.notes.append(
            f"{seen}: they begin with the id of a schema; --schema-registry URL makes typed rows "
            "of them, payloads land byte for byte until then"
        )
    else:
        draft.notes.append(
            f"{seen}: in no form that init knows; payloads land byte for byte, dated by Kafka; see "
            "the docs for Regex, Thrift and other decoders"
        )
    if parts := " and ".join(_left_out(draft, sample)):
        draft.notes.append(
            f"{parts} are in no row: decode.key and decode.headerColumns make columns of them, and "
            "format Parquet without columns has them whole"
        )
    outcomes = sample.outcomes(draft.document)
    draft.notes.append(f"tried {outcomes}")
    return outcomes


def _left_out(draft: GroupDraft, sample: Sample) -> Iterator[str]:
    """Name what the records have and rows do not."""
    spec = parse_group(group_file.expand(draft.document, os.environ)).spec
    wanted = output_format(spec.output).wanted
    if sample.keys and not wanted.keys and spec.decode.key is None:
        yield "keys"
    if sample.has_headers and not wanted.headers:
        yield "headers"


def _with_schema(folder: Path) -> Path:
    """The schema for editors in a folder, which is written unless it is another program's."""
    path = folder / file_name(_KIND)
    if not path.exists() or MADE_BY in path.read_text("utf-8", errors="replace"):
        _write(path, schema_text(_KIND))
    return path


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise Stalled(Reason.SPEC_INVALID, f"{path}: {error.strerror}") from error
