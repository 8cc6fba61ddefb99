"""Objects that end at ``output.rotate`` and tasks that end a slice early, on real servers.

Then one slice has several objects in an output partition, and the next begins where the task ended.
All commands that look for records must find them there.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from landfall.api.contract import ExitCode
from landfall.cli import main
from landfall.cli.group_store import GroupStore
from landfall.cli.objects.verify import examine
from landfall.driver.decide.batch_size import FIRST_SLICE_OBJECTS
from landfall.ledger import Commit, decode
from landfall.ledger.names import object_names
from tests.support.audit.independent_audit import events
from tests.support.landing.group import Scene, land

RECORDS, DAYS = 600, 2 * FIRST_SLICE_OBJECTS


def located(file: Path, topic: str, offset: int, capsys: pytest.CaptureFixture[str]) -> Any:
    capsys.readouterr()
    assert main(["locate", str(file), topic, "0", str(offset), "--json"]) is ExitCode.OK
    return json.loads(capsys.readouterr().out)


def test_rotated_objects_of_tasks_that_ended_early_are_found_by_all_commands(
    scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Parquet holds offsets, so that locate can name the one object and row.
    spec: dict[str, Any] = {"output": {"format": "Parquet", "rotate": {"maxRecords": 5}}}
    topic = scene.topic()
    file = scene.file(tmp_path, **spec)
    # First few dates, so that objects are full, then more dates than a first slice may write.
    produced = [*events(range(100), days=2), *events(range(100, RECORDS), days=DAYS)]
    scene.kafka.produce(topic, produced)

    assert land(scene.group(**spec), None).code is ExitCode.OK

    records = [decode(seq, body) for seq, body in scene.lane().bodies()]
    slices = [s for record in records if isinstance(record, Commit) for s in record.slices]
    names = [[object_names.parse_key(o.upload.key) for o in s.objects] for s in slices]
    assert len(slices) > 1, "no task ended early"
    assert any(len({name.output_partition for name in of}) < len(of) for of in names), "no rotation"
    assert max(o.rows for s in slices for o in s.objects) == 5
    assert main(["fsck", str(file), "--deep"]) is ExitCode.OK
    assert main(["audit", str(file)]) is ExitCode.OK
    assert main(["verify", str(file), "--kafka"]) is ExitCode.OK
    covered = examine(GroupStore.of(file)).total
    objects = sum(map(len, names))
    assert (covered.expected, covered.found, covered.objects) == (RECORDS, RECORDS, objects)
    ends = [offset for s in slices for offset in (s.piece.offsets.start, s.piece.offsets.end - 1)]
    for offset in {*ends, *range(0, RECORDS, 97)}:
        (found,) = located(file, topic, offset, capsys)["objects"]
        key = found["url"].removeprefix(f"{scene.bucket.url}/")
        holder = next(o for s in slices for o in s.objects if o.upload.key == key)
        assert holder.first_offset <= offset <= holder.last_offset
