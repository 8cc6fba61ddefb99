"""Opens what a group has landed: which objects are visible at which slot of its ledger."""

import os
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import pyarrow as pa
from pydantic import ValidationError

from landfall.api import group_file
from landfall.api.contract import LANE
from landfall.api.spec import Access, ConsumerGroup, Ledger, Output
from landfall.api.spec_errors import spec_errors
from landfall.errors import Reason, Retry, Stalled
from landfall.landed.opened_group import OpenedGroup
from landfall.lane import Lane
from landfall.lane.stores import open_stores, with_ledger
from landfall.ledger import State, decode
from landfall.ledger.effects import RangeLanded, effects
from landfall.ledger.names import folders, object_names
from landfall.ledger.names.roots import LEDGER_MARK, marked_ledger
from landfall.ledger.offsets import Slice
from landfall.publish import Stretch, VisibleObject
from landfall.publish.following import Follower
from landfall.reading import letters
from landfall.reading.files import Choice, File, PartitionTimes, chooser
from landfall.reading.scans import RowSource, Scan
from landfall.reading.specs import ObjectSpecs
from landfall.registry import Allowed
from landfall.store import Store
from landfall.store.urls import open_store
from landfall.untrusted_json import parse_document

if TYPE_CHECKING:
    from landfall.reading.tail import TailSource


