"""Dead letters are rows of one table: what is there at the ledger's last slot, and no more."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from landfall import ledger
from landfall.api.contract import LANE, ExitCode
from landfall.api.verbs import Outcome
from landfall.driver.landing.dead_letter_expiry import ExpirySweep
from landfall.errors import Reason, Stalled
from landfall.lane import Lane
from landfall.ledger import Blocked, Missing
from landfall.ledger.names import object_names
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.task_results import ObjectKind
from landfall.reading import LandedGroup
from landfall.reading.queries import answer
from landfall.store import Store
from landfall.store.memory import MemoryStore
from tests.support.driver.fakes import NOW
from tests.support.ledger.readable import Readable
from tests.support.ledger.sample_ledger import GROUP, SampleLedger
from tests.support.ledger.sample_replacing import Merge
from tests.unit.driver.test_dead_letter_expiry import TP, letters_key, sweep, with_letters
from tests.unit.driver.test_replay import LATE, POISON, group, landing, replay

NAME = "events"


def opened(store: Store, generation: int = 1) -> LandedGroup:
    of = group(generation)
    return LandedGroup(store, of.spec.output, (NAME, LANE), of)


def asked(landed: LandedGroup, query: str) -> list[tuple[Any, ...]]:
    with answer(landed, query) as found:
        assert found is not None
        return found.fetchall()


@pytest.fixture
def store() -> MemoryStore:
    """Generation 1 has landed 30 records, and 20 of them as dead letters."""
    made = MemoryStore()
    assert landing(made, 1).stop() is ExitCode.OK
    return made


def test_each_has_its_place_its_payload_and_why_it_did_not_land(store: MemoryStore) -> None:
    found = asked(opened(store), "SELECT * EXCLUDE (timestamp) FROM dead_letters ORDER BY ALL")

    assert [row[2] for row in found] == sorted([*LATE, *POISON])
    topic, partition, offset, key, value, headers, stage, error, replayed = found[0]
    assert (topic, partition, offset, key, value) == ("a", 0, 1, b"key-1", b'{"n":1}')
    assert headers == [{"key": "n", "value": b"1"}]
    assert (stage, error, replayed) == ("route", "timestamp: no field 'ts'", False)


def test_a_replay_is_seen_and_what_is_bad_again_is_a_row_of_its_own(store: MemoryStore) -> None:
    landed = opened(store)
    before = asked(landed, "SELECT count(*) FROM dead_letters")
    assert replay(store, 2).outcome is Outcome.DONE

    query = 'SELECT replayed, count(*), min("offset") FROM dead_letters GROUP BY ALL ORDER BY ALL'

    assert before == [(20,)]
    assert asked(landed, query) == asked(opened(store), query) == [(False, 10, 2), (True, 20, 1)]


def test_only_objects_that_a_condition_admits_are_opened(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    replay(store, 2)
    read = list[str]()
    real = store.read
    monkeypatch.setattr(store, "read", lambda key: read.append(key) or real(key))

    asked(
        opened(store), "SELECT max(error) FROM dead_letters WHERE replayed = false AND topic = 'a'"
    )

    letters = [key for key in read if "/dead-letters/" in key]
    assert [object_names.origin(NAME, key).generation for key in letters] == [2]


def test_what_has_expired_is_no_row(store: MemoryStore) -> None:
    landed = opened(store)
    assert asked(landed, "SELECT count(*) FROM dead_letters") == [(20,)]
    lane = Lane(store, NAME, LANE)
    assert ExpirySweep(store, lane).run(lane.read(), NOW.replace(year=NOW.year + 1)) == 1

    assert asked(landed, "SELECT count(*) FROM dead_letters") == [(0,)]
    assert asked(opened(store), "SELECT count(*) FROM dead_letters") == [(0,)]


def test_a_topic_of_that_name_is_that_topic(tmp_path: Path) -> None:
    made = Readable(tmp_path)
    topic = TopicPartition("Dead_Letters", 0)
    made.ledger.add(topic)
    made.land(topic, ("dt=2026-11-21/hr=04", [{"id": 7}])).settle()

    landed = LandedGroup(made.store, made.group.spec.output, (GROUP, LANE), made.group)

    assert asked(landed, "SELECT id FROM dead_letters") == [(7,)]


def sample_files(sample: SampleLedger) -> dict[str, bool]:
    landed = LandedGroup(sample.store, group(1).spec.output, (GROUP, LANE))
    return {file.key: file.is_replayed for file in landed.dead_letters().files()}


@pytest.fixture
def sample() -> SampleLedger:
    made = SampleLedger().open().add(TP)
    return made.commit(with_letters(made, 0))


def test_what_is_not_visible_yet_is_no_row(sample: SampleLedger) -> None:
    before = sample_files(sample)
    sample.applied()

    assert (before, sample_files(sample)) == ({}, {letters_key(0): False})


def test_what_a_replace_lets_retire_is_replaced(sample: SampleLedger) -> None:
    slot, old = sample.state.seq, sample.landed[letters_key(0)]
    sample.shown()
    merge = Merge.of(sample, [(slot, old)]).record()
    sample.store.complete(merge.new.landed.upload)
    sample.applied()

    assert sample_files(sample) == {merge.new.landed.upload.key: False}


def test_later_ones_stay_when_earlier_ones_have_expired(sample: SampleLedger) -> None:
    sample.applied().open()
    assert sweep(sample) == 1
    sample.commit(with_letters(sample, 10)).applied()

    assert sample_files(sample) == {letters_key(10): False}


def test_what_is_given_up_is_no_row() -> None:
    sample = SampleLedger().open().add(TP)
    landed = with_letters(sample, 0)
    sample.commit(landed, complete=False)
    data, lost = landed.objects
    sample.store.complete(data.upload)
    commit = sample.state.seq
    entry = Blocked(TP, Reason.OBJECT_LOST, "gone", landed.piece.offsets)
    missing = Missing(commit, (lost.upload.key,))
    sample.append(lambda h: ledger.Block(header=h, entries=(entry,), missing=(missing,)))
    sample.append(lambda h: ledger.Lost(header=h, commit=commit, objects=(lost,)))

    assert sample_files(sample.applied()) == {}


def test_a_place_of_their_own_needs_the_groups_file() -> None:
    sample = SampleLedger().open().add(TP)
    landed = with_letters(sample, 0)
    key = object_names.dead_letter_key(GROUP, "clicks", 1, 0, 0, place="0123456789abcdef")
    letters = sample.upload(key, [0, 1], ObjectKind.DEAD_LETTERS)
    sample.commit(replace(landed, objects=(landed.objects[0], letters))).applied()

    with pytest.raises(Stalled, match=r"open the group's file, which has spec\.badRecords\.url"):
        sample_files(sample)
