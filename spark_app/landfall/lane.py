"""Reading a lane's ledger from the store, and appending to it.

Guarantee: of everybody who ever appends to a lane, exactly one record wins each slot, and a driver
    learns for certain
whether it was its own. ``create`` may answer "taken" for our own bytes (a lost answer and a retry)
or not answer at all; so on "taken" the slot is read and compared, and on no answer the same bytes
are tried again, for ever: a driver that does not know whether its COMMIT happened must neither plan
on nor give its uploads up. The bytes hold the writer's random name and the chain's hash, so no two
drivers can write equal ones.
"""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from itertools import count

import stamina

from landfall import ledger
from landfall.errors import Fenced, LandfallError, Reason, Retry, Stalled
from landfall.ledger import Header, LaneOwnership, Record, State, object_names
from landfall.ledger.snapshot import decode_state, encode_state
from landfall.store import Created, Slots

Clock = Callable[[], datetime]
Read = Callable[[str], bytes | None]
"""``Slots.read`` of a store."""
OnRetry = Callable[[Retry], None]

FETCHES = 16
"""Slots read at once."""

OPENING_TRIES = 100
"""How often an OPEN may lose its slot to somebody else's record before something must be wrong."""


class Lane:
    """One lane's ledger, for reading."""

    def __init__(
        self,
        slots: Slots,
        group: str,
        name: str,
        new_pool: Callable[[int], Executor] = ThreadPoolExecutor,
    ) -> None:
        """Name the lane; nothing is read yet. ``new_pool`` makes the pool in which slots are read."""
        self.slots, self.group, self.name = slots, group, name
        self._new_pool = new_pool

    def slot_key(self, seq: int) -> str:
        """The key of a slot."""
        return object_names.slot_key(self.group, self.name, seq)

    def bodies(self, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """Slots from ``start`` on, in order, with their numbers.

        Raises:
            Stalled: LEDGER_BROKEN, a slot is missing in between.
        """
        prefix = object_names.ledger_prefix(self.group, self.name)
        after = self.slot_key(start - 1) if start else ""
        keys = (stat.key for stat in self.slots.list_after(prefix, after))
        with self._new_pool(FETCHES) as pool:
            for seq, key, body in _ahead(pool, self.slots.read, keys, start):
                if key != self.slot_key(seq):
                    raise ledger.ledger_error(seq, f"missing: the next one there is {key}")
                if body is None:
                    raise ledger.ledger_error(seq, "listed, but gone when read")
                yield seq, body

    def read(self) -> State:
        """The state after the last slot, folded from the newest snapshot that the hint names, else from the start."""
        return self.follow(self._snapshot() or State())

    def follow(self, state: State) -> State:
        """The state after the last slot, from one that was folded before: a single listing where nothing came since."""
        for _, body in self.bodies(state.seq + 1):
            state = ledger.fold(state, body)
        return state

    def _snapshot(self) -> State | None:
        """The state a stale or lost hint may point to; it decides nothing, so any doubt just means: from the start."""
        hint = self.slots.read(object_names.head_key(self.group, self.name))
        try:
            seq = int(json.loads(hint)["seq"]) if hint else -1
            slot = self.slots.read(self.slot_key(seq)) if seq > 0 else None
            record = ledger.decode(seq, slot) if slot else None
            if slot is None or not isinstance(record, ledger.Snapshot):
                return None
            stored = self.slots.read(record.key)
            if stored is None or ledger.digest(stored) != record.sha256:
                return None
            return ledger.fold(decode_state(stored), slot)
        except (ValueError, KeyError, TypeError, Stalled):
            return None


def _ahead(
    pool: Executor, read: Callable[[str], bytes | None], keys: Iterator[str], start: int
) -> Iterator[tuple[int, str, bytes | None]]:
    """Read a few keys ahead of the caller, so that a long chain neither waits for each answer nor sits in memory."""
    seqs = count(start)
    while window := [key for _, key in zip(range(4 * FETCHES), keys, strict=False)]:
        for key, body in zip(window, pool.map(read, window), strict=True):
            yield next(seqs), key, body


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """Who opens a lane.

    Attributes:
        writer: random name, a new one for each OPEN.
        generation: of the group's spec.
        software: version, for people.
        revision: of software and spec, where drivers take turns.
    """

    writer: str
    generation: int
    software: str
    revision: str = ""


class LaneWriter:
    """The right to append to a lane, for as long as nobody else opens it."""

    def __init__(
        self, lane: Lane, state: State, writer: str, clock: Clock, on_retry: OnRetry
    ) -> None:
        """Use ``LaneWriter.open``: only an OPEN gives the right to append."""
        self._lane, self._writer, self._clock, self._on_retry = lane, writer, clock, on_retry
        self.state = state

    @property
    def lane(self) -> Lane:
        """The lane it writes, for reading."""
        return self._lane

    @classmethod
    def open(
        cls,
        lane: Lane,
        opener: OpenRequest,
        clock: Clock,
        on_retry: OnRetry = lambda _: None,
        state: State | None = None,
    ) -> "LaneWriter":
        """Append OPEN, whoever has the lane: afterwards everybody who had it before is fenced.

        Args:
            lane: to take.
            opener: who takes it.
            clock: for the records' times.
            on_retry: told whenever the store could not answer and the same bytes are about to be
                tried again.
            state: of the lane, as far as it is known already.

        Raises:
            Stalled: LEDGER_BROKEN, the chain cannot be folded.
        """
        state = state or lane.read()
        for _ in range(OPENING_TRIES):
            if opened := cls.open_after(lane, state, opener, clock, on_retry):
                return opened
            state = lane.follow(state)
        raise ledger.ledger_error(
            state.seq + 1, f"lost to others {OPENING_TRIES} times while opening"
        )

    @classmethod
    def open_after(
        cls, lane: Lane, state: State, opener: OpenRequest, clock: Clock, on_retry: OnRetry
    ) -> "LaneWriter | None":
        """The same, if ``state`` is the lane's last; None if somebody else has written since, and nothing happened."""
        header = Header(
            state.seq + 1,
            state.tip,
            state.epoch + 1,
            opener.writer,
            clock().isoformat(),
            state.applied_through,
        )
        record = ledger.Open(
            header=header,
            group=lane.group,
            lane=lane.name,
            generation=opener.generation,
            software=opener.software,
            revision=opener.revision,
        )
        try:
            return cls(lane, _append(lane, state, record, on_retry), opener.writer, clock, on_retry)
        except Fenced:
            return None

    def append(self, make: Callable[[Header], Record], applied_through: int = -1) -> State:
        """Append the record that ``make`` builds; afterwards it is in the ledger for certain.

        Raises:
            Fenced: somebody else opened the lane; nothing was written.
            Stalled: the record does not follow from the state; nothing was written.
        """
        header = ledger.next_header(
            self.state, self._writer, self._clock().isoformat(), applied_through
        )
        self.state = _append(self._lane, self.state, make(header), self._on_retry)
        return self.state

    def is_fenced(self) -> bool:
        """Whether somebody has opened the lane since, as far as the store shows now; from any thread.

        Raises:
            Retry: the store cannot answer.
            Stalled: LEDGER_BROKEN.
        """
        state = self.state
        return self._lane.follow(state).epoch != state.epoch

    def newer_owner(self, read: Read) -> str:
        """Who has opened the lane since, by what ``read`` finds in the slot after our last; empty if nobody. From any thread.

        Of our own record, whose answer may be under way or lost, the bytes tell that it is ours;
        what is no OPEN is left for the next append to find.

        Raises:
            Retry: the store cannot answer.
        """
        state = self.state
        seq = state.seq + 1
        body = read(self._lane.slot_key(seq))
        if body is None or state.holding is not LaneOwnership.HELD:
            return ""
        try:
            record = ledger.decode(seq, body)
        except Stalled:
            return ""
        is_anothers = isinstance(record, ledger.Open) and record.header.writer != self._writer
        return _taken(seq, body) if is_anothers else ""

    def snapshot(self, applied_through: int) -> None:
        """Store the state and point to it, so that the next one to open reads only what comes after."""
        body = encode_state(self.state)
        seq = self.state.seq + 1
        key = object_names.snapshot_key(self._lane.group, self._lane.name, seq)
        slots = self._lane.slots
        if slots.create(key, body) is Created.TAKEN and slots.read(key) != body:
            return  # a driver that died here stored another state; the next snapshot has another slot
        digest = ledger.digest(body)
        self.append(
            lambda header: ledger.Snapshot(header=header, key=key, sha256=digest), applied_through
        )
        slots.overwrite(
            object_names.head_key(self._lane.group, self._lane.name),
            json.dumps({"seq": seq}).encode(),
        )


def _append(lane: Lane, state: State, record: Record, on_retry: OnRetry) -> State:
    body = ledger.encode(record)
    after = ledger.fold(state, body)
    for attempt in stamina.retry_context(
        on=Retry, attempts=None, timeout=None, wait_initial=0.2, wait_max=15
    ):
        with attempt:
            try:
                _win(lane, after.seq, body)
            except Retry as error:
                on_retry(error)
                raise
    return after


def _win(lane: Lane, seq: int, body: bytes) -> None:
    key = lane.slot_key(seq)
    if lane.slots.create(key, body) is Created.WON:
        return
    there = lane.slots.read(key)
    if there is None:
        raise Retry(f"{key}: taken, but not there to read")
    if there != body:
        raise Fenced(_taken(seq, there))


def _taken(seq: int, body: bytes) -> str:
    try:
        header = ledger.decode(seq, body).header
    except LandfallError:
        return f"ledger slot {seq} was taken by something that is no ledger record"
    return f"ledger slot {seq} was taken by epoch {header.epoch}, writer {header.writer}"


def claim_output_root(slots: Slots, owner: str) -> None:
    """Make an output root this group's own.

    Raises:
        Stalled: OUTPUT_OCCUPIED, another group has it.
    """
    body = json.dumps({"owner": owner}).encode()
    key = object_names.owner_key()
    if slots.create(key, body) is Created.WON:
        return
    there = slots.read(key)
    if there != body:
        raise Stalled(
            Reason.OUTPUT_OCCUPIED,
            f"{key} says the output root belongs to {_owner(there)}, not to {owner}",
        )


def _owner(claimed: bytes | None) -> str:
    try:
        return str(json.loads(claimed or b"")["owner"])
    except (ValueError, KeyError, TypeError):
        return f"something that is no owner: {claimed!r}"
