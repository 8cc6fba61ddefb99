"""Opens the stores of a group: one, or two if its ledger is not in its output root."""

from landfall.api.spec import GroupSpec
from landfall.ledger import roots
from landfall.store import Store
from landfall.store.routed import RoutedStore, Routing
from landfall.store.urls import open_store


def open_stores(spec: GroupSpec) -> Store:
    """The store of a group's ledger and objects, without a request to it.

    A process needs only one.

    Raises:
        Stalled: SPEC_INVALID, there is no such store type.
        StoreDenied: credentials are missing.
    """
    objects = open_store(spec.output)
    return with_ledger(open_store(spec.ledger), objects) if spec.ledger else objects


def with_ledger(ledger: Store, objects: Store) -> Store:
    """Both as one.

    Args:
        ledger: the store of the ledger.
        objects: the store of all else.
    """
    routing = Routing(roots.is_ledger_key, roots.may_be_of_ledger, roots.may_be_of_objects)
    return RoutedStore(routing, ledger, objects)
