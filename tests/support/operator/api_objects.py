"""Objects as the API server returns them."""

from typing import Any

from landfall.api.spec import ConsumerGroup
from landfall_operator.objects import manifests
from landfall_operator.objects.manifests import Owner
from landfall_operator.objects.pod_templates import driver_template
from tests.support.operator.cluster_model import SITE, group

KEY = ("logs", "clicks")
OWNER = Owner("clicks", "logs", "u")


def resource(
    version: int = 1, uid: str = "u", name: str = "clicks", **changes: Any
) -> dict[str, Any]:
    """A group as the API server returns it; ``changes`` are made to its metadata."""
    made = group(output={"url": f"s3://logs/{name}"})
    metadata = {
        "name": name,
        "namespace": "logs",
        "uid": uid,
        "generation": 1,
        "resourceVersion": str(version),
    }
    spec = made.model_dump(mode="json", by_alias=True, exclude_defaults=True)["spec"]
    return {
        "kind": "ConsumerGroup",
        "metadata": {**metadata, **changes},
        "spec": spec,
        "status": {},
    }


def deployed(spec: ConsumerGroup, owner: Owner = OWNER) -> dict[str, Any]:
    """The Deployment of a group's driver, as it is applied."""
    config = manifests.config_map(owner, spec, "good", 1, SITE)
    template = driver_template(spec, "good", config["metadata"]["name"], SITE)
    return manifests.deployment(owner, spec, 1, template)


def stored(manifest: dict[str, Any], version: int = 1, uid: str = "d") -> dict[str, Any]:
    """An applied object as the API server returns it."""
    times = {"creationTimestamp": "2026-11-21T12:00:00Z"}
    return {
        **manifest,
        "metadata": {**manifest["metadata"], "uid": uid, "resourceVersion": str(version), **times},
    }
