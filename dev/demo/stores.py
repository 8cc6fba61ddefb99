"""The stores that the demo can land in: ``make demo STORE=azure``."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dev.demo.buckets import Bucket
from dev.demo.buckets.azure import AzureContainer
from dev.demo.buckets.gcs import GcsBucket
from dev.demo.buckets.hdfs import HdfsFolder
from dev.demo.buckets.s3 import S3Bucket
from dev.servers.azure import AZURE
from dev.servers.gcs import GCS
from dev.servers.hdfs import HDFS
from dev.servers.s3 import S3
from dev.servers.server import Kind


@dataclass(frozen=True)
class DemoStore:
    """A kind of store.

    Attributes:
        title: what is started.
        server: a real server of this kind, for this machine.
        create: makes a new bucket of a name there, given its address and the environment.
    """

    title: str
    server: Kind
    create: Callable[[str, str, Mapping[str, str]], Bucket]

    def bucket(self, name: str, env: Mapping[str, str]) -> Bucket:
        """A new bucket, on the server whose address is in ``env``."""
        return self.create(env[self.server.existing], name, {**os.environ, **env})


STORES: Mapping[str, DemoStore] = {
    "s3": DemoStore("S3", S3, lambda *at: S3Bucket(*at).create()),
    "azure": DemoStore("Azure Blob Storage", AZURE, lambda *at: AzureContainer(*at).create()),
    "gcs": DemoStore("Google Cloud Storage", GCS, lambda at, name, _: GcsBucket(at, name).create()),
    "hdfs": DemoStore("HDFS", HDFS, lambda at, name, _: HdfsFolder(at, name).create()),
}
"""By the demo's name for it."""
