"""Kubernetes Events about groups: one object per group, reason and message, that counts how often it was said.

Its name is made from those, so an operator that was started anew goes on counting the same one.
"""

import hashlib
from collections.abc import Callable
from datetime import datetime

from landfall_operator.core.actions import EmitEvent
from landfall_operator.humanize import shortened
from landfall_operator.objects import names
from landfall_operator.objects.manifests import Owner
from landfall_operator.objects.overlay import Json
from landfall_operator.runtime.kube_client import Conflict, Kube
from landfall_operator.runtime.metrics import Metrics

LONGEST = 1000
"""Characters of a message; the API server takes 1024."""


class Events:
    """Posts them."""

    def __init__(self, kube: Kube, metrics: Metrics, clock: Callable[[], datetime]) -> None:
        """Times come from ``clock``."""
        self._kube = kube
        self._metrics = metrics
        self._clock = clock

    def post(self, owner: Owner, said: EmitEvent) -> None:
        """Say something about a group, or count that it was said again."""
        event = manifest(owner, said, self._clock())
        try:
            self._kube.create(event)
        except Conflict:
            name = event["metadata"]["name"]
            known = self._kube.get("Event", owner.namespace, name)
            patch = {"count": known.get("count", 1) + 1, "lastTimestamp": event["lastTimestamp"]}
            self._kube.merge("Event", owner.namespace, name, patch)
        self._metrics.announcements.labels(said.kind).inc()


def manifest(owner: Owner, said: EmitEvent, now: datetime) -> Json:
    """The Event as it is posted first."""
    message = shortened(said.message, LONGEST)
    digest = hashlib.sha256(
        f"{owner.uid} {said.kind} {said.reason} {message}".encode()
    ).hexdigest()[:16]
    time = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{owner.name}.{digest}", "namespace": owner.namespace},
        "involvedObject": {
            "apiVersion": names.API_VERSION,
            "kind": "ConsumerGroup",
            "name": owner.name,
            "namespace": owner.namespace,
            "uid": owner.uid,
        },
        "type": said.kind,
        "reason": said.reason,
        "message": message,
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
        "source": {"component": names.OPERATOR},
        "reportingComponent": names.OPERATOR,
    }
