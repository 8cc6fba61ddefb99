"""What the executor does when an object is not as expected, and the patch that writes a status."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from landfall.api.signatures import Addressee
from landfall_operator.core.actions import (
    Apply,
    EmitEvent,
    RemoveAnnotation,
    RemoveFinalizer,
    SendTakeOver,
)
from landfall_operator.core.cache import GROUP, ObjectCache
from landfall_operator.objects.manifests import LiveSettings, Owner, live_settings, shared_objects
from landfall_operator.objects.names import FINALIZER
from landfall_operator.runtime.action_executor import (
    REPAIRS_AT_ONCE,
    ActionExecutor,
    Target,
    difference,
)
from landfall_operator.runtime.control_port import Bearer, Credentials
from landfall_operator.runtime.kube_client import KINDS, Conflict, RequestRejected
from tests.support.operator.api_objects import KEY, OWNER, resource
from tests.support.operator.cluster_model import SITE, group
from tests.support.operator.fake_api import FakeApi

POOL = ThreadPoolExecutor(1)
VALUES = st.recursive(
    st.one_of(st.integers(), st.text(max_size=3), st.lists(st.integers(), max_size=3)),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


def merged(target: Any, patch: Any) -> Any:
    """Apply a merge patch by RFC 7386, as the API server does."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


@given(OBJECTS, OBJECTS)
def test_a_difference_turns_one_object_into_the_other(before: Any, after: Any) -> None:
    assert merged(before, difference(before, after)) == after


@pytest.mark.parametrize("same", [{}, {"a": {"b": [1, 2]}, "c": "d"}])
def test_equal_objects_have_no_difference(same: Any) -> None:
    assert difference(same, same) == {}


class Kube:
    """An API server that has one Secret, and refuses Events."""

    def __init__(self, data: dict[str, str]) -> None:
        self.secret = {"kind": "Secret", "data": data}

        self.patches: list[Any] = []

    def merge(self, kind: str, namespace: str, name: str, patch: Any, subresource: str = "") -> Any:  # noqa: ARG002  # KubeClient's parameters
        self.patches.append(patch)
        return resource(2)

    def get(self, kind: str, namespace: str, name: str) -> Any:  # noqa: ARG002  # KubeClient's parameters
        return self.secret

    def create(self, manifest: Any) -> Any:
        raise RequestRejected(f"create {manifest['kind']}: 403 forbidden", 403)


class Events:
    """Keeps what is posted, or refuses it."""

    def __init__(self, *, allowed: bool = True) -> None:
        self.posted: list[EmitEvent] = []
        self.allowed = allowed

    def post(self, owner: Owner, action: EmitEvent) -> None:
        if not self.allowed:
            raise RequestRejected(f"create Event of {owner.name}: 403 forbidden", 403)
        self.posted.append(action)


class Drivers:
    """Keeps the commands that are sent."""

    def __init__(self) -> None:
        self.credentials: list[Credentials] = []

    async def send(self, address: str, command: object, credentials: Credentials) -> None:  # noqa: ARG002  # DriverClient's parameters
        self.credentials.append(credentials)


def executor(kube: Any, drivers: Any, events: Any) -> ActionExecutor:
    return ActionExecutor(kube, ObjectCache(), drivers, events, POOL)


def target() -> Target:
    cache = ObjectCache()
    cache.put(GROUP, resource())
    return Target(KEY, cache.groups[KEY], {"g1-a": "10.0.0.1"})


def test_a_group_of_the_same_name_keeps_its_finalizer() -> None:
    api = FakeApi()
    path = KINDS[GROUP].path(*KEY)
    cache = ObjectCache()
    cache.put(GROUP, api.store(path, resource(uid="former", finalizers=[FINALIZER])))
    former = Target(KEY, cache.groups[KEY], {})
    del api.objects[path]
    cache.put(GROUP, api.store(path, resource(uid="present", finalizers=[FINALIZER])))
    actions = ActionExecutor(api, cache, cast(Any, Drivers()), cast(Any, Events()), POOL)

    with pytest.raises(Conflict):
        asyncio.run(actions.execute(former, RemoveFinalizer()))

    assert api.objects[path]["metadata"]["finalizers"] == [FINALIZER]


