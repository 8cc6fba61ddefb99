"""Carries out actions: one request each, to the API server in a thread, or to a driver.

Whatever the API server answers goes into the stock at once, so the next pass starts from what this
one did, not from what the watch has come to. Every action may be carried out twice; none is tried
again here.
"""

import asyncio
import base64
import logging
import secrets
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Any, ParamSpec, TypeVar, assert_never

from landfall.api.contract import HandOver, TakeOver, WantExecutors
from landfall.errors import Retry
from landfall_operator.api.status import GroupStatus
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
from landfall_operator.core.cache import GROUP, CachedObject, Key, ObjectCache, Resource
from landfall_operator.objects import manifests, names
from landfall_operator.objects.manifests import Owner
from landfall_operator.objects.overlay import Json
from landfall_operator.runtime.driver_client import Drivers, DriverUnreachable, Unauthorized
from landfall_operator.runtime.event_recorder import Events
from landfall_operator.runtime.kube_client import Conflict, Kube, NotFound

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")
_TOKEN_BYTES = 32
_TOKEN_SECONDS = 300.0
"""How long a token is taken for granted: whoever deletes its Secret gets another one."""


@dataclass(frozen=True, slots=True)
class Target:
    """The group that something is done for, as it was looked at, and where its drivers are.

    Attributes:
        key: its namespace and name.
        resource: itself, of the version that was looked at.
        addresses: of drivers' pods, by revision.
    """

    key: Key
    resource: Resource
    addresses: Mapping[str, str]

    @property
    def owner(self) -> Owner:
        """As manifests want it."""
        return Owner(self.key[1], self.key[0], self.resource.uid)


