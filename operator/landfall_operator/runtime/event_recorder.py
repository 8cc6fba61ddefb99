"""Kubernetes Events: one object per resource, reason and message that counts repetitions.

The name is derived from these three, so a restarted operator keeps counting in the same object.
"""

import hashlib
from collections.abc import Callable
from datetime import datetime

from landfall_operator.api.status_values import printable
from landfall_operator.core.actions import EmitEvent
from landfall_operator.humanize import shortened
from landfall_operator.objects import names
from landfall_operator.objects.manifests import Owner
from landfall_operator.objects.overlay import Json
from landfall_operator.runtime.kube_client import Conflict, KubeClient
from landfall_operator.runtime.metrics import Metrics

MAX_MESSAGE_CHARACTERS = 1000
"""The API server accepts 1024."""


class EventRecorder:
    """Posts Events to the API server; its calls block."""

    def __init__(self, kube: KubeClient, metrics: Metrics, clock: Callable[[], datetime]) -> None:
        """``clock`` gives the timestamps of the Events."""
        self._kube = kube
        self._metrics = metrics
        self._clock = clock

    def post(self, owner: Owner, action: EmitEvent) -> None:
        """Create the Event of an action, or increase the count of the Event that exists.

        Raises:
            Retry: The API server does not answer, or the Event changed at the same time.
            NotFound: The Event expired between two requests, or the namespace is gone.
        """
        event = manifest(owner, action, self._clock())
        try:
            self._kube.create(event)
        except Conflict:
            name = event["metadata"]["name"]
            existing = self._kube.get("Event", owner.namespace, name)
            patch = {"count": existing.get("count", 1) + 1, "lastTimestamp": event["lastTimestamp"]}
            self._kube.merge("Event", owner.namespace, name, patch)
        self._metrics.events.labels(action.kind).inc()


def manifest(owner: Owner, action: EmitEvent, now: datetime) -> Json:
    """The Event as it is created, with a count of one."""
    message = shortened(printable(action.message), MAX_MESSAGE_CHARACTERS)
    digest = hashlib.sha256(
        f"{owner.uid} {action.kind} {action.reason} {message}".encode()
    ).hexdigest()[:16]
    time = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{owner.name}.{digest}", "namespace": owner.namespace},
        "involvedObject": {
            "apiVersion": names.API_VERSION,
            "kind": owner.kind,
            "name": owner.name,
            "namespace": owner.namespace,
            "uid": owner.uid,
        },
        "type": action.kind,
        "reason": action.reason,
        "message": message,
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
        "source": {"component": names.OPERATOR},
        "reportingComponent": names.OPERATOR,
    }
