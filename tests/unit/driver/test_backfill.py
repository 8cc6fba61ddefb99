"""Which ranges a backfill lands again, and what it refuses."""

import pytest

from landfall.driver.decide.backfill import Backfill, SliceChoice, chosen, covering
from landfall.errors import LandfallError, Retry, Stalled
from landfall.ledger import Purpose
from landfall.ledger.offsets import OffsetRange
from tests.support.ledger.landed_history import TOPIC, History, tp

A, B = f"{TOPIC}/dt=a", f"{TOPIC}/dt=b"


def ranges(found: Backfill) -> dict[int, tuple[int, int]]:
    return {
        each.topic_partition.partition: (each.offsets.start, each.offsets.end)
        for each in found.slices
    }


def test_all_between_the_first_and_the_last_chosen_slice_is_included() -> None:
    history = History().add(0, 1)
    for folder in ("a", "b", "b", "a"):
        history.commit(0, [folder] * 2)
    history.commit(1, ["b"])

    found = chosen(history.applied(), SliceChoice(output_partitions=("dt=a",)))

    assert ranges(found) == {0: (0, 8)}
    assert len(found.retire) == 4


def test_slices_are_chosen_by_when_they_were_committed() -> None:
    history = History().add(0)
    for _ in range(3):
        history.commit(0, ["a"])
    landed = history.applied()
    _, second, _ = (each.time for each in landed.ranges[tp(0)])

    assert ranges(chosen(landed, SliceChoice(since=second))) == {0: (1, 3)}
    assert ranges(chosen(landed, SliceChoice(until=second))) == {0: (0, 1)}


def test_a_generation_is_that_of_the_objects_or_of_a_slice_without_any() -> None:
    history = History().add(0).commit(0, ["a"]).commit(0, ["-"])
    letters = f"_landfall/shop/dead-letters/{TOPIC}/1_0_{1:020}.parquet"
    history.applied()
    history.replay(letters, "a").commit(0, [""])  # nothing is landed by generation 2

    landed = history.applied()

    assert ranges(chosen(landed, SliceChoice(generations=range(1, 2)))) == {0: (0, 1)}
    assert ranges(chosen(landed, SliceChoice(generations=range(2, 3)))) == {0: (1, 3)}


def merged_across() -> tuple[History, str]:
    """Rows of both Kafka partitions in one merged object of ``b``, and one before it in ``a``."""
    history = History().add(0, 1)
    history.commit(0, ["a"]).commit(0, ["b"]).commit(0, ["b"]).commit(1, ["b"]).applied()
    return history, history.merge(key for key in history.now.objects if key.startswith(B))


def test_an_object_with_rows_on_both_sides_of_an_edge_is_cut_and_no_range_grows() -> None:
    history, merged = merged_across()

    found = chosen(history.applied(), SliceChoice(keys=frozenset([f"{A}/1_0_{0:020}.json"])))
    some = covering(history.now, {tp(1): OffsetRange(0, 1)})

    assert ranges(found) == {0: (0, 1)}
    assert ranges(some) == {1: (0, 1)}
    assert (some.retire, [each.key for each in some.cut]) == ((), [merged])
    assert [some.rows_of(each) for each in some.cut] == [1]
    assert not some.growths


def test_a_range_grows_to_all_rows_of_an_object_that_cannot_be_cut() -> None:
    history = History().add(0, 1)
    history.commit(0, ["b"]).commit(0, ["b"]).commit(1, ["b"]).applied()
    merged = history.merge([*history.now.objects], mixed=True)

    grown = covering(history.applied(), {tp(1): OffsetRange(0, 1)})

    assert ranges(grown) == {0: (0, 2), 1: (0, 1)}
    assert [each.key for each in grown.retire] == [merged]
    assert not grown.cut
    (growth,) = grown.growths
    assert str(growth) == (
        f"{TOPIC}/0: [0, 2), since {merged} has rows of it and of what was chosen, and was sorted "
        "or rid of duplicates when it was merged, so it cannot be cut"
    )


