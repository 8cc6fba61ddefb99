"""Bad code was deployed: its ranges are landed again, compared, and prepared to take its place."""

import json
import signal
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from landfall.api.backfill_report import OldAndNew, RowCounts, parse_report
from landfall.api.contract import ExitCode
from landfall.api.spec import ConsumerGroup
from landfall.cli import main
from landfall.cli.group_store import GroupStore
from landfall.cli.land.backfill_land import REPORT
from landfall.cli.objects.fsck import examine
from landfall.driver.backfill.landed_ledger import read_landed
from landfall.driver.backfill.side_lane import SidePlan, read_plan, side_group, side_root, side_spec
from landfall.driver.core.stored_specs import store_spec
from landfall.driver.replacing.promoting import Lanes, prepare_promotion
from landfall.lane import LaneWriter, OpenRequest
from landfall.lane.stores import open_stores
from landfall_audit.buckets import open_buckets
from landfall_audit.checks.inspection import inspect
from landfall_audit.kafka_log import ClusterLog
from tests.support.audit.audited_spec import for_auditor
from tests.support.kafka.broker import Message
from tests.support.landing.group import Scene, land
from tests.support.landing.processes import Processes
from tests.support.stores.copying import copied

pytestmark = pytest.mark.xdist_group("drivers")

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
ROWS, LATER = 300, 50


def decoder(field: str) -> dict[str, Any]:
    return {"format": "Json", "timestamp": {"field": field, "unit": "Milliseconds"}}


BAD: dict[str, Any] = {"decode": decoder("seen"), "generation": 1}
"""Takes the time at which an event was seen for that at which it happened."""
GOOD: dict[str, Any] = {"decode": decoder("ts"), "generation": 2}


def events(first: int, count: int) -> Iterator[Message]:
    """Events of two Kafka partitions, each seen a day after it happened; one is never seen."""
    for n in range(first, first + count):
        when = NOON + timedelta(seconds=n)
        event = {"id": n, "ts": ms(when)}
        if n != 7:
            event["seen"] = ms(when + timedelta(days=1))
        yield Message(json.dumps(event).encode(), partition=n % 2)


def ms(time: datetime) -> int:
    return int(time.timestamp() * 1000)


def is_whole(group: ConsumerGroup) -> bool:
    """Whether fsck and the auditor find nothing wrong with a group."""
    report = examine(GroupStore(group, open_stores(group.spec)), deep=True)
    log = ClusterLog(for_auditor(group))
    try:
        audited = inspect(for_auditor(group), open_buckets(for_auditor(group.spec)), log)
    finally:
        log.close()
    return report.has_objects and not report.findings and audited.is_whole


def check_difference(found: Any, topic: str) -> None:
    """Every row is another: it is in another folder now, and the one without a time is there."""
    data, letters = found["data"], found["dead_letters"]
    assert data["old"]["rows"] == data["only_old"] == ROWS - 1
    assert data["new"]["rows"] == data["only_new"] == ROWS
    assert (letters["old"]["rows"], letters["new"]["rows"]) == (1, 0)
    assert [each["folder"] for each in found["folders"]] == [
        f"_landfall/scene/dead-letters/{topic}",
        f"{topic}/dt=2026-11-21",
        f"{topic}/dt=2026-11-22",
    ]


def check_report(group: ConsumerGroup) -> None:
    """The report in the side lane says what was landed, and how it differs."""
    body = open_stores(side_spec(group, "fix")).read(REPORT)
    found = parse_report(body or b"")
    assert found
    assert (found.phase, found.offsets, found.landed_offsets) == ("Compared", ROWS, ROWS)
    assert found.rows == RowCounts(old=ROWS - 1, new=ROWS, only_old=ROWS - 1, only_new=ROWS)
    assert found.dead_letters == OldAndNew(old=1, new=0)
    assert (found.differing, found.output_partitions) == (2, 2)


def check_promotion(scene: Scene, group: ConsumerGroup, plan: SidePlan) -> set[str]:
    """Prepare the promotion, and abort its uploads; returns the keys of what would retire."""
    side = side_group(group, plan)
    # The live lane must name the spec, by which readers read what takes the place.
    request = OpenRequest(uuid4().hex, 2, "test", spec=store_spec(scene.store(), group, "0"))
    LaneWriter.open(scene.lane(), request, lambda: datetime.now(UTC))
    lanes = Lanes(
        scene.store(),
        side_root(group, plan.name),
        read_landed(scene.lane()),
        read_landed(GroupStore(side, open_stores(side.spec)).lane),
    )
    planned = prepare_promotion(lanes, plan, "token", copied)
    assert sum(each.landed.rows for each in planned.listed.objects) == ROWS
    for new in planned.listed.objects:
        assert scene.store().stat(new.landed.upload.key) is None
        scene.store().abort(new.landed.upload.key, new.landed.upload.upload_id)
    return {each.landed.upload.key for each in planned.listed.retire}


def check_discarded(scene: Scene, group: ConsumerGroup) -> None:
    """Nothing is left of what was landed again, and the live group is as before."""
    root = side_root(group, "fix")
    left = [key for key in scene.bucket.keys(f"{root}/") if "/_landfall/" not in key]
    assert left == []
    assert scene.bucket.open_uploads() == []
    report = examine(GroupStore(group, scene.store()), deep=True)
    assert report.has_objects
    assert report.findings == []


def test_bad_code_is_landed_again_and_compared(
    scene: Scene, processes: Processes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = scene.topic(partitions=2)
    scene.kafka.produce(topic, events(0, ROWS))
    assert land(scene.group(**BAD), None).code is ExitCode.OK
    live = {*scene.bucket.keys(f"{topic}/")}
    file, group = scene.file(tmp_path, **GOOD), scene.group(**GOOD)

    def backfill(action: str, *options: str) -> int:
        capsys.readouterr()
        return main(["backfill", action, str(file), "fix", *options])

    assert backfill("plan", "--generations", "1") == ExitCode.OK
    killed = processes.backfill(scene.document(**GOOD), "fix", "KILL after create COMMIT")
    assert killed.end() == -signal.SIGKILL, killed.said
    # The live group goes on with good code, and aborts what no COMMIT of its own names.
    scene.kafka.produce(topic, events(ROWS, LATER))
    assert land(group, None).code is ExitCode.OK
    again = processes.backfill(scene.document(**GOOD), "fix", action="land")
    assert again.end() == ExitCode.OK, again.said
    check_report(group)

    plan = read_plan(open_stores(side_spec(group, "fix")), "fix")
    assert is_whole(side_group(group, plan))
    assert backfill("compare", "--json", "--sample", "1") == ExitCode.FAULT
    check_difference(json.loads(capsys.readouterr().out), topic)
    assert live < {*scene.bucket.keys(f"{topic}/")}  # nothing of it has changed
    retire = check_promotion(scene, group, plan)
    assert {key for key in retire if key.startswith(f"{topic}/")} == live
    assert backfill("discard") == ExitCode.OK
    check_discarded(scene, group)
