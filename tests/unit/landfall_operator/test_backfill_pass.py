"""Passes over Backfills against an API server in memory, from apply to deletion."""

import asyncio
import json
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

import msgspec
import pytest

from landfall.api.backfill_report import BackfillReport, OldAndNew, RowCounts, parse_report
from landfall.api.signatures import Addressee
from landfall.errors import Fenced
from landfall_operator.api.revisions import revision_of
from landfall_operator.core.backfill_snapshot import PromotionAnswer
from landfall_operator.core.cache import ObjectCache
from landfall_operator.objects.manifests import Owner, controller_revision
from landfall_operator.objects.pod_templates import OperatorContext
from landfall_operator.runtime import work_queue
from landfall_operator.runtime.action_executor import ActionExecutor
from landfall_operator.runtime.backfill_pass import BackfillPass
from landfall_operator.runtime.backfills import INTERVAL, QUIET_INTERVAL, Backfills, BackfillScope
from landfall_operator.runtime.control_port import Bearer, Credentials
from landfall_operator.runtime.driver_client import Command
from landfall_operator.runtime.event_recorder import EventRecorder
from landfall_operator.runtime.kube_client import Conflict, KubeRequest, NotFound, RequestRejected
from landfall_operator.runtime.metrics import Metrics, OperatorSnapshot
from landfall_operator.runtime.work_queue import WorkQueue
from tests.support.operator.api_objects import deployed, resource, stored
from tests.support.operator.cluster_model import SITE, group
from tests.support.operator.fake_api import FakeApi
from tests.support.operator.reconciled import status_of

NAMESPACE = "logs"
BACKFILLS = f"/apis/landfall.dev/v1alpha1/namespaces/{NAMESPACE}/backfills"
CORE = f"/api/v1/namespaces/{NAMESPACE}"
POD, DISCARDS = f"{CORE}/pods/backfill-fix", f"{CORE}/pods/discard-fix"
POOL = ThreadPoolExecutor(2)
COMPARED = BackfillReport(
    phase="Compared",
    offsets=10,
    landed_offsets=10,
    rows=RowCounts(old=10, new=10, only_old=1, only_new=1),
    dead_letters=OldAndNew(old=0, new=0),
    bytes=OldAndNew(old=5, new=5),
    output_partitions=1,
    differing=1,
    message="the rows differ",
)


@dataclass
class Drivers:
    """Drivers that answer what they are told to."""

    reports: dict[str, bytes] = field(default_factory=dict)
    answer: PromotionAnswer = PromotionAnswer("waiting", "in flight")  # noqa: RUF009  # frozen
    asked: list[tuple[str, ...]] = field(default_factory=list)

    async def status(self, address: str) -> bytes | None:
        return self.reports.get(address)

    async def send(self, address: str, command: Command, credentials: Credentials) -> None:
        raise AssertionError((address, command, credentials))

    async def promote(
        self, address: str, credentials: Credentials, side_lane: str, id_: str
    ) -> PromotionAnswer:
        self.asked.append((address, credentials, side_lane, id_))
        return self.answer


