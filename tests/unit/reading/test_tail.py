"""A scan with a tail: what is in it, what is not and why, and that its rows are those that land."""

import pickle
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml

from landfall import ledger
from landfall.api.contract import LANE
from landfall.api.spec import parse_group
from landfall.errors import Reason, Retry, Stalled
from landfall.ledger import Blocked
from landfall.ledger.offsets import OffsetRange, Slice
from landfall.reading import LandedGroup, tail
from landfall.reading.tail import KafkaSource
from landfall.source import Watermarks
from tests.support.driver.slice_landing import MIDNIGHT
from tests.support.ledger.landed_group import PARQUET, SEQUENCE_FILES
from tests.support.ledger.sample_ledger import GROUP
from tests.support.ledger.tailed import BAD, CLICKS, ROW, Tailed, records

FIRST, SECOND = CLICKS
DECLARED = {
    "format": "Json",
    "timestamp": {"field": "ts"},
    "columns": [{"name": "p", "type": "Int32"}, {"name": "o", "type": "Int64"}],
}
COLUMNS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"format": "Json"}, {}),
    ({"format": "Text"}, {}),
    (SEQUENCE_FILES, {}),
    (PARQUET, {}),
    (PARQUET, {"decode": DECLARED}),
    ({"format": "Orc"}, {"decode": DECLARED}),
]


def played(output: dict[str, Any] = PARQUET, rows: int = 10, **spec: Any) -> Tailed:
    """A group that has landed half of the rows of its first Kafka partition."""
    made = Tailed(output, spec)
    made.produce(FIRST, *[ROW] * rows)
    made.land(FIRST, rows // 2, complete=True)
    made.confirm(1)
    return made


def halves(scan: Any) -> dict[str, list[int]]:
    """The offsets of the first Kafka partition, by half."""
    found: dict[str, list[int]] = {"landed": [], "tail": []}
    for partition, offset, half in records(scan.to_arrow()):
        assert partition == 0
        found[half].append(offset)
    return {half: sorted(offsets) for half, offsets in found.items()}


@pytest.mark.parametrize(("output", "spec"), COLUMNS)
def test_rows_of_the_tail_are_those_that_land(output: dict[str, Any], spec: dict[str, Any]) -> None:
    group = played(output, rows=9, **spec)
    before = group.reader().scan("clicks", tail=True)
    was = before.to_arrow().drop_columns("_landfall_source")

    group.run(FIRST)
    now = group.reader().scan("clicks")

    assert before.tail is not None
    assert before.tail.counts().rows == 5
    assert was.schema.equals(now.schema)
    assert sorted(map(repr, was.to_pylist())) == sorted(map(repr, now.to_arrow().to_pylist()))


def test_a_group_that_has_landed_nothing_has_a_tail() -> None:
    group = Tailed(PARQUET)
    group.produce(FIRST, ROW, ROW)

    assert halves(group.reader().scan("clicks", tail=True)) == {"landed": [], "tail": [0, 1]}


def test_both_halves_are_chosen_by_output_partition_and_time() -> None:
    group = played()  # three hours, one after the other
    two = datetime.fromtimestamp(MIDNIGHT / 1000, UTC) + timedelta(hours=2)
    day = f"{two:%Y-%m-%d}"
    opened = group.reader()

    by_name = opened.scan("clicks", tail=True, output_partition=f"dt={day}/hr=01")
    by_value = opened.scan("clicks", tail=True, where={"hr": ["00", "01"]})
    by_time = opened.scan("clicks", tail=True, since=two)

    assert halves(by_name) == {"landed": [1, 4], "tail": [7]}
    assert halves(by_value) == {"landed": [0, 1, 3, 4], "tail": [6, 7, 9]}
    assert halves(by_time) == {"landed": [2], "tail": [5, 8]}


def test_after_a_slot_there_is_what_is_new_and_the_tail() -> None:
    group = played()
    slot = group.reader().slot
    group.land(FIRST, 2, complete=True)
    group.confirm(1)

    scan = group.reader().scan("clicks", tail=True, after=slot)

    assert halves(scan) == {"landed": [5, 6], "tail": [7, 8, 9]}


def test_columns_are_selected_and_duckdb_reads_them() -> None:
    group = played({"format": "Parquet"}, decode=DECLARED)
    scan = group.reader().scan("clicks", tail=True).select("o", "hr", "_landfall_source")
    connection = duckdb.connect()
    scan.to_duckdb(connection, "clicks")

    counted = "SELECT _landfall_source, count(*), max(o) FROM clicks GROUP BY ALL ORDER BY ALL"

    assert scan.to_arrow().column_names == ["o", "hr", "_landfall_source"]
    assert connection.sql(counted).fetchall() == [("landed", 5, 4), ("tail", 5, 9)]
    assert connection.sql("SELECT DISTINCT _landfall_source FROM clicks").fetchall()
    assert group.kafka.reads == 1


def test_a_large_tail_is_read_again_and_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "KEPT_BYTES", 0)
    monkeypatch.setattr(tail, "PART_BYTES", 1)
    group = played(rows=20)
    scan = group.reader().scan("clicks", tail=True)
    assert scan.tail is not None

    parts = [body.file.key for body in scan.tail.objects()]

    assert halves(scan)["tail"] == [*range(10, 20)]
    assert group.kafka.reads == 2  # here, and for the rows; not for the columns
    assert len({key.rpartition("_")[2] for key in parts}) > 1


