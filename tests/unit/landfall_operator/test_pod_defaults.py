"""What the operator gives to the pods of all groups, and what a group's own values change of it."""

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from landfall.api.pod_spec import DriverPod, ExecutorPod
from landfall_operator.objects import manifests
from landfall_operator.objects.pod_templates import (
    OperatorContext,
    driver_template,
    executor_template,
    spark_defaults,
)
from landfall_operator.settings import read
from tests.support.operator.api_objects import OWNER
from tests.support.operator.cluster_model import SITE, group

ENTRYPOINT = Path(__file__).resolve().parents[3] / "docker" / "entrypoint"
ANY_USER = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
LOST = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def site(driver: dict[str, Any] | None = None, executor: dict[str, Any] | None = None) -> Any:
    """The context of an operator with defaults, as its flags give them."""
    flags = ["--driver-defaults", json.dumps(driver or {})]
    found = read([*flags, "--executor-defaults", json.dumps(executor or {})], {}).context
    return replace(SITE, driver=found.driver, executor=found.executor)


def pods(context: OperatorContext, **spec: Any) -> list[dict[str, Any]]:
    made = group(**spec)
    return [driver_template(made, "image", "config", context), executor_template(made, context)]


def test_without_defaults_pods_have_the_uid_of_the_image() -> None:
    for pod in pods(SITE):
        assert pod["spec"]["securityContext"]["runAsUser"] == 185


def test_a_default_security_context_replaces_the_fixed_uid_as_a_whole() -> None:
    context = site({"securityContext": ANY_USER}, {"securityContext": ANY_USER})

    assert [pod["spec"]["securityContext"] for pod in pods(context)] == [ANY_USER, ANY_USER]
    (own, _) = pods(context, driver={"securityContext": {"fsGroup": 7}})
    assert own["spec"]["securityContext"] == {**ANY_USER, "fsGroup": 7}


def test_defaults_are_merged_under_what_the_group_says() -> None:
    defaults = {
        "labels": {"cost": "data", "team": "all"},
        "nodeSelector": {"pool": "landing", "disk": "slow"},
        "env": [{"name": "HTTPS_PROXY", "value": "p"}, {"name": "TZ", "value": "UTC"}],
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "imagePullSecrets": [{"name": "registry"}],
    }
    own = {
        "labels": {"team": "web"},
        "nodeSelector": {"disk": "fast"},
        "env": [{"name": "TZ", "value": "CET"}],
    }

    for pod, role in zip(
        pods(site(defaults, defaults), driver=own, executor=own),
        ("driver", "executor"),
        strict=True,
    ):
        (container,) = (c for c in pod["spec"]["containers"] if c["name"] == role)
        env = {each["name"]: each.get("value") for each in container["env"]}
        assert {"cost": "data", "team": "web"}.items() <= pod["metadata"]["labels"].items()
        assert pod["metadata"]["labels"]["landfall.dev/role"] == role
        assert pod["spec"]["nodeSelector"] == {"pool": "landing", "disk": "fast"}
        assert (env["HTTPS_PROXY"], env["TZ"]) == ("p", "CET")
        assert pod["spec"]["tolerations"][0] == {"key": "dedicated", "operator": "Exists"}
        assert {"name": "registry"} in pod["spec"]["imagePullSecrets"]


def test_default_resources_follow_what_the_group_asks_for() -> None:
    size = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}
    context = site({"resources": size}, {"resources": {"limits": {"memory": "3Gi"}}})

    (default, _) = pods(context)
    (larger, _) = pods(context, driver={"resources": {"requests": {"memory": "4Gi"}}})
    of_executors = spark_defaults(group(), "image", 1, context)

    assert default["spec"]["containers"][0]["resources"] == size
    assert larger["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "1", "memory": "4Gi"},
        "limits": {"memory": "4Gi"},
    }
    assert "spark.executor.memoryOverhead 2560m" in of_executors


@pytest.mark.parametrize(
    "flags",
    [
        ["--driver-defaults", '{"tolerationz": []}'],
        ["--driver-defaults", '{"serviceAccountName": "mine"}'],
        ["--executor-defaults", "no JSON"],
    ],
)
def test_wrong_defaults_end_the_operator_at_the_start(flags: list[str]) -> None:
    with pytest.raises(SystemExit):
        read(flags, {})


def test_a_group_pulls_images_by_its_own_policy_or_by_the_operators() -> None:
    context = replace(SITE, image_pull_policy="Always")

    for own, expected in (({}, "Always"), ({"imagePullPolicy": "Never"}, "Never")):
        driver, _ = pods(context, driver=own, executor=own)
        of_executors = spark_defaults(group(executor=own), "image", 1, context)
        assert driver["spec"]["containers"][0]["imagePullPolicy"] == expected
        assert f"spark.kubernetes.container.image.pullPolicy {expected}" in of_executors


def test_pods_leave_a_lost_node_after_half_a_minute() -> None:
    for pod in pods(SITE):
        found = {t["key"]: t["tolerationSeconds"] for t in pod["spec"]["tolerations"]}
        assert found == dict.fromkeys(LOST, 30)


@pytest.mark.parametrize(
    ("own", "left"),
    [
        ({"key": LOST[0], "operator": "Exists", "tolerationSeconds": 600}, [LOST[1]]),
        ({"operator": "Exists"}, []),
        ({"key": LOST[0], "operator": "Exists", "effect": "NoSchedule"}, [*LOST]),
    ],
)
def test_a_toleration_of_the_group_takes_precedence(own: dict[str, Any], left: list[str]) -> None:
    (pod, _) = pods(SITE, driver={"tolerations": [own]})

    first, *rest = pod["spec"]["tolerations"]
    assert first == own
    assert [each["key"] for each in rest] == left


def test_the_account_of_a_group_has_the_annotations_of_the_chart_and_of_the_group() -> None:
    context = site({"serviceAccountAnnotations": {"a": "chart", "b": "chart"}})
    (account, *_) = manifests.shared_objects(OWNER, [], context, {"b": "group"})

    annotations = account["metadata"]["annotations"]
    assert (account["kind"], annotations["a"], annotations["b"]) == (
        "ServiceAccount",
        "chart",
        "group",
    )


def test_annotations_of_the_account_are_no_field_of_a_pod() -> None:
    own = {"serviceAccountAnnotations": {"a": "b"}}

    (pod, _) = pods(site(own), driver=own)

    assert "serviceAccountAnnotations" not in pod["spec"]
    assert DriverPod() == SITE.driver
    assert ExecutorPod() == SITE.executor


def test_a_user_id_without_a_name_gets_one(tmp_path: Path) -> None:
    """As OpenShift assigns it: the stub says that there is no such user."""
    getent = tmp_path / "getent"
    getent.write_text("#!/bin/sh\nexit 2\n")
    getent.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "TMPDIR": str(tmp_path)}

    shown = subprocess.run(
        ["/bin/bash", ENTRYPOINT, "env"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)

    assert found["LD_PRELOAD"] == "libnss_wrapper.so"
    users = Path(found["NSS_WRAPPER_PASSWD"]).read_text().splitlines()
    assert users[-1] == f"landfall:x:{os.getuid()}:{os.getgid()}:Landfall:/tmp:/usr/sbin/nologin"


def test_a_user_id_with_a_name_is_left_alone() -> None:
    shown = subprocess.run(
        ["/bin/bash", ENTRYPOINT, "env"], capture_output=True, text=True, check=True
    ).stdout

    assert "NSS_WRAPPER" not in shown
