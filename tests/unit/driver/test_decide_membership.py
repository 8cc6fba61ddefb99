from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from landfall.api.spec import Source
from landfall.errors import Reason, Stalled
from landfall.ledger import LaneOwnership, Member, State
from landfall.ledger.offsets import Checkpoint, OffsetRange, Slice, TopicPartition
from landfall.source import FoundTopics, Topic, Watermarks
from landfall.source.membership import (
    Entering,
    absent,
    changes,
    check_source,
    first_offsets,
    latest_since,
    recreated_topics,
    starting_time,
    truncated,
)

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def kafka(**more: object) -> Source:
    return Source.model_validate(
        {"kafka": {"bootstrapServers": "k:9092", "topicPattern": "a", **more}}
    )


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


def test_what_a_decision_dropped_stays_out() -> None:
    assert changes(replace(state(), excluded=frozenset({A0})), [Topic("a", "id", 2)]).enter == (A1,)


def test_a_recreated_topic_is_blocked() -> None:
    found = changes(state(a0=(5, "old", 1)), [Topic("a", "new", 1)])

    assert found.enter == ()
    assert found.recreated[A0].reason is Reason.TOPIC_RECREATED
    assert "raise spec.generation above 1" in str(found.recreated[A0])


def test_a_new_generation_lands_a_recreated_topic_from_its_start() -> None:
    found = changes(state(a0=(5, "old", 1), generation=2), [Topic("a", "new", 1)])

    assert (found.enter, found.leave, found.recreated) == ((A0,), (A0,), {})


def test_what_the_recreated_topic_does_not_have_leaves_too() -> None:
    of, now = state(a0=(5, "old", 1), a1=(5, "old", 1)), [Topic("a", "new", 1)]

    assert changes(replace(of, generation=2), now).leave == (A0, A1)
    assert changes(of, now).recreated.keys() == {A0, A1}


def test_after_a_rollback_a_recreated_topic_that_left_does_not_enter() -> None:
    found = changes(replace(state(), retired={A0: 2}), [Topic("a", "new", 1)])

    assert found.enter == ()
    assert "raise spec.generation above 2" in str(found.recreated[A0])


def test_a_topic_with_another_id_than_the_ledgers_was_recreated() -> None:
    of = state(a0=(5, "id", 1), b0=(5, "id", 1), c0=(5, "id", 1))
    b0, c0, d0 = (TopicPartition(name, 0) for name in "bcd")
    now = (Topic("a", "id", 1), Topic("b", "another", 1), Topic("d", "id", 1))

    found = recreated_topics(of, [A0, b0, c0, d0], FoundTopics(now, {}))

    assert {tp: str(error).split(": ", 2)[2] for tp, error in found.items()} == {
        b0: "id was id, is another",
        c0: "id was id, it is gone",
        d0: "id was unknown, is id",
    }


def test_what_was_read_of_a_denied_topic_is_not_certainly_the_ledgers() -> None:
    denied = Stalled(Reason.SOURCE_DENIED, "a: no ACL")

    found = recreated_topics(state(a0=(5, "id", 1)), [A0], FoundTopics((), {"a": denied}))

    assert found == {A0: denied}


def test_a_denied_topic_of_the_spec_is_not_said_to_be_missing() -> None:
    denied = Stalled(Reason.SOURCE_DENIED, "a: no ACL")
    spec = kafka(startingOffsets={"offsets": {"a": {"0": 1}}})

    assert absent(spec, FoundTopics((), {"a": denied}), state()) == (denied,)
    assert absent(spec, FoundTopics((), {"a": denied}), state(a0=(5, "id", 1))) == ()


def starts(
    of: Source,
    at: State,
    *,
    times: Mapping[TopicPartition, int] | None = None,
    created: Collection[TopicPartition] = (),
) -> Mapping[TopicPartition, int]:
    marks = {A0: Watermarks(3, 9), A1: Watermarks(0, 4)}
    return first_offsets(of, at, Entering(marks, times or {}, created)).offsets


AT_NOON = kafka(startingOffsets={"timestamp": "2026-01-01T12:00:00Z"})
BY_OFFSET = kafka(startingOffsets={"offsets": {"a": {"0": 7}}})
LATEST = kafka(startingOffsets="Latest")


@pytest.mark.parametrize("at", [state(), state(b0=(5, "id", 1))], ids=["first", "later"])
def test_explicit_offsets_and_times_hold_for_every_topic_partition_new_to_the_ledger(
    at: State,
) -> None:
    assert starts(kafka(), at) == {A0: 3, A1: 0}
    assert starts(BY_OFFSET, at) == {A0: 7, A1: 0}
    assert starts(AT_NOON, at, times={A0: 5, A1: 4}) == {A0: 5, A1: 4}
    assert starts(AT_NOON, at, times={A0: 5, A1: 4}, created=[A0]) == {A0: 5, A1: 4}


def test_a_topic_partition_created_again_starts_at_its_log_start_whatever_the_spec_says() -> None:
    left = replace(state(), retired={A0: 0, A1: 0})

    for spec in (LATEST, BY_OFFSET, AT_NOON):
        assert starts(spec, left, times={A0: 5, A1: 4}) == {A0: 3, A1: 0}


def test_latest_is_the_end_when_found_but_the_start_of_what_was_created_since() -> None:
    assert starts(LATEST, state(), created=[A1]) == {A0: 9, A1: 0}


