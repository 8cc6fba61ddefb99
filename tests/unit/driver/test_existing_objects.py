"""Objects that the ledger does not know: nothing lands beside them unasked, none is replaced."""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from landfall.api.contract import ExitCode
from landfall.driver.core.background import Threads
from landfall.driver.landing import existing_objects
from landfall.driver.landing.existing_objects import ExistingObjects, check_root_free
from landfall.errors import Reason, Retry, Stalled
from landfall.ledger import State
from landfall.ledger.offsets import TopicPartition
from landfall.objects import ObjectStat
from landfall.store import Store
from landfall.store.file import STAGING, FileStore
from landfall.store.memory import CallFault, MemoryStore, Operation, Scripted
from tests.support.driver.driver_thread import DriverThread
from tests.support.driver.fakes import FakeLog, FakeRunner, driver, group, landed_offsets

OUTPUT = {"url": "s3://bucket/root"}
NOW = datetime(2026, 11, 22, tzinfo=UTC)
KEEP = {**OUTPUT, "existingObjects": "Keep"}


def key(topic: str, generation: int, start: int = 0) -> str:
    return f"{topic}/all/{generation}_0_{start:020d}.txt"


def contents(store: Store) -> dict[str, bytes | None]:
    return {stat.key: store.read(stat.key) for stat in store.list_after("")}


def without_ledger(log: FakeLog) -> MemoryStore:
    """A store where generation 1 has landed the log, and whose ledger was deleted."""
    store = MemoryStore()
    driver(group(), store, log, FakeRunner(store)).run()
    for stat in list(store.list_after("_landfall/")):
        store.delete(stat.key)
    return store


@pytest.mark.parametrize("generation", [1, 2])
def test_without_their_ledger_objects_of_any_generation_are_in_the_way(generation: int) -> None:
    store = without_ledger(FakeLog().write("a", 10))

    with pytest.raises(Stalled, match="restore _landfall/ if it was lost") as refused:
        check_root_free(group(generation=generation), store)

    assert refused.value.reason is Reason.OUTPUT_OCCUPIED


def test_objects_that_are_kept_are_never_replaced() -> None:
    log = FakeLog().write("a", 10)
    store = without_ledger(log)
    before = contents(store)

    with pytest.raises(Stalled, match=r"raise spec\.generation above 1$"):
        check_root_free(group(output=KEEP), store)
    kept = group(output=KEEP, generation=2)
    check_root_free(kept, store)
    assert driver(kept, store, log, FakeRunner(store)).run() is ExitCode.OK

    after = contents(store)
    assert before.items() <= after.items()
    assert key("a", 2) in after


@pytest.mark.parametrize("output", [OUTPUT, KEEP])
def test_names_that_are_taken_beyond_the_first_thousand_keys_are_seen(
    output: dict[str, str],
) -> None:
    store, log = MemoryStore(), FakeLog().write("b", 10)
    for start in range(1000):
        store.create(key("a", 0, start), b"of another program")
    store.create(key("b", 1), b"of a lost ledger")

    one = driver(group(output=output), store, log, FakeRunner(store))
    code = one.run()

    assert store.read(key("b", 1)) == b"of a lost ledger"
    assert code is ExitCode.STALLED
    assert one.counters.message.startswith("OutputOccupied: b: the ledger does not know this topic")


@pytest.mark.parametrize("output", [OUTPUT, KEEP])
def test_a_topic_named_like_the_folder_of_the_ledger_is_refused(output: dict[str, str]) -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10).write("_landfall", 10)

    one = driver(group(output=output), store, log, FakeRunner(store))
    code = one.run()

    assert code is ExitCode.STALLED
    assert one.counters.message.startswith(
        "OutputOccupied: _landfall: a topic of this name would land in the folder of the ledger"
    )
    assert {topic for topic, _, _ in landed_offsets(store)} == {"a"}


def test_a_topic_named_like_a_folder_of_the_store_stops_no_other_one(tmp_path: Path) -> None:
    """Whoever may create topics chooses their names, and Kafka allows this one."""
    store, log = FileStore(tmp_path), FakeLog().write("a", 10).write(STAGING, 10)

    one = driver(group(output={"url": f"file://{tmp_path}"}), store, log, FakeRunner(store))
    code = one.run()

    assert code is ExitCode.STALLED
    assert one.counters.message.startswith(
        f"OutputOccupied: {STAGING}: a topic of this name would land in a folder of the store"
    )
    assert {topic for topic, _, _ in landed_offsets(store)} == {"a"}


