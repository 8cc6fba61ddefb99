"""Helpers for tests of every store."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from landfall.api import spec
from landfall.api.spec import SecretRef
from landfall.objects import Upload, UploadLost
from landfall.store import Store
from landfall.store.s3.store import S3Store
from tests.support.stores.s3 import Bucket

UNUSUAL_KEYS = sorted(
    [
        "a",
        "a-b/c",
        "a/b",
        "a/b c",
        "a/b+c",
        "a/ä/ö",
        "a/日本/ﬀ",
        "a/dt=2026-11-21/hr=04/1_0_00000000000000000007.json.gz",
        "a/100%25",
        "a/%2F",
        "a/q?x=1&y=2#z",
        "a/'\"<>&",
        "a/*",
        "a0/b",
        "b/~!@$^(){}[],;:",
    ]
)
"""Keys with every kind of character that a URL, a file system or XML treats specially."""


@dataclass(frozen=True)
class StoreUnderTest:
    """A store, and how someone other than Landfall deletes an object or discards an upload."""

    store: Store
    delete: Callable[[str], None]
    discard: Callable[[Upload], None] | None = None
    """Without it, uploads are aborted."""
    refused: str = ""
    """Characters that no key may have."""

    def unusual_keys(self) -> list[str]:
        """The keys with special characters that this store takes."""
        return [key for key in UNUSUAL_KEYS if not set(self.refused) & set(key)]

    def lose(self, upload: Upload) -> None:
        """Discard an upload that is not completed."""
        if self.discard:
            self.discard(upload)
        else:
            self.store.abort(upload.key, upload.upload_id)


def uploaded(
    store: Store, key: str, parts: Sequence[bytes] = (b"body",), token: str = "token-1"
) -> Upload:
    """An upload whose parts are all uploaded, and which is not completed."""
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


class PatientStore(S3Store):
    """Looks again at an upload that seems lost, as a driver does."""

    def complete(self, upload: Upload, *, is_fresh: bool = False) -> None:
        for pause in self.pauses_before_lost:
            try:
                return super().complete(upload, is_fresh=is_fresh)
            except UploadLost:
                time.sleep(pause)
        return super().complete(upload)


def s3_store(
    bucket: Bucket, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **changes: Any
) -> S3Store:
    secret = tmp_path / "secrets" / "s3"
    secret.mkdir(parents=True, exist_ok=True)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        (secret / name).write_text(bucket.server.env[name] + "\n")
    monkeypatch.setenv("LANDFALL_SECRETS", str(secret.parent))
    settings = spec.S3(
        endpoint=bucket.server.endpoint,
        path_style=True,
        credentials_secret_ref=SecretRef(name="s3"),
        **changes,
    )
    return PatientStore(bucket.name, prefix, settings, pauses=(0.05, 0.1, 0.2, 0.4, 0.8, 1.6))


def concurrently(*calls: Callable[[], Any]) -> list[Any]:
    """The results of the calls, all started at the same moment."""
    barrier = Barrier(len(calls))

    def run(call: Callable[[], Any]) -> Any:
        barrier.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(run, calls))
