"""``landfall run`` as a service: how it stops, shows outages, and refuses to start."""

import json
import os
import re
import signal
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus
from typing import Any

import pytest
from pyspark import SparkContext

from dev.servers.kafka import KAFKA
from dev.servers.s3 import S3
from dev.servers.server import Server, ServerKind
from landfall.api.contract import ExitCode
from landfall.errors import Reason, Stalled
from landfall.lane import claim_output_root
from landfall.store.urls import open_store
from tests.support.audit.independent_audit import EXACT, events
from tests.support.kafka.broker import Broker
from tests.support.landing.group import Landing, Scene, land, landing
from tests.support.landing.processes import Process, Processes
from tests.support.stores.s3 import S3Server
from tests.support.waiting import PATIENCE, eventually, wait_for

pytestmark = pytest.mark.xdist_group("drivers")

SERVICE = ("--http-port", "0", "--verbose")


def ask(driver: Process, path: str) -> tuple[int, Any]:
    """The status code and JSON of a path, as soon as the driver serves."""

    def url() -> str:
        assert driver.popen.poll() is None, driver.said
        return next(iter(re.findall(r"serving\s+url=(\S+)/", driver.said)), "")

    wait_for(url, "the driver serves")
    try:
        with urllib.request.urlopen(url() + path, timeout=PATIENCE) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def wait_until(driver: Process, condition: Callable[[Any], object], what: str) -> Any:
    """The first ``/status`` for which this holds."""
    found: list[Any] = []

    def holds() -> bool:
        code, status = ask(driver, "/status")
        found[:] = [status]
        return code == HTTPStatus.OK and bool(condition(status))

    try:
        wait_for(holds, what)
    except TimeoutError as error:
        raise AssertionError(f"{error}: {found}\n{driver.said}") from error
    return found[0]


def landed(records: int) -> Callable[[Any], bool]:
    return lambda status: (
        status["rates"]["landed_records"] == records and not status["commits"]["unapplied"]
    )


def test_sigterm_drains_and_hands_over(
    scene: Scene, processes: Processes, context: SparkContext
) -> None:
    topic = scene.topic(partitions=2)
    scene.kafka.produce(topic, [*events(range(800), 0), *events(range(800, 1000), 1)])
    driver = processes.run(scene.document(), *SERVICE)
    status = wait_until(driver, landed(1000), "all is landed")
    assert (status["phase"], status["lag_records"], status["commits"]["consecutive_failures"]) == (
        "Running",
        0,
        0,
    )
    scene.kafka.produce(topic, events(range(1000, 1500)))

    driver.send(signal.SIGTERM)

    assert driver.end() == ExitCode.OK, driver.said
    assert scene.state().holding == "yielded"
    assert scene.bucket.open_uploads() == []
    assert land(scene.group(), context).code is ExitCode.OK
    assert scene.audit() == EXACT
    assert scene.faults() == []
    wait_for(lambda: not driver.left(), "its JVM and Python workers end")


def test_two_groups_on_one_output_root_are_refused(scene: Scene, processes: Processes) -> None:
    claim_output_root(open_store(scene.group("first").spec.output), "default/first")

    # In a process of its own: in this one it would stop the Spark that all tests share.
    refused = processes.run(scene.document(name="second"))

    message = (
        "landfall: OutputOccupied: the output root belongs to default/first, not to "
        "default/second: see _landfall/owner.json"
    )
    assert refused.end() == ExitCode.STALLED, refused.said
    assert refused.said.splitlines()[1:] == [message]


def test_a_root_with_objects_of_our_names_and_no_ledger_is_refused(
    scene: Scene, context: SparkContext
) -> None:
    scene.bucket.write("clicks/dt=2026-01-01/1_0_00000000000000000000.json.gz", b"")

    with pytest.raises(Stalled, match=r"and spec\.generation above 1$") as refused:
        Landing(scene.group(), context)

    assert refused.value.reason is Reason.OUTPUT_OCCUPIED


# --------------------------------------------------------------------- unavailable source or store


