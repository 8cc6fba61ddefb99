"""Ranges of a log, read from the objects of the group that has landed it."""

import pickle
from itertools import product
from typing import Any

import pytest

from landfall.errors import Reason, Retry, Stalled
from landfall.landed import reader, rows
from landfall.ledger import Hole
from landfall.ledger.names import object_names
from landfall.ledger.names.expired_letters import ExpiredLetters, encode_expired, expired_key
from landfall.ledger.offsets import OffsetRange, Slice
from landfall.source import EndsEarly
from landfall.task import Batch
from landfall.task.landing import land
from tests.support.driver.slice_landing import MIDNIGHT, TP, FakeReader, click, content, group
from tests.support.ledger.landed_group import PARQUET, SEQUENCE_FILES, Backup, within

ROWS = [click(o, hour=o % 3) for o in range(100, 160) if o % 7]
BAD = (130, b"no JSON")
LOG = sorted([*(row for row in ROWS if row[0] != BAD[0]), BAD])
FORMATS = [SEQUENCE_FILES, PARQUET]


def backup(output: dict[str, Any] = SEQUENCE_FILES, **spec: Any) -> Backup:
    return Backup({TP: LOG}, output, spec).land(0, 110, 125, 126, 160).settle()


@pytest.mark.parametrize("output", FORMATS)
def test_every_range_is_read_exactly(output: dict[str, Any]) -> None:
    landed = backup(output)

    for start, end in product(range(95, 160, 8), range(100, 161, 9)):
        if start < end:
            assert landed.read(start, end) == within(LOG, start, end)


def test_a_sorted_parquet_file_is_read_in_the_order_of_offsets() -> None:
    landed = backup({**PARQUET, "options": {"sortBy": ["-offset"]}})

    assert landed.read(0, 160) == LOG


@pytest.mark.parametrize("output", FORMATS)
def test_another_group_lands_the_same_bytes_as_from_kafka(output: dict[str, Any]) -> None:
    landed = backup(output)
    batch, slice_ = Batch(group(), "token"), Slice(TP, OffsetRange(103, 155))

    from_kafka, from_objects = (
        content(land(batch, [slice_], reader, store)[0], store)
        for reader, store in (
            (FakeReader({TP: LOG}), type(landed.store)()),
            (landed.reader, type(landed.store)()),
        )
    )

    # Dead letters keep headers, which SequenceFiles do not have.
    if output is SEQUENCE_FILES:
        for objects in (from_kafka, from_objects):
            (letters,) = (key for key in objects if "dead-letters" in key)
            objects[letters] = b""
    assert from_objects == from_kafka
    assert len(from_kafka) == 4


def test_what_the_format_stores_of_a_record_comes_back() -> None:
    (in_parquet,) = backup(PARQUET).reader.read(Slice(TP, OffsetRange(101, 103)))
    (with_keys,) = backup().reader.read(Slice(TP, OffsetRange(101, 103)))
    legacy = {"format": "SequenceFile"}
    (without,) = backup(legacy).reader.read(Slice(TP, OffsetRange(101, 103)))

    assert in_parquet.headers.to_pylist()[0] == [{"key": "n", "value": b"101"}]
    for records in (in_parquet, with_keys):
        assert records.keys.to_pylist() == [b"key-101", b"key-102"]
        assert records.timestamps.tolist() == [MIDNIGHT + 101, MIDNIGHT + 102]
    assert with_keys.headers.to_pylist() == [[], []]
    assert without.keys.to_pylist() == [None, None]
    assert without.timestamps.tolist() == [-1, -1]


def test_what_is_not_visible_yet_is_not_read() -> None:
    landed = Backup({TP: LOG}).land(0, 110, 120, complete=False)

    with pytest.raises(Retry, match=r"clicks/3\[0, 120\): shop has landed it up to 0"):
        landed.read(0, 120)


def test_what_is_visible_is_read_though_no_record_confirms_it() -> None:
    landed = Backup({TP: LOG}).land(0, 110, 120)

    assert landed.read(0, 120) == within(LOG, 0, 120)


def test_a_range_that_was_skipped_stops_the_reader_there() -> None:
    landed = Backup({TP: LOG}).land(0, 110)
    piece = Slice(TP, OffsetRange(110, 115))
    landed.sample.append(lambda h: Hole(header=h, piece=piece, reason="expired"))
    landed.land(115, 130).settle()

    with pytest.raises(EndsEarly) as early:
        landed.read(100, 130)
    with pytest.raises(Stalled, match="shop has skipped it in slot 3 of its ledger: expired") as e:
        landed.read(110, 130)

    assert early.value.offset == 110
    assert e.value.reason is Reason.DATA_LOSS
    assert landed.read(115, 130) == within(LOG, 115, 130)


