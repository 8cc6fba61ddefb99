"""What the loop does when a topic is deleted and created again."""

from collections.abc import Collection

from landfall.api.contract import ExitCode
from landfall.errors import Reason
from landfall.ledger.offsets import TopicPartition
from landfall.source import FoundTopics
from landfall.store.memory import MemoryStore
from tests.support.driver.driver_events import after_next_batch, recreate
from tests.support.driver.fakes import (
    FakeLog,
    FakeRunner,
    driver,
    group,
    landed_offsets,
    written_offsets,
)

A0, B0 = TopicPartition("a", 0), TopicPartition("b", 0)


def test_a_recreated_topic_is_stalled_until_a_new_generation() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10)
    driver(group(), store, log, FakeRunner(store)).run()
    log.ids["a"] = "another"

    stopped = driver(group(), store, log, FakeRunner(store), writer="w2")
    assert stopped.run() is ExitCode.STALLED
    assert stopped.stalled_partitions()[A0].reason is Reason.TOPIC_RECREATED

    assert (
        driver(group(generation=2), store, log, FakeRunner(store), writer="w3").run() is ExitCode.OK
    )
    assert set(landed_offsets(store).values()) == {2}


def test_what_was_read_of_a_topic_recreated_meanwhile_is_not_committed() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10).write("b", 10)
    runner = FakeRunner(store)
    after_next_batch(runner, lambda: recreate(log, "a", 30))

    one = driver(group(), store, log, runner)

    assert one.run() is ExitCode.STALLED
    assert one.stalled_partitions()[A0].reason is Reason.TOPIC_RECREATED
    assert landed_offsets(store) == written_offsets(FakeLog().write("b", 10))
    assert list(store.open_uploads("")) == []
    assert (
        driver(group(generation=2), store, log, FakeRunner(store), writer="w2").run() is ExitCode.OK
    )
    assert landed_offsets(store) == written_offsets(log)


def test_a_topic_that_was_seen_missing_and_is_there_again_was_recreated() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10)
    runner = FakeRunner(store)

    def is_missing_at_the_next_look() -> None:
        del log.partitions["a"]
        topics = log.topics

        def topics_then(known: Collection[str] = ()) -> FoundTopics:
            log.topics = topics  # type: ignore[method-assign]
            found = topics(known)
            recreate(log, "a", 10)
            return found

        log.topics = topics_then  # type: ignore[method-assign]

    after_next_batch(runner, is_missing_at_the_next_look)

    one = driver(group(), store, log, runner)

    assert one.run() is ExitCode.STALLED
    assert one.stalled_partitions()[A0].reason is Reason.TOPIC_RECREATED


def test_the_former_topics_batches_end_before_a_new_generation_lands_the_new_topic() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10)
    driver(group(), store, log, FakeRunner(store)).run()
    log.write("a", 20).write("b", 10)
    runner = FakeRunner(store)
    after_next_batch(runner, lambda: recreate(log, "a", 15))

    assert driver(group(generation=2), store, log, runner, writer="w2").run() is ExitCode.OK
    landed = written_offsets(FakeLog().write("a", 10)) + written_offsets(log)
    assert landed_offsets(store) == landed


def test_a_recreated_topic_starts_at_its_start_whatever_the_spec_says() -> None:
    kafka = {"bootstrapServers": "x:9092", "topicPattern": ".*", "startingOffsets": "Latest"}
    store, log = MemoryStore(), FakeLog().write("a", 10)
    driver(group(source={"kafka": kafka}), store, log, FakeRunner(store)).run()
    recreate(log, "a", 7)

    one = driver(
        group(source={"kafka": kafka}, generation=2), store, log, FakeRunner(store), writer="w2"
    )

    assert one.run() is ExitCode.OK
    assert landed_offsets(store) == written_offsets(log)
