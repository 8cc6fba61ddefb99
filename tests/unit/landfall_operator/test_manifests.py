"""Applied manifests, compared with reviewed files; ``LANDFALL_SNAPSHOTS=write`` rewrites them."""

import os
import re
import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from landfall.api.contract import EXECUTORS
from landfall.api.group_file import expand
from landfall.api.spec import ConsumerGroup, parse_group
from landfall_operator.api.backfill import BackfillSpec
from landfall_operator.api.revisions import document, group_file, parse_group_file, revision_of
from landfall_operator.objects import manifests
from landfall_operator.objects.backfill_pods import network_policies
from landfall_operator.objects.manifests import LiveSettings, Owner
from landfall_operator.objects.names import (
    DIGEST_ANNOTATION,
    HASH_ANNOTATION,
    OPERATOR,
    labels,
    selector,
)
from landfall_operator.objects.pod_templates import (
    OperatorContext,
    account_of,
    driver_secrets_of,
    driver_template,
    executor_template,
    secrets_of,
    spark_defaults,
)
from landfall_operator.objects.resources import MIB, executor_memory
from tests.support.operator.cluster_model import SITE, group

GUIDE = Path(__file__).parents[3] / "docs/guides/security.md"
SNAPSHOTS = Path(__file__).parent / "snapshots"
OWNER = Owner("clicks", "logs", "0f0f")
LOCKED = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
FULL: dict[str, Any] = {
    "source": {
        "kafka": {
            "bootstrapServers": "kafka:9092",
            "topicPattern": "^app",
            "propertiesSecretRef": {"name": "kafka.auth"},
        }
    },
    "output": {"url": "s3://logs/parsed", "s3": {"credentialsSecretRef": {"name": "s3"}}},
    "driver": {
        "labels": {"team": "web", "landfall.dev/group": "mine"},
        "annotations": {"a": "b"},
        "serviceAccountName": "own",
        "priorityClassName": "high",
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "spot", "operator": "Exists"}],
        "env": [{"name": "TZ", "value": "UTC"}, {"name": "LANDFALL_REVISION", "value": "mine"}],
        "volumes": [{"name": "ca", "configMap": {"name": "ca"}}],
        "volumeMounts": [{"name": "ca", "mountPath": "/ca", "readOnly": True}],
        "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "2Gi"}},
        "securityContext": {"fsGroup": 1000},
        "containers": [
            {"name": "driver", "lifecycle": {"preStop": {"sleep": {"seconds": 1}}}},
            {"name": "proxy", "image": "p"},
        ],
    },
    "executor": {
        "cores": 2,
        "imagePullPolicy": "Never",
        "resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "3Gi", "cpu": "2"}},
        "affinity": {"podAntiAffinity": {}},
    },
}


