"""The demo's buckets, one module per kind of store, without any of Landfall's code.

Each is read by the client library of its store's maker.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

LEDGER = "_landfall/"
"""Folder of the ledger in an output root."""
THREADS = 16


class DemoBucket(Protocol):
    """A bucket, container or folder that only one demo uses."""

    def url(self, group: str) -> str:
        """The output root of a group, as in ``spec.output.url``."""
        ...

    def access(self) -> Mapping[str, Any]:
        """The section of ``spec.output`` by which a group reaches it."""
        ...

    def secret(self) -> Mapping[str, str]:
        """The files of the Secret that the section refers to, if any."""
        ...

    def sizes(self, prefix: str) -> dict[str, int]:
        """The sizes of visible objects under a prefix, by key."""
        ...

    def read(self, key: str) -> bytes:
        """The bytes of an object."""
        ...


def landed(bucket: DemoBucket, group: str) -> dict[str, int]:
    """The sizes of a group's data objects, by key."""
    return {
        key: size
        for key, size in bucket.sizes(f"{group}/").items()
        if not _is_hidden(key.removeprefix(f"{group}/"))
    }


def fetch(bucket: DemoBucket, group: str, folder: Path) -> None:
    """Copy a group's data objects to files of the same path."""

    def copy(key: str) -> None:
        file = folder / key
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(bucket.read(key))

    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(copy, landed(bucket, group)))


def _is_hidden(key: str) -> bool:
    """Return whether a key is the ledger's, or not visible yet to readers of the store."""
    return key.startswith((LEDGER, "."))