@pytest.mark.parametrize("data", [{}, {"other": "aHVzaA=="}, {"token": "%"}, {"token": ""}])
def test_a_secret_without_a_token_is_named_in_an_event_and_ends_no_pass(
    data: dict[str, str],
) -> None:
    events, drivers = Events(), Drivers()
    actions = executor(Kube(data), drivers, events)

    assert asyncio.run(actions.has_token(target()))
    asyncio.run(actions.execute(target(), SendTakeOver("g1-a")))

    asyncio.run(actions.execute(target(), SendTakeOver("g1-a")))

    assert drivers.credentials == []
    assert [event.reason for event in events.posted] == ["NoControlToken"]
    assert "see that the Secret has a token" in events.posted[0].message


def test_a_token_that_may_not_be_read_is_named_in_an_event_and_ends_no_pass() -> None:
    class Forbidden(Kube):
        def get(self, kind: str, namespace: str, name: str) -> Any:  # noqa: ARG002  # KubeClient's parameters
            raise RequestRejected(f"get {kind}: 403 forbidden", 403)

    events, drivers = Events(), Drivers()
    actions = executor(Forbidden({}), drivers, events)

    assert asyncio.run(actions.has_token(target()))
    asyncio.run(actions.execute(target(), SendTakeOver("g1-a")))
    asyncio.run(actions.execute(target(), SendTakeOver("g1-a")))

    assert drivers.credentials == []
    assert [event.reason for event in events.posted] == ["NoControlToken"]
    assert "compatibility.bearerTokens" in events.posted[0].message


def test_a_driver_that_takes_signatures_needs_no_secret() -> None:
    class NoSecrets(Kube):
        def get(self, kind: str, namespace: str, name: str) -> Any:
            raise AssertionError(f"{kind} {namespace}/{name} was read")

    drivers, one = Drivers(), replace(target(), signed={"g1-a": "pod-uid"})

    asyncio.run(executor(NoSecrets({}), drivers, Events()).execute(one, SendTakeOver("g1-a")))

    uid = resource()["metadata"]["uid"]
    assert drivers.credentials == [Addressee("logs", "clicks", uid, "g1-a", "pod-uid")]


def test_a_token_is_sent_as_it_is_in_the_secret() -> None:
    drivers = Drivers()
    actions = executor(Kube({"token": "aHVzaA=="}), drivers, Events())

    asyncio.run(actions.execute(target(), SendTakeOver("g1-a")))

    assert drivers.credentials == [Bearer("hush")]
    assert "hush" not in str(drivers.credentials)


def test_an_answered_request_is_removed_from_the_group_that_made_it() -> None:
    kube = Kube({})
    actions = executor(kube, Drivers(), Events())

    asyncio.run(actions.execute(target(), RemoveAnnotation("landfall.dev/retry")))

    uid = resource()["metadata"]["uid"]
    assert kube.patches == [{"metadata": {"annotations": {"landfall.dev/retry": None}, "uid": uid}}]


def test_an_event_that_may_not_be_posted_costs_nothing_else() -> None:
    actions = executor(Kube({}), Drivers(), Events(allowed=False))

    asyncio.run(actions.execute(target(), EmitEvent("Normal", "Settled", "settled")))


def test_what_somebody_keeps_changing_is_put_back_only_so_often() -> None:
    role = next(m for m in shared_objects(OWNER, [], SITE) if m["kind"] == "Role")
    events, api, cache = Events(), FakeApi(), ObjectCache()
    cache.put("Role", api.store(f"{KINDS['Role'].path('logs')}/clicks-driver", role))
    actions = ActionExecutor(api, cache, cast("Any", Drivers()), cast("Any", events), POOL)

    for _ in range(REPAIRS_AT_ONCE + 2):
        asyncio.run(actions.execute(target(), Apply(role)))
        asyncio.run(actions.has_token(target()))  # a look at the token forgets no repair

    assert api.asked("apply", "Role") == REPAIRS_AT_ONCE
    assert [event.reason for event in events.posted] == [
        *["PutBack"] * (REPAIRS_AT_ONCE - 1),
        "Contested",
    ]
    assert events.posted[0].message.startswith("Role/clicks-driver was changed by another client")


def test_what_the_operator_itself_changes_is_no_repair() -> None:
    events, api, cache = Events(), FakeApi(), ObjectCache()
    actions = ActionExecutor(api, cache, cast("Any", Drivers()), cast("Any", events), POOL)

    for executors in range(REPAIRS_AT_ONCE + 2):
        asyncio.run(
            actions.execute(target(), Apply(live_settings(OWNER, group(), LiveSettings(executors))))
        )

    assert api.asked("apply", "ConfigMap") == REPAIRS_AT_ONCE + 2
    assert events.posted == []
