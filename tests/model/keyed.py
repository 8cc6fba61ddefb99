"""A keyed table: every order in which publishers follow the ledger, die, and come back.

    python -m tests.model.keyed

A **ledger** has five changes of two keys, in files: files are landed, merged, which moves rows in
them, landed again by a spec that reads another key, and brought back; a dead letter is landed late.
Two **publishers** of one table each plan a version from the version that they see, by the product's
own fold, index and plan, and commit it if the table has no newer one. Either may be frozen or
killed before it commits. **Another program** brings an earlier version back, once.

In each version a table must have the newest row of each key, as of the place in the ledger that the
version names. Each rule is left out by a variant, whose shortest story shows what comes of it.
"""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache, partial
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from landfall.publish.keyed.index import KeyIndex, sorted_rows
from landfall.publish.keyed.passes import KeyedFile, KeyedPass, OpenedFiles
from landfall.publish.keyed.rows import (
    ENTRY,
    ROW,
    KeyedRows,
    KeySettings,
    Positions,
    RowIds,
    Rows,
    row_at,
)
from landfall.publish.table_position import NONE, NamedIndex, TablePosition
from tests.model.exploring import Result, explore, show

KEYS = ("A", "B", "A", "A", "B")
"""The key of each record, by offset."""
DELETES = 3
"""The offset of the record that deletes its key."""
FILES: Mapping[str, Mapping[int, str]] = {
    "first": {0: "A", 1: "B"},
    "second": {3: "A", 4: "B"},
    "letter": {2: "A"},
    "merged": {4: "B", 3: "A", 1: "B", 0: "A"},
    "again": {3: "A", 4: "A"},
}
"""The keys of the rows of each file by their offsets, in the order of the file."""
SETTINGS = KeySettings(("key",))
PUBLISHERS = ("P", "Q")
MOST_VERSIONS = 4


class Event(NamedTuple):
    """What a ledger records.

    Attributes:
        text: in words.
        enters: the file that becomes visible.
        leaves: the files that it replaces.
        changes_rows: whether its rows are other than theirs.
    """

    text: str
    enters: str
    leaves: tuple[str, ...] = ()
    changes_rows: bool = False

    def may_follow(self, events: Sequence["Event"]) -> bool:
        """Whether it may be the next one."""
        live = live_files(events)
        if self.leaves:
            return live >= {*self.leaves} and self not in events
        before = {"second": "first", "letter": "second"}.get(self.enters)
        entered = {event.enters for event in events}
        return self.enters not in entered and (before is None or before in entered)


EVENTS = (
    Event("the first file is landed", "first"),
    Event("the second file is landed", "second"),
    Event("a dead letter of offset 2 is landed", "letter"),
    Event("both files are merged", "merged", ("first", "second")),
    Event("the second file is landed again, and offset 4 has key A", "again", ("second",), True),
    Event("that is undone", "second", ("again",), True),
)
Ledger = tuple[Event, ...]


def live_files(events: Iterable[Event]) -> set[str]:
    """The files that count after these events."""
    live = set[str]()
    for event in events:
        live = live - {*event.leaves} | {event.enters}
    return live


class Harm(StrEnum):
    """What must never be."""

    WRONG_ROWS = "a version has other rows than the newest ones"
    TWICE = "a version has a file twice"


@dataclass(frozen=True, slots=True)
class Rules:
    """What a publisher does; a variant differs in one rule."""

    names_its_index: bool = True
    commits_on_what_it_saw: bool = True
    remembers_deletions: bool = True
    orders_by_offset: bool = True
    keeps_what_did_not_count: bool = True
    folds_again: bool = True
    finds_rows_by_offset: bool = True


Marked = tuple[str, tuple[int, ...]]
"""A file, and the places in it of rows that do not count."""


class Version(NamedTuple):
    """A version of the table.

    Attributes:
        through: how many events of the ledger it has.
        files: sorted.
        keys: its index, as it is named; empty for none.
    """

    through: int = 0
    files: tuple[Marked, ...] = ()
    keys: str = ""


class Plan(NamedTuple):
    """What a publisher is about to commit: the version that it saw, and the next one."""

    seen: int
    version: Version


class World(NamedTuple):
    """Everything there is.

    Attributes:
        ledger: what happened.
        versions: of the table, the first one empty.
        plans: of the publishers.
        is_restored: whether an earlier version was brought back.
        latest_index: the one that was written last.
    """

    ledger: Ledger = ()
    versions: tuple[Version, ...] = (Version(),)
    plans: tuple[Plan | None, ...] = (None, None)
    is_restored: bool = False
    latest_index: str = ""


@dataclass
class MemorySlots:
    """The files of indexes; a name is that of its bytes, so all worlds may share them."""

    files: dict[str, bytes] = field(default_factory=dict)

    def read(self, key: str) -> bytes | None:
        return self.files.get(key)

    def create(self, key: str, body: bytes) -> None:
        self.files[key] = body


