"""Files of other programs in an S3 bucket, as the auditor reads them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from landfall.api import spec
from landfall.audit import Unchecked
from landfall.audit.buckets.s3 import S3
from landfall.audit.sources import CannotCompare, FoundFile
from landfall.store.s3.errors import code_of, translate_errors

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_OTHER_VERSION = {"404", "NoSuchKey", "NotFound", "412", "PreconditionFailed", "InvalidRange"}


@dataclass(frozen=True)
class SourceBucket:
    """``SourceFolder`` under a prefix of a bucket."""

    client: "S3Client"
    name: str
    root: str

    @classmethod
    def of(cls, bucket: str, path: str, settings: spec.S3Access) -> "SourceBucket":
        """The files below a path of the bucket."""
        opened = S3.of(bucket, path, settings)
        return cls(opened.client, bucket, opened.root)

    def files(self) -> Iterator[FoundFile]:
        """All files, by one request per thousand."""
        pages: Iterator[Any] = iter(
            self.client.get_paginator("list_objects_v2").paginate(
                Bucket=self.name, Prefix=self.root
            )
        )
        while True:
            with translate_errors("list", f"s3://{self.name}/{self.root}"):
                page = next(pages, None)
            if page is None:
                return
            for found in page.get("Contents", ()):
                name, etag = found["Key"].removeprefix(self.root), found["ETag"].strip('"')
                if name and not (name.endswith("/") and not found["Size"]):
                    yield FoundFile(name, etag, found["LastModified"])

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
