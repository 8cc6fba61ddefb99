"""Files of other programs in a container of Azure Blob Storage, as the auditor reads them."""

from collections.abc import Iterator
from dataclasses import dataclass

from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobProperties, ContainerClient

from landfall.api.spec import AzureAccess
from landfall.audit import Unchecked
from landfall.audit.buckets.azure import Container
from landfall.audit.sources import CannotCompare, FoundFile
from landfall.store.azure.errors import code_of, translate_errors

_OTHER_VERSION = {"BlobNotFound", "ResourceNotFound", "ConditionNotMet", "InvalidRange"}


@dataclass(frozen=True)
class SourceContainer:
    """``SourceFolder`` under a prefix of a container."""

    client: ContainerClient
    url: str
    root: str

    @classmethod
    def of(cls, account: str, name: str, path: str, settings: AzureAccess) -> "SourceContainer":
        """The files below a path of the container."""
        opened = Container.of(account, name, path, settings)
        return cls(opened.client, f"{opened.url}/{opened.root}", opened.root)

    def files(self) -> Iterator[FoundFile]:
        """All files, by one request per five thousand."""
        listed = self.client.list_blobs(name_starts_with=self.root, include=["metadata"])
        while True:
            with translate_errors("list", self.url):
                found = next(listed, None)
            if found is None:
                return
            if not _is_folder(found):
                name = found.name.removeprefix(self.root)
                yield FoundFile(name, found.etag.strip('"'), found.last_modified)

    def read(self, name: str, etag: str, start: int, end: int) -> bytes:
        """Some bytes of a version, by requests with its ETag."""
        if start >= end:
            return b""
        with translate_errors("read", f"{self.url}{name}"):
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
    """Whether this is a directory of an account with a hierarchical namespace."""
    return (found.metadata or {}).get("hdi_isfolder") == "true"
