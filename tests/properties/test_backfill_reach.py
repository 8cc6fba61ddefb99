"""A backfill's plan is the same whether all that is landed is known, or what it may reach alone."""

from collections.abc import Callable
from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from landfall.driver.decide import choice_reach
from landfall.driver.decide.backfill import Backfill, SliceChoice, chosen
from landfall.driver.decide.choice_reach import ChoiceReach, chosen_within
from landfall.driver.decide.counting import Ranges
from landfall.driver.decide.landed_now import LandedNow
from landfall.errors import LandfallError
from landfall.ledger.effects import replaces
from tests.properties.test_what_counts import histories
from tests.support.examples import share
from tests.support.ledger.landed_history import GROUP, TIME, TOPIC, History


def at(slot: int) -> datetime:
    return datetime.fromisoformat(TIME.format(*divmod(slot, 60)))


@st.composite
def choices(draw: st.DrawFn, history: History) -> SliceChoice:
    slots = st.integers(0, history.now.slot + 1)
    keys = st.sets(st.sampled_from([*history.now.objects] or ["none"]), max_size=2)
    return SliceChoice(
        frozenset([TOPIC]) if draw(st.booleans()) else frozenset(),
        at(draw(slots)) if draw(st.booleans()) else None,
        at(draw(slots)) if draw(st.booleans()) else None,
        draw(st.sampled_from([range(0), range(0), range(1, 2), range(2, 9)])),
        draw(st.sampled_from([(), ("dt=a",), ("dt=b",), ("dt=c*",)])),
        frozenset(draw(keys)) if draw(st.booleans()) else frozenset(),
        is_sample=draw(st.booleans()),
    )


def within(history: History, ranges: Ranges) -> LandedNow:
    """What is landed of these ranges, from the records that a segment's index names, and more."""
    found = LandedNow(GROUP, ranges)
    for record, listed in history.records:
        is_wanted = all(map(found.concerns, replaces([record])))
        found.take(record, listed if is_wanted else None)
    return found


def reach(history: History, choice: SliceChoice) -> Ranges:
    found = ChoiceReach(GROUP, choice)
    for record, listed in history.records:
        found.take(record, listed)
    return found.ranges


def outcome(plan: Callable[[], Backfill]) -> Backfill | str:
    try:
        return plan()
    except LandfallError as error:
        return f"{type(error).__name__}: {error}"


def check(history: History, choice: SliceChoice) -> None:
    whole = outcome(lambda: chosen(history.now, choice))
    found = outcome(
        lambda: chosen_within(reach(history, choice), lambda r: within(history, r), choice)[1]
    )

    assert found == whole


@settings(max_examples=share(300), deadline=None)
@given(histories(), st.data())
def test_what_is_out_of_reach_changes_no_plan(history: History, data: st.DataObject) -> None:
    check(history, data.draw(choices(history)))


def mixed() -> History:
    """An object of dt=a with rows of both Kafka partitions, which were sorted."""
    history = History().add(0, 1).commit(0, ["a", "a"]).commit(1, ["a"] * 4).commit(0, ["b"])
    history.commit(1, ["c"])
    history.applied()
    history.merge([key for key in history.now.objects if "dt=a" in key], mixed=True)
    history.applied()
    return history


def test_an_object_that_cannot_be_cut_is_read_whole() -> None:
    history = mixed()

    check(history, SliceChoice(until=at(3)))


@pytest.mark.parametrize(
    ("broken", "choice"),
    [
        ("_hold", SliceChoice(output_partitions=("dt=b",))),
        ("_land", SliceChoice(since=at(5))),
        (
            "_replace",
            SliceChoice(keys=frozenset(key for key in mixed().now.objects if "/r" in key)),
        ),
    ],
)
def test_all_that_may_be_chosen_is_reached(
    broken: str, choice: SliceChoice, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(mixed(), choice)
    monkeypatch.setattr(ChoiceReach, broken, lambda *_: None)

    with pytest.raises(AssertionError):
        check(mixed(), choice)


def test_an_object_that_cannot_be_cut_is_read_whole_or_the_plan_is_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(choice_reach, "_widened", lambda ranges, _: ranges)

    with pytest.raises(AssertionError):
        check(mixed(), SliceChoice(until=at(3)))
