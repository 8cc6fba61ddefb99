"""Each file of an external feed is done once, whatever becomes of drivers and takers."""

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from landfall.api.contract import ExitCode
from landfall.api.verbs import FilesDoneRequest, LeaseAnswer, Outcome, TakeFilesRequest
from landfall.cli.decide.driver_control import DriverControl
from landfall.errors import Retry
from tests.support.files.feed_scene import TOPIC, FeedScene, rows
from tests.support.files.takers import Takers, done_numbers
from tests.support.landing.processes import TOKEN, Processes, free_port
from tests.support.waiting import wait_for

pytestmark = pytest.mark.xdist_group("drivers")

EXTERNAL = {"process": "External", "retryInterval": "1ms", "maxAttempts": 100}


@pytest.fixture
def takers(files: FeedScene, tmp_path: Path) -> Iterator[Takers]:
    """Takers without a driver, which end with the test."""
    found = Takers(files, tmp_path, lease_seconds=3, limit=2, feed=EXTERNAL)
    yield found
    found.stop()


def all_done(files: FeedScene, count: int) -> bool:
    leasing = files.feed.leasing
    return leasing is not None and leasing.done == count


def put(files: FeedScene, count: int) -> list[str]:
    names = [f"{n:03}.json" for n in range(count)]
    for n, name in enumerate(names):
        files.put(name, rows([n]))
    return names


def test_takers_without_a_driver_are_killed(files: FeedScene, takers: Takers) -> None:
    names = put(files, 12)
    assert files.land(**EXTERNAL) is ExitCode.OK
    assert files.feed.end == 12

    takers.start(2)
    wait_for(lambda: takers.said("taken"), "a taker has taken files")
    takers.kill(0)
    takers.start(1)
    wait_for(lambda: all_done(files, 12), "all files are done", 240)
    takers.stop()

    accepted = Counter(takers.said("done"))
    assert max(accepted.values()) == 1
    assert {*accepted} <= {*names}
    assert done_numbers(files) == Counter(range(12))
    assert files.landed() == Counter()
    assert files.faults() == []


def test_a_driver_is_killed_before_it_answers(
    files: FeedScene, processes: Processes, tmp_path: Path
) -> None:
    put(files, 3)
    port, token = free_port(), tmp_path / "token"
    token.write_text(TOKEN)
    control = ("--control-port", str(port), "--token-file", str(token))
    take = TakeFilesRequest(who="kim", topic=TOPIC, limit=2, id="t1")
    driver = DriverControl(f"http://127.0.0.1:{port}", TOKEN)
    killed = processes.struck(files.document(**EXTERNAL), "KILL after create LEASE", until=control)
    killed.wait_for(lambda: files.found() == 3, "the files are found")

    with pytest.raises(Retry):
        driver.ask(take)
    assert killed.end() == -9
    slot = next(iter(files.feed.leasing.open))  # type: ignore[union-attr]  # it is external
    again = processes.run(files.document(**EXTERNAL), *control, "--http-port", "0")

    answer = None

    def answered() -> bool:
        nonlocal answer
        try:
            answer = driver.ask(take)
        except Retry:
            return False
        return answer.outcome is Outcome.DONE

    again.wait_for(answered, "the next driver answers")

    assert isinstance(answer, LeaseAnswer)
    assert (answer.lease, [f.name for f in answer.files]) == (slot, ["000.json", "001.json"])
    done = FilesDoneRequest(who="kim", lease=slot, id="d1")
    assert driver.ask(done).outcome is Outcome.DONE
    assert driver.ask(FilesDoneRequest(who="lee", lease=slot)).outcome is Outcome.REFUSED
    processes.clear()
    assert done_numbers(files) == Counter(range(2))


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("has_driver", [True, False], ids=["driver", "sessions"])
def test_eight_takers_race_for_two_hundred_files(
    files: FeedScene, takers: Takers, processes: Processes, has_driver: bool
) -> None:
    names, luck = put(files, 200), Random(7)
    takers.limit, takers.lease_seconds = 5, 20
    port, token = free_port(), takers.folder / "token"
    token.write_text(TOKEN)
    control = ("--control-port", str(port), "--token-file", str(token), "--http-port", "0")
    if has_driver:
        takers.through_driver = True
        takers.driver_is_at(port)
        driver = processes.run(files.document(**EXTERNAL), *control)
        driver.wait_for(lambda: files.found() == 200, "the files are found")
    else:
        assert files.land(**EXTERNAL) is ExitCode.OK
    takers.start(8)

    deadline = time.monotonic() + 3000
    while not all_done(files, 200) and time.monotonic() < deadline:
        taken = len(takers.said("taken"))
        time.sleep(luck.random() * 5)
        if len(takers.said("taken")) == taken:
            continue  # whoever was started must get so far as to take something
        takers.kill(luck.randrange(len(takers.running)))
        takers.start(1)
        if has_driver and luck.random() < 0.2:
            processes.begun[-1].clear()
            processes.run(files.document(**EXTERNAL), *control)
    takers.stop()
    processes.clear()

    accepted = Counter(takers.said("done"))
    assert max(accepted.values()) == 1
    assert {*accepted} <= {*names}
    assert done_numbers(files) == Counter(range(200))
    assert files.faults() == []
