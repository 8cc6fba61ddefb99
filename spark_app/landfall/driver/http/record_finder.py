"""Answers ``/record``: the outcome of an offset, for the page of a driver and for programs.

Any client of the port may ask, so an answer has no value of a payload: no reason of a dead letter
in its own words, no folder that a payload has named, no name of a person. It costs little:
lookups take turns, a few are allowed in a minute, and each reads a bounded part of the ledger and
of objects. What lies beyond is left to ``landfall locate``, which the answer names. The driver's
loop is not asked, it only hands over the ledger's state.
"""

import shlex
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from http import HTTPStatus

from landfall.api.contract import PublisherStatus
from landfall.api.spec import ConsumerGroup, GroupSpec
from landfall.checks.locate import (
    CandidateRows,
    Committed,
    NotLanded,
    OffsetState,
    Unknown,
    find_offset,
)
from landfall.errors import LandfallError, Retry, Stalled
from landfall.landed.locating import Restrictions, is_changed_since, location_of
from landfall.landed.opened_group import OpenedGroup
from landfall.landed.stored_rows import dead_letter_texts
from landfall.lane import last_records, records_in_segments
from landfall.ledger import Record, State
from landfall.ledger.offsets import TopicPartition
from landfall.store import Store
from landfall.task.partitioning import BadRecord
from landfall.task.reasons import PublicReasons

BURST = 6
"""Lookups that may follow each other at once."""
REFILL_SECONDS = 5.0
"""After how long another one is allowed."""
MOST_RECORDS = 500
"""Records of the ledger that are read backwards, from the last one."""
MOST_SECONDS = 4.0
"""For how long they are read."""
RESTRICTIONS = Restrictions(read_objects=16, read_bytes=16 * 2**20, listed_objects=20)
USAGE = "ask for ?topic=NAME&partition=NUMBER&offset=NUMBER"

_MOST_OFFSET = 2**63 - 1
_LONGEST_TOPIC = 249
Answer = tuple[HTTPStatus, dict[str, object]]


@dataclass
class Allowance:
    """How many lookups are allowed now; one thread at a time.

    Attributes:
        clock: seconds that only grow.
    """

    clock: Callable[[], float] = time.monotonic
    _left: float = BURST
    _at: float | None = None

    def take(self) -> bool:
        """Take one, or return False if there is none."""
        now = self.clock()
        passed = 0.0 if self._at is None else now - self._at
        self._left = min(BURST, self._left + passed / REFILL_SECONDS)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


