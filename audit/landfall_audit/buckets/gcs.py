"""Reads a bucket of Google Cloud Storage with Google's library."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from google.api_core.exceptions import (
    NotFound,
    PreconditionFailed,
    RequestRangeNotSatisfiable,
)
from google.cloud.storage import Blob, Bucket

from landfall_audit import Unchecked
from landfall_audit.buckets import BucketFile, CannotCompare, stream_of
from landfall_audit.login.gcs import bucket_client, is_absent, translate_errors
from landfall_audit.spec import GcsSection

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
    def of(cls, name: str, path: str, settings: GcsSection) -> "GcsBucket":
        """The bucket with this name, and a prefix in it."""
        url = f"gs://{name}"
        with translate_errors("connect", url):
            bucket = bucket_client(name, settings)
        return cls(bucket, url, f"{path.strip('/')}/".lstrip("/"))

    def visible(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        """Names and sizes, one request per thousand, without parts of uploads."""
        for blob in self._blobs(prefix):
            key = blob.name.removeprefix(self.root)
            if not key.startswith(PARTS):
                yield key, blob.size

    def _blobs(self, prefix: str) -> Iterator[Blob]:
        listed = iter(self.bucket.list_blobs(prefix=self.root + prefix))
        while True:
            with translate_errors("list", f"{self.url}/{self.root}{prefix}"):
                blob = next(listed, None)
            if blob is None:
                return
            yield blob

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

    def files(self) -> Iterator[BucketFile]:
        """All files, by one request per thousand. The ETag of a file is its generation."""
        for blob in self._blobs(""):
            name = blob.name.removeprefix(self.root)
            yield BucketFile(name, str(blob.generation), blob.time_created)

    def read(self, name: str, etag: str, start: int, end: int) -> bytes:
        """Some bytes of a version, by a request with its generation."""
        if start >= end:
            return b""
        blob = self.bucket.blob(self.root + name)
        with translate_errors("read", f"{self.url}/{self.root}{name}"):
            try:
                # Raw: Google would decompress an object that a user has marked as gzip.
                body: bytes = blob.download_as_bytes(
                    start=start,
                    end=end - 1,
                    raw_download=True,
                    checksum=None,
                    if_generation_match=int(etag),
                )
            except (PreconditionFailed, RequestRangeNotSatisfiable) as error:
                raise CannotCompare(Unchecked.VERSION) from error
            except NotFound as error:
                if is_absent(error):
                    raise CannotCompare(Unchecked.VERSION) from error
                raise
        if str(blob.generation) != etag:
            raise CannotCompare(Unchecked.VERSION)
        return body
