"""Several types of events under one subject: a union of references, from a real registry."""

import gzip
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest

import landfall
from landfall.api.contract import ExitCode
from landfall.cli import main
from landfall.schemas.cached import registry_at
from landfall_audit import Unchecked
from tests.support.audit.independent_audit import data_keys
from tests.support.kafka.broker import Broker, Message
from tests.support.kafka.registry import Registry, framed
from tests.support.landing.group import Scene, land
from tests.support.payloads.avro import Declared, encoded
from tests.support.stores.s3 import S3Server

DAY = 86_400_000
CREATED: Declared = {
    "type": "record",
    "name": "Created",
    "namespace": "ev",
    "fields": [{"name": "at", "type": "long"}, {"name": "who", "type": "string"}],
}
DELETED: Declared = {
    "type": "record",
    "name": "Deleted",
    "namespace": "ev",
    "fields": [{"name": "id", "type": "long"}, {"name": "at", "type": "long"}],
}
EVENTS: list[tuple[str, dict[str, Any]]] = [
    ("ev.Created", {"at": n * DAY, "who": f"user {n}"})
    if n % 2
    else ("ev.Deleted", {"id": n, "at": n * DAY})
    for n in range(10)
]


@dataclass(frozen=True)
class Union:
    """A topic of events of both types, and the registry that knows them."""

    kafka: Broker
    s3: S3Server
    registry: Registry
    topic: str

    def scene(self) -> Scene:
        """An empty bucket for the topic."""
        return Scene(self.kafka, self.s3.create_bucket(), self.topic.partition(".")[0])

    def spec(self, route: str, **output: Any) -> dict[str, Any]:
        """A group of the topic."""
        return {
            "decode": {
                "format": "Avro",
                "registry": {"urls": [self.registry.url]},
                "timestamp": {"field": "at", "unit": "Milliseconds"},
            },
            "route": {"pattern": route},
            "output": output,
        }


@pytest.fixture(scope="module")
def union(kafka: Broker, s3: S3Server, registry: Registry) -> Iterator[Union]:
    registry_at.cache_clear()
    subjects = {name: registry.subject() for name in ("ev.Created", "ev.Deleted")}
    registry.register(subjects["ev.Created"], CREATED)
    registry.register(subjects["ev.Deleted"], DELETED)
    of_both = registry.register(
        registry.subject(),
        list(subjects),
        references=[
            {"name": name, "subject": subject, "version": 1} for name, subject in subjects.items()
        ],
    )
    with pytest.MonkeyPatch.context() as patch:
        for name, value in s3.env.items():
            patch.setenv(name, value)
        scene = Scene(kafka, s3.create_bucket())
        topic = scene.topic("events")
        kafka.produce(
            topic,
            [Message(framed(of_both, encoded([CREATED, DELETED], event))) for event in EVENTS],
        )
        yield Union(kafka, s3, registry, topic)


def landed(union: Union, route: str, **output: Any) -> tuple[Scene, Mapping[str, Any]]:
    """What lands, exactly once as fsck and the auditor see it."""
    scene, spec = union.scene(), union.spec(route, **output)
    driver = land(scene.group(**spec), None)
    assert driver.code is ExitCode.OK
    assert driver.now.rates.landed_records == len(EVENTS)
    return scene, spec


def test_json_is_that_of_the_branch_and_each_type_has_folders(union: Union, tmp_path: Path) -> None:
    scene, spec = landed(union, "{schema:name}/dt={date}", format="Json")

    found = {
        key.split("/", 1)[1].rpartition("/")[0]: gzip.decompress(scene.bucket.read(key))
        for key in data_keys(scene.bucket)
    }
    assert found == {
        f"{name}/dt=1970-01-{n + 1:02}": json.dumps(event, separators=(",", ":")).encode() + b"\n"
        for n, (name, event) in enumerate(EVENTS)
    }
    audited = scene.audited(**spec)
    assert audited.is_whole
    (result,) = audited.results.values()
    assert (result.expected, set(result.unchecked)) == (len(EVENTS), {Unchecked.PLACE})
    group = landfall.open(scene.file(tmp_path, **spec))
    assert group.scan(union.topic).to_arrow().num_rows == len(EVENTS)


def test_try_shows_the_record_of_the_branch(
    union: Union, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = union.scene()
    file = scene.file(tmp_path, **union.spec("{schema:name}/dt={date}", format="Json"))

    asked = ["--topic", union.topic, "--limit", "2", "--offset", "0"]
    assert main(["try", str(file), *asked]) == ExitCode.OK

    shown = capsys.readouterr().out
    assert '{"id":0,"at":0}' in shown
    assert "/ev.Deleted/dt=1970-01-01/" in shown
    assert '{"at":86400000,"who":"user 1"}' in shown
    assert "/ev.Created/dt=1970-01-02/" in shown


def test_columns_of_the_schema_are_a_struct_of_both(union: Union) -> None:
    scene, _ = landed(union, "{schema:name}", format="Parquet", columns="FromSchema")

    rows = [
        (key.split("/")[1], row["value"])
        for key in data_keys(scene.bucket)
        for row in pq.read_table(io.BytesIO(scene.bucket.read(key))).to_pylist()
    ]
    nothing = {"Created": None, "Deleted": None}
    expected = [(name, nothing | {name.removeprefix("ev."): event}) for name, event in EVENTS]
    assert sorted(rows, key=str) == sorted(expected, key=str)


def test_avro_files_keep_the_union(union: Union) -> None:
    scene, spec = landed(union, "{schema:name}", format="Avro")

    rows = [
        (key.split("/")[1], row["_offset"], row["value"])
        for key in data_keys(scene.bucket)
        for row in fastavro.reader(io.BytesIO(scene.bucket.read(key)), return_record_name=True)
    ]
    expected = [(event[0], n, event) for n, event in enumerate(EVENTS)]
    assert sorted(rows, key=itemgetter(1)) == expected
    assert scene.findings(**spec) == []


def test_sequence_files_keep_the_payload(union: Union) -> None:
    scene, spec = landed(union, "{schema:name}/dt={date}", format="SequenceFile")

    assert len(data_keys(scene.bucket)) == len(EVENTS)
    assert scene.findings(**spec) == []
