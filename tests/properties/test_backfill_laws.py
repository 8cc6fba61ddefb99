"""Whatever was landed, merged and replayed: what retires has exactly the rows of the ranges."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from landfall.driver.decide.backfill import Choice, chosen
from landfall.errors import Stalled
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.task_results import ObjectKind
from tests.support.landed_history import History, tp

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
        history.merge(draw(st.lists(st.sampled_from(found), min_size=2, unique=True)))


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


def choices(history: History) -> st.SearchStrategy[Choice]:
    """Choices by time, by generation, by output partition and by objects."""
    times = [each.time for spans in history.now.ranges.values() for each in spans]
    keys = sorted(history.now.objects)
    a_time = st.sampled_from(times) if times else st.none()
    return st.one_of(
        st.builds(Choice, since=a_time),
        st.builds(Choice, until=a_time),
        st.builds(Choice, generations=st.sampled_from([range(1, 2), range(2, 4)])),
        st.builds(Choice, output_partitions=st.sampled_from([("dt=a",), ("dt=*",)])),
        st.builds(Choice, keys=st.sampled_from(keys).map(lambda key: frozenset([key])))
        if keys
        else st.just(Choice()),
    )


@given(histories(), st.data())
def test_what_retires_has_exactly_the_rows_of_the_ranges(
    history: History, data: st.DataObject
) -> None:
    try:
        found = chosen(history.now, data.draw(choices(history)))
    except Stalled:
        return

    ranges = {slice_.topic_partition: slice_.offsets for slice_ in found.slices}
    retired = {each.key for each in found.retire}
    inside = {row for row in history.rows if tp(row[0]) in ranges and row[1] in ranges[tp(row[0])]}
    assert {row for row, key in history.rows.items() if key in retired} == inside
    assert sum(each.landed.rows for each in found.retire) == len(inside)


@given(histories())
def test_a_range_is_of_whole_slices_that_adjoin(history: History) -> None:
    try:
        found = chosen(history.now, Choice(output_partitions=("dt=a",)))
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
        found = chosen(history.now, Choice())
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
