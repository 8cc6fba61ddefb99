"""The stores that the demo can land in: ``make demo STORE=azure``."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dev.demo.buckets import DemoBucket
from dev.demo.buckets.azure import DemoAzureContainer
from dev.demo.buckets.gcs import DemoGcsBucket
from dev.demo.buckets.hdfs import DemoHdfsFolder
from dev.demo.buckets.s3 import DemoS3Bucket
from dev.servers.azure import AZURE
from dev.servers.gcs import GCS
from dev.servers.hdfs import HDFS
from dev.servers.s3 import S3
from dev.servers.server import ServerKind


@dataclass(frozen=True)
class DemoStore:
    """A kind of store.

    Attributes:
        title: what is started.
        server: a real server of this kind, for this machine.
        create: makes a new bucket of a name there, given its address and the environment.
    """

    title: str
    server: ServerKind
    create: Callable[[str, str, Mapping[str, str]], DemoBucket]

    def bucket(self, name: str, env: Mapping[str, str]) -> DemoBucket:
        """A new bucket, on the server whose address is in ``env``."""
        return self.create(env[self.server.existing], name, {**os.environ, **env})


STORES: Mapping[str, DemoStore] = {
    "s3": DemoStore("S3", S3, lambda *at: DemoS3Bucket(*at).create()),
    "azure": DemoStore("Azure Blob Storage", AZURE, lambda *at: DemoAzureContainer(*at).create()),
    "gcs": DemoStore(
        "Google Cloud Storage", GCS, lambda at, name, _: DemoGcsBucket(at, name).create()
    ),
    "hdfs": DemoStore("HDFS", HDFS, lambda at, name, _: DemoHdfsFolder(at, name).create()),
}
"""By the demo's name for it."""
