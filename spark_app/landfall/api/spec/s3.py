"""The section ``spec.output.s3``: access to an S3 bucket, and what objects are created with."""

import re
import unicodedata
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from landfall.api.pod_spec import Model
from landfall.api.spec.shared import SecretRef
from landfall.api.spec.stores import StoreAccess, StoreReading
from landfall.api.values import Bytes, Duration, matching

ARCHIVES = ("GLACIER", "DEEP_ARCHIVE")
"""Storage classes whose objects must be restored, for hours, before they can be read."""
OTHER_BUCKETS = ("EXPRESS_ONEZONE", "OUTPOSTS", "SNOW")
"""Storage classes of buckets that are not listed in key order, or lack what the ledger needs."""
TAG_KEY = r"([A-Za-z0-9 _.:/=+@-]|[^\x00-\x7f]){1,128}"
"""Form of a tag's key as far as a pattern can define it; only the model knows all letters."""
TAG_VALUE = r"([A-Za-z0-9 _.:/=+@-]|[^\x00-\x7f]){0,256}"
MAX_TAGS = 10
ARCHIVES_REASON = (
    "objects of storage class GLACIER or DEEP_ARCHIVE cannot be read at once, which fsck, audit "
    "and publishers must; move them there by a lifecycle rule later, or take GLACIER_IR"
)
OTHER_BUCKETS_REASON = (
    "storage classes EXPRESS_ONEZONE, OUTPOSTS and SNOW belong to other kinds of buckets, which do "
    "not list in key order or lack conditional writes"
)
SSE_C_REASON = (
    "keys of the customer (SSE-C) are not supported: readers, tables and auditors would all need "
    "the key; use aws:kms with a key of your own"
)
LOCK_REASON = "mode and retain go together; leave out both for the bucket's default retention"

ENDPOINT_REASON = "useFips and useDualStack choose an endpoint of AWS: leave endpoint out"


class Sse(Model):
    """Server-side encryption of S3 objects."""

    type: Literal["AES256", "aws:kms", "aws:kms:dsse"]
    """Encryption type, as in the S3 API. Keys of the customer (SSE-C) are not supported, because
    every reader would need the key; use ``aws:kms`` with a key of your own.
    """
    kms_key_id: str | None = None
    """ID of the KMS key. The bucket's default key if not set."""

    @field_validator("type", mode="before")
    @classmethod
    def _is_not_the_customers(cls, value: object) -> object:
        if re.sub("[^a-z]", "", str(value).lower()) in {"ssec", "customer", "customerkey"}:
            raise ValueError(SSE_C_REASON)
        return value

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


class LockMode(StrEnum):
    """Users who may shorten the retention of an object."""

    GOVERNANCE = "Governance"
    """Those with the right ``s3:BypassGovernanceRetention``."""
    COMPLIANCE = "Compliance"
    """No user, not even the root user of the account."""


class ObjectLock(Model):
    """S3 Object Lock. Without ``mode`` and ``retain``, the bucket's default retention applies."""

    mode: LockMode | None = None
    """Who may shorten the retention: ``Governance``, those with the right
    ``s3:BypassGovernanceRetention``; ``Compliance``, no user.
    """
    retain: Duration | None = None
    """How long landed objects are retained, from the beginning of their upload, such as ``30d``.
    The ledger is not, because its slots are deleted once segments replace them.
    """

    @model_validator(mode="after")
    def _is_whole(self) -> "ObjectLock":
        if (self.mode is None) != (self.retain is None):
            raise ValueError(LOCK_REASON)
        return self


