"""How the lane's members follow the log's topics, and how often that is worked out."""

from dataclasses import replace
from datetime import timedelta

from landfall.api.contract import ExitCode
from landfall.driver.http.status import DriverProgress
from landfall.errors import Reason
from landfall.ledger.offsets import TopicPartition
from landfall.source import Watermarks
from landfall.source.membership import check_source
from landfall.store.memory import MemoryStore
from tests.support.driver.driver_events import ledger_state
from tests.support.driver.fakes import FakeLog, FakeRunner, driver, group, landed_offsets

A0, B0 = TopicPartition("a", 0), TopicPartition("b", 0)


def test_topics_and_members_are_compared_again_only_when_one_of_them_changed() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10).write("b", 10)
    one = driver(group(), store, log, FakeRunner(store))
    one.run()
    sync, state = one._membership, one.writer.state
    compared = sync._compare(state)
    read = replace(state.members[A0], leader_epoch=7, epoch_offset=9)
    committed = replace(state, members={**state.members, A0: read})
    raised = replace(state, members={**state.members, A0: replace(read, generation=2)})
    left = replace(state, members={A0: read})

    assert sync._compare(committed) is compared
    for changed in (raised, left, committed):
        assert sync._compare(changed) is not compared
        compared = sync._compare(changed)


def test_a_deleted_topic_leaves_though_no_record_follows_its_last_commit() -> None:
    store, log = MemoryStore(), FakeLog().write("b", 10)
    one = driver(group(), store, log, FakeRunner(store), until_caught_up=False)
    began = one.deps.clock()

    def delete_then_stop(progress: DriverProgress) -> None:
        if progress.state.checkpoint.next_offsets.get(B0) == 10:
            log.partitions.pop("b", None)
        if progress.time - began > timedelta(minutes=3):
            one.stop("done")

    one.report = delete_then_stop

    assert one.run() is ExitCode.OK
    assert B0 not in ledger_state(store).members
    assert landed_offsets(store)["b", 0, 9] == 1


def test_a_topic_enters_when_nothing_of_the_former_one_waits_to_be_visible() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10).write("b", 10)
    one = driver(group(), store, log, FakeRunner(store))
    sync, now = one._membership, one.deps.clock()

    sync.look(one.writer.state, now, (), {A0}, at_rest=True)
    assert ledger_state(store).members.keys() == {B0}

    sync.look(one.writer.state, now, (), (), at_rest=True)
    assert ledger_state(store).members.keys() == {A0, B0}


def test_a_shorter_log_of_a_topic_recreated_since_the_last_discovery_is_no_truncation() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10)
    one = driver(group(), store, log, FakeRunner(store), until_caught_up=False)
    one.deps.observer.discovery_interval = timedelta(hours=1)
    began, seen = one.deps.clock(), set[Reason]()

    def recreate_then_stop(progress: DriverProgress) -> None:
        if progress.state.checkpoint.next_offsets.get(A0) == 10 and "a" not in recreated:
            log.write("a", 4).ids["a"] = "id of another topic"
            recreated.add("a")
        seen.update(stalled.reason for stalled in one.stalled_partitions().values())
        if progress.time - began > timedelta(minutes=3):
            one.stop("done")

    recreated = set[str]()
    one.report = recreate_then_stop

    assert one.run() is ExitCode.OK
    assert seen == {Reason.TOPIC_RECREATED}
    assert ledger_state(store).blocked == {}


def test_a_topic_that_cannot_be_described_is_not_recorded_as_truncated() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10)
    one = driver(group(), store, log, FakeRunner(store))
    one.run()
    sync, state = one._membership, one.writer.state
    checks = check_source(state, one.group.spec.source, {A0: Watermarks(0, 4)})
    assert [b.topic_partition for b in checks.truncated] == [A0]
    log.denied.add("a")

    found = sync._without_new_topics(state, checks, ())

    assert (found.truncated, found.blocked) == ((), {})
