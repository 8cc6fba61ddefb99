"""Gives files of external feeds to workers, and records the outcome.

``landfall.driver.decide.leases`` decides; here records are appended and lists are read. Everything
that a lease's answer needs is read before its LEASE is appended, so that no worker is given what
cannot be named. Used by the driver's thread alone, and by sessions without a driver.
"""

import logging
from collections.abc import Callable
from datetime import datetime

from landfall.api import spec
from landfall.api.contract import LANE
from landfall.api.verbs import (
    Answer,
    LeaseAnswer,
    LeasedFile,
    LeaseRequest,
    Outcome,
    TakeFilesRequest,
)
from landfall.discovery import part_lists
from landfall.discovery.feed_keys import FeedKeys
from landfall.driver.core.deps import Append
from landfall.driver.decide.leases import Known, PlannedLease, decide, expirations, iso
from landfall.driver.decide.requests import Refusal
from landfall.errors import Fenced
from landfall.ledger import OpenLease, PartList, State
from landfall.ledger.feeds.leases import find, part_to_lease
from landfall.ledger.feeds.part_lists import ListedPart
from landfall.ledger.offsets import TopicPartition
from landfall.store import Slots

log = logging.getLogger(__name__)

KEPT_LISTS = 8
"""How many lists of files stay in memory, the last ones read: takers ask for the same ones."""


class Leases:
    """Carries requests about files that are taken out.

    Args:
        group: the resource.
        slots: where lists are stored.
    """

    def __init__(self, group: spec.ConsumerGroup, slots: Slots) -> None:
        self._group = group.metadata.name
        self._slots = slots
        self._feeds = {TopicPartition(feed.topic, 0): feed for feed in group.spec.source.files}
        self._lists: dict[PartList, tuple[ListedPart, ...]] = {}

    def answer(
        self,
        request: LeaseRequest,
        state: State,
        now: datetime,
        append: Append,
        is_fenced: Callable[[], bool] = lambda: False,
    ) -> Answer:
        """Carry a request out.

        Args:
            request: what is asked for.
            state: of the lane.
            now: the time.
            append: appends the record.
            is_fenced: whether another driver has opened the lane since ``state``.

        Raises:
            Fenced: another driver has opened the lane.
            Retry: the store does not answer; nothing is recorded.
            Stalled: LEDGER_BROKEN, a list is gone or damaged.
        """
        plan = decide(
            state=state, feeds=self._feeds, request=request, now=now, numbers=self._numbers
        )
        match plan:
            case Refusal(message):
                # A successor may have recorded the very thing that this would deny.
                if is_fenced():
                    raise Fenced("another driver has opened the lane")
                return LeaseAnswer(Outcome.REFUSED, message=message)
            case Known(message, lease):
                return self._granted(
                    state=state, request=request, records=(), message=message, slot=lease
                )
        if request.dry_run:
            return LeaseAnswer(Outcome.DRY_RUN, (plan.text,))
        if isinstance(request, TakeFilesRequest):
            assert isinstance(plan, PlannedLease)
            self._read_lists(state, TopicPartition(request.topic, 0), plan.numbers)
        after = append(plan.make)
        slot = after.seq if isinstance(request, TakeFilesRequest) else request.lease
        return self._granted(
            state=after, request=request, records=(plan.text,), message="", slot=slot
        )

    def expire(self, state: State, now: datetime, append: Append) -> State:
        """End the leases whose time is over.

        Raises:
            Fenced: another driver has opened the lane.
        """
        for planned in expirations(state, now):
            state = append(planned.make)
            log.warning("lease expired", extra={"record": planned.text})
        return state

    def _granted(
        self,
        state: State,
        request: LeaseRequest,
        records: tuple[str, ...],
        message: str,
        slot: int | None,
    ) -> LeaseAnswer:
        tp = None if slot is None else find(state.feeds, slot)
        if tp is None or slot is None:
            return LeaseAnswer(Outcome.DONE, records, message)
        leasing = state.feeds[tp].leasing
        assert leasing
        lease = leasing.open[slot]
        files = self._files(tp, lease) if isinstance(request, TakeFilesRequest) else ()
        return LeaseAnswer(
            outcome=Outcome.DONE,
            records=records,
            message=message,
            lease=slot,
            until=iso(lease.until),
            files=files,
        )

    def _files(self, tp: TopicPartition, lease: OpenLease) -> tuple[LeasedFile, ...]:
        url = self._feeds[tp].url.rstrip("/")
        found = {n: self._part(tp, part.listed, n) for n, part in sorted(lease.parts.items())}
        return tuple(
            LeasedFile(
                number=number,
                url=f"{url}/{part.name}",
                name=part.name,
                etag=part.etag,
                size=part.size,
                modified=iso(part.modified),
                attempt=lease.parts[number].attempt + 1,
            )
            for number, part in found.items()
        )

    def _read_lists(self, state: State, tp: TopicPartition, numbers: tuple[int, ...]) -> None:
        for number in numbers:
            self._part(tp, part_to_lease(state.feeds[tp], number).listed, number)

    def _numbers(
        self, tp: TopicPartition, lease: OpenLease, names: tuple[str, ...]
    ) -> tuple[int, ...]:
        """See ``decide.leases.Numbers``."""
        if not names:
            return ()
        found: dict[str, int] = {}
        for number, part in lease.parts.items():
            name = self._part(tp, part.listed, number).name
            if name in names and name in found:
                raise ValueError(f"has two versions of {name}: name one by its number")
            found[name] = number
        if missing := [name for name in names if name not in found]:
            raise ValueError(f"has no file {missing[0]}, or not any more")
        return tuple(found[name] for name in names)

    def _part(self, tp: TopicPartition, listed: PartList, number: int) -> ListedPart:
        if listed not in self._lists:
            keys = FeedKeys(self._group, LANE, tp.topic)
            self._lists[listed] = part_lists.read(self._slots, keys, listed)
            while len(self._lists) > KEPT_LISTS:
                del self._lists[next(iter(self._lists))]
        return self._lists[listed][number - listed.first]
