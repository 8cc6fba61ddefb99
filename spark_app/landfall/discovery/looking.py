"""One look at a bucket: which files get numbers now, and where the next listing begins. Pure.

A look takes a listing, which is in the order of names, from ``start_after``. It returns the files
to number and the ``LookPosition`` for the next look, which counts *once a DISCOVER names the list
of these files*, or if there are none: a driver that could not append it keeps the position it had,
and finds the same files again. A driver that starts has no position, and lists all names.

Between two listings of all names, a look only lists what is new: names after the last one, from the
smallest name on that has not settled. A name that appears before is found by the next listing of
all, or at once by a hint: ``LookPosition.late`` has names that are looked up one by one,
and come before the listing. Those that have not settled are looked up, too, if that takes fewer
requests than a listing from there on. Nothing is lost by what a position does not have: to be new,
a file need only be listed and not known.

==============  ==========================================  ===================================
known as        and                                         then
==============  ==========================================  ===================================
``KNOWN``                                                   nothing
``STARTED``                                                 its other parts get numbers, first
``NEW``,        it has not settled                          it waits, and is looked at again
``CHANGED``     it changed, ``on_change`` is ``IGNORE``,
                and not ``is_unlanded``:
..              the known version ``is_pending``            it waits, and is looked at again
..              else                                        it is reported
..              it has the ``same_contents`` as another     it is reported
..              the reader cannot read it                   it is reported
..              else                                        all its parts get numbers
==============  ==========================================  ===================================

A look ends when ``most_parts`` parts are found. A file whose parts do not all have room begins the
next list. Only one that has more parts than any list is split: it is ``STARTED`` until a list has
its last part, and the next part begins at the byte where the last one ended, even if the reader
cuts files otherwise by then. Files are numbered by their time and name, or by their names alone;
the order holds among the files of one look.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import islice

from landfall.discovery.known import FileState, KnownFile, state_of
from landfall.discovery.rules import DiscoveryRules, OnChange
from landfall.formats.parts import FilePart
from landfall.ledger.feeds.part_lists import ListedPart, check_name
from landfall.objects import ListedFile

MAX_WAITING = 10_000
"""Of how many files that wait is remembered since when; of more, only where the first one is."""
MAX_LATE = 1_000
"""How many names are looked up one by one; the next listing of all names finds the rest."""
PAGE_FILES = 1_000
"""How many files a listing has per request, by which it is compared with looking names up."""
MAX_REPORTED = 100
"""Of how many files without numbers a look gives the names."""

Find = Callable[[str], KnownFile | None]
"""What is known of a name: ``KnownIndex.find``."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A file that has not settled: its size and ETag, and since when it was seen with them."""

    size: int
    etag: str
    since: datetime


