"""Makes committed objects again whose uploads the store has lost, alongside landing.

A lost upload holds up nothing but what it must: landing continues while a job in the background
lands the lost slices again, all in one, and no COMMIT of another topic partition waits for it.
Objects of a REPLAY are made again of its dead letters, all other objects of the log. The result is
recorded:

    REPAIR   the objects have new uploads, which are completed then
    LOST     they can never be made again, and ``onDataLoss: SkipAndRecord`` allows to give them up;
             or their topic partition has left the lane
    BLOCK    they can never be made again otherwise: their topic partition stops until a user
             decides. UNBLOCK lets this module try once more; a LOST gives them up

While the job is tried again, because Kafka or the store do not answer, the COMMITs of the objects
stay unapplied. A BLOCK names the objects as missing, and the applied COMMITs may pass them: else a
topic partition that waits for a person for a week would leave a week of COMMITs unapplied, which
every snapshot would hold and every successor would verify again.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import chain

from landfall import ledger
from landfall.api.spec import ConsumerGroup
from landfall.driver.core.deps import Append, DriverDeps, record_failure
from landfall.driver.core.parts import DriverPart
from landfall.driver.core.retry_backoff import wait_after
from landfall.driver.core.stored_specs import stored_spec
from landfall.driver.landing.completer import Completer
from landfall.driver.landing.recovery import (
    LostSlice,
    ObjectOrigin,
    RecreatedTopics,
    Remade,
    by_origin,
    check_remade,
    in_generation,
    land_again,
    lost_slices,
)
from landfall.errors import LandfallError, Reason, Retry, Stalled, cause
from landfall.lane import LaneWriter
from landfall.ledger import Blocked, Missing
from landfall.ledger.decisions import topic_partition
from landfall.ledger.feeds import lists_of
from landfall.ledger.offsets import OffsetRange, TopicPartition
from landfall.ledger.task_results import LandedObject, LandedSlice, SliceResult
from landfall.objects import Upload
from landfall.task import Batch

log = logging.getLogger(__name__)

KEYS_SHOWN = 3
"""How many keys of missing objects a message names."""

Abort = Callable[[Collection[Upload]], None]


@dataclass(frozen=True)
class Recording:
    """How lost uploads are recorded.

    Attributes:
        writer: knows the lane and its state.
        append: appends a record.
        recreated_topics: which topic partitions' topics are not the ledger's any more.
    """

    writer: LaneWriter
    append: Append
    recreated_topics: RecreatedTopics

    @property
    def state(self) -> ledger.State:
        """The state after the last record."""
        return self.writer.state


@dataclass(frozen=True)
class _Job:
    """Lost slices that are being landed again."""

    lost: Sequence[LostSlice]
    results: Future[list[SliceResult]]


@dataclass
class LostUploads(DriverPart):
    """Used by the driver's thread alone; the jobs run in a thread of their own.

    Attributes:
        group: the resource.
        deps: the driver's dependencies.
        recording: where it is recorded.
        completer: knows which uploads are lost, and completes the new ones.
        abort: aborts uploads that are not needed.
        wake: called, from any thread, when a job has ended.
    """

    group: ConsumerGroup
    deps: DriverDeps
    recording: Recording
    completer: Completer
    abort: Abort
    wake: Callable[[], None]
    _job: _Job | None = None
    _failures: int = 0
    _wait_until: datetime | None = None
    _waiting: Counter[TopicPartition] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._pool = self.deps.background.pool(1, "repair")

    @property
    def count(self) -> int:
        """How many lost objects are to be made again, or are being made, as of the last pass."""
        return self._waiting.total()

    @property
    def is_at_rest(self) -> bool:
        """True if the lost objects wait for Kafka partitions that do not answer."""
        return self._waiting.keys() <= self.deps.observer.view.unavailable.keys()

    @property
    def missing(self) -> frozenset[TopicPartition]:
        """Topic partitions with a missing object."""
        objects = chain.from_iterable(self.recording.state.missing.values())
        return frozenset(topic_partition(o.upload.key) for o in objects)

    def advance(self, now: datetime) -> None:
        """Record what a job has made, and start one for what is lost.

        Raises:
            Stalled: a foreign object is at the key of a committed one; the ledger is broken.
            Fenced: another driver has opened the lane.
        """
        if self._job and self._job.results.done():
            job = self._job
            self._job = None
            self._finish(job, now)
        lost = self._lost()
        objects = chain.from_iterable(lost.values())
        self._waiting = Counter(topic_partition(o.upload.key) for o in objects)
        if lost and not self._job and (self._wait_until is None or now >= self._wait_until):
            self._start(lost, now)

    def stop(self) -> None:
        """Start no more jobs; uploads of a job that has ended and was not recorded are aborted."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        job = self._job
        if job is None or not job.results.done() or job.results.cancelled():
            return
        if not job.results.exception():
            self.abort(_uploads(job.results.result()))

    def _lost(self) -> dict[int, list[LandedObject]]:
        """By slot, the objects to be made again: lost ones, and missing ones that may be tried."""
        state = self.recording.state
        # What a REPLACE decided is made again from other objects, not from the source.
        lost = {s: o for s, o in self.completer.lost().items() if s not in state.replacing}
        for slot, objects in state.missing.items():
            free = [o for o in objects if topic_partition(o.upload.key) not in state.blocked]
            if free:
                lost[slot] = [*lost.get(slot, ()), *free]
        return lost

    def _start(self, lost: Mapping[int, Collection[LandedObject]], now: datetime) -> None:
        state, lane = self.recording.state, self.recording.writer.lane
        origins = sorted(by_origin(state, lane.group, lost).items(), key=lambda item: item[0])
        origin, of_origin = origins[self._failures % len(origins)]
        try:
            slices = lost_slices(lane, state, of_origin)
            group = self._group_of(origin, {s.topic_partition.topic for s in slices})
        except (Retry, Stalled) as error:  # landing continues; only these objects wait
            self._try_again(error, now)
            return
        objects = sum(len(s.lost) for s in slices)
        log.warning("committed uploads lost", extra={"objects": objects, "slices": len(slices)})
        lists = lists_of(state.feeds, (s.before.piece for s in slices))
        batch = Batch(group, self.deps.new_name(), lists=lists)
        ids = {tp: member.topic_id for tp, member in state.members.items()}
        results = self._pool.submit(land_again, batch, self.deps.runner, slices, ids)
        self._job = _Job(slices, results)
        results.add_done_callback(lambda _: self.wake())

    def _group_of(self, origin: ObjectOrigin, topics: Collection[str]) -> ConsumerGroup:
        lane = self.recording.writer.lane
        group = stored_spec(
            slots=self.deps.store, group=self.group, lane=lane.name, name=origin.spec, topics=topics
        )
        return in_generation(group, origin.generation)

    def _finish(self, job: _Job, now: datetime) -> None:
        results = job.results.result()
        try:
            # Asked after the ranges were read, and before anything is recorded.
            recreated = self.recording.recreated_topics({s.topic_partition for s in job.lost})
        except Retry as error:
            self.abort(_uploads(results))
            self._try_again(error, now)
            return
        # A decision, or a DROP, may have given some up while they were made.
        lost = [s for s in job.lost if self._is_due(s)]
        remade = check_remade(lost, results, recreated)
        self.abort(remade.discard)
        self._record(remade)
        again = [error for _, error in remade.failed if not _is_for_ever(error)]
        if again:
            self._try_again(again[0], now)
        else:
            self._failures = 0
            self._wait_until = None

    def _is_due(self, lost: LostSlice) -> bool:
        state = self.recording.state
        due = (*state.unapplied.get(lost.slot, ()), *state.missing.get(lost.slot, ()))
        return set(lost.lost) <= set(due)

    def _try_again(self, error: LandfallError, now: datetime) -> None:
        self._failures += 1
        self._wait_until = now + wait_after(self._failures)
        record_failure(self.deps, cause(error, "Repair"), error)

    # ------------------------------------------------------------------------- what is recorded

    def _record(self, remade: Remade) -> None:
        for slot, objects in remade.objects.items():
            repair = partial(ledger.Repair, commit=slot, objects=objects)
            named = remade.schemas.get(slot, ())
            state = self.recording.append(partial(repair, schemas=named))
            self._complete(state, {o.upload.upload_id for o in objects})
        gone = [(s, error) for s, error in remade.failed if _is_for_ever(error)]
        for _, error in gone:
            record_failure(self.deps, cause(error, "Repair"), error)
        self._give_up([s for s, _ in gone if not self._must_ask(s)])
        self._block([(s, error) for s, error in gone if self._must_ask(s)])

    def _complete(self, state: ledger.State, upload_ids: Collection[str]) -> None:
        """Complete repaired objects, under the slot that waits for them."""
        for slot, objects in state.unapplied.items():
            repaired = [o for o in objects if o.upload.upload_id in upload_ids]
            if repaired:
                self.completer.apply(slot, repaired)

    def _must_ask(self, lost: LostSlice) -> bool:
        """Return whether only a person may give the objects up."""
        skips = self.group.spec.source.skips_lost_ranges
        return not skips and lost.topic_partition in self.recording.state.members

    def _give_up(self, lost: Sequence[LostSlice]) -> None:
        by_slot: defaultdict[int, list[LandedObject]] = defaultdict(list)
        for s in lost:
            by_slot[s.slot] += s.lost
        for slot, objects in by_slot.items():
            self.recording.append(partial(ledger.Lost, commit=slot, objects=tuple(objects)))
            self.completer.forget({o.upload.key for o in objects})
            log.error(
                "committed objects lost for good",
                extra={"slot": slot, "objects": len(objects), "rows": sum(o.rows for o in objects)},
            )

    def _block(self, gone: Sequence[tuple[LostSlice, LandfallError]]) -> None:
        if not gone:
            return
        by_tp: defaultdict[TopicPartition, list[tuple[LostSlice, LandfallError]]]
        by_tp, by_slot = defaultdict(list), defaultdict[int, list[str]](list)
        for s, error in gone:
            by_tp[s.topic_partition].append((s, error))
            due = {o.upload.key for o in self.recording.state.unapplied.get(s.slot, ())}
            by_slot[s.slot] += sorted(s.keys & due)  # the rest are missing already
        entries = tuple(_blocked(tp, of_tp) for tp, of_tp in sorted(by_tp.items()))
        missing = tuple(Missing(slot, tuple(keys)) for slot, keys in by_slot.items() if keys)
        self.recording.append(partial(ledger.Block, entries=entries, missing=missing))
        self.completer.forget({key for entry in missing for key in entry.keys})


def _is_for_ever(error: LandfallError) -> bool:
    return isinstance(error, Stalled) and error.reason is Reason.OBJECT_LOST


def _blocked(tp: TopicPartition, gone: Sequence[tuple[LostSlice, LandfallError]]) -> Blocked:
    ranges = [s.before.piece.offsets for s, _ in gone]
    keys = sorted(key for s, _ in gone for key in s.keys)
    more = f" and {len(keys) - KEYS_SHOWN} more" if len(keys) > KEYS_SHOWN else ""
    rows = sum(o.rows for s, _ in gone for o in s.lost)
    return Blocked(
        tp,
        Reason.OBJECT_LOST,
        f"the store lost the uploads of {', '.join(keys[:KEYS_SHOWN])}{more} with {rows} records, "
        f"and they cannot be made again: {gone[0][1]}",
        OffsetRange(min(r.start for r in ranges), max(r.end for r in ranges)),
    )


def _uploads(results: Collection[SliceResult]) -> list[Upload]:
    return [o.upload for r in results if isinstance(r, LandedSlice) for o in r.objects]
