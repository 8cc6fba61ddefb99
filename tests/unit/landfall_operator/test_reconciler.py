"""What a pass requests, with an API server in memory."""

import asyncio
import json
import math
from collections.abc import Iterator
from typing import Any

import pytest

from landfall.api.contract import (
    SIGNED_SINCE,
    CommitStatus,
    Failure,
    PublisherStatus,
    WantExecutors,
    Workers,
)
from landfall.api.signatures import Addressee
from landfall_operator.core.cache import GROUP
from landfall_operator.main import RESYNC_SECONDS
from landfall_operator.objects.manifests import Owner, control_secret
from landfall_operator.reporting.status_writes import NUMBERS
from landfall_operator.runtime import reconciler, watcher
from landfall_operator.runtime.control_port import Bearer
from landfall_operator.runtime.kube_client import PAGE_SIZE, Conflict, KubeRequest
from landfall_operator.runtime.leader_election import LeaseTimes
from landfall_operator.runtime.watcher import SELECTORS
from tests.support.operator.api_objects import KEY
from tests.support.operator.cluster_model import START
from tests.support.operator.reconciled import Reconciled

pytestmark = pytest.mark.asyncio


@pytest.fixture
def one(monkeypatch: pytest.MonkeyPatch) -> Iterator[Reconciled]:
    monkeypatch.setattr(reconciler, "RETRY_SECONDS", 0.001)
    made = Reconciled()
    yield made
    made.pool.shutdown()


async def test_a_group_that_the_watch_has_not_brought_yet_is_read_again(one: Reconciled) -> None:
    one.edit(image="landfall:2")

    await one.reconciler.reconcile(KEY)

    # Two tries to save the rollout, and the status.
    assert (one.api.asked("list", GROUP), one.api.asked("patch_status", GROUP)) == (1, 3)
    assert one.cache.groups[KEY].generation == 2
    assert one.group["status"]["rollout"]["active"]


async def test_a_pass_gives_up_on_a_group_that_others_keep_changing(
    one: Reconciled, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)

    def change(request: KubeRequest) -> None:
        if request.verb == "patch_status":
            one.edit()

    one.api.before = change

    with pytest.raises(Conflict):
        await one.reconciler.reconcile(KEY)

    assert one.api.asked("patch_status", GROUP) == 3
    assert len(one.api.requests) <= 9
    assert pauses == [reconciler.RETRY_SECONDS, 2 * reconciler.RETRY_SECONDS]


async def test_a_group_that_is_gone_when_it_is_read_again_is_forgotten(one: Reconciled) -> None:
    def delete(request: KubeRequest) -> None:
        if request.verb == "patch_status":
            one.api.objects.pop(one.path(), None)
            raise Conflict("changed")

    one.api.before = delete

    assert await one.reconciler.reconcile(KEY) is None
    assert KEY not in one.cache.groups


async def test_an_object_that_was_made_anew_is_read_again_and_left_alone(one: Reconciled) -> None:
    await one.run(30)
    path = one.path("ConfigMap", "clicks-old")
    labels = {"landfall.dev/group": "clicks", "landfall.dev/revision": "old"}
    owner = {"kind": GROUP, "uid": "u"}
    body = {
        "metadata": {
            "name": "clicks-old",
            "namespace": "logs",
            "labels": labels,
            "ownerReferences": [owner],
        },
        "data": {},
    }
    one.cache.put("ConfigMap", one.api.store(path, body))
    one.api.objects.pop(path)
    anew = one.api.store(path, {"metadata": {**body["metadata"], "ownerReferences": []}})

    await one.run(30)

    assert one.api.objects[path]["metadata"]["uid"] == anew["metadata"]["uid"]
    assert one.api.asked("delete", "ConfigMap") == 1


def busy(one: Reconciled) -> dict[str, Any]:
    """A driver that commits every minute; until then its lag grows."""
    seconds = (one.now - START).total_seconds() % 60
    return {"lag_records": int(100 * seconds), "lag_seconds": seconds, **commits(one)}


def commits(one: Reconciled, failures: int = 0) -> dict[str, Any]:
    """A driver that commits every minute and always has the same lag."""
    total = int((one.now - START).total_seconds() / 60)
    last = Failure(one.now.isoformat(), "EncodeFailed", "cannot encode") if failures else None
    return {"commits": CommitStatus(total, failures, failures, one.now.isoformat(), last, 0)}


async def test_an_idle_group_costs_no_request(one: Reconciled) -> None:
    await one.start()

    await one.run(3600)

    assert one.api.requests == []


async def test_a_group_that_commits_costs_a_request_a_minute(one: Reconciled) -> None:
    await one.start()
    one.drivers.changes = lambda: busy(one)

    await one.run(3600)

    assert {request.verb for request in one.api.requests} == {"patch_status"}
    assert 30 <= len(one.api.requests) <= 60


