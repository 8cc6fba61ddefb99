"""An S3 server for tests, and buckets whose content they inspect."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from uuid import uuid4

import boto3
from botocore.config import Config
from mypy_boto3_s3 import S3Client


@dataclass(frozen=True)
class S3Server:
    """A running S3 server; ``env`` has the variables by which a process finds it and its keys."""

    endpoint: str
    env: Mapping[str, str]

    def __str__(self) -> str:
        return self.endpoint

    @cached_property
    def client(self) -> S3Client:
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=self.env["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=self.env["AWS_SECRET_ACCESS_KEY"],
            region_name=self.env.get("AWS_DEFAULT_REGION", "us-east-1"),
            config=Config(
                s3={"addressing_style": "path"},
                retries={"total_max_attempts": 5, "mode": "standard"},
            ),
        )

    def create_bucket(self, name: str | None = None) -> "Bucket":
        name = name or f"test-{uuid4().hex[:12]}"
        self.client.create_bucket(Bucket=name)
        return Bucket(self, name)


@dataclass(frozen=True)
class Bucket:
    """A bucket that only one test uses."""

    server: S3Server
    name: str

    @property
    def url(self) -> str:
        return f"s3://{self.name}"

    @property
    def output(self) -> Mapping[str, Any]:
        """The fields of ``spec.output`` that name and access it."""
        s3 = {"endpoint": self.server.endpoint, "pathStyle": True}
        return {"url": self.url, "s3": s3}

    def keys(self, prefix: str = "") -> list[str]:
        """Every visible object's key, sorted."""
        return sorted(found["Key"] for found in self._listed(prefix))

    def sizes(self, prefix: str = "") -> dict[str, int]:
        """The size of every visible object, by key."""
        return {found["Key"]: found["Size"] for found in self._listed(prefix)}

    def _listed(self, prefix: str = "") -> Iterator[Any]:
        pages = self.server.client.get_paginator("list_objects_v2").paginate(
            Bucket=self.name, Prefix=prefix
        )
        return (found for page in pages for found in page.get("Contents", ()))

    def read(self, key: str) -> bytes:
        return self.server.client.get_object(Bucket=self.name, Key=key)["Body"].read()

    def write(self, key: str, body: bytes) -> None:
        self.server.client.put_object(Bucket=self.name, Key=key, Body=body)

    def stamps(self) -> dict[str, tuple[str, str]]:
        """The ETag and modification time of every visible object, by key: they show rewrites."""
        return {
            found["Key"]: (found["ETag"], found["LastModified"].isoformat())
            for found in self._listed()
        }

    def open_uploads(self) -> list[str]:
        """The keys of multipart uploads that are neither completed nor aborted, sorted."""
        return sorted(key for key, _ in self._uploads())

    def abort_uploads(self) -> int:
        """Abort every open upload, as a lifecycle rule does, and return how many were found."""
        found = list(self._uploads())
        for key, upload_id in found:
            with suppress(self.server.client.exceptions.NoSuchUpload):  # completed meanwhile
                self.server.client.abort_multipart_upload(
                    Bucket=self.name, Key=key, UploadId=upload_id
                )
        return len(found)

    def _uploads(self) -> Iterator[tuple[str, str]]:
        # By key alone: versitygw refuses the upload id markers that it hands out itself.
        marker = ""
        while True:
            page = self.server.client.list_multipart_uploads(Bucket=self.name, KeyMarker=marker)
            found = [(each["Key"], each["UploadId"]) for each in page.get("Uploads", ())]
            yield from found
            if not page["IsTruncated"] or not found:
                return
            marker = found[-1][0]
