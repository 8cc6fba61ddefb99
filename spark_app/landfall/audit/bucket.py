"""Reading an output root: a listing and plain reads, with boto3 or from a folder.

Nothing is ever written.
"""

import io
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast
from urllib.parse import unquote, urlsplit

from botocore.exceptions import ClientError

from landfall.api.spec import Output
from landfall.errors import Reason, Stalled
from landfall.store.s3.client import s3_client
from landfall.store.s3.errors import code_of, translate_errors

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_READ_BYTES = 1 << 20
_STAGING = ".landfall-staging"
"""The folder in which a file store keeps what is not visible yet."""


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
            f"output.store: audit reads s3:// and file:// itself and cannot use {output.store}",
        )
    url = urlsplit(output.url)
    if url.scheme == "file":
        return Folder(Path(unquote(url.path)))
    with translate_errors("connect", f"s3://{url.netloc}"):
        return S3(
            s3_client(output.s3, Counter()), url.netloc, f"{url.path.strip('/')}/".lstrip("/")
        )


@dataclass(frozen=True)
class S3:
    """A prefix of an S3 bucket. Errors are translated to Landfall's, as in ``store.s3.errors``."""

    client: "S3Client"
    name: str
    root: str

    def visible(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        """Keys and sizes, one request per thousand."""
        pages = iter(
            self.client.get_paginator("list_objects_v2").paginate(
                Bucket=self.name, Prefix=self.root + prefix
            )
        )
        while True:
            with translate_errors("list", f"s3://{self.name}/{self.root}{prefix}"):
                page = next(pages, None)
            if page is None:
                return
            yield from (
                (found["Key"].removeprefix(self.root), found["Size"])
                for found in page.get("Contents", ())
            )

    def open(self, key: str) -> BinaryIO:
        """A stream over one GET request."""
        with translate_errors("read", f"s3://{self.name}/{self.root}{key}"):
            body = self._body(key)
        if body is None:
            raise FileNotFoundError(key)
        return cast("BinaryIO", io.BufferedReader(cast("io.RawIOBase", body), _READ_BYTES))

    def _body(self, key: str) -> object | None:
        try:
            return self.client.get_object(Bucket=self.name, Key=self.root + key)["Body"]
        except ClientError as error:
            if code_of(error) in {"NoSuchKey", "404"}:
                return None
            raise


@dataclass(frozen=True)
class Folder:
    """A folder of a file system."""

    root: Path

    def visible(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        """Paths relative to the folder and file sizes, without the staging folder."""
        found = (path for path in self.root.rglob("*") if path.is_file())
        keys = sorted(path.relative_to(self.root).as_posix() for path in found)
        for key in keys:
            if key.startswith(prefix) and not key.startswith(f"{_STAGING}/"):
                yield key, (self.root / key).stat().st_size

    def open(self, key: str) -> BinaryIO:
        """The file, opened for reading."""
        return (self.root / key).open("rb")