def test_a_topic_that_is_new_waits_until_its_folder_is_free() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10)
    store.create("b/README", b"of a person")
    thread = DriverThread(store, log).start()
    thread.until_landed()

    log.write("b", 5)
    log.write("a", 20)
    thread.until(lambda s: s.partitions[0].checkpoint == 20, "a lands")
    before = landed_offsets(store)
    store.delete("b/README")
    thread.until_landed()

    assert {topic for topic, _, _ in before} == {"a"}
    assert thread.stop() is ExitCode.OK


def test_a_topic_of_the_ledger_is_not_looked_at_again() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10)
    driver(group(), store, log, FakeRunner(store)).run()
    store.create("a/README", b"of a person")
    log.write("a", 20, 5)

    again = driver(group(), store, log, FakeRunner(store), writer="w2")

    assert again.run() is ExitCode.OK
    assert sum(landed_offsets(store).values()) == 25


class CountingStore(MemoryStore):
    """Counts listings, except those of the ledger."""

    def __init__(self) -> None:
        super().__init__()
        self.listed: list[str] = []

    def list_after(self, prefix: str, after: str = "") -> Iterator[ObjectStat]:
        self.listed.append(prefix)
        return super().list_after(prefix, after)


def occupied(store: MemoryStore, *topics: str, output: Mapping[str, str] = OUTPUT) -> set[str]:
    """The topics among these that may not enter an empty ledger."""
    existing = ExistingObjects(group(output=output, generation=3), store, Threads())
    entering = [TopicPartition(topic, 0) for topic in topics]
    return {tp.topic for tp in existing.occupied(State(), entering, NOW)}


def test_one_request_looks_at_the_folders_of_all_new_topics() -> None:
    store = CountingStore()
    topics = [f"clicks.{n}" for n in range(1000)]
    store.create("clicks.7/README", b"of a person")
    store.create("clicks.70x/README", b"of nobody we land")
    store.create("clicks.998/", b"a folder's own name")

    assert occupied(store, *topics) == {"clicks.7", "clicks.998"}
    assert store.listed == ["clicks."]


def test_folders_beyond_the_first_thousand_keys_are_looked_at_one_by_one() -> None:
    store = CountingStore()
    for n in range(1500):
        store.create(f"b/{n:05}", b"of another program")
    store.create("a-/x", b"of a person")
    store.create("d/x", b"of a person")

    # In the order of keys a- comes before a, because / comes after -.
    assert occupied(store, "a", "a-", "b", "c", "d") == {"a-", "b", "d"}
    assert store.listed == ["", "b/", "c/", "d/"]


def test_objects_that_are_kept_are_looked_at_for_names_that_are_taken() -> None:
    store = CountingStore()
    store.create(key("a", 2), b"of another program")
    store.create(key("b", 3), b"of a lost ledger")

    assert occupied(store, "a", "b", "c", output=KEEP) == {"b"}
    assert len(store.listed) == 1


DESTINED = {"pattern": "all", "topicPath": "db={field:app}/l={field:layer}/{topic}"}


@pytest.mark.parametrize(
    ("there", "refused"),
    [
        ([], False),
        ([f"db=a/l=b/{key('a', 1)}"], True),
        ([f"db=x/zoo/{key('a', 9)}", f"db=z=/l=raw/{key('a', 1)}"], True),
        # Of other topics, in other places, or not data of a destination at all.
        ([f"db=a/l=b/{key('b', 1)}", key("a", 1), f"db=a/{key('a', 1)}", "db=a"], False),
        ([f"db=a/aa/{key('a', 1)}", f"db=a/l=b/{key('a', 1)}"], True),
        ([f"db=a/l=b/c=d/{key('a', 1)}"], False),
    ],
)
def test_a_new_topic_is_looked_for_in_all_destinations(there: list[str], refused: bool) -> None:
    store = MemoryStore()
    for name in there:
        assert store.create(name, b"")
    made = group(decode={"format": "Json"}, route=DESTINED, output=OUTPUT | {"format": "Json"})
    looking = ExistingObjects(made, store, Threads())

    found = looking.occupied(State(), [TopicPartition("a", 0)], NOW)

    assert bool(found) == refused


def looking(store: MemoryStore, **output: str) -> ExistingObjects:
    made = group(
        decode={"format": "Json"},
        route=DESTINED,
        output=OUTPUT | {"format": "Json"} | output,
        generation=3,
    )
    return ExistingObjects(made, store, Threads())


def until_finished(existing: ExistingObjects, *topics: str) -> tuple[set[str], int]:
    """The topics that may not enter, and how often somebody had to ask."""
    entering = [TopicPartition(topic, 0) for topic in topics]
    for asked in count(1):
        found = existing.occupied(State(), entering, NOW)
        if not existing.unfinished:
            return {tp.topic for tp in found}, asked
        assert existing.unfinished <= {*topics} - {tp.topic for tp in found}
    raise AssertionError


