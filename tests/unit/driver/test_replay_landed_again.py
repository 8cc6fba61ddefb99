"""Replays of dead letters where a backfill has landed their records again."""

from dataclasses import replace

import pytest

from landfall.driver.requests.replay import Replayer
from landfall.ledger.offsets import OffsetRange
from landfall.ledger.replace.rewriting import Rewritten
from landfall.store.memory import MemoryStore
from tests.unit.driver.test_replay import A0, MemoryRunner, asked, group, landing, state


@pytest.mark.parametrize(
    ("slot", "plan", "message"),
    [
        (1, 1, "landed again by a backfill, or about to be: 1 dead-letter object"),
        (99, -1, "landed again by a backfill, or about to be: 1 dead-letter object"),
        (1, -1, ""),
    ],
)
def test_dead_letters_that_a_backfill_has_landed_again_are_left_out(
    slot: int, plan: int, message: str
) -> None:
    store = MemoryStore()
    landing(store, 1).stop()
    ranges = (Rewritten(OffsetRange(0, 30), slot, plan, 1),)
    known = replace(state(store), generation=2, rewritten={A0: ranges})
    replayer = Replayer(group(2), store, MemoryRunner(store), lambda: "unused")

    found = replayer.find(known, asked())

    assert (found.message, len(found.objects)) == (message, int(not message))
