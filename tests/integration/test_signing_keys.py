"""The operator makes its key at a real API server with rights to this one Secret only."""

import base64
from typing import Any

import pytest

from landfall_operator.objects import rbac
from landfall_operator.objects.manifests import signing_key
from landfall_operator.objects.names import OPERATOR, SIGNING_KEY
from landfall_operator.runtime.kube_client import KubeClient, RequestRejected
from landfall_operator.runtime.metrics import Metrics, OperatorSnapshot
from landfall_operator.runtime.signing_keys import SigningKeys
from tests.support.kubernetes.groups import Groups


@pytest.fixture
def kube(groups: Groups) -> KubeClient:
    """A client with the operator's rights in its own namespace."""
    groups.cluster.allow(groups.namespace, OPERATOR, rbac.own(OPERATOR))
    metrics = Metrics(lambda: OperatorSnapshot(is_leader=True, groups=1, oldest_pass=0.0))
    return KubeClient(groups.cluster.as_account(groups.namespace, OPERATOR).configuration, metrics)


def loaded(kube: KubeClient, groups: Groups) -> tuple[bytes, ...]:
    """The public keys of an operator that has just become the leader."""
    keys = SigningKeys(kube, groups.namespace, SIGNING_KEY)
    keys.load()
    return keys.public


def secret_of(groups: Groups) -> Any:
    return groups.kubectl("get", "secret", SIGNING_KEY, "-o", "jsonpath={.data.current}")


def test_the_key_is_made_once_kept_rotated_and_revoked(kube: KubeClient, groups: Groups) -> None:
    (first,) = loaded(kube, groups)
    assert loaded(kube, groups) == (first,)

    move = '[{"op":"move","from":"/data/current","path":"/data/previous"}]'
    groups.kubectl("patch", "secret", SIGNING_KEY, "--type=json", "-p", move)
    rotated = loaded(kube, groups)
    assert (len(rotated), rotated[1]) == (2, first)
    assert loaded(kube, groups) == rotated

    groups.kubectl("delete", "secret", SIGNING_KEY)
    (made,) = loaded(kube, groups)
    assert made not in rotated
    assert b"PRIVATE KEY" in base64.b64decode(secret_of(groups))


def test_the_operator_makes_no_other_secret(kube: KubeClient, groups: Groups) -> None:
    other = signing_key(groups.namespace, "other", {"current": "aHVzaA=="})
    own = signing_key(groups.namespace, SIGNING_KEY, {"current": "aHVzaA=="})

    with pytest.raises(RequestRejected, match="403"):
        kube.apply(other)
    with pytest.raises(RequestRejected, match="403"):
        kube.create(own)  # a POST has no name that could be allowed
    with pytest.raises(RequestRejected, match="403"):
        kube.get("Secret", groups.namespace, "other")
