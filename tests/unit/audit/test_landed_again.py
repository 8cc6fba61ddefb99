"""Audits of ranges that a backfill landed again, and of what undid it."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from landfall.ledger import Drop
from landfall.ledger.names import object_names
from landfall.ledger.replace import replacement_lists
from landfall.ledger.replace.replacement_lists import MadeBy
from landfall_audit import FaultKind, Unchecked
from tests.support.audit.audited_group import TP, Landed, message
from tests.support.audit.audited_replacing import END, OTHER, WHOLE, Hour, all_rows
from tests.support.audit.auditor_fakes import GeneratedLog
from tests.support.ledger.sample_backfill import Again, Backfill, GivenUp, UndoneBackfill
from tests.support.ledger.sample_ledger import GROUP, LANE
from tests.support.ledger.sample_replacing import Merge
from tests.unit.audit.test_inspection import replay

SPEC = b"{}"
NAME = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
AGAIN = (Again(TP, 0, 6), Again(TP, 6, END), Again(OTHER, 0, END))


@pytest.fixture
def hour(hour: Hour) -> Hour:
    hour.sample.store.create(object_names.spec_key(GROUP, LANE, NAME), SPEC)
    return hour


@pytest.fixture
def lines(lines: Hour) -> Hour:
    lines.sample.store.create(object_names.spec_key(GROUP, LANE, NAME), SPEC)
    return lines


def backfill(hour: Hour, *again: Again) -> Backfill:
    return Backfill(hour.sample, hour.objects, *(again or AGAIN), generation=2, spec=NAME)


def done(hour: Hour, merge: Merge) -> Merge:
    merge.record()
    hour.retire(merge)
    return merge


def undone(hour: Hour, merge: Backfill | UndoneBackfill) -> UndoneBackfill:
    undo = UndoneBackfill(merge)
    done(hour, undo)
    return undo


def assert_whole(hour: Hour) -> None:
    found = hour.findings()
    assert ([*map(str, found.faults)], found.is_whole) == ([], True)
    assert hour.counts() == WHOLE


def test_a_backfill_is_sound_at_every_step(hour: Hour) -> None:
    made = backfill(hour)
    assert_whole(hour)
    made.record()
    assert_whole(hour)
    made.complete()
    assert_whole(hour)
    made.keep_copies()
    assert_whole(hour)
    for each in made.retire:
        hour.path(each.landed.upload.key).unlink()
    assert_whole(hour)
    hour.sample.shown()
    assert_whole(hour)
    assert hour.findings().objects == len(AGAIN)


def test_an_undoing_brings_back_what_was_landed_and_its_undoing_what_was_landed_again(
    hour: Hour,
) -> None:
    made = backfill(hour)
    done(hour, made)
    once = undone(hour, made)
    assert_whole(hour)
    assert hour.findings().objects == len(hour.objects)

    undone(hour, once)
    assert_whole(hour)
    assert hour.findings().objects == len(AGAIN)


@pytest.mark.parametrize("rows", [None, all_rows(), all_rows(left_out=[(0, 3), (1, 5)])])
def test_what_was_merged_is_landed_again_and_comes_back(
    hour: Hour, rows: list[tuple[int, int]] | None
) -> None:
    merge = hour.merged(rows)
    before = summed_up(hour)
    made = Backfill(hour.sample, [(merge.slot, merge.new.landed)], *AGAIN, generation=2, spec=NAME)
    done(hour, made)
    assert_whole(hour)

    undone(hour, made)

    assert hour.faults() == []
    assert summed_up(hour) == before


def summed_up(hour: Hour) -> Counter[str]:
    """Counts of all Kafka partitions: which of them a row that was left out is of, nobody knows."""
    return sum(map(Counter, hour.counts().values()), Counter[str]())


def test_what_was_landed_again_is_merged(hour: Hour) -> None:
    made = backfill(hour)
    done(hour, made)
    merge = Merge.of(hour.sample, made.objects)
    done(hour, merge)

    assert_whole(hour)
    assert hour.findings().objects == 1


def test_a_second_backfill_takes_the_place_of_the_first(hour: Hour) -> None:
    first = backfill(hour)
    done(hour, first)
    again = (Again(TP, 0, END), *AGAIN[2:])
    second = Backfill(hour.sample, first.objects, *again, generation=3, spec=NAME)
    done(hour, second)
    assert_whole(hour)

    undone(hour, second)
    assert_whole(hour)


def test_what_is_filtered_or_bad_now_is_expected_so(lines: Hour) -> None:
    filtered = replace(AGAIN[0], filtered=[2, 3])
    done(lines, backfill(lines, filtered, *AGAIN[1:]))

    found = lines.counts()[0]

    assert (found["expected"], found["found"], "missing" in found) == (END - 2, END - 2, False)


def test_a_backfill_that_is_given_up_never_counts(hour: Hour) -> None:
    first = backfill(hour, replace(AGAIN[0], bad=[2]), *AGAIN[1:])
    first.record()
    copies = GivenUp(first)
    copies.record()
    assert_whole(hour)
    hour.retire(copies)
    assert_whole(hour)
    assert hour.findings().objects == len(hour.objects)

    current = [(copies.slot, new.landed) for new in copies.listed.objects]
    done(hour, Backfill(hour.sample, current, *AGAIN, generation=2, spec=NAME))
    assert_whole(hour)


def test_dead_letters_of_a_backfill_are_found_and_come_back(tmp_path: Path) -> None:
    hour = Hour(tmp_path / "root", "Parquet")  # dead letters have this format, too
    hour.sample.store.create(object_names.spec_key(GROUP, LANE, NAME), SPEC)
    first = backfill(hour, replace(AGAIN[0], bad=[2, 5]), *AGAIN[1:])
    done(hour, first)
    assert_whole(hour)
    second = Backfill(hour.sample, first.objects, *AGAIN, generation=3, spec=NAME)
    done(hour, second)
    assert_whole(hour)

    undone(hour, second)

    assert_whole(hour)
    assert hour.findings().objects == len(AGAIN) + 1


def test_what_became_of_replayed_dead_letters_is_landed_again_and_comes_back(
    tmp_path: Path,
) -> None:
    landed = Landed(tmp_path / "root")
    sample, log = landed.sample, GeneratedLog(10, message)
    sample.store.create(object_names.spec_key(GROUP, LANE, NAME), SPEC)
    assert replay(landed, [3, 4]) == {"expected": 10, "found": 10}
    sample.open(generation=2)
    data, again = (sample.landed[key] for key in sorted(sample.landed)[1:])
    made = Backfill(sample, [(3, data), (5, again)], Again(TP, 0, 10), generation=2, spec=NAME)
    apply(landed, made)
    assert landed.audit(log).is_whole

    apply(landed, UndoneBackfill(made))

    found = landed.audit(log)
    assert ([*map(str, found.faults)], found.is_whole, found.objects) == ([], True, 2)


def apply(landed: Landed, merge: Merge) -> None:
    """Record a REPLACE, and do all that it says."""
    merge.record().complete().keep_copies()
    for each in merge.listed.retire:
        (landed.root / each.landed.upload.key).unlink()
    landed.sample.shown()


def test_a_topic_that_was_recreated_is_not_landed_again(tmp_path: Path) -> None:
    landed = Landed(tmp_path / "root")
    sample = landed.sample
    sample.store.create(object_names.spec_key(GROUP, LANE, NAME), SPEC)
    landed.land(0, 10)
    sample.append(lambda h: Drop(header=h, topic_partitions=(TP,), reason="gone"))
    sample.open(generation=2).add(TP)
    landed.land(0, 10)
    objects = [*sample.landed.values()]
    made = Backfill(sample, [(7, objects[1])], Again(TP, 0, 10), generation=2, spec=NAME)
    sample.shown()
    apply(landed, made)
    apply(landed, UndoneBackfill(made))

    assert landed.audit(GeneratedLog(10, message)).faults == []
    assert landed.found(GeneratedLog(10, message)) == {
        "expected": 10,
        "found": 10,
        "unchecked": {Unchecked.GONE: 10},
    }


# ---------------------------------------------------------------------------------------- damage


def test_a_row_that_a_backfill_lost_is_missing(hour: Hour) -> None:
    made = backfill(hour)
    done(hour, made)
    key = next(o.upload.key for _, o in made.objects if o.first_offset == 6)
    hour.path(key).write_bytes(hour.encoded(range(7, END)))

    assert hour.counts()[0]["missing"] == 1


def test_an_object_of_a_backfill_must_be_there(lines: Hour) -> None:
    made = backfill(lines)
    done(lines, made)
    lines.path(made.objects[0][1].upload.key).unlink()

    assert lines.kinds() == [FaultKind.LOST]


def test_an_object_whose_rows_were_landed_again_must_retire(lines: Hour) -> None:
    made = backfill(lines)
    stays = made.listed.retire[2].landed.upload.key
    made.listed = replace(made.listed, retire=(*made.listed.retire[:2], *made.listed.retire[3:]))
    done(lines, made)

    (fault,) = lines.faults()

    assert (fault.kind, fault.what) == (FaultKind.REPLACED, stays)
    assert fault.message == f"its rows were landed again in slot {made.slot}, and it stays"


def test_what_is_undone_comes_back_as_a_whole(lines: Hour) -> None:
    made = backfill(lines)
    done(lines, made)
    undo = UndoneBackfill(made)
    undo.listed = replace(undo.listed, objects=undo.listed.objects[1:])
    done(lines, undo)

    assert f"does not come back, though slot {undo.slot} undoes" in str(lines.faults()[-1])
    assert lines.counts()[0]["missing"] == 4


def test_what_comes_back_must_be_a_copy(lines: Hour) -> None:
    made = backfill(lines)
    done(lines, made)
    undo = UndoneBackfill(made)
    wrong = structs.replace(undo.listed.objects[0].landed, crc32=7)
    objects = (replace(undo.listed.objects[0], landed=wrong), *undo.listed.objects[1:])
    undo.listed = replace(undo.listed, objects=objects)
    done(lines, undo)

    assert any("is no copy of what retired" in str(fault) for fault in lines.faults())


def change(made: Backfill, at: int, **fields: Any) -> None:
    """Let a list count other numbers than the objects have."""
    again = [*made.listed.landed_again]
    again[at] = replace(again[at], **fields)
    made.listed = replace(made.listed, landed_again=tuple(again))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"landed": 5, "filtered": 1}, "clicks/0 [0, 6) has 6 rows in objects, not 5"),
        ({"filtered": 1}, "clicks/0 [0, 6) counts 7 offsets"),
    ],
)
def test_counts_of_a_list_add_up(
    lines: Hour, monkeypatch: pytest.MonkeyPatch, changes: dict[str, int], problem: str
) -> None:
    made = backfill(lines)
    unchecked(monkeypatch)
    change(made, 0, **changes)
    done(lines, made)

    assert problem in [fault.message for fault in lines.faults()]


def test_a_range_is_landed_again_as_a_whole(lines: Hour, monkeypatch: pytest.MonkeyPatch) -> None:
    made = backfill(lines)
    unchecked(monkeypatch)
    again = made.listed.landed_again
    made.listed = replace(made.listed, landed_again=again[1:])
    done(lines, made)

    messages = [str(fault) for fault in lines.faults()]

    assert any("clicks/0 from offset 0 on was not landed again" in text for text in messages)
    assert any("has rows from 0 to 5, of no range" in text for text in messages)


def unchecked(patch: pytest.MonkeyPatch) -> None:
    """Let a list be written that does not add up."""
    patch.setattr(replacement_lists, "_check", lambda _: None)
    patch.setattr(replacement_lists.LandedAgain, "__post_init__", lambda _: None)


def test_schemas_and_specs_that_a_list_names_are_stored(lines: Hour) -> None:
    made = backfill(lines)
    change(made, 0, schemas=("c" * 64,))
    made.listed = replace(made.listed, made_by=MadeBy(2, "d" * 64))
    done(lines, made)

    assert lines.kinds() == [FaultKind.SCHEMA, FaultKind.SPEC]
