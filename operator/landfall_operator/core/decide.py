"""What to do now about one group: the difference between what should be there and what is. Pure.

``desired_state`` says where the group is to go; its stage says which drivers there should be, and
what they are told:

    stage                        drivers (pods wanted)            told
    Settled Opening Watching     active 1                         active: open, if it stands by
    Warming                      active 1, target 1               active: open, if it stands by
    Yielding                     active 1, target 1               active: yield
    Draining                     active 0, target none yet
    Suspending Suspended         active 0
    Deleting Deleted             whatever there is, 0

Other drivers go. Carrying out the actions on a cluster that answers leads to an observation without
any: a property test holds this against a model of a cluster.
"""

from collections.abc import Iterator, Mapping
from itertools import chain

from landfall.api.contract import Phase
from landfall.api.spec import ConsumerGroup
from landfall_operator.api.revisions import digest_of, revision_of
from landfall_operator.api.status import Stage
from landfall_operator.core.actions import (
    Action,
    AddFinalizer,
    Apply,
    CreateRevision,
    Delete,
    EmitEvent,
    EnsureToken,
    RemoveFinalizer,
    SaveRollout,
    ScaleDriver,
    SendHandOver,
    SendScale,
    SendTakeOver,
)
from landfall_operator.core.desired_state import DesiredState, desired_state
from landfall_operator.core.snapshot import Driver, Observed
from landfall_operator.objects import manifests, names
from landfall_operator.objects.manifests import Owner
from landfall_operator.objects.overlay import Json
from landfall_operator.objects.pod_templates import OperatorContext, account_of
from landfall_operator.reporting.event_texts import announcement

HISTORY = 10
"""Specs that are remembered."""

_LANDING = frozenset({Stage.SETTLED, Stage.OPENING, Stage.WATCHING})
_BOTH = frozenset({Stage.WARMING, Stage.YIELDING})
_STOPPED = frozenset({Stage.DRAINING, Stage.SUSPENDING, Stage.SUSPENDED})
_ENDING = frozenset({Stage.DELETING, Stage.DELETED})
_WAITING = frozenset({Phase.STANDBY, Phase.YIELDED})


def decide(observed: Observed, context: OperatorContext) -> tuple[Action, ...]:
    """The actions to carry out, in this order; none when all is as it should be."""
    desired = desired_state(observed)
    return tuple(
        chain(
            _intent(observed, desired),
            _objects(observed, desired, context),
            _words(observed, desired),
        )
    )


def _intent(observed: Observed, desired: DesiredState) -> Iterator[Action]:
    before = observed.status
    if desired.rollout != before.rollout or desired.plan != before.plan:
        yield SaveRollout(desired.rollout, desired.plan)
    if desired.event:
        yield EmitEvent(*announcement(observed, desired))
    if desired.rollout.stage is Stage.DELETED and observed.finalizer:
        yield RemoveFinalizer()
    elif not observed.deleting and not observed.finalizer and desired.group:
        yield AddFinalizer()


def _objects(
    observed: Observed, desired: DesiredState, context: OperatorContext
) -> Iterator[Action]:
    wanted = wanted_drivers(observed, desired)
    if desired.group and not observed.deleting:
        yield from _shared(observed, account_of(desired.group), context)
    for revision, replicas in wanted.items():
        yield from _driver(observed, desired, context, revision, replicas)
    for revision, driver in sorted(observed.drivers.items()):
        if revision not in wanted and not driver.terminating:
            yield Delete("Deployment", names.revision_name(observed.name, revision))
    yield from _abandoned(observed, desired)
    yield from _forgotten(observed, desired)


def wanted_drivers(observed: Observed, desired: DesiredState) -> Mapping[str, int]:
    """Pods there should be by revision; what is not named should not be there."""
    rollout, stage = desired.rollout, desired.rollout.stage
    if stage in _ENDING:
        return dict.fromkeys(sorted(observed.drivers), 0)
    wanted = {}
    if rollout.active:
        wanted[rollout.active] = 0 if stage in _STOPPED else 1
    if rollout.target and stage in _BOTH:
        wanted[rollout.target] = 1
    return wanted


def _shared(observed: Observed, account: str, context: OperatorContext) -> Iterator[Action]:
    secret = names.control_name(observed.name)
    if f"Secret/{secret}" not in observed.hashes:
        yield EnsureToken(secret)
    for manifest in manifests.shared(_owner(observed), account, context):
        yield from _applied(observed, manifest)


