"""``landfall log``: the records of a group's ledger, and who asked for them and why."""

import argparse
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

import msgspec

from landfall.api.contract import ExitCode
from landfall.cli.group_store import GroupStore
from landfall.cli.look.log_entries import (
    LogEntry,
    Outcomes,
    ReplaceOutcome,
    decision_of,
    kind_of,
    log_entry,
    topics_of,
)
from landfall.cli.text import console
from landfall.lane.replacements import read_replaced
from landfall.ledger import Purpose, Record, Replace, State
from landfall.ledger.opened import taken_back
from landfall.ledger.replace.replacement_lists import ReplacementList
from landfall.logs import visible


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """A filter of the records to print."""

    group: str
    kinds: frozenset[str]
    topics: frozenset[str]
    since: datetime | None
    until: datetime | None
    only_decisions: bool

    def has(self, record: Record) -> bool:
        """Return whether a record is printed."""
        return (
            (not self.kinds or kind_of(record) in self.kinds)
            and (not self.only_decisions or decision_of(record) is not None)
            and self._has_time(record.header.time)
            and (not self.topics or not self.topics.isdisjoint(topics_of(self.group, record)))
        )

    def _has_time(self, text: str) -> bool:
        # Each driver has its own clock: an older time does not end the search.
        if self.since is None and self.until is None:
            return True
        time = console.instant(text)
        if time is None:
            return False
        is_late_enough = self.since is None or time >= self.since
        return is_late_enough and (self.until is None or time < self.until)


def log(arguments: argparse.Namespace) -> ExitCode:
    """Print the requested records, the last first.

    Raises:
        Stalled: LEDGER_BROKEN.
        Retry: the store does not answer.
    """
    opened = GroupStore.of(arguments.group)
    state = opened.lane.read()
    if state.seq < 0:
        raise console.no_ledger(opened.name, opened.group.spec.ledger_root.url)
    known = {tp.topic for tp in (*state.members, *state.retired)}
    console.require_topics(opened.name, arguments.topic, known)
    wanted = RecordFilter(
        group=opened.name,
        kinds=frozenset(arguments.kind),
        topics=frozenset(arguments.topic),
        since=arguments.since,
        until=arguments.until,
        only_decisions=arguments.decisions,
    )
    for entry in _entries(opened, state, wanted, arguments):
        _print(entry, as_json=arguments.json)
    return ExitCode.OK


def _entries(
    opened: GroupStore, state: State, wanted: RecordFilter, arguments: argparse.Namespace
) -> Iterator[LogEntry]:
    chosen = islice(_newest_first(opened, state, wanted), arguments.limit)
    if not arguments.reverse:
        return chosen
    if arguments.limit is not None:
        return reversed([*chosen])
    return _oldest_first(opened, state, wanted)


def _newest_first(opened: GroupStore, state: State, wanted: RecordFilter) -> Iterator[LogEntry]:
    outcomes = _outcomes(opened, state)
    for record in opened.lane.records_back(state):
        outcome = outcomes.of(record)
        if wanted.has(record):
            yield log_entry(opened.name, record, outcome)


def _oldest_first(opened: GroupStore, state: State, wanted: RecordFilter) -> Iterator[LogEntry]:
    """Read the ledger twice: only its end shows which REPLACEs are undone."""
    outcomes = _outcomes(opened, state)
    back = ((record.header.seq, outcomes.of(record)) for record in opened.lane.records_back(state))
    special = {slot: outcome for slot, outcome in back if outcome != ReplaceOutcome()}
    for record in _up_to(state, opened.records()):
        if wanted.has(record):
            yield log_entry(opened.name, record, special.get(record.header.seq, ReplaceOutcome()))


def _outcomes(opened: GroupStore, state: State) -> Outcomes:
    def undone_by(record: Replace) -> int:
        if record.purpose is not Purpose.UNDO or max(record.undoes, record.unmerges) != -1:
            return taken_back(record, ReplacementList((), ()))
        # Earlier releases did not write it: the list of objects shows it.
        return taken_back(record, read_replaced(opened.store, record.header.seq, record.listed))

    return Outcomes(state.replacing.keys(), undone_by)


def _up_to(state: State, records: Iterable[Record]) -> Iterator[Record]:
    for record in records:
        if record.header.seq > state.seq:
            return
        yield record


def _print(entry: LogEntry, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(f"{msgspec.json.encode(entry).decode()}\n")
        return
    time = console.instant(entry.time)
    shown = f"{time.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}" if time else entry.time
    line = f"{entry.slot:>8}  {shown:<20}  {entry.kind:<8}  {entry.summary}"
    counts = ", ".join(_counted(*item) for item in entry.counts.items() if item[1])
    line += f" ({counts})" if counts else ""
    if (asked := entry.decision) is not None:
        why = f": {asked.why}" if asked.why else ""
        line += f"  [{asked.verb} by {asked.who}, {asked.requested}{why}]"
    # Not a table, which would need all lines first.
    sys.stdout.write(f"{visible(line)}\n")


def _counted(name: str, number: int) -> str:
    """A number of an entry, such as ``1 dead letter``."""
    words = name.replace("_", " ")
    return console.counted(number, words.removesuffix("s"), words)
