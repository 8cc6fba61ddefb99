"""Scenes on a real node, as ``kubectl`` shows them.

Two operators, two tenants, a missing Secret, and sidecars that stay.

``make operator-evidence`` writes them into ``docs``. Those that need more pods or nodes are in
``tests/integration/test_operator_scenes.py``.
"""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from textwrap import fill

import pytest

from dev.kube import programs
from dev.kube.images import CURRENT, REGISTRY
from tests.support.kubernetes.live_group import NAME, SOUND, LiveGroup
from tests.support.kubernetes.stack import Stack
from tests.support.operator.operator_evidence import WIDTH, Scene, scene

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(1800, func_only=True),
    pytest.mark.xdist_group("node"),
]

SECOND = "second"
"""Another release of the chart, in a namespace of its own."""


def describe(group: LiveGroup, shown: Scene) -> str:
    """Show and return the conditions that say whether the group lands, and its Events."""
    return shown.describe(group.kubectl, NAME, "SpecValid", "Ready", "Deployed", "Stalled")


def helm(stack: Stack, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run helm for the second release."""
    program = str(programs.helm() / "helm")
    argv = [program, "--kubeconfig", str(stack.cluster), "-n", SECOND, *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


@contextmanager
def second_release(stack: Stack, *options: str) -> Iterator[str]:
    """Install a second operator with default values; yields the notes of the release."""
    chart = str(CURRENT.root / "charts" / "landfall")
    values = (*stack.place.values(), "--set", "crds.install=false", *options)
    waiting = ("--create-namespace", "--wait", "--timeout", "10m")
    done = helm(stack, "install", SECOND, chart, *waiting, *values)
    assert done.returncode == 0, done.stderr
    try:
        yield done.stdout
    finally:
        helm(stack, "uninstall", SECOND, "--no-hooks", "--wait")


def writes(stack: Stack, namespace: str, service: str) -> float:
    """What an operator has written, but for its lease."""
    path = f"/api/v1/namespaces/{namespace}/services/{service}:http/proxy/metrics"
    metrics = stack.cluster.kubectl("get", "--raw", path)
    lines = (line for line in metrics.splitlines() if "_api_requests_total{" in line)
    reads = ('verb="get"', 'verb="list"', 'kind="Lease"')
    return sum(float(line.split()[-1]) for line in lines if not any(r in line for r in reads))


def test_two_operators_over_one_namespace(stack: Stack, group: LiveGroup, topic: str) -> None:
    group.apply_and_wait_for_commit()
    group.wait_until_landed()

    with scene("Two operators over one namespace") as shown, second_release(stack) as notes:
        shown.say(
            "The chart is installed a second time with default values, so both operators watch the "
            "same namespaces. Its notes say so:"
        )
        said = notes[notes.index("Groups that another operator") :].split("\n\nCheck that")[0]
        registry = f"--set image.registry={REGISTRY}"
        shown.show(f"helm install {SECOND} charts/landfall -n {SECOND} {registry}", said)
        group.wait(lambda: "left alone" in second_log(stack), "the second operator says so")
        shown.show(f"kubectl -n {SECOND} logs deploy/{SECOND}-landfall-operator", second_log(stack))
        operators = (("landfall", "landfall-operator"), (SECOND, f"{SECOND}-landfall-operator"))
        before = [writes(stack, *operator) for operator in operators]
        time.sleep(20)
        counts = [writes(stack, *of) - then for of, then in zip(operators, before, strict=True)]
        path = f"/api/v1/namespaces/{SECOND}/services/{SECOND}-landfall-operator:http/proxy/metrics"
        metrics = stack.cluster.kubectl("get", "--raw", path)
        foreign = [line for line in metrics.splitlines() if "foreign_group{" in line]
        shown.show(f"kubectl get --raw {path} | grep foreign_group", "\n".join(foreign))
        shown.say(
            f"In 20 s the first operator writes {counts[0]:.0f} times, the second one "
            f"{counts[1]:.0f} times. The group is as before:"
        )
        shown.get(group.kubectl)
        describe(group, shown)

    assert foreign
    assert counts[1] == 0
    assert counts[0] < 5
    assert group.final_audit() == SOUND


def second_log(stack: Stack) -> str:
    """The lines of the second operator about groups that it leaves alone."""
    printed = stack.cluster.kubectl("-n", SECOND, "logs", f"deploy/{SECOND}-landfall-operator")
    return "\n".join(fill(line, WIDTH) for line in printed.splitlines() if "left alone" in line)


def test_two_tenants_and_one_place(groups: Callable[[], LiveGroup]) -> None:
    first, second = groups(), groups()
    first.topic()
    first.apply_and_wait_for_commit()
    first.wait_for_condition("Ready", "True", "AsExpected")
    before, landed_by = gist(first), first.status()["rollout"]["active"]

    with scene("Two tenants and one place") as shown:
        shown.say(
            f"A group lands in `{first.namespace}`. Somebody applies a copy of it in "
            f"`{second.namespace}`, with the same `output.url` and topics:"
        )
        copy = first.document()
        copy["metadata"]["namespace"] = second.namespace
        second.apply_keys()
        second.cluster.kubectl("apply", "-f", "-", manifest=copy)
        second.wait_for_condition("SpecValid", "False", "SpecInvalid")
        said = second.cluster.kubectl("get", "consumergroups", "-A")
        shown.show("kubectl get consumergroups -A", said)
        text = describe(second, shown)
        shown.say("The first group has the same conditions as before, and takes an edit:")
        first.change(uploadPolicy={"maxBytes": "2M"})
        first.wait(
            lambda: (
                first.status().get("observedGeneration") == 2
                and first.condition("Deployed")[0] == "True"
            ),
            "the edit is deployed",
        )
        describe(first, shown)

    assert first.namespace not in text
    assert first.namespace not in json.dumps(second.status())
    assert gist(first) == before
    assert first.status()["rollout"]["active"] != landed_by, "the edit is what lands"
    assert second.condition("SpecValid")[:2] == ("False", "SpecInvalid"), "still refused"
    assert second.pods("driver") == {}
    assert second.kubectl("get", "deployments", "-o", "name") == "", "nothing was made for it"
    assert first.final_audit() == SOUND


def gist(group: LiveGroup) -> dict[str, str]:
    """The status of the group's conditions that say whether it lands."""
    return {kind: group.condition(kind)[0] for kind in ("Ready", "SpecValid", "Stalled")}


def test_a_missing_secret_and_a_missing_key(group: LiveGroup, topic: str) -> None:
    with scene("A missing Secret, and a missing key") as shown:
        shown.say("`output.s3.credentialsSecretRef` names a Secret that does not exist:")
        group.cluster.kubectl("apply", "-f", "-", manifest=group.document())
        begun = time.monotonic()
        group.wait(lambda: group.condition("Stalled")[1] == "SecretMissing", "it is named")
        seconds = time.monotonic() - begun
        shown.get(group.kubectl, "-o", "wide")
        describe(group, shown)
        shown.say(
            f"That took {seconds:.0f} s. The Secret is made, but its second key is called "
            "`SECRET`; the driver starts, and what it lacks is named as well:"
        )
        env = group.scene.bucket.server.env
        literals = (
            f"--from-literal=AWS_ACCESS_KEY_ID={env['AWS_ACCESS_KEY_ID']}",
            f"--from-literal=SECRET={env['AWS_SECRET_ACCESS_KEY']}",
        )
        group.kubectl("create", "secret", "generic", "s3", *literals)
        # Between the first restarts, which follow at once, the driver is starting again.
        group.wait(
            lambda: group.driver()[1] >= 2 and "AWS_SECRET_ACCESS_KEY" in said(group),
            "the key is named",
        )
        shown.get(group.kubectl, "-o", "wide")
        describe(group, shown)
        shown.say("With the right key, it lands. Nobody does anything else:")
        group.kubectl("delete", "secret", "s3")
        group.apply_keys()
        group.wait_until_landed()
        shown.get(group.kubectl)

    assert seconds < 60
    assert group.final_audit() == SOUND


def said(group: LiveGroup) -> str:
    """The messages of all conditions that somebody has to do something about."""
    return json.dumps(group.status().get("conditions", []))


PODS = f"kubectl get pods -l landfall.dev/group={NAME} -o custom-columns=…"


def sidecar(image: str) -> dict[str, object]:
    """A container that ends only at its signal, like the proxy of a mesh."""
    stays = "trap 'exit 0' TERM; while :; do sleep 1; done"
    restricted = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    command = ["sh", "-c", stays]
    return {"name": "mesh-proxy", "image": image, "command": command, "securityContext": restricted}


def containers(group: LiveGroup) -> str:
    """The pods of the group with their containers, as ``kubectl get`` lists them."""
    shown = (
        "NAME:.metadata.name",
        "PHASE:.status.phase",
        "INIT:.spec.initContainers[*].name",
        "CONTAINERS:.spec.containers[*].name",
        "READY:.status.containerStatuses[*].ready",
    )
    chosen = ("-l", f"landfall.dev/group={NAME}", "-o", f"custom-columns={','.join(shown)}")
    return group.kubectl("get", "pods", *chosen)


@pytest.mark.parametrize("kind", ["native", "classic"])
def test_sidecars_that_stay(group: LiveGroup, topic: str, kind: str) -> None:
    container = sidecar(CURRENT.image("spark"))
    spec: dict[str, object] = {"containers": [container]}
    if kind == "native":
        spec = {"initContainers": [{**container, "restartPolicy": "Always"}]}
    sizes = {"cores": 1, "resources": {"requests": {"cpu": "100m"}}}

    with scene(f"Sidecars that stay ({kind})") as shown:
        shown.say(
            "Driver and executors have a container that ends only at its signal, like the "
            "proxy of a mesh, "
            + (
                "as a native sidecar (`initContainers` with `restartPolicy: Always`)"
                if kind == "native"
                else "as a second container"
            )
            + ". The group lands:"
        )
        group.apply(driver=spec, executor={**sizes, **spec})
        group.wait_for_commit()
        group.wait_until_landed()
        shown.show(PODS, containers(group))
        ended = group.running("executor")
        shown.say(
            "The program of the executor ends; its pod is deleted, and another one lands the next "
            "records:"
        )
        group.inside("executor", "sh", "-c", "kill -TERM 1")
        group.wait(lambda: not ended & group.pods("executor").keys(), "the old executor is gone")
        group.topic()
        group.wait_until_landed()
        group.wait(lambda: group.running("executor"), "an executor runs")
        shown.show(PODS, containers(group))
        shown.say("`state: Suspended`; no sidecar keeps a pod:")
        assert group.final_audit() == SOUND
        group.change(state="Suspended")
        group.wait_for_phase("Suspended")
        group.wait(lambda: not containers(group).splitlines()[1:], "no pod is left")
        shown.get(group.kubectl)
        shown.show(PODS, containers(group))