@dataclass(frozen=True, slots=True)
class LookPosition:
    """Where the next look begins.

    Attributes:
        after: the last name of the last look.
        back_to: a name before the first one that waits; None if none does.
        has_more: the last look ended before the listing did.
        waiting: files that wait, by name: the first ``MAX_WAITING``.
        relisted: when the last listing of all names began; None if there was none.
        late: names that the next look looks up if its listing begins after them.
        behind: how many files were listed from ``back_to`` on.
        waits_since: when the first of all files that wait was written, or was first seen as it is
            now; None if none waits.
    """

    after: str = ""
    back_to: str | None = None
    has_more: bool = False
    waiting: Mapping[str, Waiting] = field(default_factory=dict)
    relisted: datetime | None = None
    late: frozenset[str] = frozenset()
    behind: int = 0
    waits_since: datetime | None = None

    def with_hints(self, names: Iterable[str]) -> "LookPosition":
        """Return the position of the next look, which also looks up these names."""
        late = dict.fromkeys((*sorted(self.late), *names))
        return replace(self, late=frozenset(islice(late, MAX_LATE)))

    def is_relist_due(self, rules: DiscoveryRules, now: datetime) -> bool:
        """Return whether the next listing covers all names; an open one continues first."""
        if self.relisted is None:
            return True
        return not self.has_more and now - self.relisted >= rules.relist

    def start_after(self, rules: DiscoveryRules, now: datetime) -> str:
        """After which name the next listing begins; empty for all names."""
        if self.is_relist_due(rules, now):
            return ""
        return self.after if self.has_more or self.back_to is None else self.back_to


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file with parts that get numbers, those parts, and what was known of it."""

    file: ListedFile
    state: FileState
    parts: tuple[FilePart, ...]


@dataclass(frozen=True, slots=True)
class SkippedFiles:
    """Files that get no numbers although they are new or changed.

    Attributes:
        files: how many.
        reasons: the names of the first of them, and why.
        changed: those among the first that were written again.
        duplicates: how many of them have the contents of other files.
        refused: how many of them have a name or a size that cannot be landed.
        first_refused: why the first of these cannot; empty if there is none.
    """

    files: int = 0
    reasons: tuple[tuple[str, str], ...] = ()
    changed: tuple[str, ...] = ()
    duplicates: int = 0
    refused: int = 0
    first_refused: str = ""


@dataclass(frozen=True, slots=True)
class LookResult:
    """Findings of a look.

    Attributes:
        files: what gets numbers, in order. Those that are ``CHANGED`` replace a version.
        skipped: what gets none, for good reasons.
        waiting_files: how many files have not settled.
        position: where the next look begins, once a DISCOVER names these files.
    """

    files: tuple[FoundFile, ...]
    skipped: SkippedFiles
    waiting_files: int
    position: LookPosition

    @property
    def has_more(self) -> bool:
        """True if there is more than may get numbers at once: the next look need not wait."""
        return self.position.has_more

    def parts(self) -> tuple[ListedPart, ...]:
        """The parts that get numbers, in order."""
        return tuple(
            listed_part(entry.file, part.start, part.end)
            for entry in self.files
            for part in entry.parts
        )


def listed_part(file: ListedFile, start: int, end: int) -> ListedPart:
    """A part of a file as it is listed under its first number."""
    modified = (file.modified - _EPOCH) // timedelta(milliseconds=1)
    return ListedPart(
        name=file.name, etag=file.etag, size=file.size, modified=modified, start=start, end=end
    )


def why_not_cut(error: Exception) -> str:
    """Why a reader cannot cut a file, without a text that may quote what the file holds."""
    is_said = isinstance(error, ValueError)
    return str(error) if is_said else f"the reader failed: {type(error).__name__}"


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def look(
    listing: Iterable[ListedFile],
    find: Find,
    position: LookPosition,
    rules: DiscoveryRules,
    now: datetime,
) -> LookResult:
    """Look at a bucket.

    Args:
        listing: the files after ``position.start_after(rules, now)``, in the order of their names;
            before them the ones of ``position.late`` that are not after it.
        find: what is known of a name, by all lists that DISCOVERs name.
        position: of the last look whose list a DISCOVER names.
        rules: which files count, and when.
        now: the time.

    Raises:
        ValueError: the listing is not after where it was to begin, or not in order.
    """
    one = _Look(find, position, rules, now)
    for file in listing:
        if not one.takes(file):
            break
    return one.found()


class _Look:
    def __init__(
        self, find: Find, position: LookPosition, rules: DiscoveryRules, now: datetime
    ) -> None:
        self.find = find
        self.position = position
        self.rules = rules
        self.now = now
        self.last = self.start = position.start_after(rules, now)
        self.has_more = False
        self.looked_up: set[str] = set()
        self.parts = 0
        self.files: list[FoundFile] = []
        self.contents: dict[tuple[str, int], str] = {}
        self.late: set[str] = set()
        self.back_to: str | None = None
        self.behind = 0
        self.waiting: dict[str, Waiting] = {}
        self.waiting_files = 0
        self.skipped_files = self.duplicates = self.refused = 0
        self.first_refused = ""
        self.waits_since: datetime | None = None
        self.reasons: list[tuple[str, str]] = []
        self.changed: list[str] = []

    def takes(self, file: ListedFile) -> bool:
        """Return whether the file is dealt with: if it is not, the next look begins with it."""
        is_late = self._is_late(file.name)
        if file.name <= self.last and not is_late:
            raise ValueError(f"lists {file.name!r} after {self.last!r}")
        self.behind += self.back_to is not None
        if self.rules.counts(file.name):
            known = self.find(file.name)
            state = state_of(file, known)
            if state is not FileState.KNOWN and not self._numbers(file, state, known):
                self.has_more = True
                return False
        if is_late:
            self.looked_up.add(file.name)
        else:
            self.last = file.name
        return True

    def _is_late(self, name: str) -> bool:
        """Return whether it is a name that is looked up, and not reached by the listing."""
        return name <= self.start and name in self.position.late

    def found(self) -> LookResult:
        """The result of this look."""
        ordered = sorted(self.files, key=self._order)
        return LookResult(
            tuple(ordered),
            SkippedFiles(
                files=self.skipped_files,
                reasons=tuple(self.reasons),
                changed=tuple(self.changed),
                duplicates=self.duplicates,
                refused=self.refused,
                first_refused=self.first_refused,
            ),
            self.waiting_files,
            self._next_position(),
        )

    def _order(self, found: FoundFile) -> tuple[bool, datetime, str]:
        # What has begun continues: rows of one file follow each other.
        time = _FIRST if self.rules.ordered_names else found.file.modified
        return found.state is not FileState.STARTED, time, found.file.name

    def _next_position(self) -> LookPosition:
        before, is_relist = self.position, self.position.is_relist_due(self.rules, self.now)
        goes_on = before.has_more and not is_relist
        is_before = goes_on and before.back_to is not None
        back_to = before.back_to if is_before else self.back_to
        waits_since = before.waits_since if goes_on or self._is_any_unseen() else None
        # Of names that this listing did not come to, what was remembered stays so.
        later = {
            name: waiting
            for name, waiting in before.waiting.items()
            if (goes_on and name <= self.start) or (self.has_more and name > self.last)
        }
        names = sorted({**later, **self.waiting})[:MAX_WAITING]
        late = self.late | {name for name in before.late if self._is_left(name)}
        behind = self.behind + (before.behind if is_before else 0)
        if not self.has_more and len(names) <= MAX_LATE and len(names) * PAGE_FILES < behind:
            late, back_to = late.union(names), None  # looking up is less than listing from there on
        return LookPosition(
            after=self.last,
            back_to=back_to,
            has_more=self.has_more,
            waiting={name: self.waiting.get(name) or later[name] for name in names},
            relisted=self.now if is_relist else before.relisted,
            late=frozenset(sorted(late, key=lambda name: (name not in names, name))[:MAX_LATE]),
            behind=0 if back_to is None else behind,
            waits_since=_first_of(waits_since, self.waits_since),
        )

    def _is_any_unseen(self) -> bool:
        """Return whether a name was to be looked up, and the store did not answer."""
        return any(name <= self.start and name not in self.looked_up for name in self.position.late)

    def _is_left(self, name: str) -> bool:
        """Return whether a name that was to be looked up is still to be."""
        if name <= self.start:
            return name not in self.looked_up
        return self.has_more and name > self.last

    def _numbers(self, file: ListedFile, state: FileState, known: KnownFile | None) -> bool:
        """Return whether there was room for the file, which is not known, or it needs none."""
        if state is not FileState.STARTED and not self._is_ready(file, state):
            return True
        reason = self._reason_to_skip(file, state)
        parts: tuple[FilePart, ...] = ()
        if not reason:
            try:
                check_name(file.name)
                parts = self.rules.cut(file.name, file.size)
            except Exception as error:  # noqa: BLE001  # of a reader, which may be a plug-in
                reason = why_not_cut(error)
                self.refused += 1
                is_named = repr(file.name) in reason
                said = reason if is_named else f"{file.name!r}: {reason}"
                self.first_refused = self.first_refused or said
        if reason:
            self._skip(file, reason)
            return True
        done = known.listed_to if known and state is FileState.STARTED else 0
        return self._adds(file, state, _from_byte(parts, done))

    def _adds(self, file: ListedFile, state: FileState, parts: tuple[FilePart, ...]) -> bool:
        """Return whether all of the parts had room."""
        room = self.rules.most_parts - self.parts
        if len(parts) > room and self.files:
            return False
        self.parts += len(parts[:room])
        self.files.append(FoundFile(file, state, parts[:room]))
        self.contents[file.etag, file.size] = file.name
        return len(parts) <= room

    def _is_ready(self, file: ListedFile, state: FileState) -> bool:
        """Return whether a file has settled, and it is known what to do; if not, it waits."""
        settle, seen = self.rules.settle, self.position.waiting.get(file.name)
        is_other = seen is not None and (seen.size, seen.etag) != (file.size, file.etag)
        since = self.now if seen is None or is_other else seen.since
        # The clock of the store may be ahead of ours: then what counts is how long we saw it.
        written = min(file.modified, since)
        is_settled = not is_other and self.now - written >= settle
        if is_settled and not (self._is_kept(file, state) and self.rules.is_pending(file.name)):
            return True
        if self._is_late(file.name):
            self.late.add(file.name)
        elif self.back_to is None:
            self.back_to = self.last
        self.waiting_files += 1
        self.waits_since = _first_of(self.waits_since, written)
        if len(self.waiting) < MAX_WAITING:
            self.waiting[file.name] = Waiting(file.size, file.etag, since)
        return False

    def _is_kept(self, file: ListedFile, state: FileState) -> bool:
        """Return whether the known version of a file counts, though there is a new one."""
        is_landed = state is FileState.CHANGED and not self.rules.is_unlanded(file.name)
        return is_landed and self.rules.on_change is OnChange.IGNORE

    def _reason_to_skip(self, file: ListedFile, state: FileState) -> str:
        if self._is_kept(file, state):
            if len(self.changed) < MAX_REPORTED:
                self.changed.append(file.name)
            return "was written again"
        other = self._same_contents(file) if state is not FileState.STARTED else None
        self.duplicates += other is not None
        return "" if other is None else f"has the contents of {other!r}, by ETag {file.etag}"

    def _same_contents(self, file: ListedFile) -> str | None:
        """Another file with the same contents that has numbers, or gets some now."""
        if self.rules.same_contents is None or not (file.etag and file.size):
            return None
        return self.contents.get((file.etag, file.size)) or self.rules.same_contents(file)

    def _skip(self, file: ListedFile, reason: str) -> None:
        self.skipped_files += 1
        if len(self.reasons) < MAX_REPORTED:
            self.reasons.append((file.name, reason))


_FIRST = datetime.min.replace(tzinfo=UTC)


def _first_of(*times: datetime | None) -> datetime | None:
    """The earliest of these times, if there are any."""
    return min((time for time in times if time is not None), default=None)


def _from_byte(parts: tuple[FilePart, ...], start: int) -> tuple[FilePart, ...]:
    """The parts of what is left of a file from a byte on, which may be inside one of them."""
    if not start:
        return parts
    return tuple(FilePart(max(part.start, start), part.end) for part in parts if part.end > start)
