"""Spark's settings: of every driver, of a local run, of its JVM's start."""

import os
from collections.abc import Mapping

from landfall import native
from landfall.api.contract import EXECUTORS
from landfall.api.spec import ConsumerGroup
from landfall.driver.spark.class_archive import ClassArchive
from landfall.driver.spark.direct_start import is_local, jvm_flags
from landfall.driver.spark.executors import INSTANCES
from landfall.driver.spark.fork_server import VARIABLE as FORK_SERVER
from landfall.driver.spark.fork_server import ForkServer
from landfall.driver.spark.gateway_jvm import JVM, MEMORY
from landfall.driver.spark.malloc import MALLOC
from landfall.driver.spark.worker_daemon import PRELOAD

LOCAL_CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": MEMORY,
}
"""Settings for a local master: loopback only, and a small JVM, because it sees no data."""

CONF = {
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.scheduler.mode": "FAIR",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "landfall.driver.spark.worker_daemon",
    "spark.executorEnv.OPENBLAS_NUM_THREADS": "1",
    "spark.speculation": "false",
    "spark.task.maxFailures": "3",
    "spark.executor.maxNumFailures": "1000000",
    **{f"spark.executorEnv.{name}": str(value) for name, value in MALLOC.items()},
}
"""Settings for every master.

Batches share the executors fairly. Tasks keep their Python worker, with its consumer and store
client. A driver that runs for weeks must not end because of the failures of all those weeks. The
allocator returns freed memory to the system, which lowers a worker's peak by a tenth. Exactly-once
depends on none of these settings: a task's work counts only if its result reaches the driver.
"""


def spark_settings(
    group: ConsumerGroup,
    master: str | None,
    archive: ClassArchive | None,
    server: ForkServer | None,
) -> dict[str, str]:
    """Return all settings for a context on ``master``; the spec's settings come last."""
    java = {
        "spark.driver.extraJavaOptions": jvm_flags(archive),
        "spark.executor.extraJavaOptions": JVM,
    }
    local = LOCAL_CONF if is_local(master) else {}
    settings = {**CONF, **local, **java, **executor_count(os.environ)}
    settings[f"spark.executorEnv.{PRELOAD}"] = ",".join(preloaded(group))
    if server:
        settings[f"spark.executorEnv.{FORK_SERVER}"] = str(server.socket)
    if native.VARIABLE in os.environ:  # what is switched off here is switched off in executors
        settings[f"spark.executorEnv.{native.VARIABLE}"] = os.environ[native.VARIABLE]
    return settings | group.spec.tuning.spark_conf


def preloaded(group: ConsumerGroup) -> list[str]:
    """Return the modules of the stores that tasks of the group use, if they take long to import."""
    kinds = {root.kind for root in group.spec.roots}
    return ["landfall.store.s3.store"] if "s3" in kinds else []


def executor_count(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the setting for the executor count to start with, if the environment has one.

    ``spark-defaults.conf`` has the count of the time when the driver was created.
    """
    count = environment.get(EXECUTORS, "")
    return {INSTANCES: count} if count.isdecimal() else {}
