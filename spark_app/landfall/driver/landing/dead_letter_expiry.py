"""Deletes dead letters that are older than ``badRecords.retain``.

Only what the ledger names is deleted, by the upload that made it, so that no other program's object
can be meant. Slots are followed in their order, up to the first whose dead letters are too young:

1. An object records that dead letters through that slot have expired (``ledger.expired_letters``).
2. The driver looks whether another one has opened the lane, and then deletes nothing.
3. They are deleted. A reader that finds one missing does not take it for lost: 1 came first.
4. The previous object of 1 is deleted, since a later one exists.

A driver that dies in between leaves the object of 1, which also records from which slot dead
letters may still exist: the next driver deletes those first. Two drivers at once, one of them
fenced, delete the same objects, or some that have expired for the other one, too.

Dead letters stay while a record after ``applied_through`` names them, a BLOCK calls them missing, a
REPLACE names them that is not applied, or a REPLAY read them whose objects are not all visible: a
recovering driver needs what was decided, and what it was made of. A fenced driver does not know
what its successor replays, and may be stuck between 2 and 3 for long. So a replay first deletes
what was recorded as expired (``finish``), once, after it has opened the lane: either it sees what
the other driver recorded in 1, and that driver finds nothing left to delete, or that driver sees in
2 that it is fenced.
"""

import logging
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Executor, Future
from datetime import UTC, datetime, timedelta

from landfall import ledger
from landfall.driver.core.background import Notifier
from landfall.errors import LandfallError, Stalled
from landfall.lane import Lane
from landfall.lane.expired_letters import expired_keys, read_expired
from landfall.lane.replacements import read_replaced
from landfall.lane.segments import StoredSegment
from landfall.ledger import Record, State
from landfall.ledger.effects import (
    LettersReplayed,
    ObjectRestored,
    decided_slices,
    effects,
    replaces,
)
from landfall.ledger.names.expired_letters import (
    NONE_EXPIRED,
    ExpiredLetters,
    encode_expired,
    expired_key,
)
from landfall.ledger.task_results import LandedObject, ObjectKind
from landfall.objects import Upload, is_made_by
from landfall.store import Store

log = logging.getLogger(__name__)

INTERVAL = timedelta(hours=1)
_NEVER = datetime.min.replace(tzinfo=UTC)
SLOTS_AT_ONCE = 1000
"""How many slots are followed before what they name is deleted."""


class DeadLetterExpiry:
    """Expires dead letters alongside landing, once per ``INTERVAL``; used by the driver's thread.

    None is deleted while a replay reads it, or makes objects of it that no record names yet: the
    pool has one thread, and replays have no other.
    """

    def __init__(
        self,
        store: Store,
        lane: Lane,
        retain: timedelta | None,
        replaying: Executor,
        ended: Notifier,
    ) -> None:
        """Delete nothing yet; with ``retain`` None, nothing ever.

        Replays run in ``replaying``. ``ended`` is this instance's alone: ``stop`` waits with it.
        """
        self._sweep = ExpirySweep(store, lane)
        self._ended = ended
        self._retain = retain
        self._last = _NEVER
        self._pool = replaying
        self._running: Future[None] | None = None

    def start_if_due(self, state: State, now: datetime, *, is_replaying: bool) -> None:
        """Begin to delete what has expired by now, in the background, unless a replay runs."""
        if self._retain is None or is_replaying or now - self._last < INTERVAL:
            return
        self._last = now
        self._running = self._pool.submit(self._run, state, now - self._retain)
        self._running.add_done_callback(lambda _: self._ended.notify())

    def stop(self) -> None:
        """Return when what is being deleted is; the next driver deletes the rest."""
        self._sweep.is_stopping = True
        while self._running is not None and not self._running.done():
            self._ended.wait(INTERVAL)

    def _run(self, state: State, before: datetime) -> None:
        try:
            self._sweep.run(state, before)
        except LandfallError as error:  # tried again an hour later
            log.warning("dead letters not expired", extra={"why": str(error)})