class Plain(yaml.SafeDumper):
    """Writes shared values out, and multi-line texts as blocks."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002  # PyYAML's signature
        return True


Plain.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, "|" if "\n" in text else None
    ),
)


def all_manifests(spec: ConsumerGroup) -> list[dict[str, Any]]:
    config = manifests.config_map(OWNER, spec, "good", 2, SITE)
    template = driver_template(spec, "good", config["metadata"]["name"], SITE)
    return [
        *manifests.shared_objects(OWNER, {account_of(spec)}, SITE),
        manifests.control_secret(OWNER, "hush"),
        manifests.controller_revision(OWNER, spec, "good", 1),
        manifests.live_settings(OWNER, spec, LiveSettings(3)),
        config,
        manifests.deployment(OWNER, spec, 1, template),
    ]


@pytest.mark.parametrize(("name", "spec"), [("minimal", group()), ("full", group(**FULL))])
def test_manifests_are_the_reviewed_ones(name: str, spec: ConsumerGroup) -> None:
    path = SNAPSHOTS / f"{name}.yaml"
    text = yaml.dump_all(all_manifests(spec), Dumper=Plain, sort_keys=True, width=120)
    if os.environ.get("LANDFALL_SNAPSHOTS") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    assert text == path.read_text()


def policy(name: str, context: OperatorContext = SITE) -> dict[str, Any]:
    found: dict[str, Any] = next(
        each["spec"]
        for each in manifests.shared_objects(OWNER, (), context)
        if (each["kind"], each["metadata"]["name"]) == ("NetworkPolicy", name)
    )
    return found


def chosen(role: str) -> dict[str, Any]:
    return {"podSelector": {"matchLabels": selector("clicks", role)}}


def test_executors_are_open_to_the_pods_of_their_group_alone() -> None:
    executors = policy("clicks-executors")

    assert executors == {
        **chosen("executor"),
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [chosen("driver"), chosen("executor")]}],
    }


def test_readers_of_metrics_can_be_narrowed() -> None:
    peer = {"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}
    ports = [{"protocol": "TCP", "port": 8080}]

    everyone = policy("clicks-driver")["ingress"]
    narrow = policy("clicks-driver", replace(SITE, readers=(peer,)))["ingress"]

    assert everyone[0] == {"ports": ports}
    operator = everyone[1]["from"][0]
    assert narrow == [
        {"ports": ports, "from": [peer, operator, chosen("driver")]},
        *everyone[1:],
    ]


def test_no_policy_limits_which_stores_pods_reach() -> None:
    """So the place of dead letters is reached as the output root is."""
    backfill = BackfillSpec(group="clicks", topics=("clicks",), max_cores=4)
    written = [
        *manifests.shared_objects(OWNER, (), SITE),
        *network_policies(Owner("fix", "logs", "0f0f", "Backfill"), backfill, SITE),
    ]
    chart = Path("charts/landfall/templates/networkpolicy.yaml").read_text()

    policies = [each["spec"] for each in written if each["kind"] == "NetworkPolicy"]

    assert len(policies) == 4
    assert {tuple(each["policyTypes"]) for each in policies} == {("Ingress",)}
    assert not [each for each in policies if "egress" in each]
    assert "policyTypes: [Ingress]" in chart
    assert "egress" not in chart


def test_without_labels_of_the_operator_its_neighbours_do_not_reach_control() -> None:
    control = policy("clicks-driver", replace(SITE, operator_labels={}))["ingress"][1]

    (peer,) = control["from"]
    assert peer["podSelector"] == {"matchLabels": {"app.kubernetes.io/name": OPERATOR}}


def test_connections_of_spark_are_encrypted_and_authenticated() -> None:
    settings = spark_defaults(group(), "good", 1, SITE).splitlines()
    archive = runpy.run_path("docker/archive_classes.py")["SETTINGS"]

    protected = {
        "spark.authenticate": "true",
        "spark.network.crypto.enabled": "true",
        "spark.network.crypto.saslFallback": "false",
        "spark.network.crypto.cipher": "AES/GCM/NoPadding",
        "spark.network.crypto.authEngineVersion": "2",
    }
    assert {f"{name} {value}" for name, value in protected.items()} <= set(settings)
    assert protected.items() <= archive.items()


def test_every_object_is_owned_and_labelled() -> None:
    for manifest in all_manifests(group()):
        metadata = manifest["metadata"]
        assert metadata["ownerReferences"][0]["uid"] == "0f0f"
        assert labels("clicks").items() <= metadata["labels"].items()


@pytest.mark.parametrize(
    ("written", "kinds"),
    [
        (
            {"driver": {"env": [{"name": "KEY", "value": "planted"}]}},
            {"ConfigMap", "ControllerRevision", "Deployment"},
        ),
        (
            {"tuning": {"sparkConf": {"spark.app.key": "planted"}}},
            {"ConfigMap", "ControllerRevision"},
        ),
    ],
)
def test_secrets_that_are_written_into_a_spec_are_where_the_guide_says(
    written: dict[str, Any], kinds: set[str]
) -> None:
    found = {made["kind"] for made in all_manifests(group(**written)) if "planted" in str(made)}
    assert found == kinds
    (guide,) = re.findall(
        r"What you write into `tuning.sparkConf`.*?\n\n", GUIDE.read_text(), re.DOTALL
    )
    for words in ("in the pod's spec", "ConfigMaps", "ControllerRevisions", "put no secret"):
        assert words in guide.replace("\n", " ")


def test_the_hash_identifies_what_was_applied() -> None:
    one, other = (manifests.config_map(OWNER, group(), "good", n, SITE) for n in (1, 2))

    hashes = [m["metadata"]["annotations"][HASH_ANNOTATION] for m in (one, other)]

    assert hashes[0] != hashes[1]
    assert manifests.config_map(OWNER, group(), "good", 1, SITE) == one


def test_the_files_of_a_driver_are_named_by_their_content_and_never_change() -> None:
    one, other = (manifests.config_map(OWNER, group(), "good", n, SITE) for n in (1, 2))

    assert one["metadata"]["name"] != other["metadata"]["name"]
    assert one["immutable"] is True


def test_the_executor_count_is_kept_apart_from_the_drivers_files() -> None:
    live = manifests.live_settings(OWNER, group(replicas=5), LiveSettings(5))
    (container,) = driver_template(group(), "good", "files", SITE)["spec"]["containers"]
    (count,) = (item for item in container["env"] if item["name"] == EXECUTORS)

    source = count["valueFrom"]["configMapKeyRef"]

    assert (source["name"], source["optional"]) == (live["metadata"]["name"], True)
    assert live["data"][source["key"]] == "5"
    assert "immutable" not in live


def test_a_live_change_leaves_the_pod_template_alone() -> None:
    assert driver_template(group(replicas=1), "good", "files", SITE) == driver_template(
        group(replicas=7), "good", "files", SITE
    )


def test_the_driver_reads_the_same_group_back() -> None:
    spec = group(**FULL, decode={"options": {"pattern": "x${y}$${z}"}})
    text = manifests.config_map(OWNER, spec, "good", 2, SITE)["data"]["group.json"]

    assert text == group_file(spec)
    assert parse_group(expand(yaml.safe_load(text), {})) == spec
    assert parse_group_file(text) == parse_group(document(spec)) == spec


def test_pods_comply_with_the_restricted_standard() -> None:
    pod = driver_template(group(), "good", "files", SITE)["spec"]
    container = pod["containers"][0]

    assert (pod["securityContext"]["runAsNonRoot"], pod["enableServiceLinks"]) == (True, False)
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == LOCKED
    assert executor_template(group(), SITE)["spec"]["containers"][0]["securityContext"] == LOCKED


def test_a_user_may_choose_a_writable_root_and_another_scratch_volume() -> None:
    own = {
        "containers": [{"name": "driver", "securityContext": {"readOnlyRootFilesystem": False}}],
        "volumes": [{"name": "scratch", "emptyDir": {"medium": "Memory"}}],
    }
    pod = driver_template(group(driver=own), "good", "files", SITE)["spec"]

    assert pod["containers"][0]["securityContext"] == {**LOCKED, "readOnlyRootFilesystem": False}
    assert {"name": "scratch", "emptyDir": {"medium": "Memory"}} in pod["volumes"]
    assert {"name": "scratch", "mountPath": "/tmp"} in pod["containers"][0]["volumeMounts"]


def test_a_users_pod_settings_are_merged_by_name() -> None:
    template = driver_template(group(**FULL), "good", "files", SITE)
    pod, names = template["spec"], [c["name"] for c in template["spec"]["containers"]]
    env = {item["name"]: item.get("value") for item in pod["containers"][0]["env"]}

    assert names == ["driver", "proxy"]
    assert (env["TZ"], env["LANDFALL_REVISION"]) == ("UTC", revision_of(group(**FULL)))
    assert pod["containers"][0]["resources"] == {
        "requests": {"cpu": "1", "memory": "1Gi"},
        "limits": {"memory": "2Gi"},
    }
    assert (pod["securityContext"]["fsGroup"], pod["securityContext"]["runAsNonRoot"]) == (
        1000,
        True,
    )
    assert {v["name"] for v in pod["volumes"]} == {
        "group",
        "control",
        "operator-keys",
        "scratch",
        "secret-0",
        "secret-1",
        "ca",
    }
    assert template["metadata"]["labels"]["landfall.dev/group"] == "clicks"
    assert template["metadata"]["annotations"].keys() == {"a", DIGEST_ANNOTATION}


def test_executors_get_their_resources_from_spark_properties() -> None:
    spec = group(**FULL)
    conf = dict(line.split(" ", 1) for line in spark_defaults(spec, "good", 2, SITE).splitlines())

    assert "resources" not in executor_template(spec, SITE)["spec"]["containers"][0]
    assert (conf["spark.executor.memory"], conf["spark.executor.memoryOverhead"]) == (
        "512m",
        "2560m",
    )
    assert (conf["spark.kubernetes.executor.request.cores"], conf["spark.executor.cores"]) == (
        "100m",
        "2",
    )
    assert conf["spark.executor.instances"] == "2"


def test_executors_have_memory_for_the_buffers_of_their_tasks() -> None:
    heap, overhead = executor_memory(group(executor={"cores": 4}))

    assert (heap // MIB, overhead // MIB) == (512, 4 * (256 + 176 + 64))


@pytest.mark.parametrize("given", [{"requests": {"memory": "3Gi"}}, {"limits": {"memory": "3Gi"}}])
def test_executors_have_the_memory_that_the_user_gives(given: Any) -> None:
    heap, overhead = executor_memory(group(executor={"resources": given}))

    assert (heap + overhead) // MIB == 3 * 1024


SCHEDULED: dict[str, Any] = {
    "schedulerName": "volcano",
    "runtimeClassName": "gvisor",
    "dnsConfig": {"options": [{"name": "ndots", "value": "2"}]},
    "hostAliases": [{"ip": "10.0.0.7", "hostnames": ["kafka.internal"]}],
}


def test_scheduler_runtime_class_and_names_reach_both_kinds_of_pods() -> None:
    spec = group(driver=SCHEDULED, executor=SCHEDULED)

    pods = [
        driver_template(spec, "good", "files", SITE)["spec"],
        executor_template(spec, SITE)["spec"],
    ]

    assert [{name: pod[name] for name in SCHEDULED} for pod in pods] == [SCHEDULED, SCHEDULED]


def test_what_spark_does_not_set_reaches_the_executors() -> None:
    given = {
        "requests": {"cpu": "2", "memory": "3Gi", "ephemeral-storage": "5Gi"},
        "limits": {"ephemeral-storage": "9Gi", "nvidia.com/gpu": "1"},
    }

    (container,) = executor_template(group(executor={"resources": given}), SITE)["spec"][
        "containers"
    ]

    assert container["resources"] == {
        "requests": {"ephemeral-storage": "5Gi"},
        "limits": {"ephemeral-storage": "9Gi", "nvidia.com/gpu": "1"},
    }


def test_extended_resources_of_executors_have_a_limit() -> None:
    given = {"requests": {"nvidia.com/gpu": "1"}}

    (container,) = executor_template(group(executor={"resources": given}), SITE)["spec"][
        "containers"
    ]

    assert container["resources"] == {
        "requests": {"nvidia.com/gpu": "1"},
        "limits": {"nvidia.com/gpu": "1"},
    }


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"requests": {"cpu": "250m", "memory": "1Gi"}, "limits": {"memory": "1536Mi"}}),
        (
            {"requests": {"memory": "3Gi"}},
            {"requests": {"cpu": "250m", "memory": "3Gi"}, "limits": {"memory": "3Gi"}},
        ),
        (
            {"requests": {"memory": "1200Mi"}},
            {"requests": {"cpu": "250m", "memory": "1200Mi"}, "limits": {"memory": "1536Mi"}},
        ),
        (
            {"limits": {"memory": "900Mi", "cpu": "0.2"}},
            {
                "requests": {"cpu": "0.2", "memory": "900Mi"},
                "limits": {"memory": "900Mi", "cpu": "0.2"},
            },
        ),
        (
            {"requests": {"nvidia.com/gpu": "1"}},
            {
                "requests": {"cpu": "250m", "memory": "1Gi", "nvidia.com/gpu": "1"},
                "limits": {"memory": "1536Mi", "nvidia.com/gpu": "1"},
            },
        ),
    ],
)
def test_a_default_follows_what_the_user_gives(given: Any, expected: Any) -> None:
    template = driver_template(group(driver={"resources": given}), "good", "files", SITE)

    assert template["spec"]["containers"][0]["resources"] == expected


def test_executors_with_only_a_cpu_limit_request_no_more_than_that() -> None:
    spec = group(executor={"resources": {"limits": {"cpu": "500m"}}})

    conf = dict(line.split(" ", 1) for line in spark_defaults(spec, "good", 2, SITE).splitlines())

    assert conf["spark.kubernetes.executor.request.cores"] == "500m"
    assert conf["spark.kubernetes.executor.limit.cores"] == "500m"


def test_the_longest_names_fit() -> None:
    longest = Owner("x" * 40, "logs", "u")
    spec = group(generation=2**31 - 1)

    assert (
        max(len(m["metadata"]["name"]) for m in [manifests.deployment(longest, spec, 1, {})]) <= 63
    )


def test_a_secret_that_a_step_names_is_mounted() -> None:
    spec = {
        **FULL,
        "decode": {"format": "Json"},
        "transforms": [{"use": "Hash", "options": {"fields": ["mail"], "secret": "mail-hash"}}],
    }
    assert secrets_of(group(**spec)) == ("kafka.auth", "mail-hash", "s3")
    plug_in = {"use": "shop.steps:Sign", "options": {"secret": "what only the plug-in knows"}}
    assert secrets_of(group(**{**spec, "transforms": [plug_in]})) == ("kafka.auth", "s3")


def test_the_secret_of_a_group_that_has_what_kafka_lost_is_mounted() -> None:
    s3 = {"credentialsSecretRef": {"name": "of-backup"}}
    named = {"readFrom": {"group": "backup", "url": "s3://backup/raw", "s3": s3}}
    kafka = {"bootstrapServers": "k:1", "topics": ["a"], "onDataLoss": named}
    assert "of-backup" in secrets_of(group(source={"kafka": kafka}))


def test_the_secrets_of_feeds_are_mounted_by_drivers_and_executors() -> None:
    secret = {"credentialsSecretRef": {"name": "of-azure"}}
    feeds = [
        {"topic": "a", "url": "abfss://logs@account/in", "azure": secret},
        {"topic": "b", "url": "gs://logs/in", "gcs": {"credentialsSecretRef": {"name": "of-gcs"}}},
        {
            "topic": "c",
            "url": "gs://logs/in",
            "azure": {"credentialsSecretRef": {"name": "unused"}},
        },
    ]
    spec = group(**{**FULL, "source": {"files": feeds}})

    assert secrets_of(spec) == driver_secrets_of(spec) == ("of-azure", "of-gcs", "s3")


def test_the_secret_of_events_is_mounted_by_drivers_alone() -> None:
    queue = {"queueUrl": "https://sqs/files", "credentialsSecretRef": {"name": "sqs"}}
    topic = {"bootstrapServers": "kafka:9092", "topic": "events"}
    files = [
        {"topic": "a", "url": "s3://logs/a", "events": {"sqs": queue}},
        {"topic": "b", "url": "s3://logs/b", "events": {"kafka": topic}},
    ]
    spec = group(**{**FULL, "source": {"files": files}})

    assert driver_secrets_of(spec) == ("s3", "sqs")
    assert secrets_of(spec) == ("s3",)


def test_the_secret_of_a_publisher_is_mounted_by_drivers_alone() -> None:
    lake = {"name": "lake", "type": "Iceberg", "secretRef": {"name": "catalog"}}
    spec = group(**{**FULL, "publish": [lake, {**lake, "name": "second"}]})

    def mounted(pod: dict[str, Any], role: str) -> dict[str, str]:
        """The paths of the Secrets of the container of this role, by name."""
        volumes = {v["name"]: v.get("secret", {}).get("secretName") for v in pod["volumes"]}
        container = next(c for c in pod["containers"] if c["name"] == role)
        mounts = {volumes.get(m["name"]): m["mountPath"] for m in container["volumeMounts"]}
        return {name: path for name, path in mounts.items() if name}

    driver = mounted(driver_template(spec, "good", "files", SITE)["spec"], "driver")
    executor = mounted(executor_template(spec, SITE)["spec"], "executor")

    assert driver["catalog"] == "/etc/landfall/secrets/catalog"
    assert set(driver) - set(executor) == {"catalog", "clicks-control"}
    assert set(executor) >= {"kafka.auth", "s3"}
