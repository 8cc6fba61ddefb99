"""Problems of feeds and their files, for the driver's status and its log.

A feed that cannot be looked at is a problem of its own: it stops no other feed. A file that is left
out is named once in the log, and counted in the status.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from landfall import ledger
from landfall.api import spec
from landfall.api.values import plural
from landfall.discovery.looking import LookResult
from landfall.errors import LandfallError, Reason, Stalled, StoreDenied
from landfall.ledger.offsets import TopicPartition

log = logging.getLogger(__name__)

MAX_REMEMBERED = 10_000
"""Of how many files is remembered that the log names them; they are named again after so many."""
LOOK_PATIENCE = timedelta(minutes=2)
"""How long a feed may not be looked at before that is a problem of the group."""


def other_process(feed: spec.Feed) -> str:
    """Return why a feed is stopped whose ``process`` is another than when it entered the ledger."""
    was = "Land" if feed.is_external else "External"
    return (
        f"spec.source.files: {feed.topic} entered the ledger with process: {was}, which cannot "
        f"become {feed.process}: what is numbered is counted in another way. Give the files "
        "another topic"
    )


def files_problem(tp: TopicPartition, feed: ledger.FeedState, own: spec.Feed) -> Stalled | None:
    """Return what is wrong with files not landed; of external feeds, with what workers gave up."""
    if feed.leasing:
        failed = {n: p for n, p in feed.parked.items() if p.attempt >= own.max_attempts}
        return _parked(tp, replace(feed, parked=failed), "done") if failed else None
    return _parked(tp, feed) if feed.parked else None


def changed_problem(tp: TopicPartition, names: Sequence[str]) -> Stalled:
    """Return the problem of files that were rewritten after they were landed."""
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return Stalled(
        Reason.FILE_CHANGED,
        f"{tp}: {names[0]}{more} was written again after it was landed; `landfall files "
        "retry` lands the new file as a whole, `landfall files ignore` leaves it out; "
        "onChange: LandAgain or Ignore does so with all files from now on",
    )


def _parked(tp: TopicPartition, feed: ledger.FeedState, how: str = "landed") -> Stalled:
    first = feed.parked[min(feed.parked)]
    count = plural(len(feed.parked), "part")
    tries = plural(first.attempt, "time")
    return Stalled(
        Reason.FILE_UNREADABLE,
        f"{tp}: {count} of files not {how}, the first tried {tries}: {first.reason}",
    )


@dataclass(frozen=True, slots=True)
class _Failure:
    since: datetime
    last: datetime
    error: LandfallError


class FeedFailures:
    """The feeds of a group whose last look failed. Used by the driver's thread alone."""

    def __init__(self) -> None:
        self._failures: dict[TopicPartition, _Failure] = {}

    def add(self, tp: TopicPartition, error: LandfallError, now: datetime) -> None:
        """A look at this feed failed."""
        before = self._failures.get(tp, _Failure(now, now, error))
        self._failures[tp] = replace(before, last=now, error=error)

    def clear(self, tp: TopicPartition) -> None:
        """A look at this feed succeeded."""
        self._failures.pop(tp, None)

    def since(self, tp: TopicPartition, now: datetime) -> timedelta | None:
        """Return how long ago the last look failed; None if it did not."""
        return now - self._failures[tp].last if tp in self._failures else None

    def problems(self) -> dict[TopicPartition, Stalled]:
        """Return the problems of feeds that have failed for longer than ``LOOK_PATIENCE``."""
        return {
            tp: _look_problem(tp, failure.error)
            for tp, failure in sorted(self._failures.items())
            if failure.last - failure.since >= LOOK_PATIENCE
        }


def _look_problem(tp: TopicPartition, error: LandfallError) -> Stalled:
    reason = Reason.SOURCE_UNAVAILABLE
    if isinstance(error, StoreDenied):
        reason = Reason.SOURCE_DENIED
    elif isinstance(error, Stalled):
        reason = error.reason
    return Stalled(reason, f"{tp}: new files are not found: {error}")


class LeftOut:
    """The files of one feed that get no numbers although they are new or changed.

    Attributes:
        duplicates: how many the last listing of all names found that have the contents of another
            file.
        refused: how many it found whose name or size cannot be landed.
    """

    def __init__(self, feed: str) -> None:
        self._feed = feed
        self._logged: set[tuple[str, str]] = set()
        self._relisted: datetime | None = None
        self._is_relisting = False
        self._counted = 0
        self._counted_refused = 0
        self._first_refused = ""
        self.duplicates = 0
        self.refused = 0

    def sees(self, found: LookResult) -> None:
        """Take in what a look has found."""
        for name, why in found.skipped.reasons:
            if (name, why) not in self._logged:
                if len(self._logged) >= MAX_REMEMBERED:
                    self._logged.clear()
                self._logged.add((name, why))
                log.warning("file left out", extra={"feed": self._feed, "file": name, "why": why})
        self._count(found)

    @property
    def note(self) -> str:
        """A line for the status; empty if there is nothing to report."""
        lines = []
        if self.duplicates:
            files = plural(self.duplicates, "file")
            what = "left out by dedupe, as copies of another file"
            lines.append(f"{self._feed}: {files} {what}")
        if self.refused:
            files = plural(self.refused, "file")
            lines.append(
                f"{self._feed}: {files} left out: {self._first_refused}; give it another name, or "
                "write it in smaller files"
            )
        return "\n".join(lines)

    def _count(self, found: LookResult) -> None:
        """Count what a listing of all names finds, which may take several looks."""
        if found.position.relisted != self._relisted:
            self._relisted = found.position.relisted
            self._is_relisting = True
            self._counted = 0
            self._counted_refused = 0
            self._first_refused = ""
        if self._is_relisting:
            self._counted += found.skipped.duplicates
            self._counted_refused += found.skipped.refused
            self._first_refused = self._first_refused or found.skipped.first_refused
            self._is_relisting = found.has_more
            if not found.has_more:
                self.duplicates = self._counted
                self.refused = self._counted_refused
