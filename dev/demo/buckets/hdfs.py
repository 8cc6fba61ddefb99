"""A folder of HDFS, read with a client that is not written in Java."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hdfs_native import Client


@dataclass(frozen=True)
class DemoHdfsFolder:
    """The demo's folder; ``address`` is the name node's, such as ``hdfs://127.0.0.1:8020``."""

    address: str
    name: str

    @cached_property
    def client(self) -> Client:
        """A client, which all threads may share."""
        return Client(self.address)

    def create(self) -> "DemoHdfsFolder":
        """Create it."""
        self.client.mkdirs(f"/{self.name}")
        return self

    def url(self, group: str) -> str:
        """The output root of a group."""
        return f"{self.address}/{self.name}/{group}"

    def access(self) -> Mapping[str, Any]:
        """The section of ``spec.output``: the URL is enough."""
        return {}

    def secret(self) -> Mapping[str, str]:
        """None."""
        return {}

    def sizes(self, prefix: str) -> dict[str, int]:
        """The sizes of files under a prefix that ends with a slash, by path."""
        root = f"/{self.name}/"
        if not self._exists(root + prefix):
            return {}
        return {
            file.path.removeprefix(root): file.length
            for file in self.client.list_status(root + prefix.rstrip("/"), recursive=True)
            if not file.isdir
        }

    def read(self, key: str) -> bytes:
        """The bytes of a file."""
        with self.client.read(f"/{self.name}/{key}") as stream:
            content: bytes = stream.read()
            return content

    def _exists(self, path: str) -> bool:
        try:
            self.client.get_file_info(path.rstrip("/"))
        except FileNotFoundError:
            return False
        return True