def test_a_sample_leaves_out_slices_that_share_an_object_with_others() -> None:
    history = History().add(0)
    for folder in ("a", "a", "b", "b"):
        history.commit(0, [folder])
    history.applied()
    keys = sorted(history.now.objects)
    history.merge(keys[:3], mixed=True)
    landed = history.applied()
    times = [each.time for each in landed.ranges[tp(0)]]

    sample = chosen(landed, SliceChoice(since=times[2], is_sample=True))

    assert ranges(sample) == {0: (3, 4)}
    assert ranges(chosen(landed, SliceChoice(since=times[2]))) == {0: (0, 4)}
    assert "there is no sample of these rows alone" in str(
        refusal(history, SliceChoice(until=times[1], is_sample=True))
    )


def test_what_is_between_chosen_slices_is_counted() -> None:
    history = History().add(0).commit(0, ["a"]).commit(0, ["b"] * 3).commit(0, ["a"])

    assert chosen(history.applied(), SliceChoice(output_partitions=("dt=a",))).between == 3


def test_one_hour_of_a_compacted_history_is_one_hour() -> None:
    """Each full hour has a COMMIT with rows of both, and the hours before it are merged."""
    history, hours = History().add(0), 20
    for hour in range(hours):
        for _ in range(3):
            history.commit(0, [f"{hour:02}"] * 10)
        history.commit(0, [f"{hour:02}"] * 5 + [f"{hour + 1:02}"] * 5)
    history.applied()
    for hour in range(hours):
        of_hour = [key for key in history.now.objects if f"/dt={hour:02}/" in key]
        history.merge(of_hour)
        history.applied()

    found = chosen(history.now, SliceChoice(output_partitions=("dt=10",)))

    assert ranges(found) == {0: (390, 440)}
    assert [each.key.split("/")[1] for each in found.cut] == ["dt=09", "dt=11"]
    assert [each.key.split("/")[1] for each in found.retire] == ["dt=10"]
    assert sum(found.rows_of(each) for each in (*found.retire, *found.cut)) == 50


def test_replayed_dead_letters_count_no_more_and_what_became_of_them_does() -> None:
    history = History().add(0).commit(0, ["a", "-"]).applied()
    (letters,) = (each for each in history.objects if each.startswith("_landfall/"))
    replayed = History().add(0).commit(0, ["a", "-"])
    replayed.applied()
    replayed.replay(letters, "b")

    found = chosen(replayed.applied(), SliceChoice())

    assert [each.key for each in found.retire] == [
        f"{A}/1_0_{0:020}.json",
        f"{B}/2_0_{0:020}.json",
    ]


def landed(history: History) -> list[tuple[int, int, int, int]]:
    """Start, end, generation and dead letters of each slice that is landed now."""
    found = history.applied().present(tp(0))
    return [
        (s.piece.offsets.start, s.piece.offsets.end, s.generation, s.landed.dead_lettered)
        for s in found
    ]


def test_what_a_backfill_landed_again_is_landed_by_it_until_that_is_undone() -> None:
    history = History().add(0).commit(0, ["a", "-"]).commit(0, ["a"] * 2).commit(0, ["a"])
    before = landed(history)
    objects = sorted(history.now.objects)[:-1]
    other = History().open(7).add(0).commit(0, ["b"] * 4)
    slot = history.backfill(other, objects)
    after = landed(history)

    assert before == [(0, 2, 1, 1), (2, 4, 1, 0), (4, 5, 1, 0)]
    assert after == [(0, 4, 7, 0), (4, 5, 1, 0)]
    assert ranges(chosen(history.now, SliceChoice(generations=range(7, 8)))) == {0: (0, 4)}
    grown = covering(history.now, {tp(0): OffsetRange(1, 2)})
    assert ranges(grown) == {0: (0, 4)}

    undone = history.undo(slot)
    assert landed(history) == before
    found = covering(history.now, {tp(0): OffsetRange(0, 4)}).retire
    assert {(each.purpose, each.decided.slot, each.since < slot) for each in found} == {
        (None, undone, True)
    }

    history.undo(undone)
    assert landed(history) == after


def test_what_is_not_visible_yet_is_left_out() -> None:
    history = History().add(0).commit(0, ["a"]).commit(0, ["a"])

    assert ranges(chosen(history.now, SliceChoice())) == {0: (0, 1)}


