"""A Secret that a pod waits for is named, and a first driver that never lands is stalled."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from landfall_operator.api.reasons import ConditionReason
from landfall_operator.core.parsing import mount_failure, with_field
from landfall_operator.core.snapshot import PodFailure
from tests.support.operator.cluster_model import START, group
from tests.support.operator.reconciled import Reconciled

SETUP = 'MountVolume.SetUp failed for volume "secret-0" : '


def event(message: str, time: str = "2026-11-26T12:00:00Z") -> dict[str, Any]:
    return {"reason": "FailedMount", "message": message, "lastTimestamp": time}


@pytest.mark.parametrize(
    ("message", "failure"),
    [
        (
            SETUP + 'secret "s3-tpyo" not found',
            PodFailure(ConditionReason.SECRET_MISSING, "Secret s3-tpyo does not exist"),
        ),
        (
            SETUP + 'configmap "mine" not found',
            PodFailure(ConditionReason.CONFIG_ERROR, "ConfigMap mine does not exist"),
        ),
        (
            SETUP + "references non-existent secret key: user",
            PodFailure(
                ConditionReason.SECRET_MISSING,
                "a volume of the pod references non-existent secret key: user",
            ),
        ),
        (SETUP + "failed to sync secret cache: timed out waiting for the condition", None),
        ("Unable to attach or mount volumes: unmounted volumes=[secret-0]", None),
        ("", None),
    ],
)
def test_what_is_missing_is_read_from_the_words_of_the_kubelet(
    message: str, failure: PodFailure | None
) -> None:
    assert mount_failure([event(message)]) == failure


def test_the_newest_event_that_names_something_counts() -> None:
    events = [
        event(SETUP + 'secret "old" not found', "2026-11-26T12:00:00Z"),
        event(SETUP + 'secret "new" not found', "2026-11-26T12:01:00Z"),
        event("Unable to attach or mount volumes", "2026-11-26T12:02:00Z"),
    ]

    assert mount_failure(events) == PodFailure(
        ConditionReason.SECRET_MISSING, "Secret new does not exist"
    )


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (
            {"output": {"url": "s3://l/c", "s3": {"credentialsSecretRef": {"name": "gone"}}}},
            "spec.output.s3.credentialsSecretRef",
        ),
        (
            {"driver": {"volumes": [{"name": "v", "secret": {"secretName": "gone"}}]}},
            "spec.driver.volumes[0].secret.secretName",
        ),
    ],
)
def test_the_field_that_names_a_missing_secret_is_said(spec: dict[str, Any], field: str) -> None:
    failure = PodFailure(ConditionReason.SECRET_MISSING, "Secret gone does not exist")

    found = with_field(failure, group(**spec))

    assert found.message == f"Secret gone of {field} does not exist"


@pytest.fixture
def one() -> Iterator[Reconciled]:
    made = Reconciled()
    yield made
    made.pool.shutdown()


def condition(one: Reconciled, kind: str = "Stalled") -> tuple[str, str, str]:
    found = {each["type"]: each for each in one.group["status"]["conditions"]}[kind]
    return found["status"], found["reason"], found.get("message", "")


async def start_with(one: Reconciled, status: dict[str, Any]) -> None:
    """Run until there is a Deployment, and let its pod be in this state."""
    while not any(kind == "Deployment" for kind, _ in one.cache.owned(("logs", "clicks"))):
        await one.run(1)
    one._run_pod(one.revision)
    (path,) = (p for p in one.api.objects if p.startswith(one.path("Pod", "")))
    one.api.store(path, {**one.api.objects[path], "status": status})
    one.watch()


def creating() -> dict[str, Any]:
    waiting = {"name": "driver", "state": {"waiting": {"reason": "ContainerCreating"}}}
    return {"phase": "Pending", "containerStatuses": [waiting]}


@pytest.mark.asyncio
async def test_a_missing_secret_is_named_within_half_a_minute(one: Reconciled) -> None:
    await start_with(one, creating())
    (path,) = (p for p in one.api.objects if p.startswith(one.path("Pod", "")))
    name = path.rpartition("/")[2]
    about = {"kind": "Pod", "name": name, "namespace": "logs"}
    one.api.store(
        one.path("Event", "e1"),
        {
            "metadata": {"name": "e1", "namespace": "logs"},
            "involvedObject": about,
            **event(SETUP + 'secret "s3" not found'),
        },
    )

    await one.run(30)

    assert condition(one)[:2] == ("True", "SecretMissing")
    assert "Secret s3 " in condition(one)[2]
    assert condition(one, "Ready")[:2] == ("False", "SecretMissing")
    posted = [r.body.get("reason") for r in one.api.requests if r.kind.name == "Event" and r.body]
    assert "SecretMissing" in posted

    one.api.store(path, {**one.api.objects[path], "status": {"phase": "Running"}})
    one.watch()
    await one.run(30)
    assert condition(one)[0] == "False"


@pytest.mark.asyncio
async def test_a_missing_key_of_a_secret_is_named_within_half_a_minute(one: Reconciled) -> None:
    lacks = "spec.output.s3.credentialsSecretRef: secret 's3' lacks AWS_SECRET_ACCESS_KEY"
    ended = {"exitCode": 2, "reason": "Error", "message": f"SpecInvalid: {lacks}"}
    waits = {"waiting": {"reason": "CrashLoopBackOff"}}
    container = {"name": "driver", "state": waits, "lastState": {"terminated": ended}}
    await start_with(one, {"phase": "Running", "containerStatuses": [container]})

    await one.run(30)

    assert condition(one) == ("True", "SpecInvalid", lacks)
    assert condition(one, "Ready") == ("False", "SpecInvalid", lacks)
    posted = [r.body for r in one.api.requests if r.kind.name == "Event" and r.body]
    assert lacks in {body.get("note", body.get("message")) for body in posted}


@pytest.mark.asyncio
async def test_a_driver_that_ends_at_each_start_has_one_reason_until_it_lands(
    one: Reconciled,
) -> None:
    lacks = "spec.output.s3.credentialsSecretRef: secret 's3' lacks AWS_SECRET_ACCESS_KEY"
    ended = {"terminated": {"exitCode": 2, "reason": "Error", "message": f"SpecInvalid: {lacks}"}}

    def pod(state: dict[str, Any], restarts: int) -> dict[str, Any]:
        container = {"name": "driver", "state": state, "restartCount": restarts, "lastState": ended}
        return {"phase": "Running", "containerStatuses": [container]}

    await start_with(one, pod(ended, 0))
    await one.run(10)
    (path,) = (p for p in one.api.objects if p.startswith(one.path("Pod", "")))
    seen = set()
    for restarts in range(1, 4):
        for state in (
            {"running": {"startedAt": one.now.isoformat()}},
            {"waiting": {"reason": "CrashLoopBackOff"}},
        ):
            one.api.store(path, {**one.api.objects[path], "status": pod(state, restarts)})
            one.watch()
            await one.run(5)
            seen.add((condition(one), condition(one, "Ready"), one.group["status"]["phase"]))

    assert seen == {(("True", "SpecInvalid", lacks), ("False", "SpecInvalid", lacks), "Stalled")}
    posted = [r.body.get("reason") for r in one.api.requests if r.kind.name == "Event" and r.body]
    assert "Stalled" not in posted, "no Event says in between that the group is stalled no more"

    await one.start()
    assert condition(one)[0] == "False"
    assert condition(one, "Ready")[0] == "True"


@pytest.mark.asyncio
async def test_a_pod_that_starts_in_time_costs_no_look_at_its_events(one: Reconciled) -> None:
    await start_with(one, creating())
    await one.run(6)
    one.api.requests.clear()
    await one.start()

    assert one.api.asked("list", "Event") == 0


@pytest.mark.asyncio
async def test_a_first_revision_that_does_not_get_ready_is_stalled(one: Reconciled) -> None:
    one.edit(upgrade={"rollback": {"readyIn": "60s"}})
    one.watch()
    await start_with(one, creating())

    await one.run(50)
    assert condition(one)[0] == "False"
    await one.run(30)

    assert condition(one)[:2] == ("True", "NotReadyInTime")
    assert "no earlier revision" in condition(one)[2]
    assert one.group["status"]["phase"] == "Stalled"
    posted = [r.body.get("reason") for r in one.api.requests if r.kind.name == "Event" and r.body]
    assert "NotReadyInTime" in posted

    await one.start()
    assert condition(one)[0] == "False"
    assert one.now - START > timedelta(minutes=1)
    assert one.group["status"]["phase"] == "Running"


@pytest.mark.asyncio
async def test_a_first_revision_that_crashes_too_often_is_stalled(one: Reconciled) -> None:
    one.edit(upgrade={"rollback": {"crashes": 2}})
    one.watch()

    def crashed(restarts: int) -> dict[str, Any]:
        ended = {"terminated": {"exitCode": 1, "message": "boom"}}
        container = {"name": "driver", "restartCount": restarts, "state": ended}
        return {"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": [container]}

    await start_with(one, crashed(0))
    for restarts in range(1, 4):
        (path,) = (p for p in one.api.objects if p.startswith(one.path("Pod", "")))
        one.api.store(path, {**one.api.objects[path], "status": crashed(restarts)})
        one.watch()
        await one.run(10)

    assert condition(one)[:2] == ("True", "CrashLoop")
    assert "boom" in condition(one)[2]
