"""Audits of objects that took the place of others: what counts when, and what is a fault."""

from dataclasses import replace
from pathlib import Path
from threading import Lock

import pytest
from msgspec import structs

from landfall.api.spec import parse_group
from landfall.ledger import Drop, Purpose, Retired
from landfall.ledger.names import object_names
from landfall.ledger.offsets import OffsetRange, Slice
from landfall.ledger.replace.replacement_lists import ReplacementList
from landfall.ledger.task_results import DecidedObject, LandedObject
from landfall_audit import FaultKind, Unchecked
from landfall_audit.buckets import open_buckets
from landfall_audit.checks.inspection import inspect
from tests.support.audit.audited_group import TP, Landed, message
from tests.support.audit.audited_replacing import END, OTHER, WHOLE, Hour, all_rows
from tests.support.audit.audited_spec import for_auditor
from tests.support.audit.auditor_fakes import GeneratedLog
from tests.support.ledger import older_names
from tests.support.ledger.sample_ledger import GROUP, LANE
from tests.support.ledger.sample_replacing import Cut, Merge, Undo
from tests.unit.audit.test_inspection import replay


def assert_whole(hour: Hour) -> None:
    found = hour.findings()
    assert ([*map(str, found.faults)], found.is_whole) == ([], True)
    assert hour.counts() == WHOLE


def test_a_merge_is_sound_at_every_step(hour: Hour) -> None:
    assert_whole(hour)
    merge = hour.merge().record()
    assert_whole(hour)
    merge.complete()
    assert_whole(hour)
    merge.keep_copies()
    assert_whole(hour)
    for each in merge.retire:
        hour.path(each.landed.upload.key).unlink()
        assert_whole(hour)
    hour.sample.shown()
    assert_whole(hour)
    assert hour.findings().objects == 1


