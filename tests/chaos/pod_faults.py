"""Faults of pods and their processes, and changes that users make to groups at bad moments."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import psutil
from kubernetes import client

from tests.chaos import targets
from tests.chaos.environment import Environment
from tests.chaos.outcome import NotInjected
from tests.chaos.schedule import Fault, Kind
from tests.support.kubernetes.live_group import NAME, SYSTEM, LiveGroup

Find = Callable[[str], list[psutil.Process]]

NEW_DRIVER_TIMEOUT = 60
"""Seconds to wait until the driver of a new generation runs."""
CLOCK_OFFSETS = (-3600, -1200, -600, -120, 120, 600, 1200, 3600)
"""Seconds by which a clock is wrong.

Beyond 900 either way, an S3 server refuses the signatures made with it.
"""


def pick_pod(environment: Environment, fault: Fault, role: str) -> tuple[str, Any]:
    """One of a group's running pods in a role, with its uid."""
    group = environment.groups[fault.target]
    running = group.running(role)
    pods = sorted((uid, pod) for uid, pod in group.pods(role).items() if uid in running)
    if not pods:
        raise NotInjected(f"no {role} pod runs")
    return pods[fault.pick % len(pods)]


def _find_processes(find: Find, uid: str, pick: int | None = None) -> list[psutil.Process]:
    """The processes of a pod that ``find`` finds, or one of them."""
    found = find(uid)
    if not found:
        raise NotInjected("the pod runs no such process")
    return found if pick is None else [found[pick % len(found)]]


def _pod_process_killer(role: str, find: Find) -> Callable[[Environment, Fault], str]:
    def inject(environment: Environment, fault: Fault) -> str:
        uid, pod = pick_pod(environment, fault, role)
        return _kill_processes(_find_processes(find, uid, fault.pick), pod["metadata"]["name"])

    return inject


def _kill_processes(processes: Sequence[psutil.Process], name: str) -> str:
    if not targets.kill(processes):
        raise NotInjected("the process had already ended")
    return name


def _pod_process_freezer(role: str, finds: Sequence[Find]) -> Callable[[Environment, Fault], str]:
    def inject(environment: Environment, fault: Fault) -> str:
        uid, pod = pick_pod(environment, fault, role)
        with targets.frozen(_find_processes(finds[fault.pick % len(finds)], uid)) as stopped:
            environment.wait(fault.seconds)
        return f"{_processes(stopped)} of {pod['metadata']['name']}"

    return inject


def _pod_deleter(role: str) -> Callable[[Environment, Fault], str]:
    def inject(environment: Environment, fault: Fault) -> str:
        name = pick_pod(environment, fault, role)[1]["metadata"]["name"]
        environment.groups[fault.target].kubectl(
            "delete", "pod", "--grace-period=0", "--force", name
        )
        return str(name)

    return inject


def _pod_evicter(role: str) -> Callable[[Environment, Fault], str]:
    def inject(environment: Environment, fault: Fault) -> str:
        name = pick_pod(environment, fault, role)[1]["metadata"]["name"]
        namespace = environment.groups[fault.target].namespace
        about = client.V1ObjectMeta(name=name, namespace=namespace)
        try:
            environment.core_api.create_namespaced_pod_eviction(
                name, namespace, client.V1Eviction(metadata=about)
            )
        except client.ApiException as refused:
            raise NotInjected(f"eviction refused: {refused.reason}") from refused
        return str(name)

    return inject


# ----------------------------------------------------------------------- changes that a user makes


def _raise_generation(group: LiveGroup) -> int:
    generation = (
        int(group.kubectl("get", "consumergroup", NAME, "-o", "jsonpath={.spec.generation}") or 1)
        + 1
    )
    group.change(generation=generation)
    return generation


def hand_over(environment: Environment, fault: Fault) -> str:
    """Raise the group's generation, which starts a handover."""
    return f"to generation {_raise_generation(environment.groups[fault.target])}"


def freeze_during_handover(environment: Environment, fault: Fault) -> str:
    """Freeze the driver, raise the generation, and wake the old driver after the fault.

    The new driver has to take over without an answer from the old one, which then is a zombie.
    """
    uid, pod = pick_pod(environment, fault, "driver")
    with targets.frozen(_find_processes(targets.of_pod, uid)):
        generation = _raise_generation(environment.groups[fault.target])
        environment.wait(fault.seconds)
    return f"{pod['metadata']['name']}, frozen while generation {generation} was due to take over"


