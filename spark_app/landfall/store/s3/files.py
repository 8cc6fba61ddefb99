"""Files of other programs in an S3 bucket: listed by name, and read by their ETag.

Every read has ``If-Match``, so that all bytes of a part are of the version that was found. An ETag
distinguishes versions by their content: a file that is written again with the same bytes is the
same one.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from botocore.exceptions import ClientError

from landfall.api import spec
from landfall.errors import StoreAway
from landfall.objects import FileChanged, ListedFile
from landfall.store.s3.client import s3_client
from landfall.store.s3.errors import code_of, status_of, translate_errors

_ABSENT = frozenset({"404", "NoSuchKey", "NotFound"})


class S3Files:
    """``SourceFiles`` under a prefix of a bucket. Thread-safe.

    Args:
        bucket: name of the bucket.
        prefix: what all names are relative to; slashes at its ends are removed. May be empty.
        settings: endpoint, credentials, timeouts.
    """

    def __init__(self, bucket: str, prefix: str, settings: spec.S3Access) -> None:
        self.requests: Counter[str] = Counter()
        """Number of HTTP requests sent, retries included, by operation such as ``GetObject``."""
        self._bucket = bucket
        self._root = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        with translate_errors("connect", f"s3://{bucket}"):
            self._client = s3_client(settings, self.requests)

    def __repr__(self) -> str:
        return f"S3Files(s3://{self._bucket}/{self._root})"

    def files(self, prefix: str = "", after: str = "") -> Iterator[ListedFile]:
        """Files in the order of their names, 1,000 per request."""
        request: dict[str, Any] = {"Bucket": self._bucket, "Prefix": self._root + prefix}
        if after:
            request["StartAfter"] = self._root + after
        pages = iter(self._client.get_paginator("list_objects_v2").paginate(**request))
        while page := self._next_page(pages, prefix):
            for entry in page.get("Contents", ()):
                name = entry["Key"].removeprefix(self._root)
                if name and not (name.endswith("/") and not entry["Size"]):
                    yield _listed(name, entry["Size"], entry)

    def _next_page(self, pages: Iterator[Any], prefix: str) -> Any:
        with translate_errors("list", self._url(prefix), _hint("s3:ListBucket")):
            return next(pages, None)

    def find(self, name: str) -> ListedFile | None:
        """The file as it is now, by a HEAD."""
        with translate_errors("look at", self._url(name), _hint("s3:GetObject")):
            try:
                found = self._client.head_object(Bucket=self._bucket, Key=self._root + name)
            except ClientError as error:
                if code_of(error) in _ABSENT:
                    return None
                raise
        return _listed(name, found["ContentLength"], found)

    def read(self, file: ListedFile, start: int, end: int) -> bytes:
        """Some bytes of a version, by a ranged GET with ``If-Match``."""
        if start >= end:
            return b""
        with translate_errors("read", self._url(file.name), _hint("s3:GetObject")):
            try:
                answer = self._client.get_object(
                    Bucket=self._bucket,
                    Key=self._root + file.name,
                    IfMatch=f'"{file.etag}"',
                    Range=f"bytes={start}-{end - 1}",
                )
                etag, body = answer["ETag"].strip('"'), answer["Body"].read()
            except ClientError as error:
                is_other = status_of(error) == 412 or code_of(error) in {*_ABSENT, "InvalidRange"}
                if is_other:
                    raise FileChanged(file.name, file.etag, None) from error
                raise
        # A server that ignores If-Match must not go unnoticed.
        if etag != file.etag:
            raise FileChanged(file.name, file.etag, etag)
        if len(body) != end - start:
            raise StoreAway(
                f"read {self._url(file.name)}: {len(body)} bytes from {start} on, not {end - start}"
            )
        return body

    def _url(self, name: str) -> str:
        return f"s3://{self._bucket}/{self._root}{name}"


def _listed(name: str, size: int, found: Any) -> ListedFile:
    return ListedFile(name, found["ETag"].strip('"'), size, found["LastModified"])


def _hint(right: str) -> Callable[[ClientError], str]:
    return lambda _: f"files are read with the right {right}"
