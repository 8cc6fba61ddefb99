"""Objects as the API server returns them."""

from typing import Any

from landfall_operator.objects.manifests import Owner
from tests.support.cluster_model import group

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


def stored(manifest: dict[str, Any], version: int = 1, uid: str = "d") -> dict[str, Any]:
    """An applied object as the API server returns it."""
    times = {"creationTimestamp": "2026-11-21T12:00:00Z"}
    return {
        **manifest,
        "metadata": {**manifest["metadata"], "uid": uid, "resourceVersion": str(version), **times},
    }
