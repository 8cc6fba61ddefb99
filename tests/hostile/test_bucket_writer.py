"""Whoever may write to a group's bucket: its data is his, and nothing else."""

import gzip
import json
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import landfall
from landfall.api.contract import LANE, ExitCode
from landfall.api.spec.s3 import S3
from landfall.driver.core.stored_specs import store_spec
from landfall.errors import LandfallError
from landfall.lane import LaneWriter, OpenRequest
from landfall.ledger import digest, segments
from landfall.ledger.names.object_names import SegmentName, ledger_prefix, segment_key
from landfall.ledger.names.roots import LEDGER_MARK
from tests.hostile.evidence import Attack
from tests.hostile.world import CONTROL_CHARACTERS, World, peak_memory
from tests.support.audit.independent_audit import (
    EXACT,
    audit,
    data_keys,
    events,
    in_bucket,
    in_kafka,
)
from tests.support.kubernetes.live_group import NAME, LiveGroup
from tests.support.landing.group import Scene, _now
from tests.support.landing.processes import LANDFALL, Processes
from tests.support.stores.s3 import Bucket

pytestmark = [pytest.mark.full, pytest.mark.timeout(900, func_only=True)]

PARTY = "Bucket writer"
GADGET = "tests.hostile.gadget:Format"
STEP = "tests.hostile.gadget:step"
MEMORY = 800 << 20
"""The most that a command may have had when it read something that unpacks to a gigabyte."""


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    made = Processes(tmp_path)
    yield made
    made.clear()


@pytest.fixture
def target(world: World, processes: Processes) -> Scene:
    """A group that has landed once."""
    scene = Scene(world.kafka, world.s3.create_bucket())
    world.kafka.produce(scene.topic(), events(range(300)))
    land(scene, processes)
    return scene


def land(scene: Scene, processes: Processes) -> str:
    """Land what is there; returns what the driver said."""
    options = ("--until-caught-up", "--http-port", "0", "--verbose")
    process = processes.run(scene.document(), *options)
    assert process.end() == ExitCode.OK, process.said[-4000:]
    return process.said


def command(folder: Path, *arguments: str) -> tuple[int, str, int]:
    """Run ``landfall``; returns the exit code, what it said, and the most memory that it had."""
    log, most = folder / "command.log", 0
    with log.open("wb") as output:
        running = subprocess.Popen([LANDFALL, *arguments], stdout=output, stderr=output)
    while running.poll() is None:
        with suppress(OSError, ValueError):
            most = max(most, peak_memory(running.pid))
        time.sleep(0.1)
    return running.returncode, log.read_text(errors="replace"), most


def opened(scene: Scene) -> Any:
    """The group as a reader opens it by the URL, without its file."""
    return landfall.open(scene.bucket.url, s3=S3.model_validate(scene.bucket.output["s3"]))


def rows_again(attack: Attack, scene: Scene, processes: Processes, first: int) -> None:
    """The group lands on, and all its records are there exactly once."""
    (topic,) = scene.topics
    scene.kafka.produce(topic, events(range(first, first + 50)))
    said = land(scene, processes)
    assert audit(in_kafka(scene.kafka, topic), in_bucket(scene.bucket)) == EXACT
    attack.check(not CONTROL_CHARACTERS & set(said), "control characters in the log")


def test_a_stored_spec_and_an_open_that_name_code(
    world: World, target: Scene, processes: Processes
) -> None:
    tried = "a spec beside the ledger with `format` and `transforms` of its own, named by an OPEN"

    with world.attack(PARTY, "code in readers and drivers", tried) as attack:
        forged = target.group(
            output={"format": GADGET},
            transforms=[{"use": STEP}, {"use": "py4j.java_gateway:launch_gateway"}],
        )
        store, lane = target.store(), target.lane()
        spec = store_spec(store, forged, LANE)
        LaneWriter.open(
            lane,
            OpenRequest(uuid4().hex, forged.spec.generation, "forged", spec=spec),
            _now,
            state=lane.read(),
        )
        (topic,) = target.topics
        rows_again(attack, target, processes, 1_000)
        attack.saw("the next driver imports nothing, fences the forged owner, and lands on")
        read = opened(target).scan(topic).to_arrow().num_rows
        assert read == 350
        attack.saw("a reader imports nothing, and reads what is there")
        slots = rewrite(target.bucket, lambda body: named_by_opens(body, spec))
        attack.saw(f"then {slots} slots are rewritten, so that all objects were made by that spec")
        try:
            opened(target).scan(topic).to_arrow()
        except LandfallError as error:
            attack.check(GADGET in str(error), f"a refusal without the name: {error}")
            attack.saw("a reader refuses them, and names the format")
        else:
            attack.loot.append("a reader that reads by a format of the attacker")


