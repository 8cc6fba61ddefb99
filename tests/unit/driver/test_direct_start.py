"""Who starts Spark's JVM: the driver itself, or Spark's scripts."""

import json
from pathlib import Path

import pytest

from landfall.api.spec import ConsumerGroup, parse_group
from landfall.driver.spark.class_archive import VARIABLE
from landfall.driver.spark.direct_start import EarlyStart, spark_properties, start_in_pod
from landfall_operator.objects.manifests import as_json
from landfall_operator.objects.pod_templates import (
    OperatorContext,
    driver_template,
    executor_template,
    spark_defaults,
)
from tests.support.kubernetes.groups import document

TEMPLATE = "/etc/landfall/group/executor.json"
CONTEXT = OperatorContext("landfall:1", "landfall")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """One with a Spark, but without settings of Spark's."""
    (tmp_path / "spark").mkdir()
    return {"SPARK_HOME": f"{tmp_path}/spark"}


@pytest.fixture
def pod(environment: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """The environment and the files that the operator gives a driver."""
    group = parse_group(document())
    folder = tmp_path / "group"
    folder.mkdir()
    (folder / "..data").mkdir()  # the kubelet's
    (folder / "group.json").touch()
    (folder / "executor.json").write_text(as_json(executor_template(group, CONTEXT)))
    settings = spark_defaults(group, "landfall:1", 3, CONTEXT)
    assert TEMPLATE in settings
    settings = settings.replace(TEMPLATE, f"{folder}/executor.json")
    (folder / "spark-defaults.conf").write_text(settings)
    arguments = _variable(group, "PYSPARK_SUBMIT_ARGS").replace("$(POD_IP)", "10.1.2.3")
    return environment | {"SPARK_CONF_DIR": str(folder), "PYSPARK_SUBMIT_ARGS": arguments}


def _variable(group: ConsumerGroup, name: str) -> str:
    template = driver_template(group, "landfall:1", "config", CONTEXT)
    (container,) = template["spec"]["containers"]
    return str(next(each["value"] for each in container["env"] if each["name"] == name))


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
        ({}, {"SPARK_DIST_CLASSPATH": "/opt/hadoop"}, True),
    ],
)
def test_a_local_run_with_settings_for_the_jvm_gets_sparks_scripts(
    environment: dict[str, str], conf: dict[str, str], variables: dict[str, str], scripts: bool
) -> None:
    found = spark_properties("local[2]", conf, environment | variables)

    assert found == (None if scripts else {})


def test_settings_in_sparks_own_folder_are_for_sparks_scripts(
    environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "spark/conf").mkdir()

    assert spark_properties("local[2]", {}, environment) is None


def test_a_pod_has_the_settings_of_its_file_and_of_its_environment(pod: dict[str, str]) -> None:
    found = spark_properties(None, {"spark.kubernetes.executor.deleteOnTermination": "false"}, pod)

    assert found
    assert found["spark.master"] == "k8s://https://kubernetes.default.svc:443"
    assert found["spark.executor.instances"] == "3"
    assert found["spark.driver.host"] == "10.1.2.3"
    assert found["spark.kubernetes.driver.pod.name"] == "$(POD_NAME)"


@pytest.mark.parametrize(
    "line",
    [
        "spark.jars /opt/more.jar",
        "spark.driver.extraClassPath /opt/more",
        "spark.master = k8s://https://other",
        "spark.master yarn",
        "spark.submit.deployMode cluster",
    ],
)
def test_settings_that_only_scripts_know_are_for_sparks_scripts(
    pod: dict[str, str], line: str
) -> None:
    with Path(pod["SPARK_CONF_DIR"], "spark-defaults.conf").open("a") as file:
        file.write(f"{line}\n")

    assert spark_properties(None, {}, pod) is None


@pytest.mark.parametrize(
    ("conf", "variables"),
    [
        ({"spark.driver.extraJavaOptions": "-Dx=y"}, {}),
        ({}, {"PYSPARK_SUBMIT_ARGS": "--jars x.jar pyspark-shell"}),
        ({}, {"PYSPARK_SUBMIT_ARGS": "--conf spark.driver.host=1.2.3.4 main.py"}),
        ({}, {"PYSPARK_SUBMIT_ARGS": "--conf pyspark-shell"}),
        ({}, {"SPARK_CONF_DIR": "/not/there"}),
        ({}, {"HADOOP_CONF_DIR": "/etc/hadoop"}),
    ],
)
def test_a_pod_with_other_settings_gets_sparks_scripts(
    pod: dict[str, str], conf: dict[str, str], variables: dict[str, str]
) -> None:
    assert spark_properties(None, conf, pod | variables) is None