def test_an_earlier_life_of_a_topic_partition_stays_as_it_is() -> None:
    history = History().add(0).commit(0, ["a"] * 3)
    history.drop(0).open(2).add(0, topic_id="another").commit(0, ["a"] * 2)

    found = chosen(history.applied(), SliceChoice())

    assert ranges(found) == {0: (0, 2)}
    assert [each.key for each in found.retire] == [f"{A}/2_0_{0:020}.json"]


def refusal(history: History, choice: SliceChoice = SliceChoice()) -> LandfallError:  # noqa: B008  # frozen
    with pytest.raises(LandfallError) as refused:
        chosen(history.now, choice)
    return refused.value


def test_a_merge_of_two_lives_is_refused() -> None:
    history = History().add(0).commit(0, ["a"])
    history.drop(0).open(2).add(0, start=1).commit(0, ["a"]).applied()
    history.merge(sorted(history.now.objects))
    history.applied()

    assert "left the lane and entered again" in str(refusal(history))


@pytest.mark.parametrize("is_both", [False, True])
def test_a_life_is_landed_again_though_an_earlier_one_was_merged_meanwhile(
    *, is_both: bool
) -> None:
    history = History().add(0).commit(0, ["a"]).commit(0, ["a"])
    history.drop(0).open(2).add(0, topic_id="another")
    history.commit(0, ["a"]).commit(0, ["a"]).applied()
    former, own = (
        [key for key in sorted(history.now.objects) if key.startswith(f"{A}/{generation}_")]
        for generation in (1, 2)
    )
    merged = history.merge_apart(former, own) if is_both else (history.merge(former),)
    history.applied()

    found = chosen(history.now, SliceChoice())

    assert ranges(found) == {0: (0, 2)}
    assert [each.key for each in found.retire] == ([merged[1]] if is_both else own)


def test_a_hole_is_not_landed_again() -> None:
    history = History().add(0).commit(0, ["a"]).hole(0, 2).commit(0, ["a"])
    history.applied()

    assert "skipped [1, 3)" in str(refusal(history))


def test_a_replacement_that_is_not_applied_is_waited_for() -> None:
    history = History().add(0).commit(0, ["a"]).commit(0, ["a"])
    history.applied()
    history.merge(sorted(history.now.objects))

    assert isinstance(refusal(history), Retry)


def test_a_replay_that_is_not_visible_is_waited_for() -> None:
    history = History().add(0).commit(0, ["-"])
    history.applied()
    history.replay(next(iter(history.now.objects)), "a")

    assert isinstance(refusal(history), Retry)


@pytest.mark.parametrize(
    ("choice", "why"),
    [
        (SliceChoice(topics=frozenset(["orders"])), "orders: the group lands no such topic"),
        (SliceChoice(keys=frozenset(["clicks/dt=a/x.json"])), "no such object counts now"),
        (SliceChoice(generations=range(7, 8)), "no slice is chosen"),
    ],
)
def test_a_choice_of_what_is_not_there_is_refused(choice: SliceChoice, why: str) -> None:
    history = History().add(0).commit(0, ["a"])
    history.applied()

    assert why in str(refusal(history, choice))


def test_a_merge_keeps_its_rows_and_its_purpose() -> None:
    history = History().add(0).commit(0, ["a"]).commit(0, ["a"])
    history.applied()
    key = history.merge(sorted(history.now.objects))

    (merged,) = chosen(history.applied(), SliceChoice()).retire

    assert (merged.key, merged.purpose) == (key, Purpose.COMPACT)
    assert merged.decided.slot == history.now.slot - 1
    assert [(s.first_offset, s.last_offset) for s in merged.sections] == [(0, 0), (1, 1)]


def test_files_are_not_landed_again() -> None:
    history = History().add(0).commit(0, ["a"])
    landed = history.applied()
    landed.members[tp(0)] = type(landed.members[tp(0)])(tp(0), "id", 0, feed=True)

    with pytest.raises(Stalled, match="only topics of Kafka"):
        chosen(landed, SliceChoice())
