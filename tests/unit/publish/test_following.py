"""What a follower says between two positions: objects, complete topics, what is late."""

import pytest

from landfall.errors import Reason, Stalled
from landfall.lane import Lane
from landfall.ledger import Drop, Finalize, Horizon, Purpose
from landfall.ledger.offsets import TopicPartition
from landfall.publish import Finished
from landfall.publish.finished import Calendars
from landfall.publish.following import Follower
from tests.support.driver.fakes import group
from tests.support.ledger.sample_ledger import GROUP, LANE, SampleLedger
from tests.support.ledger.sample_replacing import Merge

CLICKS = TopicPartition("clicks", 0)
TIME = "2026-11-21T05:00:00+00:00"
DAY_END = 1_795_305_600_000
"""2026-11-22T00:00:00Z."""


def sample() -> SampleLedger:
    """Two COMMITs of a day, which is complete before either is visible."""
    made = SampleLedger().open().add(CLICKS)
    made.commit(made.land(CLICKS, 0, 5, latest_ms=DAY_END + 100))
    entries = (Horizon("clicks", DAY_END),)
    made.append(lambda h: Finalize(header=h, delay=10, looked=2 * DAY_END, entries=entries))
    return made.commit(made.land(CLICKS, 5, 8, latest_ms=DAY_END)).applied()


def follower(made: SampleLedger, max_objects: int = 100) -> Follower:
    return Follower(Lane(made.store, GROUP, LANE), max_objects)


def test_a_topic_is_complete_from_the_slot_on_at_which_all_before_is_visible() -> None:
    made = sample()

    (stretch,) = follower(made).stretches(-1)

    assert stretch.finished == (Finished(made.state.seq, "clicks", DAY_END, TIME),)
    assert [each.slot for each in stretch.objects] == [made.state.seq, made.state.seq]


def test_what_is_complete_is_said_once_wherever_a_follower_begins() -> None:
    made = sample()
    last = made.state.seq

    for after in range(-1, last):
        stretches = list(follower(made, max_objects=1).stretches(after))
        assert [f.until for s in stretches for f in s.finished] == [DAY_END], after
        assert stretches[0].horizons == {}
    made.open(generation=2)
    (stretch,) = follower(made).stretches(last)
    assert (stretch.finished, stretch.horizons) == ((), {"clicks": DAY_END})


def test_what_becomes_visible_later_in_a_complete_day_is_late() -> None:
    made = sample().open(generation=2)
    made.commit(made.land(CLICKS, 8, 9)).applied()
    calendars = Calendars(group().spec)

    (stretch,) = follower(made).stretches(-1)

    late = [each.landed.first_offset for each in calendars.late(stretch)]
    names = [period.directory for f in stretch.finished for period in calendars.periods(f)]
    assert late == [8]
    assert names == ["dt=2026-11-21"]


@pytest.mark.parametrize(("is_empty", "end"), [(False, "ends at slot"), (True, "is empty")])
def test_a_position_that_the_ledger_does_not_reach_is_of_another_ledger(
    is_empty: bool, end: str
) -> None:
    made = SampleLedger() if is_empty else sample()
    last = made.state.seq
    found = follower(made)
    found.check(last)

    for reader in (found, follower(made)):
        with pytest.raises(
            Stalled, match=f"slot {last + 1} is published, .* {end}.*--rebuild"
        ) as e:
            list(reader.stretches(last + 1))
        assert e.value.reason is Reason.LEDGER_BEHIND


@pytest.mark.parametrize("leaves", [False, True])
def test_an_undone_backfill_changes_rows_also_if_its_topic_partition_has_left(
    leaves: bool,
) -> None:
    made = SampleLedger().open().add(CLICKS)
    landed = made.land(CLICKS, 0, 5)
    made.commit(landed).shown()
    backfill = Merge.of(made, [(2, each) for each in landed.objects])
    backfill.record(purpose=Purpose.BACKFILL, retires_later=True).complete()
    made.shown()
    undo = Merge.of(made, [(backfill.slot, backfill.new.landed)])
    undo.record(purpose=Purpose.UNDO, undoes=backfill.slot, retires_later=True).complete()
    if leaves:
        made.append(lambda h: Drop(header=h, topic_partitions=(CLICKS,), reason="deleted"))
    made.shown()

    replaced = [each for part in follower(made).stretches(-1) for each in part.replaced][-1]

    assert (replaced.record, replaced.changes_rows) == (undo.slot, True)


def test_generations_of_ended_lifetimes_are_read_wherever_a_follower_begins() -> None:
    made = sample()
    for generation in (3, 5):
        made.open(generation).drop(CLICKS).add(CLICKS)
        made.commit(made.land(CLICKS, 0, 2)).shown()
    made.snapshot()
    made.add(TopicPartition("orders", 0)).shown()

    for after in (-1, made.state.seq - 1):
        *_, stretch = follower(made).stretches(after)
        assert stretch.ended("clicks") == {0: [1, 3]}
        assert stretch.ended("orders") == {}


def test_lifetimes_that_end_later_are_not_in_an_earlier_stretch() -> None:
    made = sample()
    reading = follower(made)
    (stretch,) = reading.stretches(-1)
    made.open(2).drop(CLICKS).applied()

    assert stretch.ended("clicks") == {}
    (stretch,) = reading.stretches(stretch.through)
    assert stretch.ended("clicks") == {0: [1]}
