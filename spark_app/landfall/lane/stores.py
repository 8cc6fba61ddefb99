"""Opens the stores of a group as one: of its objects, its ledger, and its dead letters."""

from collections.abc import Mapping
from types import MappingProxyType

from landfall.api.spec import GroupSpec
from landfall.ledger.names import object_names, roots
from landfall.store import Store
from landfall.store.routed import LettersStore, RoutedStore, Routing
from landfall.store.urls import open_store


def open_stores(spec: GroupSpec) -> RoutedStore:
    """The store of a group's ledger and objects, without a request to it.

    A process needs only one.

    Raises:
        Stalled: SPEC_INVALID, there is no such store type.
        StoreDenied: credentials are missing.
    """
    objects = open_store(spec.output)
    ledger = open_store(spec.ledger) if spec.ledger else objects
    letters = {
        place.id: LettersStore(open_store(place), f"spec.{place.section}.url")
        for place in spec.bad_records.places
    }
    return as_one(objects, ledger, letters)


def as_one(
    objects: Store,
    ledger: Store | None = None,
    letters: Mapping[str, LettersStore] = MappingProxyType({}),
) -> RoutedStore:
    """The stores of a group as one.

    Args:
        objects: the store of all other objects.
        ledger: the store of the ledger, if that is another one.
        letters: the places of dead letters that are known, by their ids.
    """
    routing = Routing(
        is_ledgers=roots.is_ledger_key,
        ledger_may_have=roots.may_be_of_ledger,
        objects_may_have=roots.may_be_of_objects,
        place_of=object_names.letters_place,
        places_may_have=roots.may_be_of_letters,
    )
    return RoutedStore(routing, ledger or objects, objects, letters)


def with_ledger(ledger: Store, objects: Store) -> Store:
    """Both as one.

    Args:
        ledger: the store of the ledger.
        objects: the store of all else.
    """
    return as_one(objects, ledger)
