"""Reads an S3 bucket with boto3."""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from botocore.exceptions import ClientError

from landfall_audit import Unchecked, spec
from landfall_audit.buckets import BucketFile, CannotCompare
from landfall_audit.login.s3 import code_of, s3_client, translate_errors

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_READ_BYTES = 1 << 20
_OTHER_VERSION = {"404", "NoSuchKey", "NotFound", "412", "PreconditionFailed", "InvalidRange"}


@dataclass(frozen=True)
class S3Bucket:
    """A prefix of an S3 bucket. Errors are translated to Landfall's, as in ``store.s3.errors``."""

    client: "S3Client"
    name: str
    root: str

    @classmethod
    def of(cls, bucket: str, path: str, settings: spec.S3Section) -> "S3Bucket":
        """The bucket with this name, and a prefix in it."""
        with translate_errors("connect", f"s3://{bucket}"):
            return cls(s3_client(settings), bucket, f"{path.strip('/')}/".lstrip("/"))

    def visible(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        """Keys and sizes, one request per thousand."""
        for entry in self._entries(prefix):
            yield entry["Key"].removeprefix(self.root), entry["Size"]

    def _entries(self, prefix: str) -> Iterator[Any]:
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
            yield from page.get("Contents", ())

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

    def files(self) -> Iterator[BucketFile]:
        """All files, by one request per thousand."""
        for entry in self._entries(""):
            name, etag = entry["Key"].removeprefix(self.root), entry["ETag"].strip('"')
            if name and not (name.endswith("/") and not entry["Size"]):
                yield BucketFile(name, etag, entry["LastModified"])

    def read(self, name: str, etag: str, start: int, end: int) -> bytes:
        """Some bytes of a version, by a request with its ETag."""
        if start >= end:
            return b""
        with translate_errors("read", f"s3://{self.name}/{self.root}{name}"):
            try:
                answer = self.client.get_object(
                    Bucket=self.name,
                    Key=self.root + name,
                    IfMatch=f'"{etag}"',
                    Range=f"bytes={start}-{end - 1}",
                )
                body = answer["Body"].read()
            except ClientError as error:
                if code_of(error) in _OTHER_VERSION:
                    raise CannotCompare(Unchecked.VERSION) from error
                raise
        if answer["ETag"].strip('"') != etag:
            raise CannotCompare(Unchecked.VERSION)
        return body
