"""Reads a container of Azure Blob Storage with Azure's library."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.storage.blob import BlobProperties, ContainerClient, StorageStreamDownloader

from landfall_audit import Unchecked
from landfall_audit.buckets import BucketFile, CannotCompare, stream_of
from landfall_audit.login.azure import code_of, container_client, translate_errors
from landfall_audit.spec import AzureSection

_OTHER_VERSION = {"BlobNotFound", "ResourceNotFound", "ConditionNotMet", "InvalidRange"}


@dataclass(frozen=True)
class Container:
    """A prefix of a container. Errors are translated as in ``store.azure.errors``."""

    client: ContainerClient
    url: str
    root: str

    @classmethod
    def of(cls, account: str, name: str, path: str, settings: AzureSection) -> "Container":
        """The container with this name, and a prefix in it."""
        url = f"abfss://{name}@{account}"
        with translate_errors("connect", url):
            client = container_client(account, name, settings)
        return cls(client, url, f"{path.strip('/')}/".lstrip("/"))

    def visible(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        """Names and sizes, one request per five thousand."""
        for blob in self._blobs(prefix):
            yield blob.name.removeprefix(self.root), blob.size

    def _blobs(self, prefix: str, include: list[str] | None = None) -> Iterator[BlobProperties]:
        listed = self.client.list_blobs(name_starts_with=self.root + prefix, include=include)
        while True:
            with translate_errors("list", f"{self.url}/{self.root}{prefix}"):
                blob = next(listed, None)
            if blob is None:
                return
            yield blob

    def open(self, key: str) -> BinaryIO:
        """A stream over ranged GET requests."""
        url = f"{self.url}/{self.root}{key}"
        with translate_errors("read", url):
            found = self._found(key)
        if found is None:
            raise FileNotFoundError(key)

        def read(size: int) -> bytes:
            with translate_errors("read", url):
                return found.read(size)

        return stream_of(read)

    def _found(self, key: str) -> StorageStreamDownloader[bytes] | None:
        try:
            return self.client.download_blob(self.root + key)
        except ResourceNotFoundError as error:
            if code_of(error) == "BlobNotFound":
                return None
            raise

    def files(self) -> Iterator[BucketFile]:
        """All files, by one request per five thousand."""
        for blob in self._blobs("", include=["metadata"]):
            if not _is_folder(blob):
                name = blob.name.removeprefix(self.root)
                yield BucketFile(name, blob.etag.strip('"'), blob.last_modified)

    def read(self, name: str, etag: str, start: int, end: int) -> bytes:
        """Some bytes of a version, by requests with its ETag."""
        if start >= end:
            return b""
        with translate_errors("read", f"{self.url}/{self.root}{name}"):
            try:
                answer = self.client.download_blob(
                    self.root + name,
                    offset=start,
                    length=end - start,
                    etag=f'"{etag}"',
                    match_condition=MatchConditions.IfNotModified,
                    max_concurrency=1,
                )
                body = answer.readall()
            except HttpResponseError as error:
                if code_of(error) in _OTHER_VERSION:
                    raise CannotCompare(Unchecked.VERSION) from error
                raise
        if answer.properties.etag.strip('"') != etag:
            raise CannotCompare(Unchecked.VERSION)
        return body


def _is_folder(found: BlobProperties) -> bool:
    """Return whether this is a directory of an account with a hierarchical namespace."""
    return (found.metadata or {}).get("hdi_isfolder") == "true"
