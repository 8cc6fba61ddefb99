"""Copies visible objects into new uploads, part by part."""

from contextlib import suppress

from landfall.errors import LandfallError, Reason, Retry, Stalled
from landfall.objects import Part, Upload
from landfall.store import Slots, Store

PART_BYTES = 32 << 20
"""Size of every part but the last. As much is in memory where a store cannot copy by itself."""


def copied(store: Store, source: str, size: int, key: str, token: str) -> Upload:
    """Begin an upload of ``key`` and copy all of a visible object into it; it is not completed.

    If that fails, what was begun is discarded where the store can.

    Args:
        store: has both objects.
        source: key of the object to copy.
        size: its size in bytes, as it was recorded.
        key: key of the object that the upload is to make.
        token: what that object will carry.

    Raises:
        FileNotFoundError: there is no object ``source``.
        Stalled: OBJECT_LOST, it has another size.
    """
    found = store.stat(source)
    if found is None:
        raise FileNotFoundError(source)
    if found.size != size:
        raise Stalled(Reason.OBJECT_LOST, f"copy {source}: {found.size} bytes, not {size}")
    return copied_unseen(store=store, source=source, size=size, key=key, token=token)


def copied_unseen(store: Store, source: str, size: int, key: str, token: str) -> Upload:
    """Do as ``copied``, of an object whose size the caller has just looked up.

    Raises:
        FileNotFoundError: there is no object ``source`` any more.
    """
    upload_id = store.begin(key, token)
    try:
        return Upload(key, upload_id, _parts(store, source, size, (key, upload_id)), token)
    except (LandfallError, FileNotFoundError):
        with suppress(LandfallError):
            store.abort(key, upload_id)
        raise


def _parts(store: Store, source: str, size: int, into: tuple[str, str]) -> tuple[Part, ...]:
    if not size:  # no range has no bytes
        return (store.put_part(*into, 1, b""),)
    step = max(PART_BYTES, store.least_part_bytes)
    return tuple(
        store.put_copy(*into, number, source, start, min(step, size - start))
        for number, start in enumerate(range(0, size, step), 1)
    )


def read_exactly(slots: Slots, source: str, start: int, length: int) -> bytes:
    """The bytes of a part to copy, for stores that cannot copy it themselves.

    Raises:
        FileNotFoundError: there is no such object.
        Retry: it has fewer bytes.
    """
    body = slots.read_range(source, start, length)
    if body is None:
        raise FileNotFoundError(source)
    if len(body) != length:
        raise Retry(f"copy {source}: {len(body)} bytes from {start} on, not {length}")
    return body
