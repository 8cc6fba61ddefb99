"""Listings of files of other programs, which are in the order of their names or refused."""

from collections.abc import Iterable, Iterator

from landfall.errors import Reason, Stalled
from landfall.objects import ListedFile


def in_order(files: Iterable[ListedFile], after: str, url: str) -> Iterator[ListedFile]:
    """The files whose name is greater than ``after``, as long as names only become greater.

    Empty objects that only stand for a folder, by their names, are left out. A store that keeps
    folders may list what is in one before its neighbours: where a listing begins would mean nothing
    then.

    Args:
        files: a listing, which may have begun before ``after``.
        after: the name to begin after; empty for all files.
        url: what was listed, for the message.

    Raises:
        Stalled: STORE_UNSAFE, a name is not greater than the one before it.
    """
    last = ""
    for file in files:
        if not file.name or (file.name.endswith("/") and not file.size):
            continue
        if file.name <= last:
            raise Stalled(
                Reason.STORE_UNSAFE,
                f"list {url}: not in the order of names: {file.name!r} after {last!r}",
            )
        last = file.name
        if file.name > after:
            yield file
