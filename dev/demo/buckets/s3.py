"""A bucket of an S3 server, read with boto3."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import boto3
from botocore.config import Config
from mypy_boto3_s3 import S3Client


@dataclass(frozen=True)
class DemoS3Bucket:
    """The demo's bucket; ``env`` has the keys."""

    endpoint: str
    name: str
    env: Mapping[str, str]

    @cached_property
    def client(self) -> S3Client:
        """An S3 client, which all threads may share."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=self.env.get("AWS_ACCESS_KEY_ID"),
            aws_secret_access_key=self.env.get("AWS_SECRET_ACCESS_KEY"),
            region_name=self.env.get("AWS_DEFAULT_REGION", "us-east-1"),
            config=Config(s3={"addressing_style": "path"}, max_pool_connections=16),
        )

    def create(self) -> "DemoS3Bucket":
        """Create it."""
        self.client.create_bucket(Bucket=self.name)
        return self

    def url(self, group: str) -> str:
        """The output root of a group."""
        return f"s3://{self.name}/{group}"

    def access(self) -> Mapping[str, Any]:
        """The section of ``spec.output``; the environment has the keys."""
        return {"s3": {"endpoint": self.endpoint, "pathStyle": True}}

    def secret(self) -> Mapping[str, str]:
        """The keys, where the environment does not have them."""
        names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
        return {name: self.env[name] for name in names if name in self.env}

    def sizes(self, prefix: str) -> dict[str, int]:
        """The sizes of visible objects under a prefix, by key."""
        pages = self.client.get_paginator("list_objects_v2").paginate(
            Bucket=self.name, Prefix=prefix
        )
        return {entry["Key"]: entry["Size"] for page in pages for entry in page.get("Contents", ())}

    def read(self, key: str) -> bytes:
        """The bytes of an object."""
        return self.client.get_object(Bucket=self.name, Key=key)["Body"].read()
