"""A namespace with a fake kubelet and operators as processes, on a real API server."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.kubernetes.cluster import Cluster
from tests.support.kubernetes.fake_kubelet import Kubelet
from tests.support.kubernetes.groups import Groups, document, install
from tests.support.operator.fake_driver import FakeDriver
from tests.support.operator.operators import PATIENCE, Operators
from tests.support.waiting import eventually

KINDS = {
    *("Deployment", "ConfigMap", "ControllerRevision", "ServiceAccount", "Role", "RoleBinding"),
    *("Service", "NetworkPolicy", "PodDisruptionBudget"),
}
_OWNED = 'jsonpath={range .items[*]}{.kind}/{.metadata.name}={.metadata.uid}{"\\n"}{end}'


@dataclass
class Stage:
    """A namespace with a kubelet and operators, and the name of one group."""

    groups: Groups
    kubelet: Kubelet
    operators: Operators
    name: str = "clicks"

    def create(self, **spec: Any) -> None:
        self.groups.create(document(self.name, **spec))

    def patch(self, **spec: Any) -> None:
        self.groups.patch(self.name, {"spec": spec})

    @property
    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = self.groups.read(self.name).get("status", {})
        return status

    def wait_for(self, phase: str) -> dict[str, Any]:
        return eventually(lambda: self.status, lambda seen: seen.get("phase") == phase, PATIENCE)

    def condition(self, kind: str) -> dict[str, Any]:
        return next((c for c in self.status.get("conditions", []) if c["type"] == kind), {})

    def kubectl_landfall(self, verb: str) -> str:
        """Run ``kubectl landfall`` for the group; returns what it prints."""
        return self.groups.kubectl_landfall(verb, self.name)

    def owned(self) -> dict[str, str]:
        """The uids of the objects that the group owns, by kind and name."""
        kinds = ",".join(kind.lower() for kind in sorted(KINDS))
        listed = self.groups.kubectl(
            "get", kinds, "-l", f"landfall.dev/group={self.name}", "-o", _OWNED
        )
        return dict(line.split("=") for line in listed.split())

    def drivers(self) -> dict[str, FakeDriver]:
        """The drivers of the group, by revision."""
        return {
            driver.revision: driver for driver in self.kubelet.drivers if driver.group == self.name
        }

    def reasons(self) -> set[str]:
        """The reasons of the Events about the group."""
        selector = f"involvedObject.name={self.name},involvedObject.kind=ConsumerGroup"
        printed = self.groups.kubectl(
            "get", "events", "--field-selector", selector, "-o", "jsonpath={.items[*].reason}"
        )
        return set(printed.split())


def staged(cluster: Cluster, namespace: str, folder: Path) -> Iterator[Stage]:
    """Yield a stage; the operators that are started on it end with it."""
    install(cluster)
    operators = Operators(cluster, namespace, folder)
    operators.allow()
    with Kubelet(cluster, namespace).running() as kubelet, operators.clearing():
        yield Stage(Groups(cluster, namespace), kubelet, operators)
