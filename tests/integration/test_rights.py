"""Operator and drivers use all their rights; ``make rights`` shows that they need each of them."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from landfall_operator.objects.names import OPERATOR
from tests.rights.grants import DRIVERS, OPERATORS, Rules, single, without
from tests.rights.spark import DRIVER
from tests.rights.stories import STORIES, Denied, play
from tests.support.kubernetes.api_audit_log import Right, has_log
from tests.support.kubernetes.cluster import Cluster

pytestmark = pytest.mark.timeout(1200, func_only=True)


@pytest.fixture(autouse=True)
def ours(resource: Cluster) -> Cluster:
    """An API server with an audit log."""
    if not has_log(resource):
        pytest.skip("only a control plane of dev/cluster has an audit log")
    return resource


@pytest.mark.parametrize(("account", "lent"), [(OPERATOR, DRIVERS), (DRIVER, ())])
def test_no_right_goes_unused(ours: Cluster, account: str, lent: Rules) -> None:
    """Except for rights that the operator only has in order to grant them to drivers."""
    stories = [story for story in STORIES if story.account == account]

    # At once: they wait most of the time, each in a namespace of its own.
    with ThreadPoolExecutor(len(stories)) as pool:
        used = set().union(*pool.map(lambda story: play(ours, story, story.rules), stories))

    assert set(single(stories[0].rules)) - used - set(single(lent)) == set()


def test_a_missing_right_is_named(ours: Cluster) -> None:
    right = Right("networking.k8s.io", "networkpolicies", "create")

    with pytest.raises(Denied, match="cannot create resource"):
        play(ours, STORIES[0], without(OPERATORS, right))


def test_one_right_is_taken_away_and_no_other() -> None:
    every = set(single(OPERATORS))

    assert {
        right for right in every if set(single(without(OPERATORS, right))) != every - {right}
    } == set()
