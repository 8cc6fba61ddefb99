"""A process that publishes to BigQuery, below ROOT, with OPTIONS as JSON."""

import json
import sys
import time
from pathlib import Path

from landfall.api.spec import parse_group
from landfall.errors import LandfallError
from landfall.publish.building import publisher
from landfall.publish.context import Context
from landfall.store.urls import open_store
from tests.support.kubernetes.groups import document
from tests.support.ledger.sample_ledger import GROUP, LANE


def main() -> None:
    """Publish what landed below ROOT again and again, until the process is killed."""
    root, options = Path(sys.argv[1]), json.loads(sys.argv[2])
    described = document(GROUP, publish=[{"name": "lake", "type": "BigQuery", "options": options}])
    described["spec"]["output"] = {
        "url": f"file://{root}/landed",
        "format": "Parquet",
        "options": {"envelope": False},
    }
    group = parse_group(described)
    context = Context(group, group.spec.publish[0], LANE, open_store(group.spec.output))
    built = publisher(context.group, context.entry, context.store)
    print("ready", flush=True)
    while True:
        try:
            built.publish(context.follower())
        except LandfallError as error:
            print(error, flush=True)
        time.sleep(0.01)


if __name__ == "__main__":
    main()
