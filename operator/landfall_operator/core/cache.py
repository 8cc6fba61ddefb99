"""A cache of groups and the objects that they own, reduced to what decisions need. Pure.

Watch events, lists and the answers to the operator's own writes all enter the cache, in any order.
It keeps the newest version of each object: an older version changes nothing, and a deleted object
stays deleted. So each pass sees what the pass before it wrote, however late the watch is.

Each change returns the group that must be reconciled because of it.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from landfall.api.spec import ConsumerGroup
from landfall.api.spec.roots import roots_above
from landfall.errors import Stalled
from landfall_operator.api.backfill import KIND as BACKFILL
from landfall_operator.api.status import GroupStatus
from landfall_operator.api.status_values import readable
from landfall_operator.api.validation import Claimant, ClaimConflict, parsed, refusal
from landfall_operator.api.verbs import PREFIX
from landfall_operator.core.ownership import applied_fields
from landfall_operator.core.parsing import driver_spec_of, record_of
from landfall_operator.core.snapshot import RecordedSpec
from landfall_operator.core.trial_backfills import trial_backfill_of
from landfall_operator.objects import names
from landfall_operator.objects.overlay import Json
from landfall_operator.objects.pod_templates import CONFIG_VOLUME, CONTROL_VOLUME, KEYS_VOLUME

Key = tuple[str, str]
"""Namespace and name of a group."""
GROUP = "ConsumerGroup"
MAX_SPEC_BYTES = 256 * 1024
"""The largest spec that is parsed, as JSON. Parsed, one takes up to 25 times its size."""
_NEVER_APPLIED = frozenset({"Pod", "ControllerRevision"})
_LIFE = ("uid", "generation", "deletionTimestamp", "finalizers")
_KEPT = ("name", "namespace", "resourceVersion", "creationTimestamp", *_LIFE)
"""The metadata that is kept as it is; of annotations, only the operator's are kept."""
_REQUESTED = (*_LIFE, "annotations", "labels")
"""The metadata that users, and not the operator, decide."""
_VOLUMES = frozenset({CONFIG_VOLUME, CONTROL_VOLUME, KEYS_VOLUME})
_MAX_DELETED = 16384
"""How many uids of deleted objects the cache remembers: a thousand groups with all of their
objects.
"""


@dataclass(frozen=True, slots=True)
class CachedObject:
    """An object that a group owns.

    Attributes:
        kind: its kind.
        name: its metadata.name.
        namespace: its metadata.namespace.
        uid: its metadata.uid.
        version: its resourceVersion; a greater one is newer.
        owner: uid of the group that owns it; empty without an owner reference.
        value: slim JSON of a Deployment or Pod, the ``RecordedSpec`` of a ControllerRevision, the
            ``ConsumerGroup`` in a ConfigMap (None if this release cannot read it), the trial that
            a Backfill is (None if it is none); for any other kind, whether it is being deleted.
        hash: hash of the object as it was applied.
        fields: see ``landfall_operator.core.ownership.applied_fields``.
        revision: revision of the driver that it belongs to; else empty.
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
    fields: str | None = None

    def is_equivalent(self, other: "CachedObject") -> bool:
        """Return whether no decision depends on the difference between the two."""
        return (self.uid, self.owner, self.value, self.hash, self.fields) == (
            other.uid,
            other.owner,
            other.value,
            other.hash,
            other.fields,
        )


@dataclass(frozen=True, slots=True)
class Resource:
    """The ``ConsumerGroup`` resource of a group.

    Attributes:
        metadata: the object's metadata, without managedFields and the like.
        spec_hash: a hash of the spec as it is stored.
        status_json: the status as it is stored; see ``stored_status``.
        spec: the parsed spec; None when it is not valid.
        spec_error: why the spec is not valid; else empty.
        status: the parsed status.
    """

    metadata: Json
    spec_hash: bytes
    status_json: bytes
    spec: ConsumerGroup | None
    spec_error: str
    status: GroupStatus

    @property
    def name(self) -> str:
        """The object's metadata.name."""
        return str(self.metadata["name"])

    @property
    def uid(self) -> str:
        """The object's metadata.uid."""
        return str(self.metadata["uid"])

    @property
    def version(self) -> int:
        """The object's resourceVersion; a greater one is newer."""
        return int(self.metadata["resourceVersion"])

    @property
    def generation(self) -> int:
        """The object's metadata.generation, which counts the changes of its spec."""
        return int(self.metadata.get("generation", 0))

    @property
    def labels(self) -> Mapping[str, str]:
        """The object's metadata.labels."""
        return self.metadata.get("labels") or {}

    @property
    def annotations(self) -> Mapping[str, str]:
        """The object's annotations that the operator reads."""
        return self.metadata.get("annotations") or {}

    def stored_status(self) -> Json:
        """The status as it is stored, with fields that this release does not know."""
        return dict(json.loads(self.status_json))

    def is_equivalent(self, other: "Resource") -> bool:
        """Return whether they differ only in what the operator itself writes, like the status."""
        return self.spec_hash == other.spec_hash and all(
            self.metadata.get(name) == other.metadata.get(name) for name in _REQUESTED
        )


