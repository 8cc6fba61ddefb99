"""What counts is one thing: for a backfill's plan, and for who reads a group as a log or a backup.

Random ledgers of COMMITs, merges, backfills of random ranges, undoings of these and of undoings,
records that are not applied, and topic partitions that enter again.
"""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from landfall.landed import pieces
from landfall.landed.backup import first_stretch
from landfall.landed.pieces import Counting
from landfall.ledger import Commit, Hole, Replace, Replay
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.replace.replacement_lists import ReplacementList
from landfall.ledger.segments import entries_of
from tests.support.examples import share
from tests.support.ledger.landed_history import GROUP, History, tp

FOLDERS = st.lists(st.sampled_from(["a", "b", "-", ""]), min_size=1, max_size=6)
PARTITIONS = (0, 1)


@st.composite
def histories(draw: st.DrawFn) -> History:
    history = History().add(*PARTITIONS)
    steps: dict[str, Callable[[], object]] = {
        "commit": lambda: history.commit(draw(st.sampled_from([*history.at])), draw(FOLDERS)),
        "hole": lambda: history.hole(draw(st.sampled_from([*history.at])), 2),
        "merge": lambda: _merge(draw, history),
        "backfill": lambda: _backfill(draw, history),
        "undo": lambda: _undo(draw, history),
        "open": lambda: history.open(history.generation + 1),
        "enter again": lambda: _enter_again(draw, history),
    }
    often = ["commit"] * 4 + ["merge"] * 2 + ["backfill"] * 3 + ["undo"] * 3
    often += ["open", "hole", "enter again"]
    for step in draw(st.lists(st.sampled_from(often), min_size=3, max_size=16)):
        steps[step]()
    if draw(st.booleans()):
        history.applied()
    return history


def _merge(draw: st.DrawFn, history: History) -> None:
    history.applied()
    folder = draw(st.sampled_from(["dt=a", "dt=b"]))
    found = [key for key in sorted(history.now.objects) if f"/{folder}/" in key]
    present = [key for key in found if history.now.is_present(history.now.objects[key])]
    if len(present) > 1:
        history.merge(draw(st.lists(st.sampled_from(present), min_size=2, unique=True)))


def _backfill(draw: st.DrawFn, history: History) -> None:
    """All of a topic partition that is landed is landed again, in slices of other lengths."""
    now, partition = history.applied(), draw(st.sampled_from(PARTITIONS))
    landed, start = now.present(tp(partition)), history.at[partition]
    holes = any(slot > now.lives[tp(partition)] for slot, _ in now.holes[tp(partition)])
    keys = [key for key, each in now.objects.items()
            if tp(partition) in {s.topic_partition for s in each.slices}]  # fmt: skip
    alone = all(len(now.objects[key].lives) == 1 for key in keys)
    if not landed or holes or not alone:
        return
    keys = [key for key in keys if now.is_present(now.objects[key])]
    start = landed[0].piece.offsets.start
    side = History().open(history.generation + 1).add(partition, start=start)
    while side.at[partition] < history.at[partition]:
        left = history.at[partition] - side.at[partition]
        side.commit(partition, draw(FOLDERS)[:left])
    if keys:
        history.open(history.generation + 1)
        history.backfill(side, keys)


def _undo(draw: st.DrawFn, history: History) -> None:
    """Undo the last backfill, or its undoing, if what it put there is all there still."""
    now = history.applied()
    possible = [
        slot
        for slot, (record, listed) in history.replaces.items()
        if listed.objects
        and all(new.landed.upload.key in now.objects for new in listed.objects)
        and all(s.topic_partition in now.lives for s in record.slices)
        and all(now.is_present(now.objects[new.landed.upload.key]) for new in listed.objects)
        and all(_is_as_it_was(history, slot, s) for s in record.slices)
    ]
    if possible:
        history.undo(max(possible))


def _is_as_it_was(history: History, slot: int, slice_: Slice) -> bool:
    later = [r for s, (r, _) in history.replaces.items() if s > slot]
    return not any(slice_.topic_partition == s.topic_partition for r in later for s in r.slices)


def _enter_again(draw: st.DrawFn, history: History) -> None:
    partition = draw(st.sampled_from(sorted(history.at)))
    at = history.at[partition]
    history.drop(partition)
    history.open(history.generation + 1).add(partition, start=at)


def counted(history: History, of: TopicPartition, offsets: OffsetRange) -> Counting:
    """What a reader finds, given the records that a segment's index names for these offsets."""
    began, through = history.now.lives[of], history.now.applied_through
    records, lists = [], dict[int, ReplacementList]()
    for record, listed in history.records:
        seq = record.header.seq
        about = (e for e in entries_of(GROUP, record) if TopicPartition(e.topic, e.partition) == of)
        if seq <= began or not isinstance(record, Commit | Hole | Replay | Replace):
            continue
        if any(e.start < offsets.end and offsets.start < e.end for e in about):
            records.append(record)
            if listed is not None and seq <= through:
                lists[seq] = listed
    return pieces.counting(GROUP, Slice(of, offsets), records, lists)


