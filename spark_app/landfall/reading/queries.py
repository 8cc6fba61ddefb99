"""Answers queries in SQL: each topic of the group that a query names is a table of DuckDB.

``dead_letters`` is one, too, unless a topic has that name.
"""

import re
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Unpack

from landfall.errors import Reason, Stalled, how_to_install
from landfall.reading.datasets import ScanDataset
from landfall.reading.files import Choice
from landfall.reading.groups import LandedGroup
from landfall.reading.letters import TABLE as DEAD_LETTERS

if TYPE_CHECKING:
    import duckdb

_SETTINGS: dict[str, Any] = {
    # A query reads what its user may read, but loads no code from the network.
    "autoinstall_known_extensions": "false",
    "TimeZone": "UTC",
}


@contextmanager
def answer(
    group: LandedGroup, query: str, *, tail: bool = False, **choice: Unpack[Choice]
) -> "Iterator[duckdb.DuckDBPyRelation | None]":
    """Execute a query, and give its rows; None of a statement that has none.

    All topics are read at one slot. With a tail each is read at the ledger's last slot.

    Args:
        group: whose topics are tables.
        query: one statement of DuckDB's SQL.
        tail: whether Kafka's records that have not landed are rows of the tables, too.
        choice: which output partitions are read, see ``Choice``.

    Raises:
        Stalled: SPEC_INVALID, DuckDB is not installed, or refuses the query; LEDGER_BROKEN;
            OBJECT_LOST, an object is gone or damaged.
        Retry: the store or Kafka does not answer.
    """
    try:
        import duckdb  # noqa: PLC0415  # of an extra
    except ImportError as error:
        raise Stalled(Reason.SPEC_INVALID, f"sql needs DuckDB: {how_to_install('sql')}") from error
    topics = group.topics(tail=tail)
    slot = None if tail else group.slot
    has_letters = DEAD_LETTERS not in map(str.casefold, topics)
    scans = {
        table: group.scan(table, slot=slot, tail=tail, **choice)
        if table in topics
        else group.dead_letters()
        for table in _named(query, [*topics, DEAD_LETTERS] if has_letters else topics)
    }
    with (
        tempfile.TemporaryDirectory() as folder,
        duckdb.connect(config={**_SETTINGS, "temp_directory": folder}) as connection,
    ):
        tables = {name: ScanDataset(scan) for name, scan in scans.items()}
        for name, table in tables.items():
            connection.register(name, table)
        try:
            yield connection.sql(query)
        except duckdb.Error as error:
            for table in tables.values():
                if table.error is not None:
                    raise table.error from error
            known = ", ".join(topics) or "none, as nothing has landed"
            apart = f"; and {DEAD_LETTERS}" if has_letters else ""
            raise Stalled(
                Reason.SPEC_INVALID, f"the query: {error}\ntables are topics: {known}{apart}"
            ) from error


def _named(query: str, tables: Collection[str]) -> Iterator[str]:
    """The tables whose names are in a query, as identifiers, texts or comments.

    Raises:
        Stalled: SPEC_INVALID, two differ in capital letters alone, which SQL does not distinguish.
    """
    found = dict[str, str]()
    for topic in tables:
        if re.search(rf"(?<!\w){re.escape(topic)}(?!\w)", query, re.IGNORECASE) is None:
            continue
        if other := found.get(topic.casefold()):
            raise Stalled(
                Reason.SPEC_INVALID,
                f"the query: {other} and {topic} are two topics, and one name in SQL",
            )
        found[topic.casefold()] = topic
        yield topic