class ObjectCache:
    """Groups and the objects that they own.

    Attributes:
        groups: the groups.
        trials_listed: the namespaces whose Backfills have been listed; None for the cluster.
        promoting: the groups whose drivers are to promote a Backfill, as they were listed last.
    """

    def __init__(self) -> None:
        """The cache is empty."""
        self.groups: dict[Key, Resource] = {}
        self.trials_listed: set[str | None] = set()
        self.promoting: frozenset[Key] = frozenset()
        self._owned: defaultdict[Key, dict[tuple[str, str], CachedObject]] = defaultdict(dict)
        self._deleted_uids: dict[str, None] = {}
        self._by_conflict_key: defaultdict[object, set[Key]] = defaultdict(set)
        self._conflict_keys_of: dict[Key, AbstractSet[object]] = {}

    def owned(self, key: Key) -> Mapping[tuple[str, str], CachedObject]:
        """The objects with a group's label, by kind and name."""
        return self._owned.get(key, {})

    def put(self, kind: str, body: Mapping[str, Any]) -> Key | None:
        """Store an object unless a newer one is known; returns the group to reconcile, if any.

        Objects in Kubernetes' own namespaces are not stored, so no group in them is managed.
        """
        metadata = body["metadata"]
        if metadata["uid"] in self._deleted_uids or names.is_reserved(metadata["namespace"]):
            return None
        return self._put_group(body) if kind == GROUP else self._put_owned(kind, body)

    def drop(self, kind: str, body: Mapping[str, Any]) -> Key | None:
        """Remove a deleted object; returns the group to reconcile, if any."""
        uid = body["metadata"]["uid"]
        # A late watch event or answer may still carry the object: the uid keeps it out.
        self._deleted_uids[uid] = None
        if len(self._deleted_uids) > _MAX_DELETED:
            del self._deleted_uids[next(iter(self._deleted_uids))]
        key = _group_of(kind, body)
        if key is None:
            return None
        if kind == GROUP:
            self._drop_group(key, uid)
        elif (
            cached := self.owned(key).get((kind, body["metadata"]["name"]))
        ) and cached.uid == uid:
            del self._owned[key][kind, cached.name]
            if not self._owned[key]:
                del self._owned[key]
            if _spec_in(cached):
                self._index(key)
        return key

    def forget(self, namespace: str) -> set[Key]:
        """Remove all objects of a namespace, which may come back; returns its groups."""
        keys = {key for key in (*self.groups, *self._owned) if key[0] == namespace}
        for key in keys:
            if group := self.groups.get(key):
                self._drop_group(key, group.uid)
            self._owned.pop(key, None)
        return keys

    def drop_missing(
        self, kind: str, namespace: str | None, listed: AbstractSet[str], version: str
    ) -> set[Key]:
        """Remove what a complete list of a kind does not contain; returns the groups to reconcile.

        Args:
            kind: the kind that was listed.
            namespace: the namespace that was listed; None for all.
            listed: the uids of the listed objects.
            version: resourceVersion of the list. Objects that are missing from the list but newer
                than it were created after it, so they stay.
        """
        missing = [
            (key, cached)
            for key, cached in self._cached(kind, namespace)
            if cached.uid not in listed and cached.version < int(version)
        ]
        for key, cached in missing:
            self.drop(kind, minimal_body(key, cached))
        return {key for key, _ in missing}

    def refusal(self, key: Key) -> ClaimConflict | None:
        """Return why a claim of the group belongs to another cached group; None if it does not."""
        mine = self._claimant(key)
        if mine is None or mine.wanted is None:
            return None
        marks = (*_conflict_keys(mine.wanted), *_keys_of_nested(mine.wanted))
        keys = {other_key for mark in marks for other_key in self._by_conflict_key.get(mark, ())}
        others = (self._claimant(other_key) for other_key in sorted(keys - {key}))
        return refusal(mine, (other for other in others if other))

    def _claimant(self, key: Key) -> Claimant | None:
        resource = self.groups.get(key)
        if resource is None:
            return None
        rollout = resource.status.rollout
        landing = {rollout.active, rollout.target, rollout.previous} - {None}
        held = [
            spec
            for cached in self.owned(key).values()
            if cached.owner == resource.uid and cached.revision in landing
            if (spec := _spec_in(cached))
        ]
        since = str(resource.metadata.get("creationTimestamp", "")), resource.uid
        return Claimant(resource.spec, tuple({id(spec): spec for spec in held}.values()), since)

    def _cached(
        self, kind: str, namespace: str | None
    ) -> Iterator[tuple[Key, "Resource | CachedObject"]]:
        every: Iterable[tuple[Key, Resource | CachedObject]] = (
            self.groups.items()
            if kind == GROUP
            else (
                (key, cached)
                for key, owned in self._owned.items()
                for cached in owned.values()
                if cached.kind == kind
            )
        )
        return (entry for entry in every if namespace in {None, entry[0][0]})

    def _put_group(self, body: Mapping[str, Any]) -> Key | None:
        key = _group_of(GROUP, body)
        assert key
        known = self.groups.get(key)
        version = int(body["metadata"]["resourceVersion"])
        if known and version <= known.version:
            return None
        metadata = _slim_metadata(body["metadata"])
        spec_json = _as_text(body.get("spec"))
        spec_hash = sha256(spec_json).digest()
        unchanged = known and known.spec_hash == spec_hash and known.uid == metadata["uid"]
        # Most new versions carry only a status. Parsing the spec again would dominate the cost.
        spec, error = (
            (known.spec, known.spec_error)
            if known and unchanged
            else _parsed_spec(metadata, body.get("spec"), len(spec_json))
        )
        spec = self._shared(key, spec) if spec else None
        status = body.get("status", {})
        self.groups[key] = new = Resource(
            metadata=metadata,
            spec_hash=spec_hash,
            status_json=_as_text(status),
            spec=spec,
            spec_error=error,
            status=readable(GroupStatus, status),
        )
        if not unchanged:
            self._index(key)
        return None if known and known.is_equivalent(new) else key

    def _drop_group(self, key: Key, uid: str) -> None:
        known = self.groups.get(key)
        if known and known.uid == uid:
            del self.groups[key]
            self._index(key)

    def _index(self, key: Key) -> None:
        """Index the group by the claims of its resource, and of its drivers."""
        resource = self.groups.get(key)
        marks = set[object]()
        if resource:
            specs = [resource.spec, *map(_spec_in, self.owned(key).values())]
            each = {id(spec): spec for spec in specs if spec}.values()
            marks = {mark for spec in each for mark in _conflict_keys(spec)}
        before = self._conflict_keys_of.get(key, frozenset())
        for mark in before - marks:
            self._by_conflict_key[mark].discard(key)
            if not self._by_conflict_key[mark]:
                del self._by_conflict_key[mark]
        for mark in marks - before:
            self._by_conflict_key[mark].add(key)
        self._conflict_keys_of[key] = marks
        if not marks:
            del self._conflict_keys_of[key]

    def _put_owned(self, kind: str, body: Mapping[str, Any]) -> Key | None:
        key = _group_of(kind, body)
        if key is None:
            return None
        metadata = body["metadata"]
        known = self.owned(key).get((kind, metadata["name"]))
        # Before anything is parsed: a resync lists thousands of objects that have not changed.
        if known and int(metadata["resourceVersion"]) <= known.version:
            return None
        new = self._with_shared_spec(key, _cached_object(kind, body))
        self._owned[key][kind, new.name] = new
        if _spec_in(new):
            self._index(key)
        return None if known and known.is_equivalent(new) else key

    def _with_shared_spec(self, key: Key, new: CachedObject) -> CachedObject:
        match new.value:
            case RecordedSpec(group=spec):
                return replace(new, value=replace(new.value, group=self._shared(key, spec)))
            case ConsumerGroup():
                return replace(new, value=self._shared(key, new.value))
        return new

    def _shared(self, key: Key, spec: ConsumerGroup) -> ConsumerGroup:
        """The equal spec that the cache has of this group, if any: each takes 8 kB of memory.

        A settled group has the same spec three times: requested, recorded, and for the driver.
        """
        resource = self.groups.get(key)
        values = [resource.spec if resource else None]
        values += map(_spec_in, self.owned(key).values())
        return next((value for value in values if value == spec), spec)


