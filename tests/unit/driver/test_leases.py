"""Files of an external feed: given to takers by a driver that runs, and without one."""

import threading
from collections.abc import Iterator

import pytest

from landfall.api.spec import Feed
from landfall.api.verbs import (
    ExtendLeaseRequest,
    LeaseAnswer,
    LeasedFile,
    Outcome,
    ReturnFilesRequest,
)
from landfall.driver.feeds.feed_status import feed_status
from landfall.driver.feeds.leases import Leases
from landfall.driver.requests import lease_sessions
from landfall.driver.requests.lease_sessions import SESSION
from landfall.errors import Fenced
from landfall.lane import Lane, LaneWriter, OpenRequest
from landfall.ledger import Lease, LeaseOutcome, Snapshot
from tests.support.files.lease_scene import (
    TP,
    LeaseDriver,
    LeaseScene,
    done,
    failed,
    lease_of,
    names_of,
    new_name,
    take,
)
from tests.support.waiting import wait_for


@pytest.fixture
def scene() -> LeaseScene:
    return LeaseScene()


@pytest.fixture
def driver(scene: LeaseScene) -> Iterator[LeaseDriver]:
    """A driver that has found three files."""
    for name in "abc":
        scene.files.write(name, name.encode())
    with scene.driver() as driver:
        driver.until_found(3)
        yield driver


# ------------------------------------------------------------------------------- a running driver


