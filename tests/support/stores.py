"""What tests of every store do."""

from collections.abc import Sequence

from landfall.objects import Upload
from landfall.store import Store


def uploaded(
    store: Store, key: str, parts: Sequence[bytes] = (b"body",), token: str = "token-1"
) -> Upload:
    """An upload with all its parts, not completed."""
    upload_id = store.begin(key, token)
    return Upload(
        key,
        upload_id,
        tuple(store.put_part(key, upload_id, n, b) for n, b in enumerate(parts, 1)),
        token,
    )


def content(store: Store, key: str) -> bytes:
    """An object's bytes."""
    with store.open(key) as stream:
        return stream.read()
