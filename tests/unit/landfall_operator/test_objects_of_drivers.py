"""What the operator applies for the drivers that exist beside the one that it aims at."""

from dataclasses import replace
from datetime import timedelta

from landfall_operator.core.actions import Apply
from landfall_operator.core.cache import ObjectCache
from landfall_operator.core.inputs import Inputs, observe
from landfall_operator.objects.names import driver_name
from tests.support.operator.api_objects import KEY, deployed, resource, stored
from tests.support.operator.cluster_model import START, World, decided, group


def bound_accounts(world: World, account: str) -> list[str]:
    """The accounts that a pass binds while every existing driver runs as ``account``."""
    observed = world.observe()
    drivers = {name: replace(each, account=account) for name, each in observed.drivers.items()}
    _, actions = decided(replace(observed, drivers=drivers))
    (binding,) = (
        action.manifest
        for action in actions
        if isinstance(action, Apply) and action.manifest["kind"] == "RoleBinding"
    )
    return [subject["name"] for subject in binding["subjects"]]


def test_a_driver_keeps_its_rights_while_another_account_warms_up() -> None:
    world = World(group("good"))
    world.run(timedelta(minutes=5))

    world.edit(group("better", driver={"serviceAccountName": "new"}))

    assert bound_accounts(world, driver_name("clicks")) == ["clicks-driver", "new"]


def test_the_account_of_a_deployment_is_kept_in_the_cache() -> None:
    cache = ObjectCache()
    cache.put("ConsumerGroup", resource())
    spec = group("good", driver={"serviceAccountName": "own"})
    deployment = deployed(spec)

    cache.put("Deployment", stored(deployment))
    observed = observe(KEY, cache.groups[KEY], cache.owned(KEY), Inputs(START, {}))

    assert [driver.account for driver in observed.drivers.values()] == ["own"]
