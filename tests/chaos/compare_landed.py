"""``python -m tests.chaos.compare_landed --group group.yaml --book book.jsonl``: the load's book, held
against
what landed.

Objects are read by the auditor's own means, none of which are the writer's. What landed is what is
visible in the output root, ledger or no ledger: data of every output partition, and dead letters.
"""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from landfall.api.spec import ConsumerGroup, parse_group
from landfall.audit.bucket import Bucket, open_bucket
from landfall.audit.rows import ENVELOPE, Rows, rows_of
from tests.chaos.producer_ledger import Comparison, Landed, compare
from tests.chaos.records import Identity, identity

_LETTERS = re.compile(r"_landfall/[^/]+/dead-letters/")


def landed(group: ConsumerGroup, bucket: Bucket | None = None) -> Iterator[Landed]:
    """All that is visible, object by object.

    Raises:
        ValueError: and whatever else the libraries raise for an object that is damaged.
    """
    bucket = bucket or open_bucket(group.spec.output)
    of_data = rows_of(group.spec)
    for key, _ in bucket.visible():
        if letters := _LETTERS.match(key):
            yield _read(bucket, key, key[letters.end() :], ENVELOPE)
        elif not key.startswith("_landfall/"):
            yield _read(bucket, key, key, of_data)


def check(group: ConsumerGroup, book: Path) -> Comparison:
    """Hold the book against what the group landed."""
    return compare(book, landed(group))


def _read(bucket: Bucket, key: str, below: str, rows: Rows) -> Landed:
    with bucket.open(key) as stream:
        return Landed(
            below.partition("/")[0], [_identity(content) for _, content in rows.rows(stream)]
        )


def _identity(content: object) -> Identity | None:
    """Of a row: the bare value, or a tuple that begins with value and key."""
    value, key = content[:2] if isinstance(content, tuple) else (content, None)
    return identity(value, key)


def main() -> int:
    """See the module; exit code 1 if anything is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.compare_landed", description=__doc__
    )
    parser.add_argument("--group", type=Path, required=True, help="the group's YAML")
    parser.add_argument("--book", type=Path, required=True, help="what the load wrote")
    chosen = parser.parse_args()
    comparison = check(parse_group(yaml.safe_load(chosen.group.read_text())), chosen.book)
    print(comparison)
    return 0 if comparison.is_exact else 1


if __name__ == "__main__":
    raise SystemExit(main())
