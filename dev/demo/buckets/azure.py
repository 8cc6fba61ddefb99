"""A container of an Azure Blob Storage server, read with Azure's library."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from azure.core.credentials import AzureNamedKeyCredential
from azure.storage.blob import ContainerClient

SECRET = "azure"  # noqa: S105  # the name of a Secret
_KEY = "AZURE_STORAGE_KEY"


@dataclass(frozen=True)
class DemoAzureContainer:
    """The demo's container; ``env`` has the key of the account."""

    endpoint: str
    name: str
    env: Mapping[str, str]

    @cached_property
    def client(self) -> ContainerClient:
        """A client, which all threads may share."""
        # Without its name, the library finds the account only in some URLs.
        key = AzureNamedKeyCredential(self._account, self.env[_KEY])
        return ContainerClient(self.endpoint, self.name, credential=key)

    def create(self) -> "DemoAzureContainer":
        """Create it."""
        self.client.create_container()
        return self

    def url(self, group: str) -> str:
        """The output root of a group."""
        return f"abfss://{self.name}@{self._account}.dfs.core.windows.net/{group}"

    @property
    def _account(self) -> str:
        """The name of the account, which is the path of an emulator's URL."""
        return urlsplit(self.endpoint).path.strip("/")

    def access(self) -> Mapping[str, Any]:
        """The section of ``spec.output``."""
        return {
            "azure": {"endpoint": self.endpoint, "credentialsSecretRef": {"name": SECRET}},
        }

    def secret(self) -> Mapping[str, str]:
        """The key of the account."""
        return {_KEY: self.env[_KEY]}

    def sizes(self, prefix: str) -> dict[str, int]:
        """The sizes of visible blobs under a prefix, by name."""
        return {blob.name: blob.size for blob in self.client.list_blobs(name_starts_with=prefix)}

    def read(self, key: str) -> bytes:
        """The bytes of a blob."""
        return self.client.download_blob(key).readall()
