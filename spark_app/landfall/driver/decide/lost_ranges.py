"""Decide about offsets that Kafka has lost, by what another group has landed. Pure.

    what that group has        a batch reads it from there, and its COMMIT records it
    what it does not have      is skipped, as a HOLE, if the spec allows it, else it stalls
    what it has committed      waits until it is visible, however long that takes
    what it may still get      stalls; if the spec skips, only after ``PATIENCE``
    what is not known yet      waits: nothing is planned, and nothing is stalled

A HOLE cannot be taken back. So offsets that the other group has in a form which cannot be read are
never skipped, and neither are offsets that it may only not have committed yet.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from landfall.errors import LandfallError, Reason, Stalled
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.source import CoveredPrefix

PATIENCE = timedelta(minutes=10)
"""How long what the other group has not landed yet is waited for, before it counts as lost: it may
have read it before Kafka lost it, and commit it soon. What it has committed is waited for however
long its objects take to be visible.
"""


@dataclass(frozen=True, slots=True)
class BackupAnswer:
    """The answer about the first of the lost offsets of a topic partition.

    Attributes:
        answer: what the other group has, or why it could not be asked.
        asked: when it was asked.
        since: since when it lacks them; when it was asked if it has or has committed them.
    """

    answer: CoveredPrefix | LandfallError
    asked: datetime
    since: datetime

    def is_about(self, offset: int) -> bool:
        """Return whether the answer concerns this offset."""
        answer = self.answer
        if isinstance(answer, LandfallError):
            return True
        return answer.offsets.start <= offset < answer.offsets.end


@dataclass(frozen=True, slots=True)
class Settled:
    """The decision on lost offsets.

    Attributes:
        readable: offsets to read from the other group, from the checkpoint.
        holes: offsets that no group has, which the spec allows to skip.
        blocked: topic partitions that wait for a user, or for the other group, and why.
    """

    readable: Mapping[TopicPartition, OffsetRange]
    holes: tuple[Slice, ...]
    blocked: Mapping[TopicPartition, Stalled]


def settle(
    group: str,
    lost: Mapping[TopicPartition, OffsetRange],
    found: Mapping[TopicPartition, BackupAnswer],
    now: datetime,
    *,
    skips: bool,
) -> Settled:
    """Decide about lost offsets.

    Args:
        group: the name of the other group.
        lost: offsets that Kafka does not have, from the checkpoint.
        found: what is known of them; offsets without an answer wait.
        now: the time.
        skips: whether the spec skips what no group has.
    """
    readable: dict[TopicPartition, OffsetRange] = {}
    holes: list[Slice] = []
    blocked: dict[TopicPartition, Stalled] = {}
    for tp, offsets in lost.items():
        known = found.get(tp)
        if known is None or not known.is_about(offsets.start):
            continue
        match known.answer:
            case CoveredPrefix(offsets=stretch, why=None):
                readable[tp] = OffsetRange(offsets.start, min(stretch.end, offsets.end))
            case CoveredPrefix(offsets=stretch, why=why) if skips and _is_lost(known, now):
                holes.append(Slice(tp, OffsetRange(offsets.start, min(stretch.end, offsets.end))))
            case CoveredPrefix(offsets=stretch, why=Stalled() as why):
                lacking = OffsetRange(offsets.start, min(stretch.end, offsets.end))
                blocked[tp] = _stalled(tp, lacking, why, is_committed=known.answer.is_committed)
            case LandfallError() as error:
                blocked[tp] = _not_asked(group, tp, offsets, error)
    return Settled(readable, tuple(holes), blocked)


def _is_lost(known: BackupAnswer, now: datetime) -> bool:
    """Return whether no group has the offsets, or ever will."""
    answer = known.answer
    if not isinstance(answer, CoveredPrefix) or answer.why is None:
        return False
    # What cannot be taken back is decided from what is certain: a COMMIT stays, confirmed or not.
    is_absent = answer.why.reason is Reason.DATA_LOSS and not answer.is_committed
    return is_absent and (answer.is_final or now - known.since >= PATIENCE)


def _stalled(
    tp: TopicPartition, lacking: OffsetRange, why: Stalled, *, is_committed: bool
) -> Stalled:
    until_when = " yet" if is_committed else ""
    text = (
        f"{tp}: offsets {lacking} expired before they were landed, and cannot be read "
        f"elsewhere{until_when}"
    )
    return Stalled(why.reason, f"{text}: {why}")


def _not_asked(
    group: str, tp: TopicPartition, offsets: OffsetRange, error: LandfallError
) -> Stalled:
    reason = error.reason if isinstance(error, Stalled) else Reason.SOURCE_UNAVAILABLE
    return Stalled(
        reason,
        f"{tp}: offsets {offsets} expired before they were landed, and what {group} has landed of "
        f"them is not known: {error}",
    )
