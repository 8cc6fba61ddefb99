"""The actions for one group: the difference between its desired and its observed state. Pure.

``landfall_operator.core.desired_state`` decides where the group should go. The stage of its rollout
defines which drivers should exist and which command each of them gets:

    stage                        drivers (replicas)               command
    Settled Opening Watching     active 1 (Settled: 0 in sleep)   active: take over, if it stands by
    Trying                       active 1; a Backfill tries the next
    Warming                      active 1, target 1               active: take over, if it stands by
    Yielding                     active 1, target 1               active: hand over
    Draining                     active 0; the target comes later
    Suspending Suspended         active 0
    Deleting Deleted             every existing driver 0

Drivers of all other revisions are deleted. Once a responsive cluster has executed the actions,
observing it again yields no actions; a property test checks this against a model of a cluster.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain

from landfall.api.contract import DriverPhase
from landfall.api.spec import ConsumerGroup
from landfall_operator.api.revisions import digest_of, revision_of
from landfall_operator.api.status import Stage
from landfall_operator.api.verbs import Verb, annotation
from landfall_operator.core import actions, trials
from landfall_operator.core.actions import Action
from landfall_operator.core.desired_state import (
    DesiredState,
    anchor_for_drivers,
    is_accepted,
    position_for_drivers,
)
from landfall_operator.core.ownership import is_intact
from landfall_operator.core.parsing import driver_of
from landfall_operator.core.requests import RequestResult, answered_requests
from landfall_operator.core.snapshot import GroupObservation, RevisionDriver
from landfall_operator.objects import manifests, names
from landfall_operator.objects.manifests import LiveSettings, Owner
from landfall_operator.objects.overlay import Json
from landfall_operator.objects.pod_templates import (
    OperatorContext,
    account_of,
    driver_template,
)
from landfall_operator.objects.trials import trial_manifest

HISTORY = 10
"""ControllerRevisions that a group keeps."""

_LANDING = frozenset({Stage.SETTLED, Stage.TRYING, Stage.OPENING, Stage.WATCHING})
_BOTH_RUN = frozenset({Stage.WARMING, Stage.YIELDING})
_STOPPED = frozenset({Stage.DRAINING, Stage.SUSPENDING, Stage.SUSPENDED})
_ENDING = frozenset({Stage.DELETING, Stage.DELETED})
_WITHOUT_LANE = frozenset({DriverPhase.STANDBY, DriverPhase.YIELDED})


def decide(
    observed: GroupObservation,
    desired: DesiredState,
    context: OperatorContext,
    announcement: actions.EmitEvent | None = None,
) -> tuple[Action, ...]:
    """The actions to execute, in this order; empty when the observed state is the desired state.

    Args:
        observed: the group and everything that belongs to it.
        desired: where the group should go, from the same observation.
        context: settings of the operator that apply to all groups.
        announcement: the Event for the rollout's transition, if there is one.
    """
    if observed.paused and not observed.deleting:
        return ()
    context = context.of(observed.labels)
    return tuple(
        chain(
            _rollout_actions(observed, desired, announcement),
            _object_actions(observed, desired, context),
            _driver_commands(observed, desired),
        )
    )


def _rollout_actions(
    observed: GroupObservation, desired: DesiredState, announcement: actions.EmitEvent | None
) -> Iterator[Action]:
    before = observed.status
    # The intent comes first: if a later action fails or the operator dies, the next pass reads it
    # from the status and continues.
    answered = desired.answer and desired.answer.status(observed.now)
    if answered or desired.rollout != before.rollout or desired.plan != before.plan:
        last_request = answered or before.last_request
        answers = answered_requests(observed, desired.answer)
        yield actions.SaveRollout(desired.rollout, desired.plan, last_request, answers)
    if announcement:
        yield announcement
    if desired.answer:
        yield from _answered(desired.answer, desired.rollout.active)
    if is_accepted(observed, desired.ledger):
        yield actions.RemoveAnnotation(names.ACCEPT_LEDGER)
    drained = desired.rollout.stage is Stage.DELETED or _is_drained(observed, desired)
    if drained and observed.finalizer:
        yield actions.RemoveFinalizer()
    # The finalizer comes before the first object, so no driver ever runs without it.
    elif not drained and not observed.deleting and not observed.finalizer and desired.group:
        yield actions.AddFinalizer()


def _is_drained(observed: GroupObservation, desired: DesiredState) -> bool:
    """Return whether a suspended group has no driver left, so its deletion needs no operator."""
    stopped = all(not driver.pods and not driver.replicas for driver in observed.drivers.values())
    return desired.rollout.stage is Stage.SUSPENDED and stopped


def _answered(given: RequestResult, active: str | None) -> Iterator[Action]:
    """Announce the outcome of a request, and make room for the next one."""
    message = f"{given.verb}: {given.message}"
    if given.accepted:
        yield actions.EmitEvent("Normal", "Requested", message)
    else:
        yield actions.EmitEvent("Warning", "RequestRefused", message)
    if given.accepted and given.verb is Verb.RETRY and active:
        yield actions.SendTryAgain(active)
    if not given.value:
        yield actions.RemoveAnnotation(annotation(given.verb))


def _object_actions(
    observed: GroupObservation, desired: DesiredState, context: OperatorContext
) -> Iterator[Action]:
    wanted = wanted_drivers(observed, desired)
    if desired.group and not observed.deleting:
        # A driver needs its rights until its pod is gone, also when its successor has another
        # account.
        accounts = {driver.account for driver in observed.drivers.values() if driver.account}
        accounts |= {account_of(desired.group)}
        yield from _shared_objects(observed, desired.group, accounts, context)
        yield from _apply_if_changed(
            observed,
            manifests.live_settings(
                _owner(observed, context),
                desired.group,
                LiveSettings(
                    desired.scaling.desired,
                    position_for_drivers(observed, desired.ledger),
                    anchor_for_drivers(observed, desired.ledger),
                    observed.operator_keys,
                ),
            ),
        )
    created: list[Action] = []
    for revision, replicas in wanted.items():
        created += _driver_actions(
            observed=observed,
            desired=desired,
            context=context,
            revision=revision,
            replicas=replicas,
        )
    yield from created
    yield from _trial_actions(observed, desired, context)
    for revision, driver in sorted(observed.drivers.items()):
        if revision not in wanted and not driver.terminating:
            yield actions.Delete("Deployment", names.revision_name(observed.name, revision))
    yield from _unused_config_maps(observed, desired, created)
    yield from _expired_revisions(observed, desired)


def wanted_drivers(observed: GroupObservation, desired: DesiredState) -> Mapping[str, int]:
    """The desired replicas by revision; the driver of any other revision should not exist."""
    rollout = desired.rollout
    stage = desired.rollout.stage
    if stage in _ENDING:
        return dict.fromkeys(sorted(observed.drivers), 0)
    wanted = {}
    if rollout.active:
        wanted[rollout.active] = 0 if stage in _STOPPED or desired.sleeps else 1
    if rollout.target and stage in _BOTH_RUN:
        wanted[rollout.target] = 1
    return wanted


def _shared_objects(
    observed: GroupObservation,
    group: ConsumerGroup,
    accounts: Iterable[str],
    context: OperatorContext,
) -> Iterator[Action]:
    if observed.lacks_token:
        yield actions.EnsureToken(names.control_name(observed.name))
    annotations = group.spec.driver.service_account_annotations
    owner = _owner(observed, context)
    for manifest in manifests.shared_objects(owner, accounts, context, annotations):
        yield from _apply_if_changed(observed, manifest)


def _driver_actions(
    observed: GroupObservation,
    desired: DesiredState,
    context: OperatorContext,
    revision: str,
    replicas: int,
) -> Iterator[Action]:
    """Create, change or scale the driver of one revision."""
    driver = observed.driver(revision)
    group = _group_of(observed, desired, revision)
    if driver and driver.terminating:
        return  # A new Deployment of this name can be created only once the old one is gone.
    if group is None or (driver is None and replicas == 0) or observed.deleting:
        if driver and driver.replicas != replicas:
            yield actions.ScaleDriver(names.revision_name(observed.name, revision), replicas)
        return
    owner = _owner(observed, context)
    image = _image(observed, driver, group, context)
    # The ControllerRevision comes before its driver, so a rollback never lacks it.
    yield from _record(owner, observed, group, image)
    # Most passes need no ConfigMap, and its documents are most of the work of a pass.
    config_map = partial(
        manifests.config_map,
        owner=owner,
        group=group,
        image=image,
        executors=desired.scaling.desired,
        context=context,
    )
    if driver is None or _is_foreign(driver, group):
        config = config_map()
        # The ConfigMap comes before the Deployment, because the pod mounts it when it starts.
        yield from _apply_if_changed(observed, config)
        template = driver_template(group, image, config["metadata"]["name"], context)
        yield actions.Apply(manifests.deployment(owner, group, replicas, template))
        return
    if driver.config and f"ConfigMap/{driver.config}" not in observed.hashes:
        yield actions.Apply(manifests.restored(config_map(), driver.config))
    template = driver_template(group, image, driver.config, context)
    yield from _apply_if_drifted(observed, manifests.deployment(owner, group, replicas, template))
    if driver.replicas != replicas:
        yield actions.ScaleDriver(names.revision_name(observed.name, revision), replicas)


def _record(
    owner: Owner, observed: GroupObservation, group: ConsumerGroup, image: str
) -> Iterator[Action]:
    if not observed.recorded(digest_of(group)):
        number = max((record.number for record in observed.records), default=0) + 1
        record = manifests.controller_revision(owner, group, image, number)
        yield actions.CreateRevision(record)


def _trial_actions(
    observed: GroupObservation, desired: DesiredState, context: OperatorContext
) -> Iterator[Action]:
    """Create the Backfill of a trial, and delete trials that are no longer needed."""
    trial = trials.present_trial(desired.rollout)
    group = desired.group
    if observed.backfills is None:
        return  # What is not known yet may exist already.
    if trial and group and trial.backfill not in observed.backfills:
        owner = _owner(observed, context)
        # The Backfill reads the spec from there.
        yield from _record(owner, observed, group, _image(observed, None, group, context))
        executors = desired.scaling.desired
        name = trial.backfill
        yield actions.Apply(
            trial_manifest(
                owner=owner, group=group, name=name, revision=trial.revision, executors=executors
            )
        )
    kept = trials.kept_backfill(desired.rollout)
    for name, backfill in sorted(observed.backfills.items()):
        if name != kept and not backfill.terminating:
            yield actions.Delete("Backfill", name)


def _is_foreign(driver: RevisionDriver, group: ConsumerGroup) -> bool:
    """Return whether a Deployment was not made for this group and this spec, so that it is applied.

    One whose revision has another name is of the former scheme: it stays as it is.
    """
    same = driver.owned and driver.digest == digest_of(group)
    return driver.revision == revision_of(group) and not same


def _group_of(
    observed: GroupObservation, desired: DesiredState, revision: str
) -> ConsumerGroup | None:
    """A revision's spec: the effective one if it has this revision, else the recorded one."""
    if desired.group and observed.revision_of(desired.group) == revision:
        return desired.group
    record = observed.record(revision)
    return record.group if record else None


