"""A small client of the API server: few verbs, plain JSON, a timeout on every request, and metrics.

All calls block, so the operator makes them only in threads. Nothing is retried here: a reconcile
pass that fails is followed by another one, which observes the cluster again. Failures are raised as
the few kinds of errors that a pass treats differently.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
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

CONNECT_SECONDS = 3.0
ANSWER_SECONDS = 10.0
PAGE_SIZE = 500
"""The largest number of objects in one response to a list."""
_MAX_CHARACTERS = 500
_JSON = "application/json"
_WRITES: Mapping[str, tuple[str, str]] = {
    "create": ("POST", _JSON),
    "update": ("PUT", _JSON),
    "apply": ("PATCH", "application/apply-patch+yaml"),
    "patch": ("PATCH", "application/merge-patch+json"),
    "delete": ("DELETE", _JSON),
}
"""The HTTP method of each verb that writes, and the content type of its body."""
_UNAVAILABLE = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})


class Conflict(Retry):
    """The object was changed or created by another client; the caller has to observe it again."""


class Unavailable(Retry):
    """The API server did not answer, or asks to be called later."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        """``retry_after`` is the number of seconds that the API server asks to wait, if any."""
        super().__init__(message)
        self.retry_after = retry_after


class NotFound(LandfallError):  # noqa: N818  # the name is the state
    """The object does not exist."""


class RequestRejected(LandfallError):  # noqa: N818  # the name is the state
    """The API server rejects a request for good: a right is missing or the object is invalid."""

    def __init__(self, message: str, code: int) -> None:
        """Keep the HTTP status code, which distinguishes the two cases."""
        super().__init__(message)
        self.code = code

    @property
    def invalid(self) -> bool:
        """Return whether the object is at fault, not a missing right."""
        return self.code in {HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY}


class ResourceKind(NamedTuple):
    """A kind of object, and where the API server serves it."""

    name: str
    group: str
    version: str
    plural: str

    @property
    def api_version(self) -> str:
        """The ``apiVersion`` of manifests."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None, *rest: str) -> str:
        """The URL path of a kind's objects, or of one; ``namespace`` None means all namespaces."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        within = f"/namespaces/{quote(namespace)}" if namespace else ""
        return "/".join([f"{root}{within}/{self.plural}", *map(quote, rest)])


KINDS: Mapping[str, ResourceKind] = {
    kind.name: kind
    for kind in (
        ResourceKind("ConsumerGroup", "landfall.dev", "v1alpha1", "consumergroups"),
        ResourceKind("Backfill", "landfall.dev", "v1alpha1", "backfills"),
        ResourceKind("Namespace", "", "v1", "namespaces"),
        ResourceKind("Pod", "", "v1", "pods"),
        ResourceKind("Deployment", "apps", "v1", "deployments"),
        ResourceKind("ControllerRevision", "apps", "v1", "controllerrevisions"),
        ResourceKind("ConfigMap", "", "v1", "configmaps"),
        ResourceKind("ServiceAccount", "", "v1", "serviceaccounts"),
        ResourceKind("Service", "", "v1", "services"),
        ResourceKind("Role", "rbac.authorization.k8s.io", "v1", "roles"),
        ResourceKind("RoleBinding", "rbac.authorization.k8s.io", "v1", "rolebindings"),
        ResourceKind("NetworkPolicy", "networking.k8s.io", "v1", "networkpolicies"),
        ResourceKind("PodDisruptionBudget", "policy", "v1", "poddisruptionbudgets"),
        ResourceKind("Secret", "", "v1", "secrets"),
        ResourceKind("Event", "", "v1", "events"),
        ResourceKind("Lease", "coordination.k8s.io", "v1", "leases"),
    )
}


class Page(NamedTuple):
    """Some of the listed objects.

    Attributes:
        items: The objects.
        version: The resourceVersion of the whole list, the same on all of its pages.
        rest: Continues the list on the next page; empty on the last one.
    """

    items: list[Json]
    version: str
    rest: str


@dataclass(frozen=True, slots=True)
class KubeRequest:
    """One request; ``verb`` is the value of the metric's label."""

    verb: str
    kind: ResourceKind
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None

    @property
    def method(self) -> str:
        """The HTTP method."""
        return self._form[0]

    @property
    def content(self) -> str:
        """The content type of the body."""
        return self._form[1]

    @property
    def _form(self) -> tuple[str, str]:
        # A patch of a subresource is a verb of its own: patch_status.
        return _WRITES.get(self.verb.partition("_")[0], ("GET", _JSON))


