"""Faults of pods and of their processes, and what users ask of groups at bad moments."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import psutil
from kubernetes import client

from tests.chaos import targets
from tests.chaos.environment import Environment
from tests.chaos.outcome import NotApplied
from tests.chaos.schedule import Fault, Kind
from tests.support.live_group import NAME, SYSTEM, LiveGroup

Pods = Mapping[str, Any]
Find = Callable[[str], list[psutil.Process]]

NEW_DRIVER = 60
"""Seconds until a new generation's driver is given up."""
JUMPS = (-3600, -1200, -600, -120, 120, 600, 1200, 3600)
"""Seconds a clock is wrong by; over 900, an S3 server refuses what is signed by it."""


def _one(stage: Environment, fault: Fault, role: str) -> tuple[str, Any]:
    """One of a group's running pods in a role."""
    group = stage.groups[fault.target]
    running = group.running(role)
    pods = sorted((uid, pod) for uid, pod in group.pods(role).items() if uid in running)
    if not pods:
        raise NotApplied(f"no {role} runs")
    return pods[fault.pick % len(pods)]


def _some(find: Find, uid: str, pick: int | None = None) -> list[psutil.Process]:
    """A pod's processes of a kind, or one of them."""
    found = find(uid)
    if not found:
        raise NotApplied("no such process runs")
    return found if pick is None else [found[pick % len(found)]]


def _kill(role: str, find: Find) -> Callable[[Environment, Fault], str]:
    def strike(stage: Environment, fault: Fault) -> str:
        uid, pod = _one(stage, fault, role)
        return _killed(_some(find, uid, fault.pick), pod["metadata"]["name"])

    return strike


def _killed(processes: Sequence[psutil.Process], name: str) -> str:
    if not targets.kill(processes):
        raise NotApplied("it had ended")
    return name


def _freeze(role: str, finds: Sequence[Find]) -> Callable[[Environment, Fault], str]:
    def strike(stage: Environment, fault: Fault) -> str:
        uid, pod = _one(stage, fault, role)
        with targets.frozen(_some(finds[fault.pick % len(finds)], uid)) as stopped:
            stage.rest(fault.seconds)
        return f"{stopped} processes of {pod['metadata']['name']}"

    return strike


def _delete(role: str) -> Callable[[Environment, Fault], str]:
    def strike(stage: Environment, fault: Fault) -> str:
        name = _one(stage, fault, role)[1]["metadata"]["name"]
        stage.groups[fault.target].kubectl("delete", "pod", "--grace-period=0", "--force", name)
        return str(name)

    return strike


def _evict(role: str) -> Callable[[Environment, Fault], str]:
    def strike(stage: Environment, fault: Fault) -> str:
        name = _one(stage, fault, role)[1]["metadata"]["name"]
        namespace = stage.groups[fault.target].namespace
        about = client.V1ObjectMeta(name=name, namespace=namespace)
        try:
            stage.core.create_namespaced_pod_eviction(
                name, namespace, client.V1Eviction(metadata=about)
            )
        except client.ApiException as refused:
            raise NotApplied(f"eviction refused: {refused.reason}") from refused
        return str(name)

    return strike


# ------------------------------------------------------------------------------- what users ask for


def _raise_generation(group: LiveGroup) -> int:
    generation = (
        int(group.kubectl("get", "consumergroup", NAME, "-o", "jsonpath={.spec.generation}") or 1)
        + 1
    )
    group.change(generation=generation)
    return generation


def hand_over(stage: Environment, fault: Fault) -> str:
    """A new generation is asked for."""
    return f"to generation {_raise_generation(stage.groups[fault.target])}"


def zombie(stage: Environment, fault: Fault) -> str:
    """The driver is frozen, a new generation is asked for and takes over without an answer, the old
    one wakes.
    """
    uid, pod = _one(stage, fault, "driver")
    with targets.frozen(_some(targets.of_pod, uid)):
        generation = _raise_generation(stage.groups[fault.target])
        stage.rest(fault.seconds)
    return f"{pod['metadata']['name']}, while generation {generation} was to take over"


