"""Audits of lists of replaced objects that do not say what is so."""

from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from landfall.ledger.replace.replacement_lists import ReplacementList, Section
from landfall_audit import FaultKind
from tests.support.audit.audited_replacing import END, Hour
from tests.support.ledger.sample_ledger import GROUP, LANE
from tests.support.ledger.sample_replacing import Merge


def with_sections(merge: Merge, *sections: Section) -> Merge:
    rows = sum(section.rows for section in sections)
    new = replace(merge.new, landed=structs.replace(merge.new.landed, rows=rows), sections=sections)
    merge.listed = ReplacementList(merge.retire, (new,))
    return merge


def test_sections_must_be_what_the_rows_are(hour: Hour) -> None:
    first, second, *rest = hour.merge().new.sections
    swapped = with_sections(hour.merge(), second, first, *rest)
    hour.retire(swapped.record())

    found = hour.findings()

    assert not found.is_whole
    if hour.has_offsets:
        assert {fault.kind for fault in found.faults} == {FaultKind.REPLACED}


def test_sections_of_mixed_rows_must_have_as_many_as_they_say(tmp_path: Path) -> None:
    hour = Hour(tmp_path / "root", "Parquet")
    own = [item for item in hour.objects if "/1_0_" in item[1].upload.key]
    rows = [(0, o) for o in range(END - 1, -1, -1) if o != 5]
    merge = Merge.of(hour.sample, own, rows)
    first, second, third = merge.new.sections
    swapped = with_sections(merge, replace(first, rows=3), replace(second, rows=4), third)
    hour.retire(swapped.record())

    (fault,) = hour.faults()

    assert str(fault).endswith("does not have the 3 rows of 0 to 3")


def test_a_section_must_come_from_an_object_that_retires(lines: Hour) -> None:
    first, *rest = lines.merge().new.sections
    other = with_sections(lines.merge(), replace(first, partition=5), *rest)
    lines.retire(other.record())

    assert any("no object that retires has the rows of" in str(f) for f in lines.faults())


def test_rows_that_are_lost_by_a_merge_are_missing(lines: Hour) -> None:
    merge = lines.merge()
    lines.retire(with_sections(merge, *merge.new.sections[1:]).record())

    assert any("4 rows of clicks/0 from offset 0 on" in str(f) for f in lines.faults())
    assert lines.counts()[0]["missing"] >= 4


def test_an_object_that_retires_must_count(lines: Hour) -> None:
    """The fold does not know keys, so it does not refuse a list of what has retired before."""
    lines.merged()
    lines.merge().record().complete()
    lines.sample.shown()

    assert any("does not count any more" in str(f) for f in lines.faults())


def test_the_name_of_a_new_object_has_the_slot_of_its_plan(lines: Hour) -> None:
    merge = lines.merge()
    merge.read_through -= 1
    lines.retire(merge.record())

    assert lines.kinds() == [FaultKind.REPLACED]


@pytest.mark.parametrize("damage", [lambda body: body[:-1], lambda _: None])
def test_the_list_must_be_as_it_was_stored(lines: Hour, damage: object) -> None:
    lines.merged()
    (path,) = lines.path(f"_landfall/{GROUP}/{LANE}-replaced").iterdir()
    body = damage(path.read_bytes())  # type: ignore[operator]  # a function
    path.unlink() if body is None else path.write_bytes(body)

    assert FaultKind.REPLACED in lines.kinds()
