"""The bytes of replacement lists, and lists that are damaged or add up wrongly."""

import gzip
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from msgspec import structs

from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.replace.replacement_lists import (
    LandedAgain,
    MadeBy,
    NewObject,
    ReplacementList,
    Section,
    decode_list,
    encode_list,
    list_key,
)
from landfall.ledger.task_results import DecidedObject, LandedObject, ObjectKind
from landfall.objects import Part, Upload

TP = TopicPartition("clicks", 0)


def landed(key: str, rows: int, first: int = 0) -> LandedObject:
    upload = Upload(key, "id", (Part("e", 10 * rows),), "token")
    return LandedObject(upload, ObjectKind.DATA, rows, first, first + rows - 1, 7)


OLD = (DecidedObject(4, landed("a/1", 2)), DecidedObject(5, landed("a/2", 3, 2)))
MERGED = NewObject(landed("a/1.r7", 5), (Section(0, 2, 0, 1), Section(0, 3, 2, 4)))
LISTED = ReplacementList(OLD, (MERGED,))


def test_a_list_is_what_was_written() -> None:
    named, body = encode_list("shop", "main", LISTED)

    assert named.key == list_key("shop", "main", named.sha256)
    assert (named.retired, named.retired_rows, named.objects, named.rows) == (2, 5, 1, 5)
    assert decode_list(named, body) == LISTED
    assert encode_list("shop", "main", LISTED) == (named, body)
    assert gzip.decompress(body).splitlines()[0] == b'{"version":1,"retire":2,"objects":1}'


def test_another_list_is_refused() -> None:
    named, _ = encode_list("shop", "main", LISTED)
    _, other = encode_list("shop", "main", replace(LISTED, retire=OLD[:1]))

    with pytest.raises(ValueError, match="not the list that the ledger names"):
        decode_list(named, other)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"retired": 3}, "other numbers"),
        ({"retired_rows": 4}, "other numbers"),
        ({"objects": 2}, "other numbers"),
        ({"rows": 6}, "other numbers"),
    ],
)
def test_a_list_has_what_the_ledger_says(fields: dict[str, int], problem: str) -> None:
    named, body = encode_list("shop", "main", LISTED)

    with pytest.raises(ValueError, match=problem):
        decode_list(msgspec.structs.replace(named, **fields), body)


def test_the_list_of_what_gives_another_one_up_is_empty() -> None:
    named, body = encode_list("shop", "main", ReplacementList((), ()))

    assert (named.retired, named.objects) == (0, 0)
    assert decode_list(named, body) == ReplacementList((), ())


@pytest.mark.parametrize(
    ("listed", "problem"),
    [
        (ReplacementList(OLD[::-1], (MERGED,)), "not in the order of their keys"),
        (ReplacementList((OLD[0], OLD[0]), (MERGED,)), "one is named twice"),
        (
            ReplacementList(OLD, (replace(MERGED, sections=MERGED.sections[:1]),)),
            "its sections have 2",
        ),
        (
            ReplacementList(OLD, (NewObject(landed("a/1", 2), (Section(0, 2, 0, 1),)),)),
            "a/1 retires, and",
        ),
    ],
)
def test_wrong_lists_are_not_written(listed: ReplacementList, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        encode_list("shop", "main", listed)


PIECES = (
    LandedAgain(Slice(TP, OffsetRange(0, 4)), 2, 1, 1, 0, 40, ("a" * 64,)),
    LandedAgain(Slice(TP, OffsetRange(4, 9)), 3, 0, 0, 2, 30),
)
LETTERS = "_landfall/shop/dead-letters/clicks/2_0_00000000000000000000.r7.parquet"
DATA = "clicks/dt=1/2_0_00000000000000000000.r7.json"
AGAIN = ReplacementList(
    OLD,
    (
        NewObject(
            structs.replace(landed(LETTERS, 1), kind=ObjectKind.DEAD_LETTERS),
            (Section(0, 1, 2, 2),),
        ),
        NewObject(landed(DATA, 5), (Section(0, 2, 0, 3), Section(0, 3, 5, 8))),
    ),
    PIECES,
    MadeBy(2, "b" * 64),
)


def test_a_list_says_what_a_backfill_landed_again() -> None:
    named, body = encode_list("shop", "main", AGAIN)

    assert decode_list(named, body) == AGAIN
    head, *lines = gzip.decompress(body).splitlines()
    assert msgspec.json.decode(head)["landed_again"] == 2
    assert msgspec.json.decode(lines[-2])["dead_lettered"] == 1


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"landed_again": PIECES[:1]}, "in no range that was landed again"),
        ({"landed_again": PIECES[::-1]}, "not in order"),
        ({"landed_again": (PIECES[0], PIECES[0], PIECES[1])}, "overlap"),
        ({"objects": AGAIN.objects[:1]}, "2 records landed and 1 dead-lettered, and the objects"),
        ({"objects": AGAIN.objects[1:]}, "and the objects have 2 and 0"),
        ({"made_by": None}, "without made_by"),
        ({"landed_again": ()}, "without made_by"),
    ],
)
def test_ranges_that_were_landed_again_add_up(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        encode_list("shop", "main", replace(AGAIN, **changes))


def test_a_range_counts_all_its_offsets() -> None:
    with pytest.raises(ValueError, match="4 offsets, but landed 2"):
        replace(PIECES[0], filtered=0)


def test_a_key_needs_a_sha256() -> None:
    with pytest.raises(ValueError, match="not a SHA-256"):
        list_key("shop", "main", "abc")