class ExpirySweep:
    """Deletes what has expired; a later run continues where the one before ended.

    Attributes:
        is_stopping: whether to end soon; set from any thread.
    """

    def __init__(self, store: Store, lane: Lane) -> None:
        """Refer to a lane and the store of its objects."""
        self.is_stopping = False
        self._store = store
        self._lane = lane
        self._done: int | None = None

    def run(self, state: State, before: datetime) -> int:
        """Delete the dead letters of the lane that were named before a time; returns how many.

        Raises:
            Retry: the store does not answer; what is deleted stays so, and the next run continues.
            Stalled: LEDGER_BROKEN, the ledger cannot be read.
        """
        expired = read_expired(self._lane.slots, self._lane.group, self._lane.name)
        if self._done is None:
            self._done = expired.after
        deleted, needed = 0, self._needed(state)
        while self._done < state.applied_through and not self.is_stopping:
            through, letters = self._next(state, self._done, needed, before)
            if letters:
                expired = self._say(expired, through, before)
                # After it was recorded, not before: see the module.
                if self._is_fenced(state):
                    break
                deleted += sum(self._delete(state, slot, letter) for slot, letter in letters)
                self._forget(expired)
            if through == self._done:
                break
            self._done = through
        if deleted:
            log.info("dead letters expired", extra={"objects": deleted})
        return deleted

    def finish(self, state: State) -> None:
        """Delete what is recorded as expired and still exists, unless it is needed.

        Raises:
            Retry: the store does not answer.
            Stalled: LEDGER_BROKEN, the ledger cannot be read.
        """
        expired = read_expired(self._lane.slots, self._lane.group, self._lane.name)
        if expired == NONE_EXPIRED:
            return
        needed, last = self._needed(state), min(expired.through, state.applied_through)
        for slot, record in self._records(state, expired.after + 1, last):
            for landed in self._named(state, slot, record):
                if landed.key not in needed:
                    self._delete(state, slot, landed)

    def _is_fenced(self, state: State) -> bool:
        return self._lane.follow(state).writer != state.writer

    def _next(
        self, state: State, after: int, needed: Collection[str], before: datetime
    ) -> tuple[int, list[tuple[int, LandedObject]]]:
        """The slot up to which nothing is too young or needed, and what the slots up to it name."""
        through, letters = after, list[tuple[int, LandedObject]]()
        last = min(state.applied_through, after + SLOTS_AT_ONCE)
        for seq, record in self._records(state, after + 1, last):
            named = self._named(state, seq, record)
            is_young = named and ledger.time_of(seq, record.header.time) >= before
            if is_young or any(object_.upload.key in needed for object_ in named):
                break
            letters += [(seq, object_) for object_ in named]
            through = seq
        return through, letters

    def _needed(self, state: State) -> frozenset[str]:
        """Dead letters that are missing, or that a REPLAY read that is not applied."""
        keys = {o.upload.key for objects in state.missing.values() for o in objects}
        for slot in {*state.unapplied, *state.missing}:
            said = effects(self._record(state, slot))
            if said and isinstance(repaired := said[0], ObjectRestored):
                said = effects(self._record(state, repaired.due))
            keys |= {e.landed.dead_letters for e in said if isinstance(e, LettersReplayed)}
        return frozenset(keys)

    def _say(self, expired: ExpiredLetters, through: int, before: datetime) -> ExpiredLetters:
        """Record the expiry before anything is deleted; what was recorded before stays so."""
        if through <= expired.through:
            return expired
        assert self._done is not None, "set when the run began"
        said = ExpiredLetters(through, self._done, before.isoformat())
        key = expired_key(self._lane.group, self._lane.name, through)
        self._lane.slots.create(key, encode_expired(said))
        return said

    def _forget(self, expired: ExpiredLetters) -> None:
        current = expired_key(self._lane.group, self._lane.name, expired.through)
        keys = expired_keys(self._lane.slots, self._lane.group, self._lane.name)
        if older := [key for key in keys if key < current]:
            self._lane.slots.delete_slots(older)

    def _delete(self, state: State, slot: int, letters: LandedObject) -> bool:
        upload = letters.upload
        found = self._store.stat(upload.key)
        if found is None:
            return False
        if not is_made_by(upload, found):
            upload = self._repaired(state, slot).get(upload.key, upload)
        try:
            self._store.retire(upload)
        except Stalled as stalled:  # it is another program's, and stays
            log.warning("dead letters not deleted", extra={"key": upload.key, "why": str(stalled)})
            return False
        return True

    def _repaired(self, state: State, slot: int) -> Mapping[str, Upload]:
        """Return the uploads by which REPAIRs made objects of a slot, or of later ones, again."""
        later = (record for _, record in self._records(state, slot + 1, state.seq))
        said = (effect for record in later for effect in effects(record))
        restored = (effect.landed.upload for effect in said if isinstance(effect, ObjectRestored))
        return {upload.key: upload for upload in restored}

    def _named(self, state: State, seq: int, record: Record) -> list[LandedObject]:
        """Return the dead letters that a slot names.

        Dead letters of a REPLACE that was decided again are named by the last slot that did so.
        """
        for replacement in replaces([record]):
            listed = read_replaced(self._lane.slots, seq, replacement.listed)
            named = [new.landed for new in listed.objects if _is_letters(new.landed)]
            return [] if named and self._is_superseded(state, seq) else named
        return [o for slice_ in decided_slices(record) for o in slice_.objects if _is_letters(o)]

    def _is_superseded(self, state: State, seq: int) -> bool:
        """Return whether another REPLACE supersedes it, which only happens before it is applied."""
        for _, record in self._records(state, seq + 1, state.seq):
            if any(replacement.instead == seq for replacement in replaces([record])):
                return True
            if record.header.applied_through >= seq:
                break
        return False

    def _record(self, state: State, slot: int) -> Record:
        [(_, record)] = self._records(state, slot, slot)
        return record

    def _records(self, state: State, first: int, last: int) -> Iterator[tuple[int, Record]]:
        """Yield the records of the slots from ``first`` through ``last``."""
        for seq, body in self._bodies(state, first, last):
            if body is None:
                raise ledger.ledger_error(seq, "missing: it may name dead letters")
            yield seq, ledger.decode(seq, body)

    def _bodies(self, state: State, first: int, last: int) -> Iterator[tuple[int, bytes | None]]:
        for rolled in state.segments:
            if rolled.last < first:
                continue
            for seq, body in StoredSegment(self._lane.slots, rolled.key).bodies(first):
                if seq > last:
                    return
                yield seq, body
            first = rolled.last + 1
        for seq in range(first, last + 1):
            yield seq, self._lane.read_slot(state, seq)


def _is_letters(landed: LandedObject) -> bool:
    return landed.kind is ObjectKind.DEAD_LETTERS
