"""A key is found in the index of a keyed table: its newest row, and whether the table has it."""

import random
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from landfall.errors import Reason, Stalled
from landfall.publish.keyed.newest import HasKeys, NewestRow
from tests.support.publishers.keyed import Change, Changes, KeyedLake, listed, random_changes
from tests.unit.publish.keyed.test_keyed_tables import KINDS, Make, take_step


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    return partial(KINDS[request.param], tmp_path)


def newest(lake: KeyedLake, **key: str) -> NewestRow | None:
    (table,) = lake.publisher().cursor.read().tables or ("",)
    return cast("HasKeys", lake.tables()).newest(table, key, {0: lake.ended})


def found(lake: KeyedLake) -> dict[int, tuple[int, int]]:
    """The Kafka partition and offset of each key that the table has, by its index."""
    answers = {id_: newest(lake, id=str(id_)) for id_ in range(12)}
    return {
        id_: (answer.partition, answer.offset)
        for id_, answer in answers.items()
        if answer and answer.is_shown and answer.partition is not None
    }


@pytest.mark.parametrize("seed", range(2))
def test_each_key_is_found_where_the_table_has_it(make: Make, seed: int) -> None:
    chosen, lake = random.Random(seed), make(Changes(random_changes(seed)))

    for step in range(10):
        take_step(lake, chosen, step, [])
    lake.publish()

    assert found(lake) == lake.expected() != {}


def test_a_deleted_key_is_known_and_not_shown(make: Make) -> None:
    lake = make(listed(Change(1), Change(2), Change(1, deleted=True)))
    lake.land(3)
    lake.publish()

    answers = [newest(lake, id=text) for text in ("1", "2", "3")]

    assert [a and (a.partition, a.offset, a.is_shown) for a in answers] == [
        (0, 2, False),
        (0, 1, True),
        (None, 0, False),
    ]


def test_a_row_that_another_program_deleted_is_not_shown(make: Make) -> None:
    lake = make(listed(Change(1), Change(2)))
    lake.land(2)
    lake.publish()
    lake.delete_as_others(0, 1)

    answer = newest(lake, id="2")

    assert answer is not None
    assert (answer.offset, answer.is_shown) == (1, False)


def test_the_row_of_a_former_lifetime_says_so(make: Make) -> None:
    lake = make(listed(Change(1), Change(2)))
    lake.land(2)
    lake.begin_again(lambda _, __: Change(1))
    lake.land(2)
    lake.publish()

    answers = [newest(lake, id=text) for text in ("1", "2")]

    assert [a and (a.lifetime, a.offset, a.is_shown) for a in answers] == [
        (1, 1, True),
        (0, 1, True),
    ]


def test_a_table_that_is_not_there_has_no_answer(make: Make) -> None:
    lake = make(listed(Change(1)))
    lake.land(1)
    lake.publish()
    (table,) = lake.publisher().cursor.read().tables

    assert cast("HasKeys", lake.tables()).newest(f"{table}_none", {"id": "1"}, {}) is None


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ({"name": "n"}, "the key of the table is --key id=VALUE"),
        ({"id": "1", "name": "n"}, "the key of the table is --key id=VALUE"),
        ({"id": "one"}, "--key id=one: 'one' is no int64, as the table has it"),
    ],
)
def test_a_key_of_another_kind_is_refused(make: Make, key: dict[str, str], message: str) -> None:
    lake = make(listed(Change(1)))
    lake.land(1)
    lake.publish()

    with pytest.raises(Stalled, match=message) as refused:
        newest(lake, **key)

    assert refused.value.reason is Reason.SPEC_INVALID


def test_a_lost_index_is_named(make: Make) -> None:
    lake = make(listed(Change(1)))
    lake.land(1)
    lake.publish()
    for file in lake.index.iterdir():
        file.unlink()

    with pytest.raises(Stalled, match="not there; the next pass of the publisher makes the index"):
        newest(lake, id="1")
