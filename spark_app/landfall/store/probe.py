"""Tests at startup whether a store keeps the promises that the ledger relies on.

Several S3-compatible servers accept ``If-None-Match`` and ignore it, or check it and write a moment
later. Two drivers could then both believe that they committed. Landfall refuses to run on such a
store, rather than lose data later.

Each probe writes a few small objects to a new folder ``_landfall/_probe/0/<random>/``, and deletes
them: the right to delete slots, on ``_landfall/*/0/*``, covers them. Where a driver lacks that
right they stay, and a lifecycle rule may remove the prefix at any time. No ledger can be there, as
the name of a group cannot begin with an underscore.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier
from uuid import uuid4

from landfall.errors import LandfallError, Reason, Stalled
from landfall.objects import Upload
from landfall.store import Created, Store
from landfall.store.copying import copied
from landfall.store.lifecycle import PROBES
from landfall.store.routed import RoutedStore

PREFIX = PROBES
"""Prefix of the probes' objects."""
RACES = 4
WRITERS = 8
"""Concurrent creates per race. Even the least broken of the servers that were measured let two of
four writers win in most races.
"""
_LISTED = ("a-b", "a/b", "a0")


def probe(store: Store) -> None:
    """Return if the store keeps its promises, after a few dozen small requests in under a second.

    Raises:
        Stalled: STORE_UNSAFE, with the promise that the store broke.
        Retry: the store failed.
    """
    folder = f"{PREFIX}0/{uuid4().hex}/"
    ledger = objects = store
    if isinstance(store, RoutedStore) and store.is_apart:
        ledger, objects = store.ledger, store.objects
    try:
        _check_slots(ledger, folder)
        if objects is not ledger:
            _check_listing(objects, f"{folder}listed/")
        _check_uploads(objects, folder)
    finally:
        slots = [f"{folder}slot-{race}" for race in range(RACES)]
        listed = [f"{folder}listed/{name}" for name in _LISTED]
        _delete(ledger, [*slots, *listed])
        if objects is not ledger:
            _delete(objects, listed)


def probe_uploads(store: Store) -> None:
    """Return if the store keeps objects, as a place of dead letters must.

    Raises:
        Stalled, Retry: as ``probe``.
    """
    _check_uploads(store, f"{PREFIX}0/{uuid4().hex}/")


def probe_replacing(store: Store, name: str) -> None:
    """Return if objects can be copied and deleted, as replacing them needs.

    Asked before the first REPLACE: once one is recorded, it must be carried out. ``name`` is one
    that was never used before.

    Raises:
        StoreDenied: the store does not let it happen.
        Stalled: STORE_UNSAFE, a deleted object is still there.
        Retry: the store failed.
    """
    if isinstance(store, RoutedStore):  # the keys of probes are the ledger's, and objects retire
        store = store.objects
    key = f"{PREFIX}{name}/replaced"
    upload_id = store.begin(key, name)
    upload = Upload(key, upload_id, (store.put_part(key, upload_id, 1, b"probe"),), name)
    store.complete(upload)
    copy = copied(store=store, source=key, size=upload.size, key=f"{key}-copy", token=name)
    store.complete(copy)
    for object_ in (upload, copy):
        store.retire(object_)
        _require(store.stat(object_.key) is None, "a deleted object is still there")


def _delete(store: Store, keys: Sequence[str]) -> None:
    # Without the right to delete they stay, and cost little: nothing depends on their absence.
    with suppress(LandfallError):
        store.delete_slots(keys)


def _check_slots(store: Store, folder: str) -> None:
    for race in range(RACES):
        _check_racing_creates(store, f"{folder}slot-{race}")
    _check_taken_slot(store, f"{folder}slot-0")
    _check_listing(store, f"{folder}listed/")


def _check_uploads(store: Store, folder: str) -> None:
    _check_two_phases(store, f"{folder}object")
    _check_abort(store, f"{folder}aborted")


def _check_racing_creates(store: Store, key: str) -> None:
    # The bodies differ: with equal ones, a second winner would go unnoticed.
    bodies = [f"{key} by writer {n}".encode() for n in range(WRITERS)]
    barrier = Barrier(WRITERS)

    def create(body: bytes) -> Created:
        barrier.wait()
        return store.create(key, body)

    with ThreadPoolExecutor(WRITERS) as threads:
        answers = list(threads.map(create, bodies))
    winners = [body for body, answer in zip(bodies, answers, strict=True) if answer is Created.WON]
    found = store.read(key)
    if not winners and found in bodies:
        # The winner's response was lost, and its retry found the key taken by itself. The key holds
        # one writer's body and no other writer believes it won: that is what was promised.
        return
    _require(
        len(winners) == 1, f"{len(winners)} of {WRITERS} racing creates of one key won, not one"
    )
    _require(found == winners[0], "a create won, but its body was not what was read back")


def _check_taken_slot(store: Store, key: str) -> None:
    before = store.read(key)
    answer = store.create(key, b"too late")
    _require(
        answer is Created.TAKEN,
        "a create of an existing key was accepted: the store ignores If-None-Match",
    )
    _require(store.read(key) == before, "a create of an existing key replaced it")
    _require(
        key in {stat.key for stat in store.list_after(key)}, "a created key is not in the listing"
    )


def _check_listing(store: Store, prefix: str) -> None:
    """A store that keeps folders may list what is in one before its neighbours."""
    keys = [f"{prefix}{name}" for name in _LISTED]
    for key in reversed(keys):
        store.create(key, b"x")
    for after, expected in (("", keys), (keys[0], keys[1:]), (keys[1], keys[2:])):
        found = [stat.key for stat in store.list_after(prefix, after)]
        _require(
            found == expected, f"a listing is not in the order of keys: {found}, not {expected}"
        )


def _check_two_phases(store: Store, key: str) -> None:
    token = uuid4().hex
    upload_id = store.begin(key, token)
    upload = Upload(key, upload_id, (store.put_part(key, upload_id, 1, b"probe"),), token)
    _require(store.stat(key) is None, "an upload was visible before it was completed")
    store.complete(upload)
    store.complete(upload)  # drivers repeat completions after a crash
    found = store.stat(key)
    if found is None:
        raise _unsafe("a completed upload is not visible")
    _require(
        (found.size, found.token) == (5, token),
        "a completed object has lost its size or its metadata",
    )
    with store.open(key) as stream:
        _require(stream.read() == b"probe", "a completed object does not read back as uploaded")
    with suppress(LandfallError):
        store.retire(upload)


def _check_abort(store: Store, key: str) -> None:
    upload_id = store.begin(key, uuid4().hex)
    store.put_part(key, upload_id, 1, b"probe")
    store.abort(key, upload_id)
    still_open = upload_id in {upload.upload_id for upload in store.open_uploads(key)}
    _require(not still_open and store.stat(key) is None, "an aborted upload is still there")


def _require(condition: bool, violation: str) -> None:  # noqa: FBT001  # like an assert
    if not condition:
        raise _unsafe(violation)


def _unsafe(violation: str) -> Stalled:
    return Stalled(Reason.STORE_UNSAFE, f"this store cannot keep a ledger: {violation}")