def test_a_folder_with_more_files_is_for_sparks_scripts(pod: dict[str, str]) -> None:
    Path(pod["SPARK_CONF_DIR"], "core-site.xml").touch()

    assert spark_properties(None, {}, pod) is None


def test_another_master_gets_sparks_scripts(
    pod: dict[str, str], environment: dict[str, str]
) -> None:
    assert spark_properties("spark://master:7077", {}, pod) is None
    assert spark_properties(None, {}, environment) is None


JAVA = """#!/bin/sh
for each in "$@"; do echo "$each" >&2; done
"""


@pytest.fixture
def java(pod: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """The environment of a pod with an archive, and with a Java that says how it was started."""
    (tmp_path / "spark.jsa").touch()
    program = tmp_path / "java/bin/java"
    program.parent.mkdir(parents=True)
    program.write_text(JAVA)
    program.chmod(0o755)
    return pod | {"JAVA_HOME": f"{tmp_path}/java", VARIABLE: f"{tmp_path}/spark.jsa"}


def _group_file(environment: dict[str, str], spec: object) -> Path:
    file = Path(environment["SPARK_CONF_DIR"], "group.json")
    file.write_text(json.dumps({"spec": spec}))
    return file


@pytest.mark.parametrize("spec", [{}, {"tuning": {"sparkConf": {"spark.task.maxFailures": "5"}}}])
def test_the_jvm_of_a_pod_starts_with_the_images_archive(
    java: dict[str, str], spec: object
) -> None:
    begun = start_in_pod(_group_file(java, spec), java)

    assert begun.jvm
    assert begun.jvm.process.wait() == 0
    printed = begun.jvm.errors.read().splitlines()
    begun.jvm.errors.close()
    assert f"-XX:SharedArchiveFile={java[VARIABLE]}" in printed
    assert "-Dspark.driver.host=10.1.2.3" in printed


def test_the_pod_is_named_as_the_owner_of_executors_without_asking_for_it(
    java: dict[str, str],
) -> None:
    own = {"POD_NAME": "clicks-1", "POD_UID": "0f0f"}

    begun = start_in_pod(_group_file(java, {}), java | own)

    assert begun.jvm
    settings = dict(
        line.removeprefix("-D").split("=", 1)
        for line in begun.jvm.errors.read().splitlines()
        if line.startswith("-Dspark.")
    )
    begun.jvm.errors.close()
    begun.jvm.process.wait()
    assert "spark.kubernetes.driver.pod.name" not in settings
    made = json.loads(Path(settings["spark.kubernetes.executor.podTemplateFile"]).read_text())
    given = json.loads(Path(java["SPARK_CONF_DIR"], "executor.json").read_text())
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "clicks-1", "uid": "0f0f"}
    assert made["metadata"].pop("ownerReferences") == [{**owner, "controller": True}]
    assert made == given


def test_a_pod_makes_no_archive(java: dict[str, str], tmp_path: Path) -> None:
    missing = java | {VARIABLE: f"{tmp_path}/missing.jsa"}
    Path(missing[VARIABLE]).with_suffix(".started").touch()

    begun = start_in_pod(_group_file(java, {}), missing)

    assert begun.archive is None
    assert begun.jvm
    assert begun.jvm.process.wait() == 0
    assert "Archive" not in begun.jvm.errors.read().replace("ArchiveRelocationMode", "")
    begun.jvm.errors.close()


@pytest.mark.parametrize(
    "spec",
    [
        None,
        [],
        {"tuning": {"sparkConf": ["wrong"]}},
        {"tuning": {"sparkConf": {"spark.jars": "x.jar"}}},
    ],
)
def test_nothing_starts_for_a_spec_that_is_wrong_or_needs_sparks_scripts(
    java: dict[str, str], spec: object
) -> None:
    assert start_in_pod(_group_file(java, spec), java) == EarlyStart()


def test_nothing_starts_without_a_file_or_without_java(java: dict[str, str]) -> None:
    assert start_in_pod(Path("/not/there"), java) == EarlyStart()
    assert start_in_pod(_group_file(java, {}), java | {"JAVA_HOME": "", "PATH": ""}) == EarlyStart()