class ActionExecutor:
    """Does things to the world."""

    def __init__(
        self, kube: Kube, cache: ObjectCache, drivers: Drivers, events: Events, pool: Executor
    ) -> None:
        """Ask the API server in threads of ``pool``."""
        self._kube = kube
        self._cache = cache
        self._drivers = drivers
        self._events = events
        self._pool = pool
        self._tokens: dict[Key, tuple[str, float]] = {}

    async def execute(self, target: Target, action: Action) -> None:  # noqa: C901, PLR0912  # one arm per action
        """Carry out one action.

        Raises:
            Conflict: the group is not as it was looked at.
            Retry: nobody answered, or not now.
            Absent: what is to be changed is not there.
            Refused: the API server will not do it.
        """
        match action:
            case SaveRollout(rollout, plan):
                told = GroupStatus(rollout=rollout, plan=plan)
                await self.write_status(
                    target,
                    {name: _written(told)[name] for name in ("rollout", "plan")},
                    checked=True,
                )
            case EmitEvent():
                await self.announce(target, action)
            case AddFinalizer():
                await self._finalizer(target, on=True)
            case RemoveFinalizer():
                await self._finalizer(target, on=False)
            case CreateRevision(manifest):
                await self._create(manifest)
            case EnsureToken():
                await self._token(target)
            case Apply(manifest):
                await self._apply(target, manifest)
            case ScaleDriver(name, replicas):
                await self._scale(target, name, replicas)
            case Delete(kind, name):
                await self._delete(target, kind, name)
            case SendScale(revision, wanted):
                await self._tell(target, revision, WantExecutors(wanted))
            case SendHandOver(revision, to):
                await self._tell(target, revision, HandOver(to))
            case SendTakeOver(revision):
                await self._tell(target, revision, TakeOver())
            case _:
                assert_never(action)

    async def announce(self, target: Target, said: EmitEvent) -> None:
        """Post a Kubernetes Event; that it cannot be posted is no reason to do less."""
        level = logging.WARNING if said.kind == "Warning" else logging.INFO
        log.log(
            level, "%s", said.message, extra={"group": "/".join(target.key), "reason": said.reason}
        )
        try:
            await self._in_thread(self._events.post, target.owner, said)
        except (Retry, NotFound) as error:
            log.info("event not posted: %s", error, extra={"group": "/".join(target.key)})

    async def write_status(self, target: Target, changed: Json, *, checked: bool = False) -> None:
        """Change the status; ``checked`` that the group is as it was looked at.

        Raises:
            Conflict: it is not.
        """
        patch: Json = {"status": changed}
        if checked:
            patch["metadata"] = {"resourceVersion": str(target.resource.version)}
        namespace, name = target.key
        self._cache.put(
            GROUP, await self._in_thread(self._kube.merge, GROUP, namespace, name, patch, "status")
        )

    async def knows_token(self, target: Target) -> bool:
        """Whether there is a Secret with a control token: asked now and then."""
        known = self._tokens.get(target.key)
        if known is None or time.monotonic() - known[1] > _TOKEN_SECONDS:
            try:
                secret = await self._in_thread(
                    self._kube.get, "Secret", target.key[0], names.control_name(target.key[1])
                )
            except NotFound:
                self.forget(target.key)
                return False
            self._tokens[target.key] = (
                base64.b64decode(secret["data"]["token"]).decode(),
                time.monotonic(),
            )
        return True

    def forget(self, key: Key) -> None:
        """Of a group, what is not in the stock."""
        self._tokens.pop(key, None)

    async def _token(self, target: Target) -> None:
        secret = manifests.control_secret(target.owner, secrets.token_urlsafe(_TOKEN_BYTES))
        try:
            await self._in_thread(self._kube.create, secret)
        except Conflict:
            log.debug("token is there", extra={"group": "/".join(target.key)})
        self.forget(target.key)
        await self.knows_token(target)

    async def _create(self, manifest: Json) -> None:
        try:
            self._cache.put(manifest["kind"], await self._in_thread(self._kube.create, manifest))
        except Conflict:
            metadata = manifest["metadata"]
            there = await self._in_thread(
                self._kube.get, manifest["kind"], metadata["namespace"], metadata["name"]
            )
            self._cache.put(manifest["kind"], there)

    async def _apply(self, target: Target, manifest: Json) -> None:
        kept = self._kept(target, manifest["kind"], manifest["metadata"]["name"])
        if kept and kept.owner not in {"", target.resource.uid}:
            raise Retry(
                f"{names.reference(manifest)} belongs to a former group of this name, and is about to go"
            )
        self._cache.put(manifest["kind"], await self._in_thread(self._kube.apply, manifest))
        log.debug("applied %s", names.reference(manifest), extra={"group": "/".join(target.key)})

    async def _scale(self, target: Target, name: str, replicas: int) -> None:
        patch = {"spec": {"replicas": replicas}}
        made = await self._in_thread(self._kube.merge, "Deployment", target.key[0], name, patch)
        self._cache.put("Deployment", made)
        log.info("scaled %s to %d", name, replicas, extra={"group": "/".join(target.key)})

    async def _delete(self, target: Target, kind: str, name: str) -> None:
        kept = self._kept(target, kind, name)
        if kept is None:
            return
        try:
            answer = await self._in_thread(self._kube.delete, kind, kept.namespace, name, kept.uid)
        except NotFound:
            answer = {"kind": "Status"}
        if (
            answer["kind"] == "Status"
        ):  # gone; else the object itself comes back, with the begin of its deletion
            self._cache.drop(kind, _ghost(target.key, kept))
        else:
            self._cache.put(kind, answer)
        log.info("deleted %s/%s", kind, name, extra={"group": "/".join(target.key)})

    async def _finalizer(self, target: Target, *, on: bool) -> None:
        """Put ours on the group or take it off, and leave those of others."""
        metadata = self._cache.groups.get(target.key, target.resource).body["metadata"]
        others = [name for name in metadata.get("finalizers", []) if name != names.FINALIZER]
        wanted = [*others, names.FINALIZER] if on else others
        patch = {
            "metadata": {
                "finalizers": wanted,
                "uid": target.resource.uid,
                "resourceVersion": metadata["resourceVersion"],
            }
        }
        namespace, name = target.key
        try:
            self._cache.put(
                GROUP, await self._in_thread(self._kube.merge, GROUP, namespace, name, patch)
            )
        except NotFound:
            log.debug("the group is gone", extra={"group": "/".join(target.key)})

    async def _tell(
        self, target: Target, revision: str, word: WantExecutors | HandOver | TakeOver
    ) -> None:
        """A driver that does not hear it is told again in the next pass."""
        about = {"group": "/".join(target.key), "revision": revision}
        address = target.addresses.get(revision)
        if address is None or not await self.knows_token(target):
            log.info("cannot tell %s", word, extra=about)
            return
        try:
            await self._drivers.tell(address, word, self._tokens[target.key][0])
        except DriverUnreachable as error:
            if isinstance(error, Unauthorized):
                self.forget(target.key)  # it may have been made anew
            log.warning("not heard: %s", error, extra=about)
        else:
            log.info("told %s", word, extra=about)

    def _kept(self, target: Target, kind: str, name: str) -> CachedObject | None:
        return self._cache.owned(target.key).get((kind, name))

    async def _in_thread(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(
            self._pool, partial(call, *args, **kwargs)
        )


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> Json:
    """A merge patch (RFC 7386) from one object to the other: None takes a field away, lists are written whole."""
    patch: Json = {name: None for name in before if name not in after}
    for name, value in after.items():
        old = before.get(name)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            if inner := difference(old, value):
                patch[name] = inner
        elif value != old:
            patch[name] = value
    return patch


def _written(status: GroupStatus) -> Json:
    """As JSON, with None where a field is to be taken away."""
    return status.model_dump(mode="json", by_alias=True)


def _ghost(key: Key, kept: CachedObject) -> Json:
    metadata = {
        "name": kept.name,
        "namespace": kept.namespace,
        "uid": kept.uid,
        "labels": {names.GROUP_LABEL: key[1]},
    }
    return {"metadata": metadata}
