"""Labels of a group that its objects have, too, as costs and selectors go by them."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from landfall_operator.core import actions as act
from landfall_operator.core.decide import decide
from landfall_operator.core.desired_state import desired_state
from landfall_operator.objects.pod_templates import driver_template, executor_template
from landfall_operator.settings import read
from tests.support.operator.cluster_model import SITE, World, group

KEYS = read(["--inherited-labels", "team, cost-centre"], {}).context.inherited
INHERITING = replace(SITE, inherited=KEYS)
LABELS = {"team": "web", "app.kubernetes.io/instance": "of-argo-cd"}


def made(labels: Mapping[str, str]) -> list[dict[str, Any]]:
    """The objects of a group with labels that has just been created."""
    observed = World(group(), context=INHERITING, labels=dict(labels)).observe()
    actions = decide(observed, desired_state(observed), INHERITING)
    return [
        action.manifest for action in actions if isinstance(action, act.Apply | act.CreateRevision)
    ]


def test_every_object_and_pod_has_the_named_labels_of_its_group() -> None:
    objects = made(LABELS)
    (driver,) = (o["spec"]["template"] for o in objects if o["kind"] == "Deployment")
    files = [o["data"] for o in objects if o["kind"] == "ConfigMap"]
    (executor,) = (json.loads(data["executor.json"]) for data in files if "executor.json" in data)

    for each in [*objects, driver, executor]:
        labels = each["metadata"]["labels"]
        assert (labels["team"], labels["app.kubernetes.io/instance"]) == ("web", "clicks"), each
        assert "cost-centre" not in labels


def test_labels_of_pods_in_the_spec_win_and_those_of_the_chart_lose() -> None:
    common = json.dumps({"labels": {"team": "all", "site": "a"}})
    chart = read(["--driver-defaults", common, "--executor-defaults", common], {}).context
    context = replace(chart, inherited=KEYS).of({"team": "web", "cost-centre": "7"})
    own = group(driver={"labels": {"cost-centre": "8"}})

    driver = driver_template(own, "image", "config", context)["metadata"]["labels"]
    executor = executor_template(own, context)["metadata"]["labels"]

    assert (driver["team"], driver["cost-centre"], driver["site"]) == ("web", "8", "a")
    assert (executor["team"], executor["cost-centre"], executor["site"]) == ("web", "7", "a")


def test_a_label_that_changes_restarts_no_driver() -> None:
    world = World(group(), context=INHERITING, labels={"team": "web"})
    world.run(timedelta(minutes=10))
    before = {name: driver.pod for name, driver in world.drivers.items()}
    objects = dict(world.hashes)

    world.labels = {"team": "shop"}
    world.run(timedelta(minutes=10))

    assert {name: driver.pod for name, driver in world.drivers.items()} == before
    changed = {name for name, found in world.hashes.items() if objects.get(name) != found}
    assert {"Service/clicks-driver", "ConfigMap/clicks-driver"} <= changed


def test_without_the_setting_no_label_is_inherited() -> None:
    assert SITE.of(LABELS) is SITE


@pytest.mark.parametrize("keys", ["team=web", "te am"])
def test_what_is_no_key_ends_the_operator_at_the_start(keys: str) -> None:
    with pytest.raises(SystemExit):
        read(["--inherited-labels", keys], {})