def test_an_unavailable_broker_is_shown_and_waited_for(
    own_server: Callable[[ServerKind], Server], scene: Scene, context: SparkContext
) -> None:
    if os.environ.get(KAFKA.existing):
        pytest.skip(f"{KAFKA.existing} names a broker that is not ours to stop")
    server = own_server(KAFKA)
    scene = replace(scene, kafka=Broker(server.up().address or ""))
    topic = scene.topic()
    scene.kafka.produce(topic, events(range(300)))

    with landing(scene.group(), context) as driver:
        driver.wait_until_landed()
        server.down(at_once=True)
        away = driver.wait_until(lambda s: s.commits.failures, "the failure is shown")
        assert away.phase == "Running"
        assert away.commits.last_failure
        assert away.commits.last_failure.reason == "SourceUnavailable"
        server.up()
        scene.kafka.produce(topic, events(range(300, 500)))
        driver.wait_until(
            lambda s: s.rates.landed_records == 500 and not s.commits.unapplied, "landed on"
        )

    assert scene.audit() == EXACT
    assert scene.faults() == []


class TestAnOutage:
    """A server of the test's own, which no other test uses."""

    @pytest.fixture
    def server(self, own_server: Callable[[ServerKind], Server]) -> Server:
        if os.environ.get(S3.existing):
            pytest.skip(f"{S3.existing} names a server that is not ours to stop")
        return own_server(S3)

    @pytest.fixture
    def scene(self, kafka: Broker, server: Server, monkeypatch: pytest.MonkeyPatch) -> Scene:
        status = server.up()
        for name, value in status.env.items():
            if name.startswith("AWS_"):
                monkeypatch.setenv(name, value)
        return Scene(kafka, S3Server(status.address or "", status.env).create_bucket())

    def test_of_twenty_seconds_is_shown_and_waited_for(
        self, scene: Scene, server: Server, processes: Processes
    ) -> None:
        topic = scene.topic()
        scene.kafka.produce(topic, events(range(500)))
        driver = processes.run(scene.document(), *SERVICE)
        wait_until(driver, landed(500), "all is landed")

        server.down(at_once=True)
        scene.kafka.produce(topic, events(range(500, 900)))

        away = wait_until(
            driver,
            lambda s: s["commits"]["failures"] >= 2 and s["lag_seconds"] > 20,
            "failures are shown",
        )
        assert (away["phase"], away["lag_records"], away["commits"]["total"]) == ("Running", 400, 1)
        assert away["lag_seconds"] - 1 < away["overdue_seconds"] < away["lag_seconds"]
        failure = away["commits"]["last_failure"]
        assert failure["reason"] == "StoreUnavailable"
        assert away["commits"]["consecutive_failures"] >= away["commits"]["failures"]
        assert re.match(
            rf"(begin|create|put part|no answer: open) {scene.bucket.url}/\S+: ", failure["message"]
        )
        assert ask(driver, "/healthcheck")[0] == HTTPStatus.OK

        server.up()
        back = wait_until(driver, landed(900), "what came meanwhile is landed")
        assert (
            back["lag_records"],
            back["overdue_seconds"],
            back["commits"]["consecutive_failures"],
        ) == (0, 0, 0)
        driver.send(signal.SIGTERM)
        assert driver.end() == ExitCode.OK, driver.said
        assert scene.audit() == EXACT
        assert scene.faults() == []

    def test_that_begins_before_a_commit_lets_the_commit_wait(
        self, scene: Scene, server: Server, processes: Processes
    ) -> None:
        topic = scene.topic()
        scene.kafka.produce(topic, events(range(500)))
        driver = processes.struck(scene.document(), "STOP before create COMMIT")
        driver.wait_until_stopped()

        server.down(at_once=True)
        driver.send(signal.SIGCONT)

        # The status may be asked for between the failure and the wait that follows it.
        create = f"store: create {scene.bucket.url}/_landfall/"
        code, health = eventually(
            lambda: ask(driver, "/healthcheck"),
            lambda answer: answer[1].get("waiting_for", "").startswith(create),
        )
        assert (code, health["alive"]) == (HTTPStatus.OK, True)
        commits = wait_until(driver, lambda s: s["commits"]["failures"] > 1, "status goes on")[
            "commits"
        ]
        assert (commits["total"], commits["last_failure"]["reason"]) == (0, "StoreUnavailable")

        server.up()
        assert driver.end() == ExitCode.OK, driver.said
        assert scene.state().totals.commits == 1
        assert scene.audit() == EXACT
        assert scene.faults() == []
