"""Prints the rows of a Delta table of orders, as ``changes.py --table`` prints what they must be.

Run ``python examples/cdc/rows.py FOLDER``. Needs deltalake.
"""

import json
import sys

from deltalake import DeltaTable, QueryBuilder


def main(folder: str) -> None:
    """Print a row on each line, by id."""
    query = QueryBuilder().register("orders", DeltaTable(folder))
    for batch in query.execute("SELECT id, quantity, note FROM orders ORDER BY id"):
        columns = [column.to_pylist() for column in batch.columns]
        for values in zip(*columns, strict=True):
            row = dict(zip(batch.schema.names, values, strict=True))
            sys.stdout.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
