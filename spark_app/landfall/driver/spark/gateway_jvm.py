"""Starts Spark's JVM, with PySpark's gateway in it, without Spark's scripts.

``spark-submit`` starts one JVM to assemble the command of another, which reads all settings again.
A driver knows its settings, and needs only the gateway. Where a user has settings of their own for
the JVM, in the spec or in the environment, Spark's scripts start it: see ``direct_start``.

The build of the image starts a JVM by this file alone (``docker/archive_classes.py``), so it
imports nothing of Landfall's.
"""

import atexit
import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

JVM = (
    "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto "
    "-XX:NewSize=24m -XX:MaxNewSize=24m -XX:MetaspaceSize=64m "
    "-XX:+UnlockDiagnosticVMOptions -XX:ArchiveRelocationMode=0"
)
"""Flags for the JVMs of driver and executors.

They only schedule, so optimizing their code costs more CPU than it saves, and most of that during
startup. New objects are dead soon: by default a JVM fills a hundred MB with them before it looks.
By default, too, it moves its archive of classes to a random address, and so writes to all of its
70 MB; at the address it was made for, pages are read from the file when they are needed.
"""
DRIVER_HEAP = "-Xms64m"
"""The heap of a driver's JVM to start with: it is collected before it grows beyond that."""
MEMORY = "512m"
"""The heap at most: it sees no data."""
LOG4J = Path(__file__).with_name("log4j2.properties")
"""What Spark logs."""
_DRIVER_MEMORY = "spark.driver.memory"
_GATEWAY = "org.apache.spark.api.python.PythonGatewayServer"
_CONNECTION = "_PYSPARK_DRIVER_CONN_INFO_PATH"
_POLL_SECONDS = 0.02
PATIENCE = 300.0
"""Seconds in which a JVM opens its gateway, on however busy a machine."""
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
class GatewayJvm:
    """A JVM that starts.

    Attributes:
        process: it; it ends when its standard input is closed.
        errors: what it prints.
    """

    process: subprocess.Popen[bytes]
    errors: IO[str]
    _folder: TemporaryDirectory[str]

    def connection(self, patience: float = PATIENCE) -> tuple[int, str]:
        """Wait for its gateway: the port on the loopback interface, and the secret.

        Args:
            patience: seconds to wait for it; then it is ended.

        Raises:
            RuntimeError: it ended, or did not answer.
        """
        file = Path(self._folder.name) / "connection"
        deadline = time.monotonic() + patience
        while not file.exists():
            if self.process.poll() is not None:
                raise RuntimeError("Java gateway process exited before sending its port number")
            if time.monotonic() > deadline:
                _end(self.process, os.getpid())
                raise RuntimeError(f"Java gateway process sent no port number in {patience:g} s")
            time.sleep(_POLL_SECONDS)
        answer = file.read_bytes()
        self._folder.cleanup()
        # Java's writeInt, and a string with its length before it.
        return int.from_bytes(answer[:4], "big"), answer[8:].decode()


def start_gateway_jvm(
    flags: str, environment: Mapping[str, str], properties: Mapping[str, str] = {}
) -> GatewayJvm:
    """Start it.

    Args:
        flags: of the JVM, quoted as for a shell.
        environment: names Java and Spark, and is the JVM's own.
        properties: Java's system properties; Spark takes the ones that begin with ``spark.`` as its
            settings.

    Raises:
        FileNotFoundError: there is no Java, or no Spark.
    """
    home = spark_home(environment)
    if home is None:
        raise FileNotFoundError("pyspark")
    folder = TemporaryDirectory(prefix="landfall-")
    source, sink = os.pipe()
    try:
        process = subprocess.Popen(  # noqa: S603  # the user's own Java
            _command(home, flags, environment, properties),
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
    atexit.register(_end, process, os.getpid())
    return GatewayJvm(process, os.fdopen(source, errors="replace"), folder)


def _end(process: subprocess.Popen[bytes], owner: int) -> None:
    """End the JVM and what it has started, if they run still; only its own process may.

    It ends with its standard input, but not if the gateway's main thread is gone: then another
    thread of it may keep it alive, which has nothing left to serve.
    """
    if os.getpid() == owner and process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)


def driver_flags() -> str:
    """Return the flags of a driver's JVM without the flags of an archive; quoted as for a shell."""
    return f'"-Dlog4j2.configurationFile={LOG4J}" {DRIVER_HEAP} {JVM}'


def spark_home(environment: Mapping[str, str]) -> Path | None:
    """Return where Spark is: ``SPARK_HOME``, or PySpark's own; None if there is none."""
    if home := environment.get("SPARK_HOME"):
        return Path(home)
    package = find_spec("pyspark")
    return Path(package.origin).parent if package and package.origin else None


def java(environment: Mapping[str, str]) -> Path | None:
    """Return the program that runs Java: from ``JAVA_HOME``, or the one in ``PATH``."""
    home = environment.get("JAVA_HOME")
    found = f"{home}/bin/java" if home else shutil.which("java", path=environment.get("PATH"))
    return Path(found).resolve() if found else None


def class_path(home: Path) -> str:
    """Return the jars of Spark, in the same order everywhere.

    A JVM uses an archive of classes only for the class path that the archive was made with, and
    finds the jars of ``jars/*`` in the order of the file system.
    """
    return ":".join(map(str, sorted((home / "jars").glob("*.jar"))))


def _command(
    home: Path, flags: str, environment: Mapping[str, str], properties: Mapping[str, str]
) -> list[str]:
    program = java(environment)
    if program is None:
        raise FileNotFoundError("java")
    return [
        str(program),
        "-cp",
        class_path(home),
        f"-Xmx{properties.get(_DRIVER_MEMORY, MEMORY)}",
        *shlex.split(flags),
        *shlex.split(environment.get("SPARK_SUBMIT_OPTS", "")),
        "-XX:+IgnoreUnrecognizedVMOptions",
        *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
        "-Dio.netty.tryReflectionSetAccessible=true",
        "-Dio.netty.allocator.type=pooled",
        *(f"-D{name}={value}" for name, value in properties.items()),
        _GATEWAY,
    ]
