"""What a backfill reads: topics in Kafka, or what another group has landed of them."""

from datetime import UTC, datetime
from typing import Any

import pytest

from landfall.api.spec import ConsumerGroup, parse_group
from landfall.driver.backfill.side_lane import SidePlan, SideRange, SideStart, side_group
from landfall.driver.backfill.side_source import check_covered, landed_by, side_group_of
from landfall.errors import Stalled
from landfall.lane import Lane
from landfall.ledger import LaneOwnership
from landfall.ledger.offsets import OffsetRange, TopicPartition
from landfall.store.memory import MemoryStore
from tests.support.driver.fakes import FakeLog
from tests.support.kubernetes.groups import document
from tests.support.ledger.readable import CLICKS, Readable
from tests.support.ledger.sample_ledger import GROUP, LANE
from tests.unit.driver.test_side_lane import plan

NOW = datetime(2026, 11, 21, tzinfo=UTC)
OTHER = TopicPartition("clicks", 1)
S3 = {"endpoint": "http://minio:9000", "storageClass": "STANDARD_IA"}


def group(**spec: Any) -> ConsumerGroup:
    return parse_group(document("shop", **{"generation": 2, **spec}))


def planned(start: int, end: int, topic_id: str = "id-a") -> SidePlan:
    """A plan of one range of the fake log's topic."""
    made = plan()
    tp = made.ranges[0].topic_partition
    changes = {"ranges": (SideRange(tp, topic_id, OffsetRange(start, end)),), "others": ()}
    return type(made)(**{f: changes.get(f, getattr(made, f)) for f in made.__struct_fields__})


def log(start: int = 10, end: int = 90) -> FakeLog:
    made = FakeLog().write("clicks", end, log_start=start)
    made.ids["clicks"] = "id-a"
    return made


def test_of_a_backup_s_output_the_side_lane_takes_what_is_for_reading() -> None:
    backup = group(output={"url": "s3://backup/raw", "s3": S3, "format": "SequenceFile"})

    assert landed_by(backup) == {
        "group": "shop",
        "url": "s3://backup/raw",
        "s3": {"endpoint": "http://minio:9000"},
    }


def test_a_side_lane_reads_from_the_backup_what_is_planned() -> None:
    landed = {"group": "backup", "url": "s3://backup/raw"}

    made = side_group(group(), plan(), landed).spec

    assert made.source.kafka is None
    assert made.source.landed is not None
    assert (made.source.landed.group, made.source.landed.topics) == ("backup", ("clicks",))
    assert made.output.url == "s3://logs/shop/_landfall/shop/side/fix"


def test_a_group_that_lands_from_a_backup_does_so_in_its_backfills() -> None:
    source = {"landed": {"group": "backup", "url": "s3://backup/raw", "topicPattern": ".*"}}

    made = side_group(group(source=source), plan()).spec.source.landed

    assert made is not None
    assert (made.group, made.topics, made.topic_pattern) == ("backup", ("clicks",), None)


def test_a_backup_that_has_all_is_read() -> None:
    check_covered(log(), planned(10, 90), "backup")


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (planned(9, 20), r"clicks/0: backup has landed offsets from 10 to 90, and \[9, 20\)"),
        (planned(20, 91), "is to be landed again"),
        (planned(20, 30, "other"), "with the id id-a, and the group one with the id other"),
    ],
)
def test_a_backup_that_lacks_some_is_refused(made: SidePlan, why: str) -> None:
    with pytest.raises(Stalled, match=why):
        check_covered(log(), made, "backup")


def test_a_backup_without_the_topic_is_refused() -> None:
    with pytest.raises(Stalled, match="backup has landed nothing of clicks/0"):
        check_covered(FakeLog().write("other", 5), planned(0, 5), "backup")


def test_topic_partitions_enter_where_their_ranges_start(tmp_path: Any) -> None:
    backup = Readable(tmp_path, output={"url": f"file://{tmp_path}/landed", "format": "Parquet"})
    rows = [{"topic": "clicks", "partition": 0, "offset": n, "value": b"{}"} for n in range(6)]
    backup.land(CLICKS, ("all", rows)).settle()
    (member,) = (each for tp, each in backup.ledger.state.members.items() if tp == CLICKS)
    made = plan(
        ranges=(SideRange(CLICKS, member.topic_id, OffsetRange(2, 6)),),
        others=(SideStart(OTHER, 7),),
    )
    store = MemoryStore()
    lane = Lane(store, GROUP, LANE)

    for _ in range(2):  # whoever runs it again finds them there
        side = side_group_of(group(), made, store, backup.group, lambda: NOW)

    assert side.spec.source.landed is not None
    state = lane.read()
    assert (state.checkpoint[CLICKS], state.checkpoint[OTHER]) == (2, 7)
    assert (state.holding, state.generation, state.epoch) == (LaneOwnership.YIELDED, 2, 1)
