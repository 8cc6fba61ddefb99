"""One pass over a group: observe, decide, apply, report, in this order (docs/adr/0006).

Between passes the reconciler remembers what a group's drivers answered and when it wrote the
status. Everything else is in the cache or in the status, so an operator that restarts continues
where the previous one stopped.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from landfall.errors import LandfallError
from landfall_operator.api.status import GroupStatus
from landfall_operator.api.validation import secrets_over_plain_http
from landfall_operator.api.verbs import is_paused
from landfall_operator.core import inputs
from landfall_operator.core.actions import (
    Action,
    Apply,
    EmitEvent,
    RemoveAnnotation,
    SaveRollout,
)
from landfall_operator.core.cache import Key, ObjectCache, Resource
from landfall_operator.core.claims import Claim, Claims, claimed_by
from landfall_operator.core.decide import decide
from landfall_operator.core.desired_state import IN_TRANSITION, DesiredState, desired_state
from landfall_operator.core.parsing import contract_mismatch, report_of
from landfall_operator.core.rollout import RolloutEvent, is_changing
from landfall_operator.core.samples import SampleHistory
from landfall_operator.core.snapshot import (
    ExecutorPods,
    GroupObservation,
    PodFailure,
    sample_of,
)
from landfall_operator.objects.names import OPERATOR_ANNOTATION
from landfall_operator.objects.overlay import Json
from landfall_operator.objects.pod_templates import OperatorContext, account_of
from landfall_operator.reporting.event_texts import condition_events, rollout_event
from landfall_operator.reporting.group_status import report
from landfall_operator.reporting.publishers import publisher_events
from landfall_operator.reporting.schedules import run_events
from landfall_operator.reporting.status_writes import write_interval
from landfall_operator.runtime.action_executor import (
    ActionExecutor,
    NameTaken,
    Target,
)
from landfall_operator.runtime.driver_client import DriverClient
from landfall_operator.runtime.group_metrics import group_snapshot
from landfall_operator.runtime.kube_client import Conflict, NotFound, RequestRejected
from landfall_operator.runtime.metrics import Metrics

log = logging.getLogger(__name__)

INTERVAL = 15.0
"""Seconds between two passes while nothing happens: a third of ``FRESH``."""
TRANSITION_INTERVAL = 3.0
"""Seconds between two passes while drivers start, stop or hand over."""
TRANSITION_TIME = timedelta(minutes=2)
"""How long a stage may last before ``INTERVAL`` applies to it again."""
MAX_TRIES = 3
"""How often a pass tries again with a fresh copy of an object that another client changed."""
RETRY_SECONDS = 0.1
"""The wait before the first such try; it doubles with each one."""
TOKEN_INTERVAL = timedelta(minutes=5)
"""Time between two checks of the Secret with the control token while a pod does not run."""
EXECUTORS_INTERVAL = timedelta(minutes=1)
"""Time between two looks at the executors' pods of a group while executors are missing."""
MOUNTS_INTERVAL = timedelta(seconds=10)
"""Time between two looks at the Events of a pod that does not start."""
FIRST_POLLS = 3
"""How often the first pass after a start polls a running driver that does not answer."""
SHARED_ACCOUNT = "default"
"""The ServiceAccount of every pod that names none."""
SHARED_ACCOUNT_REASON = "SharedServiceAccount"
PLAIN_HTTP_REASON = "SecretOverPlainHttp"
_CHANGES = frozenset({RolloutEvent.CHANGE_WARM, RolloutEvent.CHANGE_DRAIN, RolloutEvent.CHANGE_TRY})
_SHARED_ACCOUNT_MESSAGE = (
    "spec.driver.serviceAccountName is default: every pod of the namespace that names no account "
    "may create and delete pods, as the driver may; give the driver an account of its own"
)


