"""100,000 files, thousands of them late, half written, anew or broken, while drivers are killed."""

import signal
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest

from landfall.api.contract import ExitCode
from tests.support.files.feed_scene import FeedScene
from tests.support.files.flood import Flood, Share
from tests.support.files.flooding import FILES, LEAST_HARMS, SEED, SETTLE, harm, in_thread
from tests.support.files.takers import numbered
from tests.support.landing.processes import Process, Processes

pytestmark = [pytest.mark.full, pytest.mark.timeout(7200)]

OFTEN = {"discoveryInterval": "1s", "relist": "10s"}
FEED = {"onChange": "LandAgain", "maxAttempts": 2, "retryInterval": "5s"}


def document(files: FeedScene) -> dict[str, Any]:
    """Files are looked for all the time, and all names every ten seconds."""
    made = files.document(settle=SETTLE, **OFTEN, **FEED)
    made["spec"]["uploadPolicy"] = {"maxAge": "3s"}
    made["spec"]["tuning"] |= {"pollInterval": "500ms"}
    return made


def test_each_row_of_a_flood_of_files_is_landed_once(files: FeedScene, tmp_path: Path) -> None:
    flood, random, processes = Flood(Share.of(FILES), SEED), Random(SEED), Processes(tmp_path)
    frozen: Process | None = None
    harms = 0
    try:
        with in_thread(flood, files.put) as writing:
            while writing.is_alive() or harms < LEAST_HARMS:
                driver = processes.run(document(files), "--http-port", "0")
                time.sleep(random.uniform(15, 60))
                if frozen:
                    frozen.send(signal.SIGCONT)
                    assert frozen.end() == ExitCode.FENCED, frozen.said
                assert driver.popen.poll() is None, driver.said
                frozen, harms = harm(driver, random), harms + 1
    finally:
        processes.clear()

    for _ in range(3):  # damaged files are tried once more, and then no more
        assert files.land(**FEED) is ExitCode.STALLED

    print(f"{FILES} files, {harms} drivers killed or frozen, {files.feed.end} parts numbered")
    assert flood.wrong(files.landed()) == []
    names = numbered(files)
    assert {names[number].name for number in files.feed.parked} == flood.broken
    assert {part.attempt for part in files.feed.parked.values()} == {2}
    assert files.faults() == []
