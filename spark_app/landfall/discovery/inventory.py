"""The files of a feed, and the state of each.

==============  ==============================================================================
state           the file
==============  ==============================================================================
``ERROR``       has a parked part: it could not be read, or its takers failed
``IGNORED``     is not landed, or not as a whole, because a user has decided so
``PENDING``     has no row that is landed
``IN_PROGRESS`` is landed in part, and the rest is still to come; or it is taken
``SUCCESS``     is landed as a whole, or done by its taker
==============  ==============================================================================

All files are given in the order of their names, with one piece of the index of known files in
memory, and the lists that it does not have yet.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import groupby

from landfall.discovery import part_lists
from landfall.discovery.feed_keys import FeedKeys
from landfall.discovery.index import KnownIndex, open_index
from landfall.discovery.known import FileState, KnownFile, state_of
from landfall.ledger import FeedState, LeasedPart, ParkedPart
from landfall.ledger.feeds import SPAN, begun_to
from landfall.ledger.feeds.part_lists import ListedPart
from landfall.objects import ListedFile
from landfall.store import Slots


class LandingState(StrEnum):
    """The state of a file."""

    PENDING = "Pending"
    IN_PROGRESS = "InProgress"
    SUCCESS = "Success"
    ERROR = "Error"
    IGNORED = "Ignored"


@dataclass(frozen=True, slots=True)
class FileStatus:
    """A file of a feed.

    Attributes:
        name: of the file.
        size: of the version that has numbers, in bytes.
        state: its state.
        first: the first number of its parts; -1 if it has none yet.
        last: the last one.
        attempts: how often it was tried, if it is not landed.
        error: why it is not landed, if anything is wrong.
    """

    name: str
    size: int
    state: LandingState
    first: int = -1
    last: int = -1
    attempts: int = 0
    error: str = ""


@dataclass
class _Unlanded:
    """Parts of a file that are not landed, by number: parked, given up, to be tried again.

    ``taken`` is a file that its taker works at.
    """

    parked: dict[int, ParkedPart] = field(default_factory=dict)
    ignored: dict[int, ParkedPart] = field(default_factory=dict)
    again: dict[int, ListedPart] = field(default_factory=dict)
    taken: bool = False


class FeedInventory:
    """The files of a feed, as the ledger knows them after one slot."""

    def __init__(self, slots: Slots, keys: FeedKeys, feed: FeedState, checkpoint: int) -> None:
        """Read what is needed for all files.

        Raises:
            Stalled: LEDGER_BROKEN, something that the ledger names is gone or damaged.
            Retry: the store failed.
        """
        self._slots = slots
        self._keys = keys
        self._next = begun_to(feed, checkpoint)
        self._rows = checkpoint % SPAN
        self._index: KnownIndex = open_index(slots, keys, feed.known, feed.lists)
        self._unlanded: dict[str, _Unlanded] = {}
        self._read_parked(feed)
        self._read_taken(feed)
        self._read_tried_again(feed)

    def files(self) -> Iterator[FileStatus]:
        """All files that have numbers.

        Raises:
            Stalled, Retry: as the constructor.
        """
        return map(self._status, self._index.files())

    def find(self, name: str) -> FileStatus | None:
        """The file of this name; None if it has no number.

        Raises:
            Stalled, Retry: as the constructor.
        """
        known = self._index.find(name)
        return None if known is None else self._status(known)

    def with_listing(
        self, listing: Iterable[ListedFile], changed: FileStatus
    ) -> Iterator[FileStatus]:
        """All files that have numbers, and those in a bucket that have none yet.

        Args:
            listing: the files there that count, in the order of their names.
            changed: state and message of landed files that were written again.

        Raises:
            Stalled, Retry: as the constructor.
        """
        known = ((file.name, 0, file) for file in self._index.files())
        there = ((file.name, 1, file) for file in listing)
        merged = heapq.merge(known, there, key=lambda each: each[:2])
        for name, group in groupby(merged, key=lambda each: each[0]):
            files = [file for _, _, file in group]
            numbered = next((file for file in files if isinstance(file, KnownFile)), None)
            found = next((file for file in files if isinstance(file, ListedFile)), None)
            yield self._of(name, numbered, found, changed)

    def of_listed(self, found: ListedFile, changed: FileStatus) -> FileStatus:
        """One file that is in the bucket."""
        return self._of(found.name, self._index.find(found.name), found, changed)

    def _of(
        self, name: str, known: KnownFile | None, found: ListedFile | None, changed: FileStatus
    ) -> FileStatus:
        if known is None:
            size = found.size if found else 0
            return FileStatus(name, size, LandingState.PENDING, error="has no number yet")
        status = self._status(known)
        if found is None or state_of(found, known) is not FileState.CHANGED:
            return status
        if status.state is not LandingState.SUCCESS:
            return replace(status, error=status.error or "was written again")
        return replace(status, state=changed.state, error=changed.error)

    def _status(self, file: KnownFile) -> FileStatus:
        left = self._unlanded.get(file.name, _NOTHING)
        status = FileStatus(
            name=file.name,
            size=file.size,
            state=LandingState.SUCCESS,
            first=max(file.first, 0),
            last=file.number,
        )
        if left.taken:
            return replace(status, state=LandingState.IN_PROGRESS)
        if left.parked:
            is_returned = not any(part.attempt for part in left.parked.values())
            state = LandingState.PENDING if is_returned else LandingState.ERROR
            return _not_landed(status, state, left.parked)
        if file.is_left_out:
            error = "the new version is left out"
            return replace(status, state=LandingState.IGNORED, error=error)
        is_numbered = file.listed_to >= file.size
        if not is_numbered or file.number >= self._next or left.again:
            has_rows = self._has_rows(status, left)
            state = LandingState.IN_PROGRESS if has_rows else LandingState.PENDING
            attempts = max((part.attempt for part in left.again.values()), default=0)
            return replace(status, state=state, attempts=attempts)
        if left.ignored:
            return _not_landed(status, LandingState.IGNORED, left.ignored)
        return status

    def _has_rows(self, status: FileStatus, left: _Unlanded) -> bool:
        """Return whether rows of a file are landed that is not landed as a whole."""
        passed = min(self._next, status.last + 1) - status.first
        is_begun = self._next in left.again or status.first <= self._next <= status.last
        others = len(left.again) + len(left.ignored)
        if passed > others or (is_begun and self._rows > 0):
            return True
        is_skipped = any(part.skip for part in left.again.values())
        return is_skipped or any(part.skip for part in left.ignored.values())

    def _read_parked(self, feed: FeedState) -> None:
        for number, part in self._listed({**feed.parked, **feed.ignored}):
            left = self._unlanded.setdefault(part.name, _Unlanded())
            if number in feed.parked:
                left.parked[number] = feed.parked[number]
            else:
                left.ignored[number] = feed.ignored[number]

    def _read_taken(self, feed: FeedState) -> None:
        leases = feed.leasing.open.values() if feed.leasing else ()
        for lease in leases:
            for _, part in self._listed(lease.parts):
                self._unlanded.setdefault(part.name, _Unlanded()).taken = True

    def _read_tried_again(self, feed: FeedState) -> None:
        for listed in feed.lists:
            if listed.end > self._next:
                parts = part_lists.read(self._slots, self._keys, listed)
                for number, part in enumerate(parts, listed.first):
                    if number >= self._next and not part.is_new:
                        left = self._unlanded.setdefault(part.name, _Unlanded())
                        left.again[number] = part

    def _listed(
        self, parts: Mapping[int, ParkedPart] | Mapping[int, LeasedPart]
    ) -> Iterator[tuple[int, ListedPart]]:
        """These parts, as their lists have them."""
        for listed in {part.listed: None for part in parts.values()}:
            for number, part in enumerate(
                part_lists.read(self._slots, self._keys, listed), listed.first
            ):
                if number in parts:
                    yield number, part


_NOTHING = _Unlanded()


def _not_landed(
    status: FileStatus, state: LandingState, parts: Mapping[int, ParkedPart]
) -> FileStatus:
    attempts = max(part.attempt for part in parts.values())
    return replace(status, state=state, attempts=attempts, error=parts[min(parts)].reason)
