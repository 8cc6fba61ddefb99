"""``landfall try``: shows the outcome of a topic's records, stage by stage, without landing any."""

import argparse
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import numpy as np
from rich.console import Console
from rich.markup import escape

from landfall.api import group_file
from landfall.api.contract import ExitCode
from landfall.api.spec import ConsumerGroup, Feed
from landfall.cli.author.explain import not_landed
from landfall.cli.author.tried import TrialOutcomes, TriedRecord, tried_records
from landfall.cli.author.try_records import RecordFile, Wish, from_files, from_log
from landfall.cli.group_store import explain_kafka
from landfall.cli.text import console
from landfall.cli.text.console import printable
from landfall.errors import PartUnreadable, Reason, Stalled
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.records import Records
from landfall.store.urls import open_files
from landfall.task.trial import Fate, Seen, Trial

MAX_SHOWN = 400
"""Characters of a value that are printed; ``--json`` has all of them."""


def try_out(arguments: argparse.Namespace) -> ExitCode:
    """Print the outcome of records; the exit code is NOTHING if there are none.

    Raises:
        Stalled: SPEC_INVALID, the group, the topic or the file is not usable; TOPIC_MISSING.
        Retry: Kafka does not answer.
    """
    group = group_file.load(arguments.group, os.environ)
    topic = _topic(group, arguments.topic)
    if note := not_landed(group, topic):
        console.err().print(f"landfall: {escape(note)}")
    outcomes = TrialOutcomes()
    out = console.out()
    for shown in tried_records(group, topic, _records(group, topic, arguments)):
        outcomes.add(shown)
        if arguments.json:
            out.print(json.dumps(_as_json(shown), ensure_ascii=False), markup=False)
        else:
            _show(out, shown)
    if not arguments.json:
        out.print(str(outcomes))
    return ExitCode.OK if outcomes.total else ExitCode.NOTHING


def last_record(group: ConsumerGroup, topic: str) -> tuple[str, Trial] | None:
    """Return a record of a topic, by its coordinates, with its outcome; None if there is none.

    It is the last one of the first Kafka partition that has any; of a feed, a row of a file.

    Raises:
        Stalled: the topic cannot be read, or is missing.
        Retry: a server does not answer.
    """
    alone = argparse.Namespace(file=None, only=None, partition=None, offset=None, limit=1)
    for shown in tried_records(group, topic, _records(group, topic, alone, quiet=True)):
        return shown.place, shown.trial
    return None


def _topic(group: ConsumerGroup, wanted: str | None) -> str:
    named = group.spec.source.topics
    if wanted is None and len(named) != 1:
        raise Stalled(Reason.SPEC_INVALID, "try: the group has several topics, name one by --topic")
    return wanted if wanted is not None else named[0]


def _records(
    group: ConsumerGroup, topic: str, arguments: argparse.Namespace, *, quiet: bool = False
) -> Iterable[Records]:
    if arguments.file is not None:
        timestamp = arguments.timestamp or datetime.now(UTC)
        file = RecordFile(Path(arguments.file), arguments.input, int(timestamp.timestamp() * 1000))
        tp = TopicPartition(topic, arguments.partition or 0)
        return [file.read(tp, arguments.limit)]
    feed = next((feed for feed in group.spec.source.files if feed.topic == topic), None)
    if feed is not None:
        return _rows_of_files(feed, arguments, quiet=quiet)
    if arguments.only is not None:
        raise Stalled(Reason.SPEC_INVALID, f"try: {topic} is no feed, so it has no file to read")
    # Only this command and those that ask for lag need the Kafka client.
    from landfall.landed.opening import open_log, open_reader  # noqa: PLC0415
    from landfall.source.properties import kafka_properties  # noqa: PLC0415
    from landfall.source.reader import KafkaReader  # noqa: PLC0415

    wish = Wish(topic, arguments.partition, arguments.offset, arguments.limit)
    if group.spec.source.landed:
        return from_log(open_log(group), open_reader(group.spec.source.landed), wish)
    explain_kafka(group)
    reader = KafkaReader(kafka_properties(group), group.spec.tuning.read_timeout)
    return from_log(open_log(group), reader, wish)