@dataclass
class RecordFinder:
    """Finds records of one group; any thread may ask.

    Attributes:
        group: the resource.
        store: has ledger and objects, and is soon given up if it does not answer.
        clock: seconds that only grow.
    """

    group: ConsumerGroup
    store: Store
    clock: Callable[[], float] = time.monotonic
    _state: State | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._opened = OpenedGroup(self.group, self.store)
        self._allowance = Allowance(self.clock)

    def observe(self, state: State) -> None:
        """Take note of the ledger's state; from the driver's thread."""
        self._state = state

    def find(
        self, query: Mapping[str, Sequence[str]], publishers: Sequence[PublisherStatus]
    ) -> Answer:
        """Return the status code and the answer to a query.

        Args:
            query: ``topic``, ``partition`` and ``offset``, as texts.
            publishers: what has reached the tables.
        """
        try:
            tp, offset = _asked(query)
        except ValueError as error:
            return HTTPStatus.BAD_REQUEST, {"error": str(error)}
        state = self._state
        if state is None:
            return HTTPStatus.SERVICE_UNAVAILABLE, {
                "error": "this process does not land the group now: ask the driver that does"
            }
        known = _known(state, tp, offset)
        if known is None and not self._lock.acquire(blocking=False):
            return HTTPStatus.TOO_MANY_REQUESTS, {"error": "another record is being looked up"}
        try:
            if known is None and not self._allowance.take():
                seconds = f"{REFILL_SECONDS:.0f} seconds"
                return HTTPStatus.TOO_MANY_REQUESTS, {
                    "error": f"too many records were looked up: one more is allowed in {seconds}"
                }
            return self._found(state, tp, offset, known, publishers)
        except (LandfallError, OSError, ValueError) as error:
            # Their texts may name objects, and so folders, or quote a damaged one.
            reason = error.reason.value if isinstance(error, Stalled) else type(error).__name__
            code = HTTPStatus.SERVICE_UNAVAILABLE if isinstance(error, Retry) else HTTPStatus.OK
            message = f"could not be looked up ({reason}); run the command to see why"
            return code, self._answer(tp, offset, fate="unknown", message=message)
        finally:
            if known is None:
                self._lock.release()

    def _found(
        self,
        state: State,
        tp: TopicPartition,
        offset: int,
        known: OffsetState | None,
        publishers: Sequence[PublisherStatus],
    ) -> Answer:
        records = [] if known else self._records(state, tp, offset)
        if records is None:
            message = (
                f"{tp} offset {offset} is landed, or skipped, too long ago to be looked up here"
            )
            return HTTPStatus.OK, self._answer(tp, offset, fate="not-searched", message=message)
        outcome = known or find_offset(records, tp, offset)
        location = location_of(
            self._opened,
            state,
            outcome,
            tp,
            offset,
            restrictions=RESTRICTIONS,
            reason_of=self._reason_of,
        )
        more: dict[str, object] = {}
        if isinstance(outcome, Committed):
            times = {record.header.seq: record.header.time for record in records}
            more["committed"] = times.get(outcome.slot)
            more["visible"] = outcome.slot <= state.applied_through
            if location.fate in {"landed", "possibly-landed"}:
                more["publishers"] = [_reached(publisher, outcome.slot) for publisher in publishers]
        return HTTPStatus.OK, self._answer(tp, offset, **asdict(location), **more)

    def _records(self, state: State, tp: TopicPartition, offset: int) -> list[Record] | None:
        until = self.clock() + MOST_SECONDS

        def may_continue(count: int) -> bool:
            return count < MOST_RECORDS and self.clock() < until

        found = last_records(self._opened.lane, state, tp, offset, may_continue)
        if found is None and not is_changed_since(state, tp.topic):
            return records_in_segments(self._opened.lane, tp, offset)
        return found

    def _reason_of(self, spec: GroupSpec, place: CandidateRows, row: int) -> str:
        """The reason of a dead letter in words of the spec; empty if it is not read."""
        if place.landed.upload.size > RESTRICTIONS.read_bytes:
            return "its object is too large to be read here"
        stage, error = dead_letter_texts(self._opened, place.landed, row)
        return PublicReasons.of(spec).reason(BadRecord(row, stage, error))

    def _answer(self, tp: TopicPartition, offset: int, **found: object) -> dict[str, object]:
        command = f"landfall locate GROUP.yaml {shlex.quote(tp.topic)} {tp.partition} {offset}"
        asked = {"topic": tp.topic, "partition": tp.partition, "offset": offset}
        return {**asked, **found, "command": command}


def _known(state: State, tp: TopicPartition, offset: int) -> OffsetState | None:
    """The outcome that the ledger's state alone shows; None if records have to be read."""
    if tp in state.checkpoint:
        checkpoint = state.checkpoint[tp]
        return NotLanded(checkpoint) if offset >= checkpoint else None
    return None if tp in state.retired else Unknown()


def _asked(query: Mapping[str, Sequence[str]]) -> tuple[TopicPartition, int]:
    """The topic partition and the offset of a query.

    Raises:
        ValueError: one is missing, or is none.
    """
    texts = {name: query.get(name, ("",))[0] for name in ("topic", "partition", "offset")}
    numbers = texts["partition"], texts["offset"]
    if not 0 < len(texts["topic"]) <= _LONGEST_TOPIC or not all(map(_is_number, numbers)):
        raise ValueError(USAGE)
    partition, offset = map(int, numbers)
    if partition > 2**31 - 1 or offset > _MOST_OFFSET:
        raise ValueError(USAGE)
    return TopicPartition(texts["topic"], partition), offset


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= len(str(_MOST_OFFSET))


def _reached(publisher: PublisherStatus, slot: int) -> dict[str, object]:
    """Return a publisher, and whether it has reached a slot."""
    return {
        "name": publisher.name,
        "type": publisher.type,
        "published": publisher.slot >= slot,
        "slot": publisher.slot,
    }
