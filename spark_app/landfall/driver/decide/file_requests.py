"""Decide what a request about a feed's files records: a DISCOVER or a refusal. Pure.

=========  =============================  ======================================================
request    the file                       then
=========  =============================  ======================================================
retry      has another version now        the parts of that version get numbers; what is parked
                                          or given up of the version before is ``replaced``
..         has parked parts, or parts     they get other numbers, ``again``
           that were given up
ignore     has parked parts               they are given up, ``ignored``
..         has another version now        that version is listed with a part that has no bytes:
                                          it is known, and nothing of it is landed
either     anything else                  the request is refused, for all files it names
=========  =============================  ======================================================
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from landfall.api.values import plural
from landfall.api.verbs import FilesRequest, IgnoreFilesRequest
from landfall.discovery.named_files import NamedFiles, tried_again
from landfall.driver.decide.requests import Refusal
from landfall.ledger import FeedState
from landfall.ledger.feeds import MAX_IGNORED, MAX_LISTED
from landfall.ledger.feeds.part_lists import ListedPart

MAX_SHOWN = 10
"""How many names a refusal lists."""


@dataclass(frozen=True, slots=True)
class FilesPlan:
    """The contents of a future DISCOVER.

    Attributes:
        text: what it does, for people.
        names: the files.
        parts: the parts that get numbers, in order, ``again`` last.
        again: parts that get other numbers.
        replaced: parts of versions that newer versions replace.
        ignored: parts that are given up.
    """

    text: str
    names: frozenset[str]
    parts: tuple[ListedPart, ...] = ()
    again: tuple[int, ...] = ()
    replaced: tuple[int, ...] = ()
    ignored: tuple[int, ...] = ()


def decide_files(feed: FeedState, request: FilesRequest, files: NamedFiles) -> FilesPlan | Refusal:
    """Return the DISCOVER that carries a request out, or why it is refused.

    Args:
        feed: what the ledger knows of it.
        request: what is asked for.
        files: what is known of the files that the request names.
    """
    refusal = "; ".join(_problems(request, files))
    if refusal:
        return Refusal(f"{request.topic}: {refusal}")
    if isinstance(request, IgnoreFilesRequest):
        return _ignore(feed, request, files)
    return _retry(feed, request, files)


def _problems(request: FilesRequest, files: NamedFiles) -> Iterator[str]:
    """Return why a request is refused, a text for each kind of problem."""
    if files.unknown:
        yield f"no file has a number and the name {_some(files.unknown)}"
    for name, why in sorted(files.unreadable.items()):
        yield f"{name} has a version that cannot be read: {why}"
    parts = files.parked if isinstance(request, IgnoreFilesRequest) else {**_left(files)}
    can_be = {part.name for part in parts.values()}.union(files.changed)
    rest = [n for n in request.names if n not in can_be.union(files.unknown, files.unreadable)]
    if rest:
        yield f"nothing is parked of {_some(rest)}, and no other version is there"
    elif not (request.names or can_be):
        yield "no file is parked"


def _retry(feed: FeedState, request: FilesRequest, files: NamedFiles) -> FilesPlan | Refusal:
    left, states = _left(files), {**feed.parked, **feed.ignored}
    again = tuple(n for n, part in sorted(left.items()) if part.name not in files.changed)
    replaced = tuple(n for n in sorted(left) if n not in again)
    new = tuple(part for name in sorted(files.changed) for part in files.changed[name])
    if len(again) + len(files.changed) > MAX_LISTED:
        return Refusal(f"{request.topic}: {len(again)} parts at once; name fewer files")
    # A file that has no room continues with the next look, as any file that is as large.
    new = new[: MAX_LISTED - len(again)]
    parts = (*new, *(tried_again(n, left[n], states[n]) for n in again))
    names = frozenset(part.name for part in (*parts, *left.values()))
    what = [f"tries {plural(len(again), 'part')} again"] if again else []
    what += [f"lands the new version of {_some(sorted(files.changed))}"] if files.changed else []
    text = f"DISCOVER: {request.topic} {' and '.join(what)}: {_some(sorted(names))}"
    return FilesPlan(text=text, names=names, parts=parts, again=again, replaced=replaced)


def _ignore(feed: FeedState, request: FilesRequest, files: NamedFiles) -> FilesPlan | Refusal:
    given_up = {part.name for part in files.parked.values()}
    if len(feed.ignored) + len(files.parked) > MAX_IGNORED:
        return Refusal(f"{request.topic}: more than {MAX_IGNORED} parts would be given up")
    # A version that could not be read is one matter, the version after it another one.
    left_out = tuple(
        _left_out(files.changed[name]) for name in sorted(files.changed.keys() - given_up)
    )
    what = [f"gives up {_some(sorted(given_up))}"] if given_up else []
    names = [part.name for part in left_out]
    what += [f"leaves out the new version of {_some(names)}"] if names else []
    text = f"DISCOVER: {request.topic} {' and '.join(what)}"
    return FilesPlan(
        text, frozenset(given_up.union(names)), left_out, ignored=tuple(sorted(files.parked))
    )


def _left_out(parts: Sequence[ListedPart]) -> ListedPart:
    of = parts[-1]
    return ListedPart(
        name=of.name, etag=of.etag, size=of.size, modified=of.modified, start=of.size, end=of.size
    )


def _left(files: NamedFiles) -> dict[int, ListedPart]:
    """Return the parts that are not landed."""
    return {**files.parked, **files.ignored}


def _some(names: Collection[str]) -> str:
    """Return a list of names, of many the first ones."""
    shown = ", ".join(sorted(names)[:MAX_SHOWN])
    more = len(names) - MAX_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