class Scene:
    """An operator with one group, and the Backfill `fix` of it."""

    def __init__(self, context: OperatorContext = SITE) -> None:
        self.api, self.cache, self.drivers = FakeApi(), ObjectCache(), Drivers()
        self.metrics = Metrics(lambda: OperatorSnapshot(True, 1, 0.0))
        self.now = datetime(2026, 11, 26, 10, tzinfo=UTC)
        self.spec = group(output={"url": "s3://logs/clicks"})
        self.has_group(resource())
        events = EventRecorder(self.api, self.metrics, lambda: self.now)
        self.backfill_pass = BackfillPass(
            kube=self.api,
            cache=self.cache,
            drivers=self.drivers,
            promotions=self.drivers,
            executor=ActionExecutor(self.api, self.cache, self.drivers, events, POOL),
            context=context,
            clock=lambda: self.now,
        )
        self.manages = True
        self.woken = list[tuple[str, str]]()
        scope = BackfillScope(
            namespaces=lambda: (NAMESPACE,),
            is_ready=lambda: True,
            is_managed=lambda _: self.manages,
            take=lambda body: self.queue.wake(self.backfill_pass.take(body)),
            wake=self.woken.append,
        )
        self.backfills = Backfills(self.api, self.cache, self.metrics, scope)

    async def list_and_pass(self) -> None:
        """List the Backfills once, and run the passes that are due then."""
        self.queue = WorkQueue(
            self.backfill_pass.reconcile,
            self.metrics.backfill_passes,
            noun="backfill",
            repeats_failed=False,
        )
        await self.backfills.look((NAMESPACE,))
        async with asyncio.timeout(60):
            while len(self.queue):  # noqa: ASYNC110  # there is no event for it
                await asyncio.sleep(0)

    def has_group(self, body: dict[str, Any]) -> None:
        """The cache has the group, and its driver's pod."""
        body["status"] = {"rollout": {"active": revision_of(self.spec)}}
        self.cache.put("ConsumerGroup", body)
        deployment = stored(deployed(self.spec))
        self.cache.put("Deployment", deployment)
        owner = Owner("clicks", NAMESPACE, "u")
        record = controller_revision(owner, self.spec, "recorded", 1)
        self.cache.put("ControllerRevision", stored(record, uid="record"))
        pod = {
            "metadata": {
                "name": "driver-pod",
                "namespace": NAMESPACE,
                "uid": "p",
                "resourceVersion": "5",
                "creationTimestamp": "2026-11-21T12:00:00Z",
                "labels": deployment["spec"]["template"]["metadata"]["labels"],
            },
            "status": {"phase": "Running", "podIP": "10.0.0.1"},
        }
        self.cache.put("Pod", pod)
        secret = {
            "kind": "Secret",
            "metadata": {"name": "clicks-control", "namespace": NAMESPACE},
            "data": {"token": b64encode(b"token").decode()},
        }
        self.api.store(f"{CORE}/secrets/clicks-control", secret)

    def apply(self, **spec: Any) -> None:
        body = self.api.objects.get(f"{BACKFILLS}/fix", {"metadata": {"generation": 0}})
        metadata = {"name": "fix", "namespace": NAMESPACE, "uid": "uid-1", **body["metadata"]}
        metadata["generation"] += 1
        whole = {"group": "clicks", "promote": "Manual", **spec}
        self.api.store(f"{BACKFILLS}/fix", {**body, "metadata": metadata, "spec": whole})

    def ended(self, outcome: str) -> float:
        """How many passes have ended so, as scraped."""
        name = "landfall_operator_backfill_passes_total"
        return self.metrics.registry.get_sample_value(name, {"outcome": outcome}) or 0.0

    def passes(self, count: int = 1) -> dict[str, Any]:
        """Run passes; returns the Backfill, or nothing once it is gone."""
        for _ in range(count):
            asyncio.run(self.list_and_pass())
            found = self.api.objects.get(f"{BACKFILLS}/fix")
            metadata = found["metadata"] if found else {}
            if "deletionTimestamp" in metadata and not metadata["finalizers"]:
                del self.api.objects[f"{BACKFILLS}/fix"]
        return self.api.objects.get(f"{BACKFILLS}/fix", {})

    @property
    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.api.objects[f"{BACKFILLS}/fix"].get("status", {})
        return found

    def pod(self, path: str = POD, **status: Any) -> None:
        """The kubelet says this of a pod."""
        body = self.api.objects[path]
        self.api.store(path, {**body, "status": {"containerStatuses": [], **status}})

    def runs(self, report: BackfillReport) -> None:
        state = {"name": "driver", "state": {"running": {"startedAt": "2026-11-26T10:00:00Z"}}}
        self.pod(phase="Running", podIP="10.0.0.9", containerStatuses=[state])
        self.drivers.reports["10.0.0.9"] = report.as_json().encode()

    def ends(self, code: int, message: str = "", path: str = POD) -> None:
        over = {"terminated": {"exitCode": code, "message": message, "reason": "Completed"}}
        state = {"name": "driver", "state": over}
        self.pod(path, phase="Succeeded" if not code else "Running", containerStatuses=[state])

    def delete(self) -> None:
        body = self.api.objects[f"{BACKFILLS}/fix"]
        body["metadata"]["deletionTimestamp"] = self.now.isoformat()
        self.api.store(f"{BACKFILLS}/fix", body)


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setattr(work_queue, "MIN_INTERVAL_SECONDS", 0.0)
    monkeypatch.setattr(work_queue, "FIRST_PASS_SPREAD_SECONDS", 0.0)
    return Scene()


