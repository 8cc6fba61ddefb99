"""Completes a decided upload: by any process, any number of times, on any response of the store.

A store's response to "complete" proves nothing (see ``landfall.objects``). So the rule is the same
for every store: send the request, then look at the object, and believe only that. The outcomes are
in the table of ``landfall.objects``. There is one exception, which saves a request for each object:
the clear answer to the first completion of a fresh upload (ADR 10).

A completion need not be atomic: while versitygw joins the parts for one caller, other callers find
neither upload nor object. So what seems lost is lost only after several looks, with
``Uploads.pauses_before_lost`` between them. ``landfall.driver.landing.completer`` looks again: to
wait here would keep a thread for a minute for each upload that is really lost.
"""

from collections.abc import Callable

from landfall.errors import Retry, StoreDenied
from landfall.objects import ObjectStat, Upload, check_completed, is_made_by


def ensure(
    upload: Upload,
    *,
    finish: Callable[[Upload], bool],
    is_open: Callable[[Upload], bool],
    stat: Callable[[str], ObjectStat | None],
) -> None:
    """Complete the upload; afterwards its object is visible.

    Args:
        upload: the decided upload.
        finish: sends one "complete" to the store; raises ``Retry`` unless the store confirms it,
            and returns whether the answer alone may be believed.
        is_open: whether the upload is open and has every recorded part.
        stat: looks up the object at a key.

    Raises:
        Stalled, Retry, UploadLost: see the table of ``landfall.objects``.
    """
    doubt: Retry | None = None
    try:
        if finish(upload):
            return
    except StoreDenied:  # it had no effect, and what follows would hide the reason
        raise
    except Retry as error:
        doubt = error
    if is_made_by(upload, stat(upload.key)):
        return
    # In this order: an upload completed by another driver in between is then seen as its object.
    still_open = is_open(upload)
    try:
        check_completed(upload, stat(upload.key), is_open=still_open)
    except Retry as error:
        raise Retry(f"{error}: {doubt or 'though the store reported success'}") from doubt
