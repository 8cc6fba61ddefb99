"""Looks at the bucket of one feed, again and again, and stores the lists of what it finds.

Everything here may take long, for it lists a bucket, so a driver calls it beside its own thread,
one call at a time. What a look has found counts once a DISCOVER names its list: ``adopt`` is called
then, and only then. A look that is not adopted is made again.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from landfall.discovery import part_lists
from landfall.discovery.feed_keys import FeedKeys
from landfall.discovery.index import MAX_MERGED, KnownIndex, merge, open_index, unneeded
from landfall.discovery.known import FileState, state_of
from landfall.discovery.looking import Found, Position, listed_part, look
from landfall.discovery.named_files import NamedFiles, tried_again
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
        replaced: parts that are parked or given up, of files whose new version gets numbers in the
            list.
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
        unlanded_parts = {**feed.parked, **feed.ignored}
        parked = self._read_parked(unlanded_parts)
        unlanded = _unlanded_files(unlanded_parts, parked)
        room = max(1, MAX_LISTED - len(again))
        rules = replace(
            self._rules,
            is_unlanded=unlanded.__contains__,
            most_parts=min(room, self._rules.most_parts),
        )
        after = self._position.start_after(rules, now)
        listing = self._source.files(after=after)
        found = look(listing, self._opened(feed).find, self._position, rules, now)
        changed = {f.file.name for f in found.files if f.state is FileState.CHANGED}
        replaced = tuple(n for n, part in sorted(parked.items()) if part.name in changed)
        again = tuple(n for n in again if n not in replaced)[: MAX_LISTED - len(found.parts())]
        tried = (tried_again(n, parked[n], feed.parked[n]) for n in again)
        parts = (*found.parts(), *tried)
        if not parts:
            return Look(found)
        listed = self.store_list(feed, parts)
        return Look(found, listed, parts, again, replaced)

    def adopt(self, seen: Look) -> None:
        """Go on from a look whose list a DISCOVER names, or that found nothing."""
        self._position = seen.found.position
        if seen.listed:
            self.adopt_list(seen.listed, seen.parts)

    def named(self, feed: Feed, names: Collection[str]) -> NamedFiles:
        """What is known of files, and whether other versions of them are there now.

        Raises:
            Stalled, Retry: as ``look``.
        """
        parts = self._read_parked({**feed.parked, **feed.ignored})
        if not names:
            return NamedFiles({n: part for n, part in parts.items() if n in feed.parked})
        wanted = {n: part for n, part in parts.items() if part.name in names}
        changed: dict[str, tuple[ListedPart, ...]] = {}
        unknown, unreadable = list[str](), dict[str, str]()
        for name in sorted(names):
            known = self._opened(feed).find(name)
            if known is None:
                unknown.append(name)
                continue
            file = self._source.find(name)
            if file is None or state_of(file, known) is not FileState.CHANGED:
                continue
            try:
                cut = self._rules.cut(name, file.size)
                changed[name] = tuple(listed_part(file, part.start, part.end) for part in cut)
            except ValueError as error:
                unreadable[name] = str(error)
        return NamedFiles(
            {n: part for n, part in wanted.items() if n in feed.parked},
            {n: part for n, part in wanted.items() if n in feed.ignored},
            changed,
            unknown,
            unreadable,
        )

    def store_list(self, feed: Feed, parts: Sequence[ListedPart]) -> PartList:
        """Store a list of what is to get the next numbers of the feed.

        Raises:
            Retry: the store does not answer.
        """
        return part_lists.write(self._slots, self._keys, feed.end, parts)

    def adopt_list(self, listed: PartList, parts: Sequence[ListedPart]) -> None:
        """Know what is in a list, once a DISCOVER names it."""
        if self._index:
            self._index.learn(listed.first, parts)

    def look_at_all(self) -> None:
        """Let the next look begin with the first name."""
        self._position = Position()

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

    def _opened(self, feed: Feed) -> KnownIndex:
        if self._index is None:
            self._index = open_index(self._slots, self._keys, feed.known, feed.lists)
        return self._index

    def _read_parked(self, parked: Mapping[int, ParkedPart]) -> dict[int, ListedPart]:
        """Parts that are parked or given up, as their lists have them."""
        self._parked = {n: part for n, part in self._parked.items() if n in parked}
        for listed in {parked[n].listed for n in parked.keys() - self._parked.keys()}:
            parts = part_lists.read(self._slots, self._keys, listed)
            for number in range(listed.first, listed.end):
                if number in parked:
                    self._parked[number] = parts[number - listed.first]
        return dict(self._parked)


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