@dataclass(slots=True)
class GroupState:
    """The reconciler's memory of a group between passes.

    Attributes:
        reports: the drivers' last answers, by revision.
        samples: measurements of the last half hour.
        status_written: when the status was last written.
        rejection: what the API server rejected in the last pass; else empty.
        name_taken: why an object of the group cannot be created, because it belongs to another
            owner.
        refused_for: namespace and name of the group that has what this one wants; else empty.
        invalid: the metadata.generation whose objects the API server finds invalid, if any.
        pod_failures: the last seen failure of each driver's pod with its restarts, by revision.
        token_seen: when the control token was last seen while a driver's pod that needs it did not
            run.
        decided: whether a pass has been completed since the operator started.
        executor_pods: the executors' pods when they were last looked at.
        executors_seen: when that was; None while no executor is missing.
        mount_failures: why volumes of drivers' pods cannot be mounted, by the pods' uids.
        mounts_seen: when that was last looked at; None while no pod waits.
        warnings: the reasons and messages of the Events about what a user should change.
    """

    reports: dict[str, inputs.DriverReport] = field(default_factory=dict)
    samples: SampleHistory = field(default_factory=SampleHistory)
    status_written: datetime | None = None
    rejection: str = ""
    name_taken: str = ""
    refused_for: str = ""
    invalid: int | None = None
    pod_failures: dict[str, object] = field(default_factory=dict)
    token_seen: datetime | None = None
    decided: bool = False
    executor_pods: ExecutorPods | None = None
    executors_seen: datetime | None = None
    mount_failures: dict[str, PodFailure] = field(default_factory=dict)
    mounts_seen: datetime | None = None
    warnings: set[tuple[str, str]] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class ReconcilerSettings:
    """Settings that apply to every pass.

    Attributes:
        context: settings of the operator that its objects depend on.
        clock: returns the present time.
        interval: seconds between two passes while nothing happens.
        keys: returns the public keys by which drivers recognize the operator.
        claims: which of the groups that it sees this operator manages.
        max_rollouts: how many groups may change their revision at once; 0 for any number.
    """

    context: OperatorContext
    clock: Callable[[], datetime]
    interval: float = INTERVAL
    keys: Callable[[], tuple[bytes, ...]] = tuple
    claims: Claims = field(default_factory=Claims)
    max_rollouts: int = 0


