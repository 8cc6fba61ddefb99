"""A ledger of changes to rows with keys, and the table that they lead to."""

import io
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from landfall.lane import Lane
from landfall.ledger.names.object_names import parse_key
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.task_results import DecidedObject
from landfall.publish.following import Follower
from landfall.publish.keyed.index import IndexSizes
from landfall.publish.keyed.rows import KeySettings
from landfall.publish.tables import TablePublisher, Tables
from tests.support.ledger.sample_ledger import GROUP, LANE
from tests.support.ledger.sample_replacing import Merge
from tests.support.publishers.lake import CLICKS, Landed

TABLE = "lake.clicks"
SHOWN = ("id", "_partition", "_offset")
NewRows = Callable[[Sequence[dict[str, Any]]], list[dict[str, Any]]]
"""Returns what another program makes of the rows of a table."""
SMALL = IndexSizes(part=7, fresh=16, fan=3, least_run=4, group=3)
"""Indexes of a few dozen keys are cut and merged as those of millions."""
SCHEMA = pa.schema(
    {
        "_partition": pa.int32(),
        "_offset": pa.int64(),
        "id": pa.int64(),
        "name": pa.string(),
        "_deleted": pa.bool_(),
        "at": pa.timestamp("us", "UTC"),
    }
)


@dataclass(frozen=True)
class Change:
    """A change of the row with an id."""

    id: int | None
    deleted: bool = False
    name: str = ""
    at: int = 0


@dataclass
class Changes:
    """The changes at offsets, and files of them.

    Attributes:
        at: the change of each Kafka partition and offset.
        partition: of the files that are made.
    """

    at: Callable[[int, int], Change]
    partition: int = 0

    def body(self, offsets: Sequence[int]) -> bytes:
        """A file with a row for each offset."""
        found = [(offset, self.at(self.partition, offset)) for offset in offsets]
        rows = [
            {
                "_partition": self.partition,
                "_offset": offset,
                "id": change.id,
                "name": change.name or f"n{offset}",
                "_deleted": change.deleted,
                "at": change.at or offset,
            }
            for offset, change in found
        ]
        return _file(rows)


def _file(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = SCHEMA.names) -> bytes:
    body = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([*rows], SCHEMA).select([*columns]), body)
    return body.getvalue()


def random_changes(seed: int, keys: int = 12) -> Callable[[int, int], Change]:
    """Changes of so many keys, a fifth of them deletions; always the same ones for a seed."""

    def change(partition: int, offset: int) -> Change:
        chosen = random.Random(f"{seed} {partition} {offset}")
        return Change(chosen.randrange(keys), deleted=chosen.random() < 0.2)

    return change


def listed(*changes: Change) -> Changes:
    """The changes at the first offsets."""
    return Changes(lambda _, offset: changes[offset])


