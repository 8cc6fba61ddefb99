"""What somebody else changed is put back, and not in an endless circle."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from landfall_operator.core.actions import Apply
from landfall_operator.core.cache import ObjectCache
from landfall_operator.core.inputs import Inputs, observe
from landfall_operator.core.ownership import applied_fields, is_intact
from landfall_operator.objects import manifests
from landfall_operator.objects.names import OPERATOR
from landfall_operator.objects.pod_templates import driver_template
from landfall_operator.runtime.action_executor import REPAIR_INTERVAL, REPAIRS_AT_ONCE, DriftLimit
from tests.support.operator.api_objects import KEY, OWNER, deployed, resource, stored
from tests.support.operator.cluster_model import SITE, START, World, decided, group

SHARED = {each["kind"]: each for each in manifests.shared_objects(OWNER, ["clicks-driver"], SITE)}
ATOMIC = frozenset(
    {"rules", "subjects", "roleRef", "ingress", "podSelector", "selector", "items", "tolerations"}
)
"""Fields that the API server manages as a whole, in the kinds of these tests."""


def fields_of(value: Any, name: str = "") -> dict[str, Any]:
    """The managed fields of a value, in the form of the API server."""
    if isinstance(value, dict) and name not in ATOMIC:
        return {f"f:{key}": fields_of(item, key) for key, item in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], dict) and name not in ATOMIC:
        return {key_of(item): {".": {}, **fields_of(item)} for item in value}
    return {}


def key_of(item: dict[str, Any]) -> str:
    if "port" in item:
        return "k:" + json.dumps({"port": item["port"], "protocol": "TCP"})
    name = "mountPath" if "mountPath" in item else "name"
    return "k:" + json.dumps({name: item[name]})


def managed(manifest: dict[str, Any], without: str = "") -> dict[str, Any]:
    """An object as the API server returns it, after somebody changed the field ``without``."""
    metadata = {k: manifest["metadata"][k] for k in ("labels", "annotations")}
    rest = {k: v for k, v in manifest.items() if k not in {"apiVersion", "kind", "metadata"}}
    fields = fields_of({"metadata": metadata, **rest})
    at, *path = [fields, *(f"f:{part}" for part in without.split(".") if part)]
    for step in path[:-1]:
        at = at[step]
    taken = {path[-1]: at.pop(path[-1])} if path else {}
    entries = [
        {"manager": OPERATOR, "operation": "Apply", "fieldsV1": fields},
        {"manager": "kubectl-edit", "operation": "Update", "fieldsV1": taken},
    ]
    body = stored(manifest, 2 if without else 1)
    return {**body, "metadata": {**body["metadata"], "managedFields": entries}}


@pytest.mark.parametrize("kind", SHARED)
def test_what_nobody_changed_is_intact(kind: str) -> None:
    assert is_intact(applied_fields(managed(SHARED[kind])), SHARED[kind])


def test_a_deployment_that_nobody_changed_is_intact_whatever_its_replicas() -> None:
    manifest = deployed(group())

    assert is_intact(applied_fields(managed(manifest, "spec.replicas")), manifest)
    assert is_intact(applied_fields(managed(manifest)), manifest)


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        ("Role", "rules"),
        ("RoleBinding", "subjects"),
        ("NetworkPolicy", "spec.ingress"),
        ("Service", "spec.publishNotReadyAddresses"),
        ("PodDisruptionBudget", "spec.maxUnavailable"),
        ("ServiceAccount", "metadata.labels.app"),
    ],
)
def test_a_changed_field_is_noticed(kind: str, field: str) -> None:
    manifest = SHARED[kind]
    if field.startswith("metadata.labels"):
        labels = {**manifest["metadata"]["labels"], "app": "x"}
        manifest = {**manifest, "metadata": {**manifest["metadata"], "labels": labels}}

    assert not is_intact(applied_fields(managed(manifest, field)), manifest)


def test_a_changed_item_of_a_list_is_noticed() -> None:
    manifest = SHARED["Service"]
    body = managed(manifest)
    ports = body["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:ports"]
    del ports[key_of({"port": 8081})]

    assert not is_intact(applied_fields(body), manifest)


def test_an_object_that_does_not_say_who_manages_it_counts_as_intact() -> None:
    assert is_intact(applied_fields(stored(SHARED["Role"])), SHARED["Role"])


def test_an_object_that_somebody_replaced_is_not_intact() -> None:
    body = managed(SHARED["Role"])
    body["metadata"]["managedFields"] = body["metadata"]["managedFields"][1:]

    assert not is_intact(applied_fields(body), SHARED["Role"])


def observed_with(*objects: dict[str, Any]) -> Any:
    cache = ObjectCache()
    cache.put("ConsumerGroup", resource())
    for number, each in enumerate(objects):
        cache.put(each["kind"], {**each, "metadata": {**each["metadata"], "uid": f"u{number}"}})
    return observe(KEY, cache.groups[KEY], cache.owned(KEY), Inputs(START, {}))


def test_the_cache_wakes_the_group_of_an_object_that_was_changed() -> None:
    cache = ObjectCache()
    cache.put("ConsumerGroup", resource())
    cache.put("Role", managed(SHARED["Role"]))

    assert cache.put("Role", managed(SHARED["Role"], "rules")) == KEY


def test_a_role_that_somebody_changed_is_applied_again() -> None:
    others = [managed(each) for kind, each in SHARED.items() if kind != "Role"]

    kept = observed_with(managed(SHARED["Role"]), *others)
    changed = observed_with(managed(SHARED["Role"], "rules"), *others)

    assert "Role/clicks-driver" not in applied(kept)
    assert "Role/clicks-driver" in applied(changed)


def applied(observed: Any) -> list[str]:
    return [str(action) for action in decided(observed)[1] if isinstance(action, Apply)]


def test_a_deployment_is_put_back_only_by_the_release_that_applied_it() -> None:
    world = World(group())
    world.run(timedelta(minutes=2))
    observed = world.observe()
    (driver,) = observed.drivers.values()
    config = f"ConfigMap/{driver.config}"
    template = driver_template(group(), "good", driver.config, SITE)
    mine = manifests.deployment(OWNER, group(), 1, template)
    name = f"Deployment/{mine['metadata']['name']}"
    fields = {name: applied_fields(managed(mine, "spec.template.spec.containers"))}
    assert config in observed.hashes

    same = {**observed.hashes, name: mine["metadata"]["annotations"]["landfall.dev/hash"]}
    other = {**observed.hashes, name: "of another release"}

    assert name in applied(replace(observed, uid="u", hashes=same, fields=fields))
    assert name not in applied(replace(observed, uid="u", hashes=other, fields=fields))


def test_a_pass_that_changes_nothing_makes_no_files_for_a_driver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(group("good"))
    world.run(timedelta(minutes=5))
    monkeypatch.setattr(manifests, "config_map", lambda *_: pytest.fail("nobody needs them"))

    assert world.reconcile() == ()


def test_repairs_in_a_row_are_limited() -> None:
    now = 0.0
    limit = DriftLimit(lambda: now)

    counts = [limit.count(KEY, "Role/a") for _ in range(REPAIRS_AT_ONCE + 2)]
    now = REPAIR_INTERVAL
    later = [limit.count(KEY, "Role/a") for _ in range(2)]

    assert counts == [1, 2, 3, 0, 0]
    assert later == [REPAIRS_AT_ONCE + 1, 0]
    assert limit.count(KEY, "Role/b") == 1


def test_repairs_long_after_each_other_are_not_in_a_row() -> None:
    now = 0.0
    limit = DriftLimit(lambda: now)
    limit.count(KEY, "Role/a")

    now = REPAIR_INTERVAL

    assert limit.count(KEY, "Role/a") == 1
