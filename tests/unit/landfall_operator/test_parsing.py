"""Answers of the API server and of drivers become values; pod states become reasons for users."""

import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from landfall.api.contract import PublisherStatus
from landfall.api.status_summary import summarize
from landfall_operator.api.reasons import ConditionReason
from landfall_operator.api.revisions import digest_of, revision_of
from landfall_operator.api.status import GroupStatus
from landfall_operator.api.status_values import readable
from landfall_operator.api.validation import conflict, parsed
from landfall_operator.core.cache import slim_deployment, slim_pod
from landfall_operator.core.parsing import (
    driver_of,
    pod_failure_of,
    record_of,
    report_of,
)
from landfall_operator.core.snapshot import PodFailure
from landfall_operator.objects import manifests
from tests.support.operator.api_objects import OWNER, deployed
from tests.support.operator.cluster_model import START, World, group


def pod(state: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A pod whose driver is in this state."""
    containers = (
        [{"name": "proxy"}, {"name": "driver", "restartCount": 2, "state": state, **more}]
        if state
        else []
    )
    return {
        "metadata": {"creationTimestamp": "2026-11-21T12:00:00Z"},
        "status": {"containerStatuses": containers},
    }


def ended(code: int, message: str = "", reason: str = "Error") -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason, "message": message}}


BACK_OFF = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}
CASES = [
    (pod({"running": {}}), None),
    (pod({"running": {}}, lastState=ended(1)), None),
    (pod(), None),
    (pod({"waiting": {"reason": "ContainerCreating"}}), None),
    (
        pod({"waiting": {"reason": "ImagePullBackOff", "message": "no such tag"}}),
        PodFailure(ConditionReason.IMAGE_PULL, "no such tag"),
    ),
    (
        pod(
            {
                "waiting": {
                    "reason": "CreateContainerConfigError",
                    "message": 'secret "s3" not found',
                }
            }
        ),
        PodFailure(ConditionReason.CONFIG_ERROR, 'secret "s3" not found'),
    ),
    (
        pod(BACK_OFF, lastState=ended(137, reason="OOMKilled")),
        PodFailure(ConditionReason.OUT_OF_MEMORY, "the driver was killed at its memory limit"),
    ),
    (
        pod(BACK_OFF, lastState=ended(4, "log\nStoreDenied: no such bucket: logs")),
        PodFailure(ConditionReason.STORE_DENIED, "no such bucket: logs"),
    ),
    (
        pod(BACK_OFF, lastState=ended(5, "log\nUNAVAILABLE: the store does not answer")),
        PodFailure(ConditionReason.DEPENDENCY_UNAVAILABLE, "the store does not answer"),
    ),
    (
        pod(BACK_OFF, lastState=ended(5, "StoreUnavailable: no answer")),
        PodFailure(ConditionReason.STORE_UNAVAILABLE, "no answer"),
    ),
    (
        pod(BACK_OFF, lastState=ended(5)),
        PodFailure(
            ConditionReason.DEPENDENCY_UNAVAILABLE, "the store, Kafka or Spark did not answer"
        ),
    ),
    (
        pod(BACK_OFF, lastState=ended(3)),
        PodFailure(ConditionReason.FENCED, "another driver opened the ledger"),
    ),
    (
        pod(ended(1, "Traceback\nKeyError: 'a'")),
        PodFailure(ConditionReason.CRASH_LOOP, "exit code 1: KeyError: 'a'"),
    ),
    (pod(ended(1)), PodFailure(ConditionReason.CRASH_LOOP, "exit code 1")),
    (
        {
            "metadata": {},
            "status": {
                "conditions": [
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": "0/1 nodes",
                    }
                ]
            },
        },
        PodFailure(ConditionReason.UNSCHEDULABLE, "0/1 nodes"),
    ),
]


@pytest.mark.parametrize(("body", "failure"), CASES)
def test_a_pods_failure_has_a_reason(body: dict[str, Any], failure: PodFailure | None) -> None:
    assert pod_failure_of(body) == failure


@pytest.mark.parametrize("body", [body for body, _ in CASES])
def test_the_cache_keeps_all_that_a_driver_is_read_from(body: dict[str, Any]) -> None:
    refused = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}
    applied = deployed(group(driver={"serviceAccountName": "own"}))
    deployment = {**applied, "status": {"conditions": [{"type": "Available"}, refused]}}

    for pods in ([], [body]):
        assert driver_of(slim_deployment(deployment), [slim_pod(p) for p in pods], None) == (
            driver_of(deployment, pods, None)
        )


def test_a_driver_is_read_from_what_was_applied() -> None:
    applied = deployed(group())

    driver = driver_of(applied, [pod({"running": {}})], None)

    assert (driver.revision, driver.digest, driver.image) == (
        revision_of(group()),
        digest_of(group()),
        "good",
    )
    assert (driver.replicas, driver.pods, driver.restarts, driver.terminating) == (1, 1, 2, False)


def test_a_driver_that_runs_again_says_why_it_ended_last() -> None:
    running = {"running": {"startedAt": "2026-11-21T12:00:00Z"}}
    again = pod(running, lastState=ended(5, "UNAVAILABLE: no answer"))

    driver = driver_of(deployed(group()), [again], None)

    assert (driver.pod_failure, driver.started) == (None, START)
    assert driver.last_exit == PodFailure(ConditionReason.DEPENDENCY_UNAVAILABLE, "no answer")


def test_a_deployment_that_cannot_create_pods_has_a_reason() -> None:
    applied = deployed(group())
    condition = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}

    driver = driver_of({**applied, "status": {"conditions": [condition]}}, [], None)

    assert driver.pod_failure == PodFailure(ConditionReason.POD_REFUSED, "exceeded quota")


def test_a_recorded_spec_is_read_back() -> None:
    revision = manifests.controller_revision(OWNER, group(replicas=3), "good", 7)
    revision["metadata"]["creationTimestamp"] = "2026-11-21T12:00:00+00:00"

    record = record_of(revision)

    assert (record.number, record.group, record.image, record.created) == (
        7,
        group(replicas=3),
        "good",
        START,
    )


def test_a_drivers_answer_is_read_whatever_its_release_adds() -> None:
    world = World(group())
    world.run(timedelta(minutes=2))
    (driver,) = world.observe().drivers.values()
    assert driver.report
    answer = {**msgspec.to_builtins(driver.report.status), "added_later": 1}

    read = report_of(msgspec.json.encode(answer), START)

    assert read
    assert read.status == summarize(driver.report.status)


def test_the_publishers_of_a_drivers_answer_are_read() -> None:
    world = World(group())
    world.run(timedelta(minutes=2))
    (driver,) = world.observe().drivers.values()
    assert driver.report
    lake = PublisherStatus("lake", "Iceberg", 7, 2, 3.5, 9, 1, 0, None, "SpecInvalid", "m", "d")
    plain = msgspec.to_builtins(replace(driver.report.status, publishers=(lake,)))
    plain["publishers"][0]["added_later"] = 1

    read = report_of(msgspec.json.encode(plain), START)
    older = report_of(msgspec.json.encode({**plain, "publishers": []}), START)

    assert read
    assert older
    assert (read.status.publishers, older.status.publishers) == ((lake,), ())


def test_a_status_of_a_newer_operator_keeps_what_this_release_can_read() -> None:
    rejected = {"digest": "d", "reason": "NewWord", "message": "m", "generation": 2}
    rollout = {"stage": "Watching", "active": "g2-a", "newField": 1, "rejected": rejected}
    at = {"observedGeneration": 2, "lastTransitionTime": "2026-11-21T12:00:00Z"}
    ready = {"type": "Ready", "status": "True", "reason": "AsExpected", **at}
    stored = {
        "phase": "NewPhase",
        "reason": "NewWord",
        "replicas": 3,
        "rollout": rollout,
        "conditions": [ready, {**ready, "type": "NewCondition"}, {**ready, "reason": "NewWord"}],
    }

    read = readable(GroupStatus, stored)

    assert (read.phase, read.reason, read.replicas) == ("Pending", "Unknown", 3)
    assert (read.rollout.stage, read.rollout.active) == ("Watching", "g2-a")
    assert read.rollout.rejected
    assert (read.rollout.rejected.digest, read.rollout.rejected.reason) == ("d", "Unknown")
    assert [(c.type, c.reason) for c in read.conditions] == [
        ("Ready", "AsExpected"),
        ("Ready", "Unknown"),
    ]


def test_a_status_of_nothing_but_unknown_words_takes_no_time() -> None:
    """Who may write a status must not keep the operator from looking at the groups of others."""
    at = {"observedGeneration": 2, "lastTransitionTime": "2026-11-21T12:00:00Z"}
    ready = {"type": "Ready", "status": "True", "reason": "AsExpected", **at}
    words = [
        {**ready, "type": f"New{n}", "status": "Maybe", "observedGeneration": -9}
        for n in range(6_000)
    ]
    words.insert(3_000, ready)
    stored = {"conditions": words, "history": [{"revision": n} for n in range(3_000)]}
    before = time.process_time()

    read = readable(GroupStatus, stored)

    assert time.process_time() - before < 10
    assert [condition.type for condition in read.conditions] == ["Ready"]


@pytest.mark.parametrize("body", [b'{"phase": "Starting"}', b"<html>", b""])
def test_an_answer_that_is_not_a_status_is_ignored(body: bytes) -> None:
    assert report_of(body, START) is None


def test_a_resource_is_parsed_or_its_errors_are_reported() -> None:
    good = {**group().model_dump(mode="json", by_alias=True), "status": {"phase": "Running"}}

    assert parsed(good) == (group(), "")
    assert parsed({**good, "spec": {}}) == (
        None,
        "spec.source: is missing\nspec.output: is missing",
    )
    assert parsed({**good, "metadata": {"name": "a.b"}})[1].startswith(
        "metadata.name: must be at most 40"
    )


def test_two_groups_cannot_share_an_output_or_a_kafka_group() -> None:
    mine = group()
    other = mine.model_copy(update={"metadata": mine.metadata.model_copy(update={"name": "other"})})
    elsewhere = group(
        output={"url": "s3://elsewhere"},
        source={**source(), "kafka": {**source()["kafka"], "groupId": "g"}},
    )
    same_kafka_group = elsewhere.model_copy(update={"metadata": other.metadata})
    third = group(
        output={"url": "s3://third"},
        source=elsewhere.spec.source.model_dump(mode="json", by_alias=True),
    )

    ledger = group(output={"url": "s3://fourth"}, ledger={"url": "s3://logs/parsed/"})

    assert conflict(mine, same_kafka_group) == ""
    assert conflict(ledger, other) == "spec.ledger.url: s3://logs/parsed/ is also the output of {}"
    assert conflict(mine, other) == "spec.output.url: s3://logs/parsed is also the output of {}"
    assert (
        conflict(third, same_kafka_group)
        == "spec.source.kafka.groupId: g is also the Kafka group of {}"
    )


def source() -> dict[str, Any]:
    return {"kafka": {"bootstrapServers": "kafka:9092", "topics": ["clicks"]}}