class LandedGroup:
    """The rows that a group has landed; only what is committed and visible.

    It keeps what it has read of the ledger, about 300 bytes an object, so that each scan after the
    first costs one listing and what is new. Not for several threads at once.

    Where objects are replaced, a scan of an earlier slot reads the old ones, by their
    copies. Who reads only what is new after a slot, by ``after`` or ``follow``, gets each row once:
    what COMMITs made visible, and never a replacement, for any reason.
    """

    def __init__(
        self,
        store: Store,
        output: Output,
        lane: tuple[str, str],
        group: ConsumerGroup | None = None,
        plugins: Collection[str] = (),
    ) -> None:
        """Read nothing yet.

        Args:
            store: holds the ledger and the objects.
            output: where that is.
            lane: the group's name and the lane's.
            group: the group's file.
            plugins: names of formats that may be imported, though only a file in the store names
                them.
        """
        self.name = lane[0]
        self.store, self._output, self._lane = store, output, Lane(store, *lane)
        self._group = group
        self._present = present = group.spec if group else None
        self.tail_source: TailSource | None = None
        """Where tails are read; the Kafka of the group's file, if it is not set."""
        self._made_by = ObjectSpecs(
            slots=store, lane=lane, output=output, present=present, plugins=plugins
        )
        self._follower, self._ahead = Follower(self._lane), Follower(self._lane, 1)
        self._letters = letters.LettersFollower(self._lane)
        self._through = -1
        self._files: dict[str, list[File]] = {}
        # By key: the slot from which on an object has retired, and the REPLACE's slot.
        self._retired: dict[str, tuple[int, int]] = {}
        self._new: set[str] = set()  # keys of objects that replaced other objects

    @property
    def slot(self) -> int:
        """The last slot of the ledger now; -1 if nothing is landed.

        Raises:
            Stalled: LEDGER_BROKEN, a slot is missing or violates a rule.
            Retry: the store does not answer.
        """
        for stretch in self._follower.stretches(self._through):
            self._made_by.opens.take(self._follower.opens)
            self._take(stretch)
            self._through = stretch.through
        return self._through

    def _take(self, stretch: Stretch) -> None:
        new = [visible for replacement in stretch.replaced for visible in replacement.objects]
        for visible in sorted((*stretch.objects, *new), key=lambda visible: visible.slot):
            self._files.setdefault(_topic(visible), []).append(self._file(visible))
        self._new.update(visible.key for visible in new)
        for replacement in stretch.replaced:
            at = (replacement.slot, replacement.record)
            self._retired |= dict.fromkeys((o.upload.key for o in replacement.retired), at)

    def last_slot(self) -> int:
        """The last slot of the ledger now, from its last snapshot on; -1 if nothing is landed.

        Raises:
            Stalled, Retry: as ``slot``.
        """
        return self._lane.read().seq

    def topics(self, *, tail: bool = False) -> list[str]:
        """The topics that have visible objects, sorted; with ``tail`` also those that may have one.

        Raises:
            Stalled, Retry: as ``slot``.
        """
        _ = self.slot
        found = {*self._files}
        if tail:
            found |= {tp.topic for tp in self._follower.state.members}
            found |= {*self._present.source.topics} if self._present else set()
        return sorted(found)

    def scan(
        self,
        topic: str,
        *,
        slot: int | None = None,
        after: int = -1,
        tail: bool = False,
        **choice: Unpack[Choice],
    ) -> Scan:
        """The rows of a topic that are visible at a slot, and its tail if asked for.

        Args:
            topic: its name.
            slot: the last slot of the ledger whose objects are read; the last there is if None.
            after: objects that this slot or one before it made visible are left out, and all
                that replaced other objects.
            tail: whether Kafka's records that have not landed are read, too, as the rows that they
                will be, up to where Kafka ends now.
            choice: which output partitions are read, see ``Choice``.

        Raises:
            ValueError: the ledger has no such slot or topic, a time has no time zone, or ``slot``
                is given together with ``tail``.
            Stalled: LEDGER_BROKEN, a slot is missing or violates a rule; SPEC_INVALID, nothing
                records how objects are to be read, or where the tail is; SOURCE_DENIED, the topic
                may not be described.
            Retry: the store or Kafka does not answer.
        """
        if tail:
            return self._with_tail(topic, slot, after, choice)
        through = self.slot
        for named in (after, slot):
            if named is not None and not -1 <= named <= through:
                raise _no_slot(named, through)
        if topic not in self._files and through >= 0:
            self._check_topic(topic)
        return self._landed(topic, slot, after, choice)

    def dead_letters(self) -> Scan:
        """All dead letters that are there at the ledger's last slot.

        Rows have the columns of dead letters: ``topic``, ``partition``, ``offset``, ``timestamp``,
        ``key``, ``value``, ``headers``, ``stage`` and ``error``. ``replayed`` is whether a replay
        has landed the record again; if it failed once more, there is a newer dead letter of it.

        Raises:
            Stalled: LEDGER_BROKEN, a slot is missing or violates a rule; SPEC_INVALID, dead letters
                are in a place of their own, which only the group's file names.
            Retry: the store does not answer.
        """
        slot, files = self._letters.files()
        if self._group is None and any(object_names.letters_place(file.key) for file in files):
            raise Stalled(
                Reason.SPEC_INVALID,
                f"dead letters: {self._output.url} does not name the place where the group "
                f"{self.name} has them: open the group's file, which has spec.badRecords.url",
            )
        made_by = self._output.model_copy(update={"format": "Parquet", "options": {}})
        source = RowSource(
            output=self._output,
            made_by={"": made_by},
            schema=letters.COLUMNS,
            lane=(self.name, self._lane.name),
            copies={},
            allowed={"": Allowed(frozenset(), self._output.url, "")},
        )
        return Scan(
            topic=letters.TABLE,
            slot=slot,
            root=self._output.url.rstrip("/"),
            _files=tuple(files),
            _source=source,
            _store=self.store,
            _given=letters.COLUMNS,
            _url_of=OpenedGroup(self._group, self.store).url if self._group else None,
        )

    def _landed(self, topic: str, slot: int | None, after: int, choice: Choice) -> Scan:
        """The rows of a topic that are visible at a slot that was read."""
        through = self._through
        pinned = through if slot is None else slot
        is_chosen = chooser(choice, self._times)
        files = tuple(
            file
            for file in self._files.get(topic, ())
            if after < file.slot <= pinned
            and (self._is_there(file, pinned) if after < 0 else file.key not in self._new)
            and is_chosen(file)
        )
        scan = self.scan_of(topic, files, pinned)
        return scan if pinned < through else replace(scan, unconfirmed=self._unconfirmed(topic))

    def _with_tail(self, topic: str, slot: int | None, after: int, choice: Choice) -> Scan:
        if slot is not None:
            raise ValueError(
                f"slot={slot}: the tail continues at the ledger's last slot; leave slot out, or "
                "tail"
            )
        group = self._kafka_group()
        from landfall.reading.tail import KafkaSource, Tail  # noqa: PLC0415  # what lands is heavy
        from landfall.reading.tail_plan import plan_tail  # noqa: PLC0415

        # The ledger first: what lands from here on is in Kafka still, and so in the tail.
        if after > (through := self.slot):
            raise _no_slot(after, through)
        if topic not in self._files and not group.spec.source.selects(topic):
            self._check_topic(topic)
        state = self._follower.state
        waiting = tuple(self._waiting(state, topic))
        self.tail_source = source = self.tail_source or KafkaSource(group)
        # As the rows of the tail, what may be landed goes by the file, which may be newer.
        state = replace(state, generation=max(state.generation, group.spec.generation))
        plan = plan_tail(group.spec.source, topic, state, waiting, source.log())
        landed = self._landed(topic, None, after, choice)
        return replace(landed, tail=Tail(plan, group, source, choice))

    def _kafka_group(self) -> ConsumerGroup:
        """The group's file, of a group that lands topics of Kafka.

        Raises:
            Stalled: SPEC_INVALID, there is none, or it lands something else.
        """
        if self._group is None:
            raise Stalled(
                Reason.SPEC_INVALID,
                f"tail: {self._output.url} does not name the Kafka of the group {self.name}: open "
                "the group's file, which has spec.source.kafka",
            )
        self._group.spec.source.require_kafka()
        return self._group

    def _waiting(self, state: State, topic: str) -> Iterator[Slice]:
        """The ranges of a topic that are committed, and that the ledger does not call visible."""
        for seq in sorted(state.unapplied):
            body = self._lane.find_slot(state, seq)
            if body is None:
                raise Retry(f"{self.name}: slot {seq} of its ledger is not there")
            for effect in effects(decode(seq, body)):
                if isinstance(effect, RangeLanded) and effect.piece.topic_partition.topic == topic:
                    yield effect.piece

    def _unconfirmed(self, topic: str) -> int:
        """The rows of a topic that are committed, and that the ledger does not call visible yet."""
        found = self._follower.unconfirmed
        own = (o for o in found if object_names.origin(self.name, o.upload.key).topic == topic)
        return sum(landed.rows for landed in own)

    def _check_topic(self, topic: str) -> None:
        """Return if a topic without visible objects is one that the group lands.

        Raises:
            ValueError: it is not; the message names those that are.
        """
        listed = self._present.source.topics if self._present else ()
        landed = {tp.topic for tp in self._lane.read().members}
        if topic not in {*landed, *listed}:
            known = ", ".join(sorted({*landed, *listed, *self._files})) or "no topic"
            raise ValueError(
                f"topic {topic} is not in the ledger of the group {self.name}, which has {known}"
            )

    def _is_there(self, file: File, slot: int) -> bool:
        """Return whether the file has not retired at a slot."""
        return file.key not in self._retired or slot < self._retired[file.key][0]

    def _is_gone(self, key: str) -> bool:
        """Return whether an object has retired, and only its copy is left for sure."""
        return key in self._retired and self._retired[key][1] not in self._follower.retiring

    def scan_of(self, topic: str, files: tuple[File, ...], slot: int) -> Scan:
        """The rows of these files of a topic, see ``scan``."""
        specs = {file.spec for file in files}
        made_by = {spec: self._made_by.of(spec, topic).output for spec in specs}
        lane = (self.name, self._lane.name)
        copies = {
            file.key: object_names.retired_key(*lane, self._retired[file.key][1], file.key)
            for file in files
            if self._is_gone(file.key)
        }
        allowed = {spec: self._made_by.allowed(spec) for spec in specs}
        source = RowSource(
            output=self._output,
            made_by=made_by,
            schema=pa.schema([]),
            lane=lane,
            copies=copies,
            allowed=allowed,
        )
        root = self._output.url.rstrip("/")
        return Scan(
            topic=topic, slot=slot, root=root, _files=files, _source=source, _store=self.store
        )

    def follow(
        self, topic: str, after: int, max_files: int, **choice: Unpack[Choice]
    ) -> Iterator[tuple[int, tuple[File, ...]]]:
        """Yield what becomes visible after a slot: the slots through which it is read, with files.

        There are ``max_files`` for each but the last, or a few more, since files of a slot stay
        together. Replacements are not among them, and what has retired is. None is
        kept in memory, and to continue where the last call ended costs one listing.

        Raises:
            ValueError, Stalled, Retry: as ``scan``.
        """
        is_chosen = chooser(choice, self._times)
        found = list[File]()
        through = after
        given = after
        for stretch in self._stretches(after):
            self._made_by.opens.take(self._ahead.opens)
            own = [o for o in stretch.objects if _topic(o) == topic]
            if not all(map(self._is_known, own)):
                _ = self.slot  # who follows from a snapshot on does not know earlier generations
            found += [file for file in map(self._file, own) if is_chosen(file)]
            through = stretch.through
            if len(found) >= max_files:
                yield through, tuple(found)
                found, given = [], through
        if through > given:
            yield through, tuple(found)

    def _stretches(self, after: int) -> Iterator[Stretch]:
        """Yield the stretches after a slot that a reader has reached.

        Raises:
            ValueError: the ledger has no such slot.
            Stalled, Retry: as ``scan``.
        """
        try:
            yield from self._ahead.stretches(after)
        except Stalled as stalled:
            if stalled.reason is not Reason.LEDGER_BEHIND:
                raise
            raise _no_slot(after, self._ahead.state.seq) from stalled

    def _times(self, file: File) -> PartitionTimes:
        return self._made_by.times(file.spec, file.name.topic)

    def _is_known(self, visible: VisibleObject) -> bool:
        generation = object_names.parse_key(visible.key).generation
        return generation in self._made_by.opens

    def _file(self, visible: VisibleObject) -> File:
        landed = visible.landed
        generation = object_names.parse_key(landed.key).generation
        spec = self._made_by.opens.digest(generation, visible.decided)
        return File(
            key=landed.key, slot=visible.slot, rows=landed.rows, size=landed.upload.size, spec=spec
        )


