"""The objects of a Backfill: pods that are no driver's, and no selector of the group finds."""

import json
from dataclasses import replace
from typing import Any

import pytest

from landfall.api.spec import ConsumerGroup, parse_group
from landfall_operator.api.backfill import BackfillSpec
from landfall_operator.api.revisions import parse_group_file
from landfall_operator.objects import names
from landfall_operator.objects.backfill_pods import (
    BACKFILL_LABEL,
    CORES_ANNOTATION,
    GROUP_KEY,
    OBJECTS_KEY,
    Lander,
    config_map,
    discarding_pod,
    executor_count,
    landing_pod,
    network_policies,
    side_lane_name,
)
from landfall_operator.objects.manifests import Owner, operator_peer, shared_objects
from landfall_operator.runtime.watcher import SELECTORS
from tests.support.operator.cluster_model import SITE, group

OWNER = Owner("fix", "logs", "1f2e3d4c-0000", "Backfill")
SPEC = BackfillSpec(group="clicks", topics=("clicks",), max_cores=4)
LANDER = Lander(group(), "good")
DRIVER = {
    "nodeSelector": {"pool": "batch"},
    "labels": {"team": "web"},
    "env": [{"name": "HTTPS_PROXY", "value": "http://proxy"}],
    "containers": [{"name": "sidecar", "image": "proxy"}],
}


def landing(spec: BackfillSpec = SPEC, live: ConsumerGroup | None = None) -> dict[str, Any]:
    return landing_pod(OWNER, spec, Lander(live or group(driver=DRIVER), "good"), SITE)


def container(pod: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = pod["spec"]["containers"][0]
    return found


def selected(selector: dict[str, str], labels: dict[str, str]) -> bool:
    return selector.items() <= labels.items()


def test_the_pod_lands_by_one_command() -> None:
    pod = landing()

    assert container(pod)["args"] == [
        *("landfall", "backfill", "land", "/etc/landfall/group/group.json", "fix-1f2e3"),
        *("--topic", "clicks", "--master", "configured"),
        *("--host", "0.0.0.0", "--http-port", "8080"),
    ]
    assert pod["spec"]["restartPolicy"] == "OnFailure"
    assert pod["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "landfall.dev/v1alpha1",
            "kind": "Backfill",
            "name": "fix",
            "uid": "1f2e3d4c-0000",
            "controller": True,
        }
    ]
    assert pod["metadata"]["annotations"][CORES_ANNOTATION] == "4"


def test_the_pod_has_the_users_settings_and_nothing_that_makes_it_a_driver() -> None:
    pod = landing()
    environment = {each["name"]: each.get("value", "") for each in container(pod)["env"]}

    assert pod["spec"]["nodeSelector"] == {"pool": "batch"}
    assert [each["name"] for each in pod["spec"]["containers"]] == ["driver", "sidecar"]
    assert pod["metadata"]["labels"]["team"] == "web"
    assert environment.keys() == {
        "HTTPS_PROXY",
        "POD_NAME",
        "POD_IP",
        "SPARK_CONF_DIR",
        "PYSPARK_SUBMIT_ARGS",
    }
    assert "control" not in {each["name"] for each in pod["spec"]["volumes"]}
    assert not {each for each in container(pod) if each.endswith("Probe")}
    assert names.DIGEST_ANNOTATION not in pod["metadata"]["annotations"]


@pytest.mark.parametrize("make", [landing_pod, discarding_pod])
def test_no_selector_of_the_group_finds_a_pod_of_the_backfill(make: Any) -> None:
    labels = make(OWNER, SPEC, LANDER, SITE)["metadata"]["labels"]
    template = json.loads(config_map(OWNER, SPEC, LANDER, SITE)["data"]["executor.json"])
    group_owner = Owner("clicks", "logs", "u")
    selectors = [
        names.selector("clicks", "driver"),
        names.selector("clicks", "executor"),
        *(
            manifest["spec"].get("selector", manifest["spec"].get("podSelector", {}))
            for manifest in shared_objects(group_owner, (), SITE)
            if "spec" in manifest
        ),
    ]

    assert SELECTORS["Pod"].endswith("role=driver")
    for selector in selectors:
        chosen = selector.get("matchLabels", selector)
        assert not selected(chosen, labels)
        assert not selected(chosen, template["metadata"]["labels"])
    assert labels[names.GROUP_LABEL] == template["metadata"]["labels"][names.GROUP_LABEL]


def test_no_list_of_the_groups_objects_has_those_of_the_backfill() -> None:
    for manifest in (
        config_map(OWNER, SPEC, LANDER, SITE),
        *network_policies(OWNER, SPEC, SITE),
    ):
        assert names.GROUP_LABEL not in manifest["metadata"]["labels"]
        assert manifest["metadata"]["labels"][BACKFILL_LABEL] == "fix"


def test_only_its_own_executors_reach_its_spark() -> None:
    policy, of_executors = (each["spec"] for each in network_policies(OWNER, SPEC, SITE))
    template = json.loads(config_map(OWNER, SPEC, LANDER, SITE)["data"]["executor.json"])

    assert selected(policy["podSelector"]["matchLabels"], landing()["metadata"]["labels"])
    spark = next(rule for rule in policy["ingress"] if "from" in rule)
    (executors,) = (each["podSelector"]["matchLabels"] for each in spark["from"])
    assert selected(executors, template["metadata"]["labels"])
    assert {each["port"] for each in spark["ports"]} == {7078, 7079}
    assert selected(of_executors["podSelector"]["matchLabels"], template["metadata"]["labels"])
    (rule,) = of_executors["ingress"]
    driver, itself = (peer["podSelector"]["matchLabels"] for peer in rule["from"])
    assert selected(driver, landing()["metadata"]["labels"])
    assert itself == of_executors["podSelector"]["matchLabels"]