def _rows_of_files(feed: Feed, arguments: argparse.Namespace, *, quiet: bool) -> Iterator[Records]:
    """Rows of a feed's files, with a line on standard error for each file unless ``quiet``."""
    if arguments.partition is not None or arguments.offset is not None:
        message = f"try: {feed.topic} is a feed of files: name a file by --only, not an offset"
        raise Stalled(Reason.SPEC_INVALID, message)
    remaining = arguments.limit
    for name, rows in from_files(feed, open_files(feed), arguments.only):
        if not quiet:
            console.err().print(f"landfall: rows of {escape(name)}")
        try:
            for records in rows:
                found = records.take(np.arange(min(remaining, len(records))))
                remaining -= len(found)
                yield found
                if remaining <= 0:
                    return
        except PartUnreadable as error:
            console.err().print(f"landfall: {escape(str(error))}")


def _as_json(shown: TriedRecord) -> Mapping[str, object]:
    tp, trial = shown.records.topic_partition, shown.trial
    document = {
        "topic": tp.topic,
        "partition": tp.partition,
        "offset": shown.offset,
        "timestamp": shown.timestamp,
        "key": printable(shown.key),
        "value": printable(shown.payload),
        "stages": [
            {
                "stage": seen.stage,
                "value": printable(seen.payload),
                "columns": _plain(seen.columns),
                "fields": _plain(seen.fields),
            }
            for seen in trial.seen
        ],
        "fate": trial.fate,
        "stage": trial.stage or None,
        "error": trial.detail if trial.fate is Fate.DEAD_LETTER else None,
        "object": shown.object or None,
    }
    return {name: value for name, value in document.items() if value is not None}


def _plain(value: object) -> object:
    """The value, with only what JSON can express."""
    return msgspec.to_builtins(value, str_keys=True)


# ------------------------------------------------------------------------------------------ as text


def _show(out: Console, shown: TriedRecord) -> None:
    facts = [f"[bold]{escape(shown.place)}[/bold]", shown.timestamp or "no time"]
    if shown.key is not None:
        facts.append(f"key {_text(shown.key)}")
    out.print("  ".join(facts))
    _line(out, "payload", _text(shown.payload))
    before: Seen | None = None
    for seen in shown.trial.seen:
        _line(out, seen.stage, _change(seen, before, shown.payload))
        before = seen
    match shown.trial.fate:
        case Fate.LANDS:
            _line(out, "lands in", f"[green]{escape(shown.object)}[/green]")
        case Fate.LEFT_OUT:
            _line(out, "left out", f"[yellow]by {escape(shown.trial.stage)}[/yellow]")
        case Fate.DEAD_LETTER:
            why = f"{shown.trial.stage}: {shown.trial.detail}"
            _line(out, "dead letter", f"[red]{escape(why)}[/red]")
    out.print()


def _line(out: Console, name: str, text: str) -> None:
    out.print(f"  {escape(name):<28}{text}")


def _change(seen: Seen, before: Seen | None, payload: bytes | None) -> str:
    """Return the change of a record by a stage."""
    changes = []
    if seen.columns is not None and (before is None or before.columns != seen.columns):
        changes.append(_pairs(seen.columns))
    if seen.payload != (payload if before is None else before.payload):
        changes.append(_text(seen.payload))
    if before is None and seen.columns is None and seen.fields:
        changes.append(_pairs(seen.fields))
    return "  ".join(changes) or "[dim]as before[/dim]"


def _pairs(values: Mapping[str, object]) -> str:
    shown = (
        f"{name}={json.dumps(_plain(value), ensure_ascii=False)}" for name, value in values.items()
    )
    return _cut("  ".join(shown))


def _text(value: bytes | None) -> str:
    if value is None:
        return "[dim](tombstone)[/dim]"
    shown = printable(value)
    return _cut(shown if isinstance(shown, str) else f"0x{value.hex()}")


def _cut(text: str) -> str:
    more = f" … {console.count(len(text) - MAX_SHOWN)} more" if len(text) > MAX_SHOWN else ""
    return escape(text[:MAX_SHOWN]) + (f"[dim]{more}[/dim]" if more else "")
