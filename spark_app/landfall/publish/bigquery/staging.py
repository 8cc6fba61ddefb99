"""Where BigQuery finds the objects: in the bucket that they landed in, or copied to another one.

A copy has a name of its own for its content: the key of the object and the CRC-32 of its bytes, as
the ledger has it. The name begins with the random id of the chains that load it, so groups of one
name in two clusters, which share a bucket, never delete each other's copies. A copy is created if
absent, which is atomic in Cloud Storage (``ifGenerationMatch=0``), so an existing copy is the right
one. The bytes are checked against the ledger before the copy is finished.
"""

import zlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from google.api_core import exceptions
from google.cloud.storage import Client

from landfall.errors import Reason, Stalled
from landfall.publish.bigquery.loads import LoadedObject
from landfall.publish.bigquery.warehouse import translated_errors
from landfall.store import Objects

if TYPE_CHECKING:
    from google.auth.credentials import Credentials

WORKERS = 4
"""Concurrent copies; each holds at most a chunk of an object."""
_CHUNK_BYTES = 8 * 2**20


@dataclass(frozen=True)
class InPlace:
    """Objects that are in a bucket already.

    Attributes:
        url: of an object, by its key.
    """

    url: Callable[[str], str]

    def uris(self, chain: str, objects: Iterable[LoadedObject]) -> list[str]:  # noqa: ARG002  # of the protocol
        """See ``Staging``."""
        return [self.url(object_.key) for object_ in objects]

    def stage(self, chain: str, objects: Iterable[LoadedObject]) -> list[str]:
        """See ``Staging``."""
        uris = self.uris(chain, objects)
        for uri in uris:
            if "*" in uri:
                raise Stalled(
                    Reason.DESTINATION_CONFLICT,
                    f"BigQuery takes * in {uri} for a wildcard: set options.staging",
                )
        return uris

    def release(self, chain: str, objects: Iterable[LoadedObject]) -> None:
        """See ``Staging``: there are no copies to delete."""


class CopiedToBucket:
    """Copies of objects under a prefix of a bucket."""

    def __init__(self, objects: Objects, bucket: "StagingBucket", *, keep: bool) -> None:
        """Copy nothing yet; ``keep`` leaves copies where they are when they are loaded."""
        self._objects = objects
        self._bucket = bucket
        self._keep = keep

    def uris(self, chain: str, objects: Iterable[LoadedObject]) -> list[str]:
        """See ``Staging``."""
        return [self._bucket.uri(_name(chain, object_)) for object_ in objects]

    def stage(self, chain: str, objects: Iterable[LoadedObject]) -> list[str]:
        """See ``Staging``."""
        with ThreadPoolExecutor(WORKERS) as pool:
            return list(pool.map(lambda each: self._stage(_name(chain, each), each), objects))

    def release(self, chain: str, objects: Iterable[LoadedObject]) -> None:
        """See ``Staging``."""
        if not self._keep:
            self._bucket.delete([_name(chain, object_) for object_ in objects])

    def _stage(self, name: str, each: LoadedObject) -> str:
        if not self._bucket.has(name):
            try:
                with self._objects.open(each.key) as stream:
                    self._bucket.create(name, _Checked(stream, each), each.size)
            except FileNotFoundError as error:
                raise Stalled(Reason.OBJECT_LOST, f"{each.key}: there is no object") from error
        return self._bucket.uri(name)


class StagingBucket:
    """A prefix of a bucket of Cloud Storage."""

    def __init__(
        self,
        url: str,
        project: str,
        credentials: "Credentials | None",
        endpoint: str = "",
        timeout: float = 60,
    ) -> None:
        """Create the client; ``url`` is ``gs://bucket/prefix``."""
        name, _, prefix = url.removeprefix("gs://").partition("/")
        options = {"api_endpoint": endpoint} if endpoint else None
        with translated_errors("credentials"):
            client: Any = Client(project, credentials, client_options=options)
        self._bucket = client.bucket(name)
        self._prefix = f"{prefix.strip('/')}/".removeprefix("/")
        self._name = name
        self._call: dict[str, Any] = {"retry": None, "timeout": timeout}

    def uri(self, name: str) -> str:
        """The URI of an object."""
        return f"gs://{self._name}/{self._prefix}{name}"

    def has(self, name: str) -> bool:
        """Return whether an object exists."""
        with translated_errors(self.uri(name)):
            return bool(self._bucket.blob(self._prefix + name).exists(**self._call))

    def create(self, name: str, body: "_Checked", size: int) -> None:
        """Create an object if there is none."""
        blob = self._bucket.blob(self._prefix + name, chunk_size=_CHUNK_BYTES)
        with translated_errors(self.uri(name)), suppress(exceptions.PreconditionFailed):
            blob.upload_from_file(
                body,
                size=size,
                content_type="application/octet-stream",
                if_generation_match=0,
                checksum="crc32c",
                **self._call,
            )

    def delete(self, names: Sequence[str]) -> None:
        """Delete objects that exist."""
        for name in names:
            with translated_errors(self.uri(name)), suppress(exceptions.NotFound):
                self._bucket.blob(self._prefix + name).delete(**self._call)


class _Checked:
    """A stream that returns its last bytes only if all of them match the ledger."""

    def __init__(self, stream: BinaryIO, each: LoadedObject) -> None:
        self._stream = stream
        self._object = each
        self._at = self._crc32 = 0

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        parts, left = [], size
        while left and (part := self._stream.read(left if left > 0 else _CHUNK_BYTES)):
            parts.append(part)
            left -= len(part) if left > 0 else 0
        body = b"".join(parts)
        self._at += len(body)
        self._crc32 = zlib.crc32(body, self._crc32)
        if self._at >= self._object.size or len(body) < size:
            self._check()
        return body

    def _check(self) -> None:
        found, expected = (self._at, self._crc32), (self._object.size, self._object.crc32)
        if found != expected:
            raise Stalled(
                Reason.OBJECT_LOST,
                f"{self._object.key}: {found[0]} bytes with CRC-32 {found[1]:08x}, but the ledger "
                f"records {expected[0]} bytes with {expected[1]:08x}",
            )


def _name(chain: str, each: LoadedObject) -> str:
    # An asterisk would be a wildcard in the URI.
    return f"{chain}/{each.crc32:08x}/{each.key.replace('%', '%25').replace('*', '%2A')}"
