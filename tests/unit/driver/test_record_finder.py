"""``/record``: where a record is, within bounds, and without a value of a payload."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from landfall.driver.http import record_finder
from landfall.driver.http.record_finder import BURST, REFILL_SECONDS, RecordFinder
from landfall.driver.http.server import StatusBoard, serve
from landfall.ledger import Decision, Hole
from landfall.ledger.names import object_names
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.store.memory import MemoryStore
from tests.support.driver import console_pages
from tests.support.driver.console_pages import NOW, finder_of
from tests.support.files.folder_feed import FolderFeed
from tests.support.ledger.sample_ledger import GROUP, LANE, SampleLedger

TP = TopicPartition("clicks", 0)
SSN = "078-05-1120"


class Clock:
    """Seconds that pass when a test lets them."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def ask(
    finder: RecordFinder, offset: object, topic: str = "clicks", partition: object = 0
) -> tuple[HTTPStatus, dict[str, Any]]:
    query = {"topic": [topic], "partition": [str(partition)], "offset": [str(offset)]}
    return finder.find(query, (console_pages.publisher("lake"),))


@pytest.fixture
def sample() -> SampleLedger:
    sample = SampleLedger().open().add(TP, start=5)
    return sample.commit(sample.land(TP, 5, 10)).commit(sample.land(TP, 10, 20))


# ------------------------------------------------------------------------- by a driver that landed


ROUTED = {
    "route": {"pattern": "who={field:who}/dt={date}"},
    "decode": {
        "format": "Json",
        "columns": [{"name": "id", "type": "Int64"}, {"name": "who", "type": "String"}],
        "timestamp": {"field": "at"},
    },
    "badRecords": {"minCount": 100},
}


def line(number: object, who: str = SSN) -> bytes:
    return json.dumps({"id": number, "who": who, "at": 1_763_700_000_000}).encode() + b"\n"


@pytest.fixture
def landed(tmp_path: Path) -> RecordFinder:
    """Rows 0, 2 and 4 of a file are in a folder that a payload has named; 1 and 3 are bad."""
    feed = FolderFeed(tmp_path)
    feed.put("a.json", b"".join(map(line, (1, f"{SSN}x", 3, SSN, 5))))
    feed.land(ROUTED)
    group = feed.group(ROUTED)
    found = RecordFinder(group, feed.store())
    found.observe(feed.state())
    return found


def test_a_landed_record_has_an_object_a_slot_and_tables_but_no_value(landed: RecordFinder) -> None:
    code, answer = ask(landed, 0, topic="hits")

    assert code is HTTPStatus.OK
    assert answer["fate"] in {"landed", "possibly-landed"}
    (found,) = answer["objects"]
    assert found["url"].endswith(".json.gz")
    assert "/hits/who=…/dt=…/" in found["url"]
    assert answer["visible"] in {True, False}
    assert answer["committed"].startswith("20")
    assert answer["publishers"] == [
        {"name": "lake", "type": "Iceberg", "published": True, "slot": 810}
    ]
    assert answer["command"] == "landfall locate GROUP.yaml hits 0 0"
    assert SSN not in str(answer)


def test_a_dead_letter_has_its_reason_in_words_of_the_spec(landed: RecordFinder) -> None:
    _, answer = ask(landed, 3, topic="hits")

    assert (answer["fate"], answer["objects"][0]["row"]) == ("dead-lettered", 2)
    assert answer["message"].endswith(": decode: json: column id: expected Int64")
    assert "dead-letters/hits/" in answer["objects"][0]["url"]
    assert "publishers" not in answer
    assert SSN not in str(answer)


def test_folders_of_times_are_shown(tmp_path: Path) -> None:
    feed = FolderFeed(tmp_path)
    feed.put("a.json", line(1))
    by_day = {**ROUTED, "route": {"pattern": "dt={date}"}}
    feed.land(by_day)
    finder = RecordFinder(feed.group(by_day), feed.store())
    finder.observe(feed.state())

    _, answer = ask(finder, 0, topic="hits")

    assert "/hits/dt=2025-11-21/" in answer["objects"][0]["url"]


