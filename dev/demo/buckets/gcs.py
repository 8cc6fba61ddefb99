"""A bucket of a Google Cloud Storage server, read with Google's library."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from google.auth.credentials import AnonymousCredentials
from google.cloud.storage import Client


@dataclass(frozen=True)
class DemoGcsBucket:
    """The demo's bucket, on a server that wants no credentials."""

    endpoint: str
    name: str

    @cached_property
    def client(self) -> Client:
        """A client, which all threads may share."""
        return Client(
            project="demo",
            credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call]
            client_options={"api_endpoint": self.endpoint},
        )

    def create(self) -> "DemoGcsBucket":
        """Create it."""
        self.client.create_bucket(self.name)
        return self

    def url(self, group: str) -> str:
        """The output root of a group."""
        return f"gs://{self.name}/{group}"

    def access(self) -> Mapping[str, Any]:
        """The section of ``spec.output``."""
        return {"gcs": {"endpoint": self.endpoint}}

    def secret(self) -> Mapping[str, str]:
        """None."""
        return {}

    def sizes(self, prefix: str) -> dict[str, int]:
        """The sizes of visible objects under a prefix, by name."""
        return {blob.name: blob.size for blob in self.client.list_blobs(self.name, prefix=prefix)}

    def read(self, key: str) -> bytes:
        """The bytes of an object."""
        content: bytes = self.client.bucket(self.name).blob(key).download_as_bytes()
        return content
