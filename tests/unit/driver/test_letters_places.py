"""``badRecords.url`` and ``formerPlaces``: what a driver may open with, what is refused."""

from types import MappingProxyType
from typing import Any

import pytest

from landfall.api.spec import GroupSpec
from landfall.driver.letters_places import check_letters_places
from landfall.errors import Stalled
from landfall.ledger import State, object_names
from landfall.ledger.task_results import LandedObject, ObjectKind
from landfall.objects import Upload
from tests.support.fakes import group


def spec(**bad: Any) -> GroupSpec:
    return group(badRecords=bad).spec


def due(place: str) -> State:
    key = object_names.dead_letter_key("fake", "a", 1, 0, 0, place=place)
    letters = LandedObject(Upload(key, "id", (), "token"), ObjectKind.DEAD_LETTERS, 1, 0, 0, 0)
    return State(seq=7, applied_through=6, unapplied=MappingProxyType({7: (letters,)}))


def test_what_is_due_must_be_in_a_place_that_the_spec_names() -> None:
    named = spec(url="s3://letters/clicks")
    (place,) = named.bad_records.places

    check_letters_places(due(place.id), named)
    check_letters_places(due(place.id), spec(formerPlaces=[{"url": "s3://letters/clicks/"}]))
    check_letters_places(due(""), spec())
    check_letters_places(State(), spec())
    with pytest.raises(Stalled, match=rf"spec\.badRecords: .* in place {place.id}.*: name it"):
        check_letters_places(due(place.id), spec(url="s3://other/clicks"))


def test_another_server_is_another_place_and_a_backfill_is_in_its_own() -> None:
    s3 = {"endpoint": "http://minio:9000"}
    (one,) = spec(url="s3://letters/clicks").bad_records.places
    (other,) = spec(url="s3://letters/clicks", s3=s3).bad_records.places
    (side,) = spec(url="s3://letters/clicks/_landfall/fake/side/fix").bad_records.places

    assert one.id == side.id != other.id


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ({"url": "ftp://x"}, "url is none of"),
        ({"s3": {"endpoint": "http://minio:9000"}}, "s3: url is not set"),
        ({"url": "s3://x/y", "formerPlaces": [{"url": "s3://x/y"}]}, "named twice: s3://x/y"),
        ({"url": "s3://x/y", "formerPlaces": [{"url": "s3://x/y/z"}]}, "must not be in each other"),
    ],
)
def test_a_spec_with_places_that_contradict_is_refused(bad: dict[str, Any], why: str) -> None:
    with pytest.raises(Stalled, match=why):
        spec(**bad)