def test_names_of_older_software_are_no_faults(hour: Hour, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(object_names, "renamed", older_names.renamed)
        merge = hour.merged()
    assert ".r" in merge.new.landed.upload.key
    assert_whole(hour)

    undo = Undo(merge).record()
    hour.retire(undo)

    assert all("/r0" in each.landed.upload.key for each in undo.listed.objects)
    assert_whole(hour)


def test_what_retires_later_is_no_fault_until_it_has_retired(hour: Hour) -> None:
    merge = hour.merge().record(retires_later=True).complete().keep_copies()
    hour.sample.shown()
    assert_whole(hour)
    first, *others = merge.retire
    for each in others:
        hour.path(each.landed.upload.key).unlink()
        assert_whole(hour)

    hour.sample.append(lambda h: Retired(header=h, slots=(merge.slot,)))

    (fault,) = hour.findings().faults
    assert (fault.kind, fault.what) == (FaultKind.RETIRED, first.landed.upload.key)


def test_what_is_decided_again_is_one_replacement(hour: Hour) -> None:
    merge = hour.merge().record(retires_later=True)
    merge.record(retires_later=True, instead=merge.slot, again=True)
    assert_whole(hour)

    merge.complete().keep_copies()
    hour.sample.shown()

    assert_whole(hour)
    for each in merge.retire:
        hour.path(each.landed.upload.key).unlink()
    hour.sample.append(lambda h: Retired(header=h, slots=(merge.slot,)))
    assert_whole(hour)
    assert hour.findings().objects == 1


def test_another_one_than_before_is_not_decided_again(hour: Hour) -> None:
    merge = hour.merge().record(retires_later=True)

    merge.record(retires_later=True, instead=merge.slot, again=True, purpose=Purpose.UNDO)
    hour.retire(merge)

    faults = hour.findings().faults
    assert "again, and is another one" in str([fault for fault in faults if "slot" in fault.what])


def test_what_is_given_up_counts_nowhere(hour: Hour) -> None:
    merge = hour.merge().record(retires_later=True).complete()

    slot = merge.give_up()
    hour.sample.shown()

    assert_whole(hour)
    hour.sample.append(lambda h: Retired(header=h, slots=(slot,)))
    assert [fault.kind for fault in hour.findings().faults] == [FaultKind.RETIRED]
    hour.path(merge.new.landed.upload.key).unlink()
    assert_whole(hour)


def test_a_merge_of_some_objects_of_a_range_is_sound(hour: Hour) -> None:
    merge = Merge.of(hour.sample, hour.objects[1:4]).record()
    hour.retire(merge)

    assert_whole(hour)
    assert hour.findings().objects == len(hour.objects) - 2


def test_a_merged_object_is_merged_again(hour: Hour) -> None:
    first = Merge.of(hour.sample, hour.objects[:2]).record()
    hour.retire(first)
    second = Merge.of(hour.sample, [(first.slot, first.new.landed), *hour.objects[2:]])
    hour.retire(second.record())

    assert_whole(hour)
    assert hour.findings().objects == 1


def test_a_merged_object_is_cut_and_a_half_is_merged_again(hour: Hour) -> None:
    cut = Cut(hour.merged(), Slice(OTHER, OffsetRange(4, 8))).record()
    hour.retire(cut)

    assert_whole(hour)
    assert hour.findings().objects == 2
    assert [new.landed.rows for new in cut.listed.objects] == [20, 4]

    hour.retire(Merge.of(hour.sample, [(cut.slot, o.landed) for o in cut.listed.objects]).record())
    assert_whole(hour)


def test_a_half_must_have_the_rows_of_its_sections(lines: Hour) -> None:
    cut = Cut(lines.merged(), Slice(OTHER, OffsetRange(4, 8)))
    _, inside = (new.landed.upload.key for new in cut.listed.objects)
    lines.retire(cut.record())
    lines.path(inside).write_bytes(lines.encoded(range(8, 12)))

    assert {fault.what for fault in lines.faults()} == {inside}


def test_rows_that_are_mixed_are_compared_together(hour: Hour) -> None:
    hour.merged(all_rows())

    assert_whole(hour)
    assert hour.findings().objects == 1


def test_duplicates_that_were_left_out_are_counted_and_not_expected(hour: Hour) -> None:
    hour.merged(all_rows(left_out=[(0, 3), (1, 3)]))

    assert hour.faults() == []
    assert hour.counts() == {p: {"expected": 11, "found": 11, "left_out": 1} for p in (0, 1)}


def test_an_object_may_have_nothing_but_duplicates(hour: Hour) -> None:
    hour.merged(all_rows(left_out=[(p, o) for o in range(4, 8) for p in (0, 1)]))

    assert hour.faults() == []
    assert hour.counts() == {p: {"expected": 8, "found": 8, "left_out": 4} for p in (0, 1)}


@pytest.mark.parametrize("rows", [None, all_rows(), all_rows(left_out=[(0, 3)])])
def test_an_undoing_brings_everything_back(hour: Hour, rows: list[tuple[int, int]] | None) -> None:
    undo = Undo(hour.merged(rows)).record()
    hour.retire(undo)

    assert_whole(hour)
    assert hour.findings().objects == len(hour.objects)


def test_objects_that_retire_during_an_audit_are_read_where_they_are_kept(hour: Hour) -> None:
    class Log(GeneratedLog):
        def topic_id(self, topic: str) -> str | None:
            with retiring:
                if not hour.sample.merged:
                    hour.merged()
            return super().topic_id(topic)

    retiring = Lock()

    found = hour.audit(Log(END, message))

    assert ([*map(str, found.faults)], found.is_whole) == ([], True)


def test_replayed_records_are_merged_with_those_of_their_range(tmp_path: Path) -> None:
    landed = Landed(tmp_path / "root")
    replay(landed, [3, 4])
    landed.sample.open(generation=2)
    commit, again = (landed.sample.landed[key] for key in sorted(landed.sample.landed)[1:])
    merge = Merge.of(landed.sample, [(3, commit), (5, again)]).record().complete()
    for each in merge.retire:
        (landed.root / each.landed.upload.key).unlink()
    landed.sample.shown()

    found = landed.audit(GeneratedLog(10, message))

    assert ([*map(str, found.faults)], found.is_whole, found.objects) == ([], True, 1)


@pytest.mark.parametrize("rows", [None, [(0, o) for o in range(9, -1, -1) for _ in range(2)]])
def test_rows_of_a_topic_that_was_recreated_are_not_confused(
    tmp_path: Path, rows: list[tuple[int, int]] | None
) -> None:
    landed = Landed(tmp_path / "root")
    landed.land(0, 10)
    landed.sample.append(lambda h: Drop(header=h, topic_partitions=(TP,), reason="gone"))
    landed.sample.open(generation=2).add(TP)
    landed.land(0, 10)
    objects = [*landed.sample.landed.values()]
    merge = Merge.of(landed.sample, [(2, objects[0]), (7, objects[1])], rows)
    if rows:
        halves = tuple(replace(section, rows=10) for section in merge.new.sections)
        merge.listed = ReplacementList(merge.retire, (replace(merge.new, sections=halves),))
    merge.record().complete()
    for each in merge.retire:
        (landed.root / each.landed.upload.key).unlink()
    landed.sample.shown()

    assert landed.audit(GeneratedLog(10, message)).faults == []
    assert landed.found(GeneratedLog(10, message)) == {
        "expected": 10,
        "found": 10,
        "unchecked": {Unchecked.GONE: 10},
    }


def test_each_merged_object_has_the_rows_of_its_own_generation(tmp_path: Path) -> None:
    landed = Landed(tmp_path / "root")
    sample, now = landed.sample, landed.sample.body
    sample.body = then = lambda offsets: now([offset + 100 for offset in offsets])
    first = [landed_as(landed, 0, 5), landed_as(landed, 5, 10)]
    before = Merge.of(sample, first).record()
    retire(landed, before)
    late = landed_as(landed, 10, 12)
    sample.body = now
    sample.drop(TP)
    sample.open(generation=2).add(TP)
    again = [landed_as(landed, 0, 5), landed_as(landed, 5, 10)]
    sample.shown()
    own = Merge.of(sample, again)
    sample.body = then
    former = Merge.of(sample, [late, (before.slot, before.new.landed)])
    both = sorted((*former.retire, *own.retire), key=lambda old: old.key)
    former.retire, former.listed = (*both,), ReplacementList((*both,), (former.new, own.new))
    retire(landed, former.record())

    found = landed.audit(GeneratedLog(10, message))

    assert ([*map(str, found.faults)], found.is_whole) == ([], True)


def landed_as(landed: Landed, start: int, end: int) -> tuple[int, LandedObject]:
    """Land a range; its slot and its object."""
    slice_ = landed.sample.land(TP, start, end)
    landed.sample.commit(slice_)
    return landed.sample.state.seq, slice_.objects[0]


def retire(landed: Landed, merge: Merge) -> None:
    """Replace the old objects by the new ones."""
    merge.complete()
    for old in merge.retire:
        (landed.root / old.key).unlink()
    landed.sample.shown()


def test_merged_rows_of_a_replay_are_of_the_topic_before_it_was_recreated(tmp_path: Path) -> None:
    landed = Landed(tmp_path / "root")
    replay(landed, [3, 4])
    again = DecidedObject(5, [*landed.sample.landed.values()][-1])
    landed.sample.open(generation=2)
    landed.land(10, 12)
    later = DecidedObject(8, [*landed.sample.landed.values()][-1])
    landed.sample.open(generation=3).drop(TP)
    landed.sample.add(TP)
    landed.land(0, 10)
    landed.sample.open(generation=3)
    objects = [(old.slot, old.landed) for old in (again, later)]
    merge = Merge.of(landed.sample, objects).record().complete()
    for each in merge.retire:
        (landed.root / each.landed.upload.key).unlink()
    landed.sample.shown()

    found = landed.audit(GeneratedLog(10, message))

    assert ([*map(str, found.faults)], found.is_whole) == ([], True)


def test_what_is_brought_back_must_be_a_copy(lines: Hour) -> None:
    undo = Undo(lines.merged())
    changed = structs.replace(undo.listed.objects[0].landed, crc32=7)
    objects = (replace(undo.listed.objects[0], landed=changed), *undo.listed.objects[1:])
    undo.listed = replace(undo.listed, objects=objects)
    lines.retire(undo.record())

    assert any(
        str(fault).endswith(f"slot {undo.slot}: is no copy of what retired")
        for fault in lines.faults()
    )


def give_up(lines: Hour, *, complete: bool = False) -> tuple[Merge, Merge]:
    """Record a merge, and another one instead of it."""
    first = lines.merge().record()
    if complete:
        first.complete()
    second = Merge.of(lines.sample, lines.objects, read_through=first.slot)
    second.record(instead=first.slot)
    return first, second


def test_what_is_given_up_never_counts(lines: Hour) -> None:
    _, second = give_up(lines)
    assert_whole(lines)

    lines.retire(second)
    assert_whole(lines)


def test_a_new_object_that_was_given_up_must_not_stay(lines: Hour) -> None:
    first, second = give_up(lines, complete=True)
    assert_whole(lines)

    lines.retire(second)

    (fault,) = lines.faults()
    assert (fault.kind, fault.what) == (FaultKind.EXTRA, first.new.landed.upload.key)


def test_objects_that_would_have_retired_are_still_expected(lines: Hour) -> None:
    first = lines.merge().record()
    second = Merge.of(lines.sample, lines.objects[:2], read_through=first.slot)
    second.record(instead=first.slot)
    lines.retire(second)
    assert_whole(lines)

    lines.path(lines.objects[4][1].upload.key).unlink()

    assert lines.kinds() == [FaultKind.LOST]


def test_an_old_object_must_not_stay(hour: Hour) -> None:
    merge = hour.merged()
    key = merge.retire[0].landed.upload.key
    hour.path(key).write_bytes(b"")

    (fault,) = hour.faults()

    assert (fault.kind, fault.what) == (FaultKind.RETIRED, key)


@pytest.mark.parametrize("rows", [None, all_rows()])
def test_a_new_object_must_be_there(hour: Hour, rows: list[tuple[int, int]] | None) -> None:
    key = hour.merged(rows).new.landed.upload.key
    hour.path(key).unlink()

    (fault,) = hour.faults()

    assert (fault.kind, fault.what) == (FaultKind.LOST, key)
    assert [found["missing"] for found in hour.counts().values()] == [END, END]


def test_a_new_object_must_be_there_even_if_kafka_has_its_records_no_more(lines: Hour) -> None:
    log = GeneratedLog(END, message, start=END)
    lines.path(lines.merged().new.landed.upload.key).unlink()

    found = lines.audit(log)

    assert [fault.kind for fault in found.faults] == [FaultKind.LOST]


@pytest.mark.parametrize("rows", [None, all_rows()])
def test_what_kafka_has_no_more_is_unchecked_and_the_rest_is_compared(
    hour: Hour, rows: list[tuple[int, int]] | None
) -> None:
    merge = hour.merged(rows)
    log = GeneratedLog(END, message, start=4)

    assert hour.audit(log).faults == []
    assert hour.found(log) == {"expected": 8, "found": 8, "unchecked": {Unchecked.GONE: 4}}

    body = hour.encoded([o for o in hour.sample.rows[merge.new.landed.upload.key] if o != 5])
    hour.path(merge.new.landed.upload.key).write_bytes(body)
    assert not hour.audit(log).is_whole


@pytest.mark.parametrize("rows", [None, all_rows()])
def test_a_merged_object_is_of_the_generation_in_its_name(
    hour: Hour, rows: list[tuple[int, int]] | None
) -> None:
    hour.merged(rows)
    log = GeneratedLog(END, message)

    assert hour.found(log, generation=1) == WHOLE[0]
    assert hour.found(log, generation=2) == {"unchecked": {Unchecked.GENERATION: END}}
    assert hour.audit(log, generation=2).faults == []


def test_copies_are_beside_the_objects_if_the_ledger_is_elsewhere(
    lines: Hour, tmp_path: Path
) -> None:
    merge = lines.merged()
    theirs, system = tmp_path / "ledger", lines.root / "_landfall" / GROUP
    (theirs / "_landfall" / GROUP).mkdir(parents=True)
    for name in (LANE, f"{LANE}-replaced"):
        (system / name).rename(theirs / "_landfall" / GROUP / name)
    document = lines.group.model_dump(by_alias=True, mode="json", exclude_unset=True)
    document["spec"]["ledger"] = {"url": f"file://{theirs}"}
    group = parse_group(document)
    copy = lines.path(kept(merge, merge.retire[0].landed.upload.key))

    found = inspect(
        for_auditor(group), open_buckets(for_auditor(group.spec)), GeneratedLog(END, message)
    )
    assert ([*map(str, found.faults)], found.is_whole) == ([], True)

    copy.write_bytes(b"")
    found = inspect(
        for_auditor(group), open_buckets(for_auditor(group.spec)), GeneratedLog(END, message)
    )
    assert [fault.kind for fault in found.faults] == [FaultKind.COPY]


def test_an_object_named_as_a_new_one_must_be_in_a_list(lines: Hour) -> None:
    lines.path("clicks/dt=2026-11-21/1_0_00000000000000000000.r7.json").write_bytes(b"")

    (fault,) = lines.faults()

    assert str(fault).endswith("0 bytes that no REPLACE's list names")


def test_a_copy_may_be_gone(lines: Hour) -> None:
    merge = lines.merged()
    for each in merge.retire:
        lines.path(kept(merge, each.landed.upload.key)).unlink()

    assert_whole(lines)


def kept(merge: Merge, key: str) -> str:
    return object_names.retired_key(GROUP, LANE, merge.slot, key)


@pytest.mark.parametrize("change", [lambda body: body[:-1], lambda body: body[:-2] + b"?\n"])
def test_a_copy_must_be_one(lines: Hour, change: object) -> None:
    merge = lines.merged()
    path = lines.path(kept(merge, merge.retire[0].landed.upload.key))
    path.write_bytes(change(path.read_bytes()))  # type: ignore[operator]  # a function

    assert lines.kinds() == [FaultKind.COPY]


def test_a_copy_of_what_did_not_retire_is_a_fault(lines: Hour) -> None:
    merge = lines.merged()
    path = lines.path(kept(merge, "clicks/dt=2026-11-21/1_0_00000000000000000099.json"))
    path.write_bytes(b"")

    assert lines.kinds() == [FaultKind.COPY]


def test_rows_of_transforms_are_unchecked_if_they_are_mixed(tmp_path: Path) -> None:
    hour = Hour(tmp_path / "root", transforms=[{"use": "Filter", "options": {"drop": "o == -1"}}])
    hour.merged(all_rows())

    assert hour.counts() == {p: {"unchecked": {Unchecked.COUNTED: END}} for p in (0, 1)}
