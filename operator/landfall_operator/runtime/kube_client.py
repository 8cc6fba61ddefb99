"""The API server, as the operator asks it: few verbs, plain JSON, a time limit on everything, every call counted.

All of it blocks, so it is only ever called in threads. Nothing is tried twice here: a pass that
fails is followed by another one, which looks again. What went wrong comes in the kinds that a pass
can do something about.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import urllib3
from kubernetes.client import ApiClient, Configuration
from kubernetes.client.exceptions import ApiException

from landfall.errors import LandfallError, Retry
from landfall_operator.humanize import shortened
from landfall_operator.objects.names import OPERATOR
from landfall_operator.objects.overlay import Json
from landfall_operator.runtime.metrics import Metrics

CONNECT_SECONDS, ANSWER_SECONDS = 3.0, 10.0
PAGE = 500
"""Objects in one answer to a list."""
_LONGEST = 500
_MERGE, _APPLY, _JSON = (
    "application/merge-patch+json",
    "application/apply-patch+yaml",
    "application/json",
)
_BUSY = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})


class Conflict(Retry):
    """Somebody changed or made the object meanwhile: look again."""


class Unavailable(Retry):
    """The API server did not answer, or not now."""

    def __init__(self, message: str, after: float | None = None) -> None:
        """``after`` so many seconds it wants to be asked again, if it said."""
        super().__init__(message)
        self.after = after


class NotFound(LandfallError):  # noqa: N818  # the name is the state
    """There is no such object."""


class RequestRejected(LandfallError):  # noqa: N818  # the name is the state
    """The API server will not do it, however often it is asked: a right is missing, or the object is not valid."""

    def __init__(self, message: str, code: int) -> None:
        """Keep the HTTP code, to tell the two from each other."""
        super().__init__(message)
        self.code = code

    @property
    def invalid(self) -> bool:
        """Whether it is the object's fault."""
        return self.code in {HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY}


class Kind(NamedTuple):
    """Where objects of a kind are."""

    name: str
    group: str
    version: str
    plural: str

    @property
    def api_version(self) -> str:
        """As manifests have it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None, *rest: str) -> str:
        """Of all objects, or of one."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        within = f"/namespaces/{quote(namespace)}" if namespace else ""
        return "/".join([f"{root}{within}/{self.plural}", *map(quote, rest)])


KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("ConsumerGroup", "landfall.dev", "v1alpha1", "consumergroups"),
        Kind("Pod", "", "v1", "pods"),
        Kind("Deployment", "apps", "v1", "deployments"),
        Kind("ControllerRevision", "apps", "v1", "controllerrevisions"),
        Kind("ConfigMap", "", "v1", "configmaps"),
        Kind("ServiceAccount", "", "v1", "serviceaccounts"),
        Kind("Service", "", "v1", "services"),
        Kind("Role", "rbac.authorization.k8s.io", "v1", "roles"),
        Kind("RoleBinding", "rbac.authorization.k8s.io", "v1", "rolebindings"),
        Kind("NetworkPolicy", "networking.k8s.io", "v1", "networkpolicies"),
        Kind("PodDisruptionBudget", "policy", "v1", "poddisruptionbudgets"),
        Kind("Secret", "", "v1", "secrets"),
        Kind("Event", "", "v1", "events"),
        Kind("Lease", "coordination.k8s.io", "v1", "leases"),
    )
}


class Listing(NamedTuple):
    """Objects, and the version of the cluster that they are of."""

    items: list[Json]
    version: str


@dataclass(frozen=True, slots=True)
class Request:
    """One request, and what it is counted as."""

    verb: str
    kind: Kind
    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    content: str = _JSON


