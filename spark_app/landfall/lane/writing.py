"""Appends to a lane's ledger.

``create`` may report "taken" for the driver's own bytes, if the response to a first attempt was
lost, or may not respond at all. So after "taken" the slot is read and compared, and without a
response the same bytes are sent again, without limit: a driver that does not know whether its
COMMIT happened must neither plan further nor abort its uploads. The bytes contain the writer's
random name and the hash of the slot before, so no two drivers can write the same bytes.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import msgspec
import stamina

from landfall import ledger
from landfall.errors import Fenced, LandfallError, Reason, Retry, Stalled
from landfall.lane.reading import Lane, Read
from landfall.ledger import Header, LaneOwnership, Record, State
from landfall.ledger.names import object_names
from landfall.ledger.snapshot import encode_state
from landfall.store import Created, Slots
from landfall.untrusted_json import parse_document

Clock = Callable[[], datetime]
OnRetry = Callable[[Retry], None]

MAX_OPEN_ATTEMPTS = 100
"""How often an OPEN may lose its slot to another record before the lane is considered broken."""


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """Fields of an OPEN about the driver that appends it.

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
        self, lane: Lane, state: State, request: OpenRequest, clock: Clock, on_retry: OnRetry
    ) -> None:
        """Not for callers: ``LaneWriter.open`` appends the OPEN that gives the right to append."""
        self._lane = lane
        self._request = request
        self._clock = clock
        self._on_retry = on_retry
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
            request: the contents of the OPEN.
            clock: source of the records' times.
            on_retry: called each time the store failed and the same bytes are about to be sent
                again.
            state: an earlier state of the lane to continue from, if known.

        Raises:
            Stalled: LEDGER_BROKEN, a slot violates a rule.
        """
        state = state or lane.read()
        for _ in range(MAX_OPEN_ATTEMPTS):
            if writer := cls.open_after(
                lane=lane, state=state, request=request, clock=clock, on_retry=on_retry
            ):
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
        record = _open_record(lane, state, request, clock().isoformat())
        try:
            opened = _append(lane, state, record, on_retry)
        except Fenced:
            return None
        return cls(lane=lane, state=opened, request=request, clock=clock, on_retry=on_retry)

    def append(self, make: Callable[[Header], Record], applied_through: int = -1) -> State:
        """Append the record that ``make`` builds; afterwards it is in the ledger for certain.

        Raises:
            Fenced: another driver opened the lane; nothing was written.
            Stalled: LEDGER_BROKEN, the record does not follow from the state; nothing was written.
        """
        header = ledger.next_header(
            self.state, self._request.writer, self._clock().isoformat(), applied_through
        )
        self.state = _append(self._lane, self.state, make(header), self._on_retry)
        return self.state

    def seal(self) -> State:
        """Seal the present epoch with an OPEN of this writer's own, and continue in the next.

        Only slots of a sealed epoch can be rolled up, and a driver may live for months.

        Raises:
            Fenced: another driver opened the lane; nothing was written.
        """
        time = self._clock().isoformat()
        record = _open_record(self._lane, self.state, self._request, time)
        record = msgspec.structs.replace(record, spec=self.state.spec)
        self.state = _append(self._lane, self.state, record, self._on_retry)
        return self.state

    def is_fenced(self) -> bool:
        """Return whether another driver has opened the lane, by a look at the store; thread-safe.

        Raises:
            Retry: the store failed.
            Stalled: LEDGER_BROKEN, a slot is missing or violates a rule.
        """
        state = self.state
        return self._lane.follow(state).writer != state.writer

    def newer_owner(self, read: Read) -> str:
        """The driver that has opened the lane since, as a sentence; empty if none has. Thread-safe.

        Reads only the slot after this writer's last record. That slot may hold this writer's own
        next record, while its append is still waiting for the response: its bytes show it. Anything
        but an OPEN is left for the next append to find.

        Raises:
            Retry: the store failed.
        """
        state = self.state  # read once: another thread may append meanwhile
        seq = state.seq + 1
        body = read(self._lane.next_key(state))
        if body is None or state.holding is not LaneOwnership.HELD:
            return ""
        try:
            record = ledger.decode(seq, body)
        except Stalled:
            return ""
        by_another = (
            isinstance(record, ledger.Open) and record.header.writer != self._request.writer
        )
        return _describe_owner(seq, body) if by_another else ""

    def snapshot(self, applied_through: int) -> None:
        """Store the state and append a SNAPSHOT, so that the next driver reads only later slots.

        Raises:
            Fenced: another driver opened the lane.
            Retry: the store failed.
        """
        body = encode_state(self.state)
        seq, place = self.state.seq + 1, (self.state.epoch, self.state.next_index)
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
            json.dumps({"seq": seq, "epoch": place[0], "index": place[1]}).encode(),
        )


def _open_record(lane: Lane, state: State, request: OpenRequest, time: str) -> ledger.Open:
    header = Header(
        seq=state.seq + 1,
        prev=state.tip,
        epoch=state.epoch + 1,
        writer=request.writer,
        time=time,
        applied_through=state.applied_through,
    )
    return ledger.Open(
        header=header,
        group=lane.group,
        lane=lane.name,
        generation=request.generation,
        software=request.software,
        revision=request.revision,
        spec=request.spec,
    )


def _append(lane: Lane, state: State, record: Record, on_retry: OnRetry) -> State:
    body = ledger.encode(record)
    after = ledger.fold(state, body)  # before writing: a record that breaks a rule is never written
    # No limit of attempts: giving up would leave open whether the record is in the ledger.
    for attempt in stamina.retry_context(
        on=Retry, attempts=None, timeout=None, wait_initial=0.2, wait_max=5
    ):
        with attempt:
            try:
                _create_slot(lane, state, body)
                if isinstance(record, ledger.Open):
                    _check_next_epoch(lane, after)
            except Retry as error:
                on_retry(error)
                raise
    return after


def _create_slot(lane: Lane, state: State, body: bytes) -> None:
    key = lane.next_key(state)
    if lane.slots.create(key, body) is Created.WON:
        return
    # "Taken" may mean our own bytes, written by an attempt whose response was lost.
    found = lane.slots.read(key)
    if found is None:
        raise Retry(f"{key}: the store reports that it exists, but it cannot be read")
    if found != body:
        raise Fenced(_describe_owner(state.seq + 1, found))


def _check_next_epoch(lane: Lane, opened: State) -> None:
    """Return if the OPEN that led to ``opened`` gave the lane to its writer.

    A driver that was frozen may put its OPEN into a slot that was rolled up and deleted meanwhile.
    The epoch it believes to open then has a first slot already, which is never deleted.

    Raises:
        Fenced: another driver has the lane.
    """
    found = lane.slots.read(lane.next_key(opened))
    if found is not None:
        raise Fenced(_describe_owner(opened.seq + 1, found))


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
    found = claim(slots, owner)
    if found != owner:
        raise Stalled(
            Reason.OUTPUT_OCCUPIED,
            f"the output root belongs to {found}, not to {owner}: see {object_names.owner_key()}",
        )


def claim(slots: Slots, owner: str, destination: str = "") -> str:
    """Record ``owner`` as the owner of an output root, or of a destination in it, if it has none.

    The output root of another group may be where a destination of this one is, so both are claimed
    in the same way. Returns to whom it belongs, from now on.

    Raises:
        Retry: the store failed.
    """
    key = object_names.owner_key(destination)
    if slots.create(key, json.dumps({"owner": owner}).encode()) is Created.WON:
        return owner
    return _owner(slots.read(key))


def output_owner(slots: Slots) -> str | None:
    """The owner of an output root; None if it has no owner yet. Raises Retry: the store failed."""
    body = slots.read(object_names.owner_key())
    return None if body is None else _owner(body)


def _owner(body: bytes | None) -> str:
    try:
        return str(parse_document(body)["owner"])
    except (ValueError, KeyError, TypeError):
        return f"an owner that cannot be read from {body!r}"