class Reconciler:
    """Reconciles groups; the caller runs at most one pass per group at a time."""

    def __init__(
        self,
        cache: ObjectCache,
        drivers: DriverClient,
        executor: ActionExecutor,
        metrics: Metrics,
        settings: ReconcilerSettings,
    ) -> None:
        """The reconciler remembers no group yet."""
        self._cache = cache
        self._drivers = drivers
        self._executor = executor
        self._metrics = metrics
        self._settings = settings
        self._states: dict[Key, GroupState] = {}
        # Groups whose change was decided and perhaps not stored yet: passes overlap.
        self._beginning: set[Key] = set()

    async def reconcile(self, key: Key) -> float | None:
        """Run one pass; returns the seconds until the next one.

        None if the group is gone, or another operator manages it: only a change of it is news then.

        An object that another client changes at the same time is read again, and the pass decides
        again. The watch would bring it too, but perhaps much later.

        Raises:
            Conflict: another client kept changing an object.
            LandfallError: an action failed.
        """
        for failures in range(MAX_TRIES - 1):
            try:
                return await self._try(key)
            except Conflict:
                await asyncio.sleep(RETRY_SECONDS * 2**failures)
        return await self._try(key)

    async def _try(self, key: Key) -> float | None:
        resource = self._cache.groups.get(key)
        if resource is None:
            self._forget(key)
            return None
        resource = await self._claimed(key, resource)
        if resource is None:
            return None
        state = self._states.setdefault(key, GroupState())
        target = await self._target(key, resource, state)
        observed = await self._observe(target, state)
        await self._announce_warnings(target, state)
        # Nothing is awaited between the count and this decision, so no other group takes the room.
        observed = replace(observed, rollout_limit=self._rollout_limit(key))
        desired = desired_state(observed)
        if desired.event in _CHANGES:
            self._beginning.add(key)
        announcement = rollout_event(observed, desired)
        actions = decide(observed, desired, self._settings.context, announcement)
        state.decided = True
        failure = await self._apply(target, actions, state)
        # The status is written even after a failure, so that it stays current while an action
        # keeps failing.
        wait = await self._report(target, observed, desired, state)
        if failure:
            raise failure
        return min(wait, self._settings.interval, _next_interval(observed, desired, actions))

    # ---------------------------------------------------------------------------------------- claim

    async def _claimed(self, key: Key, resource: Resource) -> Resource | None:
        """Return the group if this operator manages it; the claim is written before anything else.

        Raises:
            Conflict: the group changed meanwhile, perhaps because another operator claimed it.
        """
        claims = self._settings.claims
        target = Target(key, resource, {})
        claim = claims.on(resource.labels, resource.annotations)
        if claim is Claim.MANAGE:
            self._metrics.foreign_groups.pop(key, None)
            if not claims.must_be_written(resource.annotations):
                return resource
            return await self._write_claim(target, claims.operator)
        if claim is Claim.RELEASE:
            log.info("group released: its labels are not those of the selector", extra=_fields(key))
            await self._write_claim(target, None)
        self._leave(key, claimed_by(resource.annotations) if claim is Claim.LEAVE else "")
        return None

    async def _write_claim(self, target: Target, operator: str | None) -> Resource | None:
        """The group, with or without this operator's name; None if it was deleted meanwhile."""
        try:
            return await self._executor.claim(target, operator)
        except NotFound:
            return None
        except Conflict:
            await self._executor.refresh(target, RemoveAnnotation(OPERATOR_ANNOTATION))
            raise

    def _leave(self, key: Key, other: str) -> None:
        """Leave a group alone that another operator manages, or none."""
        if other and self._metrics.foreign_groups.get(key) != other:
            log.warning(
                "left alone: operator %s manages it; if that is gone, remove annotation %s",
                other,
                OPERATOR_ANNOTATION,
                extra=_fields(key),
            )
        self._forget(key)
        if other:
            self._metrics.foreign_groups[key] = other

    def _rollout_limit(self, key: Key) -> int:
        """How many other groups change their revision, if the group waits for them; else 0.

        They are groups of the same namespace, if that has its share of the places.
        """
        self._beginning.discard(key)
        limit = self._settings.max_rollouts
        if not limit:
            return 0
        groups = self._cache.groups.items()
        changing = {other for other, group in groups if self._continues(group)}
        others = (changing | self._beginning) - {key}
        if len(others) >= limit:
            return limit
        is_shared = any(other[0] != key[0] for other in self._cache.groups)
        share = share_of_places(limit, is_shared=is_shared)
        return share if sum(other[0] == key[0] for other in others) >= share else 0

    def _continues(self, group: Resource) -> bool:
        """Return whether this operator is changing a group's revision; false for a paused group."""
        return (
            is_changing(group.status.rollout)
            and not is_paused(group.annotations)
            and self._settings.claims.on(group.labels, group.annotations) is Claim.MANAGE
        )

    # -------------------------------------------------------------------------------------- observe

    async def _target(self, key: Key, resource: Resource, state: GroupState) -> Target:
        """The group with its drivers, as far as they can be reached."""
        owned = self._cache.owned(key)
        pods = inputs.reachable_pods(owned)
        await self._poll_drivers(pods, state)
        contracts = {
            revision: answer.report.status.contract
            for revision, answer in state.reports.items()
            if revision in pods and answer.process_id == inputs.process_id(pods[revision])
        }
        addresses = {revision: pod["status"]["podIP"] for revision, pod in pods.items()}
        return Target(key, resource, addresses, inputs.signed_pods(owned, pods, contracts))

    async def _poll_drivers(self, pods: Mapping[str, Json], state: GroupState) -> None:
        """Ask all drivers of a group for their status."""
        # Without an answer, a driver that lands looks like one that does not. After a start of the
        # operator there is no earlier answer to fall back on, so the first pass polls repeatedly.
        polls = 1 if state.decided else FIRST_POLLS
        for attempt in range(polls):
            pending = [rev for rev in pods if attempt == 0 or rev not in state.reports]
            if attempt and pending:
                await asyncio.sleep(1)
            await asyncio.gather(*(self._poll_driver(rev, pods[rev], state) for rev in pending))

    async def _poll_driver(self, revision: str, pod: Json, state: GroupState) -> None:
        body = await self._drivers.status(pod["status"]["podIP"])
        # In a thread: what a pod answers must not keep the passes over other groups waiting.
        received = self._settings.clock()
        answer = await asyncio.to_thread(report_of, body, received) if body else None
        # A pod's address may already belong to another pod: the answer must name the revision.
        if answer and answer.status.revision in {"", revision}:
            former = state.reports.get(revision)
            process_id = inputs.process_id(pod)
            same = former.report if former and former.process_id == process_id else None
            state.reports[revision] = inputs.DriverReport(process_id, answer.after(same))

    async def _observe(self, target: Target, state: GroupState) -> GroupObservation:
        now = self._settings.clock()
        owned = self._cache.owned(target.key)
        existing = inputs.revisions(owned)
        state.reports = {rev: answer for rev, answer in state.reports.items() if rev in existing}
        active = target.resource.status.rollout.active
        answer = state.reports.get(active) if active else None
        if answer and (sample := sample_of(answer.report)):
            state.samples.add(sample)
        state.samples.expire(now)
        lacks_token = await self._lacks_token(target, state)
        spec_error = self._spec_error(target.key, target.resource, state)
        await self._see_executors(target, state, answer)
        await self._see_mounts(target, state)
        gathered = inputs.Inputs(
            now=now,
            reports=state.reports,
            samples=tuple(state.samples),
            spec_error=spec_error,
            executor_pods=state.executor_pods,
            trials_listed=not self._cache.trials_listed.isdisjoint({None, target.key[0]}),
            promotes=target.key in self._cache.promoting,
            operator_keys=self._settings.keys(),
            lacks_token=lacks_token,
            name_taken=state.name_taken,
            mount_failures=state.mount_failures,
            default_image=self._settings.context.image,
        )
        observed = inputs.observe(target.key, target.resource, owned, gathered)
        self._count_pod_failures(target.key, observed, state)
        return observed

    async def _see_executors(
        self, target: Target, state: GroupState, answer: inputs.DriverReport | None
    ) -> None:
        """Look at the executors' pods if some are missing, but not in every pass."""
        now = self._settings.clock()
        workers = answer.report.status.workers if answer else None
        if workers is None or workers.registered >= workers.wanted:
            state.executor_pods = state.executors_seen = None
            return
        # Most are starting. A look is worth it if they have been missing for a while, perhaps
        # since before this operator started.
        executors = target.resource.status.executors
        since = executors.missing_since if executors else None
        if now - (state.executors_seen or since or now) >= EXECUTORS_INTERVAL:
            state.executors_seen = now
            state.executor_pods = await self._executor.executor_pods(target)

    async def _see_mounts(self, target: Target, state: GroupState) -> None:
        """Look why drivers' pods do not start that have not started for a while."""
        now = self._settings.clock()
        waiting = inputs.waiting_pods(self._cache.owned(target.key))
        state.mount_failures = {
            uid: failure for uid, failure in state.mount_failures.items() if uid in waiting
        }
        if not waiting:
            state.mounts_seen = None
            return
        # Most pods start within seconds, so the first look waits, too.
        state.mounts_seen = state.mounts_seen or now
        if now - state.mounts_seen < MOUNTS_INTERVAL:
            return
        state.mounts_seen = now
        found = {uid: await self._executor.mount_failure(target, waiting[uid]) for uid in waiting}
        state.mount_failures = {uid: failure for uid, failure in found.items() if failure}

    async def _announce_warnings(self, target: Target, state: GroupState) -> None:
        """Post one Event about each driver of an unknown contract, and about what is not safe."""
        mismatches = {contract_mismatch(entry.report.status) for entry in state.reports.values()}
        found = {("ContractMismatch", message) for message in mismatches - {""}}
        spec = target.resource.spec
        if spec and account_of(spec) == SHARED_ACCOUNT:
            found.add((SHARED_ACCOUNT_REASON, _SHARED_ACCOUNT_MESSAGE))
        if spec and (insecure := secrets_over_plain_http(spec)):
            found.add((PLAIN_HTTP_REASON, insecure))
        for reason, message in sorted(found - state.warnings):
            await self._executor.emit_event(target, EmitEvent("Warning", reason, message))
        state.warnings = found

    async def _lacks_token(self, target: Target, state: GroupState) -> bool:
        """Return whether a driver cannot start without the Secret with the control token.

        Only a driver of an earlier release needs it. One that runs has mounted the Secret, so the
        API server is not asked while all pods run, and then at once if one of them does not.
        """
        now = self._settings.clock()
        owned = self._cache.owned(target.key)
        uid = target.resource.uid
        if not inputs.needs_token(owned, uid) or inputs.drivers_run(owned, uid):
            state.token_seen = None
            return False
        if state.token_seen is None or now - state.token_seen > TOKEN_INTERVAL:
            state.token_seen = now if await self._executor.has_token(target) else None
        return state.token_seen is None

    def _spec_error(self, key: Key, resource: Resource, state: GroupState) -> str:
        """Return why a spec that is valid by itself cannot be applied; else empty."""
        if state.rejection and state.invalid == resource.generation:
            return state.rejection
        found = self._cache.refusal(key)
        if found and state.refused_for != found.other:
            log.warning(
                "%s", found.message, extra={"group": "/".join(key), "other_group": found.other}
            )
        state.refused_for = found.other if found else ""
        return found.message if found else ""

    def _count_pod_failures(self, key: Key, observed: GroupObservation, state: GroupState) -> None:
        """Count each failure of a driver's pod once per restart."""
        seen = {
            revision: (driver.pod_failure.reason, driver.restarts)
            for revision, driver in observed.drivers.items()
            if driver.pod_failure
        }
        for revision, (reason, restarts) in seen.items():
            if state.pod_failures.get(revision) != (reason, restarts):
                self._metrics.driver_failures.labels(*key, str(reason)).inc()
        state.pod_failures = dict(seen)

    # ---------------------------------------------------------------------------------------- apply

    async def _apply(
        self, target: Target, actions: tuple[Action, ...], state: GroupState
    ) -> LandfallError | None:
        """Execute the actions in order, up to the first that fails; returns its error.

        Raises:
            Conflict: the rollout could not be saved; no other action was executed.
        """
        for action in actions:
            try:
                await self._executor.execute(target, action)
            except LandfallError as failure:
                if isinstance(failure, Conflict):
                    await self._executor.refresh(target, action)
                    # The decision was made from an outdated resource, so nothing may follow from
                    # it, not even a status.
                    if isinstance(action, SaveRollout):
                        raise
                state.name_taken = str(failure) if isinstance(failure, NameTaken) else ""
                await self._announce_rejection(target, action, failure, state)
                return failure
            self._metrics.actions.labels(type(action).__name__).inc()
        state.rejection = ""
        state.invalid = None
        state.name_taken = ""
        return None

    async def _announce_rejection(
        self, target: Target, action: Action, failure: LandfallError, state: GroupState
    ) -> None:
        """Post one Event about a request that the API server rejects: a user must act."""
        if not isinstance(failure, RequestRejected) or state.rejection == str(failure):
            return
        state.rejection = str(failure)
        invalid = isinstance(action, Apply) and failure.invalid
        state.invalid = target.resource.generation if invalid else None
        await self._executor.emit_event(target, EmitEvent("Warning", "NotApplied", state.rejection))

    # --------------------------------------------------------------------------------------- report

    async def _report(
        self, target: Target, observed: GroupObservation, desired: DesiredState, state: GroupState
    ) -> float:
        """Write the status if it has changed enough, and post Events for changed conditions.

        Returns the seconds until a write that came too soon after the last one is due.
        """
        status = report(observed, desired)
        current = self._cache.groups.get(target.key)
        self._metrics.group_snapshots[target.key] = group_snapshot(
            self._metrics.group_snapshots.get(target.key), observed, desired, status
        )
        if current is None or current.uid != target.resource.uid:
            return INTERVAL
        wait = self._write_wait(current.status, status, state)
        if wait is None or wait > 0:
            return wait or INTERVAL
        try:
            await self._executor.write_status(target, status)
        except NotFound:
            return INTERVAL  # The group was deleted meanwhile.
        state.status_written = self._settings.clock()
        # The Events come after the write: before it, a write that keeps failing would post them
        # again in every pass.
        before = current.status
        changes = (
            *condition_events(before, status),
            *publisher_events(before, status),
            *run_events(before, status, observed.now),
        )
        for event in changes:
            await self._executor.emit_event(target, event)
        return INTERVAL

    def _write_wait(
        self, stored: GroupStatus, status: GroupStatus, state: GroupState
    ) -> float | None:
        """Seconds until the status has to be written; None if it has nothing new."""
        interval = write_interval(stored, status)
        if interval is None or state.status_written is None:
            return None if interval is None else 0.0
        # An operator with short intervals, as in tests, also writes more often.
        share = self._settings.interval / INTERVAL
        since = self._settings.clock() - state.status_written
        return (interval * share - since).total_seconds()

    def _forget(self, key: Key) -> None:
        self._states.pop(key, None)
        self._beginning.discard(key)
        self._executor.forget(key)
        self._metrics.forget(*key)


