"""Starts Spark's JVM without Spark's scripts where that is possible.

It is where all settings are known: in a local run, which has none, and in the pod that the operator
makes. Where a user has settings of their own, Spark's scripts start the JVM, as they alone know
what each of them needs.

A driver's pod starts it before anything else (``start_in_pod``): a JVM takes seconds, and Python
takes as long to import what a driver needs. So this file imports little.
"""

import json
import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import TypeGuard

from landfall.driver.spark.class_archive import ClassArchive, class_archive
from landfall.driver.spark.fork_server import ForkServer
from landfall.driver.spark.gateway_jvm import (
    GatewayJvm,
    driver_flags,
    spark_home,
    start_gateway_jvm,
)

_UNAFFECTED = (
    "spark.task.",
    "spark.executor.",
    "spark.executorEnv.",
    "spark.kubernetes.",
    "spark.scheduler.",
    "spark.local.dir",
)
"""Prefixes of settings of a spec that Spark reads only when its context starts."""
_OF_POD = (
    *_UNAFFECTED,
    "spark.authenticate",
    "spark.driver.bindAddress",
    "spark.driver.blockManager.port",
    "spark.driver.host",
    "spark.driver.memory",
    "spark.driver.port",
    "spark.dynamicAllocation.",
    "spark.master",
    "spark.network.",
    "spark.submit.deployMode",
)
"""Prefixes of settings of a pod: Spark takes them from Java's system properties."""
_READ_BY_SCRIPTS = (
    "SPARK_CLASSPATH",
    "SPARK_DIST_CLASSPATH",
    "SPARK_DRIVER_MEMORY",
    "SPARK_PREPEND_CLASSES",
    "PYSPARK_GATEWAY_PORT",
    "PYSPARK_PIN_THREAD",
    "HADOOP_CONF_DIR",
)
_DRIVER_POD = "spark.kubernetes.driver.pod.name"
_TEMPLATE = "spark.kubernetes.executor.podTemplateFile"
_SETTINGS = "spark-defaults.conf"
_FILES = frozenset({_SETTINGS, "group.json", "executor.json"})
"""What the folder of a pod's settings has; of other files only the scripts know the meaning."""


@dataclass(frozen=True, slots=True)
class EarlyStart:
    """The parts of a start that were begun.

    Attributes:
        archive: of Spark's classes, which the JVM uses or makes.
        jvm: None if Spark's scripts are to start it.
        server: the copy of a local run's process; None if Spark's daemon imports what it needs.
    """

    archive: ClassArchive | None = None
    jvm: GatewayJvm | None = None
    server: ForkServer | None = None


def start_directly(
    master: str | None,
    user_conf: Mapping[str, str],
    environment: Mapping[str, str],
    archive: ClassArchive | None,
) -> EarlyStart:
    """Start the JVM, unless Spark's scripts are to do it.

    Their class path is another one, so that what they start cannot use the archive.
    """
    properties = spark_properties(master, user_conf, environment)
    if properties is None:
        return EarlyStart()
    try:
        properties = _with_owner(properties, environment)
        jvm = start_gateway_jvm(jvm_flags(archive), environment, properties)
    except (OSError, ValueError):  # the scripts fail as well, and their error is reported
        return EarlyStart()
    return EarlyStart(archive, jvm)


def start_in_pod(group_file: Path, environment: Mapping[str, str]) -> EarlyStart:
    """Start the JVM of the driver whose group is in a file, as the operator writes it.

    Nothing is started or logged where the file is not what it should be.
    """
    try:
        tuning = json.loads(group_file.read_text())["spec"].get("tuning", {})
        user_conf = {str(key): str(value) for key, value in tuning.get("sparkConf", {}).items()}
    except (OSError, ValueError, LookupError, AttributeError, TypeError):
        return EarlyStart()
    archive = class_archive(environment)
    # A pod makes no archive: it has a file system of its own.
    existing = None if archive and archive.making else archive
    return start_directly(None, user_conf, environment, existing)


def jvm_flags(archive: ClassArchive | None) -> str:
    """Return the flags of the driver's JVM, quoted as for a shell."""
    return f"{driver_flags()} {archive.flags if archive else ''}"


def is_local(master: str | None) -> TypeGuard[str]:
    """Return whether tasks run on this machine, started by this process."""
    return bool(master and master.startswith("local"))


def spark_properties(
    master: str | None, user_conf: Mapping[str, str], environment: Mapping[str, str]
) -> dict[str, str] | None:
    """Return the settings that the JVM starts with; None if Spark's scripts are to start it."""
    if (
        os.name != "posix"
        or any(environment.get(name) for name in _READ_BY_SCRIPTS)
        or not all(key.startswith(_UNAFFECTED) for key in user_conf)
    ):
        return None
    folder, arguments = (
        environment.get("SPARK_CONF_DIR"),
        environment.get("PYSPARK_SUBMIT_ARGS", ""),
    )
    if is_local(master):
        home = spark_home(environment)
        has_own = folder or arguments or home is None or (home / "conf").exists()
        return None if has_own else {}
    return _of_pod(Path(folder), arguments) if folder and master is None else None


def _of_pod(folder: Path, arguments: str) -> dict[str, str] | None:
    """Return the settings of a driver's pod; None if it has settings besides the operator's."""
    if not {file.name for file in folder.glob("[!.]*")} <= _FILES:
        return None
    try:
        pairs = [*_of_file(folder / _SETTINGS), *_of_arguments(arguments)]
    except (OSError, ValueError):
        return None
    found = dict(pairs)
    runs_here = (
        found.get("spark.master", "").startswith("k8s://")
        and found.get("spark.submit.deployMode") == "client"
    )
    return found if runs_here and all(key.startswith(_OF_POD) for key in found) else None


def _with_owner(properties: dict[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return settings with which the executors' template, not Spark, names the owner pod.

    Spark would ask for the driver's pod, and then wait for a second until it is ready, which the
    pod of a starting driver never is.

    Raises:
        OSError, ValueError: the template cannot be read, or its copy cannot be written.
    """
    name, uid = environment.get("POD_NAME"), environment.get("POD_UID")
    template = properties.get(_TEMPLATE)
    if not (name and uid and template):  # an operator of an earlier release
        return properties
    pod = json.loads(Path(template).read_text())
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid, "controller": True}
    pod.setdefault("metadata", {}).setdefault("ownerReferences", []).append(owner)
    owned = Path(mkdtemp(prefix="landfall-")) / "executor.json"
    owned.write_text(json.dumps(pod))
    rest = {key: value for key, value in properties.items() if key != _DRIVER_POD}
    return {**rest, _TEMPLATE: str(owned)}


def _of_file(file: Path) -> Iterator[tuple[str, str]]:
    """Settings in the operator's form; Java's has more, such as escapes."""
    for line in file.read_text().splitlines():
        name, value = line.split(" ")
        yield name, value


def _of_arguments(arguments: str) -> Iterator[tuple[str, str]]:
    """Settings of ``--conf name=value ... pyspark-shell``."""
    *options, program = shlex.split(arguments)
    if program != "pyspark-shell" or len(options) % 2:
        raise ValueError(arguments)
    for option, setting in zip(options[::2], options[1::2], strict=True):
        if option != "--conf":
            raise ValueError(arguments)
        name, value = setting.split("=", 1)
        yield name, value
