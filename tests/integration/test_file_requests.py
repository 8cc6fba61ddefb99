"""What looking at a bucket costs between two listings of all names, in requests of real S3."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from landfall.api import spec
from landfall.discovery.feed_keys import FeedKeys
from landfall.discovery.looker import FeedLooker
from landfall.discovery.rules import DiscoveryRules
from landfall.formats.parts import FilePart
from landfall.ledger import FeedState
from landfall.store.memory import MemoryStore
from landfall.store.s3.files import S3Files
from tests.support.stores.s3 import Bucket

KNOWN = 5_000
HOUR = timedelta(hours=1)


def cut(name: str, size: int) -> tuple[FilePart, ...]:
    del name
    return (FilePart(0, size),)


def test_a_look_costs_what_is_new_however_much_is_known(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in bucket.server.env.items():
        monkeypatch.setenv(name, value)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: bucket.write(f"in/m{n:05d}", b"x"), range(KNOWN)))
    source = S3Files(bucket.name, "in", spec.S3.model_validate(bucket.output["s3"]))
    looker = FeedLooker(
        MemoryStore(), FeedKeys("g", "0", "files"), source, DiscoveryRules(cut, relist=HOUR)
    )
    feed, now = FeedState(), datetime.now(UTC)

    def looks(at: datetime) -> tuple[int, Counter[str]]:
        nonlocal feed
        before = Counter(source.requests)
        seen = looker.look(feed, (), at, begun=0)
        if seen.listed:
            feed = replace(feed, end=seen.listed.end, lists=(*feed.lists, seen.listed))
        looker.adopt(seen)
        return len(seen.found.files), source.requests - before

    assert looks(now) == (KNOWN, Counter(ListObjectsV2=5))
    assert looks(now) == (0, Counter(ListObjectsV2=1))
    for n in range(10):
        bucket.write(f"in/z{n}", b"x")
        bucket.write(f"in/a{n}", b"x")
    assert looks(now) == (10, Counter(ListObjectsV2=1))
    looker.add_hints(f"a{n}" for n in range(5))
    assert looks(now) == (5, Counter(ListObjectsV2=1, HeadObject=5))
    assert looks(now) == (0, Counter(ListObjectsV2=1))

    assert looks(now + HOUR) == (5, Counter(ListObjectsV2=6))
