from dataclasses import replace
from datetime import UTC, datetime

from landfall.api.spec import Kafka, StartAtOffsets, StartAtTime
from landfall.driver.decide.membership import changes, check_source, first_offsets, recreated_topics
from landfall.errors import Reason
from landfall.ledger import LaneOwnership, Member, State
from landfall.ledger.offsets import Checkpoint, OffsetRange, Slice, TopicPartition
from landfall.source import Topic, Watermarks

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def kafka(**more: object) -> Kafka:
    return Kafka.model_validate({"bootstrapServers": "k", "topicPattern": "a", **more})


def state(*, generation: int = 1, **members: tuple[int, str, int]) -> State:
    """Members as ``a0=(checkpoint, topic id, generation)``."""
    tps = {TopicPartition(name[0], int(name[1])): of for name, of in members.items()}
    return State(
        holding=LaneOwnership.HELD,
        generation=generation,
        checkpoint=Checkpoint({tp: at for tp, (at, _, _) in tps.items()}),
        members={tp: Member(topic_id, entered_at) for tp, (_, topic_id, entered_at) in tps.items()},
    )


def test_new_partitions_enter() -> None:
    found = changes(state(a0=(5, "id", 1)), [Topic("a", "id", 2)])

    assert (found.enter, found.leave, found.recreated) == ((A1,), (), {})


def test_a_recreated_topic_is_blocked() -> None:
    found = changes(state(a0=(5, "old", 1)), [Topic("a", "new", 1)])

    assert found.enter == ()
    assert found.recreated[A0].reason is Reason.TOPIC_RECREATED
    assert "raise spec.generation above 1" in str(found.recreated[A0])


def test_a_new_generation_lands_a_recreated_topic_from_its_start() -> None:
    found = changes(state(a0=(5, "old", 1), generation=2), [Topic("a", "new", 1)])

    assert (found.enter, found.leave, found.recreated) == ((A0,), (A0,), {})


def test_after_a_rollback_a_recreated_topic_that_left_does_not_enter() -> None:
    found = changes(replace(state(), retired={A0: 2}), [Topic("a", "new", 1)])

    assert found.enter == ()
    assert "raise spec.generation above 2" in str(found.recreated[A0])


def test_a_topic_with_another_id_than_the_ledgers_was_recreated() -> None:
    of = state(a0=(5, "id", 1), b0=(5, "id", 1), c0=(5, "id", 1))
    b0, c0, d0 = (TopicPartition(name, 0) for name in "bcd")

    found = recreated_topics(of, [A0, b0, c0, d0], {"a": "id", "b": "another", "d": "id"})

    assert {tp: str(error).split(": ", 2)[2] for tp, error in found.items()} == {
        b0: "id was id, is another",
        c0: "id was id, it is gone",
        d0: "id was unknown, is id",
    }


def test_latest_applies_only_to_topics_that_exist_when_the_ledger_begins() -> None:
    marks = {A0: Watermarks(3, 9)}

    assert first_offsets(kafka(startingOffsets="Latest"), [A0], marks, {}, is_first_open=True) == {
        A0: 9
    }
    assert first_offsets(kafka(startingOffsets="Latest"), [A0], marks, {}, is_first_open=False) == {
        A0: 3
    }


def test_starting_offsets() -> None:
    marks = {A0: Watermarks(3, 9), A1: Watermarks(0, 4)}
    by_time = kafka(
        startingOffsets=StartAtTime(timestamp=datetime(2026, 1, 1, tzinfo=UTC)).model_dump()
    )
    by_offset = kafka(startingOffsets=StartAtOffsets(offsets={"a": {"0": 7}}).model_dump())

    assert first_offsets(kafka(), [A0, A1], marks, {}, is_first_open=True) == {A0: 3, A1: 0}
    assert first_offsets(by_time, [A0, A1], marks, {A0: 5}, is_first_open=True) == {A0: 5, A1: 4}
    assert first_offsets(by_offset, [A0, A1], marks, {}, is_first_open=True) == {A0: 7, A1: 0}


def test_a_topic_partition_without_watermarks_does_not_enter_yet() -> None:
    assert first_offsets(kafka(), [A0], {}, {}, is_first_open=True) == {}


def test_expired_offsets_block_with_the_exact_range() -> None:
    blocked = check_source(state(a0=(5, "id", 1)), kafka(), {A0: Watermarks(8, 20)}, {}).blocked[A0]

    assert blocked.reason is Reason.DATA_LOSS
    assert "offsets [5, 8) expired" in str(blocked)


def test_expired_offsets_become_a_hole_when_the_spec_allows() -> None:
    found = check_source(
        state(a0=(5, "id", 1)), kafka(onDataLoss="SkipAndRecord"), {A0: Watermarks(8, 20)}, {}
    )

    assert (found.holes, found.blocked) == ((Slice(A0, OffsetRange(5, 8)),), {})


def test_a_truncated_log_blocks_whatever_the_spec_allows() -> None:
    blocked = check_source(
        state(a0=(5, "id", 1)), kafka(onDataLoss="SkipAndRecord"), {A0: Watermarks(0, 4)}, {}
    ).blocked[A0]

    assert blocked.reason is Reason.DATA_LOSS
    assert "ends at offset 4" in str(blocked)


def test_a_topic_deleted_with_unlanded_records_blocks() -> None:
    blocked = check_source(state(a0=(5, "id", 1)), kafka(), {}, {A0: 9}).blocked[A0]

    assert blocked.reason is Reason.TOPIC_MISSING
    assert "offsets [5, 9) were lost with it" in str(blocked)


def test_a_fully_landed_topic_may_be_deleted() -> None:
    assert check_source(state(a0=(5, "id", 1)), kafka(), {}, {A0: 5}).blocked == {}


def test_a_topic_named_in_the_spec_must_exist() -> None:
    listed = Kafka.model_validate({"bootstrapServers": "k", "topics": ["a"]})

    assert (
        check_source(state(a0=(5, "id", 1)), listed, {}, {}).blocked[A0].reason
        is Reason.TOPIC_MISSING
    )


def test_a_rollback_does_not_land_over_the_former_topics_objects() -> None:
    rolled_back = replace(state(a0=(5, "id", 2), generation=1), retired={A0: 1})

    blocked = check_source(rolled_back, kafka(), {A0: Watermarks(0, 9)}, {}).blocked[A0]

    assert blocked.reason is Reason.TOPIC_RECREATED
    assert "raise spec.generation above 1" in str(blocked)
