"""Whatever was landed, merged and replayed: what is replaced has exactly the rows of the ranges.

And a range is no longer than what was chosen, but where rows of an object cannot be told apart.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from landfall.driver.decide.backfill import SliceChoice, chosen, covering, grown
from landfall.driver.decide.counting import Ranges
from landfall.driver.decide.landed_now import LandedNow
from landfall.errors import Stalled
from landfall.ledger import Record, Replace
from landfall.ledger.offsets import OffsetRange, TopicPartition
from landfall.ledger.segments import NAMED_KINDS, entries_of
from landfall.ledger.task_results import ObjectKind
from tests.support.ledger.landed_history import GROUP, History, tp

FOLDERS = st.lists(st.sampled_from(["a", "b", "-", ""]), min_size=1, max_size=6)


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Commits of three Kafka partitions, with merges, replays and lives that ended in between."""
    history = History().add(0, 1, 2)
    for partition in (0, 0, 1):
        history.commit(partition, draw(FOLDERS))
    steps: dict[str, Callable[[], object]] = {
        "commit": lambda: history.commit(draw(st.sampled_from([*history.at])), draw(FOLDERS)),
        "merge": lambda: _merge(draw, history),
        "replay": lambda: _replay(draw, history),
        "open": lambda: history.open(history.generation + 1),
        "enter again": lambda: _enter_again(draw, history),
    }
    often = ["commit"] * 5 + ["merge"] * 4 + ["replay", "open", "enter again"]
    for step in draw(st.lists(st.sampled_from(often), min_size=2, max_size=20)):
        steps[step]()
    history.applied()
    return history


def _merge(draw: st.DrawFn, history: History) -> None:
    folder = draw(st.sampled_from(["dt=a", "dt=b"]))
    history.applied()
    found = [key for key in sorted(history.now.objects) if f"/{folder}/" in key]
    if len(found) > 1:
        chosen = draw(st.lists(st.sampled_from(found), min_size=2, unique=True))
        history.merge(chosen, mixed=draw(st.integers(0, 4)) == 0)


def _replay(draw: st.DrawFn, history: History) -> None:
    history.applied()
    letters = [
        each.key
        for each in history.now.objects.values()
        if each.landed.kind is ObjectKind.DEAD_LETTERS and history.now.is_present(each)
    ]
    if letters:
        history.replay(draw(st.sampled_from(sorted(letters))), draw(st.sampled_from(["a", "b"])))


def _enter_again(draw: st.DrawFn, history: History) -> None:
    """A topic partition leaves, and enters behind all that it had: offsets tell its lives apart."""
    partition = draw(st.sampled_from(sorted(history.at)))
    at = history.at[partition]
    history.drop(partition)
    history.open(history.generation + 1).add(partition, start=at)


def choices(history: History) -> st.SearchStrategy[SliceChoice]:
    """Choices by time, by generation, by output partition and by objects."""
    times = [each.time for spans in history.now.ranges.values() for each in spans]
    keys = sorted(history.now.objects)
    a_time = st.sampled_from(times) if times else st.none()
    return st.one_of(
        st.builds(SliceChoice, since=a_time),
        st.builds(SliceChoice, until=a_time),
        st.builds(SliceChoice, generations=st.sampled_from([range(1, 2), range(2, 4)])),
        st.builds(SliceChoice, output_partitions=st.sampled_from([("dt=a",), ("dt=*",)])),
        st.builds(SliceChoice, keys=st.sampled_from(keys).map(lambda key: frozenset([key])))
        if keys
        else st.just(SliceChoice()),
    )


@given(histories(), st.data())
def test_what_is_replaced_has_exactly_the_rows_of_the_ranges(
    history: History, data: st.DataObject
) -> None:
    try:
        found = chosen(history.now, data.draw(choices(history)))
    except Stalled:
        return

    ranges = {slice_.topic_partition: slice_.offsets for slice_ in found.slices}
    inside = {row for row in history.rows if is_inside(row, ranges)}
    retired = {each.key for each in found.retire}
    cut = {each.key: each for each in found.cut}
    replaced = {row for row, key in history.rows.items() if key in retired}
    halves = {row for row, key in history.rows.items() if key in cut and is_inside(row, ranges)}
    assert replaced | halves == inside
    assert replaced == {row for row in replaced if is_inside(row, ranges)}
    concerned = (*found.retire, *found.cut)
    assert sum(found.rows_of(each) for each in concerned) == len(inside)
    for key, each in cut.items():
        rows = [row for row, where in history.rows.items() if where == key]
        assert 0 < found.rows_of(each) < len(rows) == each.landed.rows
        assert not each.is_mixed


def is_inside(row: tuple[int, int], ranges: Mapping[TopicPartition, OffsetRange]) -> bool:
    found = ranges.get(tp(row[0]))
    return found is not None and row[1] in found


