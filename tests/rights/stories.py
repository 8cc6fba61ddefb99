"""Small stories that need every right once: of the operator, with a kubelet and drivers that are
played, and of a driver's Spark.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
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
from tests.support.api_audit_log import Account, Right
from tests.support.cluster import Cluster
from tests.support.fake_kubelet import Kubelet
from tests.support.groups import Groups, Json, document
from tests.support.operators import Operators, Running
from tests.support.waiting import eventually

T = TypeVar("T")
PATIENCE = 120.0


class Denied(Exception):  # noqa: N818  # what happened
    """The API server refused something for want of a right."""

    def __init__(self, right: Right, why: str) -> None:
        super().__init__(why)
        self.right = right


@dataclass(frozen=True)
class Stage:
    """A namespace, and an account in it whose every request must be allowed."""

    groups: Groups
    account: Account

    def until(self, look: Callable[[], T], enough: Callable[[T], object]) -> T:
        """What is seen as soon as it is enough.

        Raises:
            Denied: the account was refused something.
        """

        def seen() -> T:
            for asked in self.account.asked():
                if asked.refused:
                    raise Denied(asked.right, asked.refused)
            return look()

        return eventually(seen, enough, PATIENCE)

    def status(self) -> Json:
        found: Json = self.groups.read("clicks").get("status", {})
        return found

    def until_phase(self, phase: str) -> None:
        self.until(self.status, lambda seen: seen.get("phase") == phase)

    def record(self, owner: Json, group: Json, number: int) -> Json:
        """Of a spec of this group, as the operator makes it."""
        whose = Owner("clicks", self.groups.namespace, owner["metadata"]["uid"])
        return controller_revision(whose, parse_group(group), "landfall:1", number)

    def names(self, kind: str) -> set[str]:
        """Of all objects of a kind."""
        return set(self.groups.kubectl("get", kind, "-o", "name").split())


def lands(stage: Stage) -> None:
    """A group is made, by an operator that finds more specs of its past than it keeps, and is
    deleted; the operator ends.
    """
    made = stage.groups.create(document())
    for number in range(HISTORY):
        record = stage.record(made, document(driver={"annotations": {"n": str(number)}}), number)
        stage.groups.kubectl("create", "-f", "-", manifest=record)
    with _operator(stage) as operator:
        stage.until_phase("Running")
        stage.until(lambda: stage.names("controllerrevisions"), lambda seen: len(seen) <= HISTORY)
        stage.groups.kubectl("delete", "cg", "clicks", "--wait=false")
        stage.until(lambda: stage.names("cg"), lambda seen: not seen)
        stage.until(operator.end, lambda code: code == ExitCode.OK)
        given_away = Right("coordination.k8s.io", "leases", "update")
        stage.until(
            stage.account.asked, lambda asked: any(request.right == given_away for request in asked)
        )


def upgrades(stage: Stage) -> None:
    """A group gets another generation, and the old one goes with all it ran by."""
    stage.groups.create(document(generation=1))
    with _operator(stage):
        stage.until_phase("Running")
        old = stage.names("deployments,configmaps")
        stage.groups.patch("clicks", {"spec": {"generation": 2}})
        stage.until(
            lambda: stage.names("deployments,configmaps") & old,
            lambda left: left <= {"configmap/kube-root-ca.crt"},
        )


def repeats(stage: Stage) -> None:
    """What is to be recorded is there, out of sight; and a group is suspended twice, which is one
    Event that is counted.
    """
    made = stage.groups.create(document())
    record = stage.record(made, document(), 0)
    del record["metadata"]["labels"]
    stage.groups.kubectl("create", "-f", "-", manifest=record)
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


def executes(stage: Stage) -> None:
    """A driver's Spark makes executors, clears away one that failed and makes another, lets one go,
    and ends.
    """
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
    """What is played, and whose rights it is about."""

    play: Callable[[Stage], None]
    account: str
    rules: Rules


STORIES = (
    Story(lands, OPERATOR, OPERATORS),
    Story(upgrades, OPERATOR, OPERATORS),
    Story(repeats, OPERATOR, OPERATORS),
    Story(executes, DRIVER, DRIVERS),
)


def played(cluster: Cluster, story: Story, rules: Rules) -> set[Right]:
    """The rights that a story used, in a namespace of its own of a cluster that knows groups, with
    these rules.

    Raises:
        Denied: it needed another one.
    """
    namespace = cluster.create_namespace()
    stage = Stage(Groups(cluster, namespace), Account(cluster, namespace, story.account))
    cluster.allow(namespace, story.account, rules)
    try:
        story.play(stage)
        return {asked.right for asked in stage.account.asked()}
    finally:
        with suppress(ApiException):  # there may be no group, or no longer
            stage.groups.patch("clicks", {"metadata": {"finalizers": None}})
        cluster.delete_namespace(namespace)


@contextmanager
def _operator(stage: Stage) -> Iterator[Running]:
    """An operator, and a kubelet with drivers."""
    where = stage.groups.cluster, stage.groups.namespace
    with TemporaryDirectory() as folder, Kubelet(*where).running():
        operators = Operators(*where, Path(folder))
        with operators.clearing():
            yield operators.start()
