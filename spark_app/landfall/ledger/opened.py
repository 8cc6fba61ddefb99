"""By which stored spec an object was made. Pure.

The owner of a lane lands by the spec that its OPEN names. Merges and copies keep the format of what
they are made of, so their spec is the one by which their rows were landed: ``MadeIn``
finds that record, and ``OpenedSpecs`` the spec that the owner of its slot had.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from landfall.ledger.entries import Purpose
from landfall.ledger.names.object_names import parse_key, renamed
from landfall.ledger.records import Replace
from landfall.ledger.replace.replacement_lists import NewObject, ReplacementList, Section
from landfall.ledger.task_results import DecidedObject, ObjectKind

Read = Callable[[int], tuple[Replace, ReplacementList]]
"""Gives the REPLACE in a slot, and its list."""

KEPT_LISTS = 4
"""How many lists are kept, for objects that were merged or copied together."""
KEPT_ANSWERS = 20_000
"""For how many objects the answer is kept, so that what is merged often is not traced each time."""


class MadeIn:
    """The slots of the records that landed the rows of objects. For one thread."""

    def __init__(self, read: Read) -> None:
        """Read nothing yet; ``read`` is asked for each time that an object was merged or copied."""
        self._read = read
        self._lists: dict[int, _List] = {}
        self._known: dict[str, int] = {}

    def replace(self, slot: int) -> tuple[Replace, ReplacementList]:
        """The REPLACE in a slot, and its list: read once for this and for ``slot``."""
        found = self._list(slot)
        return found.record, found.listed

    def slot(self, key: str, decided: int) -> int:
        """The slot by whose spec an object of data was made.

        Args:
            key: of the object.
            decided: the slot of the record that names it.
        """
        asked = key
        while key not in self._known and parse_key(key).planned_by >= 0:
            source = self._source(key, decided)
            if source is None:
                break
            key, decided = source.key, source.slot
        found = self._known.get(key, decided)
        if parse_key(asked).planned_by >= 0:
            self._known[asked] = found
            if len(self._known) > KEPT_ANSWERS:
                del self._known[next(iter(self._known))]
        return found

    def sources(self, key: str, decided: int) -> Mapping[str, int]:
        """The objects that were landed and whose rows an object has, by key, with their slots.

        The slots are of COMMITs and REPLAYs. What a backfill landed has the rows of the objects
        that it replaced.

        Args:
            key: of the object.
            decided: the slot of the record that names it.
        """
        found, waiting, seen = dict[str, int](), [(key, decided)], set[str]()
        while waiting:
            key, slot = waiting.pop()
            if key in seen:
                continue
            seen.add(key)
            old = self._replaced_by(key, slot) if parse_key(key).planned_by >= 0 else []
            waiting += [(object_.key, object_.slot) for object_ in old]
            if not old:
                found[key] = slot
        return found

    def _replaced_by(self, key: str, slot: int) -> Sequence[DecidedObject]:
        """The objects whose rows, or ranges, a new object of a REPLACE has."""
        listed = self._list(slot)
        new = listed.new.get(key)
        if new is None:
            return ()
        if listed.back != -1 and (copied := self._list(listed.back).copied(key)) is not None:
            return (copied,)
        is_backfill = listed.record.purpose is Purpose.BACKFILL
        among = listed.retired if is_backfill else listed.by_folder.get(_folder(key), ())
        return [old for old in among if overlap(self._sections(old) or _whole(old), new.sections)]

    def _source(self, key: str, slot: int) -> DecidedObject | None:
        """An object that one was made of, which a REPLACE names; all of them are of one spec.

        None if nothing records it, as of what a backfill has landed.
        """
        listed = self._list(slot)
        new = listed.new.get(key)
        if new is None or listed.record.purpose is Purpose.BACKFILL:
            return None
        if listed.back != -1:
            return self._list(listed.back).copied(key)
        return listed.copied(key) or self._merged(listed, new)

    def _merged(self, listed: "_List", new: NewObject) -> DecidedObject | None:
        """An object that was merged or cut into a new one, within its folder and generation."""
        alike = listed.by_folder.get(_folder(new.key), ())
        for old in alike:
            if overlap(_whole(old), new.sections):
                return old
        # Half of one that was cut may have rows of other Kafka partitions than its name shows.
        return next((old for old in alike if overlap(self._sections(old), new.sections)), None)

    def _sections(self, old: DecidedObject) -> tuple[Section, ...]:
        key = old.key
        made = self._list(old.slot).new.get(key) if parse_key(key).planned_by >= 0 else None
        return made.sections if made else ()

    def _list(self, slot: int) -> "_List":
        if slot not in self._lists:
            self._lists[slot] = _List(*self._read(slot))
            if len(self._lists) > KEPT_LISTS:
                del self._lists[next(iter(self._lists))]
        return self._lists[slot]


class _List:
    """The objects of data in the list of a REPLACE, by what they are looked up by."""

    def __init__(self, record: Replace, listed: ReplacementList) -> None:
        retire = [object_ for object_ in listed.retire if object_.landed.kind is ObjectKind.DATA]
        self.record = record
        self.listed = listed
        self.back = taken_back(record, listed)
        self.new = {object_.key: object_ for object_ in listed.objects}
        self.retired = retire
        self._by_name = {renamed(object_.key, 0): object_ for object_ in retire}
        self.by_folder = defaultdict[tuple[str, int], list[DecidedObject]](list)
        for object_ in retire:
            self.by_folder[_folder(object_.key)].append(object_)

    def copied(self, key: str) -> DecidedObject | None:
        """The original of a copied object: it has the same name, but for the plan."""
        return self._by_name.get(renamed(key, 0))


def taken_back(record: Replace, listed: ReplacementList) -> int:
    """The slot of the REPLACE that a record undoes; -1 if it undoes none.

    Earlier software has not written it for a merge, and has undone only what was the last in all
    folders: there what retires was made by that slot.
    """
    is_given_up = record.instead != -1 and not record.again
    if record.purpose is not Purpose.UNDO or is_given_up:
        return -1
    named = max(record.undoes, record.unmerges)
    return named if named != -1 or not listed.retire else listed.retire[0].slot


def _whole(old: DecidedObject) -> tuple[Section, ...]:
    """The records of an object, if all are of the Kafka partition in its name."""
    return (Section.of(parse_key(old.key).partition, old.landed),)


def _folder(key: str) -> tuple[str, int]:
    """The folder and the generation of an object."""
    return key.rpartition("/")[0], parse_key(key).generation


def overlap(some: Iterable[Section], others: Iterable[Section]) -> bool:
    """Return whether sections of one topic may have rows of the same records."""
    return any(
        one.partition == other.partition
        and one.first_offset <= other.last_offset
        and other.first_offset <= one.last_offset
        for one, other in product(some, others)
    )


@dataclass
class OpenedSpecs:
    """The stored specs that OPENs name.

    A generation has several if its spec was changed, and the generation was not raised.
    """

    _opens: dict[int, list[tuple[int, str]]] = field(default_factory=dict)
    _last: tuple[int, str] | None = None

    def learn(self, generation: int, slot: int, digest: str) -> None:
        """Take note that a slot is owned by a generation with a stored spec; in order of slots."""
        if (generation, digest) != self._last:
            opens = self._opens.setdefault(generation, [])
            if not opens or opens[-1][0] < slot:
                opens.append((slot, digest))
                self._last = generation, digest

    def take(self, other: "OpenedSpecs") -> None:
        """Take note of what another one knows of later slots."""
        for slot, generation, digest in sorted(other):
            self.learn(generation, slot, digest)

    def __iter__(self) -> Iterator[tuple[int, int, str]]:
        """The first slots that are known of generations with a stored spec."""
        for generation, opens in self._opens.items():
            for slot, digest in opens:
                yield slot, generation, digest

    def __contains__(self, generation: int) -> bool:
        """Return whether any slot of a generation is known."""
        return generation in self._opens

    def digest(self, generation: int, slot: int) -> str:
        """The stored spec by which a slot has landed objects of a generation; empty for none."""
        opens = self._opens.get(generation) or [(-1, "")]
        known = [digest for first, digest in opens if first <= slot]
        return known[-1] if known else opens[0][1]

    def digests(self, generation: int) -> list[str]:
        """The stored specs by which a generation was landed, the last one first; empty for none."""
        opens = self._opens.get(generation) or [(-1, "")]
        return list(dict.fromkeys(digest for _, digest in reversed(opens)))