_SLOTS = MemorySlots()


def _rows(name: str, rules: Rules) -> KeyedRows:
    """The rows of a file."""
    offsets = [*FILES[name]]
    rows = np.zeros(len(offsets), ROW)
    rows["row"] = [row_at(0, offset) for offset in offsets]
    # Without the rule, the dead letter that is landed last is the newest.
    rows["order"] = [offset if rules.orders_by_offset or offset != 2 else 9 for offset in offsets]
    digests = [blake2b(key.encode(), digest_size=16).digest() for key in FILES[name].values()]
    halves = np.frombuffer(b"".join(digests), "<u8").reshape(-1, 2)
    rows["high"], rows["low"] = halves[:, 0], halves[:, 1]
    rows["deleted"] = [offset == DELETES for offset in offsets]
    return KeyedRows(rows["row"].copy(), rows, np.ones(len(rows), bool))


@dataclass(frozen=True)
class ModelFiles(OpenedFiles):
    """The files of a version, and those that enter."""

    rules: Rules = Rules()

    def ids(self, file: KeyedFile) -> RowIds:
        """See ``OpenedFiles``; without the rule, by places that were remembered before merges."""
        ids = _rows(file.path, self.rules).ids
        return ids if self.rules.finds_rows_by_offset else np.sort(ids)

    def rows(self, file: KeyedFile, _: KeySettings) -> Iterator[KeyedRows]:
        """See ``OpenedFiles``."""
        yield _rows(file.path, self.rules)


@dataclass(frozen=True)
class LiveFiles:
    """The files of a version; statistics leave out none."""

    files: Sequence[KeyedFile]

    def with_any(self, _: RowIds) -> list[KeyedFile]:
        return [*self.files]

    def all(self) -> list[KeyedFile]:
        return [*self.files]


@cache
def planned(seen: Version, events: Ledger, index: str, rules: Rules) -> Version:
    """Plan the version after another one, as of these events.

    Args:
        seen: the other version.
        index: of its keys, as a publisher knows it.
    """
    before, after = live_files(events[: seen.through]), live_files(events)
    between = events[seen.through :]
    enter, leave = sorted(after - before), sorted(before - after)
    is_moved = {o for n in enter for o in FILES[n]} == {o for n in leave for o in FILES[n]}
    is_moved &= not any(event.changes_rows for event in between)
    marks = dict(seen.files)
    live = {name: KeyedFile(name, name, entry=name) for name in marks}
    new = [KeyedFile(name, name, is_moved=is_moved) for name in enter]
    leaving = [KeyedFile(name, name, entry=name, is_moved=is_moved) for name in leave]
    found: list[Positions] = []

    def deleted(file: KeyedFile) -> Positions:
        is_lost = file.path in leave and not rules.keeps_what_did_not_count
        return np.array(() if is_lost else marks.get(file.path, ()), np.int64)

    def write(_: KeyedFile, positions: Positions) -> int:
        found.append(positions)
        return len(found) - 1

    plans = KeyedPass(
        table="t",
        keys=SETTINGS,
        opens=ModelFiles(open=lambda _: None, deleted=deleted, rules=rules),
        live=LiveFiles([*live.values()]),
        write=write,
        empty=KeyIndex(_SLOTS, is_ordered=not rules.orders_by_offset),
    )
    again = rules.folds_again and any(event.changes_rows for event in between)
    named = NamedIndex(index, SETTINGS.text) if index else None
    position = TablePosition(through=seen.through or NONE, index=named)
    version = plans.version(None if again else position, new, leaving)
    after_marks = {name: marks.get(name, ()) for name in after}
    for mark in version.marked:
        places = () if mark.marks is None else found[mark.marks]
        after_marks[mark.file.path] = tuple(int(place) for place in places)
    text = (version.index if rules.remembers_deletions else _undeleted(version.index)).text
    return Version(len(events), tuple(sorted(after_marks.items())), text)


def _undeleted(index: KeyIndex) -> KeyIndex:
    """The index without keys whose newest row deletes them."""
    rows = sorted_rows(np.concatenate([_rows(name, Rules()).rows for name in ("first", "second")]))
    keys = np.zeros(2, ENTRY)
    keys["high"], keys["low"] = np.unique(rows["high"]), 0
    for entry in keys:
        entry["low"] = rows["low"][rows["high"] == entry["high"]][0]
    known, found = index.newest(keys)
    kept: Rows = found[known & (found["row"] != row_at(0, DELETES))]
    emptied = KeyIndex(index.slots, is_ordered=index.is_ordered)
    return emptied.plus(kept).written() if len(kept) else emptied


