"""Objects that take the place of others: recorded, carried out by whoever has the lane, undone."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import count
from threading import Event

import msgspec
import pytest

from landfall.api.contract import LANE, ExitCode
from landfall.api.verbs import Answer, Outcome, UndoRequest
from landfall.driver.core.deps import DECIDE_AGAIN_AFTER
from landfall.driver.replacing.cleaning_up import delete_expired
from landfall.driver.requests.lane_session import LaneSession
from landfall.errors import StoreAway, StoreDenied
from landfall.lane import Lane
from landfall.ledger import Replace, State, decode
from landfall.ledger.names import object_names
from landfall.objects import ObjectStat, Part, Upload
from landfall.publish.following import Follower
from landfall.store.memory import CallFault, MemoryStore, Operation, Scripted
from tests.support.driver.driver_thread import DriverThread
from tests.support.driver.fakes import (
    NOW,
    FakeLog,
    FakeRunner,
    group,
    landed_offsets,
    ticking,
    written_offsets,
)
from tests.support.ledger import older_names
from tests.support.ledger.merged import MergesOnce, is_of_replace
from tests.support.waiting import wait_for

GROUP = group().metadata.name
DAY, WEEK = timedelta(days=1), timedelta(days=7)


class Scene:
    """A driver that has landed several objects, and merges them once it may."""

    def __init__(
        self, store: MemoryStore, decide_again_after: timedelta = DECIDE_AGAIN_AFTER
    ) -> None:
        self.store, self.log = store, FakeLog().write("a", 25)
        self.decide_again_after = decide_again_after
        self.lane = Lane(store, GROUP, LANE)
        self.planners: list[MergesOnce] = []

    def start(self, revision: str) -> DriverThread:
        def planner(lane: Lane, _: Callable[[], object]) -> MergesOnce:
            self.planners.append(MergesOnce(self.store, lane))
            return self.planners[-1]

        return DriverThread(
            self.store,
            self.log,
            revision,
            new_planner=planner,
            decide_again_after=self.decide_again_after,
        ).start()

    def landed(self) -> DriverThread:
        """A driver to which everything is known to be visible, in two objects or more."""
        before = self.start("r0")
        before.until_landed()
        before.stop()
        driver = self.start("r1")
        driver.until_landed()
        assert len(self.objects()) >= 2
        return driver

    def merge(self) -> int:
        """Let the last driver merge; returns the slot, once it is carried out."""
        planner = self.planners[-1]
        planner.may = True
        wait_for(lambda: planner.slot >= 0, "a REPLACE")
        self.until_done()
        return planner.slot

    def until_done(self) -> None:
        """Return once nothing is being replaced, and readers know it."""
        wait_for(lambda: not is_replacing(self.state()), "everything replaced")

    def state(self) -> State:
        return self.lane.read()

    def objects(self) -> list[str]:
        keys = (stat.key for stat in self.store.list_after(""))
        return [key for key in keys if not object_names.is_system_key(key)]

    def kept(self) -> list[str]:
        prefix = object_names.retired_prefix(GROUP, LANE)
        return [stat.key for stat in self.store.list_after(prefix)]

    def is_whole(self) -> bool:
        return landed_offsets(self.store) == written_offsets(self.log)

    def session(self) -> LaneSession:
        names = count()
        return LaneSession(
            group(),
            self.store,
            self.lane,
            self.log,
            FakeRunner(self.store),
            ticking(),
            lambda: f"session-{next(names)}",
        )


def is_replacing(state: State) -> bool:
    """Whether new objects are decided, or old ones are left."""
    return bool(state.replacing or state.retiring)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def scene(store: MemoryStore) -> Scene:
    return Scene(store)


def asked(slot: int, **fields: object) -> UndoRequest:
    known = {"who": "kim", "why": "INC-12", "slot": slot}
    return UndoRequest(**{**known, **fields})  # type: ignore[arg-type]


def test_merged_objects_take_the_place_of_others_of_which_copies_are_kept(scene: Scene) -> None:
    driver = scene.landed()
    before = scene.objects()

    slot = scene.merge()

    (new,) = scene.objects()
    assert object_names.origin(GROUP, new).plan >= 0
    assert scene.kept() == [object_names.retired_key(GROUP, LANE, slot, key) for key in before]
    assert scene.state().applied_through >= slot
    assert scene.is_whole()
    assert driver.stop() is ExitCode.OK


class NoDelete(MemoryStore):
    """Refuses to delete landed objects, as a bucket policy or a lock does."""

    denies = True

    def retire(self, upload: Upload) -> None:
        if self.denies and upload.key.startswith("a/"):
            raise StoreDenied(f"DELETE {upload.key}: AccessDenied")
        super().retire(upload)


def test_readers_and_landing_go_on_while_nothing_that_retired_can_be_deleted() -> None:
    store = NoDelete()
    scene = Scene(store)
    driver = scene.landed()
    before = scene.objects()
    planner = scene.planners[-1]
    planner.may = True
    wait_for(lambda: bool(scene.state().retiring), "a REPLACE that is applied")

    for end in range(30, 30 + 5 * 45, 5):  # more COMMITs than ever may be unapplied
        scene.log.write("a", end)
        driver.until_landed()

    read = Follower(scene.lane)
    wait_for(lambda: not scene.state().unapplied, "every COMMIT visible for readers")
    retired = {o.upload.key for s in read.stretches(-1) for r in s.replaced for o in r.retired}
    assert retired == {*before}
    assert [*scene.state().retiring] == [planner.slot]
    message = driver.contender.deps.counters.message
    assert "nothing waits for it" in message
    assert "AccessDenied" in message
    left = driver.statuses[-1].replacing
    assert left.undeletable_objects == left.undeleted_objects == len(before)
    assert any(key in left.problem for key in before)
    assert any(key in message for key in before)
    assert driver.stop() is ExitCode.OK

    store.denies = False
    again = scene.start("r2")
    scene.until_done()
    assert not {*before} & {*scene.objects()}
    assert scene.is_whole()
    again.stop()


def test_what_is_not_deleted_yet_can_be_brought_back() -> None:
    store = NoDelete()
    scene = Scene(store)
    driver = scene.landed()
    planner = scene.planners[-1]
    planner.may = True
    wait_for(lambda: bool(scene.state().retiring), "a REPLACE that is applied")
    for key in scene.kept():
        store.delete(key)

    answer = driver.decide(asked(planner.slot))
    store.denies = False
    scene.until_done()

    assert answer.outcome is Outcome.DONE
    assert scene.is_whole()
    driver.stop()


def test_one_object_that_stays_does_not_keep_others() -> None:
    class KeepsFirst(MemoryStore):
        stays = ""

        def retire(self, upload: Upload) -> None:
            if upload.key == self.stays:
                raise StoreDenied(f"DELETE {upload.key}: AccessDenied")
            super().retire(upload)

    store = KeepsFirst()
    scene = Scene(store)
    driver = scene.landed()
    before = scene.objects()
    store.stays = before[0]
    scene.planners[-1].may = True

    wait_for(lambda: {*before} & {*scene.objects()} == {store.stays}, "all others deleted")

    driver.stop()


def test_a_list_that_is_gone_after_it_is_applied_stops_nobody() -> None:
    store = NoDelete()
    scene = Scene(store)
    driver = scene.landed()
    scene.planners[-1].may = True
    wait_for(lambda: bool(scene.state().retiring), "a REPLACE that is applied")
    driver.stop()
    ((_, pending),) = scene.state().retiring.items()
    store.delete(pending.listed.key)

    second = scene.start("r2")
    scene.log.write("a", 60)
    second.until_landed()

    wait_for(
        lambda: pending.listed.key in second.contender.deps.counters.message, "what is not deleted"
    )
    assert second.stop() is ExitCode.OK


def test_what_older_software_recorded_is_applied_once_the_old_objects_are_gone() -> None:
    store = NoDelete()
    scene = Scene(store)
    scene.landed().stop()
    plan = MergesOnce(scene.store, scene.lane, may=True).take()
    assert plan is not None
    record = plan.record(plan.stored(scene.store, scene.lane))
    scene.session().append(
        lambda _: (
            lambda header: msgspec.structs.replace(record(header=header), retires_later=False),
        ),
        "test",
    )
    (slot,) = scene.state().replacing

    driver = scene.start("r2")
    driver.until_landed()
    wait_for(lambda: "AccessDenied" in driver.contender.deps.counters.message, "a refusal")
    assert scene.state().applied_through < slot
    store.denies = False
    scene.until_done()

    assert scene.state().applied_through >= slot
    assert len(scene.objects()) == 1
    driver.stop()


class NoComplete(MemoryStore):
    """Refuses to make merged or restored objects visible, as a policy of names may."""

    denies = True

    def _finish_once(self, upload: Upload) -> None:
        if self.denies and is_of_replace(upload.key):
            raise StoreDenied(f"POST {upload.key}: AccessDenied")
        super()._finish_once(upload)


class NoAnswer(MemoryStore):
    """Does not answer when merged objects are to be made visible."""

    hangs = True

    def _finish_once(self, upload: Upload) -> None:
        if self.hangs and is_of_replace(upload.key):
            time.sleep(0.001)  # it is tried again at once, on the processor that the driver needs
            raise StoreAway(f"POST {upload.key}: timed out")
        super()._finish_once(upload)


def test_records_of_the_ledger_are_not_called_records_of_kafka() -> None:
    store = NoAnswer()
    scene = Scene(store)
    driver = scene.landed()
    scene.planners[-1].may = True

    status = driver.until(lambda status: "replacing" in status.message, "a REPLACE at work")
    store.hangs = False
    scene.until_done()

    assert status.message == "replacing objects: 1 ledger record"
    assert driver.stop() is ExitCode.OK


class Refused(Scene):
    """A driver that has recorded a merge, whose new object the store refuses."""

    def __init__(self, decide_again_after: timedelta = timedelta(0)) -> None:
        self.refusing = NoComplete()
        super().__init__(self.refusing, decide_again_after)

    def merging(self) -> DriverThread:
        driver = self.landed()
        self.planners[-1].may = True
        wait_for(lambda: bool(self.state().replacing), "a REPLACE")
        wait_for(lambda: "AccessDenied" in driver.contender.deps.counters.message, "a refusal")
        return driver

    def replaces(self) -> list[Replace]:
        records = (decode(seq, body) for seq, body in self.lane.bodies())
        return [record for record in records if isinstance(record, Replace)]


def test_readers_and_landing_go_on_while_new_objects_are_refused() -> None:
    scene = Refused()
    driver = scene.merging()
    before = scene.objects()

    for end in range(30, 30 + 5 * 45, 5):  # more COMMITs than ever may be unapplied
        scene.log.write("a", end)
        driver.until_landed()

    read = Follower(scene.lane)
    wait_for(lambda: not scene.state().unapplied, "every COMMIT visible for readers")
    stretches = [*read.stretches(-1)]
    assert not [r for s in stretches for r in s.replaced]
    assert {o.landed.upload.key for s in stretches for o in s.objects} == {*scene.objects()}
    assert {*before} < {*scene.objects()}
    first, *others = scene.replaces()
    assert others
    assert all(each.again and each.listed == first.listed for each in others)
    assert driver.contender.deps.counters.consecutive_failures == 0
    (slot,) = scene.state().replacing
    step = f"landfall undo GROUP.yaml {slot} --why '…'"
    driver.wake()
    found = driver.until(lambda status: status.replacing.next_step == step, step).replacing
    message = driver.contender.deps.counters.message
    assert (found.waiting, found.refused, "AccessDenied" in found.problem) == (1, 1, True)
    assert f"nothing waits for it. To give it up: `landfall undo {slot}`" in message
    assert driver.stop() is ExitCode.OK

    scene.refusing.denies = False
    last = scene.start("r2")
    scene.until_done()
    assert scene.is_whole()
    assert not {*before} & {*scene.objects()}
    undone = last.decide(asked(first.header.seq))
    assert undone.outcome is Outcome.DONE, undone
    scene.until_done()
    assert scene.is_whole()
    last.stop()


def test_nothing_is_decided_again_for_which_nothing_waits() -> None:
    scene = Refused()
    driver = scene.merging()

    for _ in range(20):
        driver.wake()

    assert len(scene.replaces()) == 1
    assert driver.stop() is ExitCode.OK


@pytest.mark.parametrize("where", ["a driver", "no driver"])
def test_what_is_refused_is_given_up_by_a_verb_and_may_be_replaced_again(where: str) -> None:
    scene = Refused(timedelta(hours=1))
    driver = scene.merging()
    before = scene.objects()
    (slot,) = scene.state().replacing
    dry = driver.decide(asked(slot, dry_run=True))
    part = driver.decide(asked(slot, output_partitions=("all",)))
    if where == "a driver":
        answer = driver.decide(asked(slot))
    else:
        driver.stop()
        answer = scene.session().carry_out(asked(slot), take_over=False)
        driver = scene.start("r2")
    scene.until_done()

    assert dry.outcome is Outcome.DRY_RUN
    assert (part.outcome, "as a whole only" in part.message) == (Outcome.REFUSED, True)
    assert answer.outcome is Outcome.DONE
    stay = f"REPLACE: {len(before)} objects stay, 1 new object discarded"
    assert answer.records == (f"{stay}, as slot {slot} is not applied",)
    assert scene.objects() == before
    assert [*scene.store.open_uploads("")] == []
    given_up, last = scene.replaces()
    assert last.decision is not None
    assert (last.slices, last.folders) == (given_up.slices, given_up.folders)
    again = driver.decide(asked(slot))
    assert (again.outcome, "nothing to undo" in again.message) == (Outcome.REFUSED, True)
    scene.refusing.denies = False
    driver.stop()
    driver = scene.start("r3")
    driver.until_landed()
    scene.merge()
    assert len(scene.objects()) == 1
    assert scene.is_whole()
    driver.stop()


class Overwritten(MemoryStore):
    """Somebody overwrites the first object that is to retire, just before or after it is copied."""

    armed = ""

    def _overwrite(self, key: str, moment: str) -> None:
        if self.armed == moment and key.startswith("a/") and not is_of_replace(key):
            self.armed = ""
            self.overwrite(key, b"by somebody else")
            self.overwritten = key

    def stat(self, key: str) -> ObjectStat | None:
        self._overwrite(key, "before")
        return super().stat(key)

    def retire(self, upload: Upload) -> None:
        self._overwrite(upload.key, "after")
        super().retire(upload)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_object_that_somebody_overwrote_stays_and_is_named(moment: str) -> None:
    store = Overwritten()
    scene = Scene(store)
    driver = scene.landed()
    store.armed = moment

    slot = scene.merge()

    foreign = store.overwritten
    assert store.read(foreign) == b"by somebody else"
    copy = object_names.retired_key(GROUP, LANE, slot, foreign)
    assert (store.read(copy) is not None) == (moment == "after")
    assert b"by somebody else" not in [store.read(key) for key in scene.kept()]
    wait_for(lambda: foreign in driver.contender.deps.counters.message, "its name in the status")
    assert driver.stop() is ExitCode.OK
    again = scene.start("r2")
    again.until_landed()
    assert again.stop() is ExitCode.OK


def test_an_undoing_does_not_wait_for_the_listing_of_kept_copies() -> None:
    class SlowList(MemoryStore):
        gate: Event | None = None

        def list_after(self, prefix: str, after: str = "") -> Iterator[ObjectStat]:
            if self.gate and "retired" in prefix:
                self.gate.wait(20)
            return super().list_after(prefix, after)

    store = SlowList()
    scene = Scene(store)
    before = scene.landed()
    slot = scene.merge()
    before.stop()
    store.gate = Event()
    driver = scene.start("r2")
    try:
        driver.until_landed()
        answer = driver.contender.decide(asked(slot, dry_run=True))
    finally:
        store.gate.set()

    assert answer.outcome is Outcome.DRY_RUN
    driver.stop()


def test_the_listing_of_kept_copies_ends_at_the_first_that_stays(scene: Scene) -> None:
    scene.landed()
    slot = scene.merge()
    later = object_names.retired_key(GROUP, LANE, slot + 1000, "a/all/1_0_0.json")
    scene.store.create(
        later, b""
    )  # of a slot that nobody can read: only the first one is looked at

    assert delete_expired(scene.lane, scene.state(), WEEK, NOW) == 0
    assert later in scene.kept()


def test_landing_goes_on_while_objects_are_replaced(scene: Scene) -> None:
    driver = scene.landed()
    scene.planners[-1].may = True
    scene.log.write("a", 90)

    driver.until_landed()
    wait_for(lambda: scene.planners[-1].slot >= 0, "a REPLACE")
    scene.until_done()

    assert scene.is_whole()
    driver.stop()


@pytest.mark.parametrize("where", ["a driver", "no driver"])
def test_what_was_merged_comes_back_under_new_names(scene: Scene, where: str) -> None:
    driver = scene.landed()
    before, slot = scene.objects(), scene.merge()
    (merged,) = scene.objects()
    if where == "a driver":
        answer = driver.decide(asked(slot))
    else:
        driver.stop()
        answer = scene.session().carry_out(asked(slot), take_over=False)
        driver = scene.start("r2")

    scene.until_done()

    assert answer.outcome is Outcome.DONE
    assert answer.records == (f"REPLACE: {len(before)} objects back, instead of 1 object",)
    assert len(scene.objects()) == len(before)
    assert not {*scene.objects()} & {*before, merged}
    assert scene.is_whole()
    body = scene.lane.read_slot(scene.state(), int(answer.message.rpartition(" ")[2]))
    assert body is not None
    record = decode(int(answer.message.rpartition(" ")[2]), body)
    assert isinstance(record, Replace)
    assert record.decision is not None
    assert (record.decision.verb, record.decision.who) == ("undo", "kim")
    driver.stop()


def test_an_undoing_can_be_undone(scene: Scene) -> None:
    driver = scene.landed()
    slot = scene.merge()
    undone = driver.decide(asked(slot))
    scene.until_done()

    again = driver.decide(asked(int(undone.message.rpartition(" ")[2])))
    scene.until_done()

    assert again.outcome is Outcome.DONE
    assert len(scene.objects()) == 1
    assert scene.is_whole()
    driver.stop()


def test_objects_with_names_of_older_software_are_merged_and_undone(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = scene.landed()
    with monkeypatch.context() as patched:
        patched.setattr(object_names, "renamed", older_names.renamed)
        first = scene.merge()
    driver.stop()
    assert [".r" in key for key in scene.objects()] == [True]

    scene.log.write("a", 40)
    driver = scene.start("r2")
    driver.until_landed()
    second = scene.merge()
    assert max(object_names.parse_key(key).plan for key in scene.objects()) >= first
    assert not any(".r" in key for key in scene.objects())
    slot_of(driver.decide(asked(second)))
    scene.until_done()
    slot_of(driver.decide(asked(first)))
    scene.until_done()

    assert len(scene.objects()) > 2
    assert scene.is_whole()
    driver.stop()


def slot_of(answer: Answer) -> int:
    """The slot of the REPLACE that an answer names."""
    assert answer.outcome is Outcome.DONE, answer
    return int(answer.message.rpartition(" ")[2])


def test_what_is_undone_already_is_refused_and_so_is_what_is_no_replacement(scene: Scene) -> None:
    driver = scene.landed()
    slot = scene.merge()
    undone = slot_of(driver.decide(asked(slot)))
    scene.until_done()

    refused = driver.decide(asked(slot))

    assert refused.outcome is Outcome.REFUSED
    assert f"replaced again in slot {undone}: undo that first (`landfall undo {undone}`)" in (
        refused.message
    )
    no_replace = driver.decide(asked(0))
    assert (no_replace.outcome, no_replace.message) == (Outcome.REFUSED, "slot 0 is no REPLACE")
    driver.stop()


def merge_again(scene: Scene, driver: DriverThread) -> int:
    """Land late objects, and merge them with what is merged; returns the slot."""
    scene.log.write("a", 30)
    driver.until_landed()
    wait_for(lambda: scene.state().applied_through == scene.state().seq - 1, "all known as applied")
    scene.planners[-1].slot = -1
    return scene.merge()


def test_an_earlier_merge_is_undone_after_the_later_one(scene: Scene) -> None:
    driver = scene.landed()
    before, first = scene.objects(), scene.merge()
    second = merge_again(scene, driver)

    refused = driver.decide(asked(first))
    undone = slot_of(driver.decide(asked(second)))
    scene.until_done()
    slot_of(driver.decide(asked(first)))
    scene.until_done()

    assert f"undo that first (`landfall undo {second}`)" in refused.message
    assert len(scene.objects()) > len(before)
    assert scene.is_whole()
    again = driver.decide(asked(undone))
    assert again.outcome is Outcome.REFUSED
    driver.stop()


def test_an_undoing_that_was_undone_is_no_obstacle(scene: Scene) -> None:
    driver = scene.landed()
    before, slot = scene.objects(), scene.merge()
    undone = slot_of(driver.decide(asked(slot)))
    scene.until_done()
    slot_of(driver.decide(asked(undone)))
    scene.until_done()

    slot_of(driver.decide(asked(slot)))
    scene.until_done()

    assert len(scene.objects()) == len(before)
    assert scene.is_whole()
    driver.stop()


def test_a_later_merge_that_lost_an_upload_is_no_obstacle(scene: Scene) -> None:
    driver = scene.landed()
    first = scene.merge()
    store = scene.store
    finish, lost = store._finish_once, set[str]()

    def lose(upload: Upload) -> None:
        is_kept = object_names.is_system_key(upload.key)
        plan = -1 if is_kept else object_names.parse_key(upload.key).plan
        is_new = plan >= 0 and plan != first
        if is_new and lost <= {upload.upload_id}:
            lost.add(upload.upload_id)
            store._uploads.pop(upload.upload_id, None)
        finish(upload)

    store._finish_once = lose  # type: ignore[method-assign]
    second = merge_again(scene, driver)

    assert lost
    nothing = driver.decide(asked(second))
    assert (nothing.outcome, "nothing to undo" in nothing.message) == (Outcome.REFUSED, True)
    slot_of(driver.decide(asked(first)))
    scene.until_done()
    assert scene.is_whole()
    driver.stop()


def test_a_dry_run_records_nothing(scene: Scene) -> None:
    driver = scene.landed()
    slot = scene.merge()
    seq = scene.state().seq

    answer = driver.decide(asked(slot, dry_run=True))

    assert answer == Answer(
        Outcome.DRY_RUN, (f"REPLACE: {len(scene.kept())} objects back, instead of 1 object",)
    )
    assert scene.state().seq == seq
    driver.stop()


def test_copies_expire_and_with_them_the_way_back(scene: Scene) -> None:
    driver = scene.landed()
    slot = scene.merge()
    state = scene.state()

    assert delete_expired(scene.lane, state, WEEK, NOW + WEEK / 2) == 0
    count_ = len(scene.kept())
    assert delete_expired(scene.lane, state, WEEK, NOW + 2 * WEEK) == count_ > 0

    assert scene.kept() == []
    answer = driver.decide(asked(slot))
    assert answer.outcome is Outcome.REFUSED
    assert "is gone: copies are kept for tuning.retainReplaced" in answer.message
    assert answer.message.endswith("land their ranges again by a backfill")
    assert scene.is_whole()
    driver.stop()


def test_copies_are_kept_from_when_a_replacement_was_applied_on(scene: Scene) -> None:
    scene.landed().stop()
    plan = MergesOnce(scene.store, scene.lane, may=True).take()
    assert plan is not None
    named = plan.stored(scene.store, scene.lane)
    scene.session().append(lambda _: (plan.record(named),), "test")

    driver = DriverThread(scene.store, scene.log, "r2", start_time=NOW + 8 * DAY).start()
    scene.until_done()

    state, kept = scene.state(), len(scene.kept())
    assert delete_expired(scene.lane, state, WEEK, NOW + 9 * DAY) == 0
    assert delete_expired(scene.lane, state, WEEK, NOW + 16 * DAY) == kept > 0
    driver.stop()


def test_copies_stay_as_long_as_old_objects_are_left() -> None:
    store = NoDelete()
    scene = Scene(store)
    driver = scene.landed()
    scene.planners[-1].may = True
    wait_for(lambda: bool(scene.kept()), "copies")

    assert delete_expired(scene.lane, scene.state(), WEEK, NOW + 30 * DAY) == 0

    driver.stop()


def test_the_next_driver_goes_on_with_what_a_former_one_has_recorded() -> None:
    script = Scripted({Operation.RETIRE: [CallFault.REQUEST_LOST] * 2})
    scene = Scene(MemoryStore(script))
    driver = scene.landed()
    scene.planners[-1].may = True
    wait_for(lambda: scene.planners[-1].slot >= 0, "a REPLACE")
    driver.stop()

    second = scene.start("r2")
    scene.until_done()

    assert len(scene.objects()) == 1
    assert scene.is_whole()
    second.stop()


def test_if_the_store_loses_an_upload_the_old_objects_stay(scene: Scene) -> None:
    driver = scene.landed()
    before = scene.objects()
    planner, store = scene.planners[-1], scene.store
    finish, lost = store._finish_once, set[str]()

    def lose(upload: Upload) -> None:
        if is_of_replace(upload.key) and lost <= {upload.upload_id}:
            lost.add(upload.upload_id)
            store._uploads.pop(upload.upload_id, None)
        finish(upload)

    store._finish_once = lose  # type: ignore[method-assign]
    planner.may = True
    wait_for(lambda: planner.slot >= 0, "a REPLACE")
    scene.until_done()

    assert scene.objects() == before
    assert scene.is_whole()
    assert [*store.open_uploads("")] == []
    records = [decode(seq, body) for seq, body in scene.lane.bodies()]
    replaces = [r for r in records if isinstance(r, Replace)]
    assert [r.instead for r in replaces] == [-1, planner.slot]
    refused = driver.decide(asked(replaces[-1].header.seq))
    assert (refused.outcome, "nothing to undo" in refused.message) == (Outcome.REFUSED, True)
    driver.stop()


def test_a_list_that_is_gone_stalls_the_driver(scene: Scene) -> None:
    driver = scene.landed()
    driver.stop()
    state = scene.state()
    planner = MergesOnce(scene.store, scene.lane, may=True)
    plan = planner.take()
    assert plan is not None
    session = scene.session()
    named = plan.stored(scene.store, scene.lane)
    session.append(lambda _: (plan.record(named),), "test")
    scene.store.delete(named.key)

    second = scene.start("r2")

    wait_for(lambda: second.code is not None, "the end of the driver")
    assert second.code is ExitCode.STALLED
    assert named.key in second.contender.deps.counters.message
    assert state.seq < scene.state().seq


def test_a_plan_that_is_too_old_is_refused_and_its_uploads_are_aborted(scene: Scene) -> None:
    driver = scene.landed()
    stale = MergesOnce(scene.store, scene.lane, may=True).take()
    assert stale is not None
    scene.merge()
    planner = scene.planners[-1]
    plans = [stale]
    planner.take = lambda: plans.pop() if plans else None  # type: ignore[method-assign]

    wait_for(lambda: bool(planner.refusals), "a refusal")

    assert "were replaced in slot" in planner.refusals[0]
    driver.stop()
    assert [*scene.store.open_uploads("")] == []


def test_what_retires_must_be_known_to_be_visible(scene: Scene) -> None:
    driver = scene.landed()
    plan = MergesOnce(scene.store, scene.lane, may=True).take()
    assert plan is not None

    why = plan.why_not(scene.state(), plan.listed.retire[0].slot - 1)

    assert "is not known to be visible yet" in why
    driver.stop()


class SlowCopy(MemoryStore):
    """Once it is armed, what is brought back is copied when the gate is open."""

    armed = False

    def __init__(self) -> None:
        super().__init__()
        self.began, self.gate = Event(), Event()

    def put_copy(self, key: str, upload_id: str, number: int, source: str, *piece: int) -> Part:
        if self.armed and "retired" in source:
            self.began.set()
            self.gate.wait(20)
        return super().put_copy(key, upload_id, number, source, *piece)


def test_what_is_merged_while_an_undoing_copies_gives_way() -> None:
    store = SlowCopy()
    scene = Scene(store)
    driver = scene.landed()
    before, slot = scene.objects(), scene.merge()
    planner, store.armed = scene.planners[-1], True
    scene.log.write("a", 30)
    driver.until_landed()

    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(driver.contender.decide, asked(slot))
        store.began.wait(20)
        planner.slot, planner.may = -1, True
        wait_for(lambda: bool(planner.refusals), "a refusal")
        store.gate.set()
        undone = slot_of(answer.result())
    scene.until_done()

    assert planner.refusals == ["gave way"]
    assert (planner.slot, len(scene.objects()) > len(before)) == (-1, True)
    planner.may = True
    wait_for(lambda: planner.slot > undone, "a REPLACE")
    scene.until_done()
    assert scene.is_whole()
    driver.stop()
