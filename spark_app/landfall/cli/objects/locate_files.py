"""The part of ``landfall locate`` about files: from a file and a row to an offset, and back."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from landfall.api.contract import LANE
from landfall.cli.group_store import GroupStore, map_concurrently
from landfall.discovery import part_lists
from landfall.discovery.feed_keys import FeedKeys
from landfall.errors import Reason, Stalled
from landfall.formats.parts import FilePart, UnreadableFileError
from landfall.lane.replacements import read_applied
from landfall.ledger import Discover, PartList, Replace
from landfall.ledger.effects import (
    Effect,
    LifetimeBegan,
    ObjectsReplaced,
    PartsNumbered,
    RangeLanded,
    RangeSkipped,
    effects,
)
from landfall.ledger.feeds import SPAN, number_of, part_offsets
from landfall.ledger.feeds.part_lists import ListedPart
from landfall.ledger.names import object_names
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.replace.replacement_lists import ReplacementList
from landfall.ledger.task_results import LandedSlice
from landfall.objects import FileChanged, ListedFile
from landfall.source.files import VersionedFile, reader_of_feed
from landfall.store.urls import open_files

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class FoundPart:
    """A part of a file under one of its numbers, and its outcome. ``--json`` prints it.

    Attributes:
        number: of the part.
        etag: of the version of the file.
        start: its first byte.
        end: the byte after its last.
        fate: ``landed``, ``parked``, ``tried-again``, ``replaced``, ``given-up``, ``not-landed``.
        message: what that means for it.
        objects: URLs of objects that hold rows of it, if there are any.
    """

    number: int
    etag: str
    start: int
    end: int
    fate: str
    message: str
    objects: tuple[str, ...] = ()


@dataclass
class _PartLanding:
    """The ledger's records about the offsets of a part."""

    objects: list[str] = field(default_factory=list)
    end: int = 0
    hole: RangeSkipped | None = None


