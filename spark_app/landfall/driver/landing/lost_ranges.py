"""Reads offsets that Kafka has lost from what another group has landed, instead of skipping them.

The other group is asked in the background, so that its store, however slow, holds up nothing but
the topic partitions that need it. ``landfall.driver.decide.lost_ranges`` decides what follows.

Exactly once, wherever the records come from: a range is landed by one COMMIT, after which the
checkpoint is past it. A batch reads each slice as a whole from one of the two, by what the driver
knew when it planned it, and the COMMIT records which (``LandedSlice.read_from``). Both give the
same records: an offset of a topic, identified by its id, never has another record. See
``docs/adr/0031-lost-offsets-are-read-from-another-group.md``.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from landfall.api.spec import Source
from landfall.driver.core.background import Background
from landfall.driver.decide.lost_ranges import BackupAnswer, Settled, settle
from landfall.errors import LandfallError
from landfall.ledger import Member, State
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.plan import Backlog
from landfall.source import Backup, CoveredPrefix, Watermarks
from landfall.task import FromBackup

log = logging.getLogger(__name__)

ASKED_AGAIN = timedelta(seconds=30)
"""After this time what the other group has is asked again: it may have more, or less."""

Answers = Mapping[TopicPartition, CoveredPrefix | LandfallError]


@dataclass
class LostRanges:
    """Used by the driver's thread alone; the other group is asked in a thread of its own.

    Attributes:
        source: the spec.
        backup: what the other group has landed; None if the spec names none.
        background: makes that thread.
        wake: called, from any thread, when there is an answer.
    """

    source: Source
    backup: Backup | None
    background: Background
    wake: Callable[[], object]
    _lost: dict[TopicPartition, OffsetRange] = field(default_factory=dict)
    _found: dict[TopicPartition, BackupAnswer] = field(default_factory=dict)
    _settled: Settled = field(default_factory=lambda: Settled({}, (), {}))
    _members: Mapping[TopicPartition, Member] = field(default_factory=dict)
    _question: "Future[Answers] | None" = None

    def __post_init__(self) -> None:
        self._pool = self.background.pool(1, "backup")

    def look(
        self, state: State, lost: Mapping[TopicPartition, OffsetRange], now: datetime
    ) -> Settled:
        """Decide what to do about offsets that Kafka has lost, as far as it is known.

        Args:
            state: of the lane.
            lost: from the checkpoint to the log start, of topic partitions that are members.
            now: the time.
        """
        if self.backup is None:
            return self._settled
        self._lost = dict(lost)
        self._members = state.members
        self._take_answers(now)
        self._found = {tp: answer for tp, answer in self._found.items() if tp in lost}
        self._ask(now)
        before, skips = self._settled.readable, self.source.skips_lost_ranges
        self._settled = settle(self.backup.group, lost, self._found, now, skips=skips)
        for tp, offsets in self._settled.readable.items():
            if tp not in before:
                extra = {"slice": str(Slice(tp, offsets)), "group": self.backup.group}
                log.warning("lost range read from another group", extra=extra)
        return self._settled

    def readable(self, backlogs: Iterable[Backlog]) -> list[Backlog]:
        """Return the backlogs as far as they can be read from one source.

        What the log has lost and the other group has ends where the log begins, or before. Without
        an answer, or if no group has it, nothing is left.
        """
        if not self._lost:
            return list(backlogs)
        left = list[Backlog]()
        for backlog in backlogs:
            tp, at = backlog.topic_partition, backlog.offsets.start
            lost, found = self._lost.get(tp), self._settled.readable.get(tp)
            if lost is None or at >= lost.end:
                left.append(backlog)
            elif found and found.start <= at < found.end:
                left.append(backlog.up_to(min(found.end, backlog.offsets.end)))
        return left

    def sources(self, slices: Iterable[Slice]) -> tuple[tuple[Slice, FromBackup], ...]:
        """Return the planned slices that the log has lost, and where they are read from."""
        if self.backup is None or not self._lost:
            return ()
        found = list[tuple[Slice, FromBackup]]()
        for slice_ in slices:
            tp, lost = slice_.topic_partition, self._lost.get(slice_.topic_partition)
            if lost and slice_.offsets.start < lost.end:
                found.append((slice_, FromBackup(self.backup.group, self._members[tp].topic_id)))
        return tuple(found)

    @property
    def reading(self) -> Mapping[TopicPartition, str]:
        """Topic partitions that are read from another group now, and its name."""
        group = self.backup.group if self.backup else ""
        return dict.fromkeys(self._settled.readable, group)

    @property
    def nor_elsewhere(self) -> str:
        """The remark of a HOLE on the other group, if there is one."""
        return f", and {self.backup.group} does not have it, either" if self.backup else ""

    @property
    def note(self) -> str:
        """A line for the status; empty if nothing is lost."""
        readable = self._settled.readable
        if not self.backup or not readable:
            return ""
        tp, offsets = min(readable.items())
        more = f" and of {len(readable) - 1} more" if len(readable) > 1 else ""
        return f"Kafka has lost offsets {offsets} of {tp}{more}: read from {self.backup.group}"

    def lost_end(self, tp: TopicPartition, checkpoint: int) -> int | None:
        """Return the offset up to which no group has records, as far as is known.

        None if that is where the log begins.
        """
        lost = self._lost.get(tp)
        if lost is None or checkpoint >= lost.end:
            return None
        found = self._found.get(tp)
        if found is None or isinstance(found.answer, LandfallError):
            return checkpoint
        answer = found.answer
        is_lacking = answer.why is not None and not answer.is_committed
        is_lacking = is_lacking and found.is_about(checkpoint)
        return min(found.answer.offsets.end, lost.end) if is_lacking else checkpoint

    def stop(self) -> None:
        """Ask nothing more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    # --------------------------------------------------------------------------------------- asking

    def _take_answers(self, now: datetime) -> None:
        if self._question is None or not self._question.done():
            return
        question = self._question
        self._question = None
        for tp, answer in question.result().items():
            before = self._found.get(tp)
            is_same = before is not None and _is_lacking(before.answer, answer)
            self._found[tp] = BackupAnswer(answer, now, before.since if before and is_same else now)

    def _ask(self, now: datetime) -> None:
        backup = self.backup
        if self._question is not None or backup is None:
            return
        due = [
            (tp, self._members[tp].topic_id, offsets)
            for tp, offsets in sorted(self._lost.items())
            if tp in self._members and self._is_due(tp, offsets, now)
        ]
        if due:
            self._question = self._pool.submit(_answers, backup, due)
            self._question.add_done_callback(lambda _: self.wake())

    def _is_due(self, tp: TopicPartition, offsets: OffsetRange, now: datetime) -> bool:
        found = self._found.get(tp)
        is_known = found is not None and found.is_about(offsets.start)
        return not (is_known and found and now - found.asked < ASKED_AGAIN)