def _image(
    observed: GroupObservation,
    driver: RevisionDriver | None,
    group: ConsumerGroup,
    context: OperatorContext,
) -> str:
    """The driver's image: the spec's, else the one it was started with, else the default.

    An upgraded operator has another default. It must not restart drivers that run already. The
    record comes before the Deployment, whose image a user may have changed.
    """
    if group.spec.image:
        return group.spec.image
    record = observed.recorded(digest_of(group))
    return record.image if record else driver.image if driver else context.image


def _unused_config_maps(
    observed: GroupObservation, desired: DesiredState, created: Collection[Action]
) -> Iterator[Action]:
    """Deletes the ConfigMaps that no Deployment mounts; ``created`` are this pass's own actions."""
    if desired.rollout.stage in _ENDING:
        return  # The garbage collector deletes them with the group.
    needed = {
        names.driver_name(observed.name),
        *(driver.config for driver in observed.drivers.values()),
        *(
            driver_of(action.manifest, (), None).config
            for action in created
            if isinstance(action, actions.Apply) and action.manifest["kind"] == "Deployment"
        ),
    }
    prefix = "ConfigMap/"
    for key in sorted(key for key in observed.hashes if key.startswith(prefix)):
        if (name := key.removeprefix(prefix)) not in needed:
            yield actions.Delete("ConfigMap", name)


