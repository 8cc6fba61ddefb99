"""Compares the tables of a group with the objects that they are to have, one table at a time."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import stamina
from pydantic import ValidationError

from landfall_audit import Fault, FaultKind, basenames
from landfall_audit.buckets import Bucket
from landfall_audit.errors import AuditReason, AuditRetry, AuditStalled
from landfall_audit.ledger.corrections import topic_of
from landfall_audit.ledger.inventory import Inventory, LedgerObject
from landfall_audit.login import read_secret
from landfall_audit.login.s3 import s3_access, translate_errors
from landfall_audit.memory_limit import steps
from landfall_audit.objects.rows import DAMAGED, parquet_file
from landfall_audit.spec import AuditedGroup, PublisherSection, TableSection
from landfall_audit.tables import (
    OFFSET,
    PARTITION,
    OpenedTable,
    TableColumns,
    TableFormat,
    TableResult,
)
from landfall_audit.tables.delta import DeltaFormat, storage_of
from landfall_audit.tables.iceberg import IcebergFormat, files_of
from landfall_audit.tables.row_texts import flags, hashes, nulls, numbers
from landfall_audit.tables.rows import DELETES, IS_KEYLESS, ROW, RowParts, Rows, compare, newest

LANE = "0"
TABLE_TYPES = ("Delta", "Iceberg")
"""Types of publishers whose tables are compared."""
_BATCH = 1 << 14
_NONE = -1
"""The Kafka partition and the offset of a row that has none."""
_LEAST = int(np.iinfo(np.int64).min)
"""The order of a row that has none: it is older than any other."""


@dataclass(frozen=True)
class RowReader:
    """Makes numbers of rows of one table, and of the objects that it is to have.

    Attributes:
        options: of the publisher.
        columns: of the table.
    """

    options: TableSection
    columns: TableColumns

    @property
    def is_keyed(self) -> bool:
        """Return whether the table has the newest row of each key."""
        return self.options.mode == "Keyed"

    def rows(self, batch: Mapping[str, pa.Array], lifetimes: Mapping[int, int]) -> Rows:
        """The numbers of some rows.

        Args:
            batch: columns by their names in the table; at least one.
            lifetimes: of the Kafka partitions.
        """
        count = len(next(iter(batch.values())))
        found = np.zeros(count, ROW)
        texts = hashes(batch, count)
        found["high"], found["low"] = texts[:, 0], texts[:, 1]
        found["partition"] = self._numbers(batch, PARTITION, _NONE, count)
        found["offset"] = self._numbers(batch, OFFSET, _NONE, count)
        for partition, lifetime in lifetimes.items():
            found["lifetime"][found["partition"] == partition] = lifetime
        if self.options.order:
            found["order"] = self._numbers(batch, self.options.order, _LEAST, count)
        keys = self._keys(batch, found)
        found["key_high"], found["key_low"] = keys[:, 0], keys[:, 1]
        return found

    def _keys(self, batch: Mapping[str, pa.Array], found: Rows) -> npt.NDArray[np.uint64]:
        """The hash of each key; in a table of all rows the place, or the hash of the values."""
        if not self.is_keyed:
            places, texts = (
                np.stack([found[name].astype(np.uint64) for name in names], axis=1)
                for names in (("offset", "partition"), ("high", "low"))
            )
            return np.where(found["offset"][:, None] >= 0, places, texts)
        key = [self._column(batch, name, len(found)) for name in self.options.key]
        keyless = nulls(key)
        deletes = flags(self._column(batch, self.options.deleted, len(found)))
        found["flags"] = np.where(deletes, DELETES, 0) | np.where(keyless, IS_KEYLESS, 0)
        return hashes({str(number): part for number, part in enumerate(key)}, len(found))

    def _column(self, batch: Mapping[str, pa.Array], name: str, count: int) -> pa.Array:
        """A column by its name in files; nulls if there is none."""
        column = self.columns.named(name)
        return pa.nulls(count) if column is None else batch.get(column, pa.nulls(count))

    def _numbers(
        self, batch: Mapping[str, pa.Array], name: str, missing: int, count: int
    ) -> npt.NDArray[np.int64]:
        return numbers(self._column(batch, name, count), missing)


class TableChecks:
    """The tables of a group, and the objects that they are to have."""

    def __init__(self, group: AuditedGroup, bucket: Bucket, inventory: Inventory) -> None:
        """Find the tables of all objects that the ledger names."""
        self._group, self._bucket, self._inventory = group, bucket, inventory
        self._rows = sqlite3.connect("")
        self._rows.execute(
            "CREATE TABLE objects (topic TEXT, generation INTEGER, key TEXT PRIMARY KEY, "
            "slot INTEGER, retired INTEGER) WITHOUT ROWID"
        )
        named = (
            (topic_of(o.key), basenames.named(o.key).generation, o.key, o.slot, o.retired)
            for o in inventory.data_objects()
        )
        self._rows.executemany("INSERT INTO objects VALUES (?, ?, ?, ?, ?)", named)
        self._rows.execute("CREATE INDEX by_topic ON objects (topic, generation)")

    def close(self) -> None:
        """Delete the database."""
        self._rows.close()

    def topics(self) -> frozenset[str]:
        """The topics that have objects of data."""
        return frozenset(t for (t,) in self._rows.execute("SELECT DISTINCT topic FROM objects"))

    def results(
        self, topics: Iterable[str], progress: Callable[[int, int], None] = lambda *_: None
    ) -> Iterator[TableResult]:
        """Compare the tables of some topics, or of all if none are given.

        Args:
            topics: their names.
            progress: is called with how many of how many objects were looked at.
        """
        wanted, found = frozenset(topics), list[_CheckedTable]()
        for publisher in self._group.spec.publish:
            if publisher.type in TABLE_TYPES:
                options = _options(publisher)
                format_ = _format(self._group, publisher, options)
                for name, of in self._tables(publisher, format_, wanted).items():
                    found.append(
                        _CheckedTable(TableResult(publisher.name, name), options, format_, of)
                    )
        total = sum(self._count(of) for table in found for of in table.of)
        done = count()
        for table in found:
            self._check(table, lambda: progress(next(done), total))
            yield table.result

    def _count(self, of: tuple[str, int]) -> int:
        query = "SELECT count(*) FROM objects WHERE (topic, generation) = (?, ?)"
        (number,) = self._rows.execute(query, of).fetchone()
        return int(number)

    def _tables(
        self, publisher: PublisherSection, format_: TableFormat, topics: frozenset[str]
    ) -> dict[str, list[tuple[str, int]]]:
        """The topics and generations of each table, by its name."""
        found = dict[str, list[tuple[str, int]]]()
        query = "SELECT DISTINCT topic, generation FROM objects ORDER BY 1, 2"
        for topic, generation in self._rows.execute(query).fetchall():
            if publisher.selects(topic):
                table = format_.table_of(topic, generation)
                found.setdefault(table, []).append((topic, generation))
        return {
            table: of
            for table, of in found.items()
            if not topics or any(topic in topics for topic, _ in of)
        }

    def _check(self, table: "_CheckedTable", progress: Callable[[], None]) -> None:
        try:
            self._check_opened(table, progress)
        except ModuleNotFoundError as error:
            name = str(error.name).partition(".")[0]
            extra = "delta" if name == "deltalake" else "iceberg"
            raise AuditStalled(
                AuditReason.SPEC_INVALID,
                f"{name} is not installed: install the extra {extra} of landfall-audit",
            ) from None
        except AuditRetry as error:
            table.result.error = str(error)

    def _check_opened(self, table: "_CheckedTable", progress: Callable[[], None]) -> None:
        result = table.result
        opened = table.format.open(result.table, self._inventory.slots - 1)
        if opened is None:
            result.unchecked = "it does not exist yet, or has only what is newer"
        elif opened.other_lanes:
            result.unchecked = f"{', '.join(sorted(opened.other_lanes))} publish to it, too"
        elif opened.through < 0:
            result.unchecked = "it has nothing of the group yet"
        elif table.options.skip or table.options.start_at != "Beginning":
            result.unchecked = "startAt or skip leave objects out of it, which are not traced"
        else:
            with closing(RowParts()) as landed, closing(RowParts()) as shown:
                self._compare(table, _Sides(table.options, opened, landed, shown), progress)

    def _compare(
        self, table: "_CheckedTable", sides: "_Sides", progress: Callable[[], None]
    ) -> None:
        result = table.result
        result.through = sides.table.through
        applied = self._inventory.applied_at(result.through)
        for topic, generation in table.of:
            lifetimes = self._inventory.lifetimes_at(topic, generation)
            query = "SELECT key, slot, retired FROM objects WHERE (topic, generation) = (?, ?)"
            for row in self._rows.execute(query, (topic, generation)).fetchall():
                progress()
                if LedgerObject(*row).counts_at(applied):
                    result.faults += self._landed(sides, row[0], lifetimes)
        result.added = sides.add_shown(result.table)
        sides.compare(result)

    def _landed(self, sides: "_Sides", key: str, lifetimes: Mapping[int, int]) -> Iterator[Fault]:
        """Add the rows of an object; yields what is wrong with it."""
        try:
            with self._opened(key) as file:
                for batch in steps(file.iter_batches(_BATCH)):
                    sides.add_landed(batch, lifetimes)
        except FileNotFoundError:
            yield Fault(FaultKind.LOST, key)
        except DAMAGED as error:
            yield Fault(FaultKind.DAMAGED, key, f"{type(error).__name__}: {error}")

    @contextmanager
    def _opened(self, key: str) -> Iterator[pq.ParquetFile]:
        """Provide an object, from its place or from its copy.

        Raises:
            FileNotFoundError: it is gone.
        """
        with ExitStack() as stack:
            try:
                opened = self._copied(key, stack)
            except FileNotFoundError:
                copy = self._inventory.find_copy(key)
                if copy is None:
                    raise
                opened = self._copied(copy, stack)
            yield opened

    @stamina.retry(on=AuditRetry, attempts=5)
    def _copied(self, key: str, stack: ExitStack) -> pq.ParquetFile:
        with self._bucket.open(key) as stream, translate_errors("read", key):
            return stack.enter_context(parquet_file(stream))


@dataclass(frozen=True)
class _CheckedTable:
    """A table to be compared, and the topics and generations whose objects it is of."""

    result: TableResult
    options: TableSection
    format: TableFormat
    of: Sequence[tuple[str, int]]


@dataclass
class _Sides:
    """The rows that a table is to have, and the ones that it has.

    Attributes:
        options: of the publisher.
        table: the version.
        landed: rows of objects.
        shown: rows of the table.
    """

    options: TableSection
    table: OpenedTable
    landed: RowParts
    shown: RowParts

    def __post_init__(self) -> None:
        self._columns = self.table.columns
        self._reader = RowReader(self.options, self._columns)
        self._seen = set[str]()

    def add_landed(self, batch: pa.RecordBatch, lifetimes: Mapping[int, int]) -> None:
        """Add rows of an object."""
        columns = self._columns.of_file(batch.schema.names)
        self._seen |= columns.keys()
        if columns:
            found = {column: batch.column(name) for column, name in columns.items()}
            self.landed.add(self._reader.rows(found, lifetimes))

    def add_shown(self, table: str) -> int:
        """Add the rows of the table; returns how many have no offset, though landed ones do."""
        added, has_places = 0, self._columns.named(OFFSET) in self._seen
        try:
            for batch in self.table.batches(sorted(self._seen or self._columns.in_files)):
                columns = {name: batch.column(name) for name in batch.schema.names}
                rows = self._reader.rows(columns, {})
                is_own = rows["offset"] >= (0 if has_places else _NONE)
                added += int((~is_own).sum())
                self.shown.add(rows[is_own])
        except Exception as error:
            raise AuditRetry(f"table {table}: {type(error).__name__}: {error}") from error
        return added

    def compare(self, result: TableResult) -> None:
        """Compare both sides."""
        counting: Callable[[Rows], Rows] = (
            partial(newest, is_ordered=self.options.order is not None)
            if self._reader.is_keyed
            else lambda rows: rows
        )
        found = compare(self.landed, self.shown, counting)
        for kind, number in found.counts.items():
            setattr(result, kind, number)
        result.expected = found.expected
        result.found = found.expected - result.missing - result.corrupted
        result.rows = {
            kind: [f"{partition}@{offset}" for partition, offset in places]
            for kind, places in found.places.items()
        }


def _options(publisher: PublisherSection) -> TableSection:
    try:
        given = {name: value for name, value in publisher.options.items() if value is not None}
        return TableSection.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise AuditStalled(
            AuditReason.SPEC_INVALID,
            f"spec.publish: {publisher.name}: options.{where}: {first['msg']}",
        ) from None


def _format(group: AuditedGroup, publisher: PublisherSection, options: TableSection) -> TableFormat:
    """Open the tables of a publisher with its credentials and the output's."""
    secret = dict(read_secret(publisher.secret_ref.name)) if publisher.secret_ref else {}
    output, name = group.spec.output, group.metadata.name
    access = s3_access(output.s3) if output.url.startswith("s3://") else None
    if publisher.type == "Delta":
        of_output = storage_of(access) if access else {}
        storage = {**of_output, **_texts(options.storage), **secret}
        return DeltaFormat(options.table, storage, f"landfall/{name}/{LANE}")
    files = files_of(access) if access else {}
    # Credentials that a catalog hands out reach the folder of a table, not the landed files.
    own = {"header.X-Iceberg-Access-Delegation": ""}
    properties = {**own, **files, **_texts(options.catalog), **secret}
    return IcebergFormat(options.table, properties, f"landfall.{name}.{LANE}.through")


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in values.items() if value is not None}
