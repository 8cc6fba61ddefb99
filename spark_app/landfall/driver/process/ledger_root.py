"""Keeps a group's ledger and its objects together, where they are in two roots (``spec.ledger``).

Each root has a mark that names the other. So a group that names another ledger, or none, for an
output root that has one stops instead of landing everything again.
"""

import json

from landfall.api.spec import GroupSpec
from landfall.errors import Reason, Stalled
from landfall.ledger.names.object_names import owner_key
from landfall.ledger.names.roots import LEDGER_MARK, OUTPUT_MARK
from landfall.store import Store
from landfall.store.routed import RoutedStore
from landfall.untrusted_json import parse_document


def check_roots(store: Store, spec: GroupSpec) -> None:
    """Mark both roots if they are new; return if the marks name each other.

    Raises:
        Stalled: SPEC_INVALID, the output root has its ledger elsewhere, or the ledger is of another
            output root.
        Retry: a store does not answer.
    """
    check_marks(store, spec)
    if isinstance(store, RoutedStore) and store.is_apart:
        for key, url, _ in _marks(spec):
            if store.read(key) is None:
                store.create(key, json.dumps({"url": url.rstrip("/")}).encode())
        check_marks(store, spec)


def check_marks(store: Store, spec: GroupSpec) -> None:
    """Return if the existing marks name each other. Raises as ``check_roots``."""
    if not isinstance(store, RoutedStore) or not store.is_apart:
        if body := store.read(LEDGER_MARK):
            raise Stalled(
                Reason.SPEC_INVALID,
                f"spec.ledger: the ledger of {spec.output.url} is in {marked(body)}: name it",
            )
        return
    if store.objects.read(owner_key()) is not None:
        raise Stalled(
            Reason.SPEC_INVALID,
            f"spec.ledger: {spec.output.url} has a ledger of its own, under _landfall/: leave out "
            "spec.ledger, or choose another output root",
        )
    for key, url, what in _marks(spec):
        body = store.read(key)
        if body is not None and (found := marked(body)) != url.rstrip("/"):
            raise Stalled(
                Reason.SPEC_INVALID, f"spec.ledger: {what} is in {found}, not in {url}: see {key}"
            )


def marked(body: bytes) -> str:
    """Return the URL in a mark."""
    try:
        return str(parse_document(body)["url"])
    except (ValueError, KeyError, TypeError):
        return f"a place that cannot be read from {body!r}"


def _marks(spec: GroupSpec) -> tuple[tuple[str, str, str], ...]:
    """The marks of both roots: key, the URL that it must hold, and what that is, for messages."""
    output, ledger = spec.output.url, spec.ledger_root.url
    return (
        (LEDGER_MARK, ledger, f"the ledger of {output}"),
        (OUTPUT_MARK, output, f"the output of the ledger in {ledger}"),
    )
