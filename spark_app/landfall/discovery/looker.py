"""Looks at the bucket of one feed, again and again, and stores the lists of what it finds.

Everything here may take long, for it lists a bucket, so a driver calls it beside its own thread,
one call at a time. What a look has found counts once a DISCOVER names its list: ``adopt`` is called
then, and only then. A look that is not adopted is made again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from landfall.discovery import part_lists
from landfall.discovery.feed_keys import FeedKeys
from landfall.discovery.index import MAX_MERGED, KnownIndex, merge, open_index, unneeded
from landfall.discovery.known import FileState, version_of
from landfall.discovery.looking import Found, Position, look
from landfall.discovery.rules import Rules
from landfall.ledger import Feed, KnownFiles, ParkedPart, PartList
from landfall.ledger.feeds import MAX_LISTED
from landfall.ledger.part_lists import ListedPart
from landfall.store import Slots, SourceFiles


@dataclass(frozen=True, slots=True)
class Look:
    """What a look has found, and what a DISCOVER is to say of it.

    Attributes:
        found: the files, and where the next look begins.
        listed: the list of all parts that get numbers; None if none does.
        parts: those parts.
        again: parked parts that get other numbers in the list.
        replaced: parked parts of files whose new version has numbers, or gets them in the list.
    """

    found: Found
    listed: PartList | None = None
    parts: tuple[ListedPart, ...] = ()
    again: tuple[int, ...] = ()
    replaced: tuple[int, ...] = ()


class FeedLooker:
    """Finds the files of one feed that have no numbers.

    Args:
        slots: where lists and index are stored.
        keys: their keys.
        source: where the files are.
        rules: which of them count; how changed files are dealt with.
    """

    def __init__(self, slots: Slots, keys: FeedKeys, source: SourceFiles, rules: Rules) -> None:
        self._slots, self._keys, self._source, self._rules = slots, keys, source, rules
        self._index: KnownIndex | None = None
        self._position = Position()
        self._parked: dict[int, ListedPart] = {}
        self._outdated: set[int] = set()

    def look(self, feed: Feed, again: tuple[int, ...], now: datetime) -> Look:
        """Look at the bucket, and store the list of what is to get numbers.

        Args:
            feed: what the ledger knows.
            again: parked parts that are to be tried again; those of files that were written anew
                are replaced instead.
            now: the time.

        Raises:
            Stalled: LEDGER_BROKEN, something that the ledger names is gone or damaged.
            Retry: a store does not answer; StoreDenied, it refuses.
        """
        if self._index is None:
            self._index = open_index(self._slots, self._keys, feed.known, feed.lists)
        newly_parked = feed.parked.keys() - self._parked.keys()
        parked = self._read_parked(feed.parked)
        unlanded = _unlanded_files(feed.parked, parked)
        room = max(1, MAX_LISTED - len(again))
        rules = replace(
            self._rules,
            is_unlanded=unlanded.__contains__,
            most_parts=min(room, self._rules.most_parts),
        )
        after = self._position.start_after(rules, now)
        listing = self._source.files(after=after)
        found = look(listing, self._index.find, self._position, rules, now)
        changed = {f.file.name for f in found.files if f.state is FileState.CHANGED}
        self._outdated |= {n for n in newly_parked if self._is_outdated(parked[n])}
        replaced = tuple(
            n for n, part in sorted(parked.items()) if part.name in changed or n in self._outdated
        )
        again = tuple(n for n in again if n not in replaced)[: MAX_LISTED - len(found.parts())]
        tried = (_tried_again(n, parked[n], feed.parked[n]) for n in again)
        parts = (*found.parts(), *tried)
        if not parts:
            return Look(found, replaced=replaced)
        listed = part_lists.write(self._slots, self._keys, feed.end, parts)
        return Look(found, listed, parts, again, replaced)

    def adopt(self, seen: Look) -> None:
        """Go on from a look whose list a DISCOVER names, or that found nothing."""
        self._position = seen.found.position
        if seen.listed and self._index:
            self._index.learn(seen.listed.first, seen.parts)

    def has_to_merge(self, feed: Feed) -> bool:
        """Whether so many lists are not in the index that they would fill memory."""
        through = feed.known.through if feed.known else 0
        return sum(each.end > through for each in feed.lists) >= MAX_MERGED

    def merge(self, feed: Feed) -> KnownFiles:
        """Store an index that also has the files of the oldest lists; see ``index.merge``."""
        return merge(self._slots, self._keys, feed.known, feed.lists)

    def adopt_index(self, known: KnownFiles, before: KnownFiles | None) -> None:
        """Let go of what an index replaces that a DISCOVER names now.

        Raises:
            Stalled: LEDGER_BROKEN, the index is gone or damaged.
            Retry: the store does not answer; what is not deleted stays until the next index.
        """
        self._index = None
        self._slots.delete_slots(list(unneeded(self._slots, self._keys, known, before)))

    def _is_outdated(self, part: ListedPart) -> bool:
        """Whether another version of a part's file has numbers already."""
        assert self._index
        known = self._index.find(part.name)
        return known is not None and (known.size, known.version) != (
            part.size,
            version_of(part.etag),
        )

    def _read_parked(self, parked: Mapping[int, ParkedPart]) -> dict[int, ListedPart]:
        """The parked parts, as their lists have them."""
        self._parked = {n: part for n, part in self._parked.items() if n in parked}
        self._outdated &= parked.keys()
        for listed in {parked[n].listed for n in parked.keys() - self._parked.keys()}:
            parts = part_lists.read(self._slots, self._keys, listed)
            for number in range(listed.first, listed.end):
                if number in parked:
                    self._parked[number] = parts[number - listed.first]
        return dict(self._parked)


def _tried_again(number: int, part: ListedPart, parked: ParkedPart) -> ListedPart:
    """The part as it is listed under another number."""
    return ListedPart(
        part.name,
        part.etag,
        part.size,
        part.modified,
        part.start,
        part.end,
        former=number,
        attempt=parked.attempt,
        # Rows that are landed under a former number are not counted under this one.
        skip=max(part.skip, parked.skip),
    )


def _unlanded_files(
    parked: Mapping[int, ParkedPart], parts: Mapping[int, ListedPart]
) -> frozenset[str]:
    """Files of which every part is parked before its first row."""
    left: dict[tuple[str, str, int], int] = {}
    for number, part in parts.items():
        if not (part.skip or parked[number].skip):
            version = (part.name, part.etag, part.size)
            left[version] = left.get(version, 0) + len(part)
    return frozenset(name for (name, _, size), known in left.items() if known == size)
