"""Scenarios that together need every right: six of the operator and one of a driver's Spark.

The operator runs with a fake kubelet and fake drivers.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from kubernetes.client.exceptions import ApiException

from landfall.api.contract import ExitCode
from landfall.api.spec import parse_group
from landfall_operator.core.decide import HISTORY
from landfall_operator.objects.manifests import Owner, controller_revision
from landfall_operator.objects.names import OPERATOR
from tests.rights.grants import DRIVERS, OPERATORS, Rules
from tests.rights.spark import DRIVER, EXECUTORS, Spark
from tests.support.kubernetes.api_audit_log import Account, Right
from tests.support.kubernetes.cluster import Cluster, Refused
from tests.support.kubernetes.fake_kubelet import Kubelet
from tests.support.kubernetes.groups import Groups, Json, document
from tests.support.operator.operators import Operators, Running
from tests.support.waiting import eventually

T = TypeVar("T")
PATIENCE = 120.0


class Denied(Exception):  # noqa: N818  # the name is the state
    """The API server denied a request because a right was missing."""

    def __init__(self, right: Right, message: str) -> None:
        super().__init__(message)
        self.right = right


@dataclass(frozen=True)
class Stage:
    """A namespace, and a service account in it of which no request may be denied."""

    groups: Groups
    account: Account

    def until(self, observe: Callable[[], T], condition: Callable[[T], object]) -> T:
        """Wait until the condition holds for what is observed, and return that.

        Raises:
            Denied: a request of the account was denied.
        """

        def observe_allowed() -> T:
            for request in self.account.asked():
                if request.refused:
                    raise Denied(request.right, request.refused)
            return observe()

        return eventually(observe_allowed, condition, PATIENCE)

    def status(self) -> Json:
        status: Json = self.groups.read("clicks").get("status", {})
        return status

    def until_phase(self, phase: str) -> None:
        self.until(self.status, lambda status: status.get("phase") == phase)

    def revision(self, owner: Json, group: Json, number: int) -> Json:
        """Return a ControllerRevision of a spec of this group, as the operator creates it."""
        owner_ = Owner("clicks", self.groups.namespace, owner["metadata"]["uid"])
        return controller_revision(owner_, parse_group(group), "landfall:1", number)

    def names(self, kind: str) -> set[str]:
        """Return the names of all objects of a kind."""
        return set(self.groups.kubectl("get", kind, "-o", "name").split())


def lands(stage: Stage) -> None:
    """A group with too many revisions runs and is deleted, and the operator ends."""
    created = stage.groups.create(document())
    for number in range(HISTORY):
        spec = document(driver={"annotations": {"n": str(number)}})
        revision = stage.revision(created, spec, number)
        stage.groups.kubectl("create", "-f", "-", manifest=revision)
    with _operator(stage) as operator:
        stage.until_phase("Running")
        stage.until(lambda: stage.names("controllerrevisions"), lambda seen: len(seen) <= HISTORY)
        stage.groups.kubectl("delete", "cg", "clicks", "--wait=false")
        stage.until(lambda: stage.names("cg"), lambda seen: not seen)
        stage.until(operator.end, lambda code: code == ExitCode.OK)
        release_lease = Right("coordination.k8s.io", "leases", "update")
        stage.until(
            stage.account.asked,
            lambda requests: any(request.right == release_lease for request in requests),
        )


def upgrades(stage: Stage) -> None:
    """A group gets a new generation, and the objects of the old one are deleted."""
    stage.groups.create(document(generation=1))
    with _operator(stage):
        stage.until_phase("Running")
        old = stage.names("deployments,configmaps")
        stage.groups.patch("clicks", {"spec": {"generation": 2}})
        stage.until(
            lambda: stage.names("deployments,configmaps") & old,
            lambda left: left <= {"configmap/kube-root-ca.crt", "configmap/clicks-driver"},
        )


def repeats(stage: Stage) -> None:
    """A revision that the operator wants to create exists, and an Event occurs twice.

    The revision has no labels, so the operator does not list it. The group is suspended twice,
    which the operator reports as one Event with a count of 2.
    """
    created = stage.groups.create(document())
    revision = stage.revision(created, document(), 0)
    del revision["metadata"]["labels"]
    stage.groups.kubectl("create", "-f", "-", manifest=revision)
    with _operator(stage):
        for state in ("Running", "Suspended", "Running", "Suspended"):
            stage.groups.patch("clicks", {"spec": {"state": state}})
            stage.until_phase(state)
        stage.until(
            lambda: stage.groups.kubectl(
                "get", "events", "-o", "jsonpath={.items[*].count}"
            ).split(),
            lambda seen: "2" in seen,
        )


def waits(stage: Stage) -> None:
    """No kubelet starts the driver, and the operator looks at the Events of its pod."""
    stage.groups.create(document())
    with _operator(stage, has_kubelet=False):
        looked = Right("", "events", "list")
        stage.until(
            stage.account.asked,
            lambda requests: any(request.right == looked for request in requests),
        )


def corrects(stage: Stage) -> None:
    """A Backfill of a group is started, and deleted with its side lane."""
    stage.groups.create(document())
    metadata = {"name": "fix", "namespace": stage.groups.namespace}
    manifest = {
        "apiVersion": "landfall.dev/v1alpha1",
        "kind": "Backfill",
        "metadata": metadata,
        "spec": {"group": "clicks", "last": "1h"},
    }
    with _operator(stage):
        stage.until_phase("Running")
        stage.groups.kubectl("create", "-f", "-", manifest=manifest)
        stage.until(lambda: stage.names("pods"), lambda seen: "pod/backfill-fix" in seen)
        stage.groups.kubectl("delete", "cgb", "fix", "--wait=false")
        stage.until(lambda: stage.names("pods"), lambda seen: "pod/discard-fix" in seen)
        # The fake kubelet runs drivers only.
        end = {"name": "driver", "state": {"terminated": {"exitCode": 0}}, **_CONTAINER}
        status = {"status": {"phase": "Succeeded", "containerStatuses": [end]}}
        stage.groups.kubectl(
            *("patch", "pod", "discard-fix", "--subresource=status", "--type=merge"),
            *("-p", json.dumps(status)),
        )
        stage.until(lambda: stage.names("cgb"), lambda seen: not seen)


def tries(stage: Stage) -> None:
    """A revision is tried by a Backfill, and withdrawn."""
    stage.groups.create(document(upgrade={"strategy": "Shadow"}))
    with _operator(stage):
        stage.until_phase("Running")
        stage.groups.patch("clicks", {"spec": {"route": {"pattern": "day={date}"}}})
        (made,) = stage.until(lambda: stage.names("cgb"), bool)
        stage.groups.patch("clicks", {"spec": {"route": None}})
        deleted = Right("landfall.dev", "backfills", "delete")
        stage.until(
            stage.account.asked,
            lambda requests: any(request.right == deleted for request in requests),
        )
    # If it is still there, nobody is left to discard what it has landed.
    finalizers = '{"metadata": {"finalizers": null}}'
    with suppress(Refused):
        stage.groups.kubectl("patch", made, "--type=merge", "-p", finalizers)


_CONTAINER = {"image": "", "imageID": "", "ready": False, "restartCount": 0}


def executes(stage: Stage) -> None:
    """A driver's Spark creates executors, replaces one that failed, removes one, and ends."""
    with Spark(stage.groups).running() as spark:
        first = stage.until(spark.executors, lambda seen: len(seen) == EXECUTORS)
        failed = json.dumps({"status": {"phase": "Failed"}})
        stage.groups.kubectl(
            "patch", first[0], "--subresource=status", "--type=merge", "-p", failed
        )
        stage.until(spark.executors, lambda seen: len(seen) == EXECUTORS and first[0] not in seen)
        spark.want(1)
        stage.until(spark.executors, lambda seen: len(seen) == 1)
        spark.end()
        stage.until(spark.executors, lambda seen: not seen)
        stage.until(spark.has_ended, bool)