def is_promoted(scene: Scene) -> None:
    """Bring the Backfill to the request to promote."""
    scene.apply(promote="Automatic")
    scene.passes(2)
    scene.ends(0, COMPARED.as_json())
    scene.passes(2)


def test_its_pods_inherit_labels_of_the_group() -> None:
    scene = Scene(replace(SITE, inherited=("team",)))
    scene.has_group(resource(2, labels={"team": "web"}))
    scene.apply()
    scene.passes(2)
    executor = json.loads(
        scene.api.objects[f"{CORE}/configmaps/backfill-fix"]["data"]["executor.json"]
    )

    assert scene.api.objects[POD]["metadata"]["labels"]["team"] == "web"
    assert executor["metadata"]["labels"]["team"] == "web"


def test_it_is_landed_compared_and_shown(scene: Scene) -> None:
    scene.apply(maxCores=3)

    scene.passes()
    assert scene.api.objects[f"{BACKFILLS}/fix"]["metadata"]["finalizers"] == [
        "landfall.dev/discard"
    ]
    scene.passes()
    pod = scene.api.objects[POD]
    assert pod["spec"]["containers"][0]["image"] == "good"
    assert scene.status["phase"] == "Planning"

    scene.runs(BackfillReport(phase="Landing", offsets=10, landed_offsets=4))
    scene.passes()
    assert (scene.status["phase"], scene.status["progress"]) == ("Landing", "40%")

    scene.ends(0, COMPARED.as_json())
    scene.passes()
    assert (scene.status["phase"], scene.status["message"]) == ("Compared", "the rows differ")
    assert scene.metrics.backfill_snapshots[NAMESPACE, "fix"].group == "clicks"
    reasons = {body["reason"] for path, body in scene.api.objects.items() if "/events/" in path}
    assert reasons == {"Started", "Compared"}


def test_a_pod_that_is_gone_is_started_again_by_the_same_spec(scene: Scene) -> None:
    scene.apply()
    scene.passes(2)
    before = scene.api.objects.pop(POD)
    changed = resource(version=2)
    changed["spec"]["output"]["format"] = "Parquet"
    scene.has_group(changed)

    scene.passes()

    after = scene.api.objects[POD]
    assert after["spec"] == before["spec"]
    assert (
        "Parquet" not in scene.api.objects[f"{CORE}/configmaps/backfill-fix"]["data"]["group.json"]
    )


def test_a_revision_is_landed_by_its_record(scene: Scene) -> None:
    changed = resource(version=2)
    changed["spec"]["generation"] = 9
    scene.has_group(changed)
    scene.apply(revision=revision_of(scene.spec))

    scene.passes(2)

    assert scene.status["revision"] == revision_of(scene.spec)
    scene.apply(revision="g7-none")
    scene.api.objects.pop(POD)
    scene.passes()
    assert scene.status["reason"] == "RevisionNotFound"


def test_a_group_that_comes_later_is_waited_for(scene: Scene) -> None:
    scene.cache.drop("ConsumerGroup", resource())
    scene.apply()

    scene.passes(2)
    assert (scene.status["phase"], scene.status["reason"]) == ("Pending", "GroupNotFound")
    later = resource(version=9, uid="other")
    scene.has_group(later)
    scene.passes()
    assert scene.status["phase"] == "Planning"


def test_a_backup_that_is_missing_is_waited_for(scene: Scene) -> None:
    scene.apply(backup="archive")

    scene.passes(2)
    assert (scene.status["phase"], scene.status["reason"]) == ("Pending", "BackupNotFound")
    scene.cache.put("ConsumerGroup", resource(version=3, uid="b", name="archive"))
    scene.passes()

    assert scene.status["phase"] == "Planning"
    data = scene.api.objects[f"{CORE}/configmaps/backfill-fix"]["data"]
    assert "s3://logs/archive" in data["backup.json"]
    assert "--backup" in scene.api.objects[POD]["spec"]["containers"][0]["args"]