def test_what_is_larger_than_may_be_read_is_named_and_not_read(
    landed: RecordFinder, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = record_finder.Restrictions(read_objects=16, read_bytes=10, listed_objects=1)
    monkeypatch.setattr(record_finder, "RESTRICTIONS", small)

    _, answer = ask(landed, 3, topic="hits")

    assert answer["fate"] == "possibly-landed"
    assert (
        "not all were read, so the row is unknown; 1 more object may have it" in answer["message"]
    )
    assert len(answer["objects"]) == 1


# ------------------------------------------------------------------------------------ by the ledger


def test_what_the_state_shows_costs_no_request(sample: SampleLedger) -> None:
    store = sample.store
    assert isinstance(store, MemoryStore)
    finder = finder_of(sample)
    store.requests.clear()

    for _ in range(3 * BURST):
        code, answer = ask(finder, 20)
        assert (code, answer["fate"]) == (HTTPStatus.OK, "not-landed")
    assert ask(finder, 0, topic="orders")[1]["fate"] == "unknown"
    assert (
        answer["message"] == "clicks/0 offset 20 is not landed yet: the next offset to land is 20"
    )
    assert store.requests.total() == 0


def test_offsets_before_the_start_and_skipped_ones_are_named(sample: SampleLedger) -> None:
    decision = Decision("skip", "ann@example.com", "broken", "2026-11-21T05:00:00Z")
    hole = Slice(TP, OffsetRange(20, 22))
    sample.append(lambda h: Hole(header=h, piece=hole, reason="skipped", decision=decision))
    finder = finder_of(sample)

    before, skipped = ask(finder, 4)[1], ask(finder, 21)[1]

    assert before["fate"] == "before-start"
    assert skipped["message"].endswith("was skipped: skipped (skip, 2026-11-21T05:00:00Z)")
    assert "ann@example.com" not in str(skipped)


def test_an_old_offset_is_found_by_the_index_of_a_segment(
    sample: SampleLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample.applied().open().commit(sample.land(TP, 20, 30)).roll().snapshot()
    monkeypatch.setattr(record_finder, "MOST_RECORDS", 1)

    _, answer = ask(finder_of(sample), 7)

    assert (answer["fate"], answer["slot"]) == ("landed", 2)


def test_a_segment_is_not_believed_once_dead_letters_or_topics_have_changed(
    sample: SampleLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample.applied().open(generation=2).snapshot().roll().snapshot()
    sample.drop(TP).add(TP).commit(sample.land(TP, 0, 10))
    monkeypatch.setattr(record_finder, "MOST_RECORDS", 0)

    assert ask(finder_of(sample), 7)[1]["fate"] == "not-searched"


def test_the_ledger_is_read_back_no_further_than_allowed(
    sample: SampleLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_finder, "MOST_RECORDS", 1)
    finder = finder_of(sample)

    far, near = ask(finder, 7), ask(finder, 15)

    assert (far[0], far[1]["fate"]) == (HTTPStatus.OK, "not-searched")
    assert far[1]["command"] == "landfall locate GROUP.yaml clicks 0 7"
    assert (near[1]["fate"], near[1]["slot"]) == ("landed", 3)


def test_only_a_few_lookups_are_made_in_a_minute(sample: SampleLedger) -> None:
    clock = Clock()
    finder = finder_of(sample, clock=clock)

    codes = [ask(finder, 7)[0] for _ in range(BURST + 2)]
    clock.now += REFILL_SECONDS
    later = [ask(finder, 7)[0] for _ in range(2)]

    few = HTTPStatus.TOO_MANY_REQUESTS
    assert codes == [HTTPStatus.OK] * BURST + [few] * 2
    assert later == [HTTPStatus.OK, few]


def test_lookups_take_turns(sample: SampleLedger) -> None:
    finder = finder_of(sample)
    answers = []

    class Asking(MemoryStore):
        def read(self, key: str) -> bytes | None:
            answers.append(ask(finder, 7))
            return sample.store.read(key)

        def __getattr__(self, name: str) -> Any:
            return getattr(sample.store, name)

    finder = finder_of(sample, Asking())
    ask(finder, 7)

    assert {code for code, _ in answers} == {HTTPStatus.TOO_MANY_REQUESTS}
    assert ask(finder, 20)[0] is HTTPStatus.OK


def test_a_broken_ledger_is_reported_without_its_text(sample: SampleLedger) -> None:
    sample.store.delete_slots([object_names.slot_key(GROUP, LANE, *sample.state.place(2))])
    finder = finder_of(sample)

    code, answer = ask(finder, 7)

    assert code is HTTPStatus.OK
    assert answer["message"].startswith("could not be looked up (LedgerBroken)")


@pytest.mark.parametrize(
    ("partition", "offset"), [("x", 1), (0, "-1"), (0, "٣"), (0, "9" * 30), (2**31, 1), ("", "")]
)
def test_only_numbers_are_looked_up(
    sample: SampleLedger, partition: object, offset: object
) -> None:
    code, answer = ask(finder_of(sample), offset, partition=partition)

    assert (code, answer) == (HTTPStatus.BAD_REQUEST, {"error": record_finder.USAGE})


# ------------------------------------------------------------------------------------ by its server


@pytest.fixture
def url(sample: SampleLedger) -> Iterator[tuple[str, StatusBoard]]:
    board = StatusBoard(lambda: NOW)
    server = serve(board, "127.0.0.1", 0, finder=finder_of(sample))
    yield f"http://127.0.0.1:{server.server_port}/record?", board
    server.shutdown()


def test_a_driver_answers_at_its_port_while_it_lands(url: tuple[str, StatusBoard]) -> None:
    address, board = url
    query = "topic=clicks&partition=0&offset=7"

    with pytest.raises(urllib.error.HTTPError, match="503"):
        urllib.request.urlopen(address + query)
    console_pages.post(board, console_pages.healthy())
    with urllib.request.urlopen(address + query) as answer:
        found = json.load(answer)

    assert (found["fate"], found["offset"]) == ("landed", 7)
    with pytest.raises(urllib.error.HTTPError, match="400"):
        urllib.request.urlopen(address)