def open_group(
    source: str | os.PathLike[str],
    *,
    group: str = "",
    lane: str = LANE,
    plugins: Collection[str] = (),
    **access: Unpack[Access],
) -> LandedGroup:
    """Open what a group has landed; see ``landfall.open``."""
    text = os.fspath(source)
    if "://" not in text:
        opened = group_file.load(Path(text), os.environ)
        output, name = opened.spec.output, opened.metadata.name
        return LandedGroup(
            store=open_stores(opened.spec),
            output=output,
            lane=(name, lane),
            group=opened,
            plugins=plugins,
        )
    output = _output(text, access)
    store = _with_ledger(open_store(output), output.url, access)
    named = group or _owner(store, output)
    return LandedGroup(store, output, (named, lane), plugins=plugins)


def open_ledgers(url: str, lane: str = LANE, **access: Unpack[Access]) -> Iterator[Lane]:
    """The ledgers in the root of a ledger, or in the one that an output root names, by group.

    Each costs one listing: what a group has stored is passed over. Folders of groups that have
    stored no ledger are among them; their state is empty.

    Raises:
        Stalled: SPEC_INVALID, it is no URL of a store.
        Retry: the store does not answer.
    """
    output = _output(url, access)
    store = _with_ledger(open_store(output), output.url, access)
    prefix = after = f"{object_names.SYSTEM}/"
    while stat := next(iter(store.list_after(prefix, after)), None):
        name, slash, _ = stat.key.removeprefix(prefix).partition("/")
        after = f"{prefix}{name}{_AFTER_SLASH}" if slash else stat.key
        if slash and object_names.is_group_name(name):
            yield Lane(store, name, lane)


