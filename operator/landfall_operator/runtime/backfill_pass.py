"""One pass over a Backfill: observe, decide, store the status, act.

Every pass reads everything from the API server: the pods by name, and the running one's report. The
status is stored before anything is done, so an operator that restarts continues from it.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime

from landfall.api.backfill_report import BackfillReport, parse_report
from landfall.api.signatures import Addressee
from landfall_operator.api.revisions import parse_group_file
from landfall_operator.api.verbs import is_paused
from landfall_operator.core import actions, backfills, inputs
from landfall_operator.core.backfill_snapshot import (
    BackfillObservation,
    BackfillPod,
    MissingSpec,
    PromotionAnswer,
    landing_spec,
    observation,
    pod_of,
)
from landfall_operator.core.cache import Key, ObjectCache, Resource
from landfall_operator.core.parsing import report_of
from landfall_operator.objects import backfill_pods, names
from landfall_operator.objects.backfill_pods import Lander
from landfall_operator.objects.manifests import Owner
from landfall_operator.objects.overlay import Json
from landfall_operator.objects.pod_templates import OperatorContext
from landfall_operator.reporting.status_writes import bounded
from landfall_operator.runtime.action_executor import (
    ActionExecutor,
    BackfillTarget,
    token_of,
)
from landfall_operator.runtime.control_port import Bearer, Credentials
from landfall_operator.runtime.driver_client import DriverClient
from landfall_operator.runtime.kube_client import KubeClient, NotFound, RequestRejected
from landfall_operator.runtime.promotions import PromotionClient

log = logging.getLogger(__name__)

PASS_SECONDS = 90.0
"""A pass that takes longer is given up; the answer to a promotion may take half a minute."""
CONCURRENT_PASSES = 8


@dataclass
class BackfillPass:
    """Runs passes; the caller runs at most one per Backfill at a time.

    Attributes:
        kube: the API server; its calls block, and run in the threads of ``executor``.
        cache: the groups, and what they own.
        drivers: asks the pod that lands for its report.
        promotions: asks the driver of the group.
        executor: carries out actions, as for the groups.
        context: settings of the operator that pods depend on.
        clock: returns the present time.
        listed: the Backfills that the next passes begin with, as they were listed; nothing else is
            remembered between passes.
    """

    kube: KubeClient
    cache: ObjectCache
    drivers: DriverClient
    promotions: PromotionClient
    executor: ActionExecutor
    context: OperatorContext
    clock: Callable[[], datetime]
    listed: dict[Key, Json] = field(default_factory=dict)

    def take(self, body: Json) -> Key:
        """Begin the next pass over a Backfill as it was listed; returns its key."""
        key = body["metadata"]["namespace"], body["metadata"]["name"]
        self.listed[key] = body
        return key

    async def reconcile(self, key: Key) -> None:
        """Run one pass over a Backfill, as it was listed; no list serves for two passes.

        Raises:
            Conflict: another client changed it meanwhile.
            LandfallError: a request failed; the pass after the next list continues.
        """
        body = self.listed.pop(key, None)
        if body is None:
            return
        target = BackfillTarget(body)
        observed = await self._observe(body)
        decision = backfills.decide(observed)
        await self.executor.write_status(target, bounded(decision.status), if_unchanged=True)
        for action in decision.actions:
            await self._execute(target, observed, action)

    # -------------------------------------------------------------------------------------- observe

    async def _observe(self, body: Json) -> BackfillObservation:
        spec = body.get("spec", {})
        key = (body["metadata"]["namespace"], str(spec.get("group", "")))
        landing = landing_spec(
            name=key[1],
            revision=spec.get("revision"),
            resource=self.cache.groups.get(key),
            owned=self.cache.owned(key),
            image=self.context.image,
        )
        landing = self._with_backup(landing, key[0], spec.get("backup"))
        observed = observation(body, self.clock(), landing)
        if observed.spec is None:
            return observed
        pod = await self._pod(key[0], backfill_pods.object_name(observed.name))
        observed = replace(observed, pod=pod)
        if observed.deleted:
            name = backfill_pods.discard_name(observed.name)
            observed = replace(observed, discarding=await self._pod(key[0], name))
        elif pod and pod.address and not pod.is_over:
            observed = replace(observed, report=await self._report(pod.address))
        if backfills.wants_answer(observed):
            observed = replace(observed, answer=await self._ask(observed))
        return observed

    def _with_backup(
        self, landing: Lander | MissingSpec, namespace: str, backup: str | None
    ) -> Lander | MissingSpec:
        if isinstance(landing, MissingSpec) or not backup:
            return landing
        resource = self.cache.groups.get((namespace, backup))
        if resource is None or resource.spec is None:
            return MissingSpec("BackupNotFound", f"there is no valid ConsumerGroup {backup} here")
        return replace(landing, backup=resource.spec)

    async def _pod(self, namespace: str, name: str) -> BackfillPod | None:
        try:
            return pod_of(await self.executor.in_thread(self.kube.find, "Pod", namespace, name))
        except NotFound:
            return None

    async def _report(self, address: str) -> BackfillReport | None:
        body = await self.drivers.status(address)
        return parse_report(body) if body else None

    async def _ask(self, observed: BackfillObservation) -> PromotionAnswer:
        """Ask the driver that lands the group, if one runs."""
        spec = observed.spec
        assert spec
        key = (observed.namespace, spec.group)
        request = observed.status.promotion
        lane = observed.status.side_lane
        group = self.cache.groups.get(key)
        if group is None or request is None or lane is None:
            return PromotionAnswer("failed", f"there is no ConsumerGroup {spec.group} any more")
        if is_paused(group.annotations):
            return PromotionAnswer("failed", "reconciliation of the group is paused; it waits")
        revision = group.status.rollout.active or ""
        pod = inputs.reachable_pods(self.cache.owned(key)).get(revision)
        if pod is None:
            return PromotionAnswer("failed", "no driver of the group runs; it waits for one")
        credentials = await self._credentials(key, group, revision, pod)
        if credentials is None:
            return PromotionAnswer(
                "failed",
                "the group's driver is of an earlier release, and the operator has no token for it",
            )
        return await self.promotions.promote(pod["status"]["podIP"], credentials, lane, request.id)

    async def _credentials(
        self, key: Key, group: Resource, revision: str, pod: Json
    ) -> Credentials | None:
        """How the driver in a pod recognizes the operator; None if it cannot."""
        body = await self.drivers.status(pod["status"]["podIP"])
        answer = await asyncio.to_thread(report_of, body, self.clock()) if body else None
        contracts = {revision: answer.status.contract} if answer else {}
        owned = self.cache.owned(key)
        if uid := inputs.signed_pods(owned, {revision: pod}, contracts).get(revision):
            return Addressee(*key, group.uid, revision, uid)
        try:
            name = names.control_name(key[1])
            token = token_of(await self.executor.in_thread(self.kube.get, "Secret", key[0], name))
        except (NotFound, RequestRejected):
            return None
        return Bearer(token) if token else None

    # ---------------------------------------------------------------------------------------- apply

    async def _execute(
        self, target: BackfillTarget, observed: BackfillObservation, action: actions.BackfillAction
    ) -> None:
        match action:
            case actions.StartLanding(landing):
                await self._start(target.owner, observed, landing)
            case actions.StartDiscarding():
                await self._discard(target, observed)
            case actions.DeletePod(uid):
                await self._delete_pod(target.key[0], backfill_pods.object_name(observed.name), uid)
            case _:
                await self.executor.execute_shared(target, action)

    async def _start(self, owner: Owner, observed: BackfillObservation, landing: Lander) -> None:
        """Create the ConfigMap unless it exists, the NetworkPolicies, and the pod.

        A pod that is started again lands by the ConfigMap that exists, not by the group's present
        spec.

        Raises:
            Retry: the API server refuses the pod, as while the group's ServiceAccount is missing.
        """
        spec = observed.spec
        assert spec
        context = self._context((owner.namespace, spec.group))
        manifest = backfill_pods.config_map(owner, spec, landing, context)
        lander = _lander(await self.executor.created(manifest, owner))
        for policy in backfill_pods.network_policies(owner, spec, context):
            await self.executor.in_thread(self.kube.apply, policy)
        pod = backfill_pods.landing_pod(owner, spec, lander, context)
        await self.executor.created(pod, owner)

    def _context(self, key: Key) -> OperatorContext:
        """The settings for the group of a Backfill, which may be gone."""
        group = self.cache.groups.get(key)
        return self.context.of(group.labels if group else {})

    async def _discard(self, target: BackfillTarget, observed: BackfillObservation) -> None:
        """Create the pod that discards; if nothing can, let the Backfill go."""
        owner = target.owner
        spec = observed.spec
        assert spec
        name = backfill_pods.object_name(observed.name)
        try:
            pinned = await self.executor.in_thread(
                self.kube.find, "ConfigMap", owner.namespace, name
            )
        except NotFound:  # nothing was ever started
            await self.executor.execute_shared(target, actions.RemoveFinalizer())
            return
        key = (owner.namespace, spec.group)
        pod = backfill_pods.discarding_pod(owner, spec, _lander(pinned), self._context(key))
        has_group = key in self.cache.groups
        if not has_group and pod["spec"]["serviceAccountName"] == names.driver_name(spec.group):
            del pod["spec"]["serviceAccountName"]  # it went with the group
        try:
            await self.executor.created(pod, owner)
        except RequestRejected as error:
            # As in a namespace that is being deleted: what is in the store stays there.
            log.warning(
                "side lane not discarded: %s", error, extra={"backfill": "/".join(target.key)}
            )
            await self.executor.execute_shared(target, actions.RemoveFinalizer())

    async def _delete_pod(self, namespace: str, name: str, uid: str) -> None:
        try:
            await self.executor.in_thread(self.kube.delete, "Pod", namespace, name, uid=uid)
        except NotFound:
            return


def _lander(pinned: Json) -> Lander:
    """Return the lander that the ConfigMap of a backfill describes."""
    data = pinned["data"]
    annotations = pinned["metadata"]["annotations"]
    backup = data.get(backfill_pods.BACKUP_KEY)
    return Lander(
        parse_group_file(data[backfill_pods.GROUP_KEY]),
        annotations[backfill_pods.IMAGE_ANNOTATION],
        parse_group_file(backup) if backup else None,
    )
