"""The sections that define how a store is accessed, one for each kind of store."""

from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Annotated

from pydantic import Field, model_validator

from landfall.api.pod_spec import Model
from landfall.api.spec.shared import SecretRef
from landfall.api.values import Bytes, Duration, Name, matching

SCHEMES: Mapping[str, str] = MappingProxyType(
    {"s3": "s3", "abfss": "azure", "gs": "gcs", "hdfs": "hdfs"}
)
"""The section of ``spec.output`` for each scheme of ``output.url``; ``file`` needs none."""
PLACE_SECTIONS = tuple(SCHEMES.values())
"""The sections of all stores."""
PLACE = frozenset({"url", "store", *PLACE_SECTIONS})
"""The fields of ``spec.output`` that name a store and define how it is accessed."""


def section_of(url: str) -> str:
    """The name of the section for the store of a URL; ``s3`` for one that needs none."""
    return SCHEMES.get(url.partition("://")[0], "s3")


class StoreReading(Model):
    """Fields of the sections of all stores, for files of other programs, too."""

    endpoint: str | None = None
    """URL of the server."""
    credentials_secret_ref: SecretRef | None = None
    """Secret with the credentials."""
    max_attempts: Annotated[int, Field(ge=1, le=20)] = 5
    """How often a request is attempted before the store is considered unavailable."""
    connect_timeout: Duration = timedelta(seconds=5)
    """Timeout for opening a connection."""
    read_timeout: Duration = timedelta(seconds=60)
    """Timeout for a response."""


class StoreAccess(StoreReading):
    """Fields of the sections of all stores that objects are written to."""

    part_bytes: Annotated[Bytes, Field(ge=2**20, le=4000 * 2**20)] = 16 * 2**20
    """Size of the parts that objects are uploaded in, in bytes."""


class AzureAccess(StoreReading):
    """How to access Azure Blob Storage. Without credentials here, Azure's default chain is used."""

    endpoint: (
        Annotated[
            str, matching(r"https?://\S+", "a URL such as https://logs.blob.core.windows.net")
        ]
        | None
    ) = None
    """URL of the account, if it is not in ``url``, as of an emulator."""
    credentials_secret_ref: SecretRef | None = None
    """Secret with the key ``AZURE_STORAGE_KEY``, the key of the account, or
    ``AZURE_STORAGE_SAS_TOKEN``, a shared access signature, or ``AZURE_TENANT_ID``,
    ``AZURE_CLIENT_ID`` and ``AZURE_CLIENT_SECRET``, an application's.
    """


class Azure(AzureAccess, StoreAccess):
    """How to access Azure Blob Storage. Without credentials here, Azure's default chain is used."""


class GcsAccess(StoreReading):
    """How to access Google Cloud Storage. Without credentials here, Google's default are used."""

    endpoint: (
        Annotated[str, matching(r"https?://[^/\s]+/?", "a URL such as https://storage.example.com")]
        | None
    ) = None
    """URL of another server than Google's, as of an emulator."""
    credentials_secret_ref: SecretRef | None = None
    """Secret with the key ``key.json``, the key file of a service account."""


class Gcs(GcsAccess, StoreAccess):
    """How to access Google Cloud Storage. Without credentials here, Google's default are used."""


class HdfsAccess(StoreReading):
    """How to access HDFS."""

    endpoint: (
        Annotated[str, matching(r"hdfs://[^/\s]+/?", "a URL such as hdfs://namenode:8020")] | None
    ) = None
    """URL of the name node, if it is not in ``url``."""
    credentials_secret_ref: SecretRef | None = None
    """Secret with the files of a Hadoop client, ``core-site.xml`` and ``hdfs-site.xml``, and a
    Kerberos ``keytab``.
    """
    user: Name | None = None
    """Name of the user on a cluster without Kerberos. The process's user if not set."""
    principal: Name | None = None
    """Kerberos principal that the key ``keytab`` of the Secret is for."""

    @model_validator(mode="after")
    def _principal_has_a_keytab(self) -> "HdfsAccess":
        if self.principal and not self.credentials_secret_ref:
            raise ValueError("principal needs credentialsSecretRef, a Secret with the key keytab")
        return self


class Hdfs(HdfsAccess, StoreAccess):
    """How to access HDFS."""

    part_bytes: Annotated[Bytes, Field(ge=2**20, le=4000 * 2**20)] = 128 * 2**20
    """Size of the parts that objects are uploaded in, in bytes. An object of one part is only
    renamed; several are read and written once more, by the driver.
    """
