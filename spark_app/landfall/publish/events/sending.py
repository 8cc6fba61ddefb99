"""Sends events to a destination that has no transactions: each at least once, in order.

Accepted events are not sent again: the publisher remembers them, and stores the position next to
the ledger every few seconds. A killed one sends again what it sent since. A receiver recognizes
repeats by the source and the id of the event.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Protocol

from landfall.api.words import did_you_mean
from landfall.publish import Published, Stretch
from landfall.publish.cursor import Position, PublisherCursor
from landfall.publish.events import Event, EventKind, Events
from landfall.publish.following import Follower

ANEW = Position(-1, {"anew": 0})
"""The position of a publisher that starts again: unlike a new one, it skips nothing."""
START = ("Beginning", "Now")
"""The values of the option ``start``."""
KEPT_SECONDS = 5.0
"""How often the position is stored while a long stretch is sent."""


class Sender(Protocol):
    """Sends events to a destination."""

    def send(self, events: Sequence[Event]) -> None:
        """Send these events, at most ``batch``; they are of one slot or several.

        Raises:
            Retry: the destination does not answer, or the outcome is unknown.
            Stalled: a user has to change something.
        """
        ...


@dataclass
class EventPublisher:
    """Publishes events at least once; see ``Publisher``.

    Attributes:
        events: what is sent.
        cursor: the hint at the position.
        sender: sends it.
        batch: how many events are sent at a time.
        starts_now: whether a new publisher skips what landed before.
        monotonic: counts seconds from any start.
    """

    events: Events
    cursor: PublisherCursor
    sender: Sender
    batch: int = 1
    starts_now: bool = False
    monotonic: Callable[[], float] = time.monotonic
    _sent: "_Sent | None" = field(default=None, init=False)

    def publish(self, follower: Follower) -> Published:
        """See ``Publisher``."""
        at = self.cursor.read()
        if self.starts_now and at == Position():
            last = last_slot(follower)
            at = Position(last) if last >= 0 else ANEW  # before the ledger, nothing is left out
            self.cursor.write(at)
        done = Published(at.through)
        for stretch in follower.stretches(done.through):
            self._send(stretch)
            self.cursor.write(Position(stretch.through))
            done.through, done.slots = stretch.through, done.slots + stretch.through - stretch.after
            done.objects += len(stretch.objects)
        return done

    def position(self) -> int:
        """See ``Publisher``."""
        return self.cursor.read().through

    def preview(self, follower: Follower) -> Iterator[str]:
        """See ``Publisher``."""
        for stretch in follower.stretches(self.cursor.read().through):
            for event in self.events.of(stretch):
                yield str(event)

    def reset(self, follower: Follower) -> None:  # noqa: ARG002  # of the protocol
        """See ``Publisher``."""
        self._sent = None
        self.cursor.write(ANEW)

    def _send(self, stretch: Stretch) -> None:
        """Send the events of a stretch, without those that are sent already."""
        sent = self._sent
        if sent is None or sent.after != stretch.after:
            sent = _Sent(stretch.after, stretch.after, 0)
        kept_at = self.monotonic()
        for batch in batched(_without(self.events.of(stretch), sent), self.batch):
            self.sender.send(batch)
            sent = self._sent = sent.then(batch)
            if self.monotonic() - kept_at > KEPT_SECONDS and sent.slot - 1 > sent.after:
                # Everything before the slot is sent, and perhaps not all of the slot.
                self.cursor.write(Position(sent.slot - 1))
                sent = self._sent = replace(sent, after=sent.slot - 1)
                kept_at = self.monotonic()


@dataclass(frozen=True, slots=True)
class _Sent:
    """The progress after a position: everything before a slot, and its first events."""

    after: int
    slot: int
    count: int

    def then(self, events: Sequence[Event]) -> "_Sent":
        last = events[-1].slot
        count = sum(event.slot == last for event in events)
        return _Sent(self.after, last, count + self.count if last == self.slot else count)


def _without(events: Iterable[Event], sent: _Sent) -> Iterator[Event]:
    of_slot = 0
    for event in events:
        of_slot += event.slot == sent.slot
        if event.slot > sent.slot or (event.slot == sent.slot and of_slot > sent.count):
            yield event


def batched(events: Iterable[Event], size: int) -> Iterator[list[Event]]:
    """The events in lists of ``size``; the last may be shorter."""
    left = iter(events)
    while batch := list(islice(left, size)):
        yield batch


def event_kinds(
    names: Sequence[str],
    default: Iterable[EventKind] = tuple(EventKind),
    allowed: Sequence[EventKind] = tuple(EventKind),
) -> frozenset[EventKind]:
    """The kinds that the option ``events`` names; the default if it names none.

    Raises:
        ValueError: there is no such kind, or the publisher does not send it.
    """
    known = [str(kind) for kind in allowed]
    for name in names:
        if name not in known:
            near = did_you_mean(name, known)
            raise ValueError(f"option events: must be of {', '.join(known)}, got {name!r}{near}")
    return frozenset(map(EventKind, names)) or frozenset(default)


def last_slot(follower: Follower) -> int:
    """The last slot of the ledger; -1 if it is empty."""
    return max((stretch.through for stretch in follower.stretches(-1)), default=-1)


def starts_now(start: str) -> bool:
    """Return whether the option ``start`` skips what landed before the publisher was new.

    Raises:
        ValueError: there is no such start.
    """
    if start not in START:
        near = did_you_mean(start, START)
        raise ValueError(f"option start: must be {' or '.join(START)}, got {start!r}{near}")
    return start == "Now"
