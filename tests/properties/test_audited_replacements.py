"""Laws of the audit of objects that take the place of others: sound ones pass, damage is found."""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from landfall.ledger.names import object_names
from landfall.ledger.replace.replacement_lists import ReplacementList
from landfall.ledger.task_results import LandedObject
from landfall_audit.objects.mixed_rows import MixedRecords, MixedRules, compare_mixed
from tests.support.audit.audited_group import TP
from tests.support.audit.audited_replacing import END, EXTENSIONS, OTHER, Hour, all_rows
from tests.support.examples import share
from tests.support.ledger.sample_backfill import Again, Backfill, UndoneBackfill
from tests.support.ledger.sample_ledger import GROUP, LANE
from tests.support.ledger.sample_replacing import Merge, Row, Undo

SPEC = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
"""The SHA-256 of an empty spec."""
FORMATS = ("Json", "SequenceFile")
DUPLICATES = [(p, o) for o in (2, 5) for p in (0, 1)]
MERGES = {
    "plain": None,
    "mixed": all_rows(),
    "without duplicates": all_rows(left_out=DUPLICATES),
}


@pytest.fixture(scope="module", params=[(f, m) for f in FORMATS for m in MERGES], ids="-".join)
def hour(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Hour, Merge]:
    """A group whose objects were merged."""
    format_, merge = request.param
    made = Hour(tmp_path_factory.mktemp("root") / "root", format_)
    return made, made.merged(MERGES[merge])


@contextmanager
def changed(path: Path, change: Callable[[bytes], bytes]) -> Iterator[None]:
    body = path.read_bytes()
    path.write_bytes(change(body))
    try:
        yield
    finally:
        path.write_bytes(body)


def files(hour: Hour) -> list[Path]:
    """All that there is but the last slot, which no other one names."""
    found = sorted(path for path in hour.root.rglob("*") if path.is_file())
    staged = [path for path in found if ".landfall-staging" not in path.parts]
    last = max(path for path in staged if path.parent.parent.name == "0")
    return [path for path in staged if path != last]


@settings(max_examples=share(15))
@given(data=st.data(), at=st.integers(0, 2**20), by=st.integers(1, 255))
def test_any_other_byte_is_found(
    hour: tuple[Hour, Merge], data: st.DataObject, at: int, by: int
) -> None:
    root = hour[0].root
    path = data.draw(st.sampled_from(files(hour[0])).map(lambda p: p.relative_to(root)))

    def change(body: bytes) -> bytes:
        place = at % len(body)
        return body[:place] + bytes([body[place] ^ by]) + body[place + 1 :]

    with changed(root / path, change):
        assert not hour[0].findings().is_whole


@settings(max_examples=share(20), deadline=None)
@given(
    format_=st.sampled_from([*EXTENSIONS]),
    rows=st.sampled_from([*MERGES.values()]),
    at=st.integers(0, 2**20),
    wrong=st.sampled_from(["gone", "twice", "another", "of nobody"]),
)
def test_a_row_that_a_merge_made_wrong_is_found(
    format_: str, rows: list[Row] | None, at: int, wrong: str
) -> None:
    with TemporaryDirectory() as folder:
        hour = Hour(Path(folder) / "root", format_)
        merge = hour.merge(rows)
        offsets = [*hour.sample.rows[merge.new.landed.upload.key]]
        before, here, after = split(offsets, at)
        changed_rows = {
            "gone": [*before, *after],
            "twice": [*before, here, here, *after],
            "another": [*before, (here + 1) % END, *after],
            "of nobody": [*before, END + 7, *after],
        }[wrong]
        # Which of several records was left out, only their keys would tell.
        assume(wrong != "another" or not merge.duplicates)
        first, new = merge.retire[0].landed, merge.new
        body = hour.encoded(changed_rows)
        landed = merge.upload(first, body, new.landed.rows, new.landed.last_offset)
        merge.listed = ReplacementList(merge.retire, (replace(new, landed=landed),))
        hour.retire(merge.record())

        assert not hour.findings().is_whole


def split(offsets: list[int], at: int) -> tuple[list[int], int, list[int]]:
    at %= len(offsets)
    return offsets[:at], offsets[at], offsets[at + 1 :]


STEPS = st.lists(
    st.tuples(st.sampled_from(["plain", "mixed", "backfill", "undo"]), st.randoms()), max_size=5
)