def check(history: History, of: TopicPartition, offsets: OffsetRange) -> None:
    now, found = history.now, counted(history, of, offsets)
    within = [each for each in now.present(of) if _overlap(each.piece.offsets, offsets)]
    applied = [each for each in found.ranges if each.slot <= now.applied_through]
    assert sorted((r.slot, r.offsets, r.landed.filtered) for r in applied
                  if _overlap(r.offsets, offsets)) == sorted(
        (r.slot, r.piece.offsets, r.landed.filtered) for r in within
    )  # fmt: skip
    expected = {
        key
        for key, each in now.objects.items()
        if (of, now.lives[of]) in each.lives
        and any(s.topic_partition == of and _overlap(s.offsets, offsets) for s in each.slices)
    }
    visible = [p for p in found.pieces_with(offsets) if p.slot <= now.applied_through]
    assert {piece.key for piece in visible} == expected
    _check_backup_and_reader_agree(found, offsets)


def _check_backup_and_reader_agree(found: Counting, offsets: OffsetRange) -> None:
    stretch, why = first_stretch(
        offsets, found.found, lambda at: pieces.not_landed(GROUP, found.slice_.topic_partition, at)
    )
    held = pieces.held(found)
    if why is None:
        assert held.end >= stretch.end
        assert held.why is None or held.end == stretch.end
    else:
        assert held.end == offsets.start
        assert held.why is not None


def _overlap(a: OffsetRange, b: OffsetRange) -> bool:
    return a.start < b.end and b.start < a.end


@settings(max_examples=share(200), deadline=None)
@given(histories(), st.data())
def test_the_plan_of_a_backfill_and_the_reader_of_a_log_count_the_same(
    history: History, data: st.DataObject
) -> None:
    for partition in PARTITIONS:
        end = history.at[partition]
        if end:
            start = data.draw(st.integers(0, end - 1))
            check(
                history, tp(partition), OffsetRange(start, data.draw(st.integers(start + 1, end)))
            )


def _corrected() -> History:
    """Eight of ten records were landed; a backfill has landed all ten."""
    history = History().add(0).commit(0, ["a"] * 8 + ["", ""])
    side = History().open(2).add(0).commit(0, ["a"] * 10)
    history.applied()
    history.open(2).backfill(side, [*history.now.objects])
    history.applied()
    return history


def test_a_range_that_was_corrected_can_be_read() -> None:
    found = counted(_corrected(), tp(0), OffsetRange(0, 10))

    held = pieces.held(found)
    assert (held.end, held.why, [piece.landed.rows for piece in held.pieces]) == (10, None, [10])


def test_a_range_whose_correction_was_undone_cannot_and_can_after_that_is_undone() -> None:
    history = _corrected()
    undone = history.undo(max(history.replaces))
    history.applied()
    wrong = pieces.held(counted(history, tp(0), OffsetRange(0, 10)))
    history.undo(undone)
    history.applied()
    right = pieces.held(counted(history, tp(0), OffsetRange(0, 10)))

    assert "shop has left out 2 of its records" in str(wrong.why)
    assert (right.end, right.why) == (10, None)
    assert [piece.landed.rows for piece in right.pieces] == [10]


def test_ranges_must_be_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    def appended(self: Counting, _: Replace, again: list[pieces.CountingRange]) -> list[object]:
        self.ranges += again
        return []

    monkeypatch.setattr(Counting, "_swapped", appended)

    with pytest.raises(AssertionError):
        check(_corrected(), tp(0), OffsetRange(0, 10))


def _merged_after_a_replay() -> tuple[History, str]:
    """Record 2 was a dead letter; a replay has landed it, and its object was merged."""
    history = History().add(0).commit(0, ["a", "a", "-", "a"]).commit(0, ["a"] * 2)
    letters = next(key for key in history.applied().objects if "dead-letters" in key)
    history.replay(letters, "a").applied()
    history.merge([key for key in history.now.objects if "/dt=a/" in key])
    history.applied()
    return history, letters


@pytest.mark.parametrize(
    ("offsets", "rows"),
    [
        ((0, 6), ((0, 3), (3, 5))),
        ((0, 3), ((0, 3),)),
        ((2, 3), ((0, 3),)),
        ((3, 6), ((0, 3), (3, 5))),
        ((4, 6), ((3, 5),)),
    ],
)
def test_a_record_that_was_replayed_is_read_once_also_after_a_merge(
    offsets: tuple[int, int], rows: tuple[tuple[int, int], ...]
) -> None:
    history, letters = _merged_after_a_replay()

    held = pieces.held(counted(history, tp(0), OffsetRange(*offsets)))

    merged = [piece.rows for piece in held.pieces if piece.key != letters]
    assert (held.end, held.why, merged) == (offsets[1], None, [rows])
    has_letters = any(piece.key == letters for piece in held.pieces)
    assert has_letters == (offsets[0] <= 2 < offsets[1])  # else no row of it is wanted


def test_what_a_backfill_lands_instead_of_a_replay_is_read_and_not_once_it_is_undone() -> None:
    history = History().add(0).commit(0, ["a", "a", "-", "a"])
    letters = next(key for key in history.applied().objects if "dead-letters" in key)
    history.replay(letters, "b").applied()
    side = History().open(3).add(0).commit(0, ["a", "a", "b", "a"])
    history.open(3)
    slot = history.backfill(side, [*history.now.objects])
    history.applied()

    again = pieces.held(counted(history, tp(0), OffsetRange(0, 4)))
    history.undo(slot)
    history.applied()
    undone = pieces.held(counted(history, tp(0), OffsetRange(0, 4)))

    assert [(p.landed.rows, p.is_dead_letters) for p in again.pieces] == [(3, False), (1, False)]
    assert [(p.landed.rows, p.is_dead_letters) for p in undone.pieces] == [(3, False), (1, True)]