async def test_a_group_with_steady_numbers_is_written_every_five_minutes(one: Reconciled) -> None:
    await one.start()
    one.drivers.changes = lambda: commits(one)
    await one.run(600)
    one.api.requests.clear()

    await one.run(3600)

    assert {request.verb for request in one.api.requests} == {"patch_status"}
    assert 10 <= len(one.api.requests) <= 12


async def test_a_change_of_a_condition_is_written_in_the_pass_that_finds_it(
    one: Reconciled,
) -> None:
    await one.start()
    one.drivers.changes = lambda: busy(one)
    await one.run(100)
    before = len(one.api.requests)

    one.drivers.changes = lambda: commits(one, failures=9)
    await one.reconciler.reconcile(KEY)

    assert len(one.api.requests) > before
    conditions = {c["type"]: c["status"] for c in one.group["status"]["conditions"]}
    assert conditions["CommitsHealthy"] == "False"


async def test_what_a_thousand_groups_ask_of_the_api_server_each_minute() -> None:
    """What does not come from passes; the tests above say what an idle or busy group adds."""
    groups = 1000
    lease = 2 * 60 / LeaseTimes().renew_interval
    pages = len(SELECTORS) * math.ceil(2 * groups / PAGE_SIZE)  # two of a kind: old and new driver
    lists = pages * 60 / RESYNC_SECONDS
    silence = watcher.settings().watching.inactivity_timeout
    watches = len(SELECTORS) * 60 / silence  # at worst: the API server sends bookmarks before that

    fixed = lease + lists + watches
    assert fixed <= 50
    # Writes are a minute apart at least; the passes come every 15 s, give or take a quarter.
    assert groups * 60 / NUMBERS.total_seconds() + fixed <= 1050


SIGNS: dict[str, Any] = {"contract": SIGNED_SINCE}
"""What the status of a driver has that takes signatures; ``Reconciled``'s own is older."""


async def test_commands_to_a_driver_are_signed_for_it_and_nothing_asks_for_a_secret(
    one: Reconciled,
) -> None:
    one.drivers.changes = lambda: SIGNS
    await one.start()
    one.edit(replicas=3)
    one.watch()
    await one.run(60)
    one.restart_operator()
    await one.run(60)
    one.stop_pod()
    await one.run(400)

    (pod,) = (one.api.objects[path] for path in one.api.objects if "/pods/" in path)
    to = Addressee(*KEY, one.group["metadata"]["uid"], one.revision, pod["metadata"]["uid"])
    assert (set(one.drivers.credentials), len(one.drivers.sent) > 1) == ({to}, True)
    assert not any("/secrets/" in path for path in one.api.objects)
    assert one.api.asked("get", "Secret") == 0


async def test_a_driver_of_an_earlier_release_is_sent_its_token(one: Reconciled) -> None:
    one.drivers.changes = lambda: {"contract": SIGNED_SINCE - 1}
    await one.start()
    of_last_release(one)
    one.restart_operator()

    await one.run(900)
    assert one.api.asked("get", "Secret") == 0

    one.edit(replicas=3)
    one.watch()
    await one.run(60)

    assert one.api.asked("get", "Secret") == 1
    assert (len(one.drivers.sent) > 1, set(one.drivers.sent)) == (True, {WantExecutors(3)})
    assert set(one.drivers.credentials) == {Bearer("hush")}


def of_last_release(one: Reconciled) -> None:
    """Give the group the Secret and the Deployment that the operator of the last release made."""
    owner = Owner("clicks", "logs", one.group["metadata"]["uid"])
    one.api.create(control_secret(owner, "hush"))
    (path,) = (path for path in one.api.objects if "/deployments/" in path)
    stored = json.loads(json.dumps(one.api.objects[path]))
    pod = stored["spec"]["template"]["spec"]
    pod["volumes"] = [{"name": "control", "secret": {"secretName": "clicks-control"}}]
    one.api.store(path, stored)
    one.watch()


async def test_a_token_that_a_driver_refuses_is_read_again(one: Reconciled) -> None:
    await one.start()
    of_last_release(one)
    one.edit(replicas=2)
    one.watch()
    await one.run(60)
    secret = one.path("Secret", "clicks-control")
    one.drivers.token = "rotated"  # of this test alone
    one.api.store(secret, {**one.api.objects[secret], "stringData": {"token": "rotated"}})
    read, sent = one.api.asked("get", "Secret"), len(one.drivers.credentials)

    one.edit(replicas=3)
    one.watch()
    await one.run(60)

    rotated = one.drivers.credentials[sent + 1 :]
    assert (set(rotated), len(rotated) > 1) == ({Bearer("rotated")}, True)
    assert one.api.asked("get", "Secret") == read + 1


