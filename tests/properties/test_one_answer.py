"""All parts of Landfall agree which objects of a ledger count: those that are visible.

Readers, publishers, backfills, scans, compaction, ``locate``, ``verify``, ``fsck`` and other groups
that land from this one fold the records on their own.
"""

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from landfall.checks import locate
from landfall.errors import Reason, Stalled
from landfall.landed.pieces import Counting
from landfall.ledger.offsets import OffsetRange
from tests.support.examples import share
from tests.support.ledger import one_answer
from tests.support.ledger.one_answer import FILTERED, PlayedLedger
from tests.support.ledger.undoable import BAD, TPS

FOLDERS = ["dt=2026-11-20", "dt=2026-11-21"]
FATES = ["visible"] * 5 + ["repaired", "missing", "lost"]
STEPS = (
    ["land"] * 5
    + ["merge"] * 4
    + ["backfill"] * 3
    + ["undo"] * 3
    + ["replay"] * 2
    + ["open", "change spec", "change spec", "hole", "roll", "snapshot", "enter again"]
)


def _step(name: str, draw: st.DrawFn, played: PlayedLedger) -> None:  # noqa: C901, PLR0912  # a case per step
    folder = st.sampled_from([*FOLDERS, BAD, FILTERED])
    tp = draw(st.sampled_from(TPS))
    match name:
        case "land":
            folders = draw(st.lists(folder, min_size=1, max_size=5))
            played.land(tp, folders, fate=draw(st.sampled_from(FATES)))
        case "merge":
            chosen = [
                found[: draw(st.integers(1, len(found)))]
                for each in draw(st.sets(st.sampled_from(FOLDERS), min_size=1))
                if (found := played.mergeable(f"clicks/{each}"))
            ]
            if chosen:
                played.loses = draw(st.integers(0, 5)) == 0
                played.merge(*chosen, leaves_out=draw(st.integers(0, 2)))
        case "backfill":
            played.open()
            ends = {tp: played.at[tp] for tp in TPS if played.at[tp]}
            if ends:
                chosen_tp = draw(st.sampled_from(sorted(ends)))
                start = draw(st.integers(0, ends[chosen_tp] - 1))
                end = draw(st.integers(start + 1, ends[chosen_tp]))
                ranges = {chosen_tp: OffsetRange(start, end)}
                folders = [draw(st.sampled_from(FOLDERS)) for _ in TPS]
                with suppress(Stalled):  # a HOLE is in the range, or a former life in an object
                    played.backfill(ranges, folders)
        case "undo":
            if played.replaces:
                played.undo(draw(st.sampled_from(played.replaces)))
        case "replay":
            if played.letters():
                played.replay(
                    draw(st.sampled_from(played.letters())), draw(st.sampled_from(FOLDERS))
                )
        case "open":
            played.open()
        case "change spec":
            played.change_spec()
        case "hole":
            played.hole(tp, 2)
        case "roll":
            played.roll()
        case "snapshot":
            played.sample.snapshot().shown()
        case "enter again":
            played.enter_again(tp)


@settings(max_examples=share(60), deadline=None)
@given(st.data())
def test_all_parts_count_the_same_objects(data: st.DataObject) -> None:
    played, draw = PlayedLedger(), data.draw
    for name in ["land", *draw(st.lists(st.sampled_from(STEPS), min_size=3, max_size=14))]:
        _step(name, draw, played)
    note(played.shown())
    expected = one_answer.visible(played)
    assert one_answer.by_backfills(played) == expected
    assert one_answer.by_readers(played) == expected
    assert one_answer.by_publishers(played) == expected
    assert one_answer.by_publishers(played, 1) == expected
    assert one_answer.by_readers_of_objects(played) == expected
    assert one_answer.by_readers_of_objects(played, 1) == expected
    assert one_answer.by_scans(played) == expected
    assert not one_answer.by_compaction(played) - expected
    assert one_answer.by_downstream(played) == one_answer.wanted_downstream(played)
    assert one_answer.wrong_places(played) == []
    assert one_answer.wrong_specs(played) == []
    assert one_answer.wrong_specs_of_scans(played) == []
    assert one_answer.wrong_specs_of_locate(played) == []
    assert one_answer.wrong_specs_of_publishers(played) == []
    assert one_answer.wrong_specs_of_publishers(played, 1) == []
    assert one_answer.wrong_specs_of_compaction(played) == []
    assert one_answer.by_verify(played) == []
    assert one_answer.by_fsck(played) == []


def _recreated() -> PlayedLedger:
    """Objects of a topic partition that left were merged, and it has landed other records since."""
    played = PlayedLedger()
    for _ in range(2):
        played.land(TPS[0], [FOLDERS[0]] * 2)
    played.enter_again(TPS[0])
    played.land(TPS[0], [FOLDERS[1], FILTERED, FOLDERS[1]])
    played.merge(played.objects(f"clicks/{FOLDERS[0]}"))
    return played


def test_rows_of_a_former_life_that_were_merged_since_are_not_read_as_present() -> None:
    played = _recreated()

    assert one_answer.by_downstream(played) == one_answer.wanted_downstream(played)
    assert one_answer.wrong_places(played) == []


def test_each_rule_about_former_lives_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    played = _recreated()
    monkeypatch.setattr(locate, "_is_made_of", lambda *_: True)
    monkeypatch.setattr(Counting, "_rows_of", _of_any_life(Counting._rows_of))

    assert one_answer.by_downstream(played) != one_answer.wanted_downstream(played)
    assert one_answer.wrong_places(played) != []


