"""Completing a decided upload so that it holds, whoever calls it, how often, and whatever the store answers.

A store's answer to "complete" proves nothing. A time-out may have had its effect; a repeated call
is a success on AWS and "no such upload" on MinIO; a success status may carry an error in its body;
and versitygw answers success, with the ETag one expects, for an upload that was aborted, if only
*some* object stands at the key. So the rule, the same for every store: ask, then look at what is
there. Only the object itself proves that it is ours: the token ``begin`` wrote into it, its size,
and its ETag where that is the MD5 of the parts' MD5s.

==================  ==================  =======================================================
object at the key   upload with parts   outcome
==================  ==================  =======================================================
ours                any                 done
another's           any                 ``Stalled``: LEDGER_BROKEN if Landfall made it, else OBJECT_LOST
none                open                ``Retry``: the completion had no effect
none                gone, for long      ``UploadLost``: only the source can make the object again
==================  ==================  =======================================================

"For long", since a completion need not be atomic: while versitygw joins the parts for one caller,
others find neither the upload nor the object. Loss is believed only after a series of pauses.
"""

import time
from collections.abc import Callable, Iterable

from landfall.errors import Retry
from landfall.objects import ObjectStat, Upload, check_completed, is_made_by


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
        pauses: seconds between looks for an object whose upload is gone, for stores that complete
            bit by bit.

    Raises:
        Stalled, Retry, UploadLost: see the module.
    """
    doubt: Retry | None = None
    try:
        finish(upload)
    except Retry as error:
        doubt = error
    if is_made_by(upload, stat(upload.key)):
        return
    for pause in (0.0, *pauses):
        time.sleep(pause)
        still_open = is_open(upload)
        found = stat(upload.key)
        if still_open or found:
            break
    try:
        check_completed(upload, found, is_open=still_open)
    except Retry as error:
        raise Retry(f"{error}: {doubt or 'though the store said so'}") from doubt
