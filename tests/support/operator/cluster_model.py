"""A model of a cluster with one group. It executes the operator's actions; its drivers follow the
driver's contract (``landfall.api.contract``).

The name of a driver's image decides how the driver behaves: ``broken`` crashes, ``slow`` never gets
ready, ``bad`` stops at bad records, ``deaf`` ignores commands and SIGTERM, ``failing`` fails all
its commits, ``astray`` looks for a store that does not exist; any other works. What it lands when
it is tried is in ``cluster_model_trials``. ``World.away`` says what of the environment fails.
Drivers whose image or digest is in ``World.crashing`` crash from now on.
"""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from landfall.api.contract import DriverPhase
from landfall.api.spec import ConsumerGroup, parse_group
from landfall_operator.api.reasons import ConditionReason
from landfall_operator.api.status import GroupStatus, RolloutStatus, Stage
from landfall_operator.api.verbs import Verb, annotation
from landfall_operator.core import actions as act
from landfall_operator.core.actions import Action
from landfall_operator.core.decide import decide
from landfall_operator.core.desired_state import DesiredState, desired_state
from landfall_operator.core.images import followed
from landfall_operator.core.parsing import driver_of, driver_spec_of
from landfall_operator.core.snapshot import (
    GroupObservation,
    RecordedSpec,
    RevisionDriver,
    sample_of,
)
from landfall_operator.objects.names import (
    DIGEST_ANNOTATION,
    REVISION_LABEL,
    hash_of,
    reference,
)
from landfall_operator.objects.pod_templates import OperatorContext
from landfall_operator.reporting.event_texts import rollout_event
from landfall_operator.reporting.group_status import report
from tests.support.operator.cluster_model_drivers import (
    START_PATIENCE,
    Deployed,
    Pod,
    pod_failure_of,
    report_of,
)
from tests.support.operator.cluster_model_runs import RunLedger
from tests.support.operator.cluster_model_trials import Trials

START = datetime(2026, 11, 21, 12, tzinfo=UTC)
SITE = OperatorContext(
    image="landfall:1", namespace="landfall-system", operator_labels={"app": "operator"}
)
TICK = timedelta(seconds=15)
_COMMANDS = (act.SendScale, act.SendHandOver, act.SendTakeOver)


def group(image: str | None = "good", **spec: Any) -> ConsumerGroup:
    """A group with some fields set."""
    made = {
        "source": {"kafka": {"bootstrapServers": "kafka:9092", "topics": ["clicks"]}},
        "output": {"url": "s3://logs/parsed"},
        **({"image": image} if image else {}),
        **spec,
    }
    metadata = {"name": "clicks", "namespace": "logs"}
    return parse_group(
        {
            "apiVersion": "landfall.dev/v1alpha1",
            "kind": "ConsumerGroup",
            "metadata": metadata,
            "spec": made,
        }
    )


def decided(
    observed: GroupObservation, context: OperatorContext = SITE
) -> tuple[DesiredState, tuple[Action, ...]]:
    """The desired state and the actions for an observation, as the reconciler computes them."""
    desired = desired_state(observed)
    return desired, decide(observed, desired, context, rollout_event(observed, desired))


