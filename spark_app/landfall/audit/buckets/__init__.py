"""Reading an output root: a listing and plain reads, by the library of each kind of store.

Nothing is ever written.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Protocol
from urllib.parse import unquote

from landfall.api.spec import Output
from landfall.errors import Reason, Stalled


class Bucket(Protocol):
    """An output root that can be listed and read."""

    def visible(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        """Keys below a prefix, sorted, with their sizes in bytes."""
        ...

    def open(self, key: str) -> BinaryIO:
        """A stream of an object's bytes; FileNotFoundError if it does not exist."""
        ...


def open_bucket(output: Output) -> Bucket:
    """The output root of a group.

    Raises:
        Stalled: SPEC_INVALID, the store is loaded from a Python module.
        StoreDenied: credentials are missing.
    """
    if output.store:
        raise Stalled(
            Reason.SPEC_INVALID,
            f"output.store: audit reads Landfall's own stores and cannot use {output.store}",
        )
    scheme, _, rest = output.url.partition("://")
    host, _, path = rest.partition("/")
    # Each client library takes 0.1 to 0.5 s to import, and may not be installed.
    match scheme:
        case "s3":
            from landfall.audit.buckets.s3 import S3  # noqa: PLC0415

            return S3.of(host, path, output.s3)
        case "abfss":
            from landfall.audit.buckets.azure import Container  # noqa: PLC0415

            container, _, account = host.partition("@")
            return Container.of(account, container, path, output.azure)
        case "gs":
            from landfall.audit.buckets.gcs import GcsBucket  # noqa: PLC0415

            return GcsBucket.of(host, path, output.gcs)
        case "hdfs":
            from landfall.audit.buckets.hdfs import HdfsFolder  # noqa: PLC0415

            return HdfsFolder.of(host, unquote(path), output.hdfs)
        case "file":
            from landfall.audit.buckets.folder import Folder  # noqa: PLC0415

            return Folder(Path("/", unquote(path)))
    raise Stalled(Reason.SPEC_INVALID, f"output.url: audit cannot read {output.url}")
