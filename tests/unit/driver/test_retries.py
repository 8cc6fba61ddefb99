"""What failed is tried again without holding up what did not: the real planning, simulated time."""

from datetime import timedelta

import pytest

from landfall.driver.core.retry_backoff import MAX_WAIT, RetryBackoff, RetryGroup
from landfall.errors import BatchFailed, NotTried, Retry, SourceAway
from landfall.ledger.offsets import TopicPartition
from tests.support.driver.fakes import NOW
from tests.support.driver.retry_simulation import SimulatedRunner, Simulation, topic

HOUR = 3600
A, B, C = topic("t", 3)


def test_topic_partitions_that_time_out_leave_the_others_nine_tenths_of_their_rate() -> None:
    healthy, bad = topic("healthy", 200), topic("bad", 12)
    alone = Simulation(healthy).run(HOUR)

    beside = Simulation([*healthy, *bad], SimulatedRunner(time_out=bad)).run(HOUR)

    landed = sum(beside.landed[tp] for tp in healthy)
    print(f"{landed} beside those that time out, {alone.landed.total()} alone")
    assert landed >= 0.9 * alone.landed.total() > 0


def test_topic_partitions_that_timed_out_land_again_when_they_can() -> None:
    healthy, bad = topic("healthy", 20), topic("bad", 12)
    simulation = Simulation([*healthy, *bad], SimulatedRunner(time_out=bad)).run(HOUR)

    simulation.runner.time_out = ()
    simulation.run(10 * 60, until=lambda: all(simulation.landed[tp] for tp in bad))

    assert all(simulation.landed[tp] for tp in bad)
    assert not simulation.in_flight.backoff.apart()


@pytest.mark.parametrize("outage", [60, 600])
def test_after_an_outage_all_topic_partitions_are_back_in_a_few_batches(outage: int) -> None:
    simulation = Simulation(topic("t", 5_000), SimulatedRunner(is_away=True)).run(outage)
    assert not simulation.landed

    simulation.runner.is_away, before, since = False, simulation.retries, simulation.now
    simulation.run(HOUR, until=lambda: len(simulation.landed) == 5_000)

    assert simulation.retries - before <= 4
    assert simulation.now - since < timedelta(minutes=10)


def test_one_topic_partition_that_kills_the_job_is_found_in_twice_as_many_batches_as_halvings() -> (
    None
):
    tps = topic("t", 10_000)
    simulation = Simulation(tps, SimulatedRunner(poisonous=[tps[6_789]]))

    simulation.run(HOUR, until=lambda: len(simulation.landed) == 9_999)

    assert set(tps) - set(simulation.landed) == {tps[6_789]}
    assert simulation.retries <= 2 * 14
    assert simulation.now - NOW < timedelta(minutes=5)


def test_what_failed_in_an_outage_is_tried_again_together_and_released_when_anything_lands() -> (
    None
):
    backoff = RetryBackoff()

    backoff.settle((), {A: SourceAway("away"), B: SourceAway("away")}, NOW)

    assert backoff.next_groups(NOW) == []
    assert backoff.next_groups(NOW + _SECOND) == [RetryGroup(frozenset({A, B}), is_new=True)]
    assert backoff.apart() == {A, B}
    backoff.settle({C}, {}, NOW + timedelta(seconds=2))
    assert backoff.apart() == set()


def test_what_fails_again_after_an_outage_was_over_is_tried_apart_from_the_others() -> None:
    backoff = RetryBackoff()
    backoff.settle((), {A: SourceAway("away")}, NOW)
    backoff.settle({C}, {}, NOW)

    backoff.settle((), {A: SourceAway("away")}, NOW)
    backoff.settle({C}, {}, NOW)

    assert backoff.apart() == {A}


def test_the_wait_doubles_with_each_failure_in_a_row_up_to_two_minutes() -> None:
    backoff, now, waits = RetryBackoff(), NOW, list[timedelta]()
    for _ in range(10):
        backoff.settle({B}, {A: Retry("broken")}, now)
        wait = next(
            timedelta(seconds=s) for s in range(200) if backoff.next_groups(now + s * _SECOND)
        )
        waits.append(wait)
        now += wait

    assert [w.total_seconds() for w in waits[:4]] == [1, 2, 4, 8]
    assert waits[-1] == MAX_WAIT


def test_retries_of_which_nothing_landed_again_are_followed_by_a_rest_as_long() -> None:
    backoff, long = RetryBackoff(), timedelta(seconds=60)
    backoff.settle({B}, {A: Retry("broken")}, NOW)
    backoff.settle((), {A: Retry("broken")}, NOW, took=long)

    backoff.settle((), {A: NotTried("given up")}, NOW, took=long)

    assert backoff.next_groups(NOW + long - _SECOND) == []
    assert len(backoff.next_groups(NOW + long)) == 1


def test_halves_of_a_failed_job_are_tried_one_after_the_other() -> None:
    backoff, tps = RetryBackoff(), topic("t", 4)

    backoff.settle((), dict.fromkeys(tps, BatchFailed("died")), NOW)

    groups = backoff.next_groups(NOW + _SECOND)
    assert [group.topic_partitions for group in groups] == [set(tps[:2]), set(tps[2:])]


def test_forgotten_failures_hold_nothing_up() -> None:
    backoff = RetryBackoff()
    backoff.settle({B}, {A: Retry("broken"), TopicPartition("u", 1): Retry("broken")}, NOW)

    backoff.forget()

    assert backoff.apart() == set()


_SECOND = timedelta(seconds=1)