def test_a_part_of_a_tail_is_read_in_another_process() -> None:
    group = played()
    scan = group.reader().scan("clicks", tail=True)
    assert scan.tail is not None
    parts = scan.tail.divided(2)
    parts[0].source = KafkaSource(group.landed.group)  # which is what is sent

    sent = pickle.loads(pickle.dumps(parts[0]))

    assert [part.plan.ranges[0].offsets for part in parts] == [*OffsetRange(5, 10).cut(2)]
    assert sent.plan == parts[0].plan
    sent.source = group.kafka
    assert sent.counts().rows == len(sent.plan)


def test_what_lands_while_kafka_is_asked_is_in_the_tail_alone() -> None:
    group = played()

    def lands() -> None:
        group.produce(FIRST, ROW)
        group.run(FIRST)

    group.kafka.log_.meanwhile = lands
    scan = group.reader().scan("clicks", tail=True)
    assert scan.tail is not None

    assert scan.tail.plan.ends[FIRST] == 13
    assert halves(scan) == {"landed": [*range(5)], "tail": [*range(5, 13)]}


def test_what_is_committed_and_not_visible_is_in_the_tail() -> None:
    group = played()
    group.land(FIRST, 2, complete=True)
    group.skip(FIRST, 1)
    group.produce(FIRST, BAD)

    scan = group.reader().scan("clicks", tail=True)

    assert halves(scan) == {"landed": [*range(5)], "tail": [5, 6, 8, 9]}
    assert scan.unconfirmed == 2
    assert scan.tail is not None
    assert scan.tail.counts().dead_lettered == 1


# ------------------------------------------------------------------------------------- what is not


def test_what_kafka_has_deleted_and_a_driver_would_skip_is_named() -> None:
    group = played(source={"kafka": {**KAFKA, "onDataLoss": "SkipAndRecord"}})
    group.kafka.log_.write("clicks", 10, 0, log_start=7)

    scan = group.reader().scan("clicks", tail=True)
    assert scan.tail is not None

    assert halves(scan)["tail"] == [7, 8, 9]
    assert scan.tail.plan.expired == (Slice(FIRST, OffsetRange(5, 7)),)


KAFKA = {"bootstrapServers": "kafka:1", "topicPattern": ".*"}


def test_what_a_driver_would_not_land_is_left_out_and_why_is_said() -> None:
    group = played()
    group.produce(SECOND, ROW)
    group.kafka.log_.partitions["clicks"] = [Watermarks(7, 10), Watermarks(0, 1)]
    block = Blocked(SECOND, Reason.BAD_RECORDS, "too many", OffsetRange(0, 1))
    group.landed.sample.append(lambda h: ledger.Block(header=h, entries=(block,)))

    scan = group.reader().scan("clicks", tail=True)
    assert scan.tail is not None
    left_out = scan.tail.plan.left_out

    assert halves(scan)["tail"] == []
    assert left_out[FIRST].reason is Reason.DATA_LOSS  # type: ignore[attr-defined]
    assert "[5, 7) expired before they were landed" in str(left_out[FIRST])
    assert (left_out[SECOND].reason, str(left_out[SECOND])) == (Reason.BAD_RECORDS, "too many")  # type: ignore[attr-defined]


def test_what_is_committed_and_in_no_half_is_tried_again() -> None:
    group = played()
    group.land(FIRST, 3, complete=True)
    group.kafka.log_.write("clicks", 10, 0, log_start=6)

    with pytest.raises(Retry, match=r"clicks/0\[5, 8\): it is committed and not visible yet"):
        group.reader().scan("clicks", tail=True)
    group.confirm(1)
    assert halves(group.reader().scan("clicks", tail=True))["tail"] == [8, 9]


def test_a_topic_that_was_created_again_needs_a_generation() -> None:
    group = played()
    group.kafka.log_.ids["clicks"] = "another"

    scan = group.reader().scan("clicks", tail=True)
    assert scan.tail is not None

    assert halves(scan) == {"landed": [*range(5)], "tail": []}
    assert "the topic was deleted and created again" in str(scan.tail.plan.left_out[FIRST])
    group.landed.open(generation=2)
    assert halves(group.reader().scan("clicks", tail=True))["tail"] == [*range(10)]


