"""What service accounts ask of an API server of ours, as its audit log has it: see
``dev/kube/audit.yaml``.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

from dev.kube.control_plane import audit_log
from tests.support.cluster import Cluster


def has_log(cluster: Cluster) -> bool:
    """Whether this is a cluster of ours."""
    return audit_log(cluster.kubeconfig.parent).exists()


class Right(NamedTuple):
    """What is written as one verb on one resource, in a Role of its own."""

    group: str
    resource: str
    verb: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}{self.group and f'.{self.group}'}"


class Asked(NamedTuple):
    """A request that was answered."""

    right: Right
    refused: str
    """Why it was forbidden, or nothing."""


@dataclass
class Account:
    """A service account of a cluster of ours, which nobody has used yet."""

    cluster: Cluster
    namespace: str
    name: str
    _known: list[Asked] = field(default_factory=list, init=False)
    _at: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._at = self._log.stat().st_size if self._log.exists() else 0

    def asked(self) -> list[Asked]:
        """All that it ever did, the oldest first."""
        user = f"system:serviceaccount:{self.namespace}:{self.name}"
        with self._log.open("rb") as log:
            log.seek(self._at)
            for line in log:
                if not line.endswith(b"\n"):  # it is being written
                    break
                self._at += len(line)
                event = json.loads(line) if user.encode() in line else {}
                if event.get("user", {}).get("username") == user and "objectRef" in event:
                    self._known += _asked(event)
        return self._known

    @property
    def _log(self) -> Path:
        return audit_log(self.cluster.kubeconfig.parent)


def _asked(event: dict[str, Any]) -> Iterator[Asked]:
    about, answer = event["objectRef"], event.get("responseStatus", {})
    resource = "/".join(filter(None, [about.get("resource"), about.get("subresource")]))
    right = Right(about.get("apiGroup", ""), resource, str(event["verb"]))
    yield Asked(
        right, answer.get("message", "?") if answer.get("code") == HTTPStatus.FORBIDDEN else ""
    )
    if right.verb == "patch" and answer.get("code") == HTTPStatus.CREATED:
        yield Asked(right._replace(verb="create"), "")  # by server-side apply, which needs both
