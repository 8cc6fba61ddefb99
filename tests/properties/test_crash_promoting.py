"""The real loop and backfills that are promoted, under all that may become of both.

``tests.model.promoting`` has all orders in which plans and replays race, and a broken twin of each
rule. Here the same rules are those of drivers, stores and processes.
"""

import re

import pytest

from landfall.ledger.names import object_names
from landfall.ledger.replace import rewriting
from tests.crashes.playing import play_promotions
from tests.support.examples import schedules

SCHEDULES, CHUNKS = schedules(24), 3
IN_A_PLACE = re.compile("(_landfall)/([^/]*)/dead-letters@([0-9a-f]{16})/")
"""Which keys are in a place, but for those of copies."""
FIRST, SEARCHED = 38, 400
"""The first schedule that a broken rule is looked for in, and the last."""


@pytest.mark.law
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_whatever_is_landed_again_every_record_is_in_one_object(chunk: int) -> None:
    play_promotions(chunk * SCHEDULES // CHUNKS, (chunk + 1) * SCHEDULES // CHUNKS)


@pytest.mark.rest
def test_copies_of_dead_letters_must_not_leave_their_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_names, "_IN_A_PLACE", IN_A_PLACE)

    with pytest.raises(AssertionError, match=r"deleted without a copy: .*dead-letters@"):
        play_promotions(0, SEARCHED)


@pytest.mark.rest
def test_dead_letters_that_retired_must_not_be_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewriting, "why_not_replayed", lambda *_: "")

    with pytest.raises(AssertionError, match="make crash-hunt PROMOTIONS=1"):
        play_promotions(FIRST, SEARCHED)
