"""Members whose topic was deleted: what is landed may go, what is lost stays known."""

from dataclasses import replace

import pytest

from landfall.api.spec import Source
from landfall.driver.decide.deleted import Deleted, settle, stalled
from landfall.errors import Reason
from landfall.ledger import Blocked, LaneOwnership, Member, State
from landfall.ledger.offsets import Checkpoint, OffsetRange, Slice, TopicPartition

A0 = TopicPartition("a", 0)
STATE = State(
    holding=LaneOwnership.HELD,
    generation=1,
    checkpoint=Checkpoint({A0: 5}),
    members={A0: Member("id", 1)},
)


def kafka(**more: object) -> Source:
    return Source.model_validate(
        {"kafka": {"bootstrapServers": "k:9092", "topicPattern": "a", **more}}
    )


STALL, SKIP = kafka(), kafka(onDataLoss="SkipAndRecord")
LISTED = Source.model_validate({"kafka": {"bootstrapServers": "k:9092", "topics": ["a"]}})


def blocked_until(end: int) -> State:
    entry = Blocked(A0, Reason.TOPIC_MISSING, "gone", OffsetRange(5, end))
    return replace(STATE, blocked={A0: entry})


@pytest.mark.parametrize("spec", [STALL, SKIP])
def test_a_topic_that_is_landed_to_its_last_known_end_leaves(spec: Source) -> None:
    reason = "topic deleted; landed to its last known end, offset 5"

    assert stalled(STATE, spec, [A0], {A0: 5}) == {}
    assert settle(STATE, spec, [A0], {A0: 5}) == Deleted((), ((A0, reason),), ())


def test_lost_records_block_in_the_ledger() -> None:
    (entry,) = settle(STATE, STALL, [A0], {A0: 9}).blocks

    assert (entry.topic_partition, entry.reason) == (A0, Reason.TOPIC_MISSING)
    assert entry.offsets == OffsetRange(5, 9)
    assert "offsets [5, 9) were lost with it" in entry.message
    assert str(stalled(STATE, STALL, [A0], {A0: 9})[A0]) == entry.message


def test_lost_records_are_skipped_and_recorded_when_the_spec_says_so() -> None:
    hole = (Slice(A0, OffsetRange(5, 9)), "topic deleted before it was landed")

    assert settle(STATE, SKIP, [A0], {A0: 9}) == Deleted(
        (hole,), ((A0, "topic deleted before it was landed"),), ()
    )


def test_a_driver_that_never_saw_the_log_says_that_its_end_is_not_known() -> None:
    (entry,) = settle(STATE, STALL, [A0], {}).blocks

    assert entry.offsets == OffsetRange(5, 5)
    assert "landed up to offset 5, and whether there was more is not known" in entry.message
    assert settle(STATE, SKIP, [A0], {}).drops == (
        (A0, "topic deleted; landed up to offset 5, its end is not known"),
    )


def test_a_block_keeps_the_lost_range_for_later_drivers() -> None:
    assert settle(blocked_until(9), STALL, [A0], {}) == Deleted((), (), ())
    assert settle(blocked_until(9), SKIP, [A0], {}).holes[0][0] == Slice(A0, OffsetRange(5, 9))


def test_a_topic_named_in_the_spec_must_exist() -> None:
    assert stalled(STATE, LISTED, [A0], {A0: 5})[A0].reason is Reason.TOPIC_MISSING
    assert settle(STATE, LISTED, [A0], {A0: 5}) == Deleted((), (), ())