_AFTER_SLASH = chr(ord("/") + 1)
"""What sorts directly after all keys in a folder."""


def _output(url: str, access: Access) -> Output:
    try:
        return Output(url=url, **access)
    except ValidationError as error:
        raise Stalled(Reason.SPEC_INVALID, "\n".join(spec_errors(error, {}))) from None


def _with_ledger(objects: Store, url: str, access: Access) -> Store:
    """The store, with the one that the mark of an output root names if its ledger is elsewhere."""
    body = objects.read(LEDGER_MARK)
    if body is None:
        return objects
    try:
        ledger = Ledger(url=marked_ledger(url, body), **access)
    except ValueError as error:
        raise Stalled(
            Reason.SPEC_INVALID,
            f"{url}/{LEDGER_MARK}: {error}; if that is right, open the group's file instead",
        ) from error
    return with_ledger(open_store(ledger), objects)


def _owner(store: Store, output: Output) -> str:
    body = store.read(object_names.owner_key())
    try:
        return str(parse_document(body)["owner"]).rpartition("/")[2]  # it has a namespace
    except (ValueError, KeyError, TypeError):
        raise Stalled(
            Reason.SPEC_INVALID,
            f"{output.url}: no group has landed here: there is no {object_names.owner_key()}",
        ) from None


def _no_slot(slot: int, last: int) -> ValueError:
    return ValueError(f"slot {slot} is not in the ledger, whose last is {last}")


def _topic(visible: VisibleObject) -> str:
    return folders.split_destination(visible.key)[1].partition("/")[0]
