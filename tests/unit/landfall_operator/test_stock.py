"""What is kept of what the API server tells, in whatever order it comes."""

from typing import Any

import pytest

from landfall_operator.core.cache import Stock
from landfall_operator.objects.manifests import config_map, controller_revision, deployment
from tests.support.told import KEY, OWNER, resource, told
from tests.support.world import SITE, group


@pytest.fixture
def stock() -> Stock:
    made = Stock()
    made.put("ConsumerGroup", resource())
    return made


def test_a_new_group_is_looked_at(stock: Stock) -> None:
    assert stock.put("ConsumerGroup", resource(name="orders", uid="v")) == ("logs", "orders")
    assert stock.groups[KEY].spec


def test_an_older_version_changes_nothing(stock: Stock) -> None:
    stock.put("ConsumerGroup", resource(5, generation=2))

    assert stock.put("ConsumerGroup", resource(4, generation=1)) is None
    assert stock.groups[KEY].body["metadata"]["generation"] == 2


def test_our_own_status_is_kept_and_no_reason_to_look(stock: Stock) -> None:
    written = {**resource(2), "status": {"phase": "Running"}}

    assert stock.put("ConsumerGroup", written) is None
    assert stock.groups[KEY].status.phase == "Running"


@pytest.mark.parametrize("change", [{"generation": 2}, {"deletionTimestamp": "now"}, {"finalizers": ["f"]}])
def test_what_others_change_of_a_group_is_a_reason_to_look(stock: Stock, change: dict[str, Any]) -> None:
    assert stock.put("ConsumerGroup", resource(2, **change)) == KEY


def test_what_was_deleted_does_not_come_back(stock: Stock) -> None:
    assert stock.drop("ConsumerGroup", resource(2)) == KEY

    assert stock.put("ConsumerGroup", resource(3)) is None
    assert stock.groups == {}


def test_another_object_of_the_same_name_does(stock: Stock) -> None:
    stock.drop("ConsumerGroup", resource(2))

    assert stock.put("ConsumerGroup", resource(3, uid="w")) == KEY


def test_the_deletion_of_a_former_object_leaves_the_present_one(stock: Stock) -> None:
    stock.put("ConsumerGroup", resource(9, uid="w"))

    stock.drop("ConsumerGroup", resource(8, uid="u"))

    assert stock.groups[KEY].uid == "w"


def test_of_a_deployment_only_what_matters_is_a_reason_to_look(stock: Stock) -> None:
    made = told(deployment(OWNER, group(), "good", 1, SITE))
    assert stock.put("Deployment", made) == KEY

    assert stock.put("Deployment", {**told(made, 2), "status": {"readyReplicas": 1}}) is None
    assert stock.put("Deployment", {**told(made, 3), "spec": {**made["spec"], "replicas": 0}}) == KEY


def test_a_spec_of_another_release_is_kept_unread(stock: Stock) -> None:
    made = told(controller_revision(OWNER, group(), "good", 1))
    made["data"]["group"]["spec"]["tomorrow"] = 1

    assert stock.put("ControllerRevision", made) == KEY
    assert [kept.value for kept in stock.owned(KEY).values()] == [None]


def test_a_list_takes_away_what_it_does_not_have_and_what_is_not_newer(stock: Stock) -> None:
    old, new = (told(config_map(OWNER, group(image), image, 1, SITE), v, image) for image, v in (("a", 10), ("b", 30)))
    stock.put("ConfigMap", old)
    stock.put("ConfigMap", new)

    assert stock.sweep("ConfigMap", "logs", [], "20") == {KEY}

    assert [kept.uid for kept in stock.owned(KEY).values()] == ["b"]


def test_a_list_of_one_namespace_says_nothing_of_another(stock: Stock) -> None:
    assert stock.sweep("ConsumerGroup", "elsewhere", [], "99") == set()
    assert stock.sweep("ConsumerGroup", None, [], "99") == {KEY}


def test_groups_with_one_output_are_rivals_until_one_is_gone(stock: Stock) -> None:
    other = resource(name="orders", uid="v")
    other["spec"]["output"]["url"] = "s3://logs/clicks/"
    stock.put("ConsumerGroup", other)
    spec = stock.groups[KEY].spec
    assert spec
    assert stock.rivals(spec) == "spec.output.url: s3://logs/clicks is also the output of logs/orders"

    stock.drop("ConsumerGroup", other)

    assert stock.rivals(spec) == ""
