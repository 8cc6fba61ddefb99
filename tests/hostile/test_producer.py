"""A producer: whatever bytes it likes, in topics of every decoder, among records of others."""

import io
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest

from landfall.api.contract import ExitCode
from tests.fuzz import hostile
from tests.hostile.world import CONTROL_CHARACTERS, World
from tests.support.audit.independent_audit import data_keys, landed_lines
from tests.support.kafka.broker import Message
from tests.support.kafka.raw_batches import RawRecord, produce_raw
from tests.support.landing.group import Scene
from tests.support.landing.processes import Process, Processes

pytestmark = [pytest.mark.full, pytest.mark.timeout(900, func_only=True)]

PARTY = "Producer"
MEMORY = 2 << 30
"""The most that a driver with its workers and its JVM may have: five processes."""


def described(scene: Scene, formats: dict[str, str], **more: Any) -> dict[str, Any]:
    """A group with a decoder for each topic."""
    topics = [
        {"pattern": topic.replace(".", r"\."), "decode": hostile.spec(format_)}
        for topic, format_ in formats.items()
    ]
    spec = {"decode": {"format": "Json"}, "topics": topics, "badRecords": {"maxRatio": "1"}}
    return scene.document(**{**spec, "route": {"pattern": "all"}, **more})


def run(processes: Processes, document: dict[str, Any]) -> tuple[int, str, int]:
    """Land everything; returns exit code, what the driver said, and the most memory it had."""
    process = processes.run(document, "--until-caught-up", "--http-port", "0", "--verbose")
    most = 0
    while process.popen.poll() is None:
        most = max(most, memory(process))
        with suppress(TimeoutExpired):
            process.popen.wait(1)
    return process.popen.returncode, process.said, most


def memory(process: Process) -> int:
    """The memory of a driver with all that it started, in bytes; shared pages count once."""
    total = 0
    for each in process.left():
        with suppress(psutil.Error):
            total += each.memory_full_info().pss
    return total


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    made = Processes(tmp_path)
    yield made
    made.clear()


@pytest.fixture
def scene(world: World) -> Scene:
    return Scene(world.kafka, world.s3.create_bucket())


def sound_rows(scene: Scene) -> Counter[str]:
    """How often each sound record landed, by topic and content."""
    lines = landed_lines(scene.bucket)
    return Counter(
        f"{key.split('/')[0]} {found}"
        for key, line in lines
        if (found := json.loads(line).get("b", "")) and str(found).startswith("good-")
    )


@pytest.mark.parametrize("repeated", [30, 50_000], ids=["small", "large"])
def test_payloads_of_every_decoder(
    world: World, scene: Scene, processes: Processes, repeated: int
) -> None:
    formats, expected = {}, Counter[str]()
    hostile_payloads = 0
    for format_ in hostile.FORMATS:
        topic = scene.topic(format_.lower(), max_message_bytes=16_000_000)
        formats[topic] = format_
        of = hostile.profile(format_, repeated)
        payloads = [*of.hostile.values(), None, b""]
        mixed = [
            Message(payload, key=hostile.CONTROL.encode(), headers=[(hostile.CONTROL, b"\xff")])
            for number, payload in enumerate(payloads)
            for payload in (of.sound[number % len(of.sound)], payload)
        ]
        scene.kafka.produce(topic, mixed, message_max_bytes=16_000_000)
        hostile_payloads += len(payloads)
        for number in range(len(payloads)):
            expected[f"{topic} good-{number % len(of.sound)}"] += 1

    with world.attack(
        PARTY,
        f"payloads of every decoder, {repeated:,} levels deep",
        f"{hostile_payloads} payloads for {len(formats)} decoders: nesting, sizes that no byte"
        " follows, counts without bytes, control characters, invalid text",
    ) as attack:
        code, said, most = run(processes, described(scene, formats))
        assert code == ExitCode.OK, said[-4000:]
        assert sound_rows(scene) == expected
        assert most < MEMORY, f"{most >> 20} MiB"
        attack.saw("each is a record or a dead letter; all sound records of the same topics land")
        attack.check(not CONTROL_CHARACTERS & set(said), "control characters in the log")
        attack.check("unexpected" not in said, "an error of the driver that is no bad record")


HEADERS = [
    RawRecord(b'{"a": 1, "b": "good-0"}', timestamp=1_767_225_600_000),
    RawRecord(b'{"a": 1}', b"k" * 1_000_000, headers=[(b"", b"")] * 100_000),
    RawRecord(b'{"a": 2}', headers=[(b"\xff\xfe", b"x"), (b"a\x00\x1b[2J", None)]),
    RawRecord(b'{"a": 3}', timestamp=2**62),
    RawRecord(b'{"a": 4}', timestamp=-(2**62)),
    RawRecord(b'{"a": 5, "b": "good-1"}', timestamp=1_767_225_600_000),
    RawRecord(b'{"a": 6}', headers=[(b"h" * 1_000_000, b"v" * 1_000_000)]),
    RawRecord(None, None, headers=[(b"\xc3\x28", b"")]),
    RawRecord(b'{"a": 7, "b": "good-2"}', timestamp=1_767_225_600_000),
]


def dead_letter_reasons(scene: Scene) -> list[str]:
    """Why records are dead letters."""
    keys = [key for key in scene.bucket.keys("_landfall/") if "/dead-letters/" in key]
    tables = [pq.read_table(io.BytesIO(scene.bucket.read(key))) for key in keys]
    return [reason for table in tables for reason in table["error"].to_pylist()]


