"""The cache keeps the newest version of each object, in whatever order versions arrive."""

from typing import Any

import pytest

from landfall_operator.core.cache import ObjectCache
from landfall_operator.objects.manifests import config_map, controller_revision
from tests.support.operator.api_objects import KEY, OWNER, deployed, resource, stored
from tests.support.operator.cluster_model import SITE, group


@pytest.fixture
def cache() -> ObjectCache:
    new = ObjectCache()
    new.put("ConsumerGroup", resource())
    return new


def test_a_new_group_is_reconciled(cache: ObjectCache) -> None:
    assert cache.put("ConsumerGroup", resource(name="orders", uid="v")) == ("logs", "orders")
    assert cache.groups[KEY].spec


def test_an_older_version_changes_nothing(cache: ObjectCache) -> None:
    cache.put("ConsumerGroup", resource(5, generation=2))

    assert cache.put("ConsumerGroup", resource(4, generation=1)) is None
    assert cache.groups[KEY].generation == 2


def test_an_older_version_of_an_owned_object_changes_nothing(cache: ObjectCache) -> None:
    older = deployed(group())
    newer = {**older, "spec": {**older["spec"], "replicas": 0}}
    cache.put("Deployment", stored(newer, 10))

    assert cache.put("Deployment", stored(older, 9)) is None
    assert [each.value["spec"]["replicas"] for each in cache.owned(KEY).values()] == [0]


def test_the_operators_own_status_is_stored_but_no_reason_to_reconcile(cache: ObjectCache) -> None:
    written = {**resource(2), "status": {"phase": "Running", "ofLaterReleases": 1}}

    assert cache.put("ConsumerGroup", written) is None
    assert cache.groups[KEY].status.phase == "Running"
    assert cache.groups[KEY].stored_status() == written["status"]


@pytest.mark.parametrize(
    "change",
    [
        {"generation": 2},
        {"deletionTimestamp": "now"},
        {"finalizers": ["f"]},
        {"annotations": {"landfall.dev/accept-ledger": "true"}},
        {"annotations": {"landfall.dev/rollback": ""}},
    ],
)
def test_what_users_change_of_a_group_is_a_reason_to_reconcile(
    cache: ObjectCache, change: dict[str, Any]
) -> None:
    assert cache.put("ConsumerGroup", resource(2, **change)) == KEY


def test_annotations_of_others_are_no_reason_to_reconcile(cache: ObjectCache) -> None:
    changed = resource(2, annotations={"kubectl.kubernetes.io/last-applied-configuration": "{}"})

    assert cache.put("ConsumerGroup", changed) is None


def test_a_deleted_object_does_not_come_back(cache: ObjectCache) -> None:
    assert cache.drop("ConsumerGroup", resource(2)) == KEY

    assert cache.put("ConsumerGroup", resource(3)) is None
    assert cache.groups == {}


def test_objects_of_a_thousand_deleted_groups_do_not_come_back(cache: ObjectCache) -> None:
    one = stored(config_map(OWNER, group(), "a", 1, SITE))
    gone = [
        {**one, "metadata": {**one["metadata"], "uid": f"{number}"}} for number in range(12_000)
    ]
    for body in gone:
        cache.drop("ConfigMap", body)

    assert [cache.put("ConfigMap", body) for body in (gone[0], gone[-1])] == [None, None]


def test_a_version_that_is_known_is_not_parsed_again(
    cache: ObjectCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = stored(config_map(OWNER, group(), "a", 1, SITE))
    cache.put("ConfigMap", body)
    monkeypatch.delattr("landfall_operator.core.cache.driver_spec_of")

    assert cache.put("ConfigMap", body) is None


def test_equal_specs_of_a_group_are_one_object(cache: ObjectCache) -> None:
    made = group(output={"url": "s3://logs/clicks"})
    cache.put("ControllerRevision", stored(controller_revision(OWNER, made, "good", 1)))
    cache.put("ConfigMap", stored(config_map(OWNER, made, "good", 1, SITE), uid="c"))
    other = group("bad", output={"url": "s3://logs/clicks"})
    cache.put("ConfigMap", stored(config_map(OWNER, other, "bad", 1, SITE), uid="e"))

    values = [cached.value for cached in cache.owned(KEY).values()]
    recorded, mounted, different = values

    assert (recorded.group, mounted, different) == (made, made, other)
    assert recorded.group is mounted
    assert cache.groups[KEY].spec is mounted


def test_a_new_object_of_the_same_name_is_stored(cache: ObjectCache) -> None:
    cache.drop("ConsumerGroup", resource(2))

    assert cache.put("ConsumerGroup", resource(3, uid="w")) == KEY


def test_the_deletion_of_a_former_object_leaves_the_present_one(cache: ObjectCache) -> None:
    cache.put("ConsumerGroup", resource(9, uid="w"))

    cache.drop("ConsumerGroup", resource(8, uid="u"))

    assert cache.groups[KEY].uid == "w"


def test_only_relevant_fields_of_a_deployment_are_a_reason_to_reconcile(cache: ObjectCache) -> None:
    driver = stored(deployed(group()))
    assert cache.put("Deployment", driver) == KEY

    assert cache.put("Deployment", {**stored(driver, 2), "status": {"readyReplicas": 1}}) is None
    assert (
        cache.put("Deployment", {**stored(driver, 3), "spec": {**driver["spec"], "replicas": 0}})
        == KEY
    )


def test_a_spec_of_another_release_is_stored_without_a_value(cache: ObjectCache) -> None:
    revision = stored(controller_revision(OWNER, group(), "good", 1))
    revision["data"]["group"]["spec"]["tomorrow"] = 1

    assert cache.put("ControllerRevision", revision) == KEY
    assert [cached.value for cached in cache.owned(KEY).values()] == [None]


def test_a_list_removes_older_objects_that_it_does_not_contain(cache: ObjectCache) -> None:
    old, new = (
        stored(config_map(OWNER, group(image), image, 1, SITE), v, image)
        for image, v in (("a", 10), ("b", 30))
    )
    cache.put("ConfigMap", old)
    cache.put("ConfigMap", new)

    assert cache.drop_missing("ConfigMap", "logs", set(), "20") == {KEY}

    assert [cached.uid for cached in cache.owned(KEY).values()] == ["b"]


def test_a_list_of_one_namespace_does_not_affect_another(cache: ObjectCache) -> None:
    assert cache.drop_missing("ConsumerGroup", "elsewhere", set(), "99") == set()
    assert cache.drop_missing("ConsumerGroup", None, set(), "99") == {KEY}


@pytest.mark.parametrize(
    ("url", "is_inside"), [("s3://logs/clicks/db=a", True), ("s3://x/y", False)]
)
def test_groups_whose_outputs_are_inside_each_other_are_found(
    cache: ObjectCache, url: str, is_inside: bool
) -> None:
    mine, other = resource(), resource(name="orders", uid="v")
    mine["spec"]["route"] = {"topicPath": "db={field:app}/{topic}"}
    mine["metadata"]["resourceVersion"] = "99"
    other["spec"]["output"]["url"] = url
    cache.put("ConsumerGroup", mine)
    cache.put("ConsumerGroup", other)

    found = cache.refusal(("logs", "orders"))
    assert ("of logs/clicks" in found.message if found else False) == is_inside
    assert cache.refusal(KEY) is None

    cache.drop("ConsumerGroup", mine)

    assert cache.refusal(("logs", "orders")) is None
