"""Loads of BigQuery's tables, over its jobs in memory: each object once, whatever happens."""

import random
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from landfall.errors import DestinationAway, LandfallError, Reason, Retry, Stalled
from landfall.publish.bigquery import tables
from landfall.publish.bigquery.loads import KEPT_LOADS, LoadedObject, LoadLimits
from landfall.publish.bigquery.running import named_in
from landfall.publish.bigquery.staging import CopiedToBucket
from landfall.publish.choice import TableChoice
from landfall.store import file
from tests.support.publishers.bigquery import LateRequests, Warehoused, faults, spoil
from tests.support.publishers.catalogs import parquet_of
from tests.support.publishers.lake import CLICKS, ORDERS, Killed, killed_at, publish_at_once
from tests.unit.publish.bigquery.test_bigquery import MemoryBucket

TABLE = "lake.clicks"


@pytest.fixture
def made(tmp_path: Path) -> Warehoused:
    return Warehoused.at(tmp_path)


def test_one_job_loads_what_landed_since_the_last_one(made: Warehoused) -> None:
    made.landed.land(CLICKS).land(CLICKS).settle()
    made.publish()
    made.landed.land(CLICKS).settle()
    made.publish()

    loads = [job.load for job in made.warehouse.jobs.values() if job.load]
    assert [(len(each.uris), each.creates) for each in loads] == [(2, True), (1, False)]
    assert made.is_whole


def test_a_load_has_no_more_objects_and_bytes_than_it_may(made: Warehoused) -> None:
    made.limits = LoadLimits(2, 2**40)
    for _ in range(5):
        made.landed.land(CLICKS)
    made.landed.settle()

    made.publish()

    counts = [len(job.load.uris) for job in made.warehouse.jobs.values() if job.load]
    assert (max(counts), sum(counts)) == (2, 5)
    assert made.is_whole
    made.limits = LoadLimits(100, 1)
    made.landed.land(CLICKS).land(CLICKS).settle()
    made.publish()
    assert made.is_whole


def test_objects_of_another_schema_are_loaded_by_another_job(made: Warehoused) -> None:
    made.landed.land(CLICKS).land(CLICKS).land(CLICKS).settle()
    keys = made.landed.keys("clicks")
    tables = made.tables()
    kinds = {keys[0]: "a", keys[1]: "b", keys[2]: "a"}
    object.__setattr__(
        tables.settings, "kinds_of", lambda objects: [kinds[each.key] for each in objects]
    )

    made.landed.publisher(tables).publish(made.landed.follower())

    loads = [sorted(job.load.uris) for job in made.warehouse.jobs.values() if job.load]
    assert loads == [[f"gs://b/{keys[0]}", f"gs://b/{keys[2]}"], [f"gs://b/{keys[1]}"]]
    assert made.is_whole


def test_a_job_that_runs_is_waited_for_and_found_again_by_the_next_pass(made: Warehoused) -> None:
    made.landed.land(CLICKS).settle()
    made.warehouse.looks = 1_000

    with pytest.raises(
        Retry, match=r"table lake\.clicks: job landfall_lake_clicks_1_\w+ still runs"
    ):
        made.publish()

    made.warehouse.looks = 0
    for job in made.warehouse.jobs.values():
        job.looks = 0
    made.publish()
    assert len(made.warehouse.jobs) == 1
    assert made.is_whole


@pytest.mark.parametrize("reason", ["backendError", "quotaExceeded", "stopped"])
def test_a_failure_that_passes_is_tried_again_under_another_id_after_a_while(
    made: Warehoused, reason: str
) -> None:
    made.landed.land(CLICKS).settle()
    made.warehouse.failures = [(reason, "no luck"), (reason, "no luck")]

    for pause, jobs in ((0, 1), (30, 1), (61, 2), (61, 2)):
        made.clock.sleep(pause)
        with pytest.raises(Retry, match="no luck"):
            made.publish()
        assert len(made.warehouse.jobs) == jobs
    made.clock.sleep(60)

    made.publish()
    assert len(made.warehouse.jobs) == 3
    assert made.is_whole


