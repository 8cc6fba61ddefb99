"""The auditor on a real S3 server: it names each of eight kinds of damage, and nothing else."""

import gzip
import io
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from landfall.api.contract import ExitCode
from landfall.cli import main
from landfall_audit import Unchecked
from tests.support.audit.independent_audit import data_keys, events
from tests.support.kafka.broker import Broker, Message
from tests.support.landing.group import Scene, land
from tests.support.stores.s3 import Bucket, S3Server

RECORDS = 1200
SPEC: dict[str, Any] = {
    "badRecords": {"maxRatio": "0.1"},
    "uploadPolicy": {"maxBytes": "150k", "maxAge": "1s"},
}


@dataclass(frozen=True)
class SoundGroup:
    """A group that landed in this format, with all its objects intact."""

    format: str
    scene: Scene
    topic: str
    objects: dict[str, bytes]


@pytest.fixture(scope="module", params=["Json", "Parquet"])
def sound(request: pytest.FixtureRequest, kafka: Broker, s3: S3Server) -> Iterator[SoundGroup]:
    """Two Kafka partitions, several COMMITs, dead letters and an aborted transaction."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in s3.env.items():
            patch.setenv(name, value)
        scene = Scene(kafka, s3.create_bucket())
        topic = scene.topic(partitions=2)
        kafka.produce(
            topic,
            [
                *events(range(800), 0),
                Message(b"\xff\n"),
                Message(None),
                *events(range(800, 1000), 1),
            ],
        )
        kafka.produce_transaction(topic, events(range(900)), commit=False)
        kafka.produce(topic, events(range(1000, 1200), 0))
        assert land(scene.group(output={"format": request.param}, **SPEC), None).code is ExitCode.OK
        yield SoundGroup(
            request.param,
            scene,
            topic,
            {key: scene.bucket.read(key) for key in scene.bucket.keys("")},
        )


@dataclass
class DamagedCopy:
    """A copy of a sound group's bucket, which a test damages."""

    sound: SoundGroup
    bucket: Bucket
    folder: Path
    lost: list[str] = field(default_factory=list)

    @property
    def key(self) -> str:
        """The key of an object with several rows and with other objects of its date before it."""
        mine = [key for key in data_keys(self.bucket) if "/1_0_" in key and "dt=2026-01-02" in key]
        assert len(mine) > 2, mine
        return mine[1]

    def edit(self, change: Callable[[list[Any]], list[Any]]) -> None:
        """Change the rows of an object."""
        body = self.bucket.read(self.key)
        if self.sound.format == "Json":
            rows = gzip.decompress(body).splitlines(keepends=True)
            self.bucket.write(self.key, gzip.compress(b"".join(change(rows))))
            return
        table = pq.read_table(io.BytesIO(body))
        out = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(change(table.to_pylist()), table.schema), out)
        self.bucket.write(self.key, out.getvalue())

    def audit(self, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
        scene = replace(self.sound.scene, bucket=self.bucket)
        file = scene.file(self.folder, output={"format": self.sound.format}, **SPEC)
        code = main(["audit", str(file), "--json"])
        return code, json.loads(capsys.readouterr().out)

    @property
    def rows(self) -> int:
        """The number of rows of the object that is damaged."""
        slots = (
            json.loads(self.bucket.read(key)) for key in self.bucket.keys("_landfall/scene/0/")
        )
        slices = [s for slot in slots if slot["type"] == "COMMIT" for s in slot["slices"]]
        return next(
            o["rows"] for s in slices for o in s["objects"] if o["upload"]["key"] == self.key
        )


@pytest.fixture
def copy(
    sound: SoundGroup, s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> DamagedCopy:
    for name, value in s3.env.items():
        monkeypatch.setenv(name, value)
    bucket = s3.create_bucket()
    for key, body in sound.objects.items():
        bucket.write(key, body)
    return DamagedCopy(sound, bucket, tmp_path)


NAMES = ("missing", "duplicate", "misplaced", "corrupted", "disordered", "foreign")


def wrong(report: dict[str, Any]) -> dict[str, int]:
    """Everything that the report finds wrong."""
    records = {name: report[name] for name in NAMES if report[name]}
    return records | Counter(fault["kind"] for fault in report["faults"])


def test_a_sound_group_has_no_findings(
    copy: DamagedCopy, capsys: pytest.CaptureFixture[str]
) -> None:
    code, report = copy.audit(capsys)

    assert (code, wrong(report), report["expected"], report["found"]) == (
        ExitCode.OK,
        {},
        RECORDS + 2,
        RECORDS + 2,
    )
    assert (report["unchecked"], report["waiting_commits"], report["objects"]) == (
        0,
        0,
        len(data_and_letters(copy)),
    )


def data_and_letters(copy: DamagedCopy) -> list[str]:
    return data_keys(copy.bucket) + copy.bucket.keys("_landfall/scene/dead-letters/")


def test_a_deleted_object_is_named_with_its_offsets(
    copy: DamagedCopy, capsys: pytest.CaptureFixture[str]
) -> None:
    key, rows = copy.key, copy.rows
    copy.bucket.server.client.delete_object(Bucket=copy.bucket.name, Key=key)

    code, report = copy.audit(capsys)

    assert (code, wrong(report)) == (ExitCode.FAULT, {"missing": rows, "lost object": 1})
    assert report["faults"][0]["what"] == key
    (ranges,) = (p["ranges"] for p in report["partitions"] if p["missing"])
    assert sum(end - start for start, end in ranges) == rows


def test_a_duplicate_row_is_named(copy: DamagedCopy, capsys: pytest.CaptureFixture[str]) -> None:
    copy.edit(lambda rows: [*rows[:4], rows[2], *rows[4:]])

    assert wrong(copy.audit(capsys)[1]) == {"duplicate": 1}


def test_a_truncated_object_is_named(copy: DamagedCopy, capsys: pytest.CaptureFixture[str]) -> None:
    body = copy.bucket.read(copy.key)
    copy.bucket.write(copy.key, body[: len(body) // 2])

    found = wrong(copy.audit(capsys)[1])

    assert found["damaged object"] == 1
    assert 0 < found["missing"] <= copy.rows
    assert found.keys() == {"damaged object", "missing"}


def test_two_swapped_rows_are_named(copy: DamagedCopy, capsys: pytest.CaptureFixture[str]) -> None:
    copy.edit(lambda rows: [*rows[:3], rows[4], rows[3], *rows[5:]])

    assert wrong(copy.audit(capsys)[1]) == {"disordered": 1}


def test_an_object_under_a_wrong_date_is_named(
    copy: DamagedCopy, capsys: pytest.CaptureFixture[str]
) -> None:
    key, rows = copy.key, copy.rows
    copy.bucket.write(key.replace("dt=2026-01-02", "dt=2026-01-03-"), copy.bucket.read(key))
    copy.bucket.server.client.delete_object(Bucket=copy.bucket.name, Key=key)

    code, report = copy.audit(capsys)

    assert (code, wrong(report)) == (ExitCode.FAULT, {"misplaced": rows, "moved object": 1})
    assert report["faults"][0]["what"] == key


def test_an_extra_object_of_an_abandoned_attempt_is_named(
    copy: DamagedCopy, capsys: pytest.CaptureFixture[str]
) -> None:
    extra = copy.key.replace("1_0_", "1_1_")
    copy.bucket.write(extra, copy.bucket.read(copy.key))

    code, report = copy.audit(capsys)

    assert (code, wrong(report)) == (ExitCode.FAULT, {"extra object": 1})
    assert report["faults"][0]["what"] == extra


def test_an_edited_payload_is_named(copy: DamagedCopy, capsys: pytest.CaptureFixture[str]) -> None:
    def edited(row: Any) -> Any:
        return row.replace(b'"id"', b'"ID"') if isinstance(row, bytes) else {**row, "value": b"{}"}

    copy.edit(lambda rows: [*rows[:3], edited(rows[3]), *rows[4:]])

    assert wrong(copy.audit(capsys)[1]) == {"corrupted": 1}


def test_a_forged_slot_is_named_by_fsck_and_by_audit(
    copy: DamagedCopy, capsys: pytest.CaptureFixture[str]
) -> None:
    """A COMMIT that leaves out an object and declares its records invisible."""
    slots = copy.bucket.keys("_landfall/scene/0/")
    forged = next(key for key in slots if json.loads(copy.bucket.read(key))["type"] == "COMMIT")
    record = json.loads(copy.bucket.read(forged))
    landed = record["slices"][0]
    gone = landed["objects"].pop()
    landed["landed"] -= gone["rows"]
    landed["invisible"] += gone["rows"]
    copy.bucket.write(forged, json.dumps(record).encode())

    code, report = copy.audit(capsys)

    assert (code, wrong(report)["broken ledger"]) == (ExitCode.FAULT, 1)
    number = slots.index(forged) + 1
    assert report["faults"][0]["what"] == f"slot {number}"
    assert main(["fsck", str(copy.folder / "group.yaml")]) == ExitCode.FAULT
    assert f"slot {number}: expected hash" in capsys.readouterr().out


def test_what_kafka_no_longer_holds_is_unchecked_and_not_counted_as_good(scene: Scene) -> None:
    topic = scene.topic()
    scene.kafka.produce(topic, events(range(500)))
    assert land(scene.group(), None).code is ExitCode.OK
    scene.kafka.expire_before(topic, 0, 100)

    findings = scene.audited()

    (result,) = findings.results.values()
    assert findings.is_whole
    assert (result.expected, result.unchecked) == (0, {Unchecked.GONE: 500})
