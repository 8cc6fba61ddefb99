"""Files of other programs in a bucket of Google Cloud Storage, read by their generation.

Every read has ``ifGenerationMatch``, so that all bytes of a part are of the version that was found.
A generation is the number of a write, so it does not depend on the content: a file that is written
again with the same bytes is another version. A change of the metadata is none.
"""

from collections import Counter
from collections.abc import Iterator

from google.api_core.exceptions import (
    NotFound,
    PreconditionFailed,
    RequestRangeNotSatisfiable,
)
from google.cloud.storage import Blob

from landfall.api import spec
from landfall.errors import StoreAway
from landfall.objects import FileChanged, ListedFile
from landfall.store.gcs.client import RenewableBucket
from landfall.store.gcs.errors import is_absent, translate_errors
from landfall.store.in_order import in_order

_FIELDS = "items(name,size,generation,timeCreated),nextPageToken"
_PAGE = 1000
"""How many names Google lists at once, at most."""
_LIST = "files are listed with the permission storage.objects.list"
_GET = "files are read with the permission storage.objects.get"


class GcsFiles:
    """``SourceFiles`` under a prefix of a bucket. Thread-safe.

    Args:
        bucket: name of the bucket.
        prefix: what all names are relative to; slashes at its ends are removed. May be empty.
        settings: endpoint, credentials, timeouts.

    The ETag of a file is its generation, in decimal.
    """

    def __init__(self, bucket: str, prefix: str, settings: spec.GcsAccess) -> None:
        self.requests: Counter[str] = Counter()
        """Number of HTTP requests sent, retries included, by operation such as ``objects.get``."""
        self._root = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._url_of_root = f"gs://{bucket}/{self._root}"
        with translate_errors("connect", self._url_of_root):
            self._client = RenewableBucket(bucket, settings, self.requests)

    def __repr__(self) -> str:
        return f"GcsFiles({self._url_of_root})"

    def files(self, prefix: str = "", after: str = "") -> Iterator[ListedFile]:
        """Files in the order of their names, 1,000 per request.

        Raises:
            Stalled: STORE_UNSAFE, the bucket lists in another order.
        """
        url = self._url(prefix)
        listed = self._client.listed(
            url,
            _LIST,
            prefix=self._root + prefix,
            start_offset=self._root + after if after else None,
            fields=_FIELDS,
            page_size=_PAGE,
        )
        found = (self._listed(blob) for blob in listed)
        return in_order(found, after, url)

    def find(self, name: str) -> ListedFile | None:
        """The file as it is now, by a GET of its metadata."""

        def look() -> Blob:
            blob = self._blob(name)
            blob.reload(**self._client.how)
            return blob

        with translate_errors("look at", self._url(name), _GET):
            found = self._client.found(look)
        return found and self._listed(found)

    def read(self, file: ListedFile, start: int, end: int) -> bytes:
        """Some bytes of a version, by a ranged GET with ``ifGenerationMatch``."""
        if start >= end:
            return b""
        with translate_errors("read", self._url(file.name), _GET):
            try:
                generation, body = self._client.renewed(lambda: self._download(file, start, end))
            except (PreconditionFailed, RequestRangeNotSatisfiable) as error:
                raise FileChanged(file.name, file.etag, None) from error
            except NotFound as error:
                if is_absent(error):
                    raise FileChanged(file.name, file.etag, None) from error
                raise
        # A server that ignores the condition must not go unnoticed.
        if generation != file.etag:
            raise FileChanged(file.name, file.etag, generation)
        if len(body) != end - start:
            raise StoreAway(
                f"read {self._url(file.name)}: {len(body)} bytes from {start} on, not {end - start}"
            )
        return body

    def _download(self, file: ListedFile, start: int, end: int) -> tuple[str, bytes]:
        blob = self._blob(file.name)
        # Raw: Google would decompress an object that a user has marked as gzip.
        body: bytes = blob.download_as_bytes(
            start=start,
            end=end - 1,
            raw_download=True,
            checksum=None,
            if_generation_match=int(file.etag),
            **self._client.how,
        )
        return str(blob.generation), body

    def _blob(self, name: str) -> Blob:
        return self._client.current.blob(self._root + name)

    def _listed(self, found: Blob) -> ListedFile:
        name = found.name.removeprefix(self._root)
        return ListedFile(name, str(found.generation), found.size, found.time_created)

    def _url(self, name: str) -> str:
        return f"{self._url_of_root}{name}"
