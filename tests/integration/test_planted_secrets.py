"""Secrets are set wherever possible and searched for in all that a driver logs and serves.

So are values of payloads, which belong in dead letters only. What the operator makes of a driver's
status is searched, too.
"""

import json
import random
import signal
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from dev.servers.ports import PORTS
from landfall.api.contract import EXECUTORS_PATH, ExitCode, Status
from landfall_operator.core.desired_state import desired_state
from landfall_operator.core.snapshot import ReceivedStatus
from landfall_operator.reporting.event_texts import condition_events
from landfall_operator.reporting.group_status import report
from tests.support.audit.independent_audit import events
from tests.support.kafka.broker import Message
from tests.support.landing.group import Scene
from tests.support.landing.processes import Pod, Processes
from tests.support.operator.cluster_model import World, group
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.xdist_group("drivers")

PASSWORD, IN_A_LINE, IN_ENV = "pl4nted-in-a-file", "pl4nted-in-a-line", "pl4nted-in-env"
WRONG_KEY, HASH_KEY = "pl4nted-wrong-s3-key", "pl4nted-key-of-a-hash"
PLANTED = "pl4nted"
"""The common part of all secrets, so that a part of one is found, too."""


@pytest.fixture
def secrets(tmp_path: Path, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of secrets as Kubernetes mounts them; the environment has only a wrong key."""
    keys = scene.bucket.server.env
    folder = tmp_path / "secrets"
    plant(
        folder / "kafka", {"properties": f"sasl.username=somebody\nssl.key.password={IN_A_LINE}\n"}
    )
    plant(folder / "kafka", {"sasl.password": PASSWORD})
    plant(folder / "mail-hash", {"key": HASH_KEY})
    for name, secret in (("s3", keys["AWS_SECRET_ACCESS_KEY"]), ("wrong", WRONG_KEY)):
        plant(
            folder / name,
            {"AWS_ACCESS_KEY_ID": keys["AWS_ACCESS_KEY_ID"], "AWS_SECRET_ACCESS_KEY": secret},
        )
    monkeypatch.setenv("LANDFALL_SECRETS", str(folder))
    monkeypatch.setenv("KAFKA_PASSWORD", IN_ENV)
    return folder


def plant(folder: Path, files: Mapping[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)


def document(scene: Scene, s3: str = "s3", **kafka: Any) -> dict[str, Any]:
    """A group with a secret of each kind; one is interpolated into a plain property."""
    ui = random.SystemRandom().choice(PORTS[:-20])
    found = scene.document(
        kafka={
            "propertiesSecretRef": {"name": "kafka"},
            "properties": {"sasl.oauthbearer.client.secret": "${KAFKA_PASSWORD}", **kafka},
        },
        badRecords={"maxRatio": "0.5"},
        transforms=[{"use": "Hash", "options": {"fields": ["p"], "secret": "mail-hash"}}],
        tuning={
            "sparkConf": {
                "spark.ui.enabled": "true",
                "spark.ui.port": str(ui),
                "spark.eventLog.enabled": "false",
            }
        },
    )
    found["spec"]["output"]["s3"]["credentialsSecretRef"] = {"name": s3}
    return found


def leaks(scene: Scene, pod: Pod, folder: Path) -> set[str]:
    """The places in which a planted or a real secret is found."""
    secrets = (PLANTED, pod.token, scene.bucket.server.env["AWS_SECRET_ACCESS_KEY"])
    return {
        where
        for where, text in everything(scene, pod, folder)
        if any(secret in text for secret in secrets)
    }


def everything(scene: Scene, pod: Pod, folder: Path) -> Iterator[tuple[str, str]]:
    """Everything that others may see, by place."""
    yield "log", pod.said
    yield "termination message", pod.termination.read_text()
    for process in pod.left():
        with suppress(psutil.Error):
            yield f"command line of {process.info['name']}", " ".join(process.cmdline())
    for key in scene.bucket.keys("_landfall/"):
        try:
            body = scene.bucket.read(key)
        except scene.bucket.server.client.exceptions.NoSuchKey:
            continue  # the driver has deleted it since it was listed
        yield key, body.decode("latin-1")
    for page in served(pod):
        yield page, fetched(page)
    for file in folder.rglob("*"):
        if file.is_file() and not {"secrets", "token"} & {*file.relative_to(folder).parts}:
            yield str(file), file.read_text("latin-1")


def fetched(url: str) -> str:
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
        return str(answer.read().decode())


def served(pod: Pod) -> Iterator[str]:
    """The URLs of the driver's pages and of Spark's UI."""
    if pod.popen.poll() is not None:
        return
    driver = pod._url("serving")
    yield from (
        f"{driver}{path}" for path in ("/", "/status", "/metrics", "/healthcheck", "/version")
    )
    ui = ui_of(pod)
    (application,) = json.loads(fetched(f"{ui}/api/v1/applications"))
    api = f"{ui}/api/v1/applications/{application['id']}"
    yield from (f"{ui}/{page}/" for page in ("environment", "jobs", "stages", "executors"))
    yield from (f"{api}/{page}" for page in ("environment", "jobs", "stages", "allexecutors"))


def ui_of(pod: Pod) -> str:
    """The address of Spark's UI: on the configured port, or on one of the sixteen after it."""
    group = json.loads((pod.termination.parent / "group.json").read_text())
    configured = int(group["spec"]["tuning"]["sparkConf"]["spark.ui.port"])
    listening = {
        c.laddr.port for c in pod.jvm().net_connections("tcp") if c.status == psutil.CONN_LISTEN
    }
    (port,) = listening & {*range(configured, configured + 17)}
    return f"http://127.0.0.1:{port}"


def test_a_driver_that_lands_leaks_no_secret(
    scene: Scene, secrets: Path, processes: Processes, tmp_path: Path
) -> None:
    topic = scene.topic()
    scene.kafka.produce(topic, [*events(range(200)), Message(b"no json"), Message(None)])
    pod = processes.pod(document(scene), "secretive")
    pod.until(
        lambda s: s["commits"]["total"] and not s["lag_records"] and not s["commits"]["unapplied"],
        "all landed",
    )
    scene.kafka.delete_topic(topic)  # from now on something fails
    assert pod.tell(EXECUTORS_PATH, wanted=2) == 202
    other = Pod(pod.popen, pod.log, pod.mark, pod.revision, "another token", pod.termination)
    assert other.tell(EXECUTORS_PATH, wanted=3) == 401

    assert scene.bucket.keys("_landfall/scene/dead-letters/")
    assert leaks(scene, pod, tmp_path) == set()

    pod.send(signal.SIGTERM)
    assert pod.end() == ExitCode.OK, pod.said
    assert leaks(scene, pod, tmp_path) == set()


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ({"s3": "wrong"}, ExitCode.STALLED),
        ({"s3": "absent"}, ExitCode.USAGE),
        ({"socket.timeout.ms": "${KAFKA_PASSWORD}"}, ExitCode.USAGE),
        ({"no.such.property": "${KAFKA_PASSWORD}"}, ExitCode.USAGE),
    ],
    ids=["wrong key", "no such secret", "wrong value", "unknown property"],
)
def test_a_driver_that_cannot_start_leaks_no_secret(
    scene: Scene,
    secrets: Path,
    processes: Processes,
    tmp_path: Path,
    spec: dict[str, str],
    code: ExitCode,
) -> None:
    scene.topic()

    pod = processes.pod(document(scene, **spec), "refused")

    assert pod.end() == code, pod.said
    assert pod.termination.read_text()
    assert leaks(scene, pod, tmp_path) == set()


