"""Uploads and objects as values, and what proves that an object is the one that an upload makes. Pure.

The ledger names objects by these values and every store speaks in them, so they belong to neither:
what decides by them (``landfall.ledger``, ``landfall.checks``) imports no store.

A store's answer to "complete" proves nothing. A time-out may have had its effect; a repeated call
is a success on AWS and "no such upload" on MinIO; a success status may carry an error in its body;
and versitygw answers success, with the ETag one expects, for an upload that was aborted, if only
*some* object stands at the key. Only the object itself proves that it is
ours: the token ``begin`` wrote into it, its size, and its ETag where that is the MD5 of the parts'
    MD5s.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from landfall.errors import LandfallError, Reason, Retry, Stalled

_MD5 = re.compile(r'"?([0-9a-f]{32})"?')
_MULTIPART_MD5 = re.compile(r'"?[0-9a-f]{32}-\d+"?')


class UploadLost(LandfallError):  # noqa: N818  # says what happened, like FileNotFoundError's kin
    """A decided upload and its object are both gone: only the source can make the object again."""


@dataclass(frozen=True, slots=True)
class Part:
    """One uploaded part: its ETag as the store gave it, its size in bytes."""

    etag: str
    size: int


@dataclass(frozen=True, slots=True)
class Upload:
    """Everything it takes to make a decided object visible, or to prove that it is.

    Attributes:
        key: of the object, relative to the store's root.
        upload_id: the store's name of the upload.
        parts: in order; part numbers count from 1.
        token: written into the object's metadata at ``begin``; proves which upload an object came
            from.
    """

    key: str
    upload_id: str
    parts: tuple[Part, ...]
    token: str

    @property
    def size(self) -> int:
        """Bytes of the whole object."""
        return sum(part.size for part in self.parts)


@dataclass(frozen=True, slots=True)
class OpenUpload:
    """An upload that was begun and neither completed nor aborted."""

    key: str
    upload_id: str
    begun: datetime


@dataclass(frozen=True, slots=True)
class ObjectStat:
    """A visible object; ``token`` is what ``begin`` was given (empty in listings, and for objects not made by us)."""

    key: str
    size: int
    etag: str
    token: str = ""


def multipart_etag(parts: Sequence[Part]) -> str:
    """The ETag an object of these parts has: MD5 of the parts' MD5s, ``-``, their number. Empty if a part's is no MD5."""
    digests = [match[1] for part in parts if (match := _MD5.fullmatch(part.etag))]
    if len(digests) < len(parts):
        return ""
    return f"{hashlib.md5(bytes.fromhex(''.join(digests)), usedforsecurity=False).hexdigest()}-{len(parts)}"


def etag_contradicts(upload: Upload, etag: str) -> bool:
    """Whether this ETag proves an object is not this upload's. One of another make (SSE-KMS, some clones) proves nothing."""
    expected = multipart_etag(upload.parts)
    return bool(expected and _MULTIPART_MD5.fullmatch(etag)) and etag.strip('"') != expected


def is_ours(upload: Upload, found: ObjectStat | None) -> bool:
    """Whether the object found at the upload's key is what the upload makes."""
    return (
        found is not None
        and (found.token, found.size) == (upload.token, upload.size)
        and not etag_contradicts(upload, found.etag)
    )


def settle(upload: Upload, found: ObjectStat | None, *, is_open: bool) -> None:
    """Return if the object is there and ours, else raise by the table above.

    Args:
        upload: the decided upload.
        found: what stands at its key, looked up *after* ``is_open``: so an object completed in
            between is seen.
        is_open: the upload is still open and has every recorded part.

    Raises:
        Stalled, Retry, UploadLost: see the module.
    """
    if is_ours(upload, found):
        return
    if found is not None:
        reason = Reason.LEDGER_BROKEN if found.token else Reason.OBJECT_LOST
        raise Stalled(
            reason,
            f"{upload.key}: another object is there: token {found.token or 'none'}, {found.size} bytes, "
            f"etag {found.etag or 'none'}; decided were token {upload.token}, {upload.size} bytes, "
            f"etag {multipart_etag(upload.parts) or 'unknown'}",
        )
    if is_open:
        raise Retry(f"{upload.key}: upload {upload.upload_id} is not completed yet")
    raise UploadLost(f"{upload.key}: upload {upload.upload_id} is gone and there is no object")
