"""``badRecords.url`` and ``formerPlaces``: what a driver may open with, what is refused."""

from types import MappingProxyType
from typing import Any

import pytest

from landfall.api.contract import ExitCode
from landfall.api.spec import GroupSpec
from landfall.driver.landing.letters_places import check_letters_places
from landfall.errors import Stalled, StoreDenied
from landfall.lane.stores import as_one
from landfall.ledger import State
from landfall.ledger.names import object_names
from landfall.ledger.offsets import Slice
from landfall.ledger.task_results import LandedObject, LandedSlice, ObjectKind
from landfall.objects import Upload
from landfall.store.memory import Call, MemoryStore, NoFaults, Operation
from landfall.store.routed import LettersStore
from landfall.task import Batch
from tests.support.driver.fakes import FakeLog, FakeRunner, driver, group
from tests.support.stores.every_store import uploaded


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


class WithLetters(FakeRunner):
    """Lands each slice as dead letters alone, in the place of the spec."""

    def _landed(self, batch: Batch, slice_: Slice, bad: int) -> LandedSlice:
        del bad
        (tp, offsets), count = (slice_.topic_partition, slice_.offsets), len(slice_.offsets)
        key = object_names.dead_letter_key(
            "fake", tp.topic, 1, tp.partition, offsets.start, place=batch.new_letters_place
        )
        upload = uploaded(self.store, key, token=batch.token)
        letters = LandedObject(
            upload, ObjectKind.DEAD_LETTERS, count, offsets.start, offsets.end - 1, 0
        )
        return LandedSlice(slice_, (letters,), 0, 0, count, 0, 4, ("bad",))


class RefusesToComplete(NoFaults):
    """Refuses the first completion."""

    is_first = True

    def before(self, call: Call) -> None:
        if call.operation is Operation.COMPLETE and self.is_first:
            self.is_first = False
            raise StoreDenied("403 AccessDenied")


def test_a_place_that_refuses_what_is_committed_is_named_and_tried_again() -> None:
    of = group(badRecords={"url": "s3://letters/clicks", "maxRatio": "1"})
    (place,) = of.spec.bad_records.places
    letters = MemoryStore(RefusesToComplete())
    known = {place.id: LettersStore(letters, "spec.badRecords.url")}
    store = as_one(MemoryStore(), letters=known)
    one = driver(of, store, FakeLog().write("a", 10), WithLetters(store))

    assert one.run() is ExitCode.OK

    assert one.counters.failures_by_reason == {"StoreDenied": 1}
    last = one.counters.last_failure
    assert last is not None
    assert last.message == "spec.badRecords.url: 403 AccessDenied"
    assert len([*letters.list_after("")]) == 1


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
