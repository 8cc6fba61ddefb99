"""Of several operators that see a group, one manages it; the others leave it alone and say so."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from landfall_operator.core.actions import Apply
from landfall_operator.core.cache import ObjectCache
from landfall_operator.core.claims import Claim, Claims, parse_selector
from landfall_operator.objects.manifests import shared_objects
from landfall_operator.objects.names import OPERATOR_ANNOTATION
from landfall_operator.runtime.action_executor import REPAIRS_AT_ONCE, ActionExecutor, Target
from landfall_operator.runtime.kube_client import KINDS
from landfall_operator.runtime.metrics import Metrics
from landfall_operator.runtime.reconciler import ReconcilerSettings
from tests.support.operator.api_objects import KEY, OWNER, resource
from tests.support.operator.cluster_model import SITE
from tests.support.operator.fake_api import FakeApi
from tests.support.operator.reconciled import Reconciled


@pytest.fixture
def one() -> Iterator[Reconciled]:
    """A group that no operator has seen."""
    made = Reconciled()
    yield made
    made.pool.shutdown()


def run_as(one: Reconciled, operator: str, selector: str = "") -> None:
    """Continue as another operator that sees everything."""
    one.restart_operator()
    claims = Claims(operator, parse_selector(selector))
    one.reconciler._settings = ReconcilerSettings(SITE, one.clock, claims=claims)


def holder(one: Reconciled) -> str | None:
    return one.group["metadata"].get("annotations", {}).get(OPERATOR_ANNOTATION)


def label(one: Reconciled, **labels: str) -> None:
    body = one.group
    one.api.store(one.path(), {**body, "metadata": {**body["metadata"], "labels": labels}})
    one.watch()


@pytest.mark.asyncio
async def test_the_first_operator_manages_a_group_and_the_second_writes_nothing(
    one: Reconciled, caplog: pytest.LogCaptureFixture
) -> None:
    run_as(one, "a/landfall-operator")
    await one.run(60)
    assert holder(one) == "a/landfall-operator"
    run_as(one, "b/landfall-operator")

    for _ in range(3):
        assert await one.reconciler.reconcile(KEY) is None

    assert one.api.requests == []
    assert holder(one) == "a/landfall-operator"
    said = [r.getMessage() for r in caplog.records if "left alone" in r.getMessage()]
    assert len(said) == 1
    assert said[0].startswith("left alone: operator a/landfall-operator manages it")
    assert said[0].endswith("remove annotation landfall.dev/operator")
    assert foreign(one.metrics) == {("logs", "clicks", "a/landfall-operator"): 1.0}


def foreign(metrics: Metrics) -> dict[tuple[str, ...], float]:
    return {
        tuple(sample.labels[name] for name in ("namespace", "group", "operator")): sample.value
        for family in metrics.registry.collect()
        if family.name == "landfall_operator_foreign_group"
        for sample in family.samples
    }


@pytest.mark.asyncio
async def test_a_group_without_the_annotation_goes_to_whoever_writes_it_first(
    one: Reconciled,
) -> None:
    run_as(one, "a/landfall-operator")
    await one.run(60)
    await edit_annotation(one, None)
    run_as(one, "b/landfall-operator")

    await one.run(60)

    assert holder(one) == "b/landfall-operator"
    assert foreign(one.metrics) == {}


async def edit_annotation(one: Reconciled, value: str | None) -> None:
    body = one.group
    annotations = {} if value is None else {OPERATOR_ANNOTATION: value}
    one.api.store(
        one.path(), {**body, "metadata": {**body["metadata"], "annotations": annotations}}
    )


@pytest.mark.asyncio
async def test_of_two_that_claim_at_once_the_later_one_leaves_the_group_alone(
    one: Reconciled,
) -> None:
    """The second operator's cache is behind: it has not seen what the first one wrote."""
    run_as(one, "b/landfall-operator")
    await edit_annotation(one, "a/landfall-operator")

    assert await one.reconciler.reconcile(KEY) is None

    assert holder(one) == "a/landfall-operator"
    assert one.api.asked("apply", "Role") == 0


@pytest.mark.asyncio
async def test_the_same_operator_continues_after_a_restart(one: Reconciled) -> None:
    run_as(one, "a/landfall-operator")
    await one.run(60)
    run_as(one, "a/landfall-operator")

    assert await one.reconciler.reconcile(KEY) is not None