def test_a_promotion_is_asked_of_the_active_driver_by_the_same_request(scene: Scene) -> None:
    is_promoted(scene)
    assert scene.drivers.asked == []

    scene.passes(2)

    request = scene.status["promotion"]["id"]
    group = scene.cache.groups[NAMESPACE, "clicks"]
    driver = Addressee(NAMESPACE, "clicks", group.uid, revision_of(scene.spec), "p")
    assert scene.drivers.asked == [("10.0.0.1", driver, "fix-uid1", request)] * 2
    assert scene.status["phase"] == "Promoting"
    scene.drivers.answer = PromotionAnswer("done", "recorded in slot 12", 12)
    scene.passes()
    assert (scene.status["phase"], scene.status["ledgerSlot"]) == ("Promoted", 12)


def test_a_group_knows_while_its_driver_is_to_promote(scene: Scene) -> None:
    is_promoted(scene)
    scene.passes()
    during = scene.cache.promoting
    scene.woken.clear()
    scene.drivers.answer = PromotionAnswer("done", "recorded in slot 12", 12)

    scene.passes(2)

    assert during == {(NAMESPACE, "clicks")}
    assert scene.cache.promoting == frozenset()
    assert scene.woken == [(NAMESPACE, "clicks")]


def test_a_driver_of_an_earlier_release_is_asked_with_its_token(scene: Scene) -> None:
    is_promoted(scene)
    status = status_of(revision_of(scene.spec), scene.now)  # contract version 1
    scene.drivers.reports["10.0.0.1"] = msgspec.json.encode(status)

    scene.passes()
    assert [asked[1] for asked in scene.drivers.asked] == [Bearer("token")]
    del scene.api.objects[f"{CORE}/secrets/clicks-control"]
    scene.passes()

    assert len(scene.drivers.asked) == 1
    assert "no token for it" in scene.status["message"]


def test_without_a_driver_a_promotion_waits(scene: Scene) -> None:
    is_promoted(scene)
    scene.cache.forget(NAMESPACE)
    scene.cache.put("ConsumerGroup", resource(version=20, uid="u2"))

    scene.passes()

    assert (scene.status["phase"], scene.status["reason"]) == ("Promoting", "PromotionWaits")
    assert scene.drivers.asked == []


def test_a_deleted_one_discards_its_side_lane_and_goes(scene: Scene) -> None:
    scene.apply()
    scene.passes(2)
    scene.delete()

    scene.passes()
    assert POD not in scene.api.objects
    scene.passes()
    assert scene.api.objects[DISCARDS]["spec"]["containers"][0]["args"][2] == "discard"
    assert scene.status["phase"] == "Discarded"
    scene.passes()
    scene.ends(0, path=DISCARDS)
    assert scene.passes() == {}


def test_it_can_be_deleted_after_its_group(scene: Scene) -> None:
    scene.apply()
    scene.passes(2)
    scene.cache.forget(NAMESPACE)
    scene.delete()

    scene.passes(2)

    assert "serviceAccountName" not in scene.api.objects[DISCARDS]["spec"]


def test_it_goes_where_no_pod_can_be_created(scene: Scene) -> None:
    scene.apply()
    scene.passes(2)
    scene.delete()
    scene.passes()

    def refuse(request: KubeRequest) -> None:
        if request.verb == "create":
            raise RequestRejected("the namespace is being terminated", HTTPStatus.FORBIDDEN)

    scene.api.before = refuse
    assert scene.passes() == {}


def test_what_others_changed_meanwhile_is_looked_at_anew(scene: Scene) -> None:
    scene.apply()
    scene.passes()

    def change(request: KubeRequest) -> None:
        if request.verb == "patch_status":
            scene.api.before = lambda _: None
            scene.apply(promote="Never")

    scene.api.before = change
    scene.passes()
    assert scene.status["phase"] == "Pending"
    assert POD not in scene.api.objects
    assert scene.passes()["status"]["phase"] == "Planning"


