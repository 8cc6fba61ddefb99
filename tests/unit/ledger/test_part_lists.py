"""Lists of parts of files: what they hold, and that nothing else is taken for one."""

import gzip
import json
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from landfall.ledger import PartList, digest
from landfall.ledger.feeds import MAX_LISTED, SPAN
from landfall.ledger.feeds.part_lists import ListedPart, decode_list, encode_list, list_key
from landfall.ledger.names import object_names

NEW = ListedPart("in/a.json", "e1", 10, 1_763_700_000_000, 0, 10)
FIRST_HALF = ListedPart("in/b.csv", "e2", 8, 1_763_700_000_001, 0, 4)
SECOND_HALF = ListedPart("in/b.csv", "e2", 8, 1_763_700_000_001, 4, 8)
AGAIN = ListedPart("in/c.csv", "e3", 5, 1_763_700_000_002, 0, 5, former=3, attempt=2, skip=100)
ALL = (NEW, FIRST_HALF, SECOND_HALF, AGAIN)


def listed(*parts: ListedPart, first: int = 7) -> tuple[PartList, bytes]:
    return encode_list("g", "0", "feed", first, parts)


def changed(part: ListedPart, **fields: Any) -> ListedPart:
    return msgspec.structs.replace(part, **fields)


def test_a_list_holds_its_parts_and_says_what_they_are() -> None:
    named, body = listed(*ALL)

    assert decode_list("feed", named, body) == ALL
    assert (named.first, named.end, named.files, named.bytes) == (7, 11, 3, 23)
    assert named.sha256 == digest(body)


def test_it_is_text_that_can_be_read() -> None:
    _, body = listed(FIRST_HALF, AGAIN)

    assert [json.loads(line) for line in gzip.decompress(body).splitlines()] == [
        {"version": 1, "topic": "feed", "first": 7, "parts": 2},
        ["in/b.csv", "e2", 8, 1_763_700_000_001, 0, 4, -1, 0, 0],
        ["in/c.csv", "e3", 5, 1_763_700_000_002, 0, 5, 3, 2, 100],
    ]


def test_the_same_parts_are_the_same_bytes() -> None:
    assert listed(*ALL) == listed(*ALL)


def test_its_key_has_its_first_number_and_its_digest() -> None:
    named, _ = listed(*ALL)

    assert named.key == (
        f"_landfall/g/0-files/feed/00000000000000000007-{named.sha256[:16]}.json.gz"
    )
    assert not named.key.startswith(object_names.ledger_prefix("g", "0"))


@pytest.mark.parametrize(
    ("group", "lane", "topic", "first", "sha256"),
    [
        ("G", "0", "feed", 0, "0" * 64),
        ("g", "0-files", "feed", 0, "0" * 64),
        ("g", "0", "a/b", 0, "0" * 64),
        ("g", "0", "feed", -1, "0" * 64),
        ("g", "0", "feed", 0, "0" * 63),
    ],
)
def test_a_key_of_wrong_names_is_refused(
    group: str, lane: str, topic: str, first: int, sha256: str
) -> None:
    with pytest.raises(ValueError, match=r"not a|not the"):
        list_key(group, lane, topic, first, sha256)


@pytest.mark.parametrize(
    "part",
    [
        changed(NEW, end=11),
        changed(NEW, start=-1),
        changed(NEW, start=5, end=5),
        changed(NEW, start=6, end=4),
        changed(NEW, former=2),
        changed(NEW, attempt=1),
        changed(NEW, skip=1),
        changed(AGAIN, former=7),
        changed(AGAIN, attempt=0),
        changed(AGAIN, skip=SPAN),
        changed(AGAIN, skip=-1),
    ],
)
def test_what_is_no_part_is_not_listed(part: ListedPart) -> None:
    with pytest.raises(ValueError, match="number 7 is no part of a file"):
        listed(part)


