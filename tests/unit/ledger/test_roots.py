"""Which keys are the ledger's, where that is in another root."""

import pytest

from landfall.ledger.object_names import dead_letter_key, ledger_prefix
from landfall.ledger.roots import is_ledger_key, may_be_of_ledger, may_be_of_objects, side_root

SIDE = side_root("shop", "fix")
DATA = "clicks/dt=2026-11-21/2_0_00000000000000000000.json"
LETTERS = dead_letter_key("shop", "clicks", 2, 0, 0)
SLOT = f"{ledger_prefix('shop', '0')}0000000001/0000000000.json"


@pytest.mark.parametrize("root", ["", f"{SIDE}/"])
@pytest.mark.parametrize(("key", "is_ledgers"), [(DATA, False), (LETTERS, False), (SLOT, True)])
def test_a_side_lane_is_divided_as_its_group(root: str, key: str, is_ledgers: bool) -> None:
    whole = f"{root}{key}"
    prefixes = [whole[:end] for end in range(len(whole) + 1)]

    assert is_ledger_key(whole) is is_ledgers
    assert all(map(may_be_of_ledger if is_ledgers else may_be_of_objects, prefixes))


def test_a_listing_of_one_root_does_not_ask_the_other() -> None:
    assert not may_be_of_objects(ledger_prefix("shop", "0"))
    assert not may_be_of_objects(f"{SIDE}/{ledger_prefix('shop', '0')}")
    assert not may_be_of_ledger(f"{SIDE}/clicks/")
