"""The real loop and all features in one world: whatever meets, what holds of each holds of all.

Each of the tests after the first breaks one rule that only matters where two features meet.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from landfall.checks import replacements as checks
from landfall.checks.objects import NamedObject
from landfall.driver.backfill import side_lane
from landfall.driver.decide.undoing import Obstacle
from landfall.driver.landing.goals import WHATEVER_COMES, UntilOffsets
from landfall.driver.replacing.grace_period import GracePeriod
from landfall.driver.replacing.undo import _Ledger
from landfall.landed.pieces import Counting
from landfall.lane.replacements import read_replaced
from landfall.publish.tables import TablePublisher
from tests.crashes.pairs import Feature, played
from tests.crashes.playing import play_pairs
from tests.crashes.verbs import Verb, came_through
from tests.support.examples import schedules
from tests.support.ledger import merged

Patch = pytest.MonkeyPatch
SCHEDULES, CHUNKS = max(schedules(60), 15), 3
SEARCHED = 100
"""Schedules in one of which a broken rule must show."""
VERBS: Mapping[Verb, int] = {
    Verb.UNDO: 40,
    Verb.GIVE_UP: 3,
    Verb.PROMOTE: 5,
    Verb.DISCARD: 0,
    Verb.DISCARD_STUCK: 8,
    Verb.REPLAY: 9,
}
"""Where the search begins for a schedule in which a verb comes through."""


@pytest.mark.law
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_whatever_meets_every_record_is_in_one_object(chunk: int) -> None:
    found = Counter[Feature]()

    for schedule in play_pairs(chunk * SCHEDULES // CHUNKS, (chunk + 1) * SCHEDULES // CHUNKS):
        found.update(played(schedule))

    assert {Feature.COMPACTION, Feature.ROLLING} <= found.keys()


@pytest.mark.parametrize("verb", Verb)
def test_each_verb_of_the_way_out_comes_through(verb: Verb) -> None:
    first = VERBS[verb]

    schedules = play_pairs(first, first + SEARCHED)

    assert any(verb in came_through(schedule) for schedule in schedules)


def _waits_for_no_publisher(patch: Patch) -> None:
    """Old objects are deleted though a table has their rows."""
    init: Callable[..., None] = GracePeriod.__init__

    def alone(self: GracePeriod, **arguments: Any) -> None:
        init(self, **{**arguments, "publishers": {}})

    patch.setattr(GracePeriod, "__init__", alone)


def _a_trial_ends_early(patch: Patch) -> None:
    """The driver of a trial calls its ranges landed as soon as nothing is in flight."""

    def advance(self: UntilOffsets, *_: object, is_landed: bool) -> None:
        self.is_done = is_landed

    patch.setattr(UntilOffsets, "advance", advance)


def _a_trial_lands_on(patch: Patch) -> None:
    """The driver of a trial lands what comes after its ranges, too."""
    patch.setattr(UntilOffsets, "due", property(lambda _: WHATEVER_COMES, lambda *_: None), False)


def _a_trial_gives_up(patch: Patch) -> None:
    """The driver of a trial ends as if its ranges could not be landed."""

    def advance(self: UntilOffsets, *_: object, is_landed: bool) -> None:
        self.is_done, self.left = is_landed, ["a"]

    patch.setattr(UntilOffsets, "advance", advance)


def _tables_keep_what_retires(patch: Patch) -> None:
    """What is replaced is not taken out of tables."""
    patch.setattr(TablePublisher, "_retired_by_table", lambda *_: {})


def _names_no_remedy(patch: Patch) -> None:
    """A refused undo does not name what to undo first."""
    patch.setattr(_Ledger, "_in_the_way", lambda *_: "objects were replaced again since")


def _names_a_remedy_in_vain(patch: Patch) -> None:
    """A refused undo names itself as what to undo first."""

    def in_the_way(_: _Ledger, __: Obstacle, slot: int, ___: frozenset[str]) -> str:
        return f"objects were replaced again: undo that first (`landfall undo {slot}`)"

    patch.setattr(_Ledger, "_in_the_way", in_the_way)


def _has_no_grace_period(patch: Patch) -> None:
    """Old objects are deleted at once, though readers have listed them."""
    patch.setattr(GracePeriod, "over", lambda _, state, __: frozenset(state.retiring))


def _leaves_what_is_discarded(patch: Patch) -> None:
    """What a discarded backfill has landed stays."""
    patch.setattr(side_lane, "is_landfall_object", lambda *_: False)


def _uses_what_is_discarded(patch: Patch) -> None:
    """A backfill that was discarded may be run again."""
    patch.setattr(side_lane, "_check_not_discarded", lambda *_: None)


def _calls_what_waits_a_fault(patch: Patch) -> None:
    """``fsck`` finds fault with old objects during their grace period."""
    check_stayed: Callable[..., Any] = checks.check_stayed

    def check(group: str, state: Any, named: NamedObject) -> Any:
        return check_stayed(group, state, NamedObject(named.slot, named.landed, named.applied))

    patch.setattr("landfall.cli.objects.fsck.check_stayed", check)


def _a_log_has_what_retired(patch: Patch) -> None:
    """Another group reads objects that are replaced."""
    patch.setattr(Counting, "_replace", lambda *_: None)


def _reads_what_retired(patch: Patch) -> None:
    """A reader of the ledger takes objects that are replaced for some that count."""
    patch.setattr(merged, "read_replaced", lambda *at: replace(read_replaced(*at), retire=()))


def _reads_nothing_new(patch: Patch) -> None:
    """A reader of the ledger takes out what is replaced, and takes in nothing."""
    patch.setattr(merged, "read_replaced", lambda *at: replace(read_replaced(*at), objects=()))


@pytest.mark.rest
@pytest.mark.parametrize(
    ("without", "message", "first"),
    [
        (_reads_what_retired, "by the ledger these rows count twice", 2),
        (_reads_nothing_new, "by the ledger these rows counted, and do not", 9),
        (_a_trial_ends_early, "trial-.*lacks", 2),
        (_a_trial_lands_on, "trial-.*too much", 2),
        (_a_trial_gives_up, "trial-.*is not landed", 2),
        (_waits_for_no_publisher, "is deleted, and a table has its rows", 26),
        (_tables_keep_what_retires, "published too often", 3),
        (_calls_what_waits_a_fault, "fsck finds", 1),
        (_a_log_has_what_retired, "holds .*, and is not there", 6),
        (_names_no_remedy, "undo is refused, and nothing helps", 6),
        (_names_a_remedy_in_vain, "undo is refused, and its remedy leads back", 6),
        (_has_no_grace_period, "who lists for a moment misses", 40),
        (_leaves_what_is_discarded, "is discarded, and leaves", 0),
        (_uses_what_is_discarded, "is discarded, and has a plan still", 0),
    ],
)
def test_each_rule_of_pairs_is_needed(
    without: Callable[[Patch], None], message: str, first: int, monkeypatch: Patch
) -> None:
    without(monkeypatch)

    with pytest.raises(AssertionError, match=message) as fallen:
        for _ in play_pairs(first, first + SEARCHED):
            pass
    assert "make crash-hunt PAIRS=1" in str(fallen.value)