def _is_lacking(before: CoveredPrefix | LandfallError, now: CoveredPrefix | LandfallError) -> bool:
    """Return whether the same offset was lacking before; what is committed is not."""
    if isinstance(before, LandfallError) or isinstance(now, LandfallError):
        return False
    if before.is_committed or now.is_committed:
        return False
    return bool(before.why and now.why) and before.offsets.start == now.offsets.start


def _answers(
    backup: Backup, questions: Sequence[tuple[TopicPartition, str, OffsetRange]]
) -> Answers:
    return {tp: _answer(backup, tp, topic_id, offsets) for tp, topic_id, offsets in questions}


def _answer(
    backup: Backup, tp: TopicPartition, topic_id: str, offsets: OffsetRange
) -> CoveredPrefix | LandfallError:
    try:
        return backup.first_stretch(tp, topic_id, offsets)
    except LandfallError as error:
        return error


def lost_end(
    backup: Backup | None, state: State, tp: TopicPartition, marks: Watermarks | None
) -> int | None:
    """Return the same as ``LostRanges.lost_end``, but at once; ``marks`` are the log's."""
    at = state.checkpoint.next_offsets.get(tp)
    if backup is None or marks is None or at is None or marks.log_start <= at:
        return None
    lost = OffsetRange(at, marks.log_start)
    answer = _answer(backup, tp, state.members[tp].topic_id, lost)
    if isinstance(answer, LandfallError) or answer.why is None or answer.is_committed:
        return at
    return answer.offsets.end