def test_a_quota_says_what_it_counts(made: Warehoused) -> None:
    made.landed.land(CLICKS).settle()
    made.warehouse.failures = [("quotaExceeded", "no luck")]

    with pytest.raises(Retry, match=r"no luck; a table takes 1,500 loads a day, one for each sch"):
        made.publish()


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        (["_PARTITION_key"], "column _PARTITION_key has a name that BigQuery reserves"),
        (["userId", "userid"], "columns userId and userid are one name in BigQuery"),
    ],
)
def test_columns_that_no_table_can_have_are_refused_before_a_job(
    made: Warehoused, columns: list[str], problem: str
) -> None:
    good, sample = made.landed.sample.body, made.landed.sample
    sample.body = parquet_of(**dict.fromkeys(columns, pa.string()))
    made.landed.land(CLICKS).land(CLICKS)
    sample.body = good
    made.landed.land(CLICKS).settle()
    bad = made.landed.keys("clicks")[:2]

    with pytest.raises(Stalled, match=f"object {bad[0]}, {bad[1]}: {problem}; rename one"):
        made.publish()

    assert made.offsets() == [*range(20, 30)]
    assert [job.load is None for job in made.warehouse.jobs.values()] == [True, False]


def test_a_bad_object_is_named_and_holds_up_no_other(made: Warehoused) -> None:
    made.landed.land(CLICKS).land(CLICKS).land(CLICKS).land(ORDERS).settle()
    bad = made.landed.keys("clicks")[1]
    spoil(made.landed, bad)

    with pytest.raises(Stalled, match=f"table lake.clicks: object {bad}: invalid: Error while"):
        made.publish(workers=2)

    assert made.offsets("lake.orders") == [*range(10)]
    assert made.offsets(TABLE) == [*range(10), *range(20, 30)]
    jobs = len(made.warehouse.jobs)
    made.landed.land(CLICKS).settle()
    with pytest.raises(Stalled, match=bad):
        made.publish(workers=2)
    assert made.offsets(TABLE) == [*range(10), *range(20, 40)]
    assert len(made.warehouse.jobs) == jobs + 1, "the bad object is not tried at every pass"


def test_a_bad_object_is_found_by_the_name_of_its_copy(made: Warehoused) -> None:
    made.landed.sample.directory = "dt=2026-11-21/c=a%2Fb"
    made.landed.land(CLICKS).land(CLICKS).land(CLICKS).settle()
    bad = made.landed.keys("clicks")[1]
    bucket, tables = MemoryBucket(), made.tables()
    staging = CopiedToBucket(made.landed.store, bucket, keep=False)
    object.__setattr__(tables.runner, "staging", staging)

    def read(uri: str) -> bytes | None:
        return None if bad.rpartition("/")[2] in uri else bucket.held[uri.removeprefix("gs://b/")]

    made.warehouse.read = read
    with pytest.raises(Stalled, match=f"table lake.clicks: object {bad}: invalid: Error while"):
        made.landed.publisher(tables).publish(made.landed.follower())

    assert made.offsets(TABLE) == [*range(10), *range(20, 30)]


def test_an_object_whose_name_ends_as_the_name_of_a_bad_one_is_not_held() -> None:
    objects = [LoadedObject(1, f"{app}/clicks/1_0_0.parquet", 1, 1) for app in ("web", "myweb")]
    uris = [f"gs://b/root/{each.key}" for each in objects]

    for where in ("gs://", "/bigstore/"):
        message = f"Error while reading data. File: {where}b/root/myweb/clicks/1_0_0.parquet"
        assert named_in(message, objects, uris) == (objects[1].id,)


def test_a_bad_object_that_is_good_again_is_loaded(made: Warehoused) -> None:
    made.landed.land(CLICKS).land(CLICKS).settle()
    bad = made.landed.keys("clicks")[0]
    path = made.landed.root / "landed" / bad
    body = path.read_bytes()
    spoil(made.landed, bad)
    with pytest.raises(Stalled):
        made.publish()
    path.write_bytes(body)

    made.clock.time += timedelta(hours=1)
    made.publish()

    assert made.is_whole