class S3Access(StoreReading):
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
    use_fips: bool = False
    """Use the endpoints of AWS with FIPS 140 validated cryptography, of S3 and of STS."""
    use_dual_stack: bool = False
    """Use the endpoints of AWS with IPv6 and IPv4, of S3 and of STS."""
    proxy: (
        Annotated[
            str,
            matching(
                r"https?://[^/@\s]+/?",
                "a URL such as http://proxy.example.com:3128, without user and password",
            ),
        ]
        | None
    ) = None
    """URL of an HTTP proxy for requests to S3, and to STS for ``assumeRole``. User and password
    are in the Secret. If not set, the environment variables ``HTTPS_PROXY``, ``HTTP_PROXY`` and
    ``NO_PROXY`` apply.
    """
    requester_pays: bool = False
    """Pay for the requests to a bucket of another account that is configured so."""
    profile: str | None = None
    """Profile in boto3's configuration files."""
    credentials_secret_ref: SecretRef | None = None
    """Secret with the keys ``AWS_ACCESS_KEY_ID`` and ``AWS_SECRET_ACCESS_KEY``, and optionally
    ``AWS_SESSION_TOKEN``. For a proxy that needs a login also ``PROXY_USER`` and
    ``PROXY_PASSWORD``, or only these two.
    """
    assume_role: AssumeRole | None = None
    """An IAM role to assume for access to S3."""

    @field_validator("proxy", mode="before")
    @classmethod
    def _has_no_login(cls, value: object) -> object:
        if "@" in str(value):  # without the value, which has a password
            raise ValueError("must not have user and password: these are keys of the Secret")
        return value

    @model_validator(mode="after")
    def _variants_are_of_aws(self) -> "S3Access":
        if self.endpoint and (self.use_fips or self.use_dual_stack):
            raise ValueError(ENDPOINT_REASON)
        return self


class S3(S3Access, StoreAccess):
    """How to access an S3 bucket. Without credentials here, boto3's default chain is used."""

    sse: Sse | None = None
    """Server-side encryption requested for each object. The bucket's default if not set."""
    storage_class: (
        Annotated[str, matching(r"[A-Za-z0-9_.-]{1,64}", "a storage class such as STANDARD_IA")]
        | None
    ) = None
    """Storage class of landed objects, such as ``STANDARD_IA``, ``INTELLIGENT_TIERING`` or
    ``GLACIER_IR``. The ledger is always in the bucket's default class: it is read again and again,
    and other classes charge 30 days at least for slots that are deleted within hours.
    """
    tags: Annotated[dict[str, str], Field(max_length=MAX_TAGS)] = Field(default_factory=dict)
    """Tags of landed objects, such as for lifecycle rules and costs. The ledger has none, so that
    no rule for a tag deletes it.
    """
    acl: Literal["private", "bucket-owner-read", "bucket-owner-full-control"] | None = None
    """Canned ACL of all objects, the ledger's included. For a bucket of another account that has
    ACLs. To make objects public use a bucket policy, which can leave the ledger out.
    """
    object_lock: ObjectLock | None = None
    """For buckets with S3 Object Lock: sends the checksums that they require, and locks landed
    objects.
    """
    part_bytes: Annotated[Bytes, Field(ge=5 * 2**20, le=5 * 2**30)] = 16 * 2**20
    """Part size of multipart uploads, in bytes."""

    @field_validator("storage_class")
    @classmethod
    def _can_be_read_at_once(cls, value: str | None) -> str | None:
        if value in ARCHIVES:
            raise ValueError(ARCHIVES_REASON)
        if value in OTHER_BUCKETS:
            raise ValueError(OTHER_BUCKETS_REASON)
        return value

    @field_validator("tags")
    @classmethod
    def _tags_are_tags(cls, tags: dict[str, str]) -> dict[str, str]:
        for key, value in tags.items():
            _check_tag(f"key {key!r}", key, range(1, 129))
            _check_tag(f"value of {key!r}", value, range(257))
            if key.lower().startswith("aws:"):
                raise ValueError(f"key {key!r}: aws: is reserved")
        return tags


def _check_tag(what: str, text: str, lengths: range) -> None:
    if len(text) not in lengths:
        raise ValueError(f"{what} has {len(text)} characters, not {lengths[0]} to {lengths[-1]}")
    if not all(
        unicodedata.category(character)[0] in "LNZ" or character in "_.:/=+-@" for character in text
    ):
        raise ValueError(f"{what} may have letters, digits, spaces and _ . : / = + - @ only")