@dataclass(frozen=True, eq=False)
class Story:
    """A scenario, the service account that it runs with, and the rules of that account's Role."""

    run: Callable[[Stage], None]
    account: str
    rules: Rules


STORIES = (
    Story(lands, OPERATOR, OPERATORS),
    Story(upgrades, OPERATOR, OPERATORS),
    Story(repeats, OPERATOR, OPERATORS),
    Story(waits, OPERATOR, OPERATORS),
    Story(corrects, OPERATOR, OPERATORS),
    Story(tries, OPERATOR, OPERATORS),
    Story(executes, DRIVER, DRIVERS),
)


def play(cluster: Cluster, story: Story, rules: Rules) -> set[Right]:
    """Run a scenario with these rules in a new namespace, and return the rights that it used.

    The cluster must have the CustomResourceDefinition.

    Raises:
        Denied: it needed a right that the rules do not grant.
    """
    namespace = cluster.create_namespace()
    stage = Stage(Groups(cluster, namespace), Account(cluster, namespace, story.account))
    cluster.allow(namespace, story.account, rules)
    try:
        story.run(stage)
        return {request.right for request in stage.account.asked()}
    finally:
        with suppress(ApiException):  # the group may not exist
            stage.groups.patch("clicks", {"metadata": {"finalizers": None}})
        cluster.delete_namespace(namespace)


@contextmanager
def _operator(stage: Stage, *, has_kubelet: bool = True) -> Iterator[Running]:
    """Run an operator, and a fake kubelet with fake drivers."""
    namespace = stage.groups.cluster, stage.groups.namespace
    kubelet = Kubelet(*namespace).running() if has_kubelet else nullcontext()
    with TemporaryDirectory() as folder, kubelet:
        operators = Operators(*namespace, Path(folder))
        with operators.clearing():
            yield operators.start()
