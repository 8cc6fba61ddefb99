"""Completing a decided upload so that it holds, whoever calls it, how often, and whatever the store answers.

A store's answer to "complete" proves nothing. A time-out may have had its effect; a repeated call is a success on AWS and
"no such upload" on MinIO; a success status may carry an error in its body; and versitygw answers success, with the ETag one
expects, for an upload that was aborted, if only *some* object stands at the key. So the rule, the same for every store:
ask, then look at what is there. Only the object itself proves that it is ours: the token ``begin`` wrote into it, its size,
and its ETag where that is the MD5 of the parts' MD5s.

==================  ==================  =======================================================
object at the key   upload with parts   outcome
==================  ==================  =======================================================
ours                any                 done
another's           any                 ``Stalled``: LEDGER_BROKEN if Landfall made it, else OBJECT_LOST
none                open                ``Retry``: the completion had no effect
none                gone, for long      ``UploadLost``: only the source can make the object again
==================  ==================  =======================================================

"For long", since a completion need not be atomic: while versitygw joins the parts for one caller, others find neither the
upload nor the object. Loss is believed only after a series of pauses.
"""

import hashlib
import re
import time
from collections.abc import Callable, Iterable, Sequence

from landfall.errors import Reason, Retry, Stalled
from landfall.store import ObjectStat, Part, Upload, UploadLost

_MD5 = re.compile(r'"?([0-9a-f]{32})"?')
_MULTIPART_MD5 = re.compile(r'"?[0-9a-f]{32}-\d+"?')


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
        found: what stands at its key, looked up *after* ``is_open``: so an object completed in between is seen.
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


def ensure(
    upload: Upload,
    *,
    finish: Callable[[Upload], None],
    is_open: Callable[[Upload], bool],
    stat: Callable[[str], ObjectStat | None],
    pauses: Iterable[float] = (),
) -> None:
    """Complete the upload; afterwards its object is visible.

    Args:
        upload: the decided upload.
        finish: asks the store once to complete; ``Retry`` if it does not say that it did.
        is_open: whether the upload is open and has every recorded part.
        stat: what stands at a key.
        pauses: seconds between looks for an object whose upload is gone, for stores that complete bit by bit.

    Raises:
        Stalled, Retry, UploadLost: see the module.
    """
    doubt: Retry | None = None
    try:
        finish(upload)
    except Retry as error:
        doubt = error
    if is_ours(upload, stat(upload.key)):
        return
    for pause in (0.0, *pauses):
        time.sleep(pause)
        still_open = is_open(upload)
        found = stat(upload.key)
        if still_open or found:
            break
    try:
        settle(upload, found, is_open=still_open)
    except Retry as error:
        raise Retry(f"{error}: {doubt or 'though the store said so'}") from doubt
