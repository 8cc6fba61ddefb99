"""Starts the JVM of a local run without Spark's scripts.

``spark-submit`` starts one JVM to put together the command of another, which reads all settings
again. A local run knows its settings, and needs only Spark's gateway for Python. Where somebody has
settings of their own for Spark's JVM, in the spec or in the environment, Spark's scripts start it.
"""

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

MEMORY_MB = 512
"""The heap at most: it sees no data."""
_UNAFFECTED = ("spark.task.", "spark.executorEnv.", "spark.scheduler.", "spark.local.dir")
"""Prefixes of settings of a spec that Spark reads only when its context starts."""
_READ_BY_SCRIPTS = (
    "SPARK_CONF_DIR",
    "SPARK_CLASSPATH",
    "SPARK_DIST_CLASSPATH",
    "SPARK_DRIVER_MEMORY",
    "SPARK_PREPEND_CLASSES",
    "PYSPARK_SUBMIT_ARGS",
    "PYSPARK_GATEWAY_PORT",
    "PYSPARK_PIN_THREAD",
    "HADOOP_CONF_DIR",
)
_GATEWAY = "org.apache.spark.api.python.PythonGatewayServer"
_CONNECTION = "_PYSPARK_DRIVER_CONN_INFO_PATH"
_POLL_SECONDS = 0.02
_OPENED = (
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.io",
    "java.net",
    "java.nio",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "jdk.internal.ref",
    "sun.nio.ch",
    "sun.nio.cs",
    "sun.security.action",
    "sun.util.calendar",
)
"""Packages of Java that Spark looks into, as its own launcher opens them."""


@dataclass(frozen=True, slots=True)
class LocalJvm:
    """A JVM that starts.

    Attributes:
        process: it; it ends when its standard input is closed.
        errors: what it prints.
    """

    process: subprocess.Popen[bytes]
    errors: IO[str]
    _folder: TemporaryDirectory[str]

    def connection(self) -> tuple[int, str]:
        """Wait for its gateway: the port on the loopback interface, and the secret.

        Raises:
            RuntimeError: it ended.
        """
        file = Path(self._folder.name) / "connection"
        while not file.exists():
            if self.process.poll() is not None:
                raise RuntimeError("Java gateway process exited before sending its port number")
            time.sleep(_POLL_SECONDS)
        answer = file.read_bytes()
        self._folder.cleanup()
        # Java's writeInt, and a string with its length before it.
        return int.from_bytes(answer[:4], "big"), answer[8:].decode()


def needs_scripts(user_conf: Mapping[str, str], environment: Mapping[str, str]) -> bool:
    """Whether somebody has settings for the JVM that only Spark's scripts know how to use."""
    home = spark_home(environment)
    return (
        os.name != "posix"
        or home is None
        or (home / "conf").exists()
        or any(environment.get(name) for name in _READ_BY_SCRIPTS)
        or not all(key.startswith(_UNAFFECTED) for key in user_conf)
    )


def start_local_jvm(flags: str, environment: Mapping[str, str]) -> LocalJvm:
    """Start it; ``flags`` are those of the JVM, quoted as for a shell.

    Raises:
        FileNotFoundError: there is no Java.
    """
    home = spark_home(environment)
    assert home, "see needs_scripts"
    folder = TemporaryDirectory(prefix="landfall-")
    source, sink = os.pipe()
    try:
        process = subprocess.Popen(  # noqa: S603  # the user's own Java
            _command(home, flags, environment),
            env={
                **environment,
                # As Spark's scripts do.
                "SPARK_HOME": str(home),
                "PYTHONHASHSEED": "0",
                "SPARK_CONNECT_MODE": "0",
                _CONNECTION: f"{folder.name}/connection",
            },
            stdin=subprocess.PIPE,
            stderr=sink,
            # Ctrl-C is for the driver, which stops Spark when it has drained.
            process_group=0,
        )
    except BaseException:
        os.close(source)
        folder.cleanup()
        raise
    finally:
        os.close(sink)  # the JVM keeps its copy for good
    return LocalJvm(process, os.fdopen(source, errors="replace"), folder)


def spark_home(environment: Mapping[str, str]) -> Path | None:
    """Where Spark is: ``SPARK_HOME``, or PySpark's own; None if there is none."""
    if home := environment.get("SPARK_HOME"):
        return Path(home)
    package = find_spec("pyspark")
    return Path(package.origin).parent if package and package.origin else None


def java(environment: Mapping[str, str]) -> Path | None:
    """The program that runs Java: that of ``JAVA_HOME``, or the one in ``PATH``."""
    home = environment.get("JAVA_HOME")
    found = f"{home}/bin/java" if home else shutil.which("java", path=environment.get("PATH"))
    return Path(found).resolve() if found else None


def _command(home: Path, flags: str, environment: Mapping[str, str]) -> list[str]:
    program = java(environment)
    if program is None:
        raise FileNotFoundError("java")
    return [
        str(program),
        "-cp",
        f"{home}/conf:{home}/jars/*",  # as Spark's scripts have it, so that both share an archive
        f"-Xmx{MEMORY_MB}m",
        *shlex.split(flags),
        *shlex.split(environment.get("SPARK_SUBMIT_OPTS", "")),
        "-XX:+IgnoreUnrecognizedVMOptions",
        *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
        "-Dio.netty.tryReflectionSetAccessible=true",
        "-Dio.netty.allocator.type=pooled",
        _GATEWAY,
    ]
