"""Looks at landed rows and their tail, while a producer produces and a driver lands."""

import re
import shlex
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

import landfall
from landfall.api.contract import ExitCode
from landfall.api.spec import parse_group
from landfall.cli import main
from landfall.errors import Stalled
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.reading import Scan
from tests.integration.test_hadoop_reads import spark  # noqa: F401  # a fixture
from tests.support.audit.independent_audit import events
from tests.support.landing.group import Scene, land, landing

pytestmark = pytest.mark.xdist_group("spark")

LOOKS = 50
PAGE = Path(__file__).parents[2] / "docs/guides/reading.md"
EXAMPLE = re.compile(r"^```python\n(?P<code>[^`]*tail=True.*?)^```$", re.MULTILINE | re.DOTALL)
QUERY = re.compile(r"^landfall (?P<arguments>sql .*--tail .*)$", re.MULTILINE)
SPEC = {
    "output": {"format": "Parquet"},  # the envelope of each record, with its offset
    "decode": {"format": "Raw"},
    "route": {"pattern": "all"},
    "uploadPolicy": {"maxBytes": "1M", "maxAge": "500ms"},
}


@contextmanager
def producing(scene: Scene, topic: str) -> Iterator[None]:
    """Produce to both Kafka partitions until the block ends."""
    is_over = threading.Event()

    def produce() -> None:
        first = 0
        while not is_over.wait(0.05):
            numbers = range(first, first + 5)
            scene.kafka.produce(topic, [*events(numbers, 0), *events(numbers, 1)])
            first += 5

    thread = threading.Thread(target=produce, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def offsets(scan: Scan) -> dict[int, list[int]]:
    """The offsets of all rows, by Kafka partition."""
    found: dict[int, list[int]] = {0: [], 1: []}
    for row in scan.to_arrow().select(["partition", "offset"]).to_pylist():
        found[row["partition"]].append(row["offset"])
    return {partition: sorted(of_partition) for partition, of_partition in found.items()}


def test_each_look_has_every_record_below_the_ends_once(scene: Scene, tmp_path: Path) -> None:
    topic = scene.topic(partitions=2)
    scene.kafka.produce(topic, [*events(range(50), 0), *events(range(50), 1)])
    group = landfall.open(scene.file(tmp_path, **SPEC))
    slots, halves = set[int](), set[tuple[bool, bool]]()

    with landing(scene.group(**SPEC), None), producing(scene, topic):
        for _ in range(LOOKS):
            scan = group.scan(topic, tail=True)
            assert scan.tail is not None
            expected = {tp.partition: [*range(end)] for tp, end in scan.tail.plan.ends.items()}
            assert offsets(scan) == expected
            slots.add(scan.slot)
            halves.add((scan.rows > 0, scan.tail.counts().rows > 0))

    assert len(slots) > 2
    assert (True, True) in halves


def test_what_is_not_stable_is_in_no_look(scene: Scene, tmp_path: Path) -> None:
    topic = scene.topic()
    scene.kafka.produce(topic, events(range(10)))
    scene.kafka.produce_transaction(topic, events(range(100, 110)), commit=False)
    assert land(scene.group(), None).error is None
    scene.kafka.produce_transaction(topic, events(range(10, 20)), commit=True)
    scene.kafka.produce_transaction(topic, events(range(100, 110)), commit=False)
    transaction = scene.kafka.transaction()
    scene.kafka.send(transaction, topic, events(range(200, 210)))
    scene.kafka.flush(transaction)

    scan = landfall.open(scene.file(tmp_path)).scan(topic, tail=True)

    assert scan.tail is not None
    assert (scan.rows, scan.tail.counts().rows, scan.tail.counts().invisible) == (10, 10, 12)
    assert len(scan.to_arrow()) == 20
    transaction.abort_transaction()


def test_what_expires_before_it_is_read_fails_the_read(scene: Scene, tmp_path: Path) -> None:
    topic = scene.topic()
    scene.kafka.produce(topic, events(range(20)))
    scan = landfall.open(scene.file(tmp_path)).scan(topic, tail=True)
    assert scan.tail is not None
    assert scan.tail.plan.ranges == (Slice(TopicPartition(topic, 0), OffsetRange(0, 20)),)
    scene.kafka.expire_before(topic, 0, 5)

    with pytest.raises(Stalled, match="are not all there"):
        scan.to_arrow()


def test_the_examples_of_the_page_run(
    scene: Scene, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = scene.topic()
    scene.kafka.produce(topic, events(range(10)))
    assert land(scene.group(), None).error is None
    scene.kafka.produce(topic, events(range(10, 15)))
    scene.file(tmp_path)
    monkeypatch.chdir(tmp_path)
    example, query = (of.search(PAGE.read_text()) for of in (EXAMPLE, QUERY))
    assert example is not None
    assert query is not None

    exec(example["code"].replace('scan("clicks"', f'scan("{topic}"'), {})

    counted, rows = capfd.readouterr().out.splitlines()[-2:]
    assert "[10, 15)" in counted.replace("start=10, end=15", "[10, 15)")
    assert sorted(eval(rows)) == [("landed", 10), ("tail", 5)]

    words = shlex.split(query["arguments"].replace("FROM clicks", f'FROM "{topic}"'))
    assert main(words) == ExitCode.OK
    shown = [line.split() for line in capfd.readouterr().out.splitlines()]
    assert sorted(shown) == [["_landfall_source", "count_star()"], ["landed", "10"], ["tail", "5"]]


def test_spark_reads_both_halves(scene: Scene, tmp_path: Path, spark: SparkSession) -> None:  # noqa: F811
    topic = scene.topic(partitions=2)
    scene.kafka.produce(topic, [*events(range(30), 0), *events(range(30), 1)])
    document = scene.document(**SPEC)
    document["spec"]["output"] = {"url": f"file://{tmp_path}/landed", "format": "Parquet"}
    path = tmp_path / "group.yaml"
    path.write_text(yaml.safe_dump(document))
    assert land(parse_group(document), None).error is None
    scene.kafka.produce(topic, events(range(30, 50), 1))

    rows = spark.read.format("landfall").option("tail", "true").load(str(path))
    scene.kafka.produce(topic, events(range(50, 60), 1))
    found = rows.select("_landfall_source", "partition", "offset").collect()

    expected = [("landed", p, offset) for p in (0, 1) for offset in range(30)]
    expected += [("tail", 1, offset) for offset in range(30, 50)]
    assert sorted(map(tuple, found)) == expected
