import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from http.server import ThreadingHTTPServer

import pytest
from prometheus_client.parser import text_string_to_metric_families

from landfall.api.compaction_status import CompactionStatus, ReplacingStatus
from landfall.api.contract import VERSION, DriverPhase, Failure
from landfall.driver.core.planned_replacement import NoPlanner
from landfall.driver.core.store_monitor import Outage
from landfall.driver.http.metrics import OTHER, TOPICS
from landfall.driver.http.server import STUCK, PortUnavailable, StatusBoard, serve, serve_near
from landfall.driver.process.loop import Driver
from landfall.driver.replacing.replacements import Replacements
from landfall.errors import Retry
from landfall.ledger.offsets import TopicPartition
from landfall.native import hot_path
from landfall.store.memory import MemoryStore
from tests.support.driver.driver_status import report_of
from tests.support.driver.fakes import FakeLog, FakeRunner, driver, group


class Watch:
    """A clock that tests set."""

    now = datetime(2026, 11, 21, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def board(watch: Watch) -> StatusBoard:
    return StatusBoard(watch)


@contextmanager
def serving(board: StatusBoard) -> Iterator[ThreadingHTTPServer]:
    server = serve(board, "127.0.0.1", 0)
    yield server
    server.shutdown()


@pytest.fixture
def server(board: StatusBoard) -> Iterator[ThreadingHTTPServer]:
    with serving(board) as server:
        yield server


def test_a_port_in_use_is_a_sentence(server: ThreadingHTTPServer, board: StatusBoard) -> None:
    taken = server.server_port

    with pytest.raises(
        PortUnavailable, match=f"cannot listen on 127.0.0.1:{taken}: Address already in use"
    ):
        serve(board, "127.0.0.1", taken)


def test_a_second_driver_on_the_usual_port_takes_a_free_one(
    server: ThreadingHTTPServer, board: StatusBoard, caplog: pytest.LogCaptureFixture
) -> None:
    second = serve_near(board, "127.0.0.1", server.server_port)

    assert get(second, "/version")[0] == 200
    assert second.server_port != server.server_port
    assert caplog.messages == ["port taken: another one opened"]
    second.shutdown()


def get(server: ThreadingHTTPServer, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}{path}") as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def finished(log: FakeLog, **failures: list[Retry]) -> Driver:
    store = MemoryStore()
    runner = FakeRunner(
        store, failures={TopicPartition(name, 0): errors for name, errors in failures.items()}
    )
    one = driver(group(), store, log, runner)
    one.run()
    return one


def posted(board: StatusBoard, one: Driver) -> None:
    board.post(report_of(one), one.counters)


def test_before_the_first_pass_there_is_no_status(server: ThreadingHTTPServer) -> None:
    assert get(server, "/status") == (503, '{"phase":"Starting"}')
    assert get(server, "/healthcheck")[0] == 200


def test_an_unknown_lag_is_no_metric(server: ThreadingHTTPServer, board: StatusBoard) -> None:
    posted(board, driver(group(), MemoryStore(), FakeLog(), FakeRunner(MemoryStore())))

    metrics = get(server, "/metrics")[1]

    assert "landfall_rounds{" in metrics
    assert "landfall_lag" not in metrics
    assert "landfall_overdue" not in metrics


def test_all_metrics_of_a_driver_have_names_that_prometheus_keeps(
    server: ThreadingHTTPServer, board: StatusBoard
) -> None:
    posted(board, finished(FakeLog().write("a", 10)))

    families = list(text_string_to_metric_families(get(server, "/metrics")[1]))

    assert families
    assert [f.name for f in families if not f.name.startswith("landfall_")] == []


def test_status_says_which_version_of_the_contract_it_follows(
    server: ThreadingHTTPServer, board: StatusBoard
) -> None:
    posted(board, finished(FakeLog()))

    assert json.loads(get(server, "/status")[1])["contract"] == VERSION


def test_status_shows_what_is_landed(server: ThreadingHTTPServer, board: StatusBoard) -> None:
    posted(board, finished(FakeLog().write("a", 10).write("b", 4)))

    code, body = get(server, "/status")
    status = json.loads(body)

    assert code == 200
    assert (status["group"], status["phase"], status["lag_records"], status["caught_up"]) == (
        "fake",
        "Stopped",
        0,
        True,
    )
    assert status["commits"]["total"] >= 1
    assert [(p["topic"], p["checkpoint"], p["end_offset"]) for p in status["partitions"]] == [
        ("a", 10, 10),
        ("b", 4, 4),
    ]


def test_a_summary_lists_the_worst_topic_partitions_and_sums_all(
    server: ThreadingHTTPServer, board: StatusBoard
) -> None:
    log = FakeLog()
    for number in range(12):
        log.write(f"topic-{number:02}", 10)
    posted(board, finished(log))

    code, body = get(server, "/status?summary=true")
    status = json.loads(body)

    assert code == 200
    assert (len(status["partitions"]), status["totals"]["count"]) == (5, 12)
    for query in ("", "?summary=false", "?other=true"):
        assert len(json.loads(get(server, f"/status{query}")[1])["partitions"]) == 12


def test_a_failure_is_shown_with_its_reason(
    server: ThreadingHTTPServer, board: StatusBoard
) -> None:
    posted(board, finished(FakeLog().write("a", 10), a=[Retry("broker away")]))

    status = json.loads(get(server, "/status")[1])

    assert status["commits"]["failures"] == 1
    assert status["commits"]["last_failure"]["message"] == "broker away"
    assert status["commits"]["consecutive_failures"] == 0


def test_a_loop_that_makes_no_pass_is_not_healthy(
    server: ThreadingHTTPServer, board: StatusBoard, watch: Watch
) -> None:
    posted(board, driver(group(), MemoryStore(), FakeLog(), FakeRunner(MemoryStore())))
    watch.now += STUCK + timedelta(seconds=1)

    assert get(server, "/healthcheck")[0] == 503


def test_waiting_for_the_store_is_healthy_and_says_so(
    server: ThreadingHTTPServer, board: StatusBoard, watch: Watch
) -> None:
    board.waiting_for = "store: throttled"
    watch.now += STUCK + timedelta(seconds=1)

    code, body = get(server, "/healthcheck")

    assert (code, json.loads(body)["waiting_for"]) == (200, "store: throttled")


def test_an_outage_is_shown_however_long_the_loop_waits_for_the_store(watch: Watch) -> None:
    known: list[Outage] = []
    board = StatusBoard(watch, lambda: known[0] if known else None)
    posted(board, driver(group(), MemoryStore(), FakeLog(), FakeRunner(MemoryStore())))
    watch.now += STUCK + timedelta(seconds=1)
    known.append(Outage(3, Failure("then", "StoreUnavailable", "no answer")))

    with serving(board) as server:
        status, health, values = (
            json.loads(get(server, "/status")[1]),
            get(server, "/healthcheck"),
            metrics(server),
        )
        known.clear()
        back = json.loads(get(server, "/status")[1])

    assert status["commits"]["last_failure"] == {
        "time": "then",
        "reason": "StoreUnavailable",
        "message": "no answer",
    }
    assert (
        status["commits"]["consecutive_failures"],
        values["landfall_consecutive_failures", ""],
    ) == (3, 3)
    assert (health[0], json.loads(health[1])["waiting_for"]) == (200, "store: no answer")
    assert (back["commits"]["consecutive_failures"], back["commits"]["last_failure"]) == (0, None)


@pytest.mark.parametrize("phase", [DriverPhase.STALLED, DriverPhase.FENCED])
def test_a_driver_that_is_stalled_or_fenced_is_not_healthy(
    server: ThreadingHTTPServer, board: StatusBoard, phase: DriverPhase
) -> None:
    one = finished(FakeLog().write("a", 1))
    one.phase = phase
    posted(board, one)

    assert get(server, "/healthcheck")[0] == 503


def test_an_unknown_path_answers_with_the_paths_that_exist(server: ThreadingHTTPServer) -> None:
    code, body = get(server, "/nope")

    assert code == 404
    assert "/metrics" in body


def metrics(server: ThreadingHTTPServer) -> dict[tuple[str, str], float]:
    families = text_string_to_metric_families(get(server, "/metrics")[1])
    return {
        (s.name, s.labels.get("topic", "")): s.value for family in families for s in family.samples
    }


def test_metrics_count_what_was_landed(server: ThreadingHTTPServer, board: StatusBoard) -> None:
    posted(board, finished(FakeLog().write("a", 10, 5).write("b", 4)))

    values = metrics(server)

    assert values["landfall_landed_records_total", "a"] == 15
    assert values["landfall_landed_records_total", "b"] == 4
    assert values["landfall_lag_records", ""] == 0
    assert values["landfall_topic_lag_records", "a"] == 0


@dataclass
class Merging(NoPlanner):
    """Has merged something, and cannot go on."""

    status: CompactionStatus | None


def test_merging_is_in_status_and_metrics(server: ThreadingHTTPServer, board: StatusBoard) -> None:
    merging = Merging(CompactionStatus(2, 30, 20, 2, 900, 3, 1, "o.json is damaged", 7, 4))
    one = driver(group(), MemoryStore(), FakeLog(), FakeRunner(MemoryStore()))
    deps = replace(one.deps, new_planner=lambda *_: merging)
    posted(board, Driver(one.group, one.writer, deps, one.report))

    values = metrics(server)

    status = json.loads(get(server, "/status")[1])
    assert status["compaction"]["problem"] == "o.json is damaged"
    assert {
        name.removeprefix("landfall_compaction_"): value
        for (name, _), value in values.items()
        if name.startswith("landfall_compaction_")
    } == {
        "waiting_folders": 2,
        "waiting_objects": 30,
        "blocked": 1,
        "merged_objects_total": 20,
        "new_objects_total": 2,
        "bytes_total": 900,
        "duplicates_total": 3,
        "uncompared_rows_total": 7,
        "unmerged_total": 4,
        "failures_total": 1,
    }


def test_what_is_left_of_replacements_is_in_status_and_metrics(
    server: ThreadingHTTPServer, board: StatusBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = ReplacingStatus(2, 1, 8, 7, "a/1: AccessDenied")
    monkeypatch.setattr(Replacements, "status", left)
    posted(board, finished(FakeLog()))

    values = metrics(server)

    assert json.loads(get(server, "/status")[1])["replacing"] == asdict(left)
    assert {
        name.removeprefix("landfall_replacing_"): value
        for (name, _), value in values.items()
        if name.startswith("landfall_replacing_")
    } == {"waiting": 2, "refused": 1, "undeleted_objects": 8, "undeletable_objects": 7}


def test_a_group_that_merges_nothing_has_no_such_metric(
    server: ThreadingHTTPServer, board: StatusBoard
) -> None:
    posted(board, finished(FakeLog()))

    assert json.loads(get(server, "/status")[1])["compaction"] is None
    assert "landfall_compaction_blocked{" not in get(server, "/metrics")[1]


def test_status_and_metrics_say_which_hot_path_runs(
    server: ThreadingHTTPServer, board: StatusBoard
) -> None:
    posted(board, finished(FakeLog()))

    assert json.loads(get(server, "/status")[1])["hot_path"] == hot_path().name
    assert f'hot_path="{hot_path().name}"' in get(server, "/metrics")[1]


def test_many_topics_share_a_label(server: ThreadingHTTPServer, board: StatusBoard) -> None:
    log = FakeLog()
    for i in range(TOPICS + 5):
        log.write(f"t{i:04}", 1)
    posted(board, finished(log))

    values = metrics(server)

    assert values["landfall_landed_records_total", OTHER] == 5
    assert (
        len([topic for name, topic in values if name == "landfall_landed_records_total"])
        == TOPICS + 1
    )


def test_records_held_back_by_an_open_transaction_are_a_metric_of_their_topic(
    server: ThreadingHTTPServer, board: StatusBoard
) -> None:
    held = {TopicPartition("a", 0): 13, TopicPartition("a", 1): 12}
    posted(board, finished(FakeLog(high_watermarks=held).write("a", 10, 10).write("b", 4)))

    metrics = get(server, "/metrics")[1]

    of_a = '{group="fake",namespace="default",topic="a"}'
    assert f"landfall_topic_held_back_records{of_a} 5.0" in metrics
    assert f"landfall_topic_held_back_seconds{of_a}" in metrics
    assert 'topic="b"} 0' not in [line for line in metrics.splitlines() if "held_back" in line]
