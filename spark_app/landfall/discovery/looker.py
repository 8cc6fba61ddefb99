"""Looks at the bucket of one feed, again and again, and stores the lists of what it finds.

Everything here may take long, for it lists a bucket, so a driver calls it outside its own thread,
one call at a time. What a look has found counts once a DISCOVER names its list: ``adopt`` is called
then, and only then. A look that is not adopted is made again.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import chain

from landfall.discovery import part_lists
from landfall.discovery.contents import KnownContents
from landfall.discovery.feed_keys import FeedKeys
from landfall.discovery.index import MAX_MERGED, KnownIndex, merge, open_index, unneeded
from landfall.discovery.known import FileState, state_of
from landfall.discovery.looking import LookPosition, LookResult, listed_part, look, why_not_cut
from landfall.discovery.named_files import NamedFiles, tried_again
from landfall.discovery.rules import DiscoveryRules
from landfall.errors import Reason, Stalled, StoreAway, StoreDenied
from landfall.ledger import FeedState, KnownFiles, ParkedPart, PartList
from landfall.ledger.feeds import MAX_LISTED
from landfall.ledger.feeds.part_lists import ListedPart, check_name
from landfall.objects import ListedFile
from landfall.store import Slots, SourceFiles


@dataclass(frozen=True, slots=True)
class Look:
    """The result of a look, and the contents of its DISCOVER.

    Attributes:
        found: the files, and where the next look begins.
        listed: the list of all parts that get numbers; None if none does.
        parts: those parts.
        again: parked parts that get other numbers in the list.
        replaced: parts that are parked or given up, of files whose new version has numbers, or gets
            them in the list.
    """

    found: LookResult
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
        contents: finds files that have the contents of other files, which get no numbers; None if
            only names are compared.
    """

    def __init__(
        self,
        slots: Slots,
        keys: FeedKeys,
        source: SourceFiles,
        rules: DiscoveryRules,
        contents: KnownContents | None = None,
    ) -> None:
        self._slots = slots
        self._keys = keys
        self._source = source
        self._rules = rules
        self._contents = contents
        self._index: KnownIndex | None = None
        self._position = LookPosition()
        self._parked: dict[int, ListedPart] = {}
        self._checked: set[int] = set()
        self._outdated: set[int] = set()
        self._tried: dict[PartList, dict[int, str]] = {}

    def add_hints(self, names: Iterable[str]) -> None:
        """Look these names up at the next look, as far as its listing does not come to them.

        They are hints: what is there is judged as if a listing had shown it. Names that no file can
        have, and those that do not count, are left out.
        """
        counted = filter(self._rules.counts, filter(_can_be, names))
        self._position = self._position.with_hints(counted)

    def look(
        self,
        feed: FeedState,
        again: tuple[int, ...],
        now: datetime,
        *,
        begun: int,
        anew: bool = False,
    ) -> Look:
        """Look at the bucket, and store the list of what is to get numbers.

        Args:
            feed: what the ledger knows.
            again: parked parts that are to be tried again; parts of files that were written again
                are replaced instead.
            now: the time.
            begun: see ``ledger.feeds.begun_to``.
            anew: list all names, no matter when they were last listed; a listing under way ends
                first.

        Raises:
            Stalled: LEDGER_BROKEN, something that the ledger names is gone or damaged;
                STORE_UNSAFE, the store does not list names in order.
            Retry: a store does not answer; StoreDenied, it refuses.
        """
        parked = self._read_parked({**feed.parked, **feed.ignored})
        rules = self._rules_with(feed, parked)
        rules = replace(rules, is_pending=partial(self._is_pending, feed, begun))
        room = max(1, MAX_LISTED - len(again))
        relist = timedelta(0) if anew else rules.relist
        rules = replace(rules, relist=relist, most_parts=min(room, rules.most_parts))
        index = self._opened(feed)
        after = self._position.start_after(rules, now)
        late = self._look_up_late(after)
        listing = chain(late, self._source.files(after=after))
        try:
            found = look(
                listing=listing, find=index.find, position=self._position, rules=rules, now=now
            )
        except ValueError as error:
            raise Stalled(Reason.STORE_UNSAFE, f"{self._source}: {error}") from error
        changed = {f.file.name for f in found.files if f.state is FileState.CHANGED}
        new, self._checked = parked.keys() - self._checked, {*parked}
        self._outdated |= {n for n in new if self._is_outdated(index, parked[n])}
        replaced = tuple(
            n for n, part in sorted(parked.items()) if part.name in changed or n in self._outdated
        )
        again = tuple(n for n in again if n not in replaced)[: MAX_LISTED - len(found.parts())]
        tried = (tried_again(n, parked[n], feed.parked[n]) for n in again)
        numbered = (*found.parts(), *tried)
        if not numbered:
            return Look(found, replaced=replaced)
        listed = self.store_list(feed, numbered)
        return Look(found=found, listed=listed, parts=numbered, again=again, replaced=replaced)

    def _rules_with(self, feed: FeedState, parked: Mapping[int, ListedPart]) -> DiscoveryRules:
        """The rules, with what they need to know of parts that are parked or given up."""
        unlanded = _unlanded_files({**feed.parked, **feed.ignored}, parked)
        rules = replace(self._rules, is_unlanded=unlanded.__contains__)
        if self._contents is None:
            return rules
        self._contents.follow(self._opened(feed))
        unread = {(part.name, part.etag) for part in parked.values()}
        return replace(rules, same_contents=partial(self._same_contents, unread))

    def _is_pending(self, feed: FeedState, begun: int, name: str) -> bool:
        """Return whether a part of a file is still to be read, or is at a taker."""
        known = self._opened(feed).find(name)
        if known is not None and known.number >= begun:
            return True
        leases = feed.leasing.open.values() if feed.leasing else ()
        if known is not None and any(known.number in lease.parts for lease in leases):
            return True
        self._tried = {
            listed: self._tried[listed] if listed in self._tried else self._tried_again(listed)
            for listed in feed.lists
            if listed.end > begun
        }
        tried = (number for names in self._tried.values() for number in names.items())
        return any(number >= begun and of == name for number, of in tried)

    def _tried_again(self, listed: PartList) -> dict[int, str]:
        """The files of the parts in a list that had another number before."""
        parts = part_lists.read(self._slots, self._keys, listed)
        return {n: part.name for n, part in enumerate(parts, listed.first) if not part.is_new}

    def adopt(self, seen: Look) -> None:
        """Continue from a look whose list a DISCOVER names, or that found nothing."""
        self._position = seen.found.position
        if seen.listed:
            self.adopt_list(seen.listed, seen.parts)

    def named(self, feed: FeedState, names: Collection[str]) -> NamedFiles:
        """Return what is known of files, and whether other versions of them are there now.

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
            except Exception as error:  # noqa: BLE001  # of a reader, which may be a plug-in
                unreadable[name] = why_not_cut(error)
        return NamedFiles(
            parked={n: part for n, part in wanted.items() if n in feed.parked},
            ignored={n: part for n, part in wanted.items() if n in feed.ignored},
            changed=changed,
            unknown=unknown,
            unreadable=unreadable,
        )

    def store_list(self, feed: FeedState, parts: Sequence[ListedPart]) -> PartList:
        """Store a list of what is to get the next numbers of the feed.

        Raises:
            Retry: the store does not answer.
        """
        return part_lists.write(self._slots, self._keys, feed.end, parts)

    def adopt_list(self, listed: PartList, parts: Sequence[ListedPart]) -> None:
        """Know what is in a list, once a DISCOVER names it."""
        if self._index:
            self._index.learn(listed.first, parts)
        if self._contents:
            self._contents.learn(parts)

    def look_at_all(self) -> None:
        """Let the next look begin with the first name."""
        self._position = LookPosition()

    def has_to_merge(self, feed: FeedState) -> bool:
        """Return whether so many lists are not in the index that they would fill memory."""
        through = feed.known.through if feed.known else 0
        return sum(list_.end > through for list_ in feed.lists) >= MAX_MERGED

    def merge(self, feed: FeedState) -> KnownFiles:
        """Store an index that also has the files of the oldest lists; see ``index.merge``."""
        # Their files are in memory once more while they are merged.
        self._index = None
        if self._contents:
            self._contents.let_go()
        return merge(self._slots, self._keys, feed.known, feed.lists)

    def adopt_index(self, known: KnownFiles, before: KnownFiles | None) -> None:
        """Let go of what an index replaces that a DISCOVER names now.

        Raises:
            Stalled: LEDGER_BROKEN, the index is gone or damaged.
            Retry: the store does not answer; what is not deleted stays until the next index.
        """
        self._index = None
        self._slots.delete_slots(list(unneeded(self._slots, self._keys, known, before)))

    def _look_up_late(self, after: str) -> list[ListedFile]:
        """Files of hints, to which a listing after this name does not come.

        Nothing depends on them: a name that the store refuses, or does not have, is forgotten; one
        for which it does not answer is looked up again. The next listing of all names finds more.
        """
        files, names = list[ListedFile](), set(self._position.late)
        for name in sorted(name for name in names if name <= after):
            try:
                found = self._source.find(name)
            except StoreDenied:
                found = None
            except StoreAway:
                continue
            if found is None:
                names.discard(name)
            else:
                files.append(found)
        self._position = replace(self._position, late=frozenset(names))
        return files

    def _same_contents(self, unread: Collection[tuple[str, str]], file: ListedFile) -> str | None:
        """Another file with the same contents and no part that is unread for good, or for now."""
        if self._contents is None:
            return None
        return self._contents.other_name(
            file, lambda it: not it.is_left_out and (it.name, it.etag) not in unread
        )

    def _opened(self, feed: FeedState) -> KnownIndex:
        if self._index is None:
            self._index = open_index(self._slots, self._keys, feed.known, feed.lists)
        return self._index

    def _is_outdated(self, index: KnownIndex, part: ListedPart) -> bool:
        """Return whether another version of a part's file has numbers already."""
        known = index.find(part.name)
        return known is not None and (known.size, known.etag) != (part.size, part.etag)

    def _read_parked(self, parked: Mapping[int, ParkedPart]) -> dict[int, ListedPart]:
        """Parts that are parked or given up, as their lists have them."""
        self._parked = {n: part for n, part in self._parked.items() if n in parked}
        self._outdated &= parked.keys()
        for listed in {parked[n].listed for n in parked.keys() - self._parked.keys()}:
            parts = part_lists.read(self._slots, self._keys, listed)
            for number in range(listed.first, listed.end):
                if number in parked:
                    self._parked[number] = parts[number - listed.first]
        return dict(self._parked)


def _can_be(name: str) -> bool:
    """Return whether there can be a file of this name."""
    try:
        check_name(name)
    except ValueError:
        return False
    return True


def _unlanded_files(
    parked: Mapping[int, ParkedPart], parts: Mapping[int, ListedPart]
) -> frozenset[str]:
    """Files whose parts are all parked before its first row."""
    left: dict[tuple[str, str, int], int] = {}
    for number, part in parts.items():
        if not (part.skip or parked[number].skip):
            version = (part.name, part.etag, part.size)
            left[version] = left.get(version, 0) + len(part)
    return frozenset(name for (name, _, size), known in left.items() if known == size)