def test_an_object_that_cannot_be_staged_is_held_and_its_load_given_up(made: Warehoused) -> None:
    made.landed.land(CLICKS).land(CLICKS).settle()
    bad = made.landed.keys("clicks")[0]
    tables = made.tables()
    in_place = tables.runner.staging

    def refusing(chain: str, objects: Iterable[LoadedObject]) -> list[str]:
        if any(each.key == bad for each in objects):
            raise Stalled(Reason.OBJECT_LOST, f"{bad}: 3 bytes with CRC-32 0")
        return in_place.stage(chain, objects)

    staging = SimpleNamespace(stage=refusing, uris=in_place.uris, release=lambda *_: None)
    object.__setattr__(tables.runner, "staging", staging)
    with pytest.raises(Stalled, match=f"{bad}: 3 bytes"):
        made.landed.publisher(tables).publish(made.landed.follower())

    assert made.offsets() == [*range(10, 20)]
    made.clock.time += timedelta(hours=1)
    made.publish()
    assert made.is_whole


def test_a_failure_that_names_no_object_holds_all_of_its_load(made: Warehoused) -> None:
    made.landed.land(CLICKS).land(CLICKS).settle()
    made.warehouse.failures = [("invalid", "Cannot add fields (field: x)")]

    with pytest.raises(Stalled, match=r"one of 2 objects clicks/.*Cannot add fields"):
        made.publish()

    made.clock.time += timedelta(hours=1)
    made.publish()
    assert made.is_whole


def test_a_table_that_is_dropped_while_a_load_runs_is_loaded_from_the_start(
    made: Warehoused,
) -> None:
    made.landed.land(CLICKS).settle()
    made.publish()
    made.landed.land(CLICKS).settle()

    def drop(call: str) -> None:
        if call.startswith("submitted"):
            made.warehouse.tables.pop(TABLE, None)
            made.warehouse.fault = lambda _: None

    made.warehouse.fault = drop
    with pytest.raises(Retry, match="notFound"):
        made.publish()
    made.clock.time += timedelta(minutes=2)

    made.publish()

    assert made.is_whole


def test_where_loads_begin_is_decided_once(made: Warehoused) -> None:
    made.landed.land(CLICKS).settle()
    made.start = made.landed.sample.state.seq
    made.publish()
    made.landed.land(CLICKS).settle()
    made.start = -1

    made.publish()

    assert made.offsets() == [*range(10, 20)]


def test_where_loads_begin_is_not_decided_by_a_preview(made: Warehoused) -> None:
    made.landed.land(CLICKS).settle()
    made.start = made.landed.sample.state.seq
    publisher = made.landed.publisher(made.tables())
    assert [*publisher.preview(made.landed.follower())] == []
    made.start = -1

    assert [*made.landed.publisher(made.tables()).preview(made.landed.follower())] == [
        "table lake.clicks: append 1 objects, 10 rows, slots 3-3"
    ]
    made.publish()

    assert made.is_whole


def test_a_reset_gives_up_an_open_load_whose_request_is_late(made: Warehoused) -> None:
    made.landed.land(CLICKS).settle()
    late = LateRequests(made.warehouse, random.Random(1), share=1)
    tables = made.tables()
    object.__setattr__(tables.runner, "warehouse", late)
    with pytest.raises(Retry):
        made.landed.publisher(tables).publish(made.landed.follower())

    made.landed.publisher(made.tables()).reset(made.landed.follower())
    made.clock.time += timedelta(minutes=2)
    made.publish()
    late.arrive()
    made.publish()

    assert made.is_whole


def test_a_load_that_may_be_forgotten_waits_for_somebody(made: Warehoused) -> None:
    made.landed.land(CLICKS).settle()

    def away(call: str) -> None:
        if call.startswith("submit "):
            raise DestinationAway("no answer")

    made.warehouse.fault = away
    with pytest.raises(Retry):
        made.publish()
    made.warehouse.fault = lambda _: None
    made.clock.time += timedelta(days=150)

    with pytest.raises(Stalled, match=r"load 1 was begun at .*publish --rebuild"):
        made.publish()

    made.landed.publisher(made.tables()).reset(made.landed.follower())
    made.clock.time += timedelta(hours=1)
    made.publish()
    assert made.is_whole


