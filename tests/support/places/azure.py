"""A new container of an Azure Blob Storage server, read and changed with Azure's own library."""

from collections.abc import Callable
from urllib.parse import urlsplit
from uuid import uuid4

from azure.core.exceptions import ResourceNotFoundError
from azure.storage.blob import BlobBlock, ContainerClient

from dev.servers.azure import KEY
from landfall.objects import Upload
from tests.support.places import Place

PREFIX = "roots/a"
"""Of the output root, in its container."""
_SECRET = "azure"
SECRETS = {_SECRET: {"AZURE_STORAGE_KEY": KEY}}


def place(address: str) -> Place:
    """A new container, and an output root in it."""
    client = ContainerClient(address, f"test-{uuid4().hex[:12]}", credential=KEY)
    client.create_container()
    account = urlsplit(address).path.strip("/")
    return Place(
        output={
            "url": f"abfss://{client.container_name}@{account}.dfs.core.windows.net/{PREFIX}",
            "azure": {"endpoint": address, "credentialsSecretRef": {"name": _SECRET}},
        },
        stamps=lambda: _stamps(client),
        uploading=lambda: _uploading(client),
        read=lambda key: client.download_blob(f"{PREFIX}/{key}").readall(),
        write=lambda key, body: _write(client, f"{PREFIX}/{key}", body),
        delete=lambda key: client.delete_blob(f"{PREFIX}/{key}"),
        lose=_lose(client),
    )


def _stamps(client: ContainerClient) -> dict[str, tuple[str, str]]:
    return {
        found.name.removeprefix(f"{PREFIX}/"): (found.etag, found.last_modified.isoformat())
        for found in client.list_blobs(name_starts_with=PREFIX)
    }


def _write(client: ContainerClient, name: str, body: bytes) -> None:
    client.upload_blob(name, body, overwrite=True)


def _uploading(client: ContainerClient) -> list[str]:
    """Blobs with blocks that belong to no version of them."""
    return sorted(
        found.name.removeprefix(f"{PREFIX}/")
        for found in client.list_blobs(name_starts_with=PREFIX, include=["uncommittedblobs"])
        if _has_uncommitted(client, found.name)
    )


def _has_uncommitted(client: ContainerClient, name: str) -> bool:
    try:
        return bool(client.get_blob_client(name).get_block_list("uncommitted")[1])
    except ResourceNotFoundError:  # completed or deleted meanwhile
        return False


def _lose(client: ContainerClient) -> Callable[[Upload], None]:
    def lose(upload: Upload) -> None:
        # A list of blocks discards all other ones of its blob, also those of other uploads.
        blob = client.get_blob_client(f"{PREFIX}/{upload.key}")
        block = f"{'lost':48}"
        blob.stage_block(block, b"x", length=1)
        blob.commit_block_list([BlobBlock(block)])
        blob.delete_blob()

    return lose
