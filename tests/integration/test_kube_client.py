"""The operator's client on a real API server, with exactly the operator's rights."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from landfall_operator.core import actions
from landfall_operator.core.cache import GROUP, ObjectCache
from landfall_operator.objects.names import FINALIZER, OPERATOR
from landfall_operator.objects.rbac import GROUPS
from landfall_operator.runtime.action_executor import ActionExecutor, Target
from landfall_operator.runtime.kube_client import KINDS, Conflict, KubeClient, NotFound
from landfall_operator.runtime.metrics import Metrics, OperatorSnapshot
from tests.rights.grants import single
from tests.support.kubernetes.api_audit_log import Right
from tests.support.kubernetes.groups import Groups, document

LISTED = sorted(
    kind.name for kind in KINDS.values() if Right(kind.group, kind.plural, "list") in single(GROUPS)
)


@pytest.fixture
def kube(groups: Groups) -> KubeClient:
    """A client with the operator's account."""
    groups.cluster.allow(groups.namespace, OPERATOR, GROUPS)
    metrics = Metrics(lambda: OperatorSnapshot(is_leader=True, groups=1, oldest_pass=0.0))
    return KubeClient(groups.cluster.as_account(groups.namespace, OPERATOR).configuration, metrics)


def test_the_right_to_list_is_enough_to_find_an_object(kube: KubeClient, groups: Groups) -> None:
    for kind in LISTED:
        with pytest.raises(NotFound, match=f"{kind} {groups.namespace}/absent does not exist"):
            kube.find(kind, groups.namespace, "absent")


def test_one_object_is_found_among_many(kube: KubeClient, groups: Groups) -> None:
    for name in ("clicks", "clicks-2", "views"):
        groups.create(document(name))

    assert kube.find(GROUP, groups.namespace, "clicks") == groups.read("clicks")


@pytest.mark.asyncio
async def test_a_group_that_changed_meanwhile_is_read_again(
    kube: KubeClient, groups: Groups
) -> None:
    cache, key = ObjectCache(), (groups.namespace, "clicks")
    cache.put(GROUP, groups.create(document()))
    groups.patch("clicks", {"metadata": {"annotations": {"somebody": "was here"}}})
    nobody: Any = None
    with ThreadPoolExecutor(1) as pool:
        executor = ActionExecutor(kube, cache, nobody, nobody, pool)
        target, add = Target(key, cache.groups[key], {}), actions.AddFinalizer()
        with pytest.raises(Conflict):
            await executor.execute(target, add)

        await executor.refresh(target, add)
        await executor.execute(Target(key, cache.groups[key], {}), add)

    assert groups.read("clicks")["metadata"]["finalizers"] == [FINALIZER]
