"""The real loop and places of dead letters, which specs name or not, and which may refuse.

``tests.model.letters`` has every order of the steps of a few slices. Here the same rules are those
of drivers, stores and their routing.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import pytest

from landfall.driver.landing.completer import Completer
from landfall.driver.landing.recovery import LostSlice
from landfall.errors import LettersAway
from landfall.ledger.names import object_names
from landfall.ledger.task_results import LandedObject
from landfall.objects import UploadLost
from landfall.store import Store
from landfall.store.routed import RoutedStore
from tests.crashes.playing import play_letters
from tests.support.examples import schedules

SCHEDULES, CHUNKS = schedules(90), 3
SEARCHED = 300
"""Schedules in one of which a broken rule must show."""


@pytest.mark.law
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_wherever_dead_letters_are_every_record_is_in_one_object(chunk: int) -> None:
    play_letters(chunk * SCHEDULES // CHUNKS, (chunk + 1) * SCHEDULES // CHUNKS)


def falls(message: str, first: int = 0) -> None:
    with pytest.raises(AssertionError, match=message) as fallen:
        play_letters(first, first + SEARCHED)
    assert "make crash-hunt LETTERS=1" in str(fallen.value)


@pytest.mark.rest
def test_dead_letters_must_not_be_completed_in_the_output_root(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @contextmanager
    def uploads_of(store: RoutedStore, _: str) -> Iterator[Store]:
        yield store.objects

    monkeypatch.setattr(RoutedStore, "_uploads_of", uploads_of)

    falls("is in place none, not in")


@pytest.mark.rest
def test_the_completion_of_dead_letters_must_not_be_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    apply: Callable[..., None] = Completer.apply

    def forgets(
        completer: Completer, slot: int, objects: Iterable[LandedObject], *, is_fresh: bool = False
    ) -> None:
        data = [o for o in objects if not object_names.letters_place(o.upload.key)]
        apply(completer, slot, data, is_fresh=is_fresh)

    monkeypatch.setattr(Completer, "apply", forgets)

    falls("missing")


@pytest.mark.rest
def test_a_place_that_refuses_has_not_lost_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def letters(store: RoutedStore, place: str, key: str) -> Iterator[Store]:
        try:
            with right(store, place, key) as found:
                yield found
        except LettersAway as error:
            raise UploadLost(str(error)) from error

    right = RoutedStore._letters
    monkeypatch.setattr(RoutedStore, "_letters", letters)

    falls("a committed upload was lost|the store lost the uploads|too many", first=360)


@pytest.mark.rest
def test_a_place_that_no_spec_names_has_not_lost_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def letters(store: RoutedStore, place: str, key: str) -> Iterator[Store]:
        if place not in store.letters:
            yield store.objects
        else:
            with right(store, place, key) as found:
                yield found

    right = RoutedStore._letters
    monkeypatch.setattr(RoutedStore, "_letters", letters)

    falls("by a spec without places")


@pytest.mark.rest
def test_what_is_made_again_goes_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LostSlice, "letters_place", "")

    falls("cannot be made again")