def test_old_records_are_deleted_and_what_is_left_is_enough(
    made: Warehoused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("landfall.publish.bigquery.chain.KEPT_LOADS", 5)
    zombie = made.tables()
    made.landed.land(CLICKS).settle()
    zombie.through(TABLE)
    for _ in range(23):
        made.publish()
        made.landed.land(CLICKS).settle()

    records = [s.key for s in made.landed.store.list_after("_landfall/shop/0-published/lake/")]
    assert len(records) < 1 + 2 * 10 < 2 * 20
    made.landed.publisher(zombie).publish(made.landed.follower())
    assert made.is_whole
    assert KEPT_LOADS == 100


@pytest.mark.parametrize("seed", range(6))
def test_lost_answers_and_late_requests_cost_no_row(tmp_path: Path, seed: int) -> None:
    made, rng = Warehoused.at(tmp_path), random.Random(seed)
    late = LateRequests(made.warehouse, rng)
    for number in range(12):
        made.landed.land(*rng.choice([(CLICKS,), (CLICKS, ORDERS)])).settle()
        made.warehouse.fault = faults(rng, 0.2)
        made.warehouse.looks = rng.choice([0, 0, 3])
        if rng.random() < 0.2:
            made.warehouse.failures = [("backendError", "no luck")]
        tables = made.tables()
        object.__setattr__(tables.runner, "warehouse", late)
        with suppress(LandfallError):
            made.landed.publisher(tables).publish(made.landed.follower())
        if number == 6:
            with suppress(LandfallError):
                made.landed.publisher(tables).reset(made.landed.follower())
        made.clock.time += timedelta(minutes=10)
        late.arrive(rng.randrange(3))
        assert all(len({*rows}) == len(rows) for rows in made.warehouse.tables.values())
    made.warehouse.fault, made.warehouse.failures = (lambda _: None), []

    made.publish()
    late.arrive()
    made.publish()

    assert made.is_whole


def test_publishers_at_once_load_each_object_once(tmp_path: Path) -> None:
    made = Warehoused.at(tmp_path)

    for _ in range(10):
        made.landed.land(CLICKS, ORDERS).settle()
        publish_at_once(made.publish, 4)
        made.publish()
        assert made.is_whole


def test_a_publisher_that_is_killed_at_any_write_of_its_chain_leaves_nothing_out(
    made: Warehoused,
) -> None:
    number = 0
    while True:
        made.landed.land(CLICKS).settle()
        with killed_at(file.FileStore, ("create",), number) as calls, suppress(Killed):
            made.publish()
        made.publish()
        assert made.is_whole, f"killed at call {number}"
        if calls[0] <= number:
            break
        number += 1
    assert number >= 4


def test_a_table_that_is_far_ahead_of_a_bad_object_reports_it_and_goes_on(
    made: Warehoused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "MAX_AHEAD", 2)
    made.landed.land(CLICKS).land(CLICKS).land(CLICKS).settle()
    bad = made.landed.keys("clicks")[0]
    path = made.landed.root / "landed" / bad
    body = path.read_bytes()
    spoil(made.landed, bad)
    with pytest.raises(Stalled, match=bad):
        made.publish()
    made.landed.land(CLICKS).land(CLICKS).settle()

    with pytest.raises(Stalled, match=bad):
        made.publish()
    assert made.offsets() == [*range(10, 30)]

    path.write_bytes(body)
    made.clock.time += timedelta(hours=1)
    made.publish()
    assert made.is_whole


def test_a_table_that_is_far_ahead_of_an_object_goes_on_once_it_is_skipped(
    made: Warehoused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "MAX_AHEAD", 2)
    made.landed.land(CLICKS).land(CLICKS).land(CLICKS).settle()
    bad = made.landed.keys("clicks")[0]
    spoil(made.landed, bad)
    with pytest.raises(Stalled, match=bad):
        made.publish()
    made.landed.land(CLICKS).land(CLICKS).settle()

    publisher = made.landed.publisher(made.tables())
    choice = TableChoice(skip=frozenset({bad}))
    replace(publisher, choice=choice).publish(made.landed.follower())

    assert made.offsets() == [*range(10, 50)]
