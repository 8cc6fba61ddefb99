"""The phases of the tour of the two groups."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from string import Template
from threading import Thread
from typing import Any

from dev.demo import flights, proof
from dev.demo.buckets import DemoBucket
from dev.demo.buckets.s3 import DemoS3Bucket
from dev.demo.drivers import Group, Landfall, in_other_store
from dev.demo.story import Story
from dev.tour.kubectl import GROUPS, TourKubectl, wait

ROOT = Path(__file__).resolve().parents[2]
CHART, EXAMPLES = ROOT / "charts" / "landfall", ROOT / "examples" / "cluster"
NAMESPACE, SYSTEM = "demo", "landfall"
NAMES = ("backup", "partition")
PRODUCING = 200.0
"""Seconds over which the flights arrive: the phases meanwhile take about that long."""


@dataclass
class Tour:
    """The tour's phases, and their shared state."""

    story: Story
    kubectl: TourKubectl
    landfall: Landfall
    bucket: DemoS3Bucket
    backup: DemoBucket
    """Where the group ``backup`` lands: the same bucket, or one of another store."""
    produced: bool = False

    def install(self, values: tuple[str, ...]) -> None:
        """Install the operator; create the groups' namespace and the Secrets of the stores."""
        arguments = ("-n", SYSTEM, "--create-namespace", "--wait", "--timeout", "5m", *values)
        self.kubectl.install("landfall", CHART, *arguments)
        self.story.show(self.kubectl("get", "pods", "-n", SYSTEM))
        labels = {"landfall.dev/watch": "true"}
        objects: list[dict[str, Any]] = [
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": NAMESPACE, "labels": labels},
            }
        ]
        for name, bucket in self._secrets().items():
            metadata = {"name": name, "namespace": NAMESPACE}
            objects.append(
                {
                    "apiVersion": "v1",
                    "kind": "Secret",
                    "metadata": metadata,
                    "stringData": bucket.secret(),
                }
            )
            # The same Secret as files, for `landfall fsck` outside the cluster.
            self.landfall.save_secret(name, bucket)
        self.kubectl("apply", "-f", "-", given="\n---\n".join(map(json.dumps, objects)))

    def _secrets(self) -> dict[str, DemoBucket]:
        """The bucket that each Secret is for."""
        found: dict[str, DemoBucket] = {"s3": self.bucket}
        for section in self.backup.access().values():
            if reference := section.get("credentialsSecretRef"):
                found[reference["name"]] = self.backup
        return found

    @contextmanager
    def producing(self) -> Iterator[None]:
        """Produce flights while the block runs."""

        def produce() -> None:
            flights.produce(self.landfall.env["LANDFALL_KAFKA"], lambda _: None, over=PRODUCING)
            self.produced = True

        Thread(target=produce, daemon=True).start()
        yield

    def apply(self) -> None:
        """Create both groups and wait for the first commit of each."""
        for group in self.groups():
            self.kubectl("apply", "-f", str(group.file))
        started = time.monotonic()
        for name in NAMES:
            self.next_commit(name, 0)
            self.story.say(
                f"[bold]{name}: first commit {time.monotonic() - started:.0f} s after kubectl apply"
            )

    def kill(self, name: str) -> None:
        """Delete the driver's pod without a grace period, as if its node died."""
        (pod,) = self.kubectl.driver_pods(name)
        before = self.ledger(name).commits
        self.story.say(f"[bold red]kubectl delete pod {pod} --grace-period=0 --force")
        self.kubectl("delete", "pod", pod, "-n", NAMESPACE, "--grace-period=0", "--force")
        seconds = self.next_commit(name, before)
        self.story.say(f"[bold]{name}: next commit {seconds:.0f} s after its driver was deleted")

    def scale(self, name: str, replicas: int) -> None:
        """Add executors to the running driver."""
        (pod,) = self.kubectl.driver_pods(name)
        self.story.say(f"[bold]kubectl scale {GROUPS} {name} --replicas={replicas}")
        self.kubectl("scale", GROUPS, name, "-n", NAMESPACE, f"--replicas={replicas}")
        seconds = wait(
            lambda: self.status(name).get("replicas") == replicas,
            f"{name} has {replicas} executors",
        )
        is_same = self.kubectl.driver_pods(name) == [pod]
        driver = "the same driver" if is_same else "ANOTHER DRIVER"
        self.story.say(f"[bold]{name}: {replicas} executors after {seconds:.0f} s, {driver}")

    def upgrade(self, name: str) -> None:
        """Start a new generation: its driver warms up, then the old one hands over."""
        self.story.say(f"[bold]kubectl patch consumergroup {name}: generation 2")
        self.patch(name, {"spec": {"generation": 2}})
        seconds = wait(
            lambda: self.status(name).get("activeGeneration") == 2, f"{name} runs generation 2"
        )
        self.story.say(f"[bold]{name}: generation 2 is active after {seconds:.0f} s")
        self.next_commit(name, self.ledger(name).commits)
        pause = self.ledger(name).pause()
        self.story.say(
            f"[bold]{name}: {pause:.1f} s between the last commit of generation 1 "
            "and the first of generation 2"
        )

    def finish(self) -> None:
        """Wait until every flight is landed and both groups report no lag."""
        wait(lambda: self.produced, "all flights are produced")
        for name in NAMES:
            seconds = wait(
                lambda: self.ledger(name).rows >= flights.COUNT,  # noqa: B023
                f"{name} lands all flights",
            )
            self.story.say(
                f"[bold]{name}: all {flights.COUNT:,} flights committed {seconds:.0f} s later"
            )
        wait(
            lambda: all(self.status(name)["lag"]["records"] == 0 for name in NAMES),
            "both groups report no lag",
        )

    def suspend(self) -> None:
        """Suspend both groups: their drivers drain, and no other driver takes over."""
        for name in NAMES:
            self.patch(name, {"spec": {"state": "Suspended"}})
        wait(
            lambda: all(self.status(name)["phase"] == "Suspended" for name in NAMES),
            "both groups are suspended",
        )

    def groups(self) -> list[Group]:
        """Both groups, their YAML files with the addresses filled in."""
        env, folder = {**self.landfall.env, "BUCKET": self.bucket.name}, self.landfall.folder
        for name in NAMES:
            text = (EXAMPLES / f"{name}.yaml").read_text()
            document = Template(text).substitute(env)
            if self._bucket_of(name) is not self.bucket:
                document = in_other_store(document, self.backup)
            (folder / f"{name}.yaml").write_text(document)
        return [Group(name, folder / f"{name}.yaml") for name in NAMES]

    def ledger(self, name: str) -> proof.DemoLedger:
        """A group's ledger as it is now."""
        return proof.DemoLedger(self._bucket_of(name), name).follow()

    def _bucket_of(self, name: str) -> DemoBucket:
        return self.backup if name == "backup" else self.bucket

    def next_commit(self, name: str, before: int) -> float:
        """Wait for a group's next commit after ``before``; returns how many seconds it took."""
        return wait(lambda: self.ledger(name).commits > before, f"{name} commits")

    def patch(self, name: str, patch: Mapping[str, Any]) -> None:
        """Change a group's resource by a merge patch."""
        self.kubectl(
            "patch", GROUPS, name, "-n", NAMESPACE, "--type=merge", "-p", json.dumps(patch)
        )

    def status(self, name: str) -> dict[str, Any]:
        """The status of a group's resource."""
        status: dict[str, Any] = self.kubectl.group(name).get("status", {})
        return status