def _expired_revisions(observed: GroupObservation, desired: DesiredState) -> Iterator[Action]:
    """Deletes the oldest ControllerRevisions beyond ``HISTORY``, but none that may run again."""
    rollout = desired.rollout
    trial = trials.present_trial(rollout)
    tried = trial.revision if trial else None
    roles = (rollout.active, rollout.target, rollout.previous, tried)
    needed = [record for role in roles if (record := observed.record(role))]
    oldest = sorted(observed.records, key=lambda record: record.number)[
        : max(0, len(observed.records) - HISTORY)
    ]
    for record in oldest:
        if record not in needed:
            yield actions.Delete(
                "ControllerRevision", names.record_name(observed.name, record.digest)
            )


def _driver_commands(observed: GroupObservation, desired: DesiredState) -> Iterator[Action]:
    """The commands to the active driver, repeated until the driver's status shows their effect."""
    rollout = desired.rollout
    active = observed.driver(desired.rollout.active)
    status = active.fresh_status(observed.now) if active else None
    if active is None or status is None or active.terminating or desired.sleeps:
        return
    if rollout.stage is Stage.YIELDING and rollout.target and active.lands(observed.now):
        yield actions.SendHandOver(active.revision, rollout.target)
    elif rollout.stage in {*_LANDING, Stage.WARMING} and status.phase in _WITHOUT_LANE:
        yield actions.SendTakeOver(active.revision)
    wanted = status.workers.wanted if status.workers else None
    if (
        rollout.stage in _LANDING
        and wanted is not None
        and wanted != desired.scaling.desired
        and desired.group
    ):
        yield actions.SendScale(active.revision, desired.scaling.desired)


def _apply_if_changed(observed: GroupObservation, manifest: Json) -> Iterator[Action]:
    name = names.reference(manifest)
    wanted = names.hash_of(manifest)
    if observed.hashes.get(name) != wanted or not is_intact(observed.fields.get(name), manifest):
        yield actions.Apply(manifest)


def _apply_if_drifted(observed: GroupObservation, manifest: Json) -> Iterator[Action]:
    """Restore a Deployment that was changed by hand; one of another release stays as it is."""
    name = names.reference(manifest)
    wanted = names.hash_of(manifest)
    if observed.hashes.get(name) == wanted and not is_intact(observed.fields.get(name), manifest):
        yield actions.Apply(manifest)


def _owner(observed: GroupObservation, context: OperatorContext) -> Owner:
    return Owner(observed.name, observed.namespace, observed.uid, labels=context.labels)
