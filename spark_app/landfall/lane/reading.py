"""Reads a lane's ledger: from live slots where they are, else from segments."""

from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from itertools import islice

from landfall import ledger
from landfall.errors import Reason, Stalled
from landfall.lane.segments import StoredSegment
from landfall.ledger import Record, State, Visible
from landfall.ledger.names import object_names
from landfall.ledger.offsets import OffsetRange, TopicPartition
from landfall.ledger.snapshot import decode_state
from landfall.store import Slots
from landfall.untrusted_json import parse_document

Read = Callable[[str], bytes | None]
"""The type of ``Slots.read``."""

PARALLEL_READS = 16
"""Slots read at the same time."""

EMPTY = State()


class _Gap(Exception):  # noqa: N818  # stays in this module
    """A slot is missing; the argument is the key of the slot that was found instead."""


class Lane:
    """A lane's ledger, for reading."""

    def __init__(
        self,
        slots: Slots,
        group: str,
        name: str,
        new_pool: Callable[[int], Executor] = ThreadPoolExecutor,
    ) -> None:
        """Refer to lane ``name`` of a group; ``new_pool`` makes the pool that reads its slots."""
        self.slots = slots
        self.group = group
        self.name = name
        self._new_pool = new_pool

    def elsewhere(self, slots: Slots) -> "Lane":
        """The lane of the same group and name whose ledger is in these slots."""
        return Lane(slots, self.group, self.name, self._new_pool)

    def slot_key(self, epoch: int, index: int) -> str:
        """The key of a slot."""
        return object_names.slot_key(self.group, self.name, epoch, index)

    def next_key(self, state: State) -> str:
        """The key of the slot that follows ``state``."""
        return self.slot_key(state.epoch, state.next_index)

    def bodies(self, state: State = EMPTY) -> Iterator[tuple[int, bytes]]:
        """The numbers and bytes of the slots after ``state``, in order.

        Raises:
            Stalled: LEDGER_BROKEN, a slot in between is missing.
        """
        at = (state.seq + 1, state.epoch, state.next_index)
        # Who reads from the start finds most of the ledger in segments; who was here before finds
        # the next slots where they were written, unless they were rolled up since.
        is_live = state.seq >= 0
        while True:
            for name in () if is_live else self.segments(at[0]):
                key = object_names.segment_key(self.group, self.name, name)
                yield from StoredSegment(self.slots, key).bodies(at[0])
                at = (name.last + 1, name.epoch + 1, 0)
            try:
                for next_place, body in self._live(*at):
                    at = next_place
                    yield at[0] - 1, body
            except _Gap as gap:
                if not self.segments(at[0]):
                    raise ledger.ledger_error(at[0], f"missing: the next slot is {gap}") from None
                is_live = False
            else:
                return

    def bodies_about(
        self, state: State, ranges: Mapping[TopicPartition, OffsetRange]
    ) -> Iterator[tuple[int, bytes]]:
        """Numbers and bytes of the slots through ``state`` that concern these offsets.

        Other slots are among them. Segments are read by their index, so that this costs little
        however long the ledger is.

        Raises:
            Stalled: LEDGER_BROKEN, a slot in between is missing.
        """
        return self._selected(state, lambda segment: segment.slots_about(ranges))

    def bodies_of(
        self, state: State, kinds: Collection[type[Record]]
    ) -> Iterator[tuple[int, bytes]]:
        """As ``bodies_about``, of the records of these types, which are of ``NAMED_KINDS``."""
        return self._selected(state, lambda segment: segment.slots_of(kinds))

    def _selected(
        self, state: State, select: Callable[[StoredSegment], Collection[int]]
    ) -> Iterator[tuple[int, bytes]]:
        for rolled in state.segments:
            segment = StoredSegment(self.slots, rolled.key)
            yield from segment.bodies_of(select(segment))
        first = state.epochs[0]
        rolled_up = State(seq=first - 1, epoch=state.epoch - len(state.epochs) + 1, epochs=(first,))
        for seq, body in self.bodies(rolled_up):
            if seq > state.seq:
                return
            if not _is_of(state, seq, body):
                yield from self._selected_again(state, select, seq)
                return
            yield seq, body

    def _selected_again(
        self, state: State, select: Callable[[StoredSegment], Collection[int]], first: int
    ) -> Iterator[tuple[int, bytes]]:
        """As ``_selected``, the slots from one on that was rolled up since the state was read."""
        newer = self.read()
        if newer.epochs[0] <= first:
            raise ledger.ledger_error(first, "an OPEN, from which the next slot does not follow")
        for seq, body in self._selected(newer, select):
            if first <= seq <= state.seq:
                yield seq, body

    def records_back(self, state: State) -> Generator[Record, None, None]:
        """The records up to ``state``, the last one first, each with the hash that the next names.

        A window of slots is held at a time, as by ``bodies``.

        Raises:
            Stalled: LEDGER_BROKEN, a slot is missing or is not the one that the next follows.
        """
        tip, at = state.tip, state.seq
        for body in self._live_back(state):
            if ledger.digest(body) != tip:
                break  # rolled up since ``state`` was read, and created again by a frozen driver
            record = ledger.decode(at, body)
            yield record
            tip, at = record.header.prev, at - 1
        for body in self._rolled_back(at):
            if ledger.digest(body) != tip:
                break
            record = ledger.decode(at, body)
            yield record
            tip, at = record.header.prev, at - 1
        if at >= 0:
            raise ledger.ledger_error(at, "missing, or the next slot does not follow from it")

    def _live_back(self, state: State) -> Iterator[bytes]:
        """The bytes of live slots, the last one first, up to one that is gone."""
        seqs = range(state.seq, state.epochs[0] - 1, -1)
        keys = (self.slot_key(*state.place(seq)) for seq in seqs)
        with self._new_pool(PARALLEL_READS) as pool:
            for _, body in _read_ahead(pool, self.slots.read, keys):
                if body is None:
                    return
                yield body

    def _rolled_back(self, at: int) -> Iterator[bytes]:
        """The bytes of slots in segments, from ``at`` down to the first."""
        for name in reversed(self.segments(0) if at >= 0 else []):
            if name.first <= at <= name.last:
                key = object_names.segment_key(self.group, self.name, name)
                yield from (body for _, body in StoredSegment(self.slots, key).bodies_back(at))
                at = name.first - 1

    def segments(self, start: int) -> list[object_names.SegmentName]:
        """The stored segments that hold slot ``start`` and, without a gap, those after it.

        All that is stored is sound, also what no SEGMENT names because its driver was fenced.
        """
        prefix = object_names.segments_prefix(self.group, self.name)
        keys = (stat.key for stat in self.slots.list_after(prefix))
        found, at = list[object_names.SegmentName](), start
        names = [
            object_names.parse_segment_key(self.group, self.name, key)
            for key in keys
            if key.endswith(".seg")
        ]
        for name in sorted(names, key=lambda name: (name.first, -name.last)):
            if name.first <= at <= name.last:
                found.append(name)
                at = name.last + 1
        return found

    def read(self) -> State:
        """The state after the last slot, folded from a snapshot if the hint names one.

        Raises:
            Stalled: LEDGER_BROKEN, a slot is missing or violates a rule.
        """
        snapshot = self.last_snapshot() or EMPTY
        while True:
            try:
                return self._fold_on(snapshot)
            except Stalled as error:
                # If this read was suspended, slots after the snapshot may have been rolled up and
                # deleted meanwhile, as in ``follow``. A later snapshot is after them.
                newer = self.last_snapshot() or EMPTY
                if error.reason is not Reason.LEDGER_BROKEN or newer.seq <= snapshot.seq:
                    raise
                snapshot = newer

    def follow(self, state: State) -> State:
        """The state after the last slot, folded on from an earlier ``state``.

        If no slot was added since, this costs a single listing.

        Raises:
            Stalled: LEDGER_BROKEN, a slot is missing or violates a rule.
        """
        try:
            return self._fold_on(state)
        except Stalled as error:
            if error.reason is not Reason.LEDGER_BROKEN:
                raise
            # Since ``state`` was read, its next slots may have been rolled up and deleted, and a
            # driver that was frozen may have put an OPEN where one was. Reading again starts after
            # all that.
            return self.read()

    def read_slot(self, state: State, seq: int) -> bytes | None:
        """The bytes of slot ``seq``, at or before ``state``; None if it is gone.

        A slot that was rolled up since the state was read is gone, also if a driver that was frozen
        has created it again.
        """
        for rolled in state.segments if seq < state.epochs[0] else ():
            if rolled.first <= seq <= rolled.last:
                return StoredSegment(self.slots, rolled.key).body(seq)
        body = self.slots.read(self.slot_key(*state.place(seq)))
        return body if body is not None and _is_of(state, seq, body) else None

    def find_slot(self, state: State, seq: int) -> bytes | None:
        """The bytes of slot ``seq`` as ``read_slot``, also if it was rolled up since ``state``.

        A driver that was overtaken, or that keeps a state of long ago, does not know the segment.
        """
        return self.read_slot(state, seq) or self.read_slot(self.read(), seq)

    def _fold_on(self, state: State) -> State:
        while True:
            before = state.epoch
            for _, body in self.bodies(state):
                state = ledger.fold(state, body)
            if state.epoch == before or state.next_index:
                return state
            # The last slot is an OPEN. It counts only if the first slot of its epoch is free, or
            # follows from it: that slot is never deleted, so where it does not, this OPEN is in a
            # slot that was deleted and created again.
            first = self.slots.read(self.next_key(state))
            if first is None:
                return state
            state = ledger.fold(state, first)

    def folded(self, state: State) -> Iterator[tuple[State, Visible]]:
        """The state after each slot that follows ``state``, with what it calls visible.

        Raises:
            Stalled: LEDGER_BROKEN; if a state was kept from earlier, reading again may help, as in
                ``follow``.
        """
        at: tuple[State, Visible] | None = None
        for _, body in self.bodies(state):
            if at is not None:
                yield at
            state, visible = ledger.fold_applied(state, body)
            at = (state, visible)
        if at is None:
            return
        # As in ``_fold_on``: whether an OPEN that is the last slot counts.
        first = None if state.next_index else self.slots.read(self.next_key(state))
        after = None if first is None else ledger.fold_applied(state, first)
        yield at
        if after is not None:
            yield after
            yield from self.folded(after[0])

    def slots_to_roll(self, state: State, last: int) -> list[bytes]:
        """The bytes of the slots from the first that no segment holds through ``last``.

        Their hashes are checked, also the last one's, which the slot after it names.

        Raises:
            Stalled: LEDGER_BROKEN, a slot is missing or its hash is wrong.
        """
        first_epoch = state.epoch - len(state.epochs) + 1
        live = self._live(state.epochs[0], first_epoch, 0)
        try:
            found = [body for _, body in islice(live, last + 2 - state.epochs[0])]
        except _Gap as gap:
            raise ledger.ledger_error(state.epochs[0], f"a slot before {gap} is missing") from None
        tip = state.segments[-1].after if state.segments else ledger.GENESIS_HASH
        for seq, body in enumerate(found, state.epochs[0]):
            if ledger.decode(seq, body).header.prev != tip:
                raise ledger.ledger_error(seq, "does not follow from the slot before")
            tip = ledger.digest(body)
        if state.epochs[0] + len(found) != last + 2:
            raise ledger.ledger_error(state.epochs[0] + len(found), "missing")
        return found[:-1]

    def _live(
        self, seq: int, epoch: int, index: int
    ) -> Iterator[tuple[tuple[int, int, int], bytes]]:
        """The bytes of the slots from this one on, as listed, with number and place of the next.

        Raises:
            _Gap: a slot is missing.
        """
        prefix = object_names.ledger_prefix(self.group, self.name)
        after = self.slot_key(epoch, index - 1) if index else f"{prefix}{epoch:010d}/"
        keys = (stat.key for stat in self.slots.list_after(prefix, after))
        with self._new_pool(PARALLEL_READS) as pool:
            for key, body in _read_ahead(pool, self.slots.read, keys):
                found = self._place_of(seq, key)
                if found != (epoch, index) and (found != (epoch + 1, 0) or not index):
                    raise _Gap(key)
                if body is None:  # rolled up since it was listed, or the ledger is broken
                    raise _Gap(f"{key}, which is listed, but gone when read")
                seq = seq + 1
                epoch = found[0]
                index = found[1] + 1
                yield (seq, epoch, index), body

    def _place_of(self, seq: int, key: str) -> tuple[int, int]:
        try:
            return object_names.parse_slot_key(self.group, self.name, key)
        except ValueError:
            raise ledger.ledger_error(
                seq,
                f"{key} is not a slot of a ledger of version {ledger.VERSION}; ledgers of other "
                "versions cannot be continued: land under a new output root",
            ) from None

    def snapshot_before(self, seq: int) -> State | None:
        """The state after the last SNAPSHOT up to a slot; None if there is none without a doubt.

        Few are kept. What follows the one found may have been rolled up, as in ``follow``.

        Raises:
            Retry: the store does not answer.
        """
        prefix = object_names.snapshots_prefix(self.group, self.name)
        limit = object_names.snapshot_key(self.group, self.name, max(seq, 0))
        keys = [stat.key for stat in self.slots.list_after(prefix) if stat.key <= limit]
        return next(filter(None, map(self._stored_state, reversed(keys))), None)

    def _stored_state(self, key: str) -> State | None:
        """The state that a SNAPSHOT names, after that; None if its slot is not there."""
        stored = self.slots.read(key)
        try:
            before = decode_state(stored or b"")
            slot = self.slots.read(self.next_key(before))
            record = ledger.decode(before.seq + 1, slot) if slot else None
            if slot is None or not isinstance(record, ledger.Snapshot):
                return None
            if (record.key, record.sha256) != (key, ledger.digest(stored or b"")):
                return None
            return ledger.fold(before, slot)
        except (ValueError, KeyError, TypeError, AttributeError, Stalled):
            return None

    def last_snapshot(self) -> State | None:
        """The state after the SNAPSHOT that the hint names; None if there is any doubt about it.

        The hint may be stale, lost or damaged. That only makes reading slower: the caller then
        folds from the start.
        """
        hint = self.slots.read(object_names.head_key(self.group, self.name))
        try:
            at = parse_document(hint) if hint else {}
            seq, place = int(at.get("seq", -1)), (int(at.get("epoch", 0)), int(at.get("index", 0)))
            slot = self.slots.read(self.slot_key(*place)) if seq > 0 else None
            record = ledger.decode(seq, slot) if slot else None
            if slot is None or not isinstance(record, ledger.Snapshot):
                return None
            stored = self.slots.read(record.key)
            if stored is None or ledger.digest(stored) != record.sha256:
                return None
            return ledger.fold(decode_state(stored), slot)
        except (ValueError, KeyError, TypeError, AttributeError, Stalled):
            return None


def _is_of(state: State, seq: int, body: bytes) -> bool:
    """Return whether a live slot is the one that a state was folded from.

    A slot that is rolled up is deleted, unless it is the first or the last of its epoch. A driver
    that was frozen may create it again then: with an OPEN, which ends no epoch of the ledger.
    """
    return seq + 1 in state.epochs or not isinstance(ledger.decode(seq, body), ledger.Open)


def _read_ahead(
    pool: Executor, read: Read, keys: Iterator[str]
) -> Iterator[tuple[str, bytes | None]]:
    """Keys and bytes of the slots, read in windows ahead of the caller.

    Reading one at a time would wait for each response; reading all at once would hold the whole
    chain in memory.
    """
    while window := [key for _, key in zip(range(4 * PARALLEL_READS), keys, strict=False)]:
        yield from zip(window, pool.map(read, window), strict=True)
