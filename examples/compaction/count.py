"""Prints how many objects, rows and orders each hour has.

Run ``python examples/compaction/count.py FOLDER``, with the folder that has the output.
"""

import gzip
import json
import sys
from pathlib import Path


def main(folder: str) -> None:
    """Read all objects in the folders of hours."""
    for hour in sorted(Path(folder).glob("*/dt=*/hr=*")):
        objects = [gzip.decompress(file.read_bytes()) for file in hour.glob("*.json.gz")]
        rows = [json.loads(line) for body in objects for line in body.splitlines()]
        orders = {row["order_id"] for row in rows}
        counted = f"objects {len(objects)}  rows {len(rows)}  orders {len(orders)}"
        sys.stdout.write(f"{hour.name}  {counted}\n")


if __name__ == "__main__":
    main(sys.argv[1])