def test_what_nothing_goes_on_with_is_left_alone(scene: Scene) -> None:
    scene.apply()
    scene.passes(2)
    scene.ends(0, COMPARED.as_json())
    scene.passes()
    asked = len(scene.api.requests)

    scene.passes(5)

    assert len(scene.api.requests) == asked + 5  # a list each
    scene.apply(promote="Automatic")
    scene.passes()
    assert scene.status["phase"] == "Promoting"


def test_one_of_a_group_that_another_operator_manages_is_left_alone(scene: Scene) -> None:
    scene.manages = False
    scene.apply()
    scene.passes(3)
    written = {request.verb for request in scene.api.requests} - {"list"}
    scene.manages = True
    scene.passes(2)

    assert written == set()
    assert scene.status["phase"] == "Planning"


def test_they_are_listed_less_often_while_none_goes_on(scene: Scene) -> None:
    scene.passes()
    without = scene.backfills.pause(1)
    scene.apply()
    scene.passes(2)
    landing = scene.backfills.pause(1)
    scene.ends(0, COMPARED.as_json())
    scene.passes(2)
    compared = scene.backfills.pause(1)
    scene.apply(promote="Automatic")
    scene.passes()

    assert (without, landing, compared) == (QUIET_INTERVAL, INTERVAL, QUIET_INTERVAL)
    assert scene.backfills.pause(6) == INTERVAL + 1


@pytest.mark.parametrize(
    "error",
    [NotFound("404"), RequestRejected("backfills is forbidden", HTTPStatus.FORBIDDEN)],
)
def test_without_the_definition_or_a_right_nothing_fails(
    scene: Scene, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(request: KubeRequest) -> None:
        if request.kind.name == "Backfill":
            raise error

    scene.apply()
    scene.api.before = fail
    with caplog.at_level("WARNING"):
        scene.passes(3)

    assert [record.message for record in caplog.records].count(caplog.records[0].message) == 1
    scene.api.before = lambda _: None
    scene.passes(2)
    assert scene.status["phase"] == "Planning"


def test_a_pass_that_breaks_does_not_stop_the_others(scene: Scene) -> None:
    scene.apply()
    other = {"metadata": {"name": "a", "namespace": NAMESPACE}, "spec": {"group": "clicks"}}
    scene.api.store(f"{BACKFILLS}/a", other)

    def break_other(request: KubeRequest) -> None:
        if request.path.endswith("/backfills/a"):
            raise ZeroDivisionError

    scene.api.before = break_other
    scene.passes(2)

    assert scene.status["phase"] == "Planning"


def test_an_operator_that_is_not_the_leader_any_more_writes_nothing(scene: Scene) -> None:
    def fence(request: KubeRequest) -> None:
        if request.method != "GET":
            raise Fenced("the lease is lost")

    scene.apply()
    before = scene.api.objects[f"{BACKFILLS}/fix"]
    scene.api.before = fence
    scene.passes(2)

    assert scene.api.objects[f"{BACKFILLS}/fix"] == before
    assert scene.ended("failed") == 2


def test_no_list_serves_for_two_passes(scene: Scene) -> None:
    scene.apply()
    scene.passes(2)
    asked = len(scene.api.requests)

    asyncio.run(scene.backfill_pass.reconcile((NAMESPACE, "fix")))

    assert len(scene.api.requests) == asked


def test_a_pass_that_failed_is_repeated_with_the_next_list_and_not_before(scene: Scene) -> None:
    def conflict(request: KubeRequest) -> None:
        if request.method != "GET":
            raise Conflict("somebody else changed it")

    scene.apply()
    scene.api.before = conflict
    scene.passes()
    assert (scene.ended("conflict"), scene.ended("done")) == (1, 0)

    scene.api.before = lambda _: None
    scene.passes(2)
    assert scene.status["phase"] == "Planning"


def test_a_report_with_counts_that_cannot_be_breaks_no_pass(scene: Scene) -> None:
    scene.apply()
    scene.passes(3)
    wrong = COMPARED.as_json().replace('"onlyOld":1', '"onlyOld":-1')
    assert parse_report(COMPARED.as_json())
    assert parse_report(wrong) is None
    scene.ends(0, wrong)
    scene.passes()

    assert scene.ended("failed") == 0