def test_all_of_very_many_destinations_are_looked_at() -> None:
    store = CountingStore()
    for n in range(3000):
        store.create(f"db={n}/l=raw/{key('b', 1)}", b"")
    store.create(f"db=zzz/l=raw/{key('a', 1)}", b"of another program")

    assert until_finished(looking(store), "a", "c") == ({"a"}, 1)
    assert len(store.listed) == 4


def test_what_is_in_a_large_destination_is_passed_over() -> None:
    store = CountingStore()
    for n in range(2500):
        store.create(f"db=1/l=raw/b/{n:05}", b"of another program")
        store.create(f"db=1/no-layer/{n:05}", b"of another program")
    store.create(f"db=1/l=raw/{key('c', 1)}", b"of another program")
    store.create(f"db=2/l=raw/{key('d', 1)}", b"of another program")

    assert until_finished(looking(store), "a", "b", "c", "d") == ({"b", "c", "d"}, 1)
    # For each of the two large folders two pages, the four topics in the first, and what is behind.
    assert len(store.listed) <= 9


def test_a_topic_waits_until_everything_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(existing_objects, "LOOKS", 2)
    store = CountingStore()
    for n in range(4000):
        store.create(f"db={n}/l=raw/{key('b', 1)}", b"")
    store.create(f"db=zzz/l=raw/{key('a', 1)}", b"of another program")
    existing = looking(store)

    found, asked = until_finished(existing, "a", "c")

    assert (found, asked) == ({"a"}, 3)
    assert until_finished(existing, "c") == (set(), 1)


@pytest.mark.parametrize("route", [DESTINED, {"pattern": "all"}])
def test_a_name_that_is_taken_in_a_large_folder_is_seen_where_objects_are_kept(
    route: dict[str, str],
) -> None:
    """By names, objects of another program come before those of a ledger that was lost."""
    store = MemoryStore()
    folder = "db=x/l=raw/" if "topicPath" in route else ""
    for start in range(2100):
        store.create(f"{folder}a/all/0_0_{start:020d}.gz", b"of another program")
        store.create(f"{folder}b/all/0_0_{start:020d}.gz", b"of another program")
    store.create(f"{folder}{key('a', 3)}", b"of a lost ledger")
    output = OUTPUT | {"format": "Json", "existingObjects": "Keep"}
    made = group(decode={"format": "Json"}, route=route, output=output, generation=3)

    found, _ = until_finished(ExistingObjects(made, store, Threads()), "a", "b")

    assert found == {"a"}


FOLDERS = st.sampled_from(["db=x", "db=x=", "db=y", "l=1", "l=1-", "a", "a-", "b", "zoo", "db="])


@given(st.sets(st.lists(FOLDERS, min_size=1, max_size=5).map("/".join), max_size=30), st.booleans())
def test_whatever_is_there_the_topics_in_the_way_are_found(
    keys: set[str], one_by_one: bool
) -> None:
    store = MemoryStore()
    for name in keys:
        store.create(name, b"")
    expected = {
        topic
        for topic in ("a", "b")
        if any(re.match(f"db=[^/]*/l?[^/]*=[^/]*/{topic}/", name) for name in keys)
    }

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(existing_objects, "FIRST_KEYS", 2)
        patch.setattr(existing_objects, "LOOKS", 1 if one_by_one else 100)
        found, _ = until_finished(looking(store), "a", "b")

    assert found == expected


def test_a_look_that_fails_is_begun_again() -> None:
    store = MemoryStore(Scripted({Operation.LIST: [None, CallFault.REQUEST_LOST]}))
    for n in range(1500):
        store.create(f"db={n}/l=raw/{key('b', 1)}", b"")
    existing = looking(store)

    with pytest.raises(Retry):
        until_finished(existing, "a", "b")

    assert until_finished(existing, "a", "b") == ({"b"}, 1)


def test_a_driver_lands_a_topic_once_all_destinations_were_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(existing_objects, "LOOKS", 1)
    store, log = MemoryStore(), FakeLog().write("a", 10)
    for n in range(2500):
        store.create(f"db={n}/l=raw/{key('b', 1)}", b"")
    made = group(
        decode={"format": "Json"}, route=DESTINED, output=KEEP | {"format": "Json"}, generation=2
    )

    assert driver(made, store, log, FakeRunner(store)).run() is ExitCode.OK

    assert sum(landed_offsets(store).values()) == 10
