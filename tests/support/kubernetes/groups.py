"""ConsumerGroups of one namespace on a real API server."""

import json
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from dev.servers.cache import locked
from landfall_operator.api.crd import PLURAL
from landfall_operator.api.definition import GROUP, VERSION
from tests.support.kubernetes.cluster import Cluster, Refused
from tests.support.waiting import eventually

Json = dict[str, Any]

RESOURCES = Path(__file__).resolve().parents[3] / "crds"
MERGE = "application/merge-patch+json"
_UNCHECKED = "some validation rules were not checked"
"""The API server's note that it skipped the validation rules because of a wrong type."""


def document(name: str = "clicks", **spec: Any) -> Json:
    """A small group; fields of the spec by name, such as ``uploadPolicy__maxAge``."""
    made: Json = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "ConsumerGroup",
        "metadata": {"name": name},
        "spec": {
            "source": {"kafka": {"bootstrapServers": "kafka:9092", "topics": ["clicks"]}},
            "output": {"url": f"s3://logs/{name}"},
        },
    }
    for field, value in spec.items():
        made = changed(made, f"spec.{field.replace('__', '.')}", value)
    return made


def changed(base: Json, path: str, value: object) -> Json:
    """A copy with one field set; missing parents of the field are created."""
    made = deepcopy(base)
    *parents, last = path.split(".")
    at = made
    for name in parents:
        at = at.setdefault(name, {})
    at[last] = value
    return made


def install(cluster: Cluster) -> None:
    """Install the CustomResourceDefinition of ``crds/``; returns when it is served."""
    with locked(cluster.kubeconfig.with_suffix(".install")):  # by one worker at a time
        cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(RESOURCES))
        eventually(lambda: _served(cluster), bool)


def _served(cluster: Cluster) -> bool:
    try:
        cluster.kubectl("get", f"{PLURAL}.{GROUP}")
        cluster.kubectl("explain", f"{PLURAL}.spec")  # known a moment later
    except Refused:
        return False
    return True


@dataclass(frozen=True)
class Groups:
    """The ConsumerGroups of a namespace."""

    cluster: Cluster
    namespace: str

    def create(self, group: Mapping[str, Any]) -> Json:
        """Create a group; returns it as the API server stored it.

        Raises:
            ApiException: The API server rejects it; see ``refusal``.
        """
        return self._call("create_namespaced_custom_object", dict(group), field_validation="Strict")

    def try_out(self, group: Mapping[str, Any]) -> Json:
        """The group as the API server would store it (a dry run)."""
        return self._call(
            "create_namespaced_custom_object", dict(group), field_validation="Strict", dry_run="All"
        )

    def read(self, name: str) -> Json:
        """The group as it is now."""
        return self._call("get_namespaced_custom_object", name)

    def list(self) -> list[Json]:
        """All groups, sorted by name."""
        found: list[Json] = self._call("list_namespaced_custom_object")["items"]
        return sorted(found, key=lambda group: str(group["metadata"]["name"]))

    def patch(self, name: str, body: object) -> Json:
        """Merge a patch into a group; the API server ignores a status in it."""
        return self._call("patch_namespaced_custom_object", name, body, _content_type=MERGE)

    def patch_status(self, name: str, body: object) -> Json:
        """Merge a patch into the status; the API server ignores a spec in it."""
        return self._call("patch_namespaced_custom_object_status", name, body, _content_type=MERGE)

    def patch_scale(self, name: str, replicas: int) -> Json:
        """Set the replicas through the scale subresource, as HPA and KEDA do."""
        body = {"spec": {"replicas": replicas}}
        return self._call("patch_namespaced_custom_object_scale", name, body, _content_type=MERGE)

    def read_scale(self, name: str) -> Json:
        """The scale subresource, which HPA and KEDA read."""
        return self._call("get_namespaced_custom_object_scale", name)

    def kubectl(self, *arguments: str, manifest: Mapping[str, Any] | None = None) -> str:
        """Run kubectl in this namespace; returns its output."""
        return self.cluster.kubectl("-n", self.namespace, *arguments, manifest=manifest)

    def kubectl_landfall(self, verb: str, name: str) -> str:
        """Run the plug-in through kubectl; returns what it prints."""
        return self.cluster.kubectl("landfall", verb, name, "-n", self.namespace).strip()

    @cached_property
    def _api(self) -> client.CustomObjectsApi:
        return client.CustomObjectsApi(self.cluster.admin)

    def _call(self, method: str, *arguments: Any, **options: Any) -> Json:
        called = getattr(self._api, method)
        made: Json = called(GROUP, VERSION, self.namespace, PLURAL, *arguments, **options)
        return made


def refusal(error: ApiException) -> str:
    """The reasons for which the API server rejected a group, with their fields."""
    answer = json.loads(error.body or "{}")
    causes = [
        cause
        for cause in answer.get("details", {}).get("causes", [])
        if _UNCHECKED not in cause["message"]
    ]
    if not causes:
        return str(answer["message"]).rpartition("cannot be handled as a ConsumerGroup: ")[2]
    return "; ".join(_with_field(cause["field"], cause["message"]) for cause in causes)


def _with_field(field: str, message: str) -> str:
    """The message with its field; an error of the whole object has none."""
    return message.removeprefix("Invalid value: ") if field == "<nil>" else f"{field}: {message}"


def yaml_blocks(page: str) -> list[Any]:
    """The YAML in a page of documentation."""
    return [yaml.safe_load(part.partition("```")[0]) for part in page.split("```yaml\n")[1:]]
