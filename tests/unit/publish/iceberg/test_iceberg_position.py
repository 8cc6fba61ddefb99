"""Where a table is that others change as well: roll back, compact, expire, append, delete."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from landfall.errors import Stalled
from landfall.publish.iceberg.position import position
from landfall.publish.table_position import NONE
from tests.support.publishers.lake import CLICKS, Lake, iceberg_lake
from tests.support.work import lines_run

KEY = "landfall.shop.0.through"


@dataclass
class Shared:
    """A table that a publisher and others change."""

    lake: Lake

    def load(self) -> Any:
        tables: Any = self.lake.connect()
        return tables.connection.catalog().load_table("lake.clicks")

    def publish_more(self) -> None:
        self.lake.landed.land(CLICKS).settle()
        self.lake.publish()

    def compact(self) -> None:
        """Write all rows anew in one file, as ``rewrite_data_files`` of an engine does."""
        table = self.load()
        table.overwrite(table.scan().to_arrow())

    def roll_back(self, steps: int) -> None:
        table = self.load()
        target = table.metadata.current_snapshot_id
        for _ in range(steps):
            target = table.metadata.snapshot_by_id(target).parent_snapshot_id
        table.manage_snapshots().rollback_to_snapshot(target).commit()

    def expire_all_but_the_current(self) -> None:
        table = self.load()
        others = [
            each.snapshot_id
            for each in table.metadata.snapshots
            if each.snapshot_id != table.metadata.current_snapshot_id
        ]
        table.maintenance.expire_snapshots().by_ids(others).commit()


@pytest.fixture
def shared(tmp_path: Path) -> Shared:
    made = Shared(iceberg_lake(tmp_path))
    for _ in range(3):
        made.publish_more()
    return made


CHANGES: dict[str, Callable[[Shared], None]] = {
    "compacted": Shared.compact,
    "rolled back": lambda shared: shared.roll_back(1),
    "rolled back twice": lambda shared: shared.roll_back(2),
    "expired": Shared.expire_all_but_the_current,
    "compacted, expired": lambda shared: (shared.compact(), shared.expire_all_but_the_current())[0],
    "compacted, rolled back": lambda shared: (shared.compact(), shared.roll_back(3))[0],
    "rolled back, compacted": lambda shared: (shared.roll_back(1), shared.compact())[0],
    "rolled back, expired": lambda shared: (
        shared.roll_back(1),
        shared.expire_all_but_the_current(),
    )[0],
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("more", [True, False])
def test_a_table_that_others_change_keeps_every_row_once(
    shared: Shared, change: str, more: bool
) -> None:
    CHANGES[change](shared)

    if more:
        shared.publish_more()
    else:
        shared.lake.publish()

    assert shared.lake.is_whole()
    shared.publish_more()
    assert shared.lake.is_whole()


def test_rows_of_others_stay_and_are_not_counted(shared: Shared) -> None:
    columns = shared.load().scan().to_arrow().schema
    one = {"_offset": [1000], "name": ["x"], "_timestamp": [None]}
    shared.load().append(pa.table(one, schema=columns))

    shared.publish_more()

    assert sorted(shared.lake.offsets("lake.clicks")) == [*range(40), 1000]


def test_a_table_that_is_emptied_stays_itself(shared: Shared) -> None:
    before = shared.load()
    publisher = shared.lake.landed.publisher(shared.lake.connect())
    follower = shared.lake.landed.follower()

    publisher.reset(follower)

    after = shared.load()
    assert after.metadata.table_uuid == before.metadata.table_uuid
    assert shared.lake.is_whole()
    assert after.scan(snapshot_id=before.current_snapshot().snapshot_id).count() == 30
    publisher.reset(follower)
    publisher.publish(shared.lake.landed.follower())
    assert shared.lake.is_whole()


def test_a_table_with_rows_of_another_group_is_not_emptied(shared: Shared) -> None:
    with shared.load().transaction() as transaction:
        transaction.set_properties({"landfall.other.0.through": "3"})

    with pytest.raises(Stalled, match=r"has rows of landfall\.other\.0; drop it to"):
        shared.lake.landed.publisher(shared.lake.connect()).reset(shared.lake.landed.follower())

    assert shared.lake.is_whole()


def metadata(current: int | None, *snapshots: Any, at: int | None = None) -> Any:
    """A table; ``at`` is the number of the snapshot that set the property to 9."""
    properties = {KEY: "9", f"{KEY}.snapshot": str(at), f"{KEY}.sequence": str(at)} if at else {}
    return SimpleNamespace(current_snapshot_id=current, snapshots=snapshots, properties=properties)


def snapshot(number: int, parent: int | None, through: int | None = None) -> Any:
    summary = SimpleNamespace(additional_properties={KEY: str(through)} if through else {})
    return SimpleNamespace(
        snapshot_id=number, parent_snapshot_id=parent, summary=summary, sequence_number=number
    )


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (metadata(None), NONE),
        (metadata(1, snapshot(1, None)), NONE),
        (metadata(2, snapshot(1, None, 5), snapshot(2, 1, 9), at=2), 9),
        (metadata(3, snapshot(2, 1, 9), snapshot(3, 2), at=2), 9),
        (metadata(1, snapshot(1, None, 5), snapshot(2, 1, 9), at=2), 5),
        (metadata(1, snapshot(1, None), snapshot(2, 1, 9), at=2), NONE),
        (metadata(4, snapshot(4, 3), at=3), 9),
        (metadata(4, snapshot(4, None), at=3), 9),
        (metadata(4, snapshot(4, 3)), NONE),
    ],
)
def test_the_newest_ancestor_with_a_position_decides(found: Any, expected: int) -> None:
    assert position(found, KEY).through == expected


@pytest.mark.parametrize(
    "rolled_back",
    [
        metadata(2, snapshot(2, 1), snapshot(3, 2, 9), at=3),
        metadata(2, snapshot(2, None), snapshot(3, 2, 9), at=3),
        metadata(4, snapshot(3, 2, 9), snapshot(4, None), at=3),
        metadata(2, snapshot(2, None), at=3),
    ],
)
def test_a_position_that_is_rolled_back_and_expired_is_not_guessed(rolled_back: Any) -> None:
    with pytest.raises(Stalled, match="or rolled back to a snapshot whose position"):
        position(rolled_back, KEY)


def test_a_long_history_is_gone_through_once() -> None:
    def lines(length: int) -> int:
        many = [snapshot(number, number - 1) for number in range(1, length)]
        found = metadata(length - 1, snapshot(0, None, 4), *many)
        assert position(found, KEY).through == 4
        return lines_run(lambda: position(found, KEY))

    assert lines(20_000) < 11 * lines(2_000)