class Steps:
    """The steps that may follow a state."""

    def __init__(self, rules: Rules, events: Sequence[Event]) -> None:
        self.rules, self.events = rules, events

    def all(self, w: World) -> Iterator[tuple[str, World]]:
        """What happens to the ledger, the steps of the publishers, and of another program."""
        for event in self.events:
            if event.may_follow(w.ledger):
                yield event.text, w._replace(ledger=(*w.ledger, event))
        if len(w.versions) < MOST_VERSIONS:
            for number, name in enumerate(PUBLISHERS):
                yield from self._publishes(w, number, name)
            if not w.is_restored:
                yield from self._restores(w)

    def _publishes(self, w: World, number: int, name: str) -> Iterator[tuple[str, World]]:
        plan = w.plans[number]
        if plan is None:
            seen = w.versions[-1]
            if seen.through < len(w.ledger):
                yield f"{name} plans a version", self._plans(w, number, seen)
            return
        yield f"{name} is killed", _with_plan(w, number, None)
        is_newest = plan.seen == len(w.versions) - 1
        if is_newest or not self.rules.commits_on_what_it_saw:
            version = plan.version if is_newest else _on(w.versions[plan.seen], plan, w.versions)
            after = w._replace(versions=(*w.versions, version))
            yield f"{name} commits it", _with_plan(after, number, None)

    def _plans(self, w: World, number: int, seen: Version) -> World:
        index = seen.keys if self.rules.names_its_index else w.latest_index
        version = planned(seen, w.ledger, index, self.rules)
        # With the rule nobody reads it, so it must not tell worlds apart.
        latest = w.latest_index if self.rules.names_its_index else version.keys
        after = w._replace(latest_index=latest)
        return _with_plan(after, number, Plan(len(w.versions) - 1, version))

    def _restores(self, w: World) -> Iterator[tuple[str, World]]:
        for number, version in enumerate(w.versions[:-1]):
            text = f"another program brings version {number} back"
            yield text, w._replace(versions=(*w.versions, version), is_restored=True)


def _with_plan(w: World, number: int, plan: Plan | None) -> World:
    plans = [*w.plans]
    plans[number] = plan
    return w._replace(plans=tuple(plans))


def _on(seen: Version, plan: Plan, versions: Sequence[Version]) -> Version:
    """What a plan makes of a version that is not the one it saw: files enter and leave."""
    planned_files, seen_files = dict(plan.version.files), dict(seen.files)
    files = [
        (name, planned_files.get(name, marks))
        for name, marks in versions[-1].files
        if name in planned_files or name not in seen_files
    ]
    files += [(name, planned_files[name]) for name in planned_files.keys() - seen_files.keys()]
    return plan.version._replace(files=tuple(sorted(files)))


def harm_of(w: World) -> Harm | None:
    """What is wrong with the newest version: earlier ones were looked at before."""
    version = w.versions[-1]
    if max(Counter(name for name, _ in version.files).values(), default=1) > 1:
        return Harm.TWICE
    shown = {
        offset
        for name, marks in version.files
        for place, offset in enumerate(FILES[name])
        if place not in marks
    }
    return None if shown == newest(w.ledger[: version.through]) else Harm.WRONG_ROWS


@cache
def newest(events: Ledger) -> set[int]:
    """The offsets of the newest row of each key, by the ledger alone."""
    keys = {o: key for name in live_files(events) for o, key in FILES[name].items()}
    of = {key: offset for offset, key in sorted(keys.items())}
    return {*of.values()} - {DELETES}


def search(rules: Rules, events: Sequence[Event] = EVENTS) -> Result:
    """Search every state that may follow, the nearest first."""
    return explore(World(), Steps(rules, events).all, harm_of)


class Variant(NamedTuple):
    """A publisher without one rule, and what comes of it."""

    instead: str
    rules: Rules
    harm: Harm = Harm.WRONG_ROWS


VARIANTS: Mapping[str, Variant] = {
    "index-of-its-own": Variant(
        "the index is in a place of its own, written before a version is committed",
        Rules(names_its_index=False),
    ),
    "commits-on-any": Variant(
        "a version is committed though the table has a newer one",
        Rules(commits_on_what_it_saw=False),
        Harm.TWICE,
    ),
    "forgets-deletions": Variant(
        "the index has no keys that are deleted",
        Rules(remembers_deletions=False),
    ),
    "last-one-counts": Variant(
        "the row that is landed last is the newest",
        Rules(orders_by_offset=False),
    ),
    "merges-bring-rows-back": Variant(
        "in a merged file all rows count",
        Rules(keeps_what_did_not_count=False),
    ),
    "trusts-its-index": Variant(
        "the index is followed, though a range was landed again",
        Rules(folds_again=False),
    ),
    "remembers-places": Variant(
        "the index has the place of a row in its file",
        Rules(finds_rows_by_offset=False),
    ),
}


def main() -> int:
    """Check the rules, then show what each of them prevents."""
    return show(
        "A keyed table, in every order of landing, publishing, merging and undoing",
        {"two publishers": partial(search, Rules())},
        VARIANTS,
        lambda variant: search(variant.rules),
    )


if __name__ == "__main__":
    sys.exit(main())
