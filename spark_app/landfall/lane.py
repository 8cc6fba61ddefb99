"""Reads a lane's ledger from the store, and appends to it.

Exactly one record wins each slot, whoever appends, and a driver learns for certain whether the
record is its own. ``create`` may report "taken" for the driver's own bytes, if the response to a
first attempt was lost, or may not respond at all. So after "taken" the slot is read and compared,
and without a response the same bytes are sent again, without limit: a driver that does not know
whether its COMMIT happened must neither plan further nor abort its uploads. The bytes contain the
writer's random name and the hash of the slot before, so no two drivers can write the same bytes.
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
"""The type of ``Slots.read``."""
OnRetry = Callable[[Retry], None]

PARALLEL_READS = 16
"""Slots read at the same time."""

MAX_OPEN_ATTEMPTS = 100
"""How often an OPEN may lose its slot to another record before the lane is considered broken."""


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
        self.slots, self.group, self.name = slots, group, name
        self._new_pool = new_pool

    def slot_key(self, seq: int) -> str:
        """The key of a slot."""
        return object_names.slot_key(self.group, self.name, seq)

    def bodies(self, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """The numbers and bytes of the slots from ``start`` on, in order.

        Raises:
            Stalled: LEDGER_BROKEN, a slot in between is missing.
        """
        prefix = object_names.ledger_prefix(self.group, self.name)
        after = self.slot_key(start - 1) if start else ""
        keys = (stat.key for stat in self.slots.list_after(prefix, after))
        with self._new_pool(PARALLEL_READS) as pool:
            for seq, key, body in _read_ahead(pool, self.slots.read, keys, start):
                if key != self.slot_key(seq):
                    raise ledger.ledger_error(seq, f"missing: the next slot is {key}")
                if body is None:
                    raise ledger.ledger_error(seq, "listed, but gone when read")
                yield seq, body

    def read(self) -> State:
        """The state after the last slot, folded from a snapshot if the hint names one.

        Raises:
            Stalled: LEDGER_BROKEN, a slot is missing or violates a rule.
        """
        return self.follow(self._snapshot() or State())

    def follow(self, state: State) -> State:
        """The state after the last slot, folded on from an earlier ``state``.

        If no slot was added since, this costs a single listing.

        Raises:
            Stalled: LEDGER_BROKEN, a slot is missing or violates a rule.
        """
        for _, body in self.bodies(state.seq + 1):
            state = ledger.fold(state, body)
        return state

    def _snapshot(self) -> State | None:
        """The state after the SNAPSHOT that the hint names; None if there is any doubt about it.

        The hint may be stale, lost or damaged. That only makes reading slower: the caller then
        folds from the start.
        """
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


def _read_ahead(
    pool: Executor, read: Read, keys: Iterator[str], start: int
) -> Iterator[tuple[int, str, bytes | None]]:
    """Numbers, keys and bytes of the slots, read in windows ahead of the caller.

    Reading one at a time would wait for each response; reading all at once would hold the whole
    chain in memory.
    """
    seqs = count(start)
    while window := [key for _, key in zip(range(4 * PARALLEL_READS), keys, strict=False)]:
        for key, body in zip(window, pool.map(read, window), strict=True):
            yield next(seqs), key, body


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """What an OPEN says about the driver that appends it.

    Attributes:
        writer: random name, new for each OPEN.
        generation: generation of the group's spec.
        software: version of the software, for people.
        revision: version of software and spec, where the operator lets drivers of several revisions
            follow each other.
        spec: digest of the stored part of the spec that objects are made by.
    """

    writer: str
    generation: int
    software: str
    revision: str = ""
    spec: str = ""


class LaneWriter:
    """The right to append to a lane, which lasts until another driver opens it.

    ``state`` is the lane's state after the last record that this writer appended.
    """

    def __init__(
        self, lane: Lane, state: State, writer: str, clock: Clock, on_retry: OnRetry
    ) -> None:
        """Not for callers: ``LaneWriter.open`` appends the OPEN that gives the right to append."""
        self._lane, self._writer, self._clock, self._on_retry = lane, writer, clock, on_retry
        self.state = state

    @property
    def lane(self) -> Lane:
        """The lane, for reading."""
        return self._lane

    @classmethod
    def open(
        cls,
        lane: Lane,
        request: OpenRequest,
        clock: Clock,
        on_retry: OnRetry = lambda _: None,
        state: State | None = None,
    ) -> "LaneWriter":
        """Append OPEN, whether or not a driver owns the lane; every previous owner is then fenced.

        Args:
            lane: lane to open.
            request: what the OPEN says.
            clock: source of the records' times.
            on_retry: called each time the store failed and the same bytes are about to be sent
                again.
            state: an earlier state of the lane to continue from, if known.

        Raises:
            Stalled: LEDGER_BROKEN, a slot violates a rule.
        """
        state = state or lane.read()
        for _ in range(MAX_OPEN_ATTEMPTS):
            if writer := cls.open_after(lane, state, request, clock, on_retry):
                return writer
            state = lane.follow(state)
        raise ledger.ledger_error(
            state.seq + 1, f"an OPEN lost its slot to other records {MAX_OPEN_ATTEMPTS} times"
        )

    @classmethod
    def open_after(
        cls, lane: Lane, state: State, request: OpenRequest, clock: Clock, on_retry: OnRetry
    ) -> "LaneWriter | None":
        """Append OPEN directly after ``state``; None, with nothing written, if that slot is taken.

        Raises:
            Stalled: LEDGER_BROKEN, the OPEN does not follow from the state.
        """
        header = Header(
            state.seq + 1,
            state.tip,
            state.epoch + 1,
            request.writer,
            clock().isoformat(),
            state.applied_through,
        )
        record = ledger.Open(
            header=header,
            group=lane.group,
            lane=lane.name,
            generation=request.generation,
            software=request.software,
            revision=request.revision,
            spec=request.spec,
        )
        try:
            opened = _append(lane, state, record, on_retry)
        except Fenced:
            return None
        return cls(lane, opened, request.writer, clock, on_retry)

    def append(self, make: Callable[[Header], Record], applied_through: int = -1) -> State:
        """Append the record that ``make`` builds; afterwards it is in the ledger for certain.

        Raises:
            Fenced: another driver opened the lane; nothing was written.
            Stalled: LEDGER_BROKEN, the record does not follow from the state; nothing was written.
        """
        header = ledger.next_header(
            self.state, self._writer, self._clock().isoformat(), applied_through
        )
        self.state = _append(self._lane, self.state, make(header), self._on_retry)
        return self.state

    def is_fenced(self) -> bool:
        """Whether another driver has opened the lane, by what the store shows now; thread-safe.

        Raises:
            Retry: the store failed.
            Stalled: LEDGER_BROKEN, a slot is missing or violates a rule.
        """
        state = self.state
        return self._lane.follow(state).epoch != state.epoch

    def newer_owner(self, read: Read) -> str:
        """Which driver has opened the lane since, as a sentence; empty if none has. Thread-safe.

        Reads only the slot after this writer's last record. That slot may hold this writer's own
        next record, while its append is still waiting for the response: its bytes say so. Anything
        but an OPEN is left for the next append to find.

        Raises:
            Retry: the store failed.
        """
        state = self.state  # read once: another thread may append meanwhile
        seq = state.seq + 1
        body = read(self._lane.slot_key(seq))
        if body is None or state.holding is not LaneOwnership.HELD:
            return ""
        try:
            record = ledger.decode(seq, body)
        except Stalled:
            return ""
        by_another = isinstance(record, ledger.Open) and record.header.writer != self._writer
        return _describe_owner(seq, body) if by_another else ""

    def snapshot(self, applied_through: int) -> None:
        """Store the state and append a SNAPSHOT, so that the next driver reads only later slots.

        Raises:
            Fenced: another driver opened the lane.
            Retry: the store failed.
        """
        body = encode_state(self.state)
        seq = self.state.seq + 1
        key = object_names.snapshot_key(self._lane.group, self._lane.name, seq)
        slots = self._lane.slots
        if slots.create(key, body) is Created.TAKEN and slots.read(key) != body:
            # A driver that died here stored another state under this key, and keys are never
            # overwritten. The next snapshot gets another slot, hence another key.
            return
        digest = ledger.digest(body)
        self.append(
            lambda header: ledger.Snapshot(header=header, key=key, sha256=digest), applied_through
        )
        # The hint comes last: it must not name a slot that does not exist.
        slots.overwrite(
            object_names.head_key(self._lane.group, self._lane.name),
            json.dumps({"seq": seq}).encode(),
        )


def _append(lane: Lane, state: State, record: Record, on_retry: OnRetry) -> State:
    body = ledger.encode(record)
    after = ledger.fold(state, body)  # before writing: a record that breaks a rule is never written
    # No limit of attempts: giving up would leave open whether the record is in the ledger.
    for attempt in stamina.retry_context(
        on=Retry, attempts=None, timeout=None, wait_initial=0.2, wait_max=15
    ):
        with attempt:
            try:
                _create_slot(lane, after.seq, body)
            except Retry as error:
                on_retry(error)
                raise
    return after


def _create_slot(lane: Lane, seq: int, body: bytes) -> None:
    key = lane.slot_key(seq)
    if lane.slots.create(key, body) is Created.WON:
        return
    # "Taken" may mean our own bytes, written by an attempt whose response was lost.
    found = lane.slots.read(key)
    if found is None:
        raise Retry(f"{key}: the store says it exists, but it cannot be read")
    if found != body:
        raise Fenced(_describe_owner(seq, found))


def _describe_owner(seq: int, body: bytes) -> str:
    try:
        header = ledger.decode(seq, body).header
    except LandfallError:
        return f"ledger slot {seq} was taken by an object that is not a ledger record"
    return f"ledger slot {seq} was taken by epoch {header.epoch}, writer {header.writer}"


def claim_output_root(slots: Slots, owner: str) -> None:
    """Record that an output root belongs to ``owner``, unless it belongs to another group.

    Raises:
        Stalled: OUTPUT_OCCUPIED, the output root belongs to another group.
        Retry: the store failed.
    """
    body = json.dumps({"owner": owner}).encode()
    key = object_names.owner_key()
    if slots.create(key, body) is Created.WON:
        return
    found = slots.read(key)
    if found != body:
        raise Stalled(
            Reason.OUTPUT_OCCUPIED,
            f"{key} says the output root belongs to {_owner(found)}, not to {owner}",
        )


def _owner(body: bytes | None) -> str:
    try:
        return str(json.loads(body or b"")["owner"])
    except (ValueError, KeyError, TypeError):
        return f"an owner that cannot be read from {body!r}"