@dataclass
class World:
    """One group, its objects, its drivers and its lane."""

    group: ConsumerGroup | None
    context: OperatorContext = SITE
    now: datetime = START
    generation: int = 1
    spec_error: str = ""
    deleting: bool = False
    finalizer: bool = False
    status: GroupStatus = field(default_factory=GroupStatus)
    records: list[RecordedSpec] = field(default_factory=list)
    driver_specs: dict[str, ConsumerGroup] = field(default_factory=dict)
    hashes: dict[str, str] = field(default_factory=dict)
    drivers: dict[str, Deployed] = field(default_factory=dict)
    holder: str | None = None
    yielded: bool = True
    away: set[str] = field(default_factory=set)
    crashing: set[str] = field(default_factory=set)
    pulled: set[str] = field(default_factory=set)
    committed: set[str] = field(default_factory=set)
    annotations: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    tried_again: list[str] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    stages: list[Stage] = field(default_factory=list)
    ledger: RunLedger = field(default_factory=RunLedger)
    quiet: datetime | None = None
    promotes: bool = False
    rollout_limit: int = 0
    trials: Trials = field(default_factory=Trials)

    # ------------------------------------------------------------------------------------- the user

    def edit(self, changed: ConsumerGroup | None, spec_error: str = "") -> None:
        """The user applies another spec; None with an error is one that is not valid."""
        self.group, self.spec_error = changed, spec_error
        self.generation += 1

    def request(self, verb: Verb, value: str = "") -> None:
        """The user sets the annotation of a verb."""
        self.annotations[annotation(verb)] = value

    def rename(self, old: str, new: str) -> None:
        """A former release made this revision, and named it in its own way."""
        driver = self.drivers[new] = self.drivers.pop(old)
        self.hashes[f"ConfigMap/clicks-{new}"] = self.hashes.pop(f"ConfigMap/{driver.config}")
        driver.revision, driver.config = new, f"clicks-{new}"
        self.driver_specs[new] = self.driver_specs[old]
        self.holder = new if self.holder == old else self.holder
        self.records = [replace(r, label=new) if r.label == old else r for r in self.records]
        # A former release did not know the other fields.
        rollout = RolloutStatus(stage=self.status.rollout.stage, active=new)
        self.status = self.status.model_copy(update={"rollout": rollout})

    def is_whole(self, revision: str) -> bool:
        """Whether the files of a driver exist, so that it can start again."""
        return f"ConfigMap/{self.drivers[revision].config}" in self.hashes

    def add_record(self, recorded: ConsumerGroup, label: str) -> None:
        """A former release recorded this spec, too."""
        number = max(record.number for record in self.records) + 1
        self.records.append(RecordedSpec(number, recorded, "good", self.now, label))

    # --------------------------------------------------------------------------------- the operator

    def observe(self) -> GroupObservation:
        drivers = {name: self._driver(deployed) for name, deployed in self.drivers.items()}
        reports = [d.report for d in drivers.values() if d.report]
        return GroupObservation(
            now=self.now,
            name="clicks",
            namespace="logs",
            uid="u",
            generation=self.generation,
            deleting=self.deleting,
            finalizer=self.finalizer,
            annotations=dict(self.annotations),
            labels=dict(self.labels),
            spec=followed(self.group, self.records, self.context.image) if self.group else None,
            spec_error=self.spec_error,
            status=self.status,
            records=tuple(self.records),
            drivers=drivers,
            driver_specs=dict(self.driver_specs),
            hashes=dict(self.hashes),
            samples=tuple(sample for answer in reports if (sample := sample_of(answer))),
            backfills=self.trials.observed(),
            promotes=self.promotes,
            default_image=self.context.image,
            rollout_limit=self.rollout_limit,
        )

    def reconcile(self) -> tuple[Action, ...]:
        """One pass of the operator."""
        observed = self.observe()
        desired, actions = decided(observed, self.context)
        self.status = report(observed, desired)
        for action in actions:
            self.execute(action)
        if not self.stages or self.stages[-1] is not self.status.rollout.stage:
            self.stages.append(self.status.rollout.stage)
        return actions

    def settle(self, most: int = 30) -> None:
        """Passes at one moment until there are no actions, or only repeated commands that a driver
        ignores.
        """
        before: tuple[Action, ...] | None = None
        for _ in range(most):
            actions = self.reconcile()
            if not actions or (
                actions == before and all(isinstance(action, _COMMANDS) for action in actions)
            ):
                return
            before = actions
        raise AssertionError(f"not settled after {most} passes: {self.reconcile()}")

    def run(self, time: timedelta, tick: timedelta = TICK) -> None:
        """Let time pass."""
        end = self.now + time
        while self.now < end:
            self.settle()
            self.now += tick
            self.advance()
        self.settle()

    def execute(self, action: Action) -> None:  # noqa: C901, PLR0912  # one arm per action
        """The effect of an action on the cluster."""
        match action:
            case act.SaveRollout(rollout, plan, request, answered):
                fields = {
                    "rollout": rollout,
                    "plan": plan,
                    "last_request": request,
                    "answered_requests": answered,
                }
                self.status = self.status.model_copy(update=fields)
            case act.EmitEvent(_, reason, message):
                self.events.append(f"{reason}: {message}")
            case act.AddFinalizer() | act.RemoveFinalizer():
                self.finalizer = isinstance(action, act.AddFinalizer)
            case act.RemoveAnnotation(name):
                self.annotations.pop(name, None)
            case act.CreateRevision(manifest):
                data = manifest["data"]
                self.records.append(
                    RecordedSpec(
                        manifest["revision"],
                        parse_group(data["group"]),
                        data["image"],
                        self.now,
                        manifest["metadata"]["labels"][REVISION_LABEL],
                    )
                )
            case act.EnsureToken(name):
                self.hashes[f"Secret/{name}"] = "made"
            case act.Apply(manifest) if manifest["kind"] == "Deployment":
                self._deploy(manifest)
            case act.Apply(manifest) if manifest["kind"] == "Backfill":
                self.trials.apply(manifest, self.records)
            case act.Apply(manifest):
                self.hashes[reference(manifest)] = hash_of(manifest)
                if manifest["kind"] == "ConfigMap":
                    self.driver_specs[manifest["metadata"]["labels"][REVISION_LABEL]] = (
                        driver_spec_of(manifest)
                    )
            case act.ScaleDriver(name, replicas):
                self._named(name).replicas = replicas
            case act.Delete("Deployment", name):
                self._named(name).terminating = True
            case act.Delete("Backfill", name):
                self.trials.delete(name)
            case act.Delete("ConfigMap", name):
                del self.hashes[f"ConfigMap/{name}"]
                assert name not in {d.config for d in self.drivers.values()}, "still mounted"
            case act.Delete():
                self.records = [r for r in self.records if f"clicks-{r.digest}" != action.name]
            case act.SendScale() | act.SendHandOver() | act.SendTakeOver() | act.SendTryAgain():
                self._command(action)
        self._terminate_pods()

    def _deploy(self, manifest: dict[str, Any]) -> None:
        revision = manifest["metadata"]["labels"][REVISION_LABEL]
        digest = manifest["metadata"]["annotations"][DIGEST_ANNOTATION]
        image = manifest["spec"]["template"]["spec"]["containers"][0]["image"]
        old = self.drivers.get(revision)
        assert old is None or not old.terminating, "applied to a Deployment that is being deleted"
        pod = old.pod if old else None
        if pod:
            pod.ends = pod.ends or self.now + TICK
        config = driver_of(manifest, [], None).config
        assert f"ConfigMap/{config}" in self.hashes, "mounts what does not exist"
        spec, replicas = self.driver_specs[revision].spec, manifest["spec"]["replicas"]
        made = Deployed(revision, digest, image, replicas, config, schedule=spec.schedule)
        self.drivers[revision] = replace(made, pod=pod)

    def _command(
        self, action: act.SendScale | act.SendHandOver | act.SendTakeOver | act.SendTryAgain
    ) -> None:
        deployed = self.drivers[action.revision]
        if deployed.pod is None or deployed.behaves("deaf"):
            return
        match action:
            case act.SendScale(_, wanted):
                deployed.pod.executors = wanted
            case act.SendHandOver() if "store" not in self.away:
                deployed.pod.phase, self.yielded = DriverPhase.YIELDED, True
            case act.SendTakeOver():
                self._open(deployed)
            case act.SendTryAgain(revision):
                self.tried_again.append(revision)

    # ---------------------------------------------------------------------------------- the cluster

    def advance(self) -> None:
        """Kubelet and drivers react to what changed."""
        self.trials.advance(self.now, self.away, self.records)
        for deployed in list(self.drivers.values()):
            if deployed.pod and deployed.pod.ends and deployed.pod.ends <= self.now:
                self._release(deployed)
                deployed.pod = None
            if deployed.terminating and not deployed.pod:
                del self.drivers[deployed.revision]
            elif deployed.replicas and not deployed.pod and not deployed.terminating:
                others = any(d.pod for d in self.drivers.values())
                deployed.pod = Pod(
                    self.now,
                    executors=deployed.executors,
                    scheduled=not (others and "room" in self.away),
                )
            elif deployed.pod and not deployed.pod.ends:
                self._advance_pod(deployed, deployed.pod)

    def _terminate_pods(self) -> None:
        for deployed in self.drivers.values():
            if (
                deployed.pod
                and (deployed.terminating or not deployed.replicas)
                and not deployed.pod.ends
            ):
                slow = deployed.behaves("deaf")
                deployed.pod.ends = self.now + (timedelta(hours=1) if slow else TICK)

    def _advance_pod(self, deployed: Deployed, pod: Pod) -> None:
        others = any(d.pod and d.pod.scheduled and d is not deployed for d in self.drivers.values())
        pod.scheduled = pod.scheduled or not others or "room" not in self.away
        if "image" not in self.away and pod.scheduled:
            self.pulled.add(deployed.image)
        fits = pod.scheduled and deployed.image in self.pulled
        pod.created = pod.created or (fits and "secret" not in self.away)
        if pod.created:
            self._advance_driver(deployed, pod)

    def _advance_driver(self, deployed: Deployed, pod: Pod) -> None:
        if deployed.behaves("broken") or {deployed.image, deployed.digest} & self.crashing:
            pod.end(ConditionReason.CRASH_LOOP, "exit code 1")
        elif pod.phase is DriverPhase.STARTING and self._misses_a_server(deployed):
            pod.begun = pod.begun or self.now
            if self.now - pod.begun >= START_PATIENCE:
                pod.end(ConditionReason.DEPENDENCY_UNAVAILABLE, "no answer")
        elif pod.phase is DriverPhase.STARTING:
            pod.begun = pod.begun or self.now
            pod.phase = DriverPhase.STARTING if deployed.behaves("slow") else DriverPhase.STANDBY
        if pod.phase is DriverPhase.STANDBY and (
            self.yielded or self.holder in {None, deployed.revision}
        ):
            self._open(deployed)
        if pod.phase is DriverPhase.RUNNING and self.holder != deployed.revision:
            pod.end(ConditionReason.FENCED, "another driver opened the ledger")
        if pod.phase is DriverPhase.RUNNING and not ({"store", "kafka"} & self.away):
            committed = deployed.land(pod, self.ledger, self.now)
            self.committed |= {deployed.digest} if committed else set()

    def _misses_a_server(self, deployed: Deployed) -> bool:
        return bool({"store", "kafka"} & self.away) or deployed.behaves("astray")

    def _open(self, deployed: Deployed) -> None:
        assert deployed.pod
        if "store" in self.away:
            return
        deployed.pod.phase, self.holder, self.yielded = (
            DriverPhase.RUNNING,
            deployed.revision,
            False,
        )

    def _release(self, deployed: Deployed) -> None:
        if self.holder == deployed.revision and "store" not in self.away:
            self.yielded = True

    def _driver(self, deployed: Deployed) -> RevisionDriver:
        pod = deployed.pod
        return RevisionDriver(
            revision=deployed.revision,
            digest=deployed.digest,
            image=deployed.image,
            replicas=deployed.replicas,
            pods=1 if pod else 0,
            pod=pod.started.isoformat() if pod else "",
            restarts=pod.restarts if pod else 0,
            terminating=deployed.terminating,
            config=deployed.config,
            pod_failure=pod_failure_of(deployed, pod, self) if pod else None,
            last_exit=pod.last_exit if pod else None,
            started=pod.begun if pod else None,
            report=report_of(deployed, pod, self)
            if pod and pod.phase is not DriverPhase.STARTING
            else None,
        )

    # ------------------------------------------------------------------------------------- queries

    def _named(self, name: str) -> Deployed:
        return next(d for d in self.drivers.values() if f"clicks-{d.revision}" == name)

    @property
    def landing(self) -> list[str]:
        """Images of drivers that land."""
        return [
            d.image for d in self.drivers.values() if d.pod and d.pod.phase is DriverPhase.RUNNING
        ]

    @property
    def images(self) -> list[str]:
        """Images of all drivers."""
        return sorted(d.image for d in self.drivers.values())