def test_a_taker_gets_files_as_they_were_found(scene: LeaseScene, driver: LeaseDriver) -> None:
    answer = driver.ask(take("kim", 2, lease_seconds=60))

    assert isinstance(answer, LeaseAnswer)
    (slot,) = scene.leasing.open
    assert (answer.outcome, answer.lease) == (Outcome.DONE, slot)
    a, b = answer.files
    there = scene.files.find("a")
    assert there
    modified = there.modified.replace(microsecond=there.modified.microsecond // 1000 * 1000)
    expected = LeasedFile(0, "s3://bucket/in/a", "a", there.etag, 1, modified.isoformat(), 1)
    assert (a, b.name) == (expected, "b")
    assert scene.state.checkpoint[TP] == 0


def test_no_two_takers_get_one_file(driver: LeaseDriver) -> None:
    first, second = driver.ask(take("kim", 2)), driver.ask(take("lee", 2))

    assert (names_of(first), names_of(second)) == (["a", "b"], ["c"])
    nothing = driver.ask(take("joe"))
    assert (nothing.outcome, names_of(nothing)) == (Outcome.DONE, [])
    assert "there is nothing to take" in nothing.message


def counts(scene: LeaseScene) -> tuple[int, int, int, int]:
    """How many files are pending, taken, tried too often, and done."""
    spec = Feed(topic="hits", url="s3://in", max_attempts=2)
    found = feed_status(spec, scene.feed, 0, lambda _: None)
    return found.pending_files, found.taken_parts, found.undecided_parts, found.landed_parts


def test_what_is_done_is_never_given_again(scene: LeaseScene, driver: LeaseDriver) -> None:
    slot = lease_of(driver.ask(take()))

    assert driver.ask(done(slot, "a")).outcome is Outcome.DONE
    assert driver.ask(done(slot)).outcome is Outcome.DONE

    assert names_of(driver.ask(take())) == []
    assert counts(scene) == (0, 0, 0, 3)


def test_what_failed_is_given_again_after_a_while_and_at_last_not(
    scene: LeaseScene, driver: LeaseDriver
) -> None:
    slot = lease_of(driver.ask(take()))
    assert driver.ask(failed(slot, "b")).outcome is Outcome.DONE
    assert driver.ask(done(slot)).outcome is Outcome.DONE
    assert names_of(driver.ask(take())) == [], "it waits"

    scene.clock.pass_(minutes=5)
    again = driver.ask(take())
    assert isinstance(again, LeaseAnswer)
    assert [(f.name, f.attempt) for f in again.files] == [("b", 2)]
    driver.ask(failed(lease_of(again), "b"))
    scene.clock.pass_(minutes=5)

    assert names_of(driver.ask(take())) == []
    assert counts(scene) == (0, 0, 1, 2)
    said = "hits/0: 1 part of files not done, the first tried 2 times: not JSON"
    wait_for(lambda: said in driver.statuses[-1].message, "the status says so")


def test_what_is_given_back_is_given_again_at_once(driver: LeaseDriver) -> None:
    slot = lease_of(driver.ask(take()))

    back = ReturnFilesRequest(who="kim", lease=slot, numbers=(1,), id="r1")
    assert driver.ask(back).outcome is Outcome.DONE

    again = driver.ask(take())
    assert isinstance(again, LeaseAnswer)
    assert [(f.name, f.attempt) for f in again.files] == [("b", 1)]


def test_a_lease_that_is_too_late_is_over(scene: LeaseScene, driver: LeaseDriver) -> None:
    slot = lease_of(driver.ask(take(limit=1, lease_seconds=60)))
    driver.ask(ExtendLeaseRequest(who="kim", lease=slot, lease_seconds=600, id="e1"))
    scene.clock.pass_(seconds=300)
    assert driver.ask(done(slot, "c")).outcome is Outcome.REFUSED, "another's file"
    assert slot in scene.leasing.open

    scene.clock.pass_(seconds=301)
    wait_for(lambda: slot not in scene.leasing.open, "the lease is over")

    late = driver.ask(done(slot))
    assert (late.outcome, f"lease {slot} is over" in late.message) == (Outcome.REFUSED, True)
    scene.clock.pass_(minutes=5)
    again = driver.ask(take(limit=1))
    assert names_of(again) == ["a"]
    assert driver.ask(done(lease_of(again))).outcome is Outcome.DONE


def test_asking_again_has_the_effect_of_asking_once(scene: LeaseScene, driver: LeaseDriver) -> None:
    first = driver.ask(take(limit=1, id="t1"))
    again = driver.ask(take(limit=1, id="t1"))
    assert (lease_of(again), names_of(again)) == (lease_of(first), names_of(first))
    driver.ask(done(lease_of(first), id="d1"))
    driver.stop()

    with scene.driver() as other:
        said = other.ask(done(lease_of(first), id="d1"))
        over = other.ask(take(limit=1, id="t1"))

    assert (said.outcome, said.message) == (Outcome.DONE, "recorded before, under the id d1")
    assert (over.outcome, over.message) == (
        Outcome.REFUSED,
        "the lease that was asked for under the id t1 is over",
    )
    assert sum(isinstance(r, LeaseOutcome) for r in scene.records()) == 1


def test_another_driver_gives_the_same_lease_to_who_asks_again(
    scene: LeaseScene, driver: LeaseDriver
) -> None:
    first = driver.ask(take(limit=2, id="t1"))
    driver.stop()

    with scene.driver() as other:
        again = other.ask(take(limit=2, id="t1"))

    assert (lease_of(again), names_of(again)) == (lease_of(first), ["a", "b"])


def test_a_dry_run_takes_nothing(scene: LeaseScene, driver: LeaseDriver) -> None:
    answer = driver.ask(take("kim", 2, dry_run=True))

    assert answer.outcome is Outcome.DRY_RUN
    assert answer.records[0].startswith("LEASE: 2 files of hits/0 to kim until 2126-")
    assert scene.leasing.open == {}


def test_a_fenced_driver_refuses_nothing(scene: LeaseScene) -> None:
    scene.discovered("a")
    before = scene.state
    slot = lease_of(scene.ask(take()))
    request = done(slot)
    assert scene.ask(request).outcome is Outcome.DONE

    leases = Leases(scene.group(), scene.store)
    with pytest.raises(Fenced):
        leases.answer(request, before, scene.clock(), lambda _: before, lambda: True)


def test_names_of_files_must_be_in_the_lease(driver: LeaseDriver) -> None:
    slot = lease_of(driver.ask(take(limit=1)))

    wrong = driver.ask(done(slot, "b"))

    assert wrong.message == f"lease {slot}: has no file b, or not any more"


def test_a_version_that_was_replaced_while_it_was_taken_is_taken_out(
    scene: LeaseScene, driver: LeaseDriver
) -> None:
    scene.files.write("a", b"anew")
    driver.stop()
    with scene.driver(onChange="LandAgain") as again:
        again.until_found(4)
        slot = lease_of(again.ask(take(limit=1)))
        assert again.ask(failed(slot)).outcome is Outcome.DONE

        wait_for(lambda: not scene.feed.parked, "the old version is taken out")
        scene.clock.pass_(minutes=5)
        assert names_of(again.ask(take())) == ["b", "c", "a"]


def test_a_feed_cannot_change_its_purpose(scene: LeaseScene, driver: LeaseDriver) -> None:
    driver.stop()

    with scene.driver(process="Land") as other:
        said = "hits entered the ledger with process: External, which cannot become Land"
        wait_for(
            lambda: any(said in p.message for p in other.statuses[-1].partitions),
            "the status says so",
        )
        refused = other.ask(take())

    assert "no feed hits with process: External" in refused.message
    assert scene.state.checkpoint[TP] == 0


def test_a_group_has_the_feed_that_is_asked_for(driver: LeaseDriver) -> None:
    request = take()
    other = type(request)(who="kim", topic="other")

    assert "the group has no feed other" in driver.ask(other).message


# ------------------------------------------------------------------------------ without a driver


def test_files_are_taken_without_a_driver(scene: LeaseScene) -> None:
    scene.discovered("a", "b")

    slot = lease_of(scene.ask(take(limit=1)))
    assert scene.ask(done(slot)).outcome is Outcome.DONE

    second = scene.ask(take())
    assert names_of(second) == ["b"]
    assert scene.state.holding == "yielded"


def test_a_lease_that_is_too_late_ends_when_somebody_takes_files(scene: LeaseScene) -> None:
    scene.discovered("a")
    slot = lease_of(scene.ask(take(lease_seconds=1)))
    scene.clock.pass_(minutes=6)

    assert names_of(scene.ask(take())) == []
    assert slot not in scene.leasing.open
    scene.clock.pass_(minutes=5)
    assert names_of(scene.ask(take())) == ["a"]


def test_who_asks_while_a_driver_has_the_lane_is_sent_to_it(
    scene: LeaseScene, driver: LeaseDriver
) -> None:
    """It is not refused: that would say that what is done does not count."""
    answer = scene.ask(take())

    assert answer.outcome is Outcome.FAILED
    assert "a driver has the lane" in answer.message
    assert names_of(scene.ask(take(), take_over=True)) == ["a", "b", "c"]


def test_nothing_is_recorded_where_there_is_nothing_to_take(scene: LeaseScene) -> None:
    scene.discovered("a")
    scene.ask(take())
    before = scene.state.seq

    assert names_of(scene.ask(take())) == []
    assert scene.state.seq == before


def test_a_session_that_was_killed_is_fenced(
    scene: LeaseScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.discovered("a")
    monkeypatch.setattr(lease_sessions, "SESSION_PATIENCE", lease_sessions.SESSION_PATIENCE / 100)
    lane = Lane(scene.store, "fake", "0")
    LaneWriter.open(lane, OpenRequest(f"{SESSION}{new_name()}", 1, "test"), scene.clock)

    assert names_of(scene.ask(take())) == ["a"]


def test_takers_wait_for_each_other(scene: LeaseScene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_sessions, "WAIT", 0.01)
    names = [f"f{n:02}" for n in range(40)]
    scene.discovered(*names)
    got: dict[str, list[str]] = {f"t{n}": [] for n in range(4)}

    def work(who: str) -> None:
        while taken := names_of(answer := scene.ask(take(who, 3))):
            scene.ask(done(lease_of(answer)))
            got[who] += taken

    threads = [threading.Thread(target=work, args=(who,)) for who in got]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(name for each in got.values() for name in each) == names
    assert scene.leasing.done == 40


def test_sessions_store_snapshots(scene: LeaseScene) -> None:
    scene.discovered("a", "b")
    session = scene.session()
    tuning = session.group.spec.tuning.model_copy(update={"snapshot_every": 2})
    spec = session.group.spec.model_copy(update={"tuning": tuning})
    session.group.__dict__["spec"] = spec

    session.carry_out(take(limit=1), take_over=False)

    assert any(isinstance(r, Snapshot) for r in scene.records())
    assert any(isinstance(r, Lease) for r in scene.records())
    assert names_of(scene.ask(take())) == ["b"]
