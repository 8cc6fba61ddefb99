"""The operator as a process with only the rights it declares, on a real API server.

The kubelet and the drivers are fakes.
"""

import json
import signal
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from landfall.api.contract import DriverPhase, ExitCode
from landfall_operator.objects import rbac
from landfall_operator.objects.names import FINALIZER, OPERATOR, SIGNING_KEY
from tests.support.kubernetes.cluster import Cluster
from tests.support.operator.operator_stage import KINDS, Stage, staged
from tests.support.operator.operators import PATIENCE, Running
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def shared(control_plane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One namespace and one operator for all tests that do not disturb the operator."""
    yield from staged(
        control_plane, control_plane.create_namespace(), tmp_path_factory.mktemp("operators")
    )


@pytest.fixture(scope="module")
def operator(shared: Stage) -> Running:
    shared.operators.keep()
    return shared.operators.begun[-1]


@pytest.fixture
def stage(shared: Stage, operator: Running) -> Stage:
    """A group name for one test, in the shared namespace with its operator."""
    return Stage(shared.groups, shared.kubelet, shared.operators, f"clicks-{uuid4().hex[:8]}")


@pytest.fixture
def own(control_plane: Cluster, namespace: str, tmp_path: Path) -> Iterator[Stage]:
    """A namespace without an operator, in which the test starts its own."""
    yield from staged(control_plane, namespace, tmp_path)


def test_a_group_gets_its_objects_and_a_status_with_only_the_declared_rights(
    stage: Stage, operator: Running
) -> None:
    stage.create()

    seen = stage.wait_for("Running")
    (revision,) = stage.drivers()
    assert {name.partition("/")[0] for name in stage.owned()} == KINDS
    assert seen["rollout"]["active"] == revision
    assert (seen["lag"]["records"], seen["executors"]) == (2, {"wanted": 1, "ready": 1})
    assert FINALIZER in stage.groups.read(stage.name)["metadata"]["finalizers"]
    assert operator.metric("landfall_operator_api_requests_total", code="403") == 0
    key = stage.groups.kubectl("get", "secret", SIGNING_KEY, "-o", "jsonpath={.data.current}")
    secret = b64decode(key).decode().splitlines()[1]
    assert secret not in operator.said
    assert "-control" not in stage.groups.kubectl("get", "secrets", "-o", "name")


def test_nothing_is_written_when_nothing_has_to_change(own: Stage) -> None:
    operator = own.operators.lead()
    own.create()
    own.wait_for("Running")
    eventually(lambda: own.status["rollout"]["stage"], lambda seen: seen == "Settled")
    eventually(own.reasons, lambda said: "Settled" in said)
    written, passes = (
        operator.written(),
        operator.metric("landfall_operator_passes_total", outcome="done"),
    )

    eventually(
        lambda: operator.metric("landfall_operator_passes_total", outcome="done"),
        lambda n: n > passes + 3,
    )

    assert operator.written() == written


def test_deleted_objects_are_created_again(stage: Stage) -> None:
    stage.create()
    stage.wait_for("Running")
    before = stage.owned()

    stage.groups.kubectl(
        "delete", "service,role,poddisruptionbudget", "-l", f"landfall.dev/group={stage.name}"
    )

    eventually(stage.owned, lambda seen: seen.keys() == before.keys())


def test_a_new_image_takes_the_lane_over_and_the_old_driver_is_deleted(stage: Stage) -> None:
    stage.create()
    first = stage.wait_for("Running")["rollout"]["active"]
    old = stage.drivers()[first]
    old.received.clear()  # commands from before the change do not count

    stage.patch(image="landfall:2")

    rollout = eventually(
        lambda: stage.status["rollout"], lambda seen: seen["active"] != first, PATIENCE
    )
    eventually(stage.drivers, lambda seen: seen.keys() == {rollout["active"]}, PATIENCE)
    assert ({*old.received}, stage.drivers()[rollout["active"]].phase) == (
        {"/control/yield"},
        DriverPhase.RUNNING,
    )
    eventually(stage.reasons, {"Opening", "Warming", "Yielding"}.issubset)


def test_a_broken_image_is_rolled_back_and_reported(stage: Stage) -> None:
    stage.create()
    first = stage.wait_for("Running")["rollout"]["active"]

    stage.patch(image="broken:1")

    seen = stage.wait_for("Stalled")
    assert (seen["reason"], seen["rollout"]["active"]) == ("RolledBack", first)
    assert seen["rollout"]["rejected"]["reason"] == "CrashLoop"
    assert stage.drivers()[first].phase is DriverPhase.RUNNING
    eventually(stage.reasons, lambda said: "RolledBack" in said)


def test_the_running_driver_is_asked_for_executors(stage: Stage) -> None:
    stage.create()
    stage.wait_for("Running")
    ((_, driver),) = stage.drivers().items()
    driver.received.clear()  # commands from before the change do not count

    stage.groups.patch_scale(stage.name, 3)

    eventually(lambda: stage.status["executors"], lambda seen: seen == {"wanted": 3, "ready": 3})
    assert [{*driver.received} for driver in stage.drivers().values()] == [{"/control/executors"}]


def test_a_suspended_group_drains_and_continues_when_it_is_resumed(stage: Stage) -> None:
    stage.create()
    stage.wait_for("Running")
    ((revision, driver),) = stage.drivers().items()

    stage.patch(state="Suspended")

    stage.wait_for("Suspended")
    assert (driver.lane.yielded, stage.drivers()) == (True, {})
    stage.patch(state="Running")
    stage.wait_for("Running")
    assert stage.drivers().keys() == {revision}


def test_a_deleted_group_is_drained_first(stage: Stage) -> None:
    stage.create()
    stage.wait_for("Running")
    (driver,) = stage.drivers().values()

    stage.groups.kubectl("delete", "consumergroup", stage.name, f"--timeout={PATIENCE:.0f}s")

    assert (driver.lane.yielded, stage.drivers()) == (True, {})
    eventually(stage.owned, lambda left: not left)


def test_an_object_that_the_api_server_rejects_is_reported_and_the_driver_stays(
    stage: Stage,
) -> None:
    stage.create()
    first = stage.wait_for("Running")["rollout"]["active"]

    stage.patch(driver={"volumes": [{"name": "NOT A NAME", "emptyDir": {}}]})

    condition = eventually(
        lambda: stage.condition("SpecValid"), lambda seen: seen["status"] == "False"
    )
    assert "NOT A NAME" in condition["message"]
    assert stage.drivers()[first].phase is DriverPhase.RUNNING


def test_a_newcomer_with_the_output_of_another_group_is_refused_alone(stage: Stage) -> None:
    stage.create()
    stage.wait_for("Running")
    url = stage.groups.read(stage.name)["spec"]["output"]["url"]
    second = Stage(stage.groups, stage.kubelet, stage.operators, f"{stage.name}-too")

    second.create(output__url=url)

    second.wait_for("Stalled")
    assert second.condition("SpecValid")["message"].endswith(
        f"is also the output of {stage.groups.namespace}/{stage.name}"
    )
    assert second.drivers() == {}

    assert stage.condition("SpecValid")["status"] == "True"
    stage.patch(state="Suspended")
    stage.wait_for("Suspended")


def test_an_operator_continues_where_one_was_killed_during_a_pass(own: Stage) -> None:
    others = [rule for rule in rbac.GROUPS if "deployments" not in rule["resources"]]
    looking = {
        "apiGroups": ["apps"],
        "resources": ["deployments"],
        "verbs": ["get", "list", "watch"],
    }
    own.operators.allow([*others, looking])
    own.operators.pod = "operator-0"  # the same pod, whose container is started again
    dying = own.operators.lead()
    own.create()
    # Said once the rest is made. After a kill at the refusal itself, it might never be said.
    eventually(own.reasons, lambda said: "NotApplied" in said)
    dying.kill()
    left = own.owned()
    own.operators.allow()

    own.operators.lead()

    own.wait_for("Running")
    made = own.owned()
    assert {name: made[name] for name in left} == left
    assert [name.partition("/")[0] for name in made.keys() - left.keys()] == ["Deployment"]


def test_of_two_operators_one_stands_by_until_the_other_ends(own: Stage) -> None:
    first = own.operators.lead()
    second = own.operators.start()
    eventually(lambda: second.ask("/readyz"), lambda seen: seen == (200, "on standby\n"), PATIENCE)
    assert (
        first.metric("landfall_operator_leader"),
        second.metric("landfall_operator_leader"),
    ) == (1, 0)

    assert first.end() == ExitCode.OK

    second.wait_until_leading()


def test_an_operator_takes_over_from_one_that_was_killed(own: Stage) -> None:
    first = own.operators.lead()
    second = own.operators.start()
    eventually(lambda: second.ask("/readyz"), lambda seen: seen == (200, "on standby\n"), PATIENCE)

    first.kill()

    second.wait_until_leading()


def test_an_operator_that_resumes_after_another_took_over_writes_nothing(own: Stage) -> None:
    frozen = own.operators.lead()
    own.create()
    own.wait_for("Running")
    frozen.popen.send_signal(signal.SIGSTOP)
    own.operators.lead()
    own.patch(image="landfall:2")
    after = eventually(
        own.drivers, lambda seen: [driver.image for driver in seen.values()] == ["landfall:2"]
    )

    frozen.popen.send_signal(signal.SIGCONT)

    assert frozen.popen.wait(PATIENCE) == ExitCode.FENCED, frozen.said
    assert own.drivers() == after


def test_an_operator_that_loses_its_lease_ends(own: Stage) -> None:
    operator = own.operators.lead()

    stolen = {"spec": {"holderIdentity": "somebody-else"}}
    own.groups.kubectl("patch", "lease", OPERATOR, "--type=merge", "-p", json.dumps(stolen))

    assert operator.popen.wait(PATIENCE) == ExitCode.FENCED


def test_an_operator_without_rights_in_its_only_namespace_is_not_ready_and_says_why(
    own: Stage,
) -> None:
    own.operators.allow([])
    operator = own.operators.start()
    code, text = eventually(
        lambda: operator.ask("/readyz"), lambda seen: "can be watched" in seen[1], PATIENCE
    )
    assert (code, "403" in text) == (503, True)

    own.operators.allow()
    own.create()

    own.wait_for("Running")
    assert operator.popen.poll() is None


def test_an_operator_of_the_cluster_without_rights_exits_with_a_message(own: Stage) -> None:
    own.operators.allow([])

    operator = own.operators.start(everywhere=True)

    assert operator.popen.wait(PATIENCE) == ExitCode.STALLED
    assert "403" in operator.said
