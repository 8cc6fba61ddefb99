"""A few turns of ``make chaos-replace``: drivers that merge are killed, readers miss nothing.

``make replacing-suite`` runs it.
"""

import sys
from pathlib import Path

import pytest

from tests.chaos.replacing import Replacing
from tests.support.landing.group import Scene

pytestmark = [pytest.mark.xdist_group("drivers"), pytest.mark.full]

TURNS = 4


def test_killed_merges_lose_and_repeat_nothing(scene: Scene, tmp_path: Path) -> None:
    run = Replacing(scene, tmp_path, seed=4, sorts=True)

    wrong = run.run(sys.maxsize, TURNS)

    assert wrong == []
    assert run.done["objects that retired"] > run.done["objects in their place"] > 0
    assert run.done["scans"] > 0
    assert run.done["listings"] > 0