@pytest.mark.parametrize(
    "asked",
    [
        one_answer.by_backfills,
        one_answer.by_readers,
        one_answer.by_publishers,
        one_answer.by_scans,
        one_answer.by_compaction,
        one_answer.by_downstream,
        one_answer.by_verify,
    ],
)
def test_a_list_that_is_missing_is_the_same_error_to_all(
    asked: Callable[[PlayedLedger], object],
) -> None:
    played = PlayedLedger()
    played.land(TPS[0], [FOLDERS[0], FOLDERS[0]])
    slot = played.merge(played.objects(f"clicks/{FOLDERS[0]}"))
    [key] = (each.key for each in played.store.list_after("") if "-replaced/" in each.key)
    played.store.delete_slots([key])

    with pytest.raises(Stalled, match=f"ledger slot {slot}: names {key}, which is not there") as it:
        asked(played)

    assert it.value.reason is Reason.LEDGER_BROKEN


def _of_any_life(rows_of: Callable[..., object]) -> Callable[..., object]:
    return lambda self, new, left_out, _: rows_of(self, new, left_out, None)


def test_a_record_beside_an_object_that_was_given_up_is_located() -> None:
    played = PlayedLedger()
    played.land(TPS[0], [FOLDERS[0], FOLDERS[1], FOLDERS[1], FOLDERS[0]], fate="lost")

    assert one_answer.wrong_places(played) == []


def test_a_merged_object_of_a_replay_is_read_by_the_spec_of_the_replay() -> None:
    played = PlayedLedger()
    played.change_spec()
    played.land(TPS[0], [BAD, BAD])
    played.replay(played.letters()[0], FOLDERS[0])
    played.open()
    played.merge(played.objects(f"clicks/{FOLDERS[0]}"))

    assert one_answer.wrong_specs(played) == []
    assert one_answer.wrong_specs_of_scans(played) == []
    assert one_answer.wrong_specs_of_locate(played) == []


def test_a_merged_object_of_a_backfill_is_read_by_the_spec_of_the_backfill() -> None:
    played = PlayedLedger()
    for _ in range(2):
        played.land(TPS[0], [FOLDERS[0], FOLDERS[0]])
    played.change_spec()
    played.backfill({TPS[0]: OffsetRange(0, 4)}, [FOLDERS[0]] * 2)
    played.merge(played.objects(f"clicks/{FOLDERS[0]}"))

    assert one_answer.wrong_specs(played) == []
    assert one_answer.wrong_specs_of_scans(played) == []
    assert one_answer.wrong_specs_of_locate(played) == []


def _of_two_specs() -> PlayedLedger:
    """One generation has landed two objects in each of two folders, by a spec for each folder."""
    played = PlayedLedger()
    for folder in FOLDERS:
        for _ in range(2):
            played.land(TPS[0], [folder, folder])
        played.change_spec()
    return played


def test_each_object_of_a_merge_is_read_by_the_spec_of_its_own_folder() -> None:
    played = _of_two_specs()
    played.merge(*(played.objects(f"clicks/{folder}") for folder in FOLDERS))

    assert one_answer.wrong_specs(played) == []
    assert one_answer.wrong_specs_of_publishers(played) == []
    assert one_answer.wrong_specs_of_scans(played) == []


def test_merges_of_two_specs_in_a_folder_keep_the_spec_of_each() -> None:
    played = PlayedLedger()
    for _ in range(2):
        for _ in range(2):
            played.land(TPS[0], [FOLDERS[1], FOLDERS[1]])
        played.change_spec()
    first, second = (played.objects(f"clicks/{FOLDERS[1]}")[i : i + 2] for i in (0, 2))
    played.merge(first, second)

    assert len(one_answer.by_compaction(played)) == 2
    assert one_answer.wrong_specs(played) == []
    assert one_answer.wrong_specs_of_compaction(played) == []
    assert one_answer.wrong_specs_of_publishers(played) == []


def test_what_is_merged_again_is_read_by_the_spec_that_landed_it() -> None:
    played = _of_two_specs()
    for _ in range(2):
        played.merge(played.objects(f"clicks/{FOLDERS[0]}"))

    assert one_answer.wrong_specs(played) == []
    assert one_answer.wrong_specs_of_publishers(played) == []
    assert one_answer.wrong_specs_of_scans(played) == []


def test_what_an_undoing_brings_back_is_read_by_the_spec_that_landed_it() -> None:
    played = _of_two_specs()
    slot = played.backfill({TPS[0]: OffsetRange(0, 4)}, [FOLDERS[0]] * 2)
    for _ in range(2):  # and what undoes the undoing
        played.undo(slot)
        slot = played.replaces[-1]

        assert one_answer.wrong_specs(played) == []
        assert one_answer.wrong_specs_of_publishers(played) == []
        assert one_answer.wrong_specs_of_scans(played) == []


def test_a_range_with_an_object_that_was_given_up_is_read_once_it_is_landed_again() -> None:
    played = PlayedLedger()
    played.land(TPS[0], [FOLDERS[0], FOLDERS[1]] * 2, fate="lost")
    played.open()
    slot = played.backfill({TPS[0]: OffsetRange(0, 4)}, [FOLDERS[0]] * 2)

    assert one_answer.missing_downstream(played) == set()
    played.undo(slot)
    assert len(one_answer.missing_downstream(played)) == 1