class KubeClient:
    """Sends requests to the API server."""

    def __init__(
        self,
        configuration: Configuration,
        metrics: Metrics,
        *,
        connections: int = 16,
        answer_seconds: float = ANSWER_SECONDS,
        before_write: Callable[[], None] = lambda: None,
    ) -> None:
        """Keep up to ``connections`` open, and wait at most ``answer_seconds`` for each response.

        ``before_write`` is called before each write and prevents it by raising Fenced.
        """
        # urllib3 would repeat a request whose answer was lost, without asking before_write again.
        configuration.retries = False
        configuration.connection_pool_maxsize = connections
        self._client = ApiClient(configuration)
        self._metrics = metrics
        self._timeout = (CONNECT_SECONDS, answer_seconds)
        self._before_write = before_write

    def serves(self, kind: str) -> bool:
        """Return whether the API server serves a kind."""
        served = KINDS[kind]
        request = KubeRequest("discover", served, f"/apis/{served.group}/{served.version}")
        try:
            return any(
                resource["name"] == served.plural for resource in self._send(request)["resources"]
            )
        except NotFound:
            return False

    def get(self, kind: str, namespace: str, name: str) -> Json:
        """One object.

        Raises:
            NotFound: It does not exist.
        """
        served = KINDS[kind]
        return self._send(KubeRequest("get", served, served.path(namespace, name)))

    def find(self, kind: str, namespace: str, name: str) -> Json:
        """One object of a kind that the operator may list: it needs no right to get it.

        Raises:
            NotFound: It does not exist.
        """
        answer = self._list(kind, namespace, fieldSelector=f"metadata.name={name}")
        if not answer["items"]:
            raise NotFound(f"{kind} {namespace}/{name} does not exist")
        found: Json = answer["items"][0]
        return found

    def pages(self, kind: str, namespace: str | None, selector: str = "") -> Iterator[Page]:
        """All pages of a list, in order; the arguments are the same as for ``page``."""
        rest = ""
        while True:
            page = self.page(kind, namespace, selector, rest)
            yield page
            rest = page.rest
            if not rest:
                return

    def page(self, kind: str, namespace: str | None, selector: str, rest: str = "") -> Page:
        """Up to ``PAGE_SIZE`` objects that match a label selector, in one namespace or in all.

        Args:
            kind: The kind of the objects.
            namespace: Their namespace; None for all.
            selector: The label selector; empty for all objects.
            rest: The ``rest`` of the page before this one.
        """
        query = {"labelSelector": selector, "limit": str(PAGE_SIZE)}
        if rest:
            query["continue"] = rest
        answer = self._list(kind, namespace, **query)
        listed = answer["metadata"]
        return Page(answer["items"], listed["resourceVersion"], listed.get("continue", ""))

    def events_about(self, namespace: str, pod: str, reason: str) -> list[Json]:
        """The Events about a pod that have a reason."""
        fields = {"involvedObject.kind": "Pod", "involvedObject.name": pod, "reason": reason}
        selector = ",".join(f"{name}={value}" for name, value in fields.items())
        answer = self._list("Event", namespace, fieldSelector=selector, limit=str(PAGE_SIZE))
        found: list[Json] = answer["items"]
        return found

    def may_list(self, kind: str, namespace: str | None, selector: str) -> None:
        """Return if the operator may list objects of a kind.

        Raises:
            RequestRejected: It may not.
        """
        self._list(kind, namespace, labelSelector=selector, limit="1")

    def create(self, manifest: Json) -> Json:
        """Create an object.

        Raises:
            Conflict: An object of this name exists.
        """
        served = KINDS[manifest["kind"]]
        return self._write(
            "create", served, served.path(manifest["metadata"]["namespace"]), manifest
        )

    def replace(self, manifest: Json) -> Json:
        """Replace a whole object; its ``resourceVersion`` is the version that the caller read.

        Raises:
            Conflict: The object has another version now.
        """
        return self._write("update", KINDS[manifest["kind"]], _path(manifest), manifest)

    def apply(self, manifest: Json) -> Json:
        """Create or change an object by server-side apply; takes over fields of other managers."""
        served = KINDS[manifest["kind"]]
        return self._write("apply", served, _path(manifest), manifest, force="true")

    def merge(
        self, kind: str, namespace: str, name: str, patch: Json, subresource: str = ""
    ) -> Json:
        """Change parts of an object by a merge patch; None removes a field.

        Raises:
            Conflict: The patch contains a ``resourceVersion`` that is not the current one.
        """
        served = KINDS[kind]
        path = served.path(namespace, name, *filter(None, [subresource]))
        return self._write(f"patch_{subresource}" if subresource else "patch", served, path, patch)

    def delete(self, kind: str, namespace: str, name: str, uid: str) -> Json:
        """Delete an object in the foreground, that is, after everything that it owns.

        Raises:
            Conflict: The object of this name has another uid; it is not deleted.
        """
        served = KINDS[kind]
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
            "propagationPolicy": "Foreground",
        }
        return self._send(KubeRequest("delete", served, served.path(namespace, name), body=options))

    def _list(self, kind: str, namespace: str | None, **query: str) -> Json:
        """The API server's list; ``query`` has the parameters of the URL."""
        served = KINDS[kind]
        return self._send(KubeRequest("list", served, served.path(namespace), query))

    def _write(self, verb: str, kind: ResourceKind, path: str, body: Json, **query: str) -> Json:
        """Write as the operator; ``query`` has further parameters of the URL."""
        written = {"fieldManager": OPERATOR, **query}
        return self._send(KubeRequest(verb, kind, path, written, body=body))

    def _send(self, request: KubeRequest) -> Json:
        """The response as JSON.

        Raises:
            NotFound: The status is 404.
            Conflict: The status is 409.
            Unavailable: There is no response, or its status is 408, 429 or 5xx.
            RequestRejected: The status is any other one from 400 on.
            Fenced: The request is a write, and this operator is no longer the leader.
        """
        if request.method != "GET":
            self._before_write()
        began = time.monotonic()
        code = "error"
        try:
            status, body, retry_after = self._answer(request)
            code = str(status)
        finally:
            self._metrics.api_requests.labels(request.verb, request.kind.name, code).inc()
            self._metrics.api_seconds.labels(request.verb).observe(time.monotonic() - began)
        if status < HTTPStatus.BAD_REQUEST:
            answer: Json = json.loads(body)
            return answer
        raise _error(request, status, body, retry_after)

    def _answer(self, request: KubeRequest) -> tuple[int, bytes, str | None]:
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
                f"{request.verb} {request.path}: no answer: "
                f"{shortened(str(error), _MAX_CHARACTERS)}"
            ) from error


def _path(manifest: Json) -> str:
    """The URL path of the object that a manifest describes."""
    metadata = manifest["metadata"]
    return KINDS[manifest["kind"]].path(metadata["namespace"], metadata["name"])


def _error(
    request: KubeRequest, status: int, body: bytes, retry_after: str | None
) -> LandfallError:
    message = f"{request.verb} {request.path}: {status} {_message(body)}"
    if status == HTTPStatus.NOT_FOUND:
        return NotFound(message)
    if status == HTTPStatus.CONFLICT:
        return Conflict(message)
    if status in _UNAVAILABLE or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Unavailable(
            message,
            # HTTP also allows a date, which the API server does not use.
            float(retry_after) if retry_after and retry_after.isdigit() else None,
        )
    return RequestRejected(message, status)


def _message(body: bytes) -> str:
    """The message of a ``Status`` object, or the beginning of any other body."""
    try:
        answer = json.loads(body)
        return shortened(str(answer["message"]), _MAX_CHARACTERS)
    except (ValueError, KeyError, TypeError):
        return shortened(body.decode(errors="replace"), _MAX_CHARACTERS)
