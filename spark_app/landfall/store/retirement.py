"""Retires an upload's object: in any process, any number of times, even if completed again.

Where parts outlive a completion, as in folders and in Cloud Storage, a driver that was frozen may
complete the upload once more and make a deleted object again. So the rule is the same for every
store: drop what is left of the upload, then look at the object, and delete it if the upload made
it. After the first step no process can make the object; one made before is what the second finds.

Deletion is by name in most stores. It cannot hit an object that came later: under the name of a
retired object none ever comes (ADR 29).
"""

from collections.abc import Callable

from landfall.objects import ObjectStat, Upload, check_completed, is_made_by


def ensure_retired(
    upload: Upload,
    *,
    drop: Callable[[Upload], object],
    stat: Callable[[str], ObjectStat | None],
    delete: Callable[[ObjectStat], object],
) -> None:
    """Retire the upload's object; afterwards it cannot be made of this upload again.

    Args:
        upload: a decided upload.
        drop: removes all that the object could be made of, if it exists.
        stat: looks up the object at a key.
        delete: deletes this object, if it exists.

    Raises:
        Stalled: another object is at the key, as in the table of ``landfall.objects``.
    """
    drop(upload)
    found = stat(upload.key)
    if found is not None and not is_made_by(upload, found):
        # Another driver may be deleting it: a look at that moment finds an object without a token.
        found = stat(upload.key)
    if found is not None:
        check_completed(upload, found, is_open=False)
        delete(found)