def test_a_generation_that_no_driver_runs_yet_has_the_tail_of_the_new_topic() -> None:
    group = played()
    group.kafka.log_.ids["clicks"] = "another"
    spec = group.landed.group.spec.model_copy(update={"generation": 2})
    group.landed.group = group.landed.group.model_copy(update={"spec": spec})

    scan = group.reader().scan("clicks", tail=True)

    assert halves(scan) == {"landed": [*range(5)], "tail": [*range(10)]}


def test_a_topic_that_is_gone_has_no_tail() -> None:
    group = played()
    del group.kafka.log_.partitions["clicks"]

    scan = group.reader().scan("clicks", tail=True)
    assert scan.tail is not None

    assert halves(scan) == {"landed": [*range(5)], "tail": []}
    assert {*scan.tail.plan.left_out} == {*CLICKS}


def test_a_topic_that_is_created_again_before_it_is_read_is_tried_again() -> None:
    group = played()
    scan = group.reader().scan("clicks", tail=True)
    group.kafka.log_.ids["clicks"] = "another"

    with pytest.raises(Retry, match="deleted or created again since the scan was made"):
        scan.to_arrow()


@pytest.mark.parametrize(
    ("starting", "expected"),
    [("Earliest", [0, 1, 2]), ("Latest", []), ({"offsets": {"orders": {"0": 2}}}, [2])],
)
def test_a_new_topic_begins_where_the_spec_lets_it(starting: Any, expected: list[int]) -> None:
    group = Tailed(PARQUET, {"source": {"kafka": {**KAFKA, "startingOffsets": starting}}})
    orders = type(FIRST)("orders", 0)
    group.kinds[orders] = []
    group.kafka.rows[orders] = []
    group.produce(orders, ROW, ROW, ROW)
    group.kafka.log_.write("orders", 3)

    assert halves(group.reader().scan("orders", tail=True))["tail"] == expected


# ---------------------------------------------------------------------------------------- refusals


def test_a_slot_and_a_tail_do_not_go_together() -> None:
    with pytest.raises(ValueError, match="slot=1: the tail continues at the ledger's last slot"):
        played().reader().scan("clicks", tail=True, slot=1)


def test_a_topic_that_the_group_does_not_land_is_refused() -> None:
    group = played(source={"kafka": {"bootstrapServers": "kafka:1", "topics": ["clicks"]}})

    with pytest.raises(ValueError, match="topic orders is not in the ledger"):
        group.reader().scan("orders", tail=True)


def test_a_group_that_was_opened_by_its_url_names_no_kafka() -> None:
    landed = played().landed
    output = landed.group.spec.output
    opened = LandedGroup(landed.store, output, (GROUP, LANE))

    with pytest.raises(Stalled, match=r"open the group's file, which has spec\.source\.kafka"):
        opened.scan("clicks", tail=True)


def test_a_group_that_lands_no_kafka_has_no_tail() -> None:
    landed = played().landed
    document = landed.group.model_dump(mode="json", by_alias=True, exclude_none=True)
    document["spec"]["source"] = {"files": [{"topic": "clicks", "url": "file:///tmp/none"}]}
    group = parse_group(document)
    opened = LandedGroup(landed.store, group.spec.output, (GROUP, LANE), group)

    with pytest.raises(Stalled, match=r"spec\.source: the group lands files, not topics of Kafka"):
        opened.scan("clicks", tail=True)


def test_a_column_with_the_name_of_the_added_one_is_refused() -> None:
    decode = {**DECLARED, "columns": [{"name": "_landfall_source", "type": "String"}]}
    group = played({"format": "Parquet"}, decode=decode)

    with pytest.raises(Stalled, match="it has a column _landfall_source"):
        group.reader().scan("clicks", tail=True).to_arrow()


def test_without_the_client_of_kafka_the_extra_is_named(tmp_path: Path) -> None:
    document = {
        "apiVersion": "landfall.dev/v1alpha1",
        "kind": "ConsumerGroup",
        "metadata": {"name": "shop"},
        "spec": {
            "source": {"kafka": KAFKA},
            "output": {"url": f"file://{tmp_path}/landed", "format": "Json"},
        },
    }
    path = tmp_path / "group.yaml"
    path.write_text(yaml.safe_dump(document))
    script = (
        "import sys; sys.modules['confluent_kafka'] = None\n"
        f"import landfall; landfall.open({str(path)!r}).scan('clicks', tail=True)"
    )

    shown = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )

    assert "pip install 'landfall-kafka[reader,tail]'" in shown.stderr
