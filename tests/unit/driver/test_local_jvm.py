"""The JVM of a local run, started without Spark's scripts."""

import os
from pathlib import Path

import pytest

from landfall.driver.spark.local_jvm import needs_scripts, spark_home, start_local_jvm
from landfall.driver.spark.settings import jvm_flags

ANSWERS = r"""#!/bin/sh
printf '\000\000\060\071\000\000\000\006secret' > "$_PYSPARK_DRIVER_CONN_INFO_PATH.new"
mv "$_PYSPARK_DRIVER_CONN_INFO_PATH.new" "$_PYSPARK_DRIVER_CONN_INFO_PATH"
for each in "$@"; do echo "$each" >&2; done
echo "$SPARK_HOME $PYTHONHASHSEED" >&2
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """One with a Spark and a Java that says how it was started."""
    (tmp_path / "spark").mkdir()
    program = tmp_path / "java/bin/java"
    program.parent.mkdir(parents=True)
    program.write_text(ANSWERS)
    program.chmod(0o755)
    return {"SPARK_HOME": f"{tmp_path}/spark", "JAVA_HOME": f"{tmp_path}/java"}


def test_it_gets_its_flags_and_answers_with_port_and_secret(
    environment: dict[str, str], tmp_path: Path
) -> None:
    options = {"SPARK_SUBMIT_OPTS": '"-Dsaid=by the user"'}

    jvm = start_local_jvm('-Xshare:auto "-Dwith=a space"', environment | options)

    assert jvm.connection() == (12345, "secret")
    assert jvm.process.wait() == 0
    printed = jvm.errors.read().splitlines()
    jvm.errors.close()
    assert printed[:2] == ["-cp", f"{tmp_path}/spark/conf:{tmp_path}/spark/jars/*"]
    assert {"-Xshare:auto", "-Dwith=a space", "-Dsaid=by the user", "-Xmx512m"} <= set(printed)
    assert printed[-1] == f"{tmp_path}/spark 0"


def test_one_that_ends_before_it_answers_is_an_error(environment: dict[str, str]) -> None:
    Path(f"{environment['JAVA_HOME']}/bin/java").write_text("#!/bin/sh\nexit 3\n")
    jvm = start_local_jvm("", environment)

    with pytest.raises(RuntimeError, match="exited before sending its port number"):
        jvm.connection()

    jvm.errors.close()


def test_it_ends_with_its_input(environment: dict[str, str]) -> None:
    Path(f"{environment['JAVA_HOME']}/bin/java").write_text("#!/bin/sh\nread end\nexit 7\n")
    jvm = start_local_jvm("", environment)
    assert jvm.process.stdin

    jvm.process.stdin.close()

    assert jvm.process.wait() == 7
    jvm.errors.close()


def test_without_java_it_is_not_started(environment: dict[str, str]) -> None:
    with pytest.raises(FileNotFoundError):
        start_local_jvm("", environment | {"JAVA_HOME": "", "PATH": ""})


@pytest.mark.parametrize(
    ("conf", "variables", "scripts"),
    [
        ({}, {}, False),
        ({"spark.executorEnv.A": "b", "spark.task.cpus": "2"}, {}, False),
        ({"spark.driver.memory": "2g"}, {}, True),
        ({"spark.driver.extraJavaOptions": "-Dx=y"}, {}, True),
        ({"spark.jars": "x.jar"}, {}, True),
        ({}, {"SPARK_CONF_DIR": "/etc/spark"}, True),
        ({}, {"PYSPARK_SUBMIT_ARGS": "--verbose pyspark-shell"}, True),
        ({}, {"PYSPARK_SUBMIT_ARGS": ""}, False),
    ],
)
def test_who_has_settings_for_the_jvm_gets_sparks_scripts(
    environment: dict[str, str], conf: dict[str, str], variables: dict[str, str], scripts: bool
) -> None:
    assert needs_scripts(conf, environment | variables) is scripts


def test_settings_in_sparks_own_folder_are_for_sparks_scripts(
    environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "spark/conf").mkdir()

    assert needs_scripts({}, environment)


def test_spark_is_pysparks_unless_the_environment_names_one() -> None:
    home = spark_home({})

    assert home
    assert (home / "jars").is_dir()
    assert spark_home({"SPARK_HOME": "/opt/spark"}) == Path("/opt/spark")
    assert not needs_scripts({}, {})


def test_the_log_configuration_is_one_argument() -> None:
    assert jvm_flags(None).startswith('"-Dlog4j2.configurationFile=')
    assert os.sep in jvm_flags(None)