SSN = "078-05-1120"


@pytest.mark.parametrize("policy", ["DeadLetter", "Fail"])
def test_a_driver_shows_no_value_of_a_bad_payload(
    scene: Scene, secrets: Path, processes: Processes, tmp_path: Path, policy: str
) -> None:
    is_landed = policy == "DeadLetter"
    topic = scene.topic()
    bad = [json.dumps({"ssn": f"{SSN} John Doe"}).encode(), SSN.encode()]
    scene.kafka.produce(topic, [*events(range(20)), *map(Message, bad)])
    careful = document(scene)
    careful["spec"]["badRecords"] = {"policy": policy}
    careful["spec"]["transforms"] = [{"use": "Cast", "options": {"ssn": "Int64"}}]
    pod = processes.pod(careful, "discreet")

    status = pod.until(
        lambda s: (
            scene.bucket.keys("_landfall/scene/dead-letters/")
            if is_landed
            else s["partitions"][0]["blocked"]
        ),
        "landed or blocked",
    )

    letters = scene.bucket.keys("_landfall/scene/dead-letters/")
    assert bool(letters) == is_landed
    shown = [*everything(scene, pod, tmp_path), *operated(status)]
    found = {where for where, text in shown if "078-05" in text or "John Doe" in text}
    assert found == set(letters)
    if not is_landed:
        assert "offset 20: transform: cast: ssn: expected Int64" in str(dict(operated(status)))


def operated(status: Any) -> Iterator[tuple[str, str]]:
    """The resource's status and the Events that the operator makes of a driver's status."""
    world = World(group("good"))
    world.run(timedelta(minutes=5))
    observed = world.observe()
    (driver,) = observed.drivers.values()
    said = replace(driver, report=ReceivedStatus(msgspec.convert(status, Status), observed.now))
    after = replace(observed, drivers={driver.revision: said})
    before, made = (report(each, desired_state(each)) for each in (observed, after))
    yield "resource", made.model_dump_json()
    yield "Events", str(list(condition_events(before, made)))


def test_a_leaked_secret_would_be_found(
    scene: Scene, secrets: Path, processes: Processes, tmp_path: Path
) -> None:
    """A user who writes a secret into ``sparkConf`` has it on the JVM's command line and in Spark's
    UI.
    """
    scene.kafka.produce(scene.topic(), events(range(10)))
    careless = document(scene)
    careless["spec"]["tuning"]["sparkConf"]["spark.careless"] = WRONG_KEY
    pod = processes.pod(careless, "careless")
    pod.until(lambda s: s["commits"]["total"], "something landed")

    assert "command line of java" in leaks(scene, pod, tmp_path)
    assert any("environment" in where for where in leaks(scene, pod, tmp_path))
