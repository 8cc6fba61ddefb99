"""Compare what the load produced with what a group landed.

    python -m tests.chaos.compare_landed --group group.yaml --ledger producer-ledger.jsonl

Objects are read with the auditor's code, which shares nothing with the code that writes them. What
counts as landed is what is visible in the output root, with or without a record in Landfall's
ledger: the data of every output partition, and the dead letters.
"""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from landfall.api.spec import ConsumerGroup, parse_group
from landfall_audit.buckets import Bucket, open_bucket
from landfall_audit.objects.rows import ENVELOPE, Order, Rows, rows_of
from tests.chaos.producer_ledger import Comparison, LandedObject, compare
from tests.chaos.records import Identity, identity
from tests.support.audit.audited_spec import for_auditor

_DEAD_LETTERS = re.compile(r"_landfall/[^/]+/dead-letters/")


def landed_objects(group: ConsumerGroup, bucket: Bucket | None = None) -> Iterator[LandedObject]:
    """Read every visible object of a group.

    Raises:
        ValueError: an object is damaged; the libraries of the formats may raise other errors.
    """
    bucket = bucket or open_bucket(for_auditor(group.spec.output))
    data_rows = rows_of(for_auditor(group.spec))
    for key, _ in bucket.visible():
        if dead_letters := _DEAD_LETTERS.match(key):
            yield _read(bucket, key, key[dead_letters.end() :], ENVELOPE)
        elif not key.startswith("_landfall/"):
            yield _read(bucket, key, key, data_rows)


def check(group: ConsumerGroup, producer_ledger: Path) -> Comparison:
    """Compare the producers' ledger with what the group landed."""
    return compare(producer_ledger, landed_objects(group))


def _read(bucket: Bucket, key: str, path: str, rows: Rows) -> LandedObject:
    """Read the object at ``key``; the first folder of ``path`` is its topic."""
    topic = path.partition("/")[0]
    with bucket.open(key) as stream:
        found = [row for row in rows.rows(stream) if not isinstance(row, Order)]
        return LandedObject(topic, [_identity(content) for _, content in found])


def _identity(content: object) -> Identity | None:
    """Identify a row, which is the bare value or a tuple that begins with value and key."""
    value, key = content[:2] if isinstance(content, tuple) else (content, None)
    return identity(value, key)


def main() -> int:
    """Print the comparison; the exit code is 1 if anything is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.compare_landed",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--group", type=Path, required=True, help="YAML file of the group")
    parser.add_argument(
        "--ledger", type=Path, required=True, help="the producers' ledger that the load wrote"
    )
    options = parser.parse_args()
    group = parse_group(yaml.safe_load(options.group.read_text()))
    comparison = check(group, options.ledger)
    print(comparison)
    return 0 if comparison.is_exact else 1


if __name__ == "__main__":
    raise SystemExit(main())
