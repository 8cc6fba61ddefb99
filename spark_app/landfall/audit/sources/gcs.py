"""Files of other programs in a bucket of Google Cloud Storage, as the auditor reads them."""

from collections.abc import Iterator
from dataclasses import dataclass

from google.api_core.exceptions import (
    NotFound,
    PreconditionFailed,
    RequestRangeNotSatisfiable,
)
from google.cloud.storage import Bucket

from landfall.api.spec import GcsAccess
from landfall.audit import Unchecked
from landfall.audit.buckets.gcs import GcsBucket
from landfall.audit.sources import CannotCompare, FoundFile
from landfall.store.gcs.errors import is_absent, translate_errors


@dataclass(frozen=True)
class SourceGcsBucket:
    """``SourceFolder`` under a prefix of a bucket. The ETag of a file is its generation."""

    bucket: Bucket
    url: str
    root: str

    @classmethod
    def of(cls, name: str, path: str, settings: GcsAccess) -> "SourceGcsBucket":
        """The files below a path of the bucket."""
        opened = GcsBucket.of(name, path, settings)
        return cls(opened.bucket, f"{opened.url}/{opened.root}", opened.root)

    def files(self) -> Iterator[FoundFile]:
        """All files, by one request per thousand."""
        listed = iter(self.bucket.list_blobs(prefix=self.root))
        while True:
            with translate_errors("list", self.url):
                found = next(listed, None)
            if found is None:
                return
            name = found.name.removeprefix(self.root)
            yield FoundFile(name, str(found.generation), found.time_created)

    def read(self, name: str, etag: str, start: int, end: int) -> bytes:
        """Some bytes of a version, by a request with its generation."""
        if start >= end:
            return b""
        blob = self.bucket.blob(self.root + name)
        with translate_errors("read", f"{self.url}{name}"):
            try:
                # Raw: Google would decompress an object that somebody has marked as gzip.
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
