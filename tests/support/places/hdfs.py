"""A new folder of HDFS, read and changed with the client that is not written in Java."""

from collections.abc import Iterator
from uuid import uuid4

from hdfs_native import Client, FileStatus, WriteOptions

from landfall.objects import Upload
from tests.support.places import Place

HIDDEN = ".landfall-staging"


def place(address: str) -> Place:
    """A new folder, and an output root in it."""
    client = Client(address)
    root = f"/test-{uuid4().hex[:12]}/roots/h"
    client.mkdirs(root, create_parent=True)
    return Place(
        output={"url": f"{address}{root}"},
        stamps=lambda: {
            found.path.removeprefix(f"{root}/"): (
                str(found.modification_time),
                f"{found.length}",
            )
            for found in _files(client, root)
            if HIDDEN not in found.path
        },
        uploading=lambda: _uploading(client, f"{root}/{HIDDEN}/uploads"),
        read=lambda key: _read(client, f"{root}/{key}"),
        write=lambda key, body: _write(client, f"{root}/{key}", body),
        delete=lambda key: _delete(client, f"{root}/{key}"),
        lose=lambda upload: _lose(client, root, upload),
    )


def _files(client: Client, folder: str) -> Iterator[FileStatus]:
    return (found for found in _all(client, folder) if not found.isdir)


def _all(client: Client, folder: str) -> list[FileStatus]:
    try:
        return list(client.list_status(folder, recursive=True))
    except FileNotFoundError:  # completed meanwhile
        return []


def _uploading(client: Client, uploads: str) -> list[str]:
    """The keys are paths of folders; the deepest one of each upload counts, if it has parts."""
    found = _all(client, uploads)
    ids = {each.path.removeprefix(f"{uploads}/").split("/")[0] for each in found if not each.isdir}
    return sorted({_key_of(found, f"{uploads}/{upload_id}/at/") for upload_id in ids} - {""})


def _key_of(found: list[FileStatus], at: str) -> str:
    keys = [each.path.removeprefix(at) for each in found if each.path.startswith(at)]
    return max(keys, key=len, default="")


def _read(client: Client, path: str) -> bytes:
    with client.read(path) as stream:
        content: bytes = stream.read()
        return content


def _write(client: Client, path: str, body: bytes) -> None:
    with client.create(path, WriteOptions(overwrite=True, create_parent=True)) as stream:
        if body:
            stream.write(body)


def _delete(client: Client, path: str) -> None:
    assert client.delete(path)


def _lose(client: Client, root: str, upload: Upload) -> None:
    client.delete(f"{root}/{HIDDEN}/uploads/{upload.upload_id}", recursive=True)
