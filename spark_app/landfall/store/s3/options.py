"""Options of new S3 objects by ``spec.output.s3``, and which field a refusal is about.

===============  =============================  ==========================================
field            objects of data                 slots and hints
===============  =============================  ==========================================
sse, acl         yes                            yes: a bucket policy may demand them
storageClass     yes                            no: they are read often, and deleted soon
tags             yes                            no: a rule for a tag could delete the ledger
objectLock       yes, and MD5 of each part      MD5 only: slots are deleted by ``delete_slots``
===============  =============================  ==========================================

A bucket with Object Lock refuses a body without ``Content-MD5`` or a checksum. MD5 is what every
server knows, and needs nothing at the completion. Pure.
"""

import base64
import hashlib
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from botocore.exceptions import ClientError

from landfall.api import spec
from landfall.store.s3.errors import blames_credentials, code_of, is_about_lock, status_of

_RIGHTS = {
    "tags": "s3:PutObjectTagging",
    "acl": "s3:PutObjectAcl",
    "objectLock": "s3:PutObjectRetention",
    "sse": "kms:GenerateDataKey",
}
"""Rights that fields need beyond ``s3:PutObject``."""
_FIELD_OF_CODE = {
    "InvalidStorageClass": "storageClass",
    "InvalidTag": "tags",
    "AccessControlListNotSupported": "acl",
    "MalformedACLError": "acl",
    "ObjectLockConfigurationNotFoundError": "objectLock",
    "InvalidBucketObjectLockConfiguration": "objectLock",
    "InvalidRetentionPeriod": "objectLock",
    "InvalidEncryptionAlgorithmError": "sse",
    "ServerSideEncryptionConfigurationNotFoundError": "sse",
}


class WriteOptions:
    """The arguments of boto3's methods that create something."""

    def __init__(self, settings: spec.S3) -> None:
        """Nothing changes later."""
        self._every = _encryption(settings.sse) | ({"ACL": settings.acl} if settings.acl else {})
        self._data = dict(self._every)
        if settings.storage_class:
            self._data["StorageClass"] = settings.storage_class
        if settings.tags:
            self._data["Tagging"] = urlencode(settings.tags)
        self._lock = settings.object_lock
        self._fields_of_slots = _fields(sse=settings.sse, acl=settings.acl)
        self._fields_of_data = _fields(
            sse=settings.sse,
            acl=settings.acl,
            storageClass=settings.storage_class,
            tags=settings.tags,
            objectLock=self._lock and self._lock.mode,
        )

    @property
    def every(self) -> dict[str, Any]:
        """Arguments of everything that is created."""
        return self._every

    def of_slot(self, body: bytes) -> dict[str, Any]:
        """Arguments of PutObject, with the body."""
        return {**self._every, **self.of_part(body)}

    def of_part(self, body: bytes) -> dict[str, Any]:
        """Arguments of UploadPart: the body, and what proves that it arrived."""
        if self._lock is None:
            return {"Body": body}
        digest = hashlib.md5(body, usedforsecurity=False).digest()
        return {"Body": body, "ContentMD5": base64.b64encode(digest).decode()}

    def of_upload(self, now: datetime) -> dict[str, Any]:
        """Arguments of CreateMultipartUpload; retention counts from ``now``."""
        if self._lock is None or self._lock.mode is None or self._lock.retain is None:
            return self._data
        return {
            **self._data,
            "ObjectLockMode": self._lock.mode.upper(),
            "ObjectLockRetainUntilDate": now + self._lock.retain,
        }

    def hint_for_slot(self, error: ClientError) -> str:
        """Return the fields that may have led to the refusal of a slot; empty if none has."""
        return self._hint(error, self._fields_of_slots)

    def hint_for_upload(self, error: ClientError) -> str:
        """Return fields that may have led to refusing an upload or a part; empty if none has."""
        return self._hint(error, self._fields_of_data)

    def _hint(self, error: ClientError, fields: tuple[str, ...]) -> str:
        code, status = code_of(error), status_of(error)
        if is_about_lock(error):
            if self._lock is None:
                return "set output.s3.objectLock: {} for a bucket with Object Lock"
            fields = tuple(name for name in fields if name == "objectLock")
        if code == "AccessDenied":
            needs = [f"{_RIGHTS[name]} for output.s3.{name}" for name in fields if name in _RIGHTS]
            return f"it needs {', '.join(needs)}" if needs else ""
        if blames_credentials(status, code) or status not in {400, 501}:
            return ""
        named = _FIELD_OF_CODE.get(code)
        sent = [f"output.s3.{name}" for name in fields if named in {None, name}]
        return f"the request has headers for {', '.join(sent)}" if sent else ""


def _fields(**values: object) -> tuple[str, ...]:
    return tuple(name for name, value in values.items() if value)


def _encryption(sse: spec.Sse | None) -> dict[str, Any]:
    if sse is None:
        return {}
    key = {"SSEKMSKeyId": sse.kms_key_id} if sse.kms_key_id else {}
    return {"ServerSideEncryption": sse.type, **key}
