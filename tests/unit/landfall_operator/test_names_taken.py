"""Objects of others that have the name of a group's object are left as they are."""

from collections.abc import Iterator
from typing import Any

import pytest

from landfall_operator.runtime import reconciler
from landfall_operator.runtime.action_executor import NameTaken
from tests.support.operator.api_objects import KEY
from tests.support.operator.reconciled import Reconciled

OTHERS = ["ConfigMap", "Role", "RoleBinding", "Service", "NetworkPolicy", "PodDisruptionBudget"]


@pytest.fixture
def one(monkeypatch: pytest.MonkeyPatch) -> Iterator[Reconciled]:
    monkeypatch.setattr(reconciler, "RETRY_SECONDS", 0.001)
    made = Reconciled()
    yield made
    made.pool.shutdown()


def somebody_elses(one: Reconciled, kind: str, **labels: str) -> dict[str, Any]:
    metadata = {"name": "clicks-driver", "namespace": "logs", "labels": labels}
    return one.api.store(one.path(kind, "clicks-driver"), {"kind": kind, "metadata": metadata})


async def passes(one: Reconciled, count: int = 4) -> None:
    for _ in range(count):
        try:
            await one.reconciler.reconcile(KEY)
        except NameTaken:
            continue


def stalled(one: Reconciled) -> tuple[str, str, str]:
    conditions = {each["type"]: each for each in one.group["status"]["conditions"]}
    found = conditions["Stalled"]
    return found["status"], found["reason"], found.get("message", "")


@pytest.mark.asyncio
@pytest.mark.parametrize("kind", OTHERS)
async def test_an_object_of_somebody_else_is_named_and_stays_as_it_is(
    one: Reconciled, kind: str
) -> None:
    before = somebody_elses(one, kind, app="my-spark-job")

    await passes(one)

    assert one.api.objects[one.path(kind, "clicks-driver")] == before
    assert stalled(one)[:2] == ("True", "NameTaken")
    assert f"{kind} clicks-driver exists in the namespace" in stalled(one)[2]
    assert one.api.asked("apply", "Deployment") == 0
    events = (r.body for r in one.api.requests if r.kind.name == "Event" and r.body)
    reasons = [event.get("reason") for event in events]
    assert reasons.count("NameTaken") in {1, 2}  # for Ready and for Stalled


@pytest.mark.asyncio
async def test_the_group_goes_on_when_the_name_is_free(one: Reconciled) -> None:
    somebody_elses(one, "Service")
    await passes(one)

    del one.api.objects[one.path("Service", "clicks-driver")]
    await passes(one)

    assert stalled(one)[0] == "False"
    assert one.api.asked("apply", "Deployment") == 1


@pytest.mark.asyncio
async def test_a_service_account_that_exists_is_used_and_not_owned(one: Reconciled) -> None:
    before = somebody_elses(one, "ServiceAccount", team="logs")

    await one.start()

    assert one.api.objects[one.path("ServiceAccount", "clicks-driver")] == before
    (deployment,) = (
        b for p, b in one.api.objects.items() if p.startswith(one.path("Deployment", ""))
    )
    assert deployment["spec"]["template"]["spec"]["serviceAccountName"] == "clicks-driver"
    assert stalled(one)[0] == "False"


@pytest.mark.asyncio
async def test_an_object_of_the_group_without_an_owner_is_taken_back(one: Reconciled) -> None:
    """As after `kubectl delete --cascade=orphan`, and a group of the same name."""
    labels = {"landfall.dev/group": "clicks", "app.kubernetes.io/managed-by": "landfall-operator"}
    somebody_elses(one, "Role", **labels)

    await passes(one)

    owners = one.api.objects[one.path("Role", "clicks-driver")]["metadata"]["ownerReferences"]
    assert [owner["kind"] for owner in owners] == ["ConsumerGroup"]
