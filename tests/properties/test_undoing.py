"""Whatever is merged, landed again, undone and replayed, in any order: the rows are what that says.

The law: a REPLACE takes rows away and puts others there. To undo it, all of it or in some output
partitions, is to do the reverse, and nothing else. A refusal names what is to be undone first, and
that works when it is done. A replay moves rows from dead letters to objects, and what has landed
dead letters that were replayed since is not undone. No row ever counts twice.
"""

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from landfall.api.verbs import Outcome
from landfall.driver.decide.counting import output_partition
from landfall.driver.replacing import undo
from landfall.ledger.offsets import OffsetRange
from tests.support.examples import share
from tests.support.ledger.undoable import BAD, LETTERS, REPLAYED, TPS, Rows, Undoable

FOLDERS = ["dt=1", "dt=2", "dt=3"]
STEPS = ["commit"] * 3 + ["merge"] * 4 + ["backfill"] * 2 + ["undo"] * 4 + ["undo all"] * 2
STEPS += ["replay"] * 2


def _commit(draw: st.DrawFn, scene: Undoable) -> None:
    folders = st.lists(st.sampled_from([*FOLDERS, BAD]), min_size=1, max_size=4)
    scene.commit(draw(st.sampled_from(TPS)), draw(folders))


def _merge(draw: st.DrawFn, scene: Undoable) -> None:
    chosen = [
        found[: draw(st.integers(1, len(found)))]
        for folder in draw(st.sets(st.sampled_from(FOLDERS), min_size=1))
        if (found := scene.objects(f"clicks/{folder}"))
    ]
    if chosen:
        scene.loses = draw(st.integers(0, 5)) == 0
        scene.merge(*chosen, leaves_out=draw(st.integers(0, 2)))


def _backfill(draw: st.DrawFn, scene: Undoable) -> None:
    ranges = {}
    for tp in draw(st.sets(st.sampled_from(TPS), min_size=1)):
        if end := scene.at[tp]:
            start = draw(st.integers(0, end - 1))
            ranges[tp] = OffsetRange(start, draw(st.integers(start + 1, end)))
    if ranges:
        folder = st.sampled_from([*FOLDERS, BAD])
        scene.backfill(ranges, [draw(folder) for _ in TPS])


def _replay(draw: st.DrawFn, scene: Undoable) -> None:
    if keys := scene.letters():
        folder, before = draw(st.sampled_from(FOLDERS)), scene.rows
        scene.replay(draw(st.sampled_from(keys)), folder)
        after = scene.rows
        moved = before - after
        assert {row[0] for row in moved} == {LETTERS}
        assert after - before == Rows({(f"clicks/{folder}", *row[1:]): 1 for row in moved})


def _some(draw: st.DrawFn, scene: Undoable, slot: int) -> tuple[str, ...]:
    """No output partition, or some in which a REPLACE has replaced anything."""
    gone, new = scene.changes[slot]
    folders = {row[0] for row in gone | new} - {LETTERS}
    known = sorted({output_partition(f"{folder}/_") for folder in folders})
    return tuple(draw(st.sets(st.sampled_from(known)))) if known else ()


def _undo(draw: st.DrawFn, scene: Undoable, *, all_of_it: bool) -> None:
    if not scene.replaces:
        return
    slot = draw(st.sampled_from(scene.replaces))
    some, before, last = _some(draw, scene, slot), scene.rows, scene.replaces[-1]
    answer = scene.undo(slot, *some, dry_run=True)
    if answer.outcome is Outcome.DRY_RUN:
        scene.loses = is_lost = draw(st.integers(0, 5)) == 0
        answer = scene.undo(slot, *some)
        assert answer.outcome is Outcome.DONE, answer
        gone, new = _chosen(scene, slot, some)
        assert scene.rows == (before if is_lost else before - new + gone)
    elif any(text in answer.message for text in ("whole", "nothing to undo", REPLAYED)):
        assert scene.rows == before
    elif all_of_it:
        done = scene.undo_all(slot, *some)
        others = [each for each in scene.replaces if each > last]
        changes = [scene.changes[each] for each in others]
        gone, new = (sum((each[side] for each in changes), Rows()) for side in (0, 1))
        assert scene.rows + gone == before + new
        if not done:
            return
        change = _chosen(scene, slot, some)
        assert change == _chosen(scene, others[-1], some)[::-1]


def _chosen(scene: Undoable, slot: int, some: tuple[str, ...]) -> tuple[Rows, Rows]:
    gone, new = (
        Rows({row: n for row, n in rows.items() if not some or row[0][7:] in some})
        for rows in scene.changes[slot]
    )
    return gone, new


@settings(max_examples=share(150), deadline=None)
@given(st.data())
def test_to_undo_is_to_do_the_reverse_and_what_a_refusal_names_works(data: st.DataObject) -> None:
    scene, draw = Undoable(), data.draw
    steps: dict[str, Callable[[], None]] = {
        "commit": lambda: _commit(draw, scene),
        "merge": lambda: _merge(draw, scene),
        "backfill": lambda: _backfill(draw, scene),
        "undo": lambda: _undo(draw, scene, all_of_it=False),
        "undo all": lambda: _undo(draw, scene, all_of_it=True),
        "replay": lambda: _replay(draw, scene),
    }

    for step in ["commit", *draw(st.lists(st.sampled_from(STEPS), min_size=3, max_size=14))]:
        steps[step]()

    offsets = {(tp.partition, o) for tp in TPS for o in range(scene.at[tp])}
    assert Counter((p, o) for _, p, o, _ in scene.rows.elements()) <= Counter(offsets)


def _replayed_after_a_backfill() -> tuple[Undoable, int]:
    """A backfill has landed a row as a dead letter, which was replayed."""
    scene = Undoable()
    scene.commit(TPS[0], ["dt=1"])
    slot = scene.backfill({TPS[0]: OffsetRange(0, 1)}, [BAD, BAD])
    (letters,) = scene.letters()
    scene.replay(letters, "dt=2")
    return scene, slot


def test_what_has_landed_dead_letters_that_were_replayed_is_not_undone() -> None:
    scene, slot = _replayed_after_a_backfill()

    answer = scene.undo(slot)

    assert (answer.outcome, scene.rows.total()) == (Outcome.REFUSED, 1)
    assert REPLAYED in answer.message


def test_that_rule_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    scene, slot = _replayed_after_a_backfill()
    monkeypatch.setattr(undo, "_why_rows_differ", lambda *_: "")

    answer = scene.undo(slot)

    assert (answer.outcome, scene.rows.total()) == (Outcome.DONE, 2)
