"""Executes actions: one request each, to the API server in a thread, or to a driver.

Every object that the API server returns goes into the cache at once, so the next pass sees the
writes of this one even if the watch lags. Every action may be executed twice without harm, and none
is retried here: the next pass decides again.
"""

import asyncio
import base64
import logging
import secrets
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ParamSpec, TypeVar, assert_never

from landfall.api.contract import HandOver, TakeOver, TryAgain, WantExecutors
from landfall.api.signatures import Addressee
from landfall.errors import LandfallError, Retry
from landfall_operator.api.backfill import KIND as BACKFILL
from landfall_operator.api.backfill_status import BackfillStatus
from landfall_operator.api.status import GroupStatus
from landfall_operator.core import actions
from landfall_operator.core.backfill_snapshot import FINALIZER as DISCARD
from landfall_operator.core.cache import (
    GROUP,
    CachedObject,
    Key,
    ObjectCache,
    Resource,
    minimal_body,
)
from landfall_operator.core.parsing import FAILED_MOUNT, executor_pods_of, mount_failure
from landfall_operator.core.snapshot import ExecutorPods, PodFailure
from landfall_operator.objects import manifests, names
from landfall_operator.objects.manifests import Owner
from landfall_operator.objects.overlay import Json
from landfall_operator.runtime.control_port import Bearer, Credentials
from landfall_operator.runtime.driver_client import (
    Command,
    DriverClient,
    DriverUnreachable,
    Unauthorized,
)
from landfall_operator.runtime.event_recorder import EventRecorder
from landfall_operator.runtime.kube_client import Conflict, KubeClient, NotFound, RequestRejected

REPAIRS_AT_ONCE = 3
"""How often an object is restored at once."""
REPAIR_INTERVAL = 600.0
"""Seconds between two repairs of an object after that, and until the count begins again."""


@dataclass(slots=True)
class _Repairs:
    count: int
    last: float


class DriftLimit:
    """Counts, for each object, how often it was restored."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock`` gives the time in seconds."""
        self._clock = clock
        self._repairs: dict[tuple[Key, str], _Repairs] = {}

    def count(self, key: Key, name: str) -> int:
        """Count a repair of an object; returns how many there were in a row, 0 if it must wait."""
        now = self._clock()
        known = self._repairs.get((key, name))
        waited = known is None or now - known.last >= REPAIR_INTERVAL
        if known is None or (waited and known.count < REPAIRS_AT_ONCE):
            self._repairs[key, name] = _Repairs(1, now)
            return 1
        if known.count >= REPAIRS_AT_ONCE and not waited:
            return 0
        known.count += 1
        known.last = now
        return known.count

    def forget(self, key: Key) -> None:
        """Forget the objects of a group."""
        self._repairs = {
            object_key: value for object_key, value in self._repairs.items() if object_key[0] != key
        }


log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")
_TOKEN_BYTES = 32
_INTENT = {"rollout", "plan", "last_request", "answered_requests"}
"""The fields of a group's status by which the operator continues after a restart."""
_OWN_LABELS = ("app.kubernetes.io/managed-by", names.GROUP_LABEL)
"""The labels of a group's objects, by which also one without an owner is known as the group's."""


@dataclass(frozen=True, slots=True)
class Target:
    """The group that actions are executed for, as the pass observed it.

    Attributes:
        key: The namespace and name of the group.
        resource: The group, in the version that the pass observed.
        addresses: The IP addresses of the drivers' pods, by revision.
        signed: The uids of the pods whose drivers take signatures, by revision; the remaining
            drivers are of an earlier release and need the group's control token.
    """

    key: Key
    resource: Resource
    addresses: Mapping[str, str]
    signed: Mapping[str, str] = field(default_factory=dict)

    @property
    def metadata(self) -> Json:
        """The group's metadata, as the pass observed them."""
        return self.resource.metadata

    @property
    def owner(self) -> Owner:
        """The group as the owner of its objects."""
        return Owner(self.key[1], self.key[0], self.resource.uid)