def _spec_in(cached: CachedObject) -> ConsumerGroup | None:
    """The group with the spec that its object records, or gives to a driver."""
    value = cached.value
    if isinstance(value, RecordedSpec):
        return value.group
    return value if isinstance(value, ConsumerGroup) else None


def _group_of(kind: str, body: Mapping[str, Any]) -> Key | None:
    metadata = body["metadata"]
    name = metadata["name"] if kind == GROUP else metadata.get("labels", {}).get(names.GROUP_LABEL)
    return (metadata["namespace"], name) if name else None


def _conflict_keys(group: ConsumerGroup) -> Iterator[object]:
    """Keys by which conflicting groups are found."""
    yield "mirror", group.kafka_group_id
    for root in group.spec.roots:
        url = root.url.rstrip("/")
        yield "url", url
        yield from (("inside", above) for above in roots_above(url))


def _keys_of_nested(group: ConsumerGroup) -> Iterator[object]:
    """Keys of other groups with a root that is in a root of this group, or around it."""
    for root in group.spec.roots:
        url = root.url.rstrip("/")
        yield "inside", url
        yield from (("url", above) for above in roots_above(url))


def _slim_metadata(metadata: Mapping[str, Any]) -> Json:
    slim = {name: metadata[name] for name in _KEPT if name in metadata}
    annotations = metadata.get("annotations", {})
    slim["annotations"] = {
        name: value for name, value in annotations.items() if name.startswith(PREFIX)
    }
    if labels := metadata.get("labels"):
        slim["labels"] = dict(labels)
    return slim