@given(histories())
def test_a_range_reaches_from_the_first_chosen_slice_to_the_last_and_no_further(
    history: History,
) -> None:
    """An hour that is landed again is an hour, whatever its objects were merged with."""
    try:
        found = chosen(history.now, SliceChoice(output_partitions=("dt=a",)))
    except Stalled:
        return

    rows = {row for row, key in history.rows.items() if "/dt=a/" in key}
    grown = {each.topic_partition: each for each in found.growths}
    for slice_ in found.slices:
        partition = slice_.topic_partition
        spans = [
            each.piece.offsets
            for each in history.now.present(partition)
            if any(tp(number) == partition and at in each.piece.offsets for number, at in rows)
        ]
        if partition not in grown:
            wanted = OffsetRange(spans[0].start, spans[-1].end)
            assert slice_.offsets == wanted
        else:
            key = grown[partition].key
            assert history.now.objects[key].is_mixed
            assert grown[partition].grown == slice_.offsets != grown[partition].asked


@given(histories())
def test_a_range_is_of_whole_slices_that_adjoin(history: History) -> None:
    try:
        found = chosen(history.now, SliceChoice(output_partitions=("dt=a",)))
    except Stalled:
        return

    for slice_ in found.slices:
        landed = [
            each.piece.offsets
            for each in history.now.present(slice_.topic_partition)
            if each.piece.offsets.start in slice_.offsets
        ]
        assert landed[0].start == slice_.offsets.start
        assert landed[-1].end == slice_.offsets.end


@given(histories())
def test_without_a_choice_all_that_is_landed_is_chosen(history: History) -> None:
    try:
        found = chosen(history.now, SliceChoice())
    except Stalled:
        return

    expected = {
        each: landed[-1].piece.offsets.end
        for each in map(tp, range(3))
        if (landed := history.now.present(each))
    }
    assert ends(found.slices) == expected


def ends(slices: object) -> dict[TopicPartition, int]:
    return {each.topic_partition: each.offsets.end for each in slices}  # type: ignore[attr-defined]  # slices


@given(histories(), st.data())
def test_a_sample_is_of_slices_that_were_chosen_and_of_no_others(
    history: History, data: st.DataObject
) -> None:
    """It shrinks where a plan grows: nothing is cut for it, and no row of others is compared."""
    choice = data.draw(choices(history))
    try:
        sample = chosen(history.now, replace(choice, is_sample=True))
        whole = chosen(history.now, choice)
    except Stalled:
        return

    asked = {each.topic_partition: each.asked or each.grown for each in whole.growths}
    asked = {each.topic_partition: each.offsets for each in whole.slices} | asked
    assert not sample.growths
    assert all(not each.is_mixed for each in sample.cut)
    for slice_ in sample.slices:
        within = asked[slice_.topic_partition]
        assert within.start <= slice_.offsets.start < slice_.offsets.end <= within.end


def kept_of(history: History, ranges: Ranges) -> LandedNow:
    """What a reader of some ranges holds, which is given the records that an index says."""

    def is_about(record: Record) -> bool:
        if isinstance(record, NAMED_KINDS) and not isinstance(record, Replace):
            return True
        entries = ((TopicPartition(e.topic, e.partition), e) for e in entries_of(GROUP, record))
        return any(
            (own := ranges.get(each)) is not None and e.start < own.end and own.start < e.end
            for each, e in entries
        )

    found = LandedNow(GROUP, ranges)
    for record, listed in history.records:
        if is_about(record):
            is_wanted = not isinstance(record, Replace) or found.concerns(record)
            found.take(record, listed if is_wanted else None)
    found.reached(history.now.slot, history.now.applied_through)
    return found


@given(histories(), st.data())
def test_what_is_kept_of_some_ranges_is_all_that_has_rows_of_them(
    history: History, data: st.DataObject
) -> None:
    """A promotion holds what it replaces, and nothing else of what ever landed."""
    numbers = st.integers(0, 12)
    spans = st.tuples(numbers, numbers).filter(lambda each: each[0] < each[1])
    drawn = data.draw(st.dictionaries(st.integers(0, 2), spans, min_size=1))
    ranges = {tp(partition): OffsetRange(*span) for partition, span in drawn.items()}

    kept = kept_of(history, ranges)

    concerned = {
        key: each
        for key, each in history.now.objects.items()
        if any(
            (own := ranges.get(s.topic_partition)) is not None
            and s.offsets.start < own.end
            and own.start < s.offsets.end
            for s in each.slices
        )
    }
    assert {key: (o.decided, o.sections, o.is_mixed) for key, o in kept.objects.items()} == {
        key: (o.decided, o.sections, o.is_mixed) for key, o in concerned.items()
    }
    assert all(kept.objects[key].since <= each.since for key, each in concerned.items())
    assert not kept.missing
    assert not [*kept.waiting]
    assert (kept.lives, kept.specs) == (history.now.lives, history.now.specs)
    is_same = grown(history.now, ranges) == ranges
    assert (grown(kept, ranges) == ranges) is is_same


@given(histories(), st.data())
def test_what_is_promoted_is_found_by_its_ranges_alone(
    history: History, data: st.DataObject
) -> None:
    try:
        whole = chosen(history.now, data.draw(choices(history)))
    except Stalled:
        return

    ranges = {each.topic_partition: each.offsets for each in whole.slices}
    found = covering(kept_of(history, ranges), ranges)

    assert found.slices == whole.slices
    for some, all_ in ((found.retire, whole.retire), (found.cut, whole.cut)):
        assert [each.decided for each in some] == [each.decided for each in all_]