def _hand_over_killed(*, old: bool) -> Callable[[Environment, Fault], str]:
    """Some seconds after the new driver runs, one of the two is killed."""

    def strike(stage: Environment, fault: Fault) -> str:
        group = stage.groups[fault.target]
        before = _one(stage, fault, "driver")[0]
        known = set(group.pods("driver"))
        generation = _raise_generation(group)
        for _ in range(2 * NEW_DRIVER):
            if new := group.running("driver") - known:
                break
            stage.rest(0.5)
        else:
            raise NotApplied(f"no driver of generation {generation} within {NEW_DRIVER} s")
        stage.rest(fault.pick % 20)
        uid = before if old else new.pop()
        return _killed(_some(targets.of_pod, uid), f"at generation {generation}")

    return strike


def suspend(stage: Environment, fault: Fault) -> str:
    """The group is suspended, and after a while it is to run again."""
    group = stage.groups[fault.target]
    group.change(state="Suspended")
    stage.rest(fault.seconds)
    group.change(state="Running")
    return f"after {fault.seconds:.0f} s"


def scale(stage: Environment, fault: Fault) -> str:
    """One executor becomes two, or two one."""
    group = stage.groups[fault.target]
    now = int(group.kubectl("get", "consumergroup", NAME, "-o", "jsonpath={.spec.replicas}"))
    group.kubectl("scale", "consumergroup", NAME, f"--replicas={3 - now}")
    return f"to {3 - now}"


# ---------------------------------------------------------------------------------- operator, clock


def delete_operator(stage: Environment, fault: Fault) -> str:
    """Its pod, without grace."""
    stage.stack.kill_operator()
    return ""


def _operator(stage: Environment) -> list[psutil.Process]:
    return [process for uid in stage.stack.operators() for process in _some(targets.of_pod, uid)]


def kill_operator(stage: Environment, fault: Fault) -> str:
    """Its process."""
    return _killed(_operator(stage), SYSTEM)


def freeze_operator(stage: Environment, fault: Fault) -> str:
    """Its process."""
    with targets.frozen(_operator(stage)) as stopped:
        stage.rest(fault.seconds)
    return f"{stopped} processes"


def jump(stage: Environment, fault: Fault) -> str:
    """All of a group's processes read a wrong time, and after a while the right one."""
    if stage.no_clock:
        raise NotApplied(stage.no_clock)
    group, off = stage.groups[fault.target], JUMPS[fault.pick % len(JUMPS)]
    said = sum(
        targets.set_clock(uid, off) for uid in group.running("driver") | group.running("executor")
    )
    if not said:
        raise NotApplied("nobody could be told")
    stage.rest(fault.seconds)
    for uid in group.running("driver") | group.running("executor"):
        targets.set_clock(uid, 0)
    return f"{off:+d} s for {said} processes"


INJECTORS: Mapping[Kind, Callable[[Environment, Fault], str]] = {
    Kind.DRIVER_JVM_KILLED: _kill("driver", targets.jvms),
    Kind.DRIVER_PYTHON_KILLED: _kill("driver", targets.pythons),
    Kind.DRIVER_FROZEN: _freeze(
        "driver", (targets.of_pod, targets.of_pod, targets.pythons, targets.jvms)
    ),
    Kind.DRIVER_POD_DELETED: _delete("driver"),
    Kind.DRIVER_POD_EVICTED: _evict("driver"),
    Kind.ZOMBIE: zombie,
    Kind.HAND_OVER: hand_over,
    Kind.HAND_OVER_KILLED: _hand_over_killed(old=True),
    Kind.HAND_OVER_NEW_KILLED: _hand_over_killed(old=False),
    Kind.SUSPENDED: suspend,
    Kind.EXECUTOR_JVM_KILLED: _kill("executor", targets.jvms),
    Kind.EXECUTOR_FROZEN: _freeze("executor", (targets.of_pod,)),
    Kind.WORKER_KILLED: _kill("executor", targets.workers),
    Kind.WORKER_FROZEN: _freeze("executor", (targets.workers,)),
    Kind.EXECUTOR_POD_DELETED: _delete("executor"),
    Kind.EXECUTOR_POD_EVICTED: _evict("executor"),
    Kind.SCALED: scale,
    Kind.OPERATOR_POD_DELETED: delete_operator,
    Kind.OPERATOR_KILLED: kill_operator,
    Kind.OPERATOR_FROZEN: freeze_operator,
    Kind.CLOCK: jump,
}
