"""An API server in memory: it stores what the operator's client sends and counts the requests.

It allows what the operator's rights allow, and nothing else.
"""

from base64 import b64encode
from collections.abc import Callable
from copy import deepcopy
from http import HTTPStatus
from itertools import count

from landfall_operator.objects.overlay import Json
from landfall_operator.runtime.kube_client import (
    Conflict,
    KubeClient,
    KubeRequest,
    NotFound,
    RequestRejected,
)
from tests.rights.grants import OPERATORS, single
from tests.support.kubernetes.api_audit_log import Right

_VERBS = {
    verb: (verb,) for verb in ("create", "update", "patch", "patch_status", "delete", "get", "list")
} | {"apply": ("create", "patch")}
"""The rights that each verb of a request needs."""
_RIGHTS = frozenset(single(OPERATORS))
"""All that the operator may do."""


class FakeApi(KubeClient):
    """A client whose requests are answered from memory.

    Attributes:
        objects: The stored objects, by URL path.
        requests: All requests so far.
        before: Called with each request before it is answered; may change objects, as other clients
            do, or raise the error with which it is answered.
    """

    def __init__(self) -> None:
        """Nothing is stored."""
        self.objects: dict[str, Json] = {}
        self.requests: list[KubeRequest] = []
        self.before: Callable[[KubeRequest], None] = lambda _: None
        self._versions = count(1000)

    def asked(self, verb: str, kind: str) -> int:
        """The number of requests of a verb for a kind."""
        return sum((r.verb, r.kind.name) == (verb, kind) for r in self.requests)

    def store(self, path: str, body: Json) -> Json:
        """Store a new version of an object, as any client may; returns it."""
        version = str(next(self._versions))
        former = self.objects.get(path, {}).get("metadata", {})
        fixed = {
            "uid": former.get("uid", body["metadata"].get("uid", f"uid-{version}")),
            "creationTimestamp": former.get("creationTimestamp", "2026-11-21T12:00:00Z"),
            "resourceVersion": version,
        }
        new = deepcopy({**body, "metadata": {**body["metadata"], **fixed}})
        if "stringData" in new:
            texts: dict[str, str] = new.pop("stringData")
            new["data"] = {name: b64encode(text.encode()).decode() for name, text in texts.items()}
        self.objects[path] = new
        return deepcopy(self.objects[path])

    def _send(self, request: KubeRequest) -> Json:
        self.requests.append(request)
        _check_rights(request)
        self.before(request)
        if request.verb == "list":
            fields = dict(
                part.split("=", 1)
                for part in filter(None, request.query.get("fieldSelector", "").split(","))
            )
            named = fields.pop("metadata.name", "")
            under = [
                body
                for path, body in self.objects.items()
                if path.startswith(request.path)
                and named in {"", body["metadata"]["name"]}
                and all(_field(body, name) == value for name, value in fields.items())
            ]
            return {"items": deepcopy(under), "metadata": {"resourceVersion": "999999"}}
        if request.verb == "create":
            path = f"{request.path}/{request.body['metadata']['name']}"
            if path in self.objects:
                raise Conflict(f"{path}: {HTTPStatus.CONFLICT}")
            return self.store(path, request.body)
        if request.verb == "apply":
            return self.store(request.path, request.body)
        return self._existing(request)

    def _existing(self, request: KubeRequest) -> Json:
        path = request.path.removesuffix("/status")
        if path not in self.objects:
            raise NotFound(f"{path}: {HTTPStatus.NOT_FOUND}")
        body = self.objects[path]
        if request.verb == "get":
            return deepcopy(body)
        metadata = (request.body or {}).get(
            "metadata", (request.body or {}).get("preconditions", {})
        )
        for name in ("uid", "resourceVersion"):
            if name in metadata and metadata[name] != body["metadata"][name]:
                raise Conflict(f"{path}: {name} is {body['metadata'][name]}")
        if request.verb == "delete":
            del self.objects[path]
            return {"kind": "Status"}
        return self.store(
            path, request.body if request.verb == "update" else merged(body, request.body)
        )


def _field(body: Json, path: str) -> object:
    for name in path.split("."):
        body = body.get(name) or {}
    return body


def _check_rights(request: KubeRequest) -> None:
    """Raise RequestRejected if the operator has no right to send this request."""
    for needed in _VERBS[request.verb]:
        verb, _, part = needed.partition("_")
        resource = "/".join(filter(None, [request.kind.plural, part]))
        right = Right(request.kind.group, resource, verb)
        if right not in _RIGHTS:
            raise RequestRejected(f"{request.path}: cannot {right}", HTTPStatus.FORBIDDEN)


def merged(target: Json, patch: Json) -> Json:
    """Apply a merge patch by RFC 7386."""
    result = dict(target)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            result[name] = merged(result.get(name) or {}, value)
        else:
            result[name] = deepcopy(value)
    return result