@dataclass
class FeedParts:
    """The parts of one feed, of its present life, by the ledger.

    Attributes:
        opened: the group.
        tp: the feed.
    """

    opened: GroupStore
    tp: TopicPartition

    def __post_init__(self) -> None:
        self._parts: dict[PartList, tuple[ListedPart, ...]] = {}
        self._discovers: list[Discover] = []
        for effect in self._effects():
            match effect:
                case LifetimeBegan(topic_partition=self.tp):
                    self._discovers.clear()  # remains of a former life of the feed
                case PartsNumbered(topic_partition=self.tp, record=discover):
                    self._discovers.append(discover)
                case _:
                    pass

    def _effects(self) -> Iterator[Effect]:
        return (effect for record in self.opened.records() for effect in effects(record, self.tp))

    def part(self, number: int) -> ListedPart | None:
        """The part of this number; None if no list has it.

        Raises:
            Stalled: LEDGER_BROKEN, its list is missing or damaged.
            Retry: the store does not answer.
        """
        for record in self._discovers:
            if record.listed and record.listed.first <= number < record.listed.end:
                return self._list(record.listed)[number - record.listed.first]
        return None

    def next_number(self, number: int) -> int | None:
        """The number that a parked part got for a retry; None if it got none."""
        for record in self._discovers:
            if record.listed and number in record.again:
                parts = enumerate(self._list(record.listed), record.listed.first)
                return next((n for n, part in parts if part.former == number), None)
        return None

    def of_file(self, name: str) -> list[tuple[int, ListedPart]]:
        """All parts of all versions of a file of this name; every list is read.

        Raises:
            Stalled, Retry: as ``part``.
        """
        lists = [record.listed for record in self._discovers if record.listed]
        found: list[tuple[int, ListedPart]] = []
        for listed, parts in zip(lists, map_concurrently(self._read_list, lists), strict=True):
            found += [(n, part) for n, part in enumerate(parts, listed.first) if part.name == name]
        return found

    def offset_of(self, parts: Sequence[tuple[int, ListedPart]], row: int) -> int:
        """The offset of a row of a file, in the last version that has numbers.

        Rows of a file that was cut are counted in the file itself, as far as they are before.

        Args:
            parts: of the file, from ``of_file``; at least one.
            row: counted from 1.

        Raises:
            Stalled: SPEC_INVALID, the file has fewer rows, or was deleted or changed.
            Retry: the store does not answer.
        """
        new = [(n, part) for n, part in parts if part.is_new]
        begins = max(index for index, (_, part) in enumerate(new) if not part.goes_on)
        last = new[begins:]
        before = row - 1
        for number, part in last[:-1]:
            rows = self._rows_of(part)
            if before < rows:
                return self._latest(number, before)
            before -= rows
        return self._latest(last[-1][0], before)

    def _latest(self, number: int, row: int) -> int:
        """The offset of a row of a part: rows not landed under a number are under the next one."""
        while (after := self.next_number(number)) is not None:
            part = self.part(after)
            if part is None or row < part.skip:
                break
            number = after
        return part_offsets(number).start + row

    def _rows_of(self, part: ListedPart) -> int:
        feeds = (f for f in self.opened.group.spec.source.files if f.topic == self.tp.topic)
        feed = next(feeds, None)
        if feed is None:
            raise Stalled(Reason.SPEC_INVALID, f"{self.tp}: is no feed of the group any more")
        version = ListedFile(part.name, part.etag, part.size, _EPOCH)
        file = VersionedFile(open_files(feed), version)
        try:
            return sum(map(len, reader_of_feed(feed).read(file, FilePart(part.start, part.end))))
        except (FileChanged, UnreadableFileError) as error:
            raise Stalled(
                Reason.SPEC_INVALID,
                f"rows of {part.name} cannot be counted, only its parts be named: {error}",
            ) from error

    def fates(self, parts: Sequence[tuple[int, ListedPart]]) -> list[FoundPart]:
        """Return the outcomes of parts, in the order of their numbers."""
        landings = {number: _PartLanding() for number, _ in parts}
        replacements: list[Replace] = []
        for effect in self._effects():
            match effect:
                case LifetimeBegan() if effect.topic_partition == self.tp:
                    landings = {number: _PartLanding() for number, _ in parts}
                    replacements.clear()
                case RangeSkipped(piece=piece) if piece.topic_partition == self.tp:
                    if landing := landings.get(number_of(piece.offsets.start)):
                        landing.hole = effect
                case RangeLanded(landed=landed) if landed.piece.topic_partition == self.tp:
                    self._add(landings, landed)
                case ObjectsReplaced() if self.tp in {s.topic_partition for s in effect.slices}:
                    replacements.append(effect.record)
                case _:
                    pass
        through = self.opened.lane.read().applied_through
        for _, listed in read_applied(self.opened.store, replacements, through):
            self._replace(landings, listed)
        return [self._found(number, part, landings[number]) for number, part in parts]

    def _add(self, landings: dict[int, _PartLanding], landed: LandedSlice) -> None:
        start, end = landed.piece.offsets.start, landed.piece.offsets.end
        for number, landing in landings.items():
            first, after = number * SPAN, (number + 1) * SPAN
            if start < after and first < end:
                landing.end = min(end, after)
                landing.objects += [
                    o.upload.key
                    for o in landed.objects
                    if o.first_offset < after and first <= o.last_offset
                ]

    def _replace(self, landings: dict[int, _PartLanding], listed: ReplacementList) -> None:
        retired = {object_.key for object_ in listed.retire}
        for number, landing in landings.items():
            first, after = number * SPAN, (number + 1) * SPAN
            landing.objects = [key for key in landing.objects if key not in retired]
            landing.objects += [
                new.key
                for new in listed.objects
                if object_names.origin(self.opened.name, new.key).topic == self.tp.topic
                and any(s.first_offset < after and first <= s.last_offset for s in new.sections)
            ]

    def _found(self, number: int, part: ListedPart, landing: _PartLanding) -> FoundPart:
        fate, message = self._fate(number, part, landing)
        objects = tuple(self.opened.url(key) for key in sorted({*landing.objects}))
        return FoundPart(
            number=number,
            etag=part.etag,
            start=part.start,
            end=part.end,
            fate=fate,
            message=message,
            objects=objects,
        )

    def _fate(self, number: int, part: ListedPart, landing: _PartLanding) -> tuple[str, str]:
        if part.is_left_out:
            return "given-up", "was left out by a decision"
        if landing.hole is None:
            is_landed = landing.end == (number + 1) * SPAN
            return ("landed", "was landed") if is_landed else ("not-landed", "is not landed yet")
        why = f"could not be read: {landing.hole.reason}"
        if landing.hole.decision or any(number in r.ignored for r in self._discovers):
            return "given-up", f"was given up; it {why}"
        if (after := self.next_number(number)) is not None:
            return "tried-again", f"was tried again as part {after}; it {why}"
        if any(number in record.replaced for record in self._discovers):
            return "replaced", f"was left, as the file has a new version; it {why}"
        return "parked", f"is parked; it {why}"

    def describe(self, offset: int) -> str:
        """Return the row and the file of an offset; empty if it has none."""
        number = number_of(offset)
        part = self.part(number)
        if part is None:
            return ""
        row = offset - part_offsets(number).start + 1
        is_whole = part.start == 0 and part.end == part.size
        of = part.name if is_whole else f"bytes {part.start} to {part.end} of {part.name}"
        return f"row {row:,} of {of}, ETag {part.etag}"

    def _list(self, listed: PartList) -> tuple[ListedPart, ...]:
        if listed not in self._parts:
            self._parts[listed] = self._read_list(listed)
        return self._parts[listed]

    def _read_list(self, listed: PartList) -> tuple[ListedPart, ...]:
        keys = FeedKeys(self.opened.name, LANE, self.tp.topic)
        return part_lists.read(self.opened.store, keys, listed)
