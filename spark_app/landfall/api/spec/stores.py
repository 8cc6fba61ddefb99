"""The sections of ``spec.output`` that say how a store is accessed, one for each kind of store."""

from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Annotated, Literal, TypedDict

from pydantic import Field, model_validator

from landfall.api.pod_spec import Model
from landfall.api.spec.shared import SecretRef
from landfall.api.values import Bytes, Duration, matching

SCHEMES: Mapping[str, str] = MappingProxyType({"s3": "s3", "abfss": "azure", "gs": "gcs"})
"""The section of ``spec.output`` for each scheme of ``output.url``; ``file`` needs none."""
PLACE = frozenset({"url", "store", *SCHEMES.values()})
"""The fields of ``spec.output`` that name a store and say how it is accessed."""


class Access(TypedDict, total=False):
    """How stores are accessed, for those that are accessed otherwise than by default."""

    s3: "S3"
    azure: "Azure"
    gcs: "Gcs"


class StoreAccess(Model):
    """What the sections of all stores have."""

    endpoint: str | None = None
    """URL of the server."""
    credentials_secret_ref: SecretRef | None = None
    """Secret with the credentials."""
    part_bytes: Annotated[Bytes, Field(ge=2**20, le=4000 * 2**20)] = 16 * 2**20
    """Size of the parts that objects are uploaded in, in bytes."""
    max_attempts: Annotated[int, Field(ge=1, le=20)] = 5
    """How often a request is attempted before the store is considered unavailable."""
    connect_timeout: Duration = timedelta(seconds=5)
    """Timeout for opening a connection."""
    read_timeout: Duration = timedelta(seconds=60)
    """Timeout for a response."""


class Sse(Model):
    """Server-side encryption of S3 objects."""

    type: Literal["AES256", "aws:kms", "aws:kms:dsse"]
    """Encryption type, as in the S3 API."""
    kms_key_id: str | None = None
    """ID of the KMS key. The bucket's default key if not set."""

    @model_validator(mode="after")
    def _key_is_for_kms(self) -> "Sse":
        if self.kms_key_id and self.type == "AES256":
            raise ValueError("kmsKeyId goes with type aws:kms or aws:kms:dsse")
        return self


class AssumeRole(Model):
    """An IAM role to assume for access to S3."""

    role_arn: str
    """ARN of the role."""
    session_name: str = "landfall"
    """Session name that appears in audit logs."""
    external_id: str | None = None
    """External ID, if the role requires one."""


class S3(StoreAccess):
    """How to access an S3 bucket. Without credentials here, boto3's default chain is used."""

    endpoint: (
        Annotated[str, matching(r"https?://[^/\s]+/?", "a URL such as https://s3.example.com")]
        | None
    ) = None
    """URL of an S3-compatible store. AWS if not set."""
    region: str | None = None
    """AWS region of the bucket."""
    path_style: bool = False
    """Put the bucket name into the path of the URL instead of the host name. Many S3-compatible
    stores need this.
    """
    profile: str | None = None
    """Profile in boto3's configuration files."""
    credentials_secret_ref: SecretRef | None = None
    """Secret with the keys ``AWS_ACCESS_KEY_ID`` and ``AWS_SECRET_ACCESS_KEY``, and optionally
    ``AWS_SESSION_TOKEN``.
    """
    assume_role: AssumeRole | None = None
    """An IAM role to assume for access to S3."""
    sse: Sse | None = None
    """Server-side encryption requested for each object. The bucket's default if not set."""
    part_bytes: Annotated[Bytes, Field(ge=5 * 2**20, le=5 * 2**30)] = 16 * 2**20
    """Part size of multipart uploads, in bytes."""


class Azure(StoreAccess):
    """How to access Azure Blob Storage. Without credentials here, Azure's default chain is used."""

    endpoint: (
        Annotated[
            str, matching(r"https?://\S+", "a URL such as https://logs.blob.core.windows.net")
        ]
        | None
    ) = None
    """URL of the account, if it is not that of ``output.url``, as of an emulator."""
    credentials_secret_ref: SecretRef | None = None
    """Secret with the key ``AZURE_STORAGE_KEY``, the key of the account, or
    ``AZURE_STORAGE_SAS_TOKEN``, a shared access signature, or ``AZURE_TENANT_ID``,
    ``AZURE_CLIENT_ID`` and ``AZURE_CLIENT_SECRET``, an application's.
    """


class Gcs(StoreAccess):
    """How to access Google Cloud Storage. Without credentials here, Google's default are used."""

    endpoint: (
        Annotated[str, matching(r"https?://[^/\s]+/?", "a URL such as https://storage.example.com")]
        | None
    ) = None
    """URL of another server than Google's, as of an emulator."""
    credentials_secret_ref: SecretRef | None = None
    """Secret with the key ``key.json``, the key file of a service account."""