@pytest.mark.asyncio
async def test_a_group_is_released_when_its_labels_are_no_longer_selected(one: Reconciled) -> None:
    run_as(one, "old/landfall-operator", "wave!=next")
    await one.run(60)
    assert holder(one) == "old/landfall-operator"

    label(one, wave="next")
    assert await one.reconciler.reconcile(KEY) is None
    assert holder(one) is None
    run_as(one, "new/landfall-operator", "wave=next")
    await one.run(60)

    assert holder(one) == "new/landfall-operator"


def test_the_cache_wakes_a_group_whose_labels_change() -> None:
    cache = ObjectCache()
    cache.put("ConsumerGroup", resource())
    body = resource(2)
    metadata = {**body["metadata"], "labels": {"wave": "next"}}

    assert cache.put("ConsumerGroup", {**body, "metadata": metadata}) == KEY
    assert cache.groups[KEY].labels == {"wave": "next"}


@pytest.mark.parametrize(
    ("annotations", "labels", "claim"),
    [
        ({}, {"wave": "next"}, Claim.MANAGE),
        ({OPERATOR_ANNOTATION: "a/x"}, {"wave": "next"}, Claim.MANAGE),
        ({OPERATOR_ANNOTATION: "b/x"}, {"wave": "next"}, Claim.LEAVE),
        ({OPERATOR_ANNOTATION: "b/x"}, {}, Claim.LEAVE),
        ({OPERATOR_ANNOTATION: "a/x"}, {}, Claim.RELEASE),
        ({}, {}, Claim.LEAVE),
    ],
)
def test_what_an_operator_has_to_do_with_a_group(
    annotations: dict[str, str], labels: dict[str, str], claim: Claim
) -> None:
    assert Claims("a/x", parse_selector("wave=next")).on(labels, annotations) is claim


@pytest.mark.parametrize(
    ("text", "labels", "selected"),
    [
        ("", {}, True),
        ("a=1", {"a": "1"}, True),
        ("a==1,b!=2", {"a": "1"}, True),
        ("a==1,b!=2", {"a": "1", "b": "2"}, False),
        ("a in (1, 2)", {"a": "2"}, True),
        ("a in (1,2)", {}, False),
        ("a notin (1,2)", {}, True),
        ("a notin (1,2), b", {"a": "1", "b": ""}, False),
        ("landfall.dev/wave", {"landfall.dev/wave": "x"}, True),
        ("!a", {}, True),
        ("!a", {"a": "1"}, False),
    ],
)
def test_selectors_mean_what_they_mean_to_kubectl(
    text: str, labels: dict[str, str], selected: bool
) -> None:
    assert parse_selector(text).selects(labels) is selected


@pytest.mark.parametrize("text", ["a=1,", ",", "a in", "a in ()x", "=1", "a=b=c", "a b", "-a"])
def test_what_is_no_selector_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a label selector"):
        parse_selector(text)


def test_what_another_operator_writes_again_and_again_is_put_back_only_so_often() -> None:
    """It writes a hash of its own, unlike somebody who edits an object."""
    role = next(m for m in shared_objects(OWNER, [], SITE) if m["kind"] == "Role")
    api, cache, events = FakeApi(), ObjectCache(), Events()
    path = f"{KINDS['Role'].path('logs')}/clicks-driver"
    cache.put("ConsumerGroup", resource())
    group = Target(KEY, cache.groups[KEY], {})
    with ThreadPoolExecutor(1) as pool:
        one = ActionExecutor(api, cache, cast("Any", None), cast("Any", events), pool)
        for number in range(REPAIRS_AT_ONCE + 4):
            asyncio.run(one.execute(group, Apply(role)))
            cache.put("Role", api.store(path, with_hash(role, f"other-{number}")))

    assert api.asked("apply", "Role") == REPAIRS_AT_ONCE + 1
    assert events.reasons == [*["PutBack"] * (REPAIRS_AT_ONCE - 1), "Contested"]


def with_hash(manifest: dict[str, Any], value: str) -> dict[str, Any]:
    annotations = {**manifest["metadata"]["annotations"], "landfall.dev/hash": value}
    return {**manifest, "metadata": {**manifest["metadata"], "annotations": annotations}}


class Events:
    """Keeps the reasons of what is posted."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def post(self, _owner: object, action: Any) -> None:
        self.reasons.append(action.reason)
