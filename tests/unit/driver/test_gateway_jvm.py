"""Spark's JVM, started without Spark's scripts."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from landfall.driver.spark.direct_start import jvm_flags
from landfall.driver.spark.gateway_jvm import class_path, spark_home, start_gateway_jvm
from tests.support.waiting import eventually

ANSWERS = r"""#!/bin/sh
printf '\000\000\060\071\000\000\000\006secret' > "$_PYSPARK_DRIVER_CONN_INFO_PATH.new"
mv "$_PYSPARK_DRIVER_CONN_INFO_PATH.new" "$_PYSPARK_DRIVER_CONN_INFO_PATH"
for each in "$@"; do echo "$each" >&2; done
echo "$SPARK_HOME $PYTHONHASHSEED" >&2
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """One with a Spark and a Java that says how it was started."""
    (tmp_path / "spark/jars").mkdir(parents=True)
    (tmp_path / "spark/jars/core.jar").touch()
    program = tmp_path / "java/bin/java"
    program.parent.mkdir(parents=True)
    program.write_text(ANSWERS)
    program.chmod(0o755)
    return {"SPARK_HOME": f"{tmp_path}/spark", "JAVA_HOME": f"{tmp_path}/java"}


def test_it_gets_its_flags_and_answers_with_port_and_secret(
    environment: dict[str, str], tmp_path: Path
) -> None:
    options = {"SPARK_SUBMIT_OPTS": '"-Dsaid=by the user"'}

    jvm = start_gateway_jvm('-Xshare:auto "-Dwith=a space"', environment | options)

    assert jvm.connection() == (12345, "secret")
    assert jvm.process.wait() == 0
    printed = jvm.errors.read().splitlines()
    jvm.errors.close()
    assert printed[:2] == ["-cp", f"{tmp_path}/spark/jars/core.jar"]
    assert {"-Xshare:auto", "-Dwith=a space", "-Dsaid=by the user", "-Xmx512m"} <= set(printed)
    assert printed[-1] == f"{tmp_path}/spark 0"


def test_one_that_ends_before_it_answers_is_an_error(environment: dict[str, str]) -> None:
    Path(f"{environment['JAVA_HOME']}/bin/java").write_text("#!/bin/sh\nexit 3\n")
    jvm = start_gateway_jvm("", environment)

    with pytest.raises(RuntimeError, match="exited before sending its port number"):
        jvm.connection()

    jvm.errors.close()


def test_it_ends_with_its_input(environment: dict[str, str]) -> None:
    Path(f"{environment['JAVA_HOME']}/bin/java").write_text("#!/bin/sh\nread end\nexit 7\n")
    jvm = start_gateway_jvm("", environment)
    assert jvm.process.stdin

    jvm.process.stdin.close()

    assert jvm.process.wait() == 7
    jvm.errors.close()


SILENT = "#!/bin/sh\nexec sleep 600\n"
"""A JVM whose main thread is gone: it looks at its input no more."""


def test_one_that_never_answers_is_ended(environment: dict[str, str]) -> None:
    Path(f"{environment['JAVA_HOME']}/bin/java").write_text(SILENT)
    jvm = start_gateway_jvm("", environment)

    with pytest.raises(RuntimeError, match=r"sent no port number in 0\.1 s"):
        jvm.connection(patience=0.1)

    assert jvm.process.wait(60) == -signal.SIGTERM
    jvm.errors.close()


def test_one_that_is_silent_ends_with_the_process_that_started_it(
    environment: dict[str, str],
) -> None:
    Path(f"{environment['JAVA_HOME']}/bin/java").write_text(SILENT)
    starting = (
        "from landfall.driver.spark.gateway_jvm import start_gateway_jvm as start\n"
        f"print(start('', {environment!r}).process.pid)"
    )

    done = subprocess.run(
        [sys.executable, "-c", starting], capture_output=True, text=True, check=True
    )

    eventually(lambda: not psutil.pid_exists(int(done.stdout)), bool)


def test_without_java_it_is_not_started(environment: dict[str, str]) -> None:
    with pytest.raises(FileNotFoundError):
        start_gateway_jvm("", environment | {"JAVA_HOME": "", "PATH": ""})


def test_spark_takes_its_settings_from_properties(environment: dict[str, str]) -> None:
    settings = {"spark.master": "k8s://x", "spark.driver.memory": "1g", "spark.app.name": "a b"}

    jvm = start_gateway_jvm("", environment, settings)

    assert jvm.process.wait() == 0
    printed = jvm.errors.read().splitlines()
    jvm.errors.close()
    assert {"-Dspark.master=k8s://x", "-Dspark.app.name=a b", "-Xmx1g"} <= set(printed)


def test_the_order_of_jars_is_that_of_their_names(tmp_path: Path) -> None:
    (tmp_path / "jars").mkdir()
    for name in ("b.jar", "a.jar", "B.jar", "a.txt"):
        (tmp_path / "jars" / name).touch()

    found = class_path(tmp_path)

    assert found == ":".join(f"{tmp_path}/jars/{name}.jar" for name in "Bab")


def test_spark_is_pysparks_unless_the_environment_names_one() -> None:
    home = spark_home({})

    assert home
    assert (home / "jars").is_dir()
    assert spark_home({"SPARK_HOME": "/opt/spark"}) == Path("/opt/spark")


def test_the_log_configuration_is_one_argument() -> None:
    assert jvm_flags(None).startswith('"-Dlog4j2.configurationFile=')
    assert os.sep in jvm_flags(None)