def _handover_killer(*, old: bool) -> Callable[[Environment, Fault], str]:
    """Start a handover, and kill one of the two drivers some seconds after the new one runs."""

    def inject(environment: Environment, fault: Fault) -> str:
        group = environment.groups[fault.target]
        before = pick_pod(environment, fault, "driver")[0]
        known = set(group.pods("driver"))
        generation = _raise_generation(group)
        for _ in range(2 * NEW_DRIVER_TIMEOUT):
            if new := group.running("driver") - known:
                break
            environment.wait(0.5)
        else:
            raise NotInjected(
                f"no driver of generation {generation} ran within {NEW_DRIVER_TIMEOUT} s"
            )
        environment.wait(fault.pick % 20)
        uid = before if old else new.pop()
        processes = _find_processes(targets.of_pod, uid)
        return _kill_processes(processes, f"at the handover to generation {generation}")

    return inject


def suspend(environment: Environment, fault: Fault) -> str:
    """Suspend the group, and resume it after the fault."""
    group = environment.groups[fault.target]
    group.change(state="Suspended")
    environment.wait(fault.seconds)
    group.change(state="Running")
    return f"resumed after {fault.seconds:.0f} s"


def scale(environment: Environment, fault: Fault) -> str:
    """Change the replicas from one to two, or from two to one."""
    group = environment.groups[fault.target]
    now = int(group.kubectl("get", "consumergroup", NAME, "-o", "jsonpath={.spec.replicas}"))
    group.kubectl("scale", "consumergroup", NAME, f"--replicas={3 - now}")
    return f"to {3 - now}"


# ---------------------------------------------------------------------------------- operator, clock


def delete_operator(environment: Environment, fault: Fault) -> str:
    """Delete the operator's pod without a grace period."""
    environment.stack.kill_operator()
    return ""


def _operator(environment: Environment) -> list[psutil.Process]:
    return [
        process
        for uid in environment.stack.operators()
        for process in _find_processes(targets.of_pod, uid)
    ]


def kill_operator(environment: Environment, fault: Fault) -> str:
    """Kill the operator's process."""
    return _kill_processes(_operator(environment), SYSTEM)


def freeze_operator(environment: Environment, fault: Fault) -> str:
    """Freeze the operator's process."""
    with targets.frozen(_operator(environment)) as stopped:
        environment.wait(fault.seconds)
    return _processes(stopped)


def shift_clock(environment: Environment, fault: Fault) -> str:
    """Shift the clock of all processes of a group, and set it right after the fault."""
    if environment.clock_unavailable:
        raise NotInjected(environment.clock_unavailable)
    group, offset = environment.groups[fault.target], CLOCK_OFFSETS[fault.pick % len(CLOCK_OFFSETS)]
    reached = sum(
        targets.set_clock(uid, offset)
        for uid in group.running("driver") | group.running("executor")
    )
    if not reached:
        raise NotInjected("no process reads a shiftable clock")
    environment.wait(fault.seconds)
    # The pods are listed again: those started in between must not keep the wrong time either.
    for uid in group.running("driver") | group.running("executor"):
        targets.set_clock(uid, 0)
    return f"{offset:+d} s for {_processes(reached)}"


def _processes(count: int) -> str:
    return f"{count} {'process' if count == 1 else 'processes'}"


INJECTORS: Mapping[Kind, Callable[[Environment, Fault], str]] = {
    Kind.DRIVER_JVM_KILLED: _pod_process_killer("driver", targets.jvms),
    Kind.DRIVER_PYTHON_KILLED: _pod_process_killer("driver", targets.pythons),
    Kind.DRIVER_FROZEN: _pod_process_freezer(
        "driver", (targets.of_pod, targets.of_pod, targets.pythons, targets.jvms)
    ),
    Kind.DRIVER_POD_DELETED: _pod_deleter("driver"),
    Kind.DRIVER_POD_EVICTED: _pod_evicter("driver"),
    Kind.ZOMBIE: freeze_during_handover,
    Kind.HAND_OVER: hand_over,
    Kind.HAND_OVER_KILLED: _handover_killer(old=True),
    Kind.HAND_OVER_NEW_KILLED: _handover_killer(old=False),
    Kind.SUSPENDED: suspend,
    Kind.EXECUTOR_JVM_KILLED: _pod_process_killer("executor", targets.jvms),
    Kind.EXECUTOR_FROZEN: _pod_process_freezer("executor", (targets.of_pod,)),
    Kind.WORKER_KILLED: _pod_process_killer("executor", targets.workers),
    Kind.WORKER_FROZEN: _pod_process_freezer("executor", (targets.workers,)),
    Kind.EXECUTOR_POD_DELETED: _pod_deleter("executor"),
    Kind.EXECUTOR_POD_EVICTED: _pod_evicter("executor"),
    Kind.SCALED: scale,
    Kind.OPERATOR_POD_DELETED: delete_operator,
    Kind.OPERATOR_KILLED: kill_operator,
    Kind.OPERATOR_FROZEN: freeze_operator,
    Kind.CLOCK: shift_clock,
}