class Kube:
    """Asks the API server."""

    def __init__(
        self,
        configuration: Configuration,
        metrics: Metrics,
        *,
        connections: int = 16,
        answer: float = ANSWER_SECONDS,
        before_write: Callable[[], None] = lambda: None,
    ) -> None:
        """Keep up to ``connections`` open; ``answer`` is how many seconds a request may take, ``before_write`` may refuse."""
        configuration.retries = False
        configuration.connection_pool_maxsize = connections
        self._client = ApiClient(configuration)
        self._metrics = metrics
        self._timeout = (CONNECT_SECONDS, answer)
        self._before_write = before_write

    def serves(self, kind: str) -> bool:
        """Whether the API server knows a kind."""
        known = KINDS[kind]
        request = Request("discover", known, "GET", f"/apis/{known.group}/{known.version}")
        try:
            return any(
                resource["name"] == known.plural for resource in self._ask(request)["resources"]
            )
        except NotFound:
            return False

    def get(self, kind: str, namespace: str, name: str) -> Json:
        """One object."""
        known = KINDS[kind]
        return self._ask(Request("get", known, "GET", known.path(namespace, name)))

    def list(self, kind: str, namespace: str | None, selector: str) -> Listing:
        """All objects with some labels, of one namespace or of all; in a few requests if they are many."""
        known = KINDS[kind]
        items: list[Json] = []
        query = {"labelSelector": selector, "limit": str(PAGE)}
        while True:
            answer = self._ask(Request("list", known, "GET", known.path(namespace), query))
            items += answer["items"]
            more = answer["metadata"].get("continue")
            if not more:
                return Listing(items, answer["metadata"]["resourceVersion"])
            query = {**query, "continue": more}

    def may_list(self, kind: str, namespace: str | None, selector: str) -> None:
        """Do nothing, if we may list objects of a kind.

        Raises:
            Refused: we may not.
        """
        known = KINDS[kind]
        query = {"labelSelector": selector, "limit": "1"}
        self._ask(Request("list", known, "GET", known.path(namespace), query))

    def create(self, manifest: Json) -> Json:
        """Make an object.

        Raises:
            Conflict: it is there.
        """
        known = KINDS[manifest["kind"]]
        path = known.path(manifest["metadata"]["namespace"])
        return self._ask(
            Request("create", known, "POST", path, {"fieldManager": OPERATOR}, manifest)
        )

    def replace(self, manifest: Json) -> Json:
        """Write a whole object anew; its ``resourceVersion`` says which one was read.

        Raises:
            Conflict: it is another one by now.
        """
        known, metadata = KINDS[manifest["kind"]], manifest["metadata"]
        path = known.path(metadata["namespace"], metadata["name"])
        return self._ask(
            Request("update", known, "PUT", path, {"fieldManager": OPERATOR}, manifest)
        )

    def apply(self, manifest: Json) -> Json:
        """Create or change an object, by server-side apply; what others set against us is taken back."""
        known, metadata = KINDS[manifest["kind"]], manifest["metadata"]
        path = known.path(metadata["namespace"], metadata["name"])
        query = {"fieldManager": OPERATOR, "force": "true"}
        return self._ask(Request("apply", known, "PATCH", path, query, manifest, _APPLY))

    def merge(
        self, kind: str, namespace: str, name: str, patch: Json, subresource: str = ""
    ) -> Json:
        """Change parts of an object; None takes a field away.

        Raises:
            Conflict: the patch has a ``resourceVersion`` that is not the present one.
        """
        known = KINDS[kind]
        path = known.path(namespace, name, *filter(None, [subresource]))
        verb = f"patch_{subresource}" if subresource else "patch"
        return self._ask(
            Request(verb, known, "PATCH", path, {"fieldManager": OPERATOR}, patch, _MERGE)
        )

    def delete(self, kind: str, namespace: str, name: str, uid: str) -> Json:
        """Delete an object once everything it owns is gone; nothing happens to another one of the same name.

        Raises:
            Conflict: there is another one of that name.
        """
        known = KINDS[kind]
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
            "propagationPolicy": "Foreground",
        }
        return self._ask(
            Request("delete", known, "DELETE", known.path(namespace, name), {}, options)
        )

    def _ask(self, request: Request) -> Json:
        """The answer as JSON.

        Raises:
            Absent: 404.
            Conflict: 409.
            Busy: no answer, 408, 429 or 5xx.
            Refused: any other code over 399.
            Fenced: it is a write, and no longer ours to make.
        """
        if request.method != "GET":
            self._before_write()
        began, code = time.monotonic(), "error"
        try:
            status, body, after = self._answer(request)
            code = str(status)
        finally:
            self._metrics.api_requests.labels(request.verb, request.kind.name, code).inc()
            self._metrics.api_seconds.labels(request.verb).observe(time.monotonic() - began)
        if status < HTTPStatus.BAD_REQUEST:
            answer: Json = json.loads(body)
            return answer
        raise _fault(request, status, body, after)

    def _answer(self, request: Request) -> tuple[int, bytes, str | None]:
        headers = {"Accept": _JSON, "Content-Type": request.content, "User-Agent": OPERATOR}
        query = f"?{urlencode(request.query)}" if request.query else ""
        try:
            self._client.update_params_for_auth(
                headers, [], ["BearerToken"], request.path, request.method, None
            )
            answer = self._client.call_api(
                request.method,
                f"{self._client.configuration.host}{request.path}{query}",
                headers,
                request.body,
                _request_timeout=self._timeout,
            )
            return answer.status, answer.read(), answer.headers.get("Retry-After")
        except (urllib3.exceptions.HTTPError, ApiException, OSError) as error:
            raise Unavailable(
                f"{request.verb} {request.path}: no answer: {shortened(str(error), _LONGEST)}"
            ) from error


def _fault(request: Request, status: int, body: bytes, after: str | None) -> LandfallError:
    told = f"{request.verb} {request.path}: {status} {_message(body)}"
    if status == HTTPStatus.NOT_FOUND:
        return NotFound(told)
    if status == HTTPStatus.CONFLICT:
        return Conflict(told)
    if status in _BUSY or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Unavailable(told, float(after) if after and after.isdigit() else None)
    return RequestRejected(told, status)


def _message(body: bytes) -> str:
    try:
        answer = json.loads(body)
        return shortened(str(answer["message"]), _LONGEST)
    except (ValueError, KeyError, TypeError):
        return shortened(body.decode(errors="replace"), _LONGEST)
