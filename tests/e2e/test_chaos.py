"""A short run of ``make chaos``: it injects faults, and every record lands exactly once."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from dev.servers.cache import MissingTool
from dev.tour.place import TourPlace
from tests.chaos.__main__ import check
from tests.chaos.outcome import Outcome
from tests.conftest import CHAOS, SESSION

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(2400, func_only=True),
    pytest.mark.xdist_group("node"),
]


def test_two_minutes_of_chaos_land_every_record_exactly_once() -> None:
    place = TourPlace(Path(os.environ[SESSION]) / CHAOS)
    try:
        check(place)
    except MissingTool as missing:
        pytest.skip(str(missing))

    argv = [
        sys.executable,
        "-m",
        "tests.chaos",
        "--minutes",
        "2",
        "--seed",
        "1",
        "--state",
        str(place.folder),
    ]
    done = subprocess.run(
        argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )

    assert done.returncode == 0, done.stdout
    (file,) = place.folder.glob("runs/*/outcome.json")
    outcome = msgspec.json.decode(file.read_bytes(), type=Outcome)
    assert outcome.is_sound
    assert len(outcome.injected) > 10