def _next_interval(
    observed: GroupObservation, desired: DesiredState, actions: tuple[Action, ...]
) -> float:
    """Seconds until the next pass; 0 after a transition, which may make more actions possible."""
    if any(isinstance(action, SaveRollout) for action in actions):
        return 0.0
    rollout = desired.rollout
    schedule = desired.schedule
    idle = desired.idle
    moving = (
        rollout.stage in IN_TRANSITION
        and rollout.since is not None
        and observed.now - rollout.since < TRANSITION_TIME
    )
    wait = TRANSITION_INTERVAL if moving else INTERVAL
    if schedule and schedule.following:
        # A driver that sleeps is started when its range is due, not a pass later.
        wait = min(wait, (schedule.following.due - observed.now).total_seconds())
    if idle and idle.sleeps and idle.next_look:
        wait = min(wait, (idle.next_look - observed.now).total_seconds())
    return wait


def share_of_places(limit: int, *, is_shared: bool) -> int:
    """How many groups of one namespace may change their revision at once.

    All but one, if there are several namespaces and places: a rollout that is held up keeps its
    place, and in the namespace of a hostile tenant it is meant to.
    """
    return limit - 1 if is_shared and limit > 1 else limit


def _fields(key: Key) -> dict[str, str]:
    """The fields that every log event about a group has."""
    return {"group": "/".join(key)}
