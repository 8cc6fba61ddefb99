"""The bytes of replacement lists, and lists that are damaged or add up wrongly."""

import gzip
from dataclasses import replace

import msgspec
import pytest

from landfall.ledger.replacement_lists import (
    NewObject,
    Replaced,
    RetiringObject,
    Section,
    decode_list,
    encode_list,
    list_key,
)
from landfall.ledger.task_results import LandedObject, ObjectKind
from landfall.objects import Part, Upload


def landed(key: str, rows: int, first: int = 0) -> LandedObject:
    upload = Upload(key, "id", (Part("e", 10 * rows),), "token")
    return LandedObject(upload, ObjectKind.DATA, rows, first, first + rows - 1, 7)


OLD = (RetiringObject(4, landed("a/1", 2)), RetiringObject(5, landed("a/2", 3, 2)))
MERGED = NewObject(landed("a/1.r7", 5), (Section(0, 2, 0, 1), Section(0, 3, 2, 4)))
LISTED = Replaced(OLD, (MERGED,))


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


@pytest.mark.parametrize(
    ("listed", "problem"),
    [
        (Replaced((), ()), "0 objects and 0 in their place"),
        (Replaced(OLD[::-1], (MERGED,)), "not in the order of their keys"),
        (Replaced((OLD[0], OLD[0]), (MERGED,)), "one is named twice"),
        (Replaced(OLD, (replace(MERGED, sections=MERGED.sections[:1]),)), "its sections have 2"),
        (Replaced(OLD, (NewObject(landed("a/1", 2), (Section(0, 2, 0, 1),)),)), "a/1 retires, and"),
    ],
)
def test_wrong_lists_are_not_written(listed: Replaced, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        encode_list("shop", "main", listed)


def test_a_key_needs_a_sha256() -> None:
    with pytest.raises(ValueError, match="not a SHA-256"):
        list_key("shop", "main", "abc")
