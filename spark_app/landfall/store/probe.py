"""Whether a store does what the ledger stands on, asked before anything is landed.

Several S3 servers accept ``If-None-Match`` and ignore it, or check it and write a moment later: two
drivers would then both believe that they committed. Such a store is refused here, not found out by
lost data.

Each probe takes a fresh folder ``_landfall/_probe/<unique>/`` and leaves its few small objects
there, since a store of ours cannot delete: a lifecycle rule may remove that prefix at any time. A
group's ledger cannot be there, as no group's name begins with an underscore.
"""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from uuid import uuid4

from landfall.errors import Reason, Stalled
from landfall.objects import Upload
from landfall.store import Created, Store

PREFIX = "_landfall/_probe/"
"""Where probes leave their objects."""
ROUNDS = 4
WRITERS = 8
"""Racing creates per round. Of the broken servers measured, the best still let two win in most
rounds of four writers.
"""


def probe(store: Store) -> None:
    """Try the store's promises on it; return if it kept them. A few dozen small requests, well under a second.

    Raises:
        Stalled: STORE_UNSAFE, with the promise it broke.
        Retry: the store could not answer.
    """
    folder = f"{PREFIX}{uuid4().hex}/"
    for round_ in range(ROUNDS):
        _one_of_racing_creates_wins(store, f"{folder}slot-{round_}")
    _a_taken_slot_stays(store, f"{folder}slot-0")
    _uploads_have_two_phases(store, f"{folder}object")
    _an_aborted_upload_is_gone(store, f"{folder}aborted")


def _one_of_racing_creates_wins(store: Store, key: str) -> None:
    # Different bodies: equal ones would hide a second winner.
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
        # An answer was lost on the way and asked for again: the key is one writer's, and nobody
        # believes otherwise wrongly.
        return
    _demand(
        len(winners) == 1, f"{len(winners)} of {WRITERS} racing creates of one key won, not one"
    )
    _demand(found == winners[0], "a create won, but its body was not what was read back")


def _a_taken_slot_stays(store: Store, key: str) -> None:
    before = store.read(key)
    answer = store.create(key, b"too late")
    _demand(
        answer is Created.TAKEN,
        "a create of an existing key was accepted: the store ignores If-None-Match",
    )
    _demand(store.read(key) == before, "a create of an existing key replaced it")
    _demand(
        key in {found.key for found in store.list_after(key)}, "a created key is not in the listing"
    )


def _uploads_have_two_phases(store: Store, key: str) -> None:
    token = uuid4().hex
    upload_id = store.begin(key, token)
    upload = Upload(key, upload_id, (store.put_part(key, upload_id, 1, b"probe"),), token)
    _demand(store.stat(key) is None, "an upload was visible before it was completed")
    store.complete(upload)
    store.complete(upload)
    found = store.stat(key)
    if found is None:
        raise _unsafe("a completed upload is not visible")
    _demand(
        (found.size, found.token) == (5, token),
        "a completed object has lost its size or its metadata",
    )
    with store.open(key) as stream:
        _demand(stream.read() == b"probe", "a completed object does not read back as uploaded")


def _an_aborted_upload_is_gone(store: Store, key: str) -> None:
    upload_id = store.begin(key, uuid4().hex)
    store.put_part(key, upload_id, 1, b"probe")
    store.abort(key, upload_id)
    still_open = upload_id in {upload.upload_id for upload in store.open_uploads(key)}
    _demand(not still_open and store.stat(key) is None, "an aborted upload is still there")


def _demand(kept: bool, broken: str) -> None:  # noqa: FBT001  # reads as a sentence
    if not kept:
        raise _unsafe(broken)


def _unsafe(broken: str) -> Stalled:
    return Stalled(Reason.STORE_UNSAFE, f"this store cannot keep a ledger: {broken}")