@pytest.mark.parametrize("name", ["", "é" * 513, "\ud800"])
def test_what_is_no_name_is_not_listed(name: str) -> None:
    with pytest.raises(ValueError, match=r"^feed: number 7: .*name"):
        listed(changed(NEW, name=name))


def test_the_longest_name_is_listed() -> None:
    long = changed(NEW, name="😀" * 256)

    named, body = listed(long)

    assert decode_list("feed", named, body) == (long,)


def test_the_part_of_an_empty_file_is_empty() -> None:
    empty = changed(NEW, size=0, end=0)

    named, body = listed(empty)

    assert (named.files, named.bytes) == (1, 0)
    assert decode_list("feed", named, body) == (empty,)


@pytest.mark.parametrize("count", [0, MAX_LISTED + 1])
def test_a_list_is_neither_empty_nor_too_long(count: int) -> None:
    with pytest.raises(ValueError, match=f"a list of {count} parts"):
        listed(*[NEW] * count)


@dataclass(frozen=True)
class Damage:
    """Bytes in the place of a list, and what they are said to be."""

    body: bytes
    message: str


def written(*lines: object) -> bytes:
    return gzip.compress(b"".join(json.dumps(line).encode() + b"\n" for line in lines), mtime=0)


HEAD = {"version": 1, "topic": "feed", "first": 7, "parts": 1}
LINE = ["in/a.json", "e1", 10, 1_763_700_000_000, 0, 10]


@pytest.mark.parametrize(
    "damage",
    [
        Damage(b"", "not a list of parts"),
        Damage(b"no gzip", "not a list of parts"),
        Damage(written(HEAD, LINE)[:-4], "cut off"),
        Damage(written(HEAD, LINE) + b"x", "more after it"),
        Damage(written(), "not a list of parts"),
        Damage(written({**HEAD, "version": 2}, LINE), "of version 2, this software knows 1"),
        Damage(written({**HEAD, "more": 1}, LINE), "not a list of parts"),
        Damage(written(HEAD, [*LINE, -1, 0, 0, "more"]), "not a list of parts"),
        Damage(written({**HEAD, "topic": "other"}, LINE), "the ledger records"),
        Damage(written({**HEAD, "first": 8}, LINE), "the ledger records"),
        Damage(written({**HEAD, "parts": 2}, LINE), "the ledger records"),
        Damage(written(HEAD, LINE, LINE), "the ledger records"),
        Damage(written(HEAD, [*LINE[:5], 9]), "the ledger records"),
        Damage(written(HEAD, ["", *LINE[1:]]), "number 7: a name of 0 bytes"),
        Damage(written(HEAD, [*LINE[:4], 10, 10]), "the ledger records"),
    ],
    ids=lambda damage: damage.message,
)
def test_other_bytes_are_not_taken_for_a_list(damage: Damage) -> None:
    named = PartList("the key", digest(damage.body), 7, 8, 1, 10)

    with pytest.raises(ValueError, match="the key: ") as refused:
        decode_list("feed", named, damage.body)

    assert damage.message in str(refused.value)


def test_bytes_of_another_digest_are_refused() -> None:
    named, _ = listed(*ALL)
    _, other = listed(NEW)

    with pytest.raises(ValueError, match="not the list that the ledger names"):
        decode_list("feed", named, other)


SIZES = st.integers(1, 2**50)
FILES = st.builds(
    lambda name, etag, size, modified: ListedPart(name, etag, size, modified, 0, size),
    st.text(min_size=1, max_size=40),
    st.text(max_size=40),
    SIZES,
    st.integers(0, 2**45),
)


@given(st.lists(FILES, min_size=1, max_size=20), st.integers(0, 10**9))
def test_any_names_come_back(parts: list[ListedPart], first: int) -> None:
    named, body = listed(*parts, first=first)

    assert decode_list("feed", named, body) == tuple(parts)
    assert named.end - named.first == len(parts)