async def test_a_secret_that_is_missing_when_a_command_is_due_is_made_again(
    one: Reconciled,
) -> None:
    await one.start()
    of_last_release(one)
    one.restart_operator()
    one.api.objects.pop(one.path("Secret", "clicks-control"))

    one.edit(replicas=3)
    one.watch()
    await one.run(60)

    assert one.path("Secret", "clicks-control") in one.api.objects
    assert set(one.drivers.sent) == {WantExecutors(3)}


async def test_a_secret_that_is_missing_while_a_pod_does_not_start_is_made_again(
    one: Reconciled,
) -> None:
    await one.start()
    of_last_release(one)
    one.api.objects.pop(one.path("Secret", "clicks-control"))
    await one.run(400)
    assert one.path("Secret", "clicks-control") not in one.api.objects  # nobody needs it

    one.stop_pod()
    await one.run(400)

    assert one.path("Secret", "clicks-control") in one.api.objects


async def test_executors_pods_are_listed_only_while_some_are_missing(one: Reconciled) -> None:
    await one.start()
    workers = {"workers": Workers(3, 3, 3)}
    one.drivers.changes = lambda: workers
    await one.run(600)
    assert one.api.asked("list", "Pod") == 0

    workers["workers"] = Workers(3, 0, 0)
    await one.run(600)

    assert 8 <= one.api.asked("list", "Pod") <= 10
    ready = {c["type"]: c["reason"] for c in one.group["status"]["conditions"]}
    assert ready["ExecutorsReady"] == "ExecutorsMissing"
    workers["workers"] = Workers(3, 3, 3)
    await one.run(60)
    one.api.requests.clear()
    await one.run(600)
    assert one.api.asked("list", "Pod") == 0


async def test_a_driver_of_an_unknown_contract_is_announced_once(one: Reconciled) -> None:
    await one.start()

    one.drivers.changes = lambda: {"contract": 99}
    await one.run(300)

    (event,) = (r.body for r in one.api.requests if (r.verb, r.kind.name) == ("create", "Event"))
    assert (event["reason"], one.api.asked("patch", "Event")) == ("ContractMismatch", 0)
    assert "version 99 of the driver contract" in event["message"]


async def test_an_account_that_drivers_share_with_all_pods_is_announced_once(
    one: Reconciled,
) -> None:
    await one.start()
    one.edit(driver={"serviceAccountName": "default"})
    one.watch()
    await one.run(300)

    events = [r.body for r in one.api.requests if (r.verb, r.kind.name) == ("create", "Event")]
    (event,) = (each for each in events if each["reason"] == "SharedServiceAccount")
    assert "may create and delete pods" in event["message"]


async def test_a_secret_over_plain_http_is_announced_once_and_stays_in_the_condition(
    one: Reconciled,
) -> None:
    def condition() -> tuple[str, str]:
        found = {c["type"]: c for c in one.group["status"]["conditions"]}["SpecValid"]
        return found["status"], found["message"]

    registry = {"urls": ["http://registry:8081"], "secretRef": {"name": "login"}}
    warning = (
        "spec.decode.registry.urls: its secret is sent to http://registry:8081 without encryption; "
        "use https"
    )
    await one.start()
    assert condition() == ("True", "")

    one.edit(decode={"format": "Avro", "registry": registry})
    one.watch()
    await one.run(300)

    events = [r.body for r in one.api.requests if (r.verb, r.kind.name) == ("create", "Event")]
    found = [each["message"] for each in events if each["reason"] == "SecretOverPlainHttp"]
    assert (found, condition()) == ([warning], ("True", warning))


async def test_a_publisher_that_is_blocked_and_goes_on_is_announced_once_each(
    one: Reconciled,
) -> None:
    def publisher(blocked: str | None, message: str) -> dict[str, object]:
        ended = one.now.isoformat()
        lake = ("lake", "Iceberg", 7, 0, 0.0, 9, 1, 0, ended, blocked, message)
        return {"publishers": (PublisherStatus(*lake),)}

    await one.start()
    one.drivers.changes = lambda: publisher("DestinationConflict", "the column id is text")
    await one.run(300)
    blocked = one.group["status"]
    one.drivers.changes = lambda: publisher(None, "")
    await one.run(300)

    events = [r.body for r in one.api.requests if (r.verb, r.kind.name) == ("create", "Event")]
    assert [(event["type"], event["reason"]) for event in events] == [
        ("Warning", "DestinationConflict"),
        ("Normal", "PublisherCurrent"),
    ]
    assert blocked["published"] == "0/1: lake blocked"
    assert blocked["publishers"][0]["problem"] == "the column id is text"
    assert blocked["phase"] == "Running"
    assert one.group["status"]["published"] == "1/1"
    assert "blocked" not in one.group["status"]["publishers"][0]
