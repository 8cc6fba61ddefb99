"""What the API server told last of every group and of what it owns: only what decisions need, the newest version of each.

Watches, lists and the answers to the operator's own writes all come here, in any order; a version
older than the known one changes nothing, and what was deleted stays deleted. So a pass sees what
the pass before it wrote, however late the watch is.
Pure: this only keeps, and says which group something matters to.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from landfall.api.spec import ConsumerGroup
from landfall.errors import Stalled
from landfall_operator.api.status import GroupStatus
from landfall_operator.api.validation import conflict, parsed
from landfall_operator.core.parsing import contract_of, record_of, status_of
from landfall_operator.objects.names import GROUP_LABEL, HASH_ANNOTATION, REVISION_LABEL
from landfall_operator.objects.overlay import Json

Key = tuple[str, str]
"""Namespace and name of a group."""
GROUP = "ConsumerGroup"
_GONE = 4096
"""How many deleted objects are remembered as such."""


@dataclass(frozen=True, slots=True)
class CachedObject:
    """What is kept of an object that a group owns.

    Attributes:
        kind: of the object.
        name: of the object.
        namespace: of the object.
        uid: of the object.
        version: its resourceVersion; greater is newer.
        owner: uid of the group it belongs to; empty when nobody owns it.
        value: by kind: slim JSON of a Deployment or Pod, ``Record``, contract (``ConsumerGroup`` or
            None), else None.
        hash: of what was applied.
        revision: of the driver it belongs to, if to one.
    """

    kind: str
    name: str
    namespace: str
    uid: str
    version: int
    owner: str
    value: Any
    hash: str
    revision: str

    def same(self, other: "CachedObject") -> bool:
        """Whether nothing that matters differs."""
        return (self.uid, self.owner, self.value, self.hash) == (
            other.uid,
            other.owner,
            other.value,
            other.hash,
        )


@dataclass(frozen=True, slots=True)
class Resource:
    """What is kept of a group: itself.

    Attributes:
        body: the object, without what only API servers need.
        version: its resourceVersion.
        spec: parsed; None when it is not valid.
        fault: why it is not valid.
        status: parsed.
    """

    body: Json
    version: int
    spec: ConsumerGroup | None
    fault: str
    status: GroupStatus

    @property
    def uid(self) -> str:
        """Of the object."""
        return str(self.body["metadata"]["uid"])

    def same(self, other: "Resource") -> bool:
        """Whether nothing differs that somebody else than us changes."""
        return _asked(self.body) == _asked(other.body)


class ObjectCache:
    """Groups and what they own."""

    def __init__(self) -> None:
        """Nothing is known."""
        self.groups: dict[Key, Resource] = {}
        self._owned: defaultdict[Key, dict[tuple[str, str], CachedObject]] = defaultdict(dict)
        self._gone: dict[str, None] = {}
        self._alike: defaultdict[object, set[Key]] = defaultdict(set)

    def owned(self, key: Key) -> Mapping[tuple[str, str], CachedObject]:
        """What bears a group's label, by kind and name."""
        return self._owned.get(key, {})

    def put(self, kind: str, body: Mapping[str, Any]) -> Key | None:
        """Keep an object; returns the group that has to be looked at for it."""
        if body["metadata"]["uid"] in self._gone:
            return None
        return self._put_group(body) if kind == GROUP else self._put_owned(kind, body)

    def drop(self, kind: str, body: Mapping[str, Any]) -> Key | None:
        """Forget an object that was deleted; returns the group that has to be looked at for it."""
        uid = body["metadata"]["uid"]
        self._gone[uid] = None
        if len(self._gone) > _GONE:
            del self._gone[next(iter(self._gone))]
        key = _group_of(kind, body)
        if key is None:
            return None
        if kind == GROUP:
            self._forget_group(key, uid)
        elif (kept := self._owned[key].get((kind, body["metadata"]["name"]))) and kept.uid == uid:
            del self._owned[key][kind, kept.name]
        return key

    def sweep(
        self, kind: str, namespace: str | None, items: Iterable[Mapping[str, Any]], version: str
    ) -> set[Key]:
        """Take a list of all objects of a kind for what there is; returns the groups that have to be looked at."""
        listed = list(items)
        changed = {key for item in listed if (key := self.put(kind, item))}
        there = {item["metadata"]["uid"] for item in listed}
        for key, body in list(self._known(kind, namespace)):
            metadata = body["metadata"]
            if metadata["uid"] not in there and int(metadata["resourceVersion"]) < int(version):
                self.drop(kind, body)
                changed.add(key)
        return changed

    def conflicting_groups(self, group: ConsumerGroup) -> str:
        """What a group and another one cannot both have; empty when there is nothing."""
        keys = {key for mark in _marks(group) for key in self._alike[mark]}
        return conflict(group, (spec for key in sorted(keys) if (spec := self.groups[key].spec)))

    def _known(self, kind: str, namespace: str | None) -> Iterator[tuple[Key, Json]]:
        if kind == GROUP:
            every: Iterable[tuple[Key, Json]] = (
                (key, group.body) for key, group in self.groups.items()
            )
        else:
            every = (
                (key, _as_body(key, kept))
                for key, all_ in self._owned.items()
                for kept in all_.values()
                if kept.kind == kind
            )
        return (found for found in every if namespace in {None, found[0][0]})

    def _put_group(self, body: Mapping[str, Any]) -> Key | None:
        key = _group_of(GROUP, body)
        assert key
        known, version = self.groups.get(key), int(body["metadata"]["resourceVersion"])
        if known and version <= known.version:
            return None
        slim = _slim_group(body)
        unchanged = (
            known is not None
            and _asked(known.body)["spec"] == slim["spec"]
            and known.uid == slim["metadata"]["uid"]
        )
        spec, fault = (known.spec, known.fault) if known and unchanged else parsed(slim)
        self.groups[key] = made = Resource(
            slim, version, spec, fault, status_of(slim.get("status", {}))
        )
        if known and not unchanged:
            self._unmark(key, known)
        for mark in _marks(spec) if spec else ():
            self._alike[mark].add(key)
        return None if known and known.same(made) else key

    def _forget_group(self, key: Key, uid: str) -> None:
        known = self.groups.get(key)
        if known and known.uid == uid:
            self._unmark(key, known)
            del self.groups[key]

    def _unmark(self, key: Key, known: Resource) -> None:
        for mark in _marks(known.spec) if known.spec else ():
            self._alike[mark].discard(key)
            if not self._alike[mark]:
                del self._alike[mark]

    def _put_owned(self, kind: str, body: Mapping[str, Any]) -> Key | None:
        key = _group_of(kind, body)
        if key is None:
            return None
        kept = _taken(kind, body)
        known = self._owned[key].get((kind, kept.name))
        if known and kept.version <= known.version:
            return None
        self._owned[key][kind, kept.name] = kept
        return None if known and known.same(kept) else key


