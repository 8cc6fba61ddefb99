"""Starts the JVM of Spark, and reads what it prints."""

import logging
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from landfall.driver.spark.executor_problems import ExecutorProblems
from landfall.driver.spark.executors import first_line
from landfall.driver.spark.gateway_jvm import GatewayJvm
from landfall.errors import LandfallError, Reason, Retry, Stalled

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyspark import SparkConf

log = logging.getLogger(__name__)


@contextmanager
def jvm_with_events(
    conf: "SparkConf", problems: ExecutorProblems, own: GatewayJvm | None = None
) -> Iterator["JavaGateway | None"]:
    """Start the JVM with its standard error in a pipe, whose lines become log events.

    What Spark prints at startup matters only if it fails to start. What Spark and the tasks print
    later always matters. None if this process has a JVM already. ``own`` starts already.
    """
    from pyspark import SparkContext  # noqa: PLC0415  # as below

    if SparkContext._gateway:  # noqa: SLF001  # there is no other way to ask
        yield None
        return
    output = StartupOutput(problems)
    try:
        yield _connected(own, output) if own else _launched(conf, output)
    except Exception as error:  # py4j and pyspark raise many types of errors
        raise start_error(error, output.lines) from error
    finally:
        output.is_over = True


def _connected(own: GatewayJvm, output: "StartupOutput") -> "JavaGateway":
    """Return the gateway of a JVM that this process has started."""
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415

    output.read_in_thread(own.errors)
    port, secret = own.connection()
    # PySpark has no argument for it.
    os.environ |= {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    try:
        gateway: JavaGateway = launch_gateway()  # type: ignore[no-untyped-call]  # PySpark's
    finally:
        del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]
    gateway.proc = own.process
    return gateway


def _launched(conf: "SparkConf", output: "StartupOutput") -> "JavaGateway":
    """Return the gateway of a JVM that Spark's scripts start."""
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415

    source, sink = os.pipe()
    output.read_in_thread(os.fdopen(source, errors="replace"))
    try:
        gateway: JavaGateway = launch_gateway(conf, {"stderr": sink})  # type: ignore[no-untyped-call]  # PySpark's
    finally:
        # The JVM keeps its copy for good.
        os.close(sink)
    return gateway


_BAD_SETTING = re.compile(r"IllegalArgumentException|NumberFormatException")
_JAVA_ERROR = re.compile(r"Exception|Error|error:")


def start_error(error: Exception, printed: Sequence[str]) -> LandfallError:
    """Return the error for a failed start of Spark, with the most telling line of its output."""
    lines = (line for line in printed if _JAVA_ERROR.search(line))
    shown = next(lines, printed[-1] if printed else "")
    if isinstance(error, FileNotFoundError):
        shown = "there is no java; set JAVA_HOME, or put it into PATH"
    message = f"spark did not start: {first_line(error)}{f' ({shown})' if shown else ''}"
    if _BAD_SETTING.search(f"{error} {shown}"):
        return Stalled(Reason.SPEC_INVALID, f"spec.tuning.sparkConf or --master: {message}")
    return Retry(message)


@dataclass
class StartupOutput:
    """Spark's standard error: lines are kept during startup, and logged afterwards.

    Attributes:
        problems: reads the lines after startup.
        lines: printed during startup.
        is_over: whether startup has ended.
    """

    problems: ExecutorProblems = field(default_factory=ExecutorProblems)
    lines: list[str] = field(default_factory=list)
    is_over: bool = False

    def read_in_thread(self, lines: Iterable[str]) -> None:
        """Read them in a thread of their own."""
        Thread(target=self.read, args=(lines,), name="spark-stderr", daemon=True).start()

    def read(self, lines: Iterable[str]) -> None:
        """Keep or log each line; returns when the JVM has ended."""
        for line in lines:
            if self.is_over:
                log.warning("spark: %s", line.rstrip())
                self.problems.read(line)
            else:
                self.lines.append(line.strip())


def without_numpy_converters() -> None:
    """Let py4j not ask whether an argument of a call is one of NumPy's: none ever is.

    PySpark's converters import ``pyspark.testing`` to find out, and with it pandas if that is
    installed, which takes half a second.
    """
    from py4j.protocol import INPUT_CONVERTER  # noqa: PLC0415  # as above
    from pyspark.sql.types import NumpyArrayConverter, NumpyScalarConverter  # noqa: PLC0415

    unused = (NumpyArrayConverter, NumpyScalarConverter)
    INPUT_CONVERTER[:] = [
        converter for converter in INPUT_CONVERTER if not isinstance(converter, unused)
    ]


def quiet_py4j() -> None:
    """Drop py4j's log records, also in the root logger: py4j raises what it logs."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_not_py4j)


def _not_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in Path(record.pathname).parts
