"""The schema registry: its Secret is mounted, and which revision an outage of it condemns."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from landfall.api.contract import Failure
from landfall.api.spec import parse_group
from landfall_operator.api.reasons import ConditionReason, ConditionType, is_environment
from landfall_operator.api.status import RolloutHold, Stage
from landfall_operator.core.desired_state import desired_state
from landfall_operator.core.rollout import RolloutEvent
from landfall_operator.core.snapshot import GroupObservation, ReceivedStatus
from landfall_operator.objects.pod_templates import secrets_of
from landfall_operator.reporting.group_status import report
from tests.support.kubernetes.groups import document
from tests.support.operator.cluster_model import World, group

MINUTE = timedelta(minutes=1)
AVRO = {"format": "Avro", "registry": {"urls": ["http://registry:8081"]}}
REASONS = ("SchemaRegistryUnavailable", "SchemaRegistryDenied", "SchemaRegistryChanged")


def test_the_secret_of_a_schema_registry_is_mounted() -> None:
    resource = document()
    registry = {"urls": ["http://registry:8081"], "secretRef": {"name": "login"}}
    resource["spec"]["decode"] = {"format": "Avro", "registry": registry}

    assert "login" in secrets_of(parse_group(resource))
    del registry["secretRef"]
    assert "login" not in secrets_of(parse_group(resource))


def test_the_secrets_of_some_topics_are_mounted() -> None:
    registry = {"urls": ["http://registry:8081"], "secretRef": {"name": "login"}}
    hashed = {"use": "Hash", "options": {"fields": ["mail"], "secret": "mail-hash"}}
    resource = document(
        decode__format="Json",
        topics=[
            {"pattern": "a", "decode": {"format": "Avro", "registry": registry}},
            {"pattern": "b", "transforms": [hashed]},
        ],
    )

    assert secrets_of(parse_group(resource)) == ("login", "mail-hash")


def test_the_registry_of_keys_has_a_secret_of_its_own() -> None:
    registry = {"urls": ["http://registry:8081"], "secretRef": {"name": "of-keys"}}
    resource = document(decode__key={"format": "Avro", "registry": registry})

    assert secrets_of(parse_group(resource)) == ("of-keys",)


def test_a_registry_that_is_away_condemns_no_revision() -> None:
    assert all(map(is_environment, REASONS))


def held(reason: str, before: dict[str, Any]) -> GroupObservation:
    """A new revision with a registry has waited for it for an hour; the one before it had that."""
    world = World(group("good", **before))
    world.run(5 * MINUTE)
    world.edit(group("better", decode=AVRO))
    world.run(5 * MINUTE)
    observed = world.observe()
    assert observed.status.rollout.stage is Stage.WATCHING
    driver = observed.driver(observed.status.rollout.active)
    assert driver
    assert driver.report
    status = driver.report.status
    last = Failure(status.time, reason, "http://registry:8081: no answer")
    commits = replace(status.commits, consecutive_failures=9, last_failure=last)
    failing = ReceivedStatus(replace(status, commits=commits), observed.now)
    since = observed.now - 60 * MINUTE
    rollout = observed.status.rollout.model_copy(
        update={"since": since, "held": RolloutHold(reason=ConditionReason(reason), since=since)}
    )
    return replace(
        observed,
        drivers={**observed.drivers, driver.revision: replace(driver, report=failing)},
        status=observed.status.model_copy(update={"rollout": rollout}),
    )


@pytest.mark.parametrize("reason", REASONS)
def test_a_revision_whose_own_registry_never_answers_is_rolled_back(reason: str) -> None:
    assert desired_state(held(reason, {})).event is RolloutEvent.REVERT_WARM
    assert desired_state(held(reason, {"decode": AVRO})).event is None


@pytest.mark.parametrize("reason", REASONS)
def test_the_status_says_that_the_registry_is_what_fails(reason: str) -> None:
    observed = held(reason, {})

    status = report(observed, desired_state(observed))

    found = {c.type: c for c in status.conditions}[ConditionType.COMMITS_HEALTHY]
    assert (found.status, found.reason) == ("False", reason)
    assert "http://registry:8081: no answer" in found.message