@dataclass(frozen=True, slots=True)
class BackfillTarget:
    """The Backfill that actions are executed for.

    Attributes:
        body: The Backfill as it was listed; its resourceVersion follows what the pass writes.
    """

    body: Json

    @property
    def metadata(self) -> Json:
        """Its metadata."""
        metadata: Json = self.body["metadata"]
        return metadata

    @property
    def key(self) -> Key:
        """Its namespace and name."""
        return self.metadata["namespace"], self.metadata["name"]

    @property
    def owner(self) -> Owner:
        """The Backfill as the owner of its objects."""
        return Owner(self.key[1], self.key[0], self.metadata["uid"], BACKFILL)


class NameTaken(LandfallError):  # noqa: N818  # the name is the state
    """An object that a group needs exists already, and belongs to another owner."""


class ActionExecutor:
    """Executes actions against the API server and the drivers."""

    def __init__(
        self,
        kube: KubeClient,
        cache: ObjectCache,
        drivers: DriverClient,
        events: EventRecorder,
        pool: Executor,
    ) -> None:
        """Call the API server in the threads of ``pool``."""
        self._kube = kube
        self._cache = cache
        self._drivers = drivers
        self._events = events
        self._pool = pool
        self._tokens: dict[Key, str] = {}
        self._without_token: set[Key] = set()
        self._drift = DriftLimit()
        self._applied: dict[tuple[Key, str], str] = {}

    async def execute(self, target: Target, action: actions.Action) -> None:  # noqa: C901  # one arm per action
        """Execute one action for a group.

        Raises:
            Conflict: The group or the object changed since the pass observed it.
            Retry: The API server did not answer, or asks to be called later.
            NotFound: The object to change does not exist.
            RequestRejected: The API server rejects the action for good.
            NameTaken: The object to create exists, and belongs to another owner.
        """
        match action:
            case actions.SaveRollout(rollout, plan, request, answered):
                intent = GroupStatus(
                    rollout=rollout,
                    plan=plan,
                    last_request=request,
                    answered_requests=dict(answered) if answered else None,
                )
                # None where a field has no value, so that the patch removes it.
                fields = intent.model_dump(mode="json", by_alias=True, include=_INTENT)
                await self._patch_status(target, fields, if_unchanged=True)
            case (
                actions.EmitEvent()
                | actions.AddFinalizer()
                | actions.RemoveFinalizer()
                | actions.RemoveAnnotation()
            ):
                await self.execute_shared(target, action)
            case actions.CreateRevision(manifest):
                # The name is derived from the content, so one that exists is the same one.
                self._cache.put(manifest["kind"], await self.created(manifest))
            case actions.EnsureToken():
                await self._create_token(target)
            case actions.Apply(manifest):
                await self._apply(target, manifest)
            case actions.ScaleDriver(name, replicas):
                await self._scale(target, name, replicas)
            case actions.Delete(kind, name):
                await self._delete(target, kind, name)
            case actions.SendScale(revision, wanted):
                await self._send(target, revision, WantExecutors(wanted))
            case actions.SendHandOver(revision, to):
                await self._send(target, revision, HandOver(to))
            case actions.SendTakeOver(revision):
                await self._send(target, revision, TakeOver())
            case actions.SendTryAgain(revision):
                await self._send(target, revision, TryAgain(names.OPERATOR, "retry of the group"))
            case _:
                assert_never(action)

    async def execute_shared(
        self, target: Target | BackfillTarget, action: actions.SharedAction
    ) -> None:
        """Execute an action that groups and Backfills have in common; raises as ``execute``."""
        match action:
            case actions.EmitEvent():
                await self.emit_event(target, action)
            case actions.AddFinalizer():
                await self._set_finalizer(target, present=True)
            case actions.RemoveFinalizer():
                await self._set_finalizer(target, present=False)
            case actions.RemoveAnnotation(name):
                await self._remove_annotation(target, name)
            case _:
                assert_never(action)

    async def refresh(self, target: Target, action: actions.Action) -> None:
        """Read the object of an action, which another client changed, into the cache.

        If the API server does not answer, the cache stays as it is until the watch catches up.
        """
        kind, name = _object_of(target, action)
        try:
            body = await self.in_thread(self._kube.find, kind, target.key[0], name)
        except NotFound:
            cached = target.resource if kind == GROUP else self._cached(target, kind, name)
            if cached:
                self._cache.drop(kind, minimal_body(target.key, cached))
        except LandfallError as error:
            log.info("object not read again: %s", error, extra=_fields(target))
        else:
            self._cache.put(kind, body)

    async def emit_event(self, target: Target | BackfillTarget, event: actions.EmitEvent) -> None:
        """Log an event and post it as a Kubernetes Event.

        An Event that cannot be posted is only logged: the actions after it matter more.
        """
        level = logging.WARNING if event.kind == "Warning" else logging.INFO
        log.log(level, "%s", event.message, extra={**_fields(target), "reason": event.reason})
        try:
            await self.in_thread(self._events.post, target.owner, event)
        except (Retry, NotFound, RequestRejected) as error:
            log.info("event not posted: %s", error, extra=_fields(target))

    async def write_status(
        self,
        target: Target | BackfillTarget,
        status: GroupStatus | BackfillStatus,
        *,
        if_unchanged: bool = False,
    ) -> None:
        """Write what differs from the stored status, if anything does.

        Raises:
            Conflict: ``if_unchanged`` is set, and the group or the Backfill changed since the pass
                observed it; nothing was stored.
        """
        new = status.model_dump(mode="json", by_alias=True, exclude_none=True)
        if isinstance(target, Target):
            stored = self._cache.groups.get(target.key, target.resource).stored_status()
        else:
            stored = target.body.get("status", {})
        if changed := difference(stored, new):
            await self._patch_status(target, changed, if_unchanged=if_unchanged)

    async def _patch_status(
        self, target: Target | BackfillTarget, changed: Json, *, if_unchanged: bool
    ) -> None:
        """Change fields of the status; None removes a field."""
        patch: Json = {"status": changed}
        if if_unchanged:
            # The API server compares the version, so two writers cannot both succeed.
            patch["metadata"] = {"resourceVersion": target.metadata["resourceVersion"]}
        await self._merge(target, patch, "status")

    async def _merge(
        self, target: Target | BackfillTarget, patch: Json, subresource: str = ""
    ) -> None:
        """Change the group or the Backfill; the rest of the pass knows its new version."""
        owner = target.owner
        written = await self.in_thread(
            self._kube.merge,
            kind=owner.kind,
            namespace=owner.namespace,
            name=owner.name,
            patch=patch,
            subresource=subresource,
        )
        if isinstance(target, Target):
            self._cache.put(GROUP, written)
        else:
            target.metadata["resourceVersion"] = written["metadata"]["resourceVersion"]

    def _present(self, target: Target | BackfillTarget) -> Json:
        """The present metadata, including what this pass has written."""
        if isinstance(target, Target):
            return self._cache.groups.get(target.key, target.resource).metadata
        return target.metadata

    async def has_token(self, target: Target) -> bool:
        """Ask the API server whether the group's control token exists.

        True where the operator may not ask: then it may not create the token either.
        """
        self._tokens.pop(target.key, None)
        try:
            return await self._token(target) is not None
        except RequestRejected as error:
            log.info("control token not read: %s", error, extra=_fields(target))
            return True

    async def _token(self, target: Target) -> str | None:
        """The group's control token, however long ago it was read; None if it does not exist."""
        if target.key not in self._tokens:
            try:
                secret = await self.in_thread(
                    self._kube.get, "Secret", target.key[0], names.control_name(target.key[1])
                )
            except NotFound:
                return None
            self._tokens[target.key] = token_of(secret)
        return self._tokens[target.key]

    def forget(self, key: Key) -> None:
        """Drop everything remembered about a group that is gone."""
        self._tokens.pop(key, None)
        self._without_token.discard(key)
        self._drift.forget(key)
        self._applied = {
            object_key: value for object_key, value in self._applied.items() if object_key[0] != key
        }

    async def _create_token(self, target: Target) -> None:
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        try:
            await self.in_thread(self._kube.create, manifests.control_secret(target.owner, token))
        except Conflict:
            log.debug("token exists already", extra=_fields(target))
            self._tokens.pop(target.key, None)
        else:
            self._tokens[target.key] = token

    async def created(self, manifest: Json, owner: Owner | None = None) -> Json:
        """The object, created now or before.

        Raises:
            Retry: It exists, and is not the given owner's.
        """
        kind = manifest["kind"]
        metadata = manifest["metadata"]
        try:
            return await self.in_thread(self._kube.create, manifest)
        except Conflict:
            found = await self.in_thread(
                self._kube.find, kind, metadata["namespace"], metadata["name"]
            )
        owners = {reference["uid"] for reference in found["metadata"].get("ownerReferences", [])}
        if owner and owner.uid not in owners:
            raise Retry(f"{names.reference(manifest)} belongs to something else")
        return found

    async def _apply(self, target: Target, manifest: Json) -> None:
        kind = manifest["kind"]
        if not self._cached(target, kind, manifest["metadata"]["name"]) and (
            other := await self._taken(target, manifest)
        ):
            if kind == "ServiceAccount":
                # The driver uses it; its annotations may give it a cloud identity.
                log.debug("%s", other, extra=_fields(target))
                return
            raise NameTaken(other)
        cached = self._cached(target, kind, manifest["metadata"]["name"])
        if cached and cached.owner not in {"", target.resource.uid}:
            # To apply it would change an object that the garbage collector is about to delete.
            raise Retry(
                f"{names.reference(manifest)} still belongs to a deleted group of the same name"
            )
        name = names.reference(manifest)
        wanted = names.hash_of(manifest)
        # Another operator writes a hash of its own: what this one applied before is a repair, too.
        known = {cached.hash, self._applied.get((target.key, name))} if cached else set()
        if wanted and wanted in known:
            repairs = self._drift.count(target.key, name)
            if not repairs:
                return
            await self._announce_drift(target, name, repairs)
        self._cache.put(manifest["kind"], await self.in_thread(self._kube.apply, manifest))
        self._applied[target.key, name] = wanted
        log.debug("applied %s", name, extra=_fields(target))

    async def _taken(self, target: Target, manifest: Json) -> str:
        """Whose an object is that exists and is not in the cache; empty if the name is free.

        Server-side apply would take over the fields of the object and make the group its owner.
        """
        kind = manifest["kind"]
        name = manifest["metadata"]["name"]
        try:
            body = await self.in_thread(self._kube.find, kind, target.key[0], name)
        except NotFound:
            return ""
        labels = body["metadata"].get("labels") or {}
        wanted = manifest["metadata"]["labels"]
        if all(labels.get(label) == wanted.get(label) for label in _OWN_LABELS):
            self._cache.put(kind, body)  # the watch has not brought it yet
            return ""
        return (
            f"{kind} {name} exists in the namespace and does not belong to the group: delete or"
            " rename it, or give the group another name"
        )

    async def _announce_drift(self, target: Target, name: str, repairs: int) -> None:
        """Post that an object is restored; after repeated repairs, that another client insists."""
        reason = "PutBack"
        message = f"{name} was changed by another client, and is restored"
        if repairs >= REPAIRS_AT_ONCE:
            reason = "Contested"
            message = (
                f"{name} is changed again and again by another client, which its"
                " metadata.managedFields name; from now on it is restored every"
                f" {REPAIR_INTERVAL / 60:.0f} minutes"
            )
        await self.emit_event(target, actions.EmitEvent("Warning", reason, message))

    async def _scale(self, target: Target, name: str, replicas: int) -> None:
        patch = {"spec": {"replicas": replicas}}
        scaled = await self.in_thread(
            self._kube.merge, "Deployment", target.key[0], name, patch=patch
        )
        self._cache.put("Deployment", scaled)
        log.info("scaled deployment %s to %d", name, replicas, extra=_fields(target))

    async def _delete(self, target: Target, kind: str, name: str) -> None:
        cached = self._cached(target, kind, name)
        if cached is None:
            return
        try:
            answer = await self.in_thread(
                self._kube.delete, kind, cached.namespace, name, uid=cached.uid
            )
        except NotFound:
            answer = {"kind": "Status"}
        # A Status means that the object is gone. Otherwise the API server returns the object, with
        # its deletionTimestamp, and deletes it later.
        if answer["kind"] == "Status":
            self._cache.drop(kind, minimal_body(target.key, cached))
        else:
            self._cache.put(kind, answer)
        log.info("deleted %s/%s", kind, name, extra=_fields(target))

    async def executor_pods(self, target: Target) -> ExecutorPods | None:
        """Return the executors' pods of a group; None if the API server does not answer."""
        selector = names.scale_selector(target.key[1])
        try:
            page = await self.in_thread(self._kube.page, "Pod", target.key[0], selector)
        except (Retry, NotFound, RequestRejected) as error:
            log.info("executors' pods not seen: %s", error, extra=_fields(target))
            return None
        return executor_pods_of(page.items)

    async def claim(self, target: Target, operator: str | None) -> Resource:
        """Write into the group which operator manages it, None for no one; returns the new version.

        Raises:
            Conflict: The group changed since the pass observed it.
        """
        await self._merge(
            target,
            {
                "metadata": {
                    "annotations": {names.OPERATOR_ANNOTATION: operator},
                    "uid": target.resource.uid,
                    "resourceVersion": target.metadata["resourceVersion"],
                }
            },
        )
        return self._cache.groups.get(target.key, target.resource)

    async def mount_failure(self, target: Target, pod: str) -> PodFailure | None:
        """Return the Secret or ConfigMap that a pod waits for; None without an answer."""
        try:
            found = await self.in_thread(self._kube.events_about, target.key[0], pod, FAILED_MOUNT)
        except (Retry, NotFound, RequestRejected) as error:
            log.info("events of pod %s not seen: %s", pod, error, extra=_fields(target))
            return None
        return mount_failure(found)

    async def _remove_annotation(self, target: Target | BackfillTarget, annotation: str) -> None:
        guard = {"uid": target.owner.uid}
        if isinstance(target, BackfillTarget):
            # It may have been set again since the list, for what has happened since.
            guard["resourceVersion"] = target.metadata["resourceVersion"]
        await self._merge(target, {"metadata": {"annotations": {annotation: None}, **guard}})

    async def _set_finalizer(self, target: Target | BackfillTarget, *, present: bool) -> None:
        """Add or remove the operator's finalizer; all other finalizers stay."""
        # Not as the pass began: an action before this one may have written the resource.
        metadata = self._present(target)
        own = names.FINALIZER if isinstance(target, Target) else DISCARD
        try:
            # By the uid that the pass observed: another object may have the name by now.
            seen = {**metadata, "uid": target.owner.uid}
            await self._merge(target, finalizer_patch(seen, own, present=present))
        except NotFound:
            log.debug("object deleted meanwhile", extra=_fields(target))

    async def _send(self, target: Target, revision: str, command: Command) -> None:
        """Send a command to a driver. If that fails, the next pass decides to send it again."""
        fields = {**_fields(target), "revision": revision, "command": str(command)}
        address = target.addresses.get(revision)
        credentials = await self._credentials(target, revision) if address else None
        if address is None or credentials is None:
            log.info("driver command skipped", extra=fields)
            return
        try:
            await self._drivers.send(address, command, credentials)
        except DriverUnreachable as error:
            if isinstance(error, Unauthorized):
                self._tokens.pop(target.key, None)  # the Secret may have another token now
            # A key that has not reached the driver is no error: the next passes try again.
            log.warning("driver command failed: %s", error, extra=fields)
        else:
            log.info("driver command sent", extra=fields)

    async def _credentials(self, target: Target, revision: str) -> Credentials | None:
        """How the driver of a revision recognizes the operator; None if it cannot, by now."""
        pod = target.signed.get(revision)
        if pod is not None:
            return Addressee(*target.key, uid=target.resource.uid, revision=revision, pod=pod)
        try:
            token = await self._token(target)
            if token is None:
                await self._create_token(target)  # the next pass sends it
                return None
        except RequestRejected as error:
            log.warning("control token not read: %s", error, extra=_fields(target))
            token = ""
        if token:
            self._without_token.discard(target.key)
            return Bearer(token)
        await self._announce_missing_token(target, revision)
        return None

    async def _announce_missing_token(self, target: Target, revision: str) -> None:
        """Post once that a driver of an earlier release cannot be commanded."""
        name = names.control_name(target.key[1])
        self._tokens.pop(target.key, None)
        if target.key in self._without_token:
            return
        self._without_token.add(target.key)
        await self.emit_event(
            target,
            actions.EmitEvent(
                "Warning",
                "NoControlToken",
                f"the driver of {revision} is of an earlier release and takes commands only with"
                f" the token in the Secret {name}, which the operator cannot read: set"
                " compatibility.bearerTokens of the chart and see that the Secret has a token, or"
                " give the group a newer image",
            ),
        )

    def _cached(self, target: Target, kind: str, name: str) -> CachedObject | None:
        return self._cache.owned(target.key).get((kind, name))

    async def in_thread(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a call that blocks in a thread, and return its result."""
        return await asyncio.get_running_loop().run_in_executor(
            self._pool, partial(call, *args, **kwargs)
        )


def finalizer_patch(metadata: Json, finalizer: str, *, present: bool) -> Json:
    """The merge patch that adds or removes a finalizer of an object in exactly this version."""
    others = [name for name in metadata.get("finalizers", []) if name != finalizer]
    return {
        "metadata": {
            "finalizers": [*others, finalizer] if present else others,
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
        }
    }


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> Json:
    """The JSON merge patch (RFC 7386) from one object to another; None removes a field."""
    patch: Json = {name: None for name in before if name not in after}
    for name, value in after.items():
        old = before.get(name)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            if inner := difference(old, value):
                patch[name] = inner
        elif value != old:
            patch[name] = value
    return patch


def token_of(secret: Json) -> str:
    """The control token; empty if the Secret has none that can be sent."""
    try:
        return base64.b64decode(secret["data"]["token"], validate=True).decode("ascii").strip()
    except (KeyError, TypeError, ValueError):
        return ""


def _fields(target: Target | BackfillTarget) -> dict[str, str]:
    """The fields that every log event about a group or a Backfill has."""
    return {"group" if isinstance(target, Target) else "backfill": "/".join(target.key)}


def _object_of(target: Target, action: actions.Action) -> tuple[str, str]:
    """The kind and name of the object that an action writes."""
    match action:
        case actions.Apply(manifest) | actions.CreateRevision(manifest):
            return manifest["kind"], manifest["metadata"]["name"]
        case actions.ScaleDriver(name):
            return "Deployment", name
        case actions.Delete(kind, name):
            return kind, name
        case _:
            return GROUP, target.key[1]
