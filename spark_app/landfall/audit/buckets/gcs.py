"""Reads a bucket of Google Cloud Storage with Google's library."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from google.api_core.exceptions import NotFound
from google.cloud.storage import Blob, Bucket

from landfall.api.spec import GcsAccess
from landfall.audit.buckets.streams import stream_of
from landfall.store.gcs.client import bucket_client
from landfall.store.gcs.errors import is_absent, translate_errors

PARTS = "_landfall/_parts/"
"""Prefix of what is being uploaded."""
_READ_BYTES = 8 << 20


@dataclass(frozen=True)
class GcsBucket:
    """A prefix of a bucket. Errors are translated as in ``store.gcs.errors``."""

    bucket: Bucket
    url: str
    root: str

    @classmethod
    def of(cls, name: str, path: str, settings: GcsAccess) -> "GcsBucket":
        """The bucket with this name, and a prefix in it."""
        url = f"gs://{name}"
        with translate_errors("connect", url):
            bucket = bucket_client(name, settings, Counter())
        return cls(bucket, url, f"{path.strip('/')}/".lstrip("/"))

    def visible(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        """Names and sizes, one request per thousand, without parts of uploads."""
        listed = iter(self.bucket.list_blobs(prefix=self.root + prefix))
        while True:
            with translate_errors("list", f"{self.url}/{self.root}{prefix}"):
                found = next(listed, None)
            if found is None:
                return
            key = found.name.removeprefix(self.root)
            if not key.startswith(PARTS):
                yield key, found.size

    def open(self, key: str) -> BinaryIO:
        """A stream over ranged GET requests."""
        url = f"{self.url}/{self.root}{key}"
        blob = self.bucket.blob(self.root + key)
        with translate_errors("read", url):
            is_there = self._exists(blob)
        if not is_there:
            raise FileNotFoundError(key)
        reader = blob.open("rb", chunk_size=_READ_BYTES, raw_download=True)

        def read(size: int) -> bytes:
            with translate_errors("read", url):
                data: bytes = reader.read(size)
                return data

        return stream_of(read)

    def _exists(self, blob: Blob) -> bool:
        try:
            blob.reload()
        except NotFound as error:
            if is_absent(error):
                return False
            raise
        return True
