"""Keeps a group's ledger and its objects together, where they are in two roots (``spec.ledger``).

Each root has a mark that names the other. So a group that names another ledger, or none, for an
output root that has one stops instead of landing everything again.
"""

import json

from landfall.api.spec import GroupSpec
from landfall.errors import Reason, Stalled
from landfall.ledger.documents import parse_document
from landfall.ledger.object_names import owner_key
from landfall.ledger.roots import LEDGER_MARK, OUTPUT_MARK
from landfall.store import Store
from landfall.store.routed import RoutedStore


def check_roots(store: Store, spec: GroupSpec) -> None:
    """Mark both roots if they are new; return if the marks name each other.

    Raises:
        Stalled: SPEC_INVALID, the output root has its ledger elsewhere, or the ledger is of another
            output root.
        Retry: a store does not answer.
    """
    if not isinstance(store, RoutedStore):
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
    _check(store, LEDGER_MARK, spec.ledger_root.url, f"the ledger of {spec.output.url}")
    _check(store, OUTPUT_MARK, spec.output.url, f"what the ledger in {spec.ledger_root.url} says")


def marked(body: bytes) -> str:
    """The URL in a mark."""
    try:
        return str(parse_document(body)["url"])
    except (ValueError, KeyError, TypeError):
        return f"a place that cannot be read from {body!r}"


def _check(store: Store, key: str, url: str, what: str) -> None:
    body = store.read(key)
    if body is None:
        store.create(key, json.dumps({"url": url.rstrip("/")}).encode())
        body = store.read(key) or b""
    if (found := marked(body)) != url.rstrip("/"):
        raise Stalled(
            Reason.SPEC_INVALID, f"spec.ledger: {what} is in {found}, not in {url}: see {key}"
        )
