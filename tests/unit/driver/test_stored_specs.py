"""The stored part of a spec, with the checksums of the files that decoders read."""

import json
from pathlib import Path
from typing import Any

import pytest

from landfall import registry
from landfall.api.contract import LANE
from landfall.api.spec import ConsumerGroup, TopicSpecs
from landfall.driver.core.stored_specs import check_files, store_spec, stored_spec
from landfall.errors import Reason, Stalled
from landfall.ledger import State
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import FailedSlice, LandedSlice
from landfall.store.memory import MemoryStore
from landfall.task import Batch
from landfall.task.landing import land
from tests.support.driver.fakes import FakeLog, group
from tests.support.driver.slice_landing import FakeReader
from tests.support.waiting import wait_for
from tests.unit.driver.test_handover import DriverThread, opened_by

IDL = "struct Click { 1: i64 at, 2: string user }"
OTHER = "struct Click { 1: i64 at, 3: string user }"


def test_a_stored_spec_has_the_entries_of_topics_of_its_time() -> None:
    store = MemoryStore()
    entry = {"pattern": "a", "decode": {"timestamp": {"field": "at", "unit": "Seconds"}}}
    of_now = group(topics=[{"pattern": "b", "transforms": []}])
    before, older = group(topics=[entry]), group()

    found = stored_spec(store, of_now, LANE, store_spec(store, before, LANE))

    assert found.spec.topics == before.spec.topics
    assert stored_spec(store, of_now, LANE, store_spec(store, older, LANE)).spec.topics == ()


# ------------------------------------------------------------------------------------------- files


@pytest.fixture
def file(tmp_path: Path) -> Path:
    written = tmp_path / "click.thrift"
    written.write_text(IDL)
    return written


def reading(file: Path, **more: Any) -> dict[str, Any]:
    return {"format": "Thrift", "options": {"file": str(file), "struct": "Click"}, **more}


def pinned(file: Path) -> ConsumerGroup:
    """A group that reads the file for all topics, and once more for those called ``b``."""
    entry = {"pattern": "b", "decode": {"timestamp": {"field": "at"}}}
    return registry.pinned(group(decode=reading(file), topics=[entry]))


def checksums(made: ConsumerGroup) -> list[object]:
    return [spec.decode.options.get("sha256") for _, spec in TopicSpecs.of(made.spec).used()]


def test_a_driver_lands_by_a_spec_with_the_checksums_of_its_files(file: Path) -> None:
    before = pinned(file)
    file.write_text(OTHER)
    after = pinned(file)

    assert [len(str(each)) for each in checksums(before)] == [64, 64]
    assert set(checksums(before)).isdisjoint(checksums(after))
    assert registry.pinned(before_without_change := group()) == before_without_change


def test_the_digest_that_an_open_names_is_another_for_another_file(file: Path) -> None:
    store = MemoryStore()
    one = store_spec(store, pinned(file), LANE)
    again = store_spec(store, pinned(file), LANE)
    file.write_text(OTHER)

    assert one == again != store_spec(store, pinned(file), LANE)


def test_what_was_landed_is_made_again_by_the_file_of_that_time_only(file: Path) -> None:
    store = MemoryStore()
    name = store_spec(store, pinned(file), LANE)
    file.write_text(OTHER)

    of_then = stored_spec(store, pinned(file), LANE, name)

    with pytest.raises(Stalled, match=r"spec\.decode\.options\.sha256: .*click\.thrift has "):
        registry.check_spec(of_then)


def test_a_task_refuses_a_file_that_its_driver_did_not_read(file: Path) -> None:
    made, tp = pinned(file), TopicPartition("a", 0)
    rows = {tp: [(0, bytes.fromhex("0a0001000000000000000500"))]}
    slices = [Slice(tp, OffsetRange(0, 1))]

    (good,) = land(Batch(made, "t"), slices, FakeReader(rows), MemoryStore())
    file.write_text(OTHER)
    (refused,) = land(Batch(made, "t"), slices, FakeReader(rows), MemoryStore())

    assert isinstance(good, LandedSlice)
    assert isinstance(refused, FailedSlice)
    assert isinstance(refused.error, Stalled)
    assert "spec.decode.options.sha256" in str(refused.error)


def test_a_revision_does_not_go_on_by_another_file(file: Path) -> None:
    store = MemoryStore()
    state = State(revision="g1-a", spec=store_spec(store, pinned(file), LANE))
    check_files(store, pinned(file), LANE, state)
    file.write_text(OTHER)

    with pytest.raises(Stalled) as caught:
        check_files(store, pinned(file), LANE, state)

    assert caught.value.reason is Reason.SPEC_INVALID
    assert "the file has other bytes than when revision g1-a began" in str(caught.value)


def test_a_spec_that_names_another_file_is_not_compared(file: Path, tmp_path: Path) -> None:
    store = MemoryStore()
    state = State(revision="g1-a", spec=store_spec(store, pinned(file), LANE))
    other = tmp_path / "other.thrift"
    other.write_text(OTHER)

    check_files(store, pinned(other), LANE, state)
    check_files(store, group(), LANE, state)
    check_files(store, pinned(other), LANE, State(revision="g1-a"))


@pytest.mark.parametrize(("revision", "opens"), [("a", False), ("b", True), ("", True)])
def test_only_the_revision_that_began_with_a_file_is_held_to_it(
    file: Path, revision: str, opens: bool
) -> None:
    store, log = MemoryStore(), FakeLog().write("a", 0)
    first = DriverThread(store, log, "a", group=pinned(file)).start()
    first.until_landed()
    assert first.stop() is not None
    file.write_text(OTHER)

    second = DriverThread(store, log, revision, group=pinned(file)).start()

    if opens:
        second.until_landed()
        second.stop()
    else:
        wait_for(lambda: second.ended, "the driver has ended")
        assert "the file has other bytes" in str(second.error)
    assert opened_by(store) == ["a", revision] if opens else ["a"]


def test_the_stored_spec_is_what_it_says(file: Path) -> None:
    store = MemoryStore()
    made = pinned(file)
    body = store.read(f"_landfall/fake/{LANE}-specs/{store_spec(store, made, LANE)}.json")

    assert body is not None
    assert json.loads(body)["decode"]["options"]["sha256"] == checksums(made)[0]