def _resource(metadata: Json, spec: object) -> Json:
    """The resource that users wrote."""
    return {
        "apiVersion": "landfall.dev/v1alpha1",
        "kind": GROUP,
        "metadata": {name: value for name, value in metadata.items() if name != "labels"},
        "spec": spec,
    }


def _parsed_spec(metadata: Json, spec: object, size: int) -> tuple[ConsumerGroup | None, str]:
    """The group with a spec of ``size`` bytes, and an empty text; or None, and what is wrong."""
    if size > MAX_SPEC_BYTES:
        return None, f"spec: {size:,} bytes of JSON, more than {MAX_SPEC_BYTES:,}"
    return parsed(_resource(metadata, spec))


def _as_text(value: object) -> bytes:
    """JSON that is the same for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def slim_deployment(body: Mapping[str, Any]) -> Json:
    """The fields of a Deployment that ``parsing.driver_of`` reads."""
    spec = body["spec"]
    containers = [
        {"name": c["name"], "image": c.get("image", "")}
        for c in spec["template"]["spec"]["containers"]
    ]
    volumes = spec["template"]["spec"].get("volumes", [])
    conditions = body.get("status", {}).get("conditions", [])
    failures = [
        _pick(c, "type", "status", "message") for c in conditions if c["type"] == "ReplicaFailure"
    ]
    return {
        "metadata": _pick(body["metadata"], "name", "labels", "annotations", "deletionTimestamp"),
        "spec": {
            "replicas": spec.get("replicas", 1),
            "template": {
                "spec": {
                    **_pick(spec["template"]["spec"], "serviceAccountName"),
                    "containers": containers,
                    "volumes": [v for v in volumes if v["name"] in _VOLUMES],
                }
            },
        },
        "status": {"conditions": failures},
    }


def slim_pod(body: Mapping[str, Any]) -> Json:
    """The fields of a driver's pod that ``parsing`` reads."""
    status = body.get("status", {})
    conditions = [
        _pick(c, "type", "status", "reason", "message") for c in status.get("conditions", [])
    ]
    drivers = [c for c in status.get("containerStatuses", []) if c["name"] == "driver"]
    return {
        "metadata": _pick(
            body["metadata"], "name", "uid", "creationTimestamp", "deletionTimestamp"
        ),
        "status": {
            **_pick(status, "phase", "podIP"),
            "conditions": [c for c in conditions if c["type"] in {"PodScheduled", "Ready"}],
            "containerStatuses": [
                _pick(c, "name", "restartCount", "ready", "state", "lastState") for c in drivers
            ],
        },
    }


def _pick(mapping: Mapping[str, Any], *names: str) -> Json:
    return {name: mapping[name] for name in names if name in mapping}


def _cached_object(kind: str, body: Mapping[str, Any]) -> CachedObject:
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
        hash=metadata.get("annotations", {}).get(names.HASH_ANNOTATION, ""),
        revision=metadata["labels"].get(names.REVISION_LABEL, ""),
        fields=None if kind in _NEVER_APPLIED else applied_fields(body),
    )


_PARSERS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "Deployment": slim_deployment,
    "Pod": slim_pod,
    "ControllerRevision": record_of,
    "ConfigMap": driver_spec_of,
    BACKFILL: trial_backfill_of,
}


def _value(kind: str, body: Mapping[str, Any]) -> Any:
    """See ``CachedObject.value``."""
    parse = _PARSERS.get(kind)
    if parse is None:
        return bool(body["metadata"].get("deletionTimestamp"))
    try:
        return parse(body)
    except (Stalled, KeyError, ValueError):
        return None  # written by another release, or not by Landfall


def minimal_body(key: Key, cached: Resource | CachedObject) -> Json:
    """As much of an object as ``ObjectCache.drop`` needs."""
    metadata = {
        "name": cached.name,
        "namespace": key[0],
        "uid": cached.uid,
        "labels": {names.GROUP_LABEL: key[1]},
    }
    return {"metadata": metadata}
