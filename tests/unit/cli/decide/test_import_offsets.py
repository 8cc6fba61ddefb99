"""Which topic partitions begin where another consumer has stopped."""

from dataclasses import replace

from landfall.cli.decide.import_offsets import new_entries
from landfall.ledger import Entry, Member, State
from landfall.ledger.offsets import TopicPartition
from landfall.source import Topic

A0, A1, A2, B0 = (TopicPartition(*name) for name in (("a", 0), ("a", 1), ("a", 2), ("b", 0)))
STARTS = {A0: 10, A1: 11, A2: 12, B0: 13}
TOPICS = (Topic("a", "id-a", 3), Topic("b", "id-b", 1))


def test_what_is_not_in_the_lane_enters_where_the_consumer_stopped() -> None:
    entries = new_entries(State(generation=1), STARTS, TOPICS)

    assert entries == (
        Entry(A0, "id-a", 10),
        Entry(A1, "id-a", 11),
        Entry(A2, "id-a", 12),
        Entry(B0, "id-b", 13),
    )


def test_what_is_in_the_lane_or_was_dropped_or_needs_a_generation_does_not_enter() -> None:
    state = replace(
        State(generation=1),
        members={A0: Member("id-a", 1)},
        excluded=frozenset({A1}),
        retired={A2: 1},
    )

    assert new_entries(state, STARTS, TOPICS) == (Entry(B0, "id-b", 13),)
    assert new_entries(replace(state, generation=2), STARTS, TOPICS) == (
        Entry(A2, "id-a", 12),
        Entry(B0, "id-b", 13),
    )


def test_a_topic_without_an_id_does_not_enter() -> None:
    assert new_entries(State(generation=1), {B0: 13}, (Topic("b", "", 1),)) == ()
