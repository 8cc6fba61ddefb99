"""One pass over a group: observe, decide, apply, report (docs/adr/0006). The order of what is done is all here.

What a group's drivers said, and when its status was last written, is remembered between passes;
everything else is in the stock or in the status, so an operator that is started anew goes on where
the one before it was killed.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from landfall.errors import LandfallError
from landfall_operator.api.status import GroupStatus
from landfall_operator.core import inputs
from landfall_operator.core.actions import Action, Apply, EmitEvent, SaveRollout
from landfall_operator.core.autoscaler import Sample
from landfall_operator.core.cache import Key, ObjectCache, Resource
from landfall_operator.core.decide import decide
from landfall_operator.core.desired_state import MOVING, DesiredState, desired_state
from landfall_operator.core.parsing import report_of
from landfall_operator.core.snapshot import Observed, measured
from landfall_operator.objects.names import control_name
from landfall_operator.objects.overlay import Json
from landfall_operator.objects.pod_templates import OperatorContext
from landfall_operator.reporting.event_texts import changes
from landfall_operator.reporting.group_status import report, worth_writing
from landfall_operator.runtime.action_executor import ActionExecutor, Target, difference
from landfall_operator.runtime.driver_client import Drivers
from landfall_operator.runtime.kube_client import Conflict, NotFound, RequestRejected
from landfall_operator.runtime.metrics import GroupSnapshot, Metrics

log = logging.getLogger(__name__)

KEPT = timedelta(minutes=30)
"""How long samples are kept."""
SAMPLED = timedelta(seconds=5)
"""How far samples are apart at least."""
INTERVAL = 15.0
"""Seconds from pass to pass when nothing happens, at most: a third of ``FRESH``."""
SHORTLY = 3.0
"""The same while a group is on its way from one driver to another."""
PATIENCE = timedelta(minutes=2)
"""How long a stage may last before it is no longer looked at so often."""
APART = 5.0
"""Seconds between two writes of a status, unless something changed that cannot wait."""
FIRST_LOOKS = 3
"""How often a running driver that does not answer is asked, before the first decision after a
start.
"""


@dataclass(slots=True)
class GroupState:
    """What is remembered of a group between passes.

    Attributes:
        told: what drivers said last, by revision.
        samples: of the last half an hour, oldest first.
        wrote: when the status was last written, by the monotonic clock.
        refused: what the API server would not do in the last pass; empty when there was nothing.
        invalid: the metadata.generation whose objects it finds invalid, if that is why.
        troubles: what drivers were last seen to have, by revision.
        decided: whether a pass was made since the operator started.
    """

    told: dict[str, inputs.DriverReport] = field(default_factory=dict)
    samples: deque[Sample] = field(default_factory=deque)
    wrote: float = float("-inf")
    refused: str = ""
    invalid: int | None = None
    troubles: dict[str, object] = field(default_factory=dict)
    decided: bool = False


@dataclass(frozen=True, slots=True)
class ReconcilerSettings:
    """What holds for all passes.

    Attributes:
        site: where the operator is.
        clock: tells the time.
        interval: seconds from pass to pass when nothing happens.
    """

    context: OperatorContext
    clock: Callable[[], datetime]
    interval: float = INTERVAL


class Reconciler:
    """Passes over groups; one at a time for each of them."""

    def __init__(
        self,
        cache: ObjectCache,
        drivers: Drivers,
        executor: ActionExecutor,
        metrics: Metrics,
        terms: ReconcilerSettings,
    ) -> None:
        """Nothing is remembered yet."""
        self._cache = cache
        self._drivers = drivers
        self._executor = executor
        self._metrics = metrics
        self._terms = terms
        self._memories: dict[Key, GroupState] = {}

    async def reconcile(self, key: Key) -> float | None:
        """Look at a group and do what is to be done; returns in how many seconds to look again, None when it is gone.

        Raises:
            Conflict: somebody else changed it meanwhile; look again at once.
            LandfallError: something could not be done.
        """
        resource = self._cache.groups.get(key)
        if resource is None:
            self._forget(key)
            return None
        memory = self._memories.setdefault(key, GroupState())
        target = Target(key, resource, await self._listen(key, memory))
        observed = await self._observe(target, memory)
        desired, actions = desired_state(observed), decide(observed, self._terms.context)
        memory.decided = True
        failure = await self._apply(target, actions, memory)
        wait = await self._report(target, observed, desired, memory)
        if failure:
            raise failure
        return min(wait, self._terms.interval, _next(observed, desired, actions))

    # -------------------------------------------------------------------------------------- observe

    async def _listen(self, key: Key, memory: GroupState) -> dict[str, str]:
        """Ask all drivers of a group how they are; returns their addresses by revision."""
        running = inputs.running(self._cache.owned(key))
        looks = 1 if memory.decided else FIRST_LOOKS
        for attempt in range(looks):
            silent = [
                revision for revision in running if attempt == 0 or revision not in memory.told
            ]
            if attempt and silent:
                await asyncio.sleep(1)
            await asyncio.gather(
                *(self._ask(revision, running[revision], memory) for revision in silent)
            )
        return {revision: pod["status"]["podIP"] for revision, pod in running.items()}

    async def _ask(self, revision: str, pod: Json, memory: GroupState) -> None:
        body = await self._drivers.status(pod["status"]["podIP"])
        said = report_of(body, self._terms.clock()) if body else None
        if said and said.status.revision in {"", revision}:
            memory.told[revision] = inputs.DriverReport(inputs.process_id(pod), said)

    async def _observe(self, target: Target, memory: GroupState) -> Observed:
        now, owned = self._terms.clock(), self._cache.owned(target.key)
        there = inputs.revisions(owned)
        memory.told = {
            revision: said for revision, said in memory.told.items() if revision in there
        }
        active = target.resource.status.rollout.active
        _remember(memory.samples, memory.told.get(active) if active else None, now)
        token = control_name(target.key[1]) if await self._executor.knows_token(target) else ""
        fault = self._fault(target.resource, memory)
        heard = inputs.Inputs(now, memory.told, tuple(memory.samples), fault, token)
        observed = inputs.observed(target.key, target.resource, owned, heard)
        self._count_troubles(target.key, observed, memory)
        return observed

    def _fault(self, resource: Resource, memory: GroupState) -> str:
        """Why a spec that is fine in itself cannot be run."""
        generation = resource.body["metadata"].get("generation", 0)
        if memory.refused and memory.invalid == generation:
            return memory.refused
        return self._cache.conflicting_groups(resource.spec) if resource.spec else ""

    def _count_troubles(self, key: Key, observed: Observed, memory: GroupState) -> None:
        """Count what drivers are seen not to run for, once per restart."""
        seen = {r: (d.trouble.reason, d.restarts) for r, d in observed.drivers.items() if d.trouble}
        for revision, (reason, restarts) in seen.items():
            if memory.troubles.get(revision) != (reason, restarts):
                self._metrics.troubles.labels(*key, str(reason)).inc()
        memory.troubles = dict(seen)

    # ---------------------------------------------------------------------------------------- apply

    async def _apply(
        self, target: Target, actions: tuple[Action, ...], memory: GroupState
    ) -> LandfallError | None:
        """Carry the actions out in order; the first that fails ends it.

        Raises:
            Conflict: the intent could not be written; then nothing else was done either.
        """
        for action in actions:
            try:
                await self._executor.execute(target, action)
            except LandfallError as failure:
                if isinstance(action, SaveRollout) and isinstance(failure, Conflict):
                    raise
                await self._refused(target, action, failure, memory)
                return failure
            self._metrics.actions.labels(type(action).__name__).inc()
        memory.refused, memory.invalid = "", None
        return None

    async def _refused(
        self, target: Target, action: Action, failure: LandfallError, memory: GroupState
    ) -> None:
        """Tell people what only they can put right, once."""
        if not isinstance(failure, RequestRejected) or memory.refused == str(failure):
            return
        memory.refused = str(failure)
        invalid = isinstance(action, Apply) and failure.invalid
        memory.invalid = target.resource.body["metadata"].get("generation", 0) if invalid else None
        await self._executor.announce(target, EmitEvent("Warning", "NotApplied", memory.refused))

    # --------------------------------------------------------------------------------------- report

    async def _report(
        self, target: Target, observed: Observed, desired: DesiredState, memory: GroupState
    ) -> float:
        """Write the status if there is something to tell, and tell what changed; returns how long that has to wait."""
        told, current = report(observed, desired), self._cache.groups.get(target.key)
        self._metrics.pictures[target.key] = _picture(
            self._metrics.pictures.get(target.key), observed, desired, told
        )
        if (
            current is None
            or current.uid != target.resource.uid
            or not worth_writing(current.status, told)
        ):
            return INTERVAL
        wait = memory.wrote + APART - time.monotonic()
        if wait > 0 and not _urgent(current.status, told):
            return wait
        try:
            await self._executor.write_status(
                target, difference(current.body.get("status", {}), _written(told))
            )
        except NotFound:
            return INTERVAL  # it has just gone
        memory.wrote = time.monotonic()
        for said in changes(current.status, told):
            await self._executor.announce(target, said)
        return INTERVAL

    def _forget(self, key: Key) -> None:
        self._memories.pop(key, None)
        self._executor.forget(key)
        self._metrics.forget(*key)


def _picture(
    before: GroupSnapshot | None, observed: Observed, desired: DesiredState, told: GroupStatus
) -> GroupSnapshot:
    """For the metrics; of an operator that has just started, a phase began with the last change of a condition."""
    driver = observed.driver(desired.rollout.active)
    since = (
        before.phase_since
        if before
        else max((c.last_transition_time for c in told.conditions), default=observed.now)
    )
    same = (before.status if before else observed.status).phase is told.phase
    return GroupSnapshot(
        namespace=observed.namespace,
        name=observed.name,
        status=told,
        phase_since=since if same else observed.now,
        answers=driver is not None and driver.fresh(observed.now) is not None,
        restarts=driver.restarts if driver else 0,
    )


def _remember(samples: deque[Sample], said: inputs.DriverReport | None, now: datetime) -> None:
    """Keep what a fresh answer measures."""
    sample = measured(said.report) if said else None
    if sample and (not samples or sample.time - samples[-1].time >= SAMPLED):
        samples.append(sample)
    while samples and now - samples[0].time > KEPT:
        samples.popleft()


def _urgent(before: GroupStatus, after: GroupStatus) -> bool:
    """Whether phase or conditions changed in more than their words."""

    def gist(status: GroupStatus) -> tuple[object, ...]:
        return (
            status.phase,
            status.reason,
            status.observed_generation,
            [(c.type, c.status, c.reason) for c in status.conditions],
        )

    return gist(before) != gist(after)


def _next(observed: Observed, desired: DesiredState, actions: tuple[Action, ...]) -> float:
    """In how many seconds to look again."""
    if any(isinstance(action, SaveRollout) for action in actions):
        return 0.0
    rollout = desired.rollout
    moving = (
        rollout.stage in MOVING
        and rollout.since is not None
        and observed.now - rollout.since < PATIENCE
    )
    return SHORTLY if moving else INTERVAL


def _written(status: GroupStatus) -> Json:
    return status.model_dump(mode="json", by_alias=True, exclude_none=True)