@dataclass
class KeyedLake(ABC):
    """A keyed table of clicks, and the ledger that it follows.

    Attributes:
        root: the folder of both.
        changes: the changes that land.
        keys: what the table is keyed by.
        ended: the highest generation of each ended lifetime of a Kafka partition.
    """

    root: Path
    changes: Changes
    keys: KeySettings = field(default_factory=lambda: KeySettings(("id",)))
    ended: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.landed = Landed(self.root)
        self.landed.sample.body = self.changes.body

    @abstractmethod
    def tables(self) -> Tables:
        """The tables, as another process connects to them."""

    @abstractmethod
    def tables_of_all_rows(self) -> Tables:
        """The same tables, of a publisher that has no keys."""

    @abstractmethod
    def in_tables_of(self, other: "KeyedLake", *, keyed: bool = True) -> TablePublisher:
        """A publisher of another group, whose ledger this is, to the table of another lake."""

    @abstractmethod
    def publisher(self, tables: Tables | None = None) -> TablePublisher:
        """A publisher of the table."""

    @abstractmethod
    def rows(self, select: Sequence[str] = SHOWN) -> list[dict[str, Any]]:
        """Columns of the table, by the names of landed files."""

    @property
    @abstractmethod
    def index(self) -> Path:
        """The folder of the index."""

    @abstractmethod
    def roll_back(self) -> None:
        """Let another program restore the version before the last one."""

    @abstractmethod
    def lose_deletes(self) -> None:
        """Delete the files that have which rows do not count."""

    @abstractmethod
    def delete_as_others(self, number: int, row: int) -> None:
        """Let another program delete a row of the file of a live object."""

    def update_as_others(self, number: int, row: int, name: str) -> None:
        """Let another program give a row of a live object another name, in a file of its own."""
        old = self.rows_of(self.live()[number].key)[row]
        self.delete_as_others(number, row)
        self.append_as_others({**old, "name": name})

    @abstractmethod
    def append_as_others(self, row: Mapping[str, Any]) -> None:
        """Let another program add a row."""

    @abstractmethod
    def rewrite_as_others(self, change: NewRows = list) -> None:
        """Let another program write all rows, or what it makes of them, into one file of its own.

        The files that it replaces are of the last version.
        """

    @abstractmethod
    def add_as_others(self, *ids: int) -> None:
        """Let another program add rows that have no offsets."""

    def publish(self, *, at_once: bool = False) -> None:
        """Publish what is visible, as a process that has just started, in a version or a few."""
        lane = Lane(self.landed.store, GROUP, LANE)
        self.publisher().publish(Follower(lane) if at_once else self.landed.follower())

    def land(self, rows: int = 10, partition: int = 0, settle: bool = True) -> None:
        """Land the next changes of a Kafka partition."""
        self.changes.partition = partition
        self.landed.land(TopicPartition(CLICKS.topic, partition), rows=rows)
        if settle:
            self.landed.settle()

    def begin_again(self, at: Callable[[int, int], Change], partition: int = 0) -> None:
        """Let the topic be created again with other changes, and offsets from 0 on."""
        sample, tp = self.landed.sample, TopicPartition(CLICKS.topic, partition)
        generation = sample.state.generation or 1
        self.ended.append(generation)
        sample.drop(tp).open(generation + 1).add(tp)
        self.changes.at = at

    def lifetime(self, key: str) -> int:
        """The lifetime of the rows of an object, of one Kafka partition."""
        return sum(last < parse_key(key).generation for last in self.ended)

    def live(self) -> list[DecidedObject]:
        """The objects that are visible and were not replaced, with the slots that name them."""
        found = dict[str, DecidedObject]()
        for stretch in Follower(Lane(self.landed.store, GROUP, LANE)).stretches(-1):
            found |= {o.key: DecidedObject(o.decided, o.landed) for o in stretch.objects}
            for replacement in stretch.replaced:
                slot = replacement.record
                found |= {o.key: DecidedObject(slot, o.landed) for o in replacement.objects}
                for retired in replacement.retired:
                    found.pop(retired.upload.key, None)
        return [*found.values()]

    def merge(
        self, *numbers: int, left_out: Sequence[int] = (), columns: Sequence[str] = SCHEMA.names
    ) -> Merge:
        """Merge some of the live objects into one, whose rows are shuffled.

        Args:
            numbers: of the objects.
            left_out: offsets of rows that are left out.
            columns: of the new object.
        """
        live, sample = self.live(), self.landed.sample
        retire = [live[number] for number in numbers]
        rows = {(r["_partition"], r["_offset"]): r for o in retire for r in self.rows_of(o.key)}
        kept = [row for row in rows if row[1] not in left_out]
        random.Random(1).shuffle(kept)
        sample.body = lambda _: _file([rows[row] for row in kept], columns)
        made = Merge.of(sample, [(o.slot, o.landed) for o in retire], kept)
        sample.body = self.changes.body
        made.record().complete().keep_copies()
        sample.shown()
        return made

    def delete_retired(self) -> None:
        """Delete what was replaced, as drivers do once all tables have followed."""
        live = {o.key for o in self.live()}
        landed = {stat.key for stat in self.landed.store.list_after("clicks/")}
        self.landed.store.delete_slots(sorted(landed - live))

    def expected(self) -> dict[int, tuple[int, int]]:
        """The Kafka partition and offset of the newest row of each id, by a dict."""
        rows = [(self.lifetime(o.key), row) for o in self.live() for row in self.rows_of(o.key)]
        newest: dict[int, dict[str, Any]] = {}
        order = self.keys.order

        def age(found: tuple[int, dict[str, Any]]) -> tuple[Any, ...]:
            lifetime, row = found
            return (*([row[order]] if order else []), lifetime, row["_offset"])

        for _, row in sorted(rows, key=age):
            newest[row["id"]] = row
        return {
            id_: (row["_partition"], row["_offset"])
            for id_, row in newest.items()
            if not row["_deleted"]
        }

    def rows_of(self, key: str) -> list[dict[str, Any]]:
        """The rows of an object."""
        with self.landed.store.open(key) as stream:
            rows: list[dict[str, Any]] = pq.read_table(io.BytesIO(stream.read())).to_pylist()
        return rows

    def shown(self) -> dict[int, tuple[int, int]]:
        """What ``expected`` returns, by the table."""
        rows = self.rows()
        found = {row["id"]: (row["_partition"], row["_offset"]) for row in rows}
        assert len(found) == len(rows), "a key has two rows"
        return found