def _group_of(kind: str, body: Mapping[str, Any]) -> Key | None:
    metadata = body["metadata"]
    name = metadata["name"] if kind == GROUP else metadata.get("labels", {}).get(GROUP_LABEL)
    return (metadata["namespace"], name) if name else None


def _marks(group: ConsumerGroup) -> Iterator[object]:
    """What two groups that clash have in common, at least one of them."""
    yield "url", group.spec.output.url.rstrip("/")
    yield "mirror", group.kafka_group_id


def _asked(body: Json) -> Json:
    """What others decide about a group."""
    metadata = body["metadata"]
    return {
        "spec": body.get("spec"),
        "about": [
            metadata.get(name) for name in ("uid", "generation", "deletionTimestamp", "finalizers")
        ],
    }


def _slim_group(body: Mapping[str, Any]) -> Json:
    names = (
        "name",
        "namespace",
        "uid",
        "generation",
        "resourceVersion",
        "deletionTimestamp",
        "finalizers",
    )
    metadata = {name: body["metadata"][name] for name in names if name in body["metadata"]}
    rest = {name: body[name] for name in ("apiVersion", "kind", "spec", "status") if name in body}
    return {
        "apiVersion": "landfall.dev/v1alpha1",
        "kind": GROUP,
        "spec": None,
        **rest,
        "metadata": metadata,
    }


def _taken(kind: str, body: Mapping[str, Any]) -> CachedObject:
    metadata = body["metadata"]
    owners = metadata.get("ownerReferences", [])
    return CachedObject(
        kind=kind,
        name=metadata["name"],
        namespace=metadata["namespace"],
        uid=metadata["uid"],
        version=int(metadata["resourceVersion"]),
        owner=next((owner["uid"] for owner in owners if owner.get("kind") == GROUP), ""),
        value=_value(kind, body),
        hash=metadata.get("annotations", {}).get(HASH_ANNOTATION, ""),
        revision=metadata["labels"].get(REVISION_LABEL, ""),
    )


def _value(kind: str, body: Mapping[str, Any]) -> Any:
    try:
        match kind:
            case "Deployment":
                return _slim_deployment(body)
            case "Pod":
                return _slim_pod(body)
            case "ControllerRevision":
                return record_of(body)
            case "ConfigMap":
                return contract_of(body)
    except (Stalled, KeyError, ValueError):
        return None  # of another release, or not ours
    return bool(body["metadata"].get("deletionTimestamp"))


def _slim_deployment(body: Mapping[str, Any]) -> Json:
    spec = body["spec"]
    containers = [
        {"name": c["name"], "image": c.get("image", "")}
        for c in spec["template"]["spec"]["containers"]
    ]
    conditions = body.get("status", {}).get("conditions", [])
    failures = [
        _only(c, "type", "status", "message") for c in conditions if c["type"] == "ReplicaFailure"
    ]
    return {
        "metadata": _only(body["metadata"], "name", "labels", "annotations", "deletionTimestamp"),
        "spec": {
            "replicas": spec.get("replicas", 1),
            "template": {"spec": {"containers": containers}},
        },
        "status": {"conditions": failures},
    }


def _slim_pod(body: Mapping[str, Any]) -> Json:
    status = body.get("status", {})
    conditions = [
        _only(c, "type", "status", "reason", "message") for c in status.get("conditions", [])
    ]
    drivers = [c for c in status.get("containerStatuses", []) if c["name"] == "driver"]
    return {
        "metadata": _only(
            body["metadata"], "name", "uid", "creationTimestamp", "deletionTimestamp"
        ),
        "status": {
            **_only(status, "phase", "podIP"),
            "conditions": [c for c in conditions if c["type"] in {"PodScheduled", "Ready"}],
            "containerStatuses": [
                _only(c, "name", "restartCount", "ready", "state", "lastState") for c in drivers
            ],
        },
    }


def _only(mapping: Mapping[str, Any], *names: str) -> Json:
    return {name: mapping[name] for name in names if name in mapping}


def _as_body(key: Key, kept: CachedObject) -> Json:
    """Enough of an object to drop it."""
    metadata = {
        "name": kept.name,
        "namespace": kept.namespace,
        "uid": kept.uid,
        "resourceVersion": str(kept.version),
        "labels": {GROUP_LABEL: key[1]},
    }
    return {"metadata": metadata}
