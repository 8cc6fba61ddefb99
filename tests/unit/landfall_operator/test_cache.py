"""What is kept of what the API server tells, in whatever order it comes."""

from typing import Any

import pytest

from landfall_operator.core.cache import ObjectCache
from landfall_operator.objects.manifests import config_map, controller_revision, deployment
from tests.support.api_objects import KEY, OWNER, resource, told
from tests.support.cluster_model import SITE, group


@pytest.fixture
def cache() -> ObjectCache:
    made = ObjectCache()
    made.put("ConsumerGroup", resource())
    return made


def test_a_new_group_is_looked_at(cache: ObjectCache) -> None:
    assert cache.put("ConsumerGroup", resource(name="orders", uid="v")) == ("logs", "orders")
    assert cache.groups[KEY].spec


def test_an_older_version_changes_nothing(cache: ObjectCache) -> None:
    cache.put("ConsumerGroup", resource(5, generation=2))

    assert cache.put("ConsumerGroup", resource(4, generation=1)) is None
    assert cache.groups[KEY].body["metadata"]["generation"] == 2


def test_our_own_status_is_kept_and_no_reason_to_look(cache: ObjectCache) -> None:
    written = {**resource(2), "status": {"phase": "Running"}}

    assert cache.put("ConsumerGroup", written) is None
    assert cache.groups[KEY].status.phase == "Running"


@pytest.mark.parametrize(
    "change", [{"generation": 2}, {"deletionTimestamp": "now"}, {"finalizers": ["f"]}]
)
def test_what_others_change_of_a_group_is_a_reason_to_look(
    cache: ObjectCache, change: dict[str, Any]
) -> None:
    assert cache.put("ConsumerGroup", resource(2, **change)) == KEY


def test_what_was_deleted_does_not_come_back(cache: ObjectCache) -> None:
    assert cache.drop("ConsumerGroup", resource(2)) == KEY

    assert cache.put("ConsumerGroup", resource(3)) is None
    assert cache.groups == {}


def test_another_object_of_the_same_name_does(cache: ObjectCache) -> None:
    cache.drop("ConsumerGroup", resource(2))

    assert cache.put("ConsumerGroup", resource(3, uid="w")) == KEY


def test_the_deletion_of_a_former_object_leaves_the_present_one(cache: ObjectCache) -> None:
    cache.put("ConsumerGroup", resource(9, uid="w"))

    cache.drop("ConsumerGroup", resource(8, uid="u"))

    assert cache.groups[KEY].uid == "w"


def test_of_a_deployment_only_what_matters_is_a_reason_to_look(cache: ObjectCache) -> None:
    made = told(deployment(OWNER, group(), "good", 1, SITE))
    assert cache.put("Deployment", made) == KEY

    assert cache.put("Deployment", {**told(made, 2), "status": {"readyReplicas": 1}}) is None
    assert (
        cache.put("Deployment", {**told(made, 3), "spec": {**made["spec"], "replicas": 0}}) == KEY
    )


def test_a_spec_of_another_release_is_kept_unread(cache: ObjectCache) -> None:
    made = told(controller_revision(OWNER, group(), "good", 1))
    made["data"]["group"]["spec"]["tomorrow"] = 1

    assert cache.put("ControllerRevision", made) == KEY
    assert [kept.value for kept in cache.owned(KEY).values()] == [None]


def test_a_list_takes_away_what_it_does_not_have_and_what_is_not_newer(cache: ObjectCache) -> None:
    old, new = (
        told(config_map(OWNER, group(image), image, 1, SITE), v, image)
        for image, v in (("a", 10), ("b", 30))
    )
    cache.put("ConfigMap", old)
    cache.put("ConfigMap", new)

    assert cache.sweep("ConfigMap", "logs", [], "20") == {KEY}

    assert [kept.uid for kept in cache.owned(KEY).values()] == ["b"]


def test_a_list_of_one_namespace_says_nothing_of_another(cache: ObjectCache) -> None:
    assert cache.sweep("ConsumerGroup", "elsewhere", [], "99") == set()
    assert cache.sweep("ConsumerGroup", None, [], "99") == {KEY}


def test_groups_with_one_output_are_rivals_until_one_is_gone(cache: ObjectCache) -> None:
    other = resource(name="orders", uid="v")
    other["spec"]["output"]["url"] = "s3://logs/clicks/"
    cache.put("ConsumerGroup", other)
    spec = cache.groups[KEY].spec
    assert spec
    assert (
        cache.conflicting_groups(spec)
        == "spec.output.url: s3://logs/clicks is also the output of logs/orders"
    )

    cache.drop("ConsumerGroup", other)

    assert cache.conflicting_groups(spec) == ""
