"""Changes of a table of orders, as the connectors of eight sources send them.

The table is the same for all: orders are inserted, updated and deleted, and some get another id.
``SOURCES`` has the documented form of each source: Debezium for PostgreSQL, MySQL, SQL Server,
Oracle and MongoDB, records that ``ExtractNewRecordState`` has flattened, Maxwell, and Canal.

Run ``python examples/cdc/changes.py SOURCE``; it prints a record on each line, key and value, as
``landfall try --input json`` reads them. With ``--table`` it prints the table that they lead to.
"""

import json
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

CHANGES = 200
ORDERS = 20
FIRST = 1_795_233_600_000
"""When the first change was made, in milliseconds since 1970; there is one each second."""
Row = dict[str, Any]
Record = tuple[Row | None, Row | None]
"""Key and value."""


@dataclass(frozen=True)
class Change:
    """A change of one row: the row before it and after it, None if there is none."""

    number: int
    before: Row | None
    after: Row | None

    @property
    def op(self) -> str:
        """The letter that Debezium has for it."""
        return "d" if self.after is None else "c" if self.before is None else "u"

    @property
    def at(self) -> int:
        """When it was made, in milliseconds."""
        return FIRST + 1000 * self.number

    @property
    def row(self) -> Row:
        """The row after it, or the deleted row."""
        row = self.before if self.after is None else self.after
        assert row is not None, "one of them is there"
        return row


def changes(seed: int = 1) -> Iterator[Change]:
    """Yield changes of the table; another id is a deletion and an insert, as in all sources."""
    chosen, table = random.Random(seed), dict[int, Row]()  # noqa: S311  # no secret
    number = 0
    while number < CHANGES:
        order, other = chosen.randrange(ORDERS), chosen.randrange(ORDERS)
        row = {"id": order, "quantity": chosen.randrange(9), "note": chosen.choice(["", "é", None])}
        before = table.get(order)
        if before is None or chosen.random() < 0.6:
            table[order] = row
            yield Change(number, before, row)
        else:
            del table[order]
            yield Change(number, before, None)
            if other not in table:
                number += 1
                table[other] = {**before, "id": other}
                yield Change(number, None, table[other])
        number += 1


def table_after(made: Iterator[Change]) -> dict[int, Row]:
    """Return the rows that changes lead to, by id."""
    table = dict[int, Row]()
    for change in made:
        if change.after is None:
            del table[change.row["id"]]
        else:
            table[change.after["id"]] = change.after
    return table


# --------------------------------------------------------------------------------------- Debezium


def _key(change: Change) -> Row:
    return {"id": change.row["id"]}


def _debezium(change: Change, before: Row | None, **source: Any) -> Iterator[Record]:
    """An envelope, with a tombstone after a deletion."""
    yield (
        _key(change),
        {
            "before": before,
            "after": change.after,
            "source": {"version": "3.6.1.Final", "name": "shop", "ts_ms": change.at, **source},
            "op": change.op,
            "ts_ms": change.at + 5,
        },
    )
    if change.op == "d":
        yield _key(change), None


def postgres(change: Change) -> Iterator[Record]:
    """PostgreSQL with its default REPLICA IDENTITY: a deletion has the key alone; heartbeats."""
    before = dict.fromkeys(change.row) | _key(change) if change.op == "d" else None
    yield from _debezium(change, before, connector="postgresql", lsn=1000 + change.number)
    if change.number % 20 == 0:
        yield {"serverName": "shop"}, {"ts_ms": change.at}


def mysql(change: Change) -> Iterator[Record]:
    """MySQL, whose log has whole rows."""
    position = {"file": "binlog.000001", "pos": 100 * change.number, "row": 0}
    yield from _debezium(change, change.before, connector="mysql", **position)


def sqlserver(change: Change) -> Iterator[Record]:
    """SQL Server, whose positions are texts."""
    lsn = f"00000027:{change.number:08x}:0005"
    yield from _debezium(change, change.before, connector="sqlserver", change_lsn=lsn)


def oracle(change: Change) -> Iterator[Record]:
    """Oracle, whose names are in capitals."""
    for key, value in _debezium(change, change.before, connector="oracle", scn=str(change.number)):
        rows = () if value is None else ("before", "after")
        yield _capitals(key), value and {**value, **{name: _capitals(value[name]) for name in rows}}


def _capitals(row: Row | None) -> Row | None:
    return row and {name.upper(): value for name, value in row.items()}


def mongodb(change: Change) -> Iterator[Record]:
    """MongoDB, whose documents are texts of JSON; a deletion has the key alone."""
    key = {"id": json.dumps({"$numberLong": str(change.row["id"])})}
    for _, value in _debezium(change, None, connector="mongodb", collection="orders"):
        yield key, value and {**value, "after": _document(change.after), "updateDescription": None}


def _document(row: Row | None) -> str | None:
    if row is None:
        return None
    numbers = {"_id": row["id"], "quantity": row["quantity"]}
    texts = {name: {"$numberLong": str(value)} for name, value in numbers.items()}
    return json.dumps({**texts, "note": row["note"]})


def flattened(change: Change) -> Iterator[Record]:
    """Debezium with ``delete.tombstone.handling.mode: rewrite`` and two of ``add.fields``."""
    added = {"__op": change.op, "__source_ts_ms": change.at}
    yield _key(change), {**change.row, **added, "__deleted": str(change.op == "d").lower()}


# --------------------------------------------------------------------------------- other sources


def maxwell(change: Change) -> Iterator[Record]:
    """Maxwell, with the values that an update has changed in ``old``."""
    types = {"c": "insert", "u": "update", "d": "delete"}
    of = {"database": "shop", "table": "orders", "ts": change.at // 1000, "xid": change.number}
    old = {n: v for n, v in (change.before or {}).items() if change.row[n] != v}
    value = {**of, "type": types[change.op], "data": change.row}
    key = {"database": "shop", "table": "orders", "pk.id": change.row["id"]}
    yield key, {**value, "old": old} if change.op == "u" else value


def canal(change: Change) -> Iterator[Record]:
    """Canal, in which all values are texts."""
    types = {"c": "INSERT", "u": "UPDATE", "d": "DELETE"}
    of = {"database": "shop", "table": "orders", "es": change.at, "ts": change.at + 5}
    more = {"isDdl": False, "pkNames": ["id"], "mysqlType": {"id": "int"}, "sqlType": {"id": 4}}
    texts = {n: None if v is None else str(v) for n, v in change.row.items()}
    yield None, {**of, **more, "type": types[change.op], "data": [texts], "old": None}


SOURCES: Mapping[str, Callable[[Change], Iterator[Record]]] = {
    function.__name__: function
    for function in (postgres, mysql, sqlserver, oracle, mongodb, flattened, maxwell, canal)
}


def records(source: str, seed: int = 1) -> Iterator[Record]:
    """Yield the records of a source."""
    for change in changes(seed):
        yield from SOURCES[source](change)


def main(source: str, *options: str) -> None:
    """Print the records, or the table."""
    if "--table" in options:
        lines: Iterator[Any] = (row for _, row in sorted(table_after(changes()).items()))
    else:
        lines = ({"key": key, "value": value} for key, value in records(source))
    for line in lines:
        sys.stdout.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
