"""``landfall import-offsets``: begin where another consumer of the topics stopped."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import yaml

from landfall import ledger
from landfall.api.contract import ExitCode
from landfall.api.verbs import Outcome
from landfall.cli.decide.verb import lane_session, who
from landfall.cli.text import console
from landfall.errors import Reason, Stalled
from landfall.ledger import Decision, Entry, LaneOwnership, State
from landfall.ledger.offsets import TopicPartition
from landfall.source import Topic, membership

if TYPE_CHECKING:
    from landfall.driver.requests.lane_session import LaneSession


@dataclass(frozen=True, slots=True)
class ImportedOffsets:
    """The offsets that a Kafka group has committed.

    Attributes:
        starts: the next offset to read of each topic partition.
        missing: topic partitions without a committed offset.
    """

    starts: Mapping[TopicPartition, int]
    missing: tuple[TopicPartition, ...]

    @property
    def offsets(self) -> dict[str, dict[str, int]]:
        """The next offsets by topic, then by partition as text."""
        offsets: dict[str, dict[str, int]] = {}
        for tp, start in sorted(self.starts.items()):
            offsets.setdefault(tp.topic, {})[str(tp.partition)] = start
        return offsets

    @property
    def as_json(self) -> dict[str, object]:
        """The offsets of the Kafka group, as JSON has them."""
        return {"offsets": self.offsets, "missing": [_named(tp) for tp in self.missing]}

    @property
    def as_yaml(self) -> str:
        """The part of the group's YAML that lets landing begin there."""
        kafka = {"startingOffsets": {"offsets": self.offsets}}
        text: str = yaml.safe_dump({"spec": {"source": {"kafka": kafka}}}, sort_keys=False)
        return text


def import_offsets(arguments: argparse.Namespace) -> ExitCode:
    """Print the committed offsets as YAML, or add the topic partitions to the ledger there."""
    from landfall.source.kafka_groups import committed_offsets  # noqa: PLC0415  # needs Kafka's client

    if arguments.add and not arguments.why.strip():
        raise Stalled(Reason.SPEC_INVALID, "--add records a decision: give --why, too")
    with lane_session(arguments.group) as session:
        found_topics = session.source.topics()
        for error in found_topics.denied.values():
            console.print_error(str(error.reason), str(error))
        topics = found_topics.topics
        tps = [tp for topic in topics for tp in topic.topic_partitions]
        found = committed_offsets(session.group, arguments.kafka_group, tps)
        imported = ImportedOffsets(found, tuple(tp for tp in tps if tp not in found))
        _warn(arguments.kafka_group, imported)
        if not imported.starts:
            return ExitCode.FAULT
        if arguments.add:
            return _add(session, imported, topics, arguments)
        if arguments.json:
            _print_json(imported, (), recorded=False)
        else:
            console.out().print(imported.as_yaml, end="", markup=False)
        return ExitCode.OK


def _add(
    session: "LaneSession",
    imported: ImportedOffsets,
    topics: Sequence[Topic],
    arguments: argparse.Namespace,
) -> ExitCode:
    """Add the topic partitions that the ledger lacks, and print them."""
    state = session.lane.read()
    entries = new_entries(session.as_opened(state), imported.starts, topics)
    records = bool(entries) and not arguments.dry_run
    if records and state.holding is LaneOwnership.HELD and not arguments.take_over:
        console.print_error(
            str(Outcome.REFUSED), "a driver has the lane: stop it, or give --take-over"
        )
        return ExitCode.REFUSED
    if records:
        asked_by = arguments.who or who()
        now = session.clock().isoformat()
        decision = Decision("import-offsets", asked_by, arguments.why, now)
        session.append(_adds(imported.starts, topics, decision), f"import-offsets by {asked_by}")
    if arguments.json:
        _print_json(imported, entries, recorded=records)
        return ExitCode.OK
    for entry in entries:
        console.out().print(f"ADD: {entry.topic_partition} at offset {entry.start}")
    if not records:
        console.out().print("nothing is recorded")
    return ExitCode.OK


def _print_json(imported: ImportedOffsets, entries: Sequence[Entry], *, recorded: bool) -> None:
    added = [{**_named(entry.topic_partition), "start": entry.start} for entry in entries]
    console.print_json({**imported.as_json, "added": added, "recorded": recorded})


def _named(tp: TopicPartition) -> dict[str, object]:
    return {"topic": tp.topic, "partition": tp.partition}


def new_entries(
    state: State, starts: Mapping[TopicPartition, int], topics: Sequence[Topic]
) -> tuple[Entry, ...]:
    """The offsets at which missing topic partitions would enter the lane, if they may enter now."""
    ids = {topic.name: topic.topic_id for topic in topics}
    may_enter = {tp for tp in membership.changes(state, topics).enter if tp not in state.members}
    return tuple(
        Entry(tp, ids[tp.topic], start) for tp, start in sorted(starts.items()) if tp in may_enter
    )


def _adds(
    starts: Mapping[TopicPartition, int], topics: Sequence[Topic], decision: Decision
) -> Callable[[State], tuple[Callable[..., ledger.Record], ...]]:
    def make(state: State) -> tuple[Callable[..., ledger.Record], ...]:
        entries = new_entries(state, starts, topics)
        return (partial(ledger.Add, entries=entries, decision=decision),) if entries else ()

    return make


def _warn(kafka_group: str, imported: ImportedOffsets) -> None:
    if not imported.starts:
        console.print_error("NotFound", f"Kafka group {kafka_group} has committed no offset here")
    elif imported.missing:
        names = ", ".join(map(str, imported.missing))
        console.err().print(
            f"no committed offset, so these begin at their log start: {names}", markup=False
        )