def test_headers_keys_and_times(world: World, scene: Scene, processes: Processes) -> None:
    far = str(2**63 - 1)
    topic = scene.topic(
        "json",
        max_message_bytes=16_000_000,
        message_timestamp_before_max_ms=far,
        message_timestamp_after_max_ms=far,
    )
    produce_raw(world.kafka, topic, HEADERS)

    with world.attack(
        PARTY,
        "headers, keys and times",
        "100,000 headers, names of a megabyte and of no text, a key of a megabyte, any time",
    ) as attack:
        document = described(scene, {topic: "Json"}, route={"pattern": "dt={date}"})
        code, said, _ = run(processes, document)
        assert code == ExitCode.OK, said[-4000:]
        assert sound_rows(scene) == {f"{topic} good-{n}": 1 for n in range(3)}
        reasons = dead_letter_reasons(scene)
        for time in (2**62, -(2**62)):
            is_kept = any(f"Kafka timestamp {time} is left out" in reason for reason in reasons)
            attack.check(is_kept, f"dead letters without the time {time}: {reasons}")
        attack.saw("records without a valid time are dead letters, the others land")
        attack.check(not CONTROL_CHARACTERS & set(said), "control characters in the log")


ROUTED = [
    "../../_landfall/x",
    "..",
    "%2e%2e/",
    "a/b",
    "\x00",
    "x" * 5_000,
    "_landfall",
    "\u202e",
    ".",
]


def test_values_that_are_routed(world: World, scene: Scene, processes: Processes) -> None:
    topic = scene.topic("json")
    payloads = [json.dumps({"a": n, "b": value}).encode() for n, value in enumerate(ROUTED)]
    world.kafka.produce(topic, [*payloads, b'{"a": 1, "b": "good-0"}'])

    with world.attack(
        PARTY, "values that name directories", "`../../_landfall`, `%2e%2e`, NUL, 5,000 characters"
    ) as attack:
        document = described(scene, {topic: "Json"}, route={"pattern": "b={field:b}"})
        code, said, _ = run(processes, document)
        assert code == ExitCode.OK, said[-4000:]
        keys = data_keys(scene.bucket)
        outside = [key for key in keys if not key.startswith(f"{topic}/b=") or key.count("/") != 2]
        attack.check(not outside, f"keys outside of the topic's folder: {outside}")
        assert len(sound_rows(scene)) == 1
        attack.saw("one escaped directory below the topic's, or a dead letter")


BATCH = 128
"""Megabytes that each batch unpacks to; compressed, it has less than one."""


def test_batches_that_unpack_to_much(world: World, scene: Scene, processes: Processes) -> None:
    topics = {}
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        topic = scene.topic(codec, max_message_bytes=16_000_000)
        topics[topic] = "Json"
        world.kafka.produce(topic, [b'{"a": 1, "b": "good-0"}'])
        world.kafka.produce(
            topic,
            [bytes(1 << 20)] * BATCH,
            compression_type=codec,
            message_max_bytes=1_000_000_000,
            batch_size=1_000_000_000,
            linger_ms=2_000,
        )
        world.kafka.produce(topic, [b'{"a": 2, "b": "good-1"}'])

    with world.attack(
        PARTY,
        "compressed batches",
        f"batches of gzip, snappy, lz4 and zstd, each of which unpacks to {BATCH} MiB",
    ) as attack:
        code, said, most = run(processes, described(scene, topics))
        assert code == ExitCode.OK, said[-4000:]
        assert sound_rows(scene) == {f"{topic} good-{n}": 1 for topic in topics for n in range(2)}
        assert most < MEMORY, f"{most >> 20} MiB"
        attack.saw("the records before and after land, within 2 GiB for all processes")


ALIKE = [
    "caf\u00e9",
    "cafe\u0301",
    "paypal",
    "p\u0430yp\u0430l",
    "PAYPAL",
    "pay\u200bpal",
    "\ufeffpaypal",
    "lap\u202eyap",
    "\u2066paypal\u2069",
    "\uff0e\uff0e\uff0f",
    "\u2025",
    "paypal\u0000",
    "paypal ",
    "\U000e0070paypal",
]
"""Names that look like another one, become it by normalization, or turn text around."""


def test_names_that_look_alike(world: World, scene: Scene, processes: Processes) -> None:
    topic = scene.topic("json")
    payloads = [json.dumps({"a": n, "b": value}).encode() for n, value in enumerate(ALIKE)]
    world.kafka.produce(topic, [*payloads, b'{"a": 1, "b": "good-0"}'])

    with world.attack(
        PARTY,
        "names that look alike",
        "NFC and NFD, letters of other scripts, direction overrides, characters without width",
    ) as attack:
        document = described(scene, {topic: "Json"}, route={"pattern": "b={field:b}"})
        code, said, _ = run(processes, document)
        assert code == ExitCode.OK, said[-4000:]
        keys = data_keys(scene.bucket)
        folders = {key.split("/")[1] for key in keys}
        attack.check(all(map(str.isprintable, keys)), f"a key that is not printable: {keys}")
        attack.check(len(folders) == len(ALIKE) + 1, f"values that share a folder: {folders}")
        assert Counter(line["b"] for _, text in landed_lines(scene.bucket)
                       if (line := json.loads(text))) == Counter([*ALIKE, "good-0"])  # fmt: skip
        attack.saw("each is a folder of its own, in which what cannot be seen is escaped")
        attack.check(not CONTROL_CHARACTERS & set(said), "control characters in the log")
