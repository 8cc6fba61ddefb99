"""Files of other programs in a container of Azure Blob Storage, read by their ETag.

Every read has ``If-Match``, so that all bytes of a part are of the version that was found. Azure's
ETag does not depend on the content: each write makes another one, also of the same bytes, and so
does a change of the metadata.
"""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError

from landfall.api import spec
from landfall.errors import StoreAway
from landfall.objects import FileChanged, ListedFile
from landfall.store.azure.client import RenewableContainer, is_folder
from landfall.store.azure.errors import code_of, translate_errors
from landfall.store.in_order import in_order

if TYPE_CHECKING:
    from azure.storage.blob import BlobProperties

_ABSENT = frozenset({"BlobNotFound", "ResourceNotFound"})
_IS_OTHER = _ABSENT | {"ConditionNotMet", "InvalidRange"}
_HINT = "files are read with the role Storage Blob Data Reader, or a signature of permissions rl"


class AzureFiles:
    """``SourceFiles`` under a prefix of a container. Thread-safe.

    Args:
        account: host name of the account, such as ``logs.dfs.core.windows.net``.
        container: name of the container.
        prefix: what all names are relative to; slashes at its ends are removed. May be empty.
        settings: endpoint, credentials, timeouts.
    """

    def __init__(
        self, account: str, container: str, prefix: str, settings: spec.AzureAccess
    ) -> None:
        self.requests: Counter[str] = Counter()
        """Number of HTTP requests sent, retries included, by operation such as ``GetBlob``."""
        self._root = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._url_of_root = f"abfss://{container}@{account}/{self._root}"
        with translate_errors("connect", self._url_of_root):
            self._client = RenewableContainer(account, container, settings, self.requests)

    def __repr__(self) -> str:
        return f"AzureFiles({self._url_of_root})"

    def files(self, prefix: str = "", after: str = "") -> Iterator[ListedFile]:
        """Files in the order of their names, 5,000 per request.

        Raises:
            Stalled: STORE_UNSAFE, the account lists in another order, as one with a hierarchical
                namespace may.
        """
        url = self._url(prefix)
        listed = self._client.listed(
            url,
            _HINT,
            name_starts_with=self._root + prefix,
            include=["metadata"],
            start_from=self._root + after if after else None,
        )
        found = (self._listed(blob) for blob in listed if not is_folder(blob))
        return in_order(found, after, url)

    def find(self, name: str) -> ListedFile | None:
        """The file as it is now, by a HEAD."""
        with translate_errors("look at", self._url(name), _HINT):
            try:
                found = self._client.renewed(
                    lambda: self._client.current.get_blob_client(
                        self._root + name
                    ).get_blob_properties()
                )
            except HttpResponseError as error:
                if code_of(error) in _ABSENT:
                    return None
                raise
        return None if is_folder(found) else self._listed(found)

    def read(self, file: ListedFile, start: int, end: int) -> bytes:
        """Some bytes of a version, by ranged GETs of 4 MiB with ``If-Match``."""
        if start >= end:
            return b""
        with translate_errors("read", self._url(file.name), _HINT):
            try:
                etag, body = self._client.renewed(lambda: self._download(file, start, end))
            except HttpResponseError as error:
                if code_of(error) in _IS_OTHER:
                    raise FileChanged(file.name, file.etag, None) from error
                raise
        # A server that ignores If-Match must not go unnoticed.
        if etag != file.etag:
            raise FileChanged(file.name, file.etag, etag)
        if len(body) != end - start:
            raise StoreAway(
                f"read {self._url(file.name)}: {len(body)} bytes from {start} on, not {end - start}"
            )
        return body

    def _download(self, file: ListedFile, start: int, end: int) -> tuple[str, bytes]:
        stream = self._client.current.get_blob_client(self._root + file.name).download_blob(
            offset=start,
            length=end - start,
            etag=f'"{file.etag}"',
            match_condition=MatchConditions.IfNotModified,
            max_concurrency=1,
        )
        return stream.properties.etag.strip('"'), stream.readall()

    def _listed(self, found: "BlobProperties") -> ListedFile:
        name = found.name.removeprefix(self._root)
        return ListedFile(name, found.etag.strip('"'), found.size, found.last_modified)

    def _url(self, name: str) -> str:
        return f"{self._url_of_root}{name}"
