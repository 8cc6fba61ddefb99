"""Uploads and objects as values, and how to prove that an object is the one an upload makes. Pure.

The ledger names objects by these values, and every store takes and returns them, so they belong to
neither: what decides by them (``landfall.ledger``, ``landfall.checks``) imports no store.

The response to "complete upload" proves nothing. A request that timed out may have had its effect;
a repeated one succeeds on AWS and gets "no such upload" from MinIO; a success status may carry an
error in its body; and versitygw reports success, with the expected ETag, for an upload that was
aborted, if *any* object is at the key. Only the object itself is proof: the token that ``begin``
wrote into its metadata, its size, and its ETag where that is the MD5 of the parts' MD5s. The one
answer that is believed nevertheless is described in docs/adr/0010.

An object without any token is known by such an ETag alone: its bytes are the upload's. versitygw
has made one so, in the second in which its upload was also aborted, as by a lifecycle rule.

==================  ===============  ============================================================
object at the key   upload           ``check_completed``
==================  ===============  ============================================================
made by the upload  any              returns
any other           any              ``Stalled``: LEDGER_BROKEN if it has a token, else OBJECT_LOST
none                open             ``Retry``: the completion had no effect
none                gone             ``UploadLost``: only the source can make the object again
==================  ===============  ============================================================
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from msgspec import Struct

from landfall.errors import LandfallError, Reason, Retry, Stalled

_MD5 = re.compile(r'"?([0-9a-f]{32})"?')
_MULTIPART_MD5 = re.compile(r'"?[0-9a-f]{32}-\d+"?')


class UploadLost(LandfallError):  # noqa: N818  # the name is the state
    """Neither a decided upload nor its object was found.

    If that stays so, the object must be made again from Kafka. Another driver's completion may hide
    both for a while: see ``Uploads.pauses_before_lost``.
    """


class FileChanged(LandfallError):  # noqa: N818  # the name is the state
    """A file of another program has another version now, or is gone.

    Attributes:
        name: of the file.
        expected: the ETag of the version that was asked for.
        found: the ETag of the one that is there; None if there is none, or if it is not known.
    """

    def __init__(self, name: str, expected: str, found: str | None) -> None:
        now = f"is {found} now" if found else "is gone or another one now"
        super().__init__(f"{name}: the file with ETag {expected} {now}")
        self.name = name
        self.expected = expected
        self.found = found

    def __reduce__(self) -> tuple[type["FileChanged"], tuple[str, str, str | None]]:
        # Spark's workers send exceptions to the driver.
        return FileChanged, (self.name, self.expected, self.found)


class FileElsewhere(FileChanged):
    """A file is a link that leads out of its folder, so this version can never be read."""

    def __str__(self) -> str:
        return f"{self.name}: it is a link that leads out of the folder, and is not followed"

    def __reduce__(self) -> tuple[type["FileElsewhere"], tuple[str, str, str | None]]:
        """Make the same error of it in another process."""
        return FileElsewhere, (self.name, self.expected, self.found)


class Part(Struct, frozen=True, gc=False):
    """An uploaded part: the ETag that the store returned, and its size in bytes."""

    etag: str
    size: int


class Upload(Struct, frozen=True, gc=False):
    """Everything needed to make an object visible, or to prove that it is.

    Attributes:
        key: key of the object, relative to the store's root.
        upload_id: the store's id of the upload.
        parts: the parts in order; part numbers start at 1.
        token: text that ``begin`` writes into the object's metadata, which proves where an object
            comes from.
    """

    key: str
    upload_id: str
    parts: tuple[Part, ...]
    token: str

    @property
    def size(self) -> int:
        """Size of the whole object in bytes."""
        return sum(part.size for part in self.parts)


@dataclass(frozen=True, slots=True)
class OpenUpload:
    """An upload that is neither completed nor aborted; ``begun`` is when it was started."""

    key: str
    upload_id: str
    begun: datetime


@dataclass(frozen=True, slots=True)
class ObjectStat:
    """A visible object.

    ``token`` is the one given to ``begin``; it is empty in listings, and for objects that Landfall
    did not write.
    """

    key: str
    size: int
    etag: str
    token: str = ""


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A version of a file of another program.

    Attributes:
        name: of the file, relative to where files are looked for.
        etag: what distinguishes this version from other ones of the same name.
        size: in bytes.
        modified: when it was last written, in UTC, by the clock of the store.
    """

    name: str
    etag: str
    size: int
    modified: datetime


def multipart_etag(parts: Sequence[Part]) -> str:
    """The ETag of an object made of these parts; empty if it cannot be computed.

    S3 computes it as the MD5 of the parts' MD5s, ``-``, and the number of parts. It cannot be
    computed if the ETag of a part is not an MD5, as under SSE-KMS.
    """
    digests = [match[1] for part in parts if (match := _MD5.fullmatch(part.etag))]
    if len(digests) < len(parts):
        return ""
    combined = hashlib.md5(bytes.fromhex("".join(digests)), usedforsecurity=False)
    return f"{combined.hexdigest()}-{len(parts)}"


def etag_contradicts(upload: Upload, etag: str) -> bool:
    """Return whether the ETag proves that an object was not made by the upload.

    An ETag in another form, as some stores and SSE-KMS give it, proves nothing either way.
    """
    expected = multipart_etag(upload.parts)
    return bool(expected and _MULTIPART_MD5.fullmatch(etag)) and etag.strip('"') != expected


def is_proven(upload: Upload, etag: str) -> bool:
    """Return whether this ETag alone proves that the object was made by this upload."""
    return bool(expected := multipart_etag(upload.parts)) and etag.strip('"') == expected


def is_made_by(upload: Upload, found: ObjectStat | None) -> bool:
    """Return whether the object found at the upload's key was made by the upload."""
    if found is None or found.size != upload.size or etag_contradicts(upload, found.etag):
        return False
    return found.token == upload.token or (not found.token and is_proven(upload, found.etag))


def check_completed(upload: Upload, found: ObjectStat | None, *, is_open: bool) -> None:
    """Return if the object at the key was made by the upload, else raise as in the table above.

    Args:
        upload: the decided upload.
        found: the object at its key. Look it up *after* ``is_open``: otherwise an object that is
            completed between the two lookups seems lost.
        is_open: whether the upload is open and has every recorded part.

    Raises:
        Stalled, Retry, UploadLost: see the table of the module.
    """
    if is_made_by(upload, found):
        return
    if found is not None:
        reason = Reason.LEDGER_BROKEN if found.token else Reason.OBJECT_LOST
        raise Stalled(
            reason,
            f"{upload.key}: another object is there: token {found.token or 'none'}, "
            f"{found.size} bytes, etag {found.etag or 'none'}; the ledger names "
            f"token {upload.token}, {upload.size} bytes, "
            f"etag {multipart_etag(upload.parts) or 'unknown'}",
        )
    if is_open:
        raise Retry(f"{upload.key}: upload {upload.upload_id} is not completed yet")
    raise UploadLost(f"{upload.key}: upload {upload.upload_id} is gone and there is no object")
