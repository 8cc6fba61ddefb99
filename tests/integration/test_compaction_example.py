"""Two hours of orders are merged without duplicates, as the page of the example does it: from a
real Kafka, by Spark, to a real S3. Every order is looked for, before, after, and undone.
"""

import gzip
import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from landfall.api.contract import ExitCode
from landfall.ledger import Finalize, Replace
from tests.integration.conftest import Follow
from tests.support.pages.compacted_orders import EXAMPLE, FIRST, PAGE, CompactedOrders, produce
from tests.support.pages.hourly_etl import shown, without_times
from tests.support.pages.markdown import code

pytestmark = pytest.mark.xdist_group("spark")

Rows = Counter[tuple[str, str, int]]
"""The hour whose folder a row is in, its order, and which attempt it is."""
FIRST_ATTEMPTS, SECOND_ATTEMPTS = range(produce.MINUTES), range(7, produce.MINUTES, 10)


@pytest.fixture
def example(follow: Follow) -> CompactedOrders:
    """The example, with its records in Kafka."""
    return follow(CompactedOrders)


@dataclass(frozen=True)
class Listed:
    """What a listing of the bucket finds.

    Attributes:
        objects: that count, by key below the output root.
        kept: copies of those that have retired, by slot and key.
    """

    objects: Mapping[str, bytes]
    kept: Mapping[str, bytes]

    @classmethod
    def of(cls, example: CompactedOrders) -> "Listed":
        """Read all objects that there are now."""
        topic, root = f"{example.prefix}.orders/", "etl/orders/"
        kept = f"{root}_landfall/orders/0-retired/"

        def read(prefix: str, below: str) -> dict[str, bytes]:
            found = example.bucket.keys(f"{prefix}{below}")
            return {key.removeprefix(prefix): example.bucket.read(key) for key in found}

        return cls(read(root, topic), read(kept, ""))

    def rows(self) -> Rows:
        """Each row with the hour whose folder it is in."""
        return Counter(
            (key.partition("/hr=")[2][:2], row["order_id"], row["attempt"])
            for key, body in self.objects.items()
            for row in map(json.loads, gzip.decompress(body).splitlines())
        )

    def complete(self) -> dict[str, bytes]:
        """The objects of the two hours that are complete."""
        begun = f"/hr={FIRST + 2 * produce.HOUR:%H}/"
        return {key: body for key, body in self.objects.items() if begun not in key}


def test_the_page_shows_what_happens(example: CompactedOrders) -> None:
    runs = []
    for command, printed in shown(PAGE):
        exit_code, ours = example.type(command)
        assert exit_code == ExitCode.OK, ours
        assert shape(command, ours) == shape(command, printed), command
        if command.startswith("landfall run"):
            runs.append(Listed.of(example))

    *_, merged, undone = runs
    is_merged(merged)
    is_undone(merged, undone)
    records = example.records("orders")
    kinds = [type(each) for each in records if isinstance(each, Finalize | Replace)]
    assert kinds[:2] == [Replace, Finalize]  # who waits for the hours meets no merge
    assert example.type("landfall fsck orders.yaml --deep")[0] == ExitCode.OK


def test_the_page_shows_the_group() -> None:
    assert code(PAGE, "yaml")[0].text == (EXAMPLE / "orders.yaml").read_text()


def is_merged(after: Listed) -> None:
    """Each complete hour is one object without second attempts, and what was there is kept."""
    landed = rows_of(FIRST_ATTEMPTS, 1) + rows_of(SECOND_ATTEMPTS, 2)
    in_progress = Counter({row: n for row, n in landed.items() if row[0] == "05"})
    late = Counter({row: n for row, n in in_progress.items() if row[2] == 2})

    assert after.rows() == rows_of(FIRST_ATTEMPTS, 1) + late
    assert len({key.rpartition("/")[0] for key in after.complete()}) == 2
    assert len(after.complete()) == 2
    assert len(after.kept) == 12
    assert Listed(copies(after), {}).rows() == landed - in_progress


def is_undone(merged: Listed, after: Listed) -> None:
    """What was there is back, under new names; what was merged is kept as well."""
    assert after.rows() == rows_of(FIRST_ATTEMPTS, 1) + rows_of(SECOND_ATTEMPTS, 2)
    assert sorted(after.complete().values()) == sorted(merged.kept.values())
    assert after.complete().keys().isdisjoint(copies(merged))
    assert copies(after) == {**copies(merged), **merged.complete()}


def copies(listed: Listed) -> dict[str, bytes]:
    """What is kept, by the key that it had."""
    return {key.partition("/")[2]: body for key, body in listed.kept.items()}


def rows_of(numbers: range, attempt: int) -> Rows:
    times = ((number, FIRST + number * produce.MINUTE) for number in numbers)
    return Counter((f"{at:%H}", f"o{number}", attempt) for number, at in times)


def shape(command: str, text: str) -> list[str]:
    """The lines, without times and the numbers of slots."""
    slots = r"\bslot \d+|(?<=/r)\d+(?=_)|(?<=0-retired/)\d{20}"
    return without_times(command, re.sub(slots, "S", text))
