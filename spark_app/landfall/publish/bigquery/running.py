"""Runs the job of a decided load to its end.

What is done depends on the load and on the state of its job alone: any publisher can continue.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from landfall.clock import wall_clock
from landfall.errors import DestinationAway, LandfallError, Reason, Stalled
from landfall.publish.bigquery import loads
from landfall.publish.bigquery.chain import TableChain
from landfall.publish.bigquery.loads import Intent, LoadedObject, LoadOutcome, ObjectId
from landfall.publish.bigquery.warehouse import (
    PASSING,
    JobRef,
    JobState,
    LoadRequest,
    Warehouse,
)

LABEL = "landfall_load"
"""The label of a job that contains a digest of what it loads."""
_FIRST_POLL, _LAST_POLL = 0.2, 10.0
_SHOWN = 3


class Staging(Protocol):
    """Where BigQuery finds the objects."""

    def uris(self, chain: str, objects: Iterable[LoadedObject]) -> list[str]:
        """The URIs by which BigQuery knows the objects, whether they are there or not."""
        ...

    def stage(self, chain: str, objects: Iterable[LoadedObject]) -> list[str]:
        """Make the objects available to BigQuery, and return their URIs.

        Copies belong to a chain, by its id: no other chain deletes them.

        Raises:
            Retry: a store does not answer.
            Stalled: an object cannot be put there.
        """
        ...

    def release(self, chain: str, objects: Iterable[LoadedObject]) -> None:
        """Delete a chain's copies of loaded objects; missing ones are ignored.

        Raises:
            Retry, Stalled: as ``stage``.
        """
        ...


@dataclass(frozen=True)
class JobTimes:
    """Times.

    Attributes:
        now: the time.
        sleep: waits for seconds.
        job_timeout: how long a job is watched in one pass.
    """

    now: Callable[[], datetime] = wall_clock
    sleep: Callable[[float], None] = time.sleep
    job_timeout: timedelta = timedelta(minutes=30)


@dataclass(frozen=True)
class _Refusal:
    """The reason why no job is run, and the objects concerned."""

    message: str
    objects: tuple[ObjectId, ...]


@dataclass(frozen=True)
class JobRunner:
    """Runs jobs.

    Attributes:
        warehouse: BigQuery.
        staging: where it finds the objects.
        format_of: the format of an object by its key, as BigQuery calls it.
        labels: of the jobs.
        schedule: see there.
        problem_of: why no table can have the columns of an object; "" if one can. Objects of one
            load have the same columns.
    """

    warehouse: Warehouse
    staging: Staging
    format_of: Callable[[str], str]
    labels: Mapping[str, str]
    schedule: JobTimes
    problem_of: Callable[[LoadedObject], str] = lambda _: ""

    def finish(self, chain: TableChain, intent: Intent) -> LoadOutcome:
        """Run the job of a load to its end, and record the outcome.

        Raises:
            Retry: it has not ended, or a service does not answer.
            Stalled: BigQuery refuses the job, or whether it ran cannot be known.
        """
        job, refused = _ref(chain, intent), None
        state = self.warehouse.find(job)
        if state is None:
            self._check_is_known(intent)
            refused = self._submit(job, chain.begin.chain, intent)
            state = self.warehouse.find(job)
        state = self._watched(job, intent, state)
        return self._conclude(chain, intent, state, refused)

    def give_up(self, chain: TableChain, intent: Intent) -> LoadOutcome:
        """End an open load without running its job; if the job exists already, by its result.

        Raises:
            Retry, Stalled: as ``finish``.
        """
        job = _ref(chain, intent)
        if self.warehouse.find(job) is None:
            self.warehouse.use_up(job)
        return self._conclude(chain, intent, self._watched(job, intent, self.warehouse.find(job)))

    def _submit(self, job: JobRef, chain: str, intent: Intent) -> _Refusal | None:
        """Submit the job. If an object is lost or cannot be loaded, its id is used up."""
        if not intent.objects:
            self.warehouse.use_up(job)
            return None
        if problem := self.problem_of(intent.objects[0]):
            self.warehouse.use_up(job)
            ids = tuple(object_.id for object_ in intent.objects)
            named, _ = _named(ids)
            return _Refusal(f"table {intent.table}: object {named}: {problem}", ids)
        try:
            uris = self.staging.stage(chain, intent.objects)
        except Stalled as error:
            if error.reason is not Reason.OBJECT_LOST:
                raise
            self.warehouse.use_up(job)
            lost = tuple(o.id for o in intent.objects if str(error).startswith(f"{o.key}: "))
            return _Refusal(str(error), lost)
        load = LoadRequest(
            table=intent.table,
            uris=uris,
            format=self.format_of(intent.objects[0].key),
            replaces=intent.replaces,
            creates=intent.creates,
            labels={**self.labels, LABEL: intent.digest},
        )
        self.warehouse.submit(job, load)
        return None

    def _check_is_known(self, intent: Intent) -> None:
        if loads.is_forgotten(intent, self.schedule.now()):
            raise Stalled(
                Reason.DESTINATION_CONFLICT,
                f"BigQuery: table {intent.table}: load {intent.number} was begun at {intent.time}, "
                "and BigQuery may have forgotten its job: compare the rows, or load the table "
                "again with `landfall publish --rebuild`",
            )

    def _watched(self, job: JobRef, intent: Intent, state: JobState | None) -> JobState:
        """The state of the job at its end."""
        deadline = self.schedule.now() + self.schedule.job_timeout
        pause = _FIRST_POLL
        while state is None or not state.is_over:
            if state is None or self.schedule.now() >= deadline:
                found = "is not found" if state is None else "still runs"
                raise DestinationAway(f"BigQuery: table {intent.table}: job {job.id} {found}")
            self.schedule.sleep(pause)
            pause = min(pause * 1.5, _LAST_POLL)
            state = self.warehouse.find(job)
        return state

    def _conclude(
        self, chain: TableChain, intent: Intent, state: JobState, refused: _Refusal | None = None
    ) -> LoadOutcome:
        outcome = self._outcome(chain, intent, state, refused)
        chain.conclude(outcome)
        if intent.objects and outcome.position == intent.after:
            # They are loaded: the bucket's lifecycle rules delete leftovers.
            with suppress(LandfallError):
                self.staging.release(chain.begin.chain, intent.objects)
        return outcome

    def _outcome(
        self, chain: TableChain, intent: Intent, state: JobState, refused: _Refusal | None
    ) -> LoadOutcome:
        now = self.schedule.now()
        if not intent.objects:
            return loads.loaded(intent, 0)
        if not state.is_load:
            if refused:
                return loads.failed(intent, refused.message, refused.objects, now, passes=False)
            message = f"table {intent.table}: load {intent.number} was given up"
            return loads.failed(intent, message, (), now, passes=True)
        if state.labels.get(LABEL) != intent.digest:
            # Only a record that was deleted and created again differs from its job.
            raise DestinationAway(
                f"BigQuery: table {intent.table}: load {intent.number} is an old one"
            )
        if not state.reason:
            return loads.loaded(intent, state.rows)
        uris = self.staging.uris(chain.begin.chain, intent.objects)
        named = named_in(state.message, intent.objects, uris)
        passes = state.reason in PASSING or (
            state.reason == "notFound" and not named and not self.warehouse.exists(intent.table)
        )
        message = _message(intent, state, named)
        return loads.failed(intent, message, named, now, passes=passes)


def named_in(
    message: str, objects: Sequence[LoadedObject], uris: Sequence[str]
) -> tuple[ObjectId, ...]:
    """The objects that BigQuery names in a message about a job.

    Args:
        message: with URIs, which may have other schemes, such as ``/bigstore/``; or with keys.
        objects: of the job.
        uris: of the objects. A key may be the end of another one, and copies have other names.
    """
    paths = (f"/{uri.removeprefix('gs://')}" for uri in uris)
    found = tuple(o.id for o, path in zip(objects, paths, strict=True) if path in message)
    return found or tuple(o.id for o in objects if o.key in message)


def _ref(chain: TableChain, intent: Intent) -> JobRef:
    job_id = loads.job_id(chain.begin, intent.table, intent.number)
    return JobRef(job_id, intent.project, intent.location)


def _message(intent: Intent, state: JobState, named: tuple[ObjectId, ...]) -> str:
    """Return a job's message about its failure, with the objects concerned."""
    objects, count = _named(named or [object_.id for object_ in intent.objects])
    which = "object" if named or count == 1 else f"one of {count} objects"
    hint = ""
    if state.reason == "quotaExceeded":
        hint = "; a table takes 1,500 loads a day, one for each schema of a pass: raise minInterval"
    return f"table {intent.table}: {which} {objects}: {state.reason}: {state.message}{hint}"


def _named(objects: Sequence[ObjectId]) -> tuple[str, int]:
    """The keys of the first objects, as text, and how many objects there are."""
    keys, count = ", ".join(object_.key for object_ in objects[:_SHOWN]), len(objects)
    return keys + (f" and {count - _SHOWN} more" if count > _SHOWN else ""), count
