"""What the crash machine remembers of a store, on which its judge relies."""

import random

from landfall.ledger import digest
from landfall.store.memory import NoFaults
from tests.crashes.luck import Luck
from tests.crashes.world import WatchedStore
from tests.support.driver.fakes import NOW

RUN = b'{"type":"RUN"}'


def test_a_run_is_judged_by_what_was_visible_when_it_was_first_written() -> None:
    """Its slot may be rolled up and deleted before a delayed call creates it once more."""
    store = WatchedStore(NoFaults(), lambda: NOW, Luck.of(random.Random(1)))
    store.create("a/all/1_0_0.txt", b"1")
    store.create("slot", RUN)
    store.delete("a/all/1_0_0.txt")
    store.delete("slot")

    store.create("slot", RUN)

    assert "a/all/1_0_0.txt" in store.at_runs[digest(RUN)]