def test_latest_begins_where_an_earlier_driver_last_looked() -> None:
    assert starts(LATEST, state(b0=(5, "id", 1)), times={A0: 5}) == {A0: 5, A1: 4}


def test_the_time_from_which_latest_lands_is_before_the_last_look() -> None:
    looked = replace(state(), looked_at="2026-01-01T12:00:00+00:00")

    assert latest_since(LATEST, state()) is None
    assert latest_since(LATEST, looked) == datetime(2026, 1, 1, 11, 54, 30, tzinfo=UTC)
    assert starting_time(LATEST, latest_since(LATEST, looked)) == latest_since(LATEST, looked)
    assert starting_time(kafka(), latest_since(LATEST, looked)) is None


def test_without_the_offset_of_its_time_a_topic_partition_does_not_enter_yet() -> None:
    assert starts(AT_NOON, state(), times={A0: 5}) == {A0: 5}


def test_an_offset_beyond_the_end_is_refused_until_the_log_reaches_it() -> None:
    beyond = kafka(startingOffsets={"offsets": {"a": {"0": 900_000}}})
    found = first_offsets(beyond, state(), Entering({A0: Watermarks(3, 9)}, {}, ()))

    assert found.offsets == {}
    assert found.refused[A0].reason is Reason.SPEC_INVALID
    assert str(found.refused[A0]).startswith(
        "a/0: source.kafka.startingOffsets names offset 900000, but the log ends at 9"
    )


def there_is(name: str) -> FoundTopics:
    return FoundTopics((Topic(name, "id", 2),), {})


def test_starting_offsets_of_what_is_not_there_are_reported() -> None:
    beyond = kafka(startingOffsets={"offsets": {"a": {"0": 1, "2": 1, "9": 1}, "b": {"0": 1}}})

    assert [str(error) for error in absent(beyond, there_is("a"), state())] == [
        "a/2: source.kafka.startingOffsets names it, but a has 2 Kafka partitions, numbered from 0",
        "a/9: source.kafka.startingOffsets names it, but a has 2 Kafka partitions, numbered from 0",
        "b/0: source.kafka.startingOffsets names it, but there is no topic b that this group lands",
    ]
    assert not absent(BY_OFFSET, there_is("c"), state(a0=(5, "id", 1)))


def test_expired_offsets_block_with_the_exact_range() -> None:
    found = check_source(state(a0=(5, "id", 1)), kafka(), {A0: Watermarks(8, 20)}).blocked[A0]

    assert found.reason is Reason.DATA_LOSS
    assert "offsets [5, 8) expired" in str(found)


def test_what_another_group_began_after_is_skipped_by_a_decision_alone() -> None:
    landed = Source.model_validate(
        {"landed": {"group": "backup", "url": "s3://backup/raw", "topics": ["a"]}}
    )

    found = check_source(state(a0=(5, "id", 1)), landed, {A0: Watermarks(8, 20)}).blocked[A0]

    assert str(found) == (
        "a/0: offsets [5, 8) were not landed before backup began again after them; "
        "`landfall skip` records the loss and continues after them"
    )


def test_expired_offsets_become_a_hole_when_the_spec_allows() -> None:
    found = check_source(
        state(a0=(5, "id", 1)), kafka(onDataLoss="SkipAndRecord"), {A0: Watermarks(8, 20)}
    )

    assert (found.holes, found.blocked) == ((Slice(A0, OffsetRange(5, 8)),), {})


def test_a_truncated_log_blocks_in_the_ledger_whatever_the_spec_allows() -> None:
    skipping = kafka(onDataLoss="SkipAndRecord")
    found = check_source(state(a0=(5, "id", 1)), skipping, {A0: Watermarks(0, 4)})

    assert found.blocked[A0].reason is Reason.DATA_LOSS
    assert "truncated at offset 4" in str(found.blocked[A0])
    assert [(b.topic_partition, b.offsets) for b in found.truncated] == [(A0, OffsetRange(4, 5))]


def test_a_truncated_log_is_blocked_once_and_not_after_it_was_accepted() -> None:
    at, marks = state(a0=(5, "id", 1)), {A0: Watermarks(0, 4)}

    known = replace(at, blocked={A0: truncated(A0, 4, 5)})
    assert not check_source(known, kafka(), marks).truncated
    assert check_source(replace(at, accepted_truncation={A0: 5}), kafka(), marks).blocked == {}
    assert A0 in check_source(replace(at, accepted_truncation={A0: 3}), kafka(), marks).blocked


def test_topics_without_an_id_are_refused() -> None:
    found = changes(state(b0=(5, "id", 1)), [Topic("a", "", 1), Topic("b", "", 1)])

    assert (found.enter, found.leave) == ((), ())
    assert [str(error)[:4] for error in found.recreated.values()] == ["a/0:", "b/0:"]
    assert "Kafka 2.8" in str(found.recreated[A0])


def test_a_rollback_does_not_land_over_the_former_topics_objects() -> None:
    rolled_back = replace(state(a0=(5, "id", 2), generation=1), retired={A0: 1})

    found = check_source(rolled_back, kafka(), {A0: Watermarks(0, 9)}).blocked[A0]

    assert found.reason is Reason.TOPIC_RECREATED
    assert "raise spec.generation above 1" in str(found)
