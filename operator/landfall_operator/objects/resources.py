"""Requests and limits of the containers of drivers and executors. Pure.

A user gives some of them and Landfall has defaults for the rest. The API server rejects a request
above its limit, and an extended resource such as ``nvidia.com/gpu`` without a limit, so a value
that the user did not give follows the one that the user gave.
"""

import re
from collections.abc import Mapping
from fractions import Fraction

from landfall.api.pod_spec import Resources
from landfall.api.spec import ConsumerGroup
from landfall.api.values import quantity

MIB = 2**20
HEAP = 512 * MIB
"""JVM heap of drivers and executors."""
IDLE_WORKER = 176 * MIB
"""Memory of a Python worker between two tasks, measured: 144 MiB, and 183 with 1,000 columns."""
ABOVE_TASK_MEMORY = 64 * MIB
"""How far the peak of a task may be above ``tuning.taskMemory``.

``tests/bench/memory_shapes.py`` checks it.
"""
WORKER_MEMORY = IDLE_WORKER + ABOVE_TASK_MEMORY
"""Memory of a Python worker, in addition to ``tuning.taskMemory``."""
MIN_OVERHEAD = 384 * MIB
"""Spark's own minimum for the memory overhead."""
DRIVER = Resources(
    requests={"cpu": "250m", "memory": "1Gi"},
    limits={"memory": "1536Mi"},
)
"""The resources of the driver's container where the user gives none."""
_SET_BY_SPARK = frozenset({"cpu", "memory"})

Values = dict[str, dict[str, str]]
"""Quantities by resource, under ``requests`` and ``limits``."""


def driver_resources(given: Resources, default: Resources = Resources()) -> Values:  # noqa: B008  # frozen
    """Requests and limits of the driver's container."""
    found = completed(given, completed(default, DRIVER))
    limits = {**_extended(found), **found.limits}
    return _present({"requests": found.requests, "limits": limits})


def completed(given: Resources, default: Resources) -> Resources:
    """Return the given values, and defaults for the rest, adjusted to fit the given ones."""
    requests = {**default.requests, **given.requests}
    limits = {**default.limits, **given.limits}
    for name, value in given.requests.items():
        if name not in given.limits and name in limits and amount(value) > amount(limits[name]):
            limits[name] = value
    for name, value in given.limits.items():
        if (
            name not in given.requests
            and name in requests
            and amount(requests[name]) > amount(value)
        ):
            requests[name] = value
    return Resources(requests=requests, limits=limits)


def executor_resources(given: Resources) -> Values:
    """Requests and limits in the executors' template: all that Spark does not set itself.

    Spark adds cpu and memory, from its properties, to what the template has.
    """
    return _present(
        {
            "requests": _without_spark(given.requests),
            "limits": {**_extended(given), **_without_spark(given.limits)},
        }
    )


def executor_cpu(given: Resources) -> dict[str, str]:
    """Spark's properties for the CPU of executors."""
    request = given.requests.get("cpu")
    limit = given.limits.get("cpu")
    cpu = {"request": request or limit, "limit": limit}
    return {
        f"spark.kubernetes.executor.{kind}.cores": value for kind, value in cpu.items() if value
    }


def executor_memory(
    group: ConsumerGroup,
    default: Resources = Resources(),  # noqa: B008  # frozen
) -> tuple[int, int]:
    """Bytes of an executor's heap and of its memory overhead.

    Their sum is the user's memory limit or request. Without one, the overhead is what the tasks
    need.
    """
    size = completed(group.spec.executor.resources, default)
    tasks = group.spec.executor.cores
    given = size.limits.get("memory") or size.requests.get("memory")
    total = (
        quantity(given) if given else HEAP + tasks * (group.spec.tuning.task_memory + WORKER_MEMORY)
    )
    return HEAP, max(total - HEAP, MIN_OVERHEAD)


def amount(text: str) -> Fraction:
    """The value of a quantity such as ``500m``, ``2`` or ``1Gi``."""
    number, unit = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", text).groups()  # type: ignore[union-attr]  # the spec's form is checked
    return Fraction(number) * (Fraction(1, 1000) if unit == "m" else quantity(f"1{unit}"))


def _extended(given: Resources) -> dict[str, str]:
    """The requests of extended resources: their limits must equal them."""
    return {name: value for name, value in given.requests.items() if "/" in name}


def _without_spark(values: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in values.items() if name not in _SET_BY_SPARK}


def _present(values: Values) -> Values:
    return {kind: named for kind, named in values.items() if named}
