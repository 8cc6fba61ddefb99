"""A driver whose log has lost offsets reads them from what another group has landed."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any

from msgspec import structs

from landfall.api.contract import LANE, ExitCode
from landfall.api.verbs import Answer, Outcome, SkipRequest, UnblockRequest
from landfall.driver.process.loop import Driver
from landfall.driver.requests.lane_session import LaneSession
from landfall.errors import Reason, Retry, Stalled
from landfall.lane import Lane
from landfall.ledger import Commit, Hole
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import LandedSlice
from landfall.store.memory import MemoryStore
from landfall.task import Batch, FromBackup
from tests.support.driver.driver_events import ledger_state
from tests.support.driver.driver_status import status_of
from tests.support.driver.fake_backup import READ_FROM, FakeBackup
from tests.support.driver.fakes import NOW, FakeLog, FakeRunner, driver, group, landed_offsets
from tests.support.stores.lost_uploads import records_of, tags

A0, B0 = TopicPartition("a", 0), TopicPartition("b", 0)


@dataclass
class LosingRunner(FakeRunner):
    """A runner whose tasks read from the log what it has, and from the backup what it is told."""

    log: FakeLog = field(default_factory=FakeLog)
    backup: FakeBackup = field(default_factory=lambda: FakeBackup({}))
    read: list[tuple[Slice, str]] = field(default_factory=list)

    def _landed(self, batch: Batch, slice_: Slice, bad: int) -> LandedSlice:
        tp, source = slice_.topic_partition, dict(batch.from_backup).get(slice_)
        self.read.append((slice_, source.group if source else ""))
        if source is None:
            log_start = self.log.partitions[tp.topic][tp.partition].log_start
            if slice_.offsets.start < log_start:
                raise Stalled(Reason.DATA_LOSS, f"{slice_}: the log begins at {log_start}")
            return super()._landed(batch, slice_, bad)
        assert self.backup.has(tp, source.topic_id, slice_.offsets), slice_
        return structs.replace(super()._landed(batch, slice_, bad), read_from=source.group)


@dataclass
class Scene:
    """A group that has landed ten records of a topic, of which Kafka has lost the next twenty."""

    backup: FakeBackup
    otherwise: str = "Stall"
    store: MemoryStore = field(default_factory=MemoryStore)

    def __post_init__(self) -> None:
        self.log = FakeLog().write("a", 10)
        on_data_loss = {**READ_FROM, "otherwise": self.otherwise}
        kafka = {"bootstrapServers": "x:9092", "topicPattern": ".*", "onDataLoss": on_data_loss}
        self.group = group(source={"kafka": kafka})
        self.runner = LosingRunner(self.store, log=self.log, backup=self.backup)
        self.driver().run()
        self.log.write("a", 50, log_start=30)
        self.runner.read.clear()

    def driver(self, writer: str = "w", **changes: Any) -> Driver:
        made = driver(self.group, self.store, self.log, self.runner, writer=writer)
        deps = replace(made.deps, backup=self.backup)
        return Driver(
            self.group, made.writer, deps, lambda _: None, **{"until_caught_up": True} | changes
        )

    def run(self) -> tuple[Driver, ExitCode]:
        one = self.driver("w2")
        return one, one.run()

    @property
    def landed(self) -> list[int]:
        """Offsets that are visible, as often as they are."""
        return sorted(offset for _, _, offset in landed_offsets(self.store).elements())

    def records(self) -> list[Commit | Hole]:
        """What the ledger says of ranges."""
        return [each for each in records_of(self.store) if isinstance(each, Commit | Hole)]


def having(*ranges: tuple[int, int], **attributes: Any) -> FakeBackup:
    return FakeBackup({A0: [OffsetRange(*each) for each in ranges]}, **attributes)


def sources(scene: Scene) -> dict[str, set[int]]:
    """By where they were read from, the offsets that were landed since Kafka had lost some."""
    found: dict[str, set[int]] = {}
    for slice_, source in scene.runner.read:
        found.setdefault(source, set()).update(range(slice_.offsets.start, slice_.offsets.end))
    return found


def committed(scene: Scene) -> dict[str, list[int]]:
    """By what COMMITs say of where they were read from, the offsets, as often as they are there."""
    found: dict[str, list[int]] = {}
    for record in scene.records():
        if isinstance(record, Commit):
            for each in record.slices:
                offsets = range(each.piece.offsets.start, each.piece.offsets.end)
                found.setdefault(each.read_from or "", []).extend(offsets)
    return found


def test_lost_offsets_are_read_from_the_other_group_and_the_commit_says_so() -> None:
    scene = Scene(having((0, 40)))

    one, code = scene.run()

    assert code is ExitCode.OK
    assert scene.landed == [*range(50)]
    assert sources(scene) == {"backup": {*range(10, 30)}, "": {*range(30, 50)}}
    assert committed(scene) == {
        "": [*range(10), *range(30, 50)],
        "backup": [*range(10, 30)],
    }
    assert one.counters.from_backup == 20


def test_what_the_other_group_lacks_stalls_and_is_not_skipped() -> None:
    scene = Scene(having((0, 20), (25, 60)))

    one, code = scene.run()

    assert code is ExitCode.STALLED
    assert scene.landed == [*range(20)]
    stalled = one.stalled_partitions()[A0]
    assert stalled.reason is Reason.DATA_LOSS
    assert "offsets [20, 25) expired before they were landed" in str(stalled)


def test_what_nobody_has_is_skipped_exactly_if_the_spec_says_so() -> None:
    scene = Scene(having((0, 15), (20, 25)), otherwise="SkipAndRecord")

    _, code = scene.run()

    assert code is ExitCode.OK
    assert scene.landed == [*range(15), *range(20, 25), *range(30, 50)]
    holes = [record for record in scene.records() if isinstance(record, Hole)]
    assert [hole.piece.offsets for hole in holes] == [OffsetRange(15, 20), OffsetRange(25, 30)]
    assert {hole.reason for hole in holes} == {
        "expired before it was landed, and backup does not have it, either"
    }


def test_another_topic_of_the_same_name_is_not_read() -> None:
    scene = Scene(having((0, 40), topic_ids={"a": "another"}))

    one, code = scene.run()

    assert code is ExitCode.STALLED
    assert scene.landed == [*range(10)]
    assert one.stalled_partitions()[A0].reason is Reason.DATA_LOSS


def test_a_group_that_cannot_be_asked_stalls_these_topic_partitions_alone() -> None:
    scene = Scene(having((0, 40), error=Retry("its store does not answer")))
    scene.log.write("b", 5)

    one, code = scene.run()

    assert code is ExitCode.STALLED
    assert one.stalled_partitions()[A0].reason is Reason.SOURCE_UNAVAILABLE
    assert sources(scene) == {"": {*range(5)}}


def test_the_driver_lands_on_while_it_waits_for_an_answer() -> None:
    scene = Scene(having((0, 40)))
    scene.log.write("b", 5)
    one = scene.driver("w2")

    def until_b_is_landed() -> None:
        while ledger_state(scene.store).checkpoint.next_offsets.get(B0) != 5:
            pass

    scene.backup.gate = until_b_is_landed

    assert one.run() is ExitCode.OK
    assert {A0, B0} <= {tp for slice_, _ in scene.runner.read for tp in [slice_.topic_partition]}


def test_what_expires_between_look_and_read_is_looked_for_elsewhere() -> None:
    scene = Scene(having((0, 60)))
    of_log = scene.log.write("a", 50)  # nothing has expired as far as the driver can see

    def expire(_: object) -> None:
        of_log.write("a", 50, log_start=30)

    scene.runner.failures[A0] = [Stalled(Reason.DATA_LOSS, "offset 10 is gone")]
    original = scene.runner.run

    def run(batch: Batch, bins: Any) -> Any:
        expire(batch)
        return original(batch, bins)

    scene.runner.run = run  # type: ignore[method-assign]
    _, code = scene.run()

    assert code is ExitCode.OK
    assert scene.landed == [*range(50)]
    assert sources(scene)["backup"] == {*range(10, 30)}


def test_the_status_says_what_is_read_from_where() -> None:
    scene = Scene(having((0, 40)))
    seen: list[tuple[str, str]] = []
    one = scene.driver("w2")

    def report(_: object) -> None:
        status = status_of(one)
        seen.extend((p.read_from, status.message) for p in status.partitions if p.read_from)

    one.report = report
    one.run()

    assert ("backup", "Kafka has lost offsets [10, 30) of a/0: read from backup") in seen
    assert not one.progress().read_from


def test_what_the_other_group_landed_later_is_read_once_it_is_there() -> None:
    scene = Scene(having((0, 20), final=False))
    questions = scene.backup.asked

    def land_more() -> None:
        if sum(offsets.start == 20 for _, offsets in questions) >= 2:
            scene.backup.landed[A0] = [OffsetRange(0, 60)]

    scene.backup.gate = land_more
    one = scene.driver("w2", until_caught_up=False)
    one.report = _stop_when(one, lambda: len(scene.landed) == 50)

    assert one.run() is ExitCode.OK
    assert scene.landed == [*range(50)]
    assert not [record for record in scene.records() if isinstance(record, Hole)]


def _stop_when(one: Driver, is_done: Callable[[], bool]) -> Callable[[object], None]:
    def report(_: object) -> None:
        if is_done():
            one.stop("landed")

    return report


def test_lost_uploads_are_made_again_from_where_they_came() -> None:
    scene = Scene(having((0, 40)))
    one, piece = scene.driver("w2"), Slice(A0, OffsetRange(10, 30))
    batch = Batch(scene.group, "t", from_backup=((piece, FromBackup("backup", "id-a")),))
    (landed,) = scene.runner.run(batch, [(piece,)])
    assert isinstance(landed, LandedSlice)
    one._committer.append(partial(Commit, token=batch.token, slices=(landed,)))
    for each in landed.objects:
        scene.store.abort(each.upload.key, each.upload.upload_id)
    scene.runner.read.clear()

    assert scene.driver("w3").run() is ExitCode.OK

    assert scene.landed == [*range(50)]
    assert sources(scene) == {"backup": {*range(10, 30)}, "": {*range(30, 50)}}
    assert "Repair" in tags(scene.store)


def test_bad_records_of_what_is_read_elsewhere_can_be_allowed() -> None:
    scene = Scene(having((0, 40)))
    scene.runner.failures[A0] = [Stalled(Reason.BAD_RECORDS, "half of the records are bad")] * 2
    one, code = scene.run()
    assert (code, one.stalled_partitions()[A0].reason) == (ExitCode.STALLED, Reason.BAD_RECORDS)
    request = UnblockRequest(
        who="kim", why="known", topic="a", partition=0, bad_records_until=30, id="1"
    )

    answer = session(scene).carry_out(request, take_over=True)

    assert answer.outcome is Outcome.DONE, answer
    assert scene.driver("w3").run() is ExitCode.OK
    assert scene.landed == [*range(50)]


def test_skipping_leaves_out_what_nobody_has_and_no_more() -> None:
    scene = Scene(having((0, 20), (25, 60)))
    scene.run()
    skip = SkipRequest(who="kim", why="gone", topic="a", partition=0, id="1")

    answer = session(scene).carry_out(skip, take_over=True)
    again = session(scene).carry_out(structs.replace(skip, id="2"), take_over=True)

    assert answer.records == ("HOLE: a/0[20, 25) is not landed, 5 offsets",)
    assert again.outcome is Outcome.REFUSED
    assert "the log has lost offsets [25, 30), and they are read, or looked for," in again.message
    assert scene.driver("w3").run() is ExitCode.OK
    assert scene.landed == [*range(20), *range(25, 50)]


def test_what_cannot_be_asked_for_is_skipped_only_up_to_an_offset_that_is_named() -> None:
    scene = Scene(having((0, 60), error=Retry("its store does not answer")))
    skip = SkipRequest(who="kim", why="gone", topic="a", partition=0, id="1")

    refused = session(scene).carry_out(skip, take_over=True)
    named = session(scene).carry_out(structs.replace(skip, until=30), take_over=True)

    assert refused.outcome is Outcome.REFUSED
    assert "to skip them, give --until OFFSET" in refused.message
    assert named.records == ("HOLE: a/0[10, 30) is not landed, 20 offsets",)


def test_a_running_driver_skips_what_nobody_has_and_no_more() -> None:
    scene = Scene(having((0, 20), (25, 60)))
    one = scene.driver("w2", until_caught_up=False)
    skip = SkipRequest(who="kim", why="gone", topic="a", partition=0, id="1")
    answers: list[Answer] = []
    pool = ThreadPoolExecutor(1)

    def report(_: object) -> None:
        if A0 in one.stalled_partitions() and not answers:
            answers.append(Answer(Outcome.FAILED))
            asked.append(pool.submit(one.decide, skip))
        if len(scene.landed) == 45:
            one.stop("landed")

    asked: list[Future[Answer]] = []
    one.report = report

    assert one.run() is ExitCode.OK
    assert asked[0].result().records == ("HOLE: a/0[20, 25) is not landed, 5 offsets",)
    assert scene.landed == [*range(20), *range(25, 50)]


def session(scene: Scene) -> LaneSession:
    """What carries requests out without a driver."""
    lane, names = Lane(scene.store, "fake", LANE), count()
    backup, runner = scene.backup, scene.runner
    return LaneSession(
        scene.group, scene.store, lane, scene.log, runner, lambda: NOW,
        lambda: f"s{next(names)}-{len(backup.asked)}", backup=backup,
    )  # fmt: skip