@pytest.mark.parametrize("output", FORMATS)
def test_a_damaged_object_stops_the_reader_before_it(output: dict[str, Any]) -> None:
    landed = backup(output)
    key = object_of(landed, 126)
    body = landed.store.read(key) or b""

    middle = len(body) // 2
    for wrong in (body[:-20], body[:middle] + bytes(99) + body[middle + 99 :], b""):
        landed.store.overwrite(key, wrong)
        with pytest.raises(Stalled, match=f"{key}: damaged") as stalled:
            landed.read(126, 160)
        assert stalled.value.reason is Reason.OBJECT_LOST
        with pytest.raises(EndsEarly) as early:
            landed.read(100, 160)
        assert early.value.offset == 126


def test_an_object_that_is_gone_stops_the_reader() -> None:
    landed = backup()
    landed.store.delete(key := object_of(landed, 126))

    with pytest.raises(Stalled, match=f"{key}: shop has landed clicks/3 there, in slot 5") as e:
        landed.read(126, 160)

    assert e.value.reason is Reason.OBJECT_LOST
    assert landed.read(100, 126) == within(LOG, 100, 126)


def test_dead_letters_that_have_expired_stop_the_reader_with_the_reason() -> None:
    landed = backup()
    (key,) = [s.key for s in landed.store.list_after("_landfall/") if "/dead-letters/" in s.key]
    expired = ExpiredLetters(through=99, after=-1, before="2026-12-21T05:00:00+00:00")
    landed.store.create(expired_key("shop", "0", 99), encode_expired(expired))
    landed.store.delete(key)

    with pytest.raises(Stalled, match=r"the dead letters have expired \(its spec.badRecords"):
        landed.read(126, 160)


@pytest.mark.parametrize("output", FORMATS)
def test_an_object_with_other_rows_than_the_ledger_says_stops_the_reader(
    output: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No slice ends early in it: which of its rows is missing is not known."""
    monkeypatch.setattr(rows, "BATCH_ROWS", 2)
    monkeypatch.setattr(reader, "CHUNK_ROWS", 2)
    landed, other = backup(output), Backup({TP: [row for row in LOG if row[0] != 159]}, output)
    other.land(0, 110, 125, 126, 160).settle()
    for stat in landed.store.list_after("clicks/"):
        landed.store.overwrite(stat.key, other.store.read(stat.key) or b"")

    for start in (124, 150):
        with pytest.raises(Stalled, match=r"rows, but the ledger records 10") as e:
            landed.read(start, 160)
        assert e.value.reason is Reason.OBJECT_LOST
        assert type(pickle.loads(pickle.dumps(e.value))) is Stalled
    assert landed.read(100, 126) == within(LOG, 100, 126)


def test_who_has_transforms_or_other_formats_is_refused() -> None:
    wrong = {
        "Json does not hold offsets": backup({"format": "Json"}),
        "transforms change or leave out": backup(
            transforms=[{"use": "Filter", "options": {"where": "n > 0"}}]
        ),
        "typed columns does not hold the payloads": backup(
            PARQUET, decode={"format": "Json", "columns": [{"name": "n", "type": "Int64"}]}
        ),
    }

    for why, landed in wrong.items():
        with pytest.raises(Stalled, match=why) as stalled:
            landed.read(100, 110)
        assert stalled.value.reason is Reason.SPEC_INVALID


def test_a_range_is_read_by_the_spec_that_landed_it() -> None:
    landed = Backup({TP: LOG}).land(0, 110).settle()
    landed.open(output=PARQUET).land(110, 125).settle()
    landed.open(output={"format": "Json"}).land(125, 160).settle()

    assert landed.read(0, 125) == within(LOG, 0, 125)
    with pytest.raises(EndsEarly) as early:
        landed.read(0, 126)
    with pytest.raises(Stalled, match="Json does not hold offsets"):
        landed.read(125, 126)
    assert early.value.offset == 125


def object_of(landed: Backup, start: int) -> str:
    """The first object of the range that begins at an offset."""
    keys = (stat.key for stat in landed.store.list_after("clicks/"))
    return next(key for key in keys if object_names.origin("shop", key).start == start)
