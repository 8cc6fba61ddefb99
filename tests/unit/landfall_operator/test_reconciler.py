"""What a pass requests, with an API server in memory."""

from collections.abc import Iterator

import pytest

from landfall.api.contract import WantExecutors
from landfall_operator.core.cache import GROUP
from landfall_operator.runtime import reconciler
from landfall_operator.runtime.kube_client import Conflict, Request
from tests.support.api_objects import KEY
from tests.support.reconciled import Reconciled

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
    assert (one.api.asked("get", GROUP), one.api.asked("patch_status", GROUP)) == (1, 3)
    assert one.cache.groups[KEY].body["metadata"]["generation"] == 2
    assert one.group["status"]["rollout"]["active"]


async def test_a_pass_gives_up_on_a_group_that_others_keep_changing(one: Reconciled) -> None:
    def change(request: Request) -> None:
        if request.verb == "patch_status":
            one.edit()

    one.api.before = change

    with pytest.raises(Conflict):
        await one.reconciler.reconcile(KEY)

    assert one.api.asked("patch_status", GROUP) == reconciler.MAX_TRIES
    assert len(one.api.requests) <= 3 * reconciler.MAX_TRIES


async def test_a_group_that_is_gone_when_it_is_read_again_is_forgotten(one: Reconciled) -> None:
    def delete(request: Request) -> None:
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


async def test_the_token_of_a_driver_that_runs_is_read_only_to_send_a_command(
    one: Reconciled,
) -> None:
    await one.start()
    one.restart_operator()

    await one.run(900)
    assert one.api.asked("get", "Secret") == 0

    one.edit(replicas=3)
    one.watch()
    await one.run(60)
    assert one.api.asked("get", "Secret") == 1
    assert (len(one.drivers.sent) > 1, set(one.drivers.sent)) == (True, {WantExecutors(3)})


async def test_a_token_that_a_driver_refuses_is_read_again(one: Reconciled) -> None:
    await one.start()
    secret = one.path("Secret", "clicks-control")
    one.drivers.token = "rotated"  # of this test alone
    one.api.store(secret, {**one.api.objects[secret], "stringData": {"token": "rotated"}})

    read = one.api.asked("get", "Secret")

    one.edit(replicas=3)
    one.watch()
    await one.run(60)

    assert one.drivers.tokens[1:] == ["rotated"] * len(one.drivers.sent)
    assert (one.api.asked("get", "Secret"), len(one.drivers.sent) > 1) == (read + 1, True)


async def test_a_secret_that_is_missing_when_a_command_is_due_is_made_again(
    one: Reconciled,
) -> None:
    await one.start()
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
    one.api.objects.pop(one.path("Secret", "clicks-control"))
    await one.run(400)
    assert one.path("Secret", "clicks-control") not in one.api.objects  # nobody needs it

    one.stop_pod()
    await one.run(400)

    assert one.path("Secret", "clicks-control") in one.api.objects