def named_by_opens(body: dict[str, Any], spec: str) -> bool:
    """Let an OPEN name a spec; whether that changed it."""
    was_another = bool(body["type"] == "OPEN" and body["spec"] != spec)
    if was_another:
        body["spec"] = spec
    return was_another


def test_a_mark_that_sends_readers_elsewhere(
    world: World, target: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A reader whose credentials are in its environment may look anywhere; one that names those of
    # an object store looks in no folder anyway.
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", world.s3.endpoint)
    for key in target.bucket.keys("_landfall/"):
        copied = tmp_path / "uploads" / key
        copied.parent.mkdir(parents=True, exist_ok=True)
        copied.write_bytes(target.bucket.read(key))
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        elsewhere.settimeout(0.5)
        port = elsewhere.getsockname()[1]
        urls = [
            "file:///etc",
            f"file://{tmp_path}/uploads",
            f"hdfs://127.0.0.1:{port}/x",
            f"http://127.0.0.1:{port}/",
            "\x1b[2J",
        ]
        tried = (
            "`_landfall/ledger.json` that names `file:///etc`, a folder with a copy of the ledger,"
            " an HDFS, a web server, no URL"
        )

        with world.attack(PARTY, "where readers look for the ledger", tried) as attack:
            for url in urls:
                target.bucket.write(LEDGER_MARK, json.dumps({"url": url}).encode())
                try:
                    landfall.open(target.bucket.url)
                except LandfallError as error:
                    attack.check(str(error).isprintable(), f"an error with {str(error)!r}")
                    attack.check(
                        "mark may name" in str(error) or "names no" in str(error),
                        f"a reader that looks there: {error}",
                    )
                else:
                    attack.loot.append(f"a reader that opens {url}")
            with suppress(TimeoutError):
                elsewhere.accept()
                attack.loot.append("a connection of the reader to a server of the attacker")
            attack.saw("readers refuse the mark, and connect to nobody")


def test_bombs_and_garbage(
    world: World, target: Scene, processes: Processes, tmp_path: Path
) -> None:
    bucket, prefix = target.bucket, ledger_prefix(NAME, LANE).removesuffix("/")
    bomb = gzip.compress(bytes(1 << 30), 9)
    # A segment ends with the size of its directory, which is read first.
    sealed = bomb + segments._MAGIC + struct.pack(">Q", len(bomb))
    segment = SegmentName(0, 1, 1, digest(sealed)[:16])
    garbage = {
        segment_key(NAME, LANE, segment): sealed,
        f"{prefix}-specs/{'0' * 64}.json": b"\x00" * 1_000_000,
        f"{prefix}-snapshots/00000000000000000001": bomb,
        f"{prefix}-head.json": b"[" * 1_000_000,
        f"_landfall/{NAME}/dead-letters/\x1b[2Jx": b"x",
        "_landfall/\u202e/0/x": b"x",
    }
    tried = (
        "a segment whose directory unpacks to a gigabyte, a snapshot that does, names with escape"
        " sequences"
    )

    with world.attack(PARTY, "bombs and garbage beside the ledger", tried) as attack:
        for key, body in garbage.items():
            try:
                bucket.write(key, body)
            except Exception as error:  # noqa: BLE001  # a store may refuse such a name
                attack.saw(f"the store refuses a name ({type(error).__name__})")
        code, said, most = command(tmp_path, "fsck", str(target.file(tmp_path)))
        assert most < MEMORY, f"{most >> 20} MiB: {said[-2000:]}"
        assert "Traceback" not in said, said[-3000:]
        attack.saw(f"fsck ends with {code}, within 800 MiB")
        process = processes.run(target.document(), "--until-caught-up", "--http-port", "0")
        assert process.end() in {ExitCode.OK, ExitCode.STALLED, ExitCode.FAULT}, process.said[
            -3000:
        ]
        attack.check(not CONTROL_CHARACTERS & set(process.said), "control characters in the log")
        assert audit(in_kafka(world.kafka, *target.topics), in_bucket(target.bucket)) == EXACT
        attack.saw("the group lands on, or stops with a reason; what it landed is whole")


READER_MEMORY = 1800 << 20
"""The most that a command may have had when it read an object that unpacks to two gigabytes."""


def test_objects_that_unpack_to_gigabytes(world: World, target: Scene, tmp_path: Path) -> None:
    (key, *_) = data_keys(target.bucket)
    target.bucket.write(key, gzip.compress(bytes(256 << 20)) * 8)
    file = str(target.file(tmp_path))
    tried = "an object that was landed, replaced by two megabytes that unpack to two gigabytes"

    with world.attack(PARTY, "objects that unpack to gigabytes", tried) as attack:
        for words in (("fsck", file), ("cat", file, key), ("scan", file)):
            code, said, most = command(tmp_path, *words)
            assert most < READER_MEMORY, f"{words[0]}: {most >> 20} MiB: {said[-2000:]}"
            assert "Traceback" not in said, said[-3000:]
            attack.check(code, f"{words[0]} that finds nothing")
            attack.saw(f"{words[0]} ends with {code}, within {READER_MEMORY >> 20} MiB")


def rewrite(bucket: Bucket, change: Callable[[dict[str, Any]], bool]) -> int:
    """Change slots, and all hashes after them; returns how many more slots were rewritten."""
    prefix, tip, rewritten = ledger_prefix(NAME, LANE), "", 0
    for key in bucket.keys(prefix):
        stored = bucket.read(key)
        body = json.loads(stored)
        if change(body) and not rewritten:
            rewritten = 1
        if rewritten:
            body["header"]["prev"] = tip
            stored = json.dumps(body).encode()
            bucket.write(key, stored)
            rewritten += 1
        tip = digest(stored)
    return rewritten - 1


def commits_of_2020(body: dict[str, Any]) -> bool:
    """Date a COMMIT back; whether it is one."""
    is_commit = bool(body["type"] == "COMMIT")
    if is_commit:
        body["header"]["time"] = "2020-01-01T00:00:00+00:00"
    return is_commit


def test_a_history_that_is_rewritten(world: World, tmp_path: Path) -> None:
    tenant = world.make_tenant()
    scene = Scene(world.kafka, world.s3.create_bucket())
    group = LiveGroup(world.cluster, tenant.namespace, scene)
    group.topic()
    group.apply()
    group.wait_until_landed()
    group.wait(lambda: (group.status().get("ledger") or {}).get("sha256"), "the anchor is kept")
    known = group.status()["ledger"]
    anchor = f"{known['epoch']}/{known['slot']}:{known['sha256']}"
    tried = "all COMMITs changed, and all hashes after them, while the driver was away"

    with world.attack(PARTY, "a history that is rewritten", tried) as attack:
        (driver,) = tenant.kubelet.running_drivers.values()
        driver.clear()  # for ten seconds: a driver that runs would write over what is rewritten
        slots = rewrite(scene.bucket, commits_of_2020)
        file = str(scene.file(tmp_path))
        without, _, _ = command(tmp_path, "fsck", file)
        code, said, _ = command(tmp_path, "fsck", file, "--anchor", anchor)
        attack.check(code == ExitCode.FAULT, f"fsck --anchor that ends with {code}: {said[-500:]}")
        attack.saw(f"{slots} slots are rewritten; fsck alone ends with {without}")
        attack.saw(f"`fsck --anchor` with the hash of `status.ledger` ends with {code}")
        message = group.wait_for_condition("Stalled", "True", "LedgerRewritten")
        attack.saw("the driver that starts refuses the ledger: `LedgerRewritten`")
        attack.check(message.isprintable(), "control characters in a condition")
    group.clear()
