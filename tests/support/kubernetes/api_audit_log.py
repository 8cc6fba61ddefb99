"""The requests of ServiceAccounts, from the audit log of a ``dev/cluster``."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

from dev.kube.control_plane import audit_log
from tests.support.kubernetes.cluster import Cluster


def has_log(cluster: Cluster) -> bool:
    """Whether the cluster is one of ``dev/cluster``, which alone has this log."""
    return audit_log(cluster.kubeconfig.parent).exists()


class Right(NamedTuple):
    """One verb on one resource, the smallest unit of an RBAC rule."""

    group: str
    resource: str
    verb: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}{self.group and f'.{self.group}'}"


class AuditedRequest(NamedTuple):
    """A request and its outcome."""

    right: Right
    refused: str
    """Why it was forbidden; empty if it was not."""


@dataclass
class Account:
    """The requests that a ServiceAccount sends from now on."""

    cluster: Cluster
    namespace: str
    name: str
    _requests: list[AuditedRequest] = field(default_factory=list, init=False)
    _offset: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._offset = self._log.stat().st_size if self._log.exists() else 0

    def asked(self) -> list[AuditedRequest]:
        """All requests of the account, oldest first."""
        user = f"system:serviceaccount:{self.namespace}:{self.name}"
        with self._log.open("rb") as log:
            log.seek(self._offset)
            for line in log:
                if not line.endswith(b"\n"):  # the line is still being written
                    break
                self._offset += len(line)
                event = json.loads(line) if user.encode() in line else {}
                if event.get("user", {}).get("username") == user and "objectRef" in event:
                    self._requests += _parsed(event)
        return self._requests

    @property
    def _log(self) -> Path:
        return audit_log(self.cluster.kubeconfig.parent)


def _parsed(event: dict[str, Any]) -> Iterator[AuditedRequest]:
    about, answer = event["objectRef"], event.get("responseStatus", {})
    resource = "/".join(filter(None, [about.get("resource"), about.get("subresource")]))
    right = Right(about.get("apiGroup", ""), resource, str(event["verb"]))
    yield AuditedRequest(
        right, answer.get("message", "?") if answer.get("code") == HTTPStatus.FORBIDDEN else ""
    )
    if right.verb == "patch" and answer.get("code") == HTTPStatus.CREATED:
        yield AuditedRequest(
            right._replace(verb="create"), ""
        )  # server-side apply that creates needs both rights
