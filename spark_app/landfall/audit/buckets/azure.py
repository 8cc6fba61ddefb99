"""Reads a container of Azure Blob Storage with Azure's library."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from azure.core.exceptions import ResourceNotFoundError
from azure.storage.blob import ContainerClient, StorageStreamDownloader

from landfall.api.spec import AzureAccess
from landfall.audit.buckets.streams import stream_of
from landfall.store.azure.client import container_client
from landfall.store.azure.errors import code_of, translate_errors


@dataclass(frozen=True)
class Container:
    """A prefix of a container. Errors are translated as in ``store.azure.errors``."""

    client: ContainerClient
    url: str
    root: str

    @classmethod
    def of(cls, account: str, name: str, path: str, settings: AzureAccess) -> "Container":
        """The container with this name, and a prefix in it."""
        url = f"abfss://{name}@{account}"
        with translate_errors("connect", url):
            client = container_client(account, name, settings, Counter())
        return cls(client, url, f"{path.strip('/')}/".lstrip("/"))

    def visible(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        """Names and sizes, one request per five thousand."""
        listed = self.client.list_blobs(name_starts_with=self.root + prefix)
        while True:
            with translate_errors("list", f"{self.url}/{self.root}{prefix}"):
                found = next(listed, None)
            if found is None:
                return
            yield found.name.removeprefix(self.root), found.size

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
