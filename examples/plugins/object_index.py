"""A publisher of one's own: an index of landed objects in SQLite, each object once.

The position is changed in the transaction that adds the rows, so it does not matter how many
publishers there are, or when one is killed.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass

import msgspec

from landfall.errors import DestinationAway
from landfall.ledger.task_results import LandedObject
from landfall.pipeline.decoders.options import read_options
from landfall.publish import Publisher, Stretch
from landfall.publish.context import Context
from landfall.publish.tables import Next, TablePublisher

SCHEMA = (
    "create table if not exists objects (topic text, url text, rows integer, slot integer)",
    "create table if not exists positions (topic text primary key, through integer)",
)


class Options(msgspec.Struct, forbid_unknown_fields=True):
    """``file``: of the database; ``timeout``: seconds to wait for another writer."""

    file: str
    timeout: float = 10.0


@dataclass(frozen=True)
class ObjectIndex:
    """One table of objects; for the publisher, each topic is a table with a position."""

    options: Options
    context: Context

    @classmethod
    def of(cls, options: Mapping[str, object], context: Context) -> Publisher:
        """Build the publisher; nothing is opened yet."""
        index = cls(read_options(options, Options), context)
        cursor = context.cursor(index.options.file)
        return TablePublisher(context.follower, cursor, index, index.topic_of)

    def topic_of(self, landed: LandedObject) -> str | None:
        """The topic of an object, if it is published."""
        name = self.context.object_name(landed.upload.key)
        return name.topic if name else None

    def through(self, table: str) -> int:
        """The position of a topic; -1 if it has none."""
        with self._transaction() as database:
            return self._position(database, table)

    def append(self, table: str, after: Next) -> int:
        """Add what comes after the topic's position, and move the position, in one transaction."""
        with self._transaction() as database:
            stretch = after(self._position(database, table))
            if not stretch.objects:
                return self._position(database, table)
            self._insert(database, table, stretch)
            return stretch.through

    def refill(self, table: str, stretch: Stretch) -> None:
        """Replace a topic's objects and its position, in one transaction."""
        with self._transaction() as database:
            for name in ("objects", "positions"):
                database.execute(f"delete from {name} where topic = ?", (table,))  # noqa: S608  # names of this file
            if stretch.objects:
                self._insert(database, table, stretch)

    def _insert(self, database: sqlite3.Connection, table: str, stretch: Stretch) -> None:
        rows = [
            (table, self.context.url(object_.landed.upload.key), object_.landed.rows, object_.slot)
            for object_ in stretch.objects
        ]
        database.executemany("insert into objects values (?, ?, ?, ?)", rows)
        database.execute("insert or replace into positions values (?, ?)", (table, stretch.through))

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Nobody else reads or writes inside; an error takes everything back."""
        options = self.options
        try:
            connection = sqlite3.connect(
                options.file, timeout=options.timeout, isolation_level="EXCLUSIVE"
            )
            with closing(connection) as database, database:
                database.execute("begin exclusive")
                for statement in SCHEMA:
                    database.execute(statement)
                yield database
        except sqlite3.OperationalError as error:
            raise DestinationAway(f"{options.file}: {error}") from error

    @staticmethod
    def _position(database: sqlite3.Connection, topic: str) -> int:
        query = "select through from positions where topic = ?"
        row = database.execute(query, (topic,)).fetchone()
        return int(row[0]) if row else -1
