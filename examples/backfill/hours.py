"""Asks DuckDB what the hours of a topic hold: how many rows, with cents, and with a user.

Run ``python examples/backfill/hours.py FOLDER``, with the folder of the topic. Needs duckdb.
"""

import sys

import duckdb

QUERY = """
select hr, count(*), count(json->>'cents'), count(json->>'user')
from read_ndjson_objects('{}/*/*/*.gz', hive_partitioning = true) group by hr order by hr
"""


def main(folder: str) -> None:
    """Print a line per hour."""
    # By one thread, so that of several broken objects the first by name is the one named.
    connection = duckdb.connect(config={"threads": 1})
    try:
        found = connection.sql(QUERY.format(folder)).fetchall()
    except duckdb.Error as error:
        raise SystemExit(str(error).partition("\n")[0]) from None
    for hour, rows, cents, users in found:
        counted = f"rows {rows}  with cents {cents}  with user {users}"
        sys.stdout.write(f"hr={hour}  {counted}\n")


if __name__ == "__main__":
    main(sys.argv[1])