def test_only_readers_of_metrics_and_the_operator_reach_its_report() -> None:
    peer = {"podSelector": {"matchLabels": {"app": "prometheus"}}}
    open_, _ = network_policies(OWNER, SPEC, SITE)
    narrow, _ = network_policies(OWNER, SPEC, replace(SITE, readers=(peer,)))

    assert open_["spec"]["ingress"][0] == {"ports": [{"protocol": "TCP", "port": 8080}]}
    assert narrow["spec"]["ingress"][0]["from"] == [peer, operator_peer(SITE)]


def test_the_config_map_keeps_the_spec() -> None:
    live = group(output={"url": "s3://logs/${bucket}"})

    made = config_map(OWNER, SPEC, Lander(live, "good"), SITE)

    assert made["immutable"]
    assert parse_group_file(made["data"][GROUP_KEY]) == live


def test_objects_are_chosen_by_a_file() -> None:
    spec = BackfillSpec(group="clicks", objects=("clicks/a", "clicks/b"))

    made = config_map(OWNER, spec, LANDER, SITE)

    assert json.loads(made["data"][OBJECTS_KEY]) == ["clicks/a", "clicks/b"]
    arguments = container(landing(spec))["args"]
    assert arguments[arguments.index("--objects") + 1] == "/etc/landfall/group/objects.json"
    assert "--objects" not in container(landing())["args"]


def test_a_backup_is_read_with_its_own_secrets() -> None:
    ours, theirs = (
        group(output={"url": f"s3://{name}/x", "s3": {"credentialsSecretRef": {"name": name}}})
        for name in ("ours", "theirs")
    )
    lander = Lander(ours, "good", theirs)

    pod = landing_pod(OWNER, SPEC, lander, SITE)
    data = config_map(OWNER, SPEC, lander, SITE)["data"]

    arguments = container(pod)["args"]
    assert arguments[arguments.index("--backup") + 1] == "/etc/landfall/group/backup.json"
    assert parse_group_file(data["backup.json"]) == theirs
    for made in (pod, json.loads(data["executor.json"])):
        mounts = [each["mountPath"] for each in made["spec"]["containers"][0]["volumeMounts"]]
        secrets = [v["secret"]["secretName"] for v in made["spec"]["volumes"] if "secret" in v]
        assert {f"/etc/landfall/secrets/{name}" for name in ("ours", "theirs")} <= {*mounts}
        assert sorted(secrets) == ["ours", "theirs"]
        assert len({*mounts}) == len(mounts)
    same = Lander(ours, "good", ours)
    assert len(landing_pod(OWNER, SPEC, same, SITE)["spec"]["volumes"]) == 3


@pytest.mark.parametrize(
    ("most", "cores", "expected"),
    [(None, 2, (1, 2)), (1, 2, (1, 1)), (2, 2, (1, 2)), (7, 2, (3, 2)), (3, 1, (3, 1))],
)
def test_max_cores_bounds_the_executors(
    most: int | None, cores: int, expected: tuple[int, int]
) -> None:
    spec = BackfillSpec(group="clicks", max_cores=most)
    live = group(executor={"cores": cores})

    assert executor_count(spec, live) == expected
    (arguments,) = (
        each["value"]
        for each in container(landing(spec, live))["env"]
        if each["name"] == "PYSPARK_SUBMIT_ARGS"
    )
    executors, each_has = expected
    assert f"--conf spark.executor.instances={executors} " in arguments
    assert f"--conf spark.executor.cores={each_has} " in arguments


@pytest.mark.parametrize(
    ("promote", "compact", "shrinks"),
    [("Never", True, True), ("Never", False, False), ("Manual", True, False)],
)
def test_what_is_only_compared_may_shrink(promote: str, *, compact: bool, shrinks: bool) -> None:
    live = group(completeness={}, **({"compact": {}} if compact else {}))
    spec = BackfillSpec.model_validate({"group": "clicks", "promote": promote})

    arguments = container(landing(spec, live))["args"]

    assert ("--may-shrink" in arguments) is shrinks


def test_discarding_runs_no_spark_and_asks_nobody() -> None:
    pod = discarding_pod(OWNER, SPEC, LANDER, SITE)

    assert container(pod)["args"] == [
        *("landfall", "backfill", "discard", "/etc/landfall/group/group.json"),
        *("fix-1f2e3", "--if-planned"),
    ]
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert {each["name"] for each in container(pod)["env"]} == set()


def test_a_name_that_is_used_again_has_another_side_lane() -> None:
    longest = "x" * 52

    assert side_lane_name(longest, "1f2e3d4c-0000") != side_lane_name(longest, "2f2e3d4c-0000")
    assert len(f"{side_lane_name(longest, '1f2e3d4c')}") <= 63


def test_the_executors_template_is_that_of_the_group_otherwise() -> None:
    live = parse_group(
        {
            **group().model_dump(mode="json", by_alias=True, exclude_defaults=True),
            "apiVersion": "landfall.dev/v1alpha1",
            "kind": "ConsumerGroup",
        }
    )
    template = json.loads(
        config_map(OWNER, SPEC, Lander(live, "good"), SITE)["data"]["executor.json"]
    )

    assert template["metadata"]["labels"][names.ROLE_LABEL] == "backfill-executor"
    assert template["spec"]["automountServiceAccountToken"] is False