@settings(max_examples=share(15), deadline=None)
@given(format_=st.sampled_from([*EXTENSIONS]), steps=STEPS)
def test_whatever_is_merged_landed_again_and_undone_is_sound(
    format_: str, steps: list[tuple[str, random.Random]]
) -> None:
    with TemporaryDirectory() as folder:
        hour = Hour(Path(folder) / "root", format_)
        hour.sample.store.create(object_names.spec_key(GROUP, LANE, SPEC), b"{}")
        current = {landed.upload.key: (slot, landed) for slot, landed in hour.objects}
        merges: list[Merge] = []
        for step, chance in steps:
            merge: Merge
            if step == "backfill":
                merge = Backfill(hour.sample, current.values(), *cut(chance), spec=SPEC)
                merges = [merge.record()]  # what it lets retire is not to be taken back any more
            elif step != "undo":
                chosen = chance.sample(sorted(current), chance.randint(1, len(current)))
                merge = Merge.of(hour.sample, [current[key] for key in chosen])
                if step == "mixed":
                    merge = Merge.of(
                        hour.sample, [current[k] for k in chosen], shuffled(merge, chance)
                    )
                merges.append(merge.record())
            elif merges and all(o.landed.upload.key in current for o in merges[-1].listed.objects):
                last = merges.pop()
                if isinstance(last, Backfill | UndoneBackfill):
                    merge = UndoneBackfill(last).record()
                    merges.append(merge)
                else:
                    merge = Undo(last).record()
            else:
                continue
            hour.retire(merge)
            replace_in(current, merge)

        assert hour.faults() == []
        assert {p: (c["expected"], c["found"]) for p, c in hour.counts().items()} == {
            0: (END, END),
            1: (END, END),
        }


def cut(chance: random.Random) -> list[Again]:
    """All ranges, landed again in other slices."""
    found = []
    for tp in (TP, OTHER):
        edges = [0, *sorted(chance.sample(range(1, END), chance.randint(0, 2))), END]
        found += [Again(tp, *edge) for edge in pairwise(edges)]
    return found


def shuffled(merge: Merge, chance: random.Random) -> list[Row]:
    rows = [
        (section.partition, offset)
        for section in merge.new.sections
        for offset in range(section.first_offset, section.last_offset + 1)
    ]
    chance.shuffle(rows)
    return rows


def replace_in(current: dict[str, tuple[int, LandedObject]], merge: Merge) -> None:
    for each in merge.listed.retire:
        del current[each.landed.upload.key]
    for new in merge.listed.objects:
        current[new.landed.upload.key] = (merge.slot, new.landed)


# --------------------------------------------------------------------------------- mixed rows

RECORDS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 5), st.integers(0, 2)), max_size=12)


def columns(rows: Sequence[tuple[int, int, int]]) -> MixedRecords:
    return MixedRecords(*np.array(rows, np.int64).reshape(-1, 3).T)


@given(records=RECORDS, chance=st.randoms(), known=st.booleans(), left_out=st.integers(0, 3))
def test_the_same_rows_in_any_order_are_found(
    records: list[tuple[int, int, int]], chance: random.Random, known: bool, left_out: int
) -> None:
    rows = chance.sample(records, max(len(records) - left_out, 0))
    found = columns(rows)

    result = compare_mixed(
        columns(records),
        found.offsets if known else None,
        found.hashes,
        MixedRules(left_out=len(records) - len(rows)),
    )

    assert not any((result.missing, result.duplicate, result.foreign, result.too_few))
    assert not result.corrupted.any()
    assert result.absent.sum() == len(records) - len(rows)


@given(records=RECORDS, rows=RECORDS, known=st.booleans(), left_out=st.integers(0, 3))
def test_every_row_and_record_is_accounted_for(
    records: list[tuple[int, int, int]],
    rows: list[tuple[int, int, int]],
    known: bool,
    left_out: int,
) -> None:
    found = columns(rows)

    result = compare_mixed(
        columns(records),
        found.offsets if known else None,
        found.hashes,
        MixedRules(left_out=left_out),
    )

    absent = int(result.absent.sum())
    assert len(records) - absent + result.duplicate + result.foreign == len(rows)
    assert result.missing == max(absent - left_out, 0)
    assert result.too_few == max(left_out - absent, 0)
    same = sorted(r[1:] if known else r[2:] for r in records) == sorted(
        r[1:] if known else r[2:] for r in rows
    )
    is_sound = not (result.corrupted.any() or result.duplicate or result.foreign or absent)
    assert is_sound == same