def _driver(
    observed: Observed,
    desired: DesiredState,
    context: OperatorContext,
    revision: str,
    replicas: int,
) -> Iterator[Action]:
    """Bring one revision's driver to where it should be."""
    driver, group = observed.driver(revision), _group_of(observed, desired, revision)
    if driver and driver.terminating:
        return  # its name is free when it is gone
    if group is None or (driver is None and replicas == 0) or observed.deleting:
        if driver and driver.replicas != replicas:
            yield ScaleDriver(names.revision_name(observed.name, revision), replicas)
        return
    owner, image = _owner(observed), _image(observed, driver, group, context)
    if not observed.known(digest_of(group)):
        number = max((record.number for record in observed.records), default=0) + 1
        yield CreateRevision(manifests.controller_revision(owner, group, image, number))
    yield from _applied(
        observed, manifests.config_map(owner, group, image, desired.scaling.desired, context)
    )
    if driver is None or driver.digest != digest_of(group):
        yield Apply(manifests.deployment(owner, group, image, replicas, context))
    elif driver.replicas != replicas:
        yield ScaleDriver(names.revision_name(observed.name, revision), replicas)


def _group_of(observed: Observed, desired: DesiredState, revision: str) -> ConsumerGroup | None:
    """The spec a revision runs by: the one that counts if it is of that revision, or the last one it had."""
    if desired.group and revision_of(desired.group) == revision:
        return desired.group
    record = observed.record(revision)
    return record.group if record else None


def _image(
    observed: Observed, driver: Driver | None, group: ConsumerGroup, context: OperatorContext
) -> str:
    """What it runs already, where the spec leaves that to us: only the user changes a running image."""
    if group.spec.image:
        return group.spec.image
    record = observed.record(revision_of(group))
    return driver.image if driver else record.image if record else context.image


def _abandoned(observed: Observed, desired: DesiredState) -> Iterator[Action]:
    """What revisions ran by that are nothing to the group any more; their drivers may be gone already."""
    rollout, prefix = desired.rollout, f"ConfigMap/{observed.name}-"
    if rollout.stage in _ENDING:
        return  # it goes with the group
    needed = {
        names.revision_name(observed.name, revision)
        for revision in (rollout.active, rollout.target)
        if revision
    }
    for name in sorted(
        key.removeprefix("ConfigMap/") for key in observed.hashes if key.startswith(prefix)
    ):
        if name not in needed:
            yield Delete("ConfigMap", name)


def _forgotten(observed: Observed, desired: DesiredState) -> Iterator[Action]:
    """Specs beyond the history, oldest first, but never one that may run again."""
    rollout = desired.rollout
    needed = {rollout.active, rollout.target, rollout.previous}
    oldest = sorted(observed.records, key=lambda record: record.number)[
        : max(0, len(observed.records) - HISTORY)
    ]
    for record in oldest:
        if record.revision not in needed or record != observed.record(record.revision):
            yield Delete("ControllerRevision", names.record_name(observed.name, record.digest))


def _words(observed: Observed, desired: DesiredState) -> Iterator[Action]:
    """What drivers are told, level by level."""
    rollout, active = desired.rollout, observed.driver(desired.rollout.active)
    status = active.fresh(observed.now) if active else None
    if active is None or status is None or active.terminating:
        return
    if rollout.stage is Stage.YIELDING and rollout.target and active.lands(observed.now):
        yield SendHandOver(active.revision, rollout.target)
    elif rollout.stage in {*_LANDING, Stage.WARMING} and status.phase in _WAITING:
        yield SendTakeOver(active.revision)
    asked = status.workers.wanted if status.workers else None
    if (
        rollout.stage in _LANDING
        and asked is not None
        and asked != desired.scaling.desired
        and desired.group
    ):
        yield SendScale(active.revision, desired.scaling.desired)


def _applied(observed: Observed, manifest: Json) -> Iterator[Action]:
    if (
        observed.hashes.get(names.reference(manifest))
        != manifest["metadata"]["annotations"][names.HASH_ANNOTATION]
    ):
        yield Apply(manifest)


def _owner(observed: Observed) -> Owner:
    return Owner(observed.name, observed.namespace, observed.uid)
