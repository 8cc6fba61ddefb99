"""Listens to notifications of new files, so that a feed is looked at soon.

A notification is a hint. What it names is looked up, and judged as if a listing had shown it; so
one that is lost, late, repeated or made up changes nothing but the time of the look. If the source
of notifications is away, that is a warning: listing finds all files without it.
"""

import logging
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress

from landfall.api import spec
from landfall.discovery.looking import MAX_LATE
from landfall.errors import LandfallError
from landfall.source.event_bodies import names_below, written_keys
from landfall.source.file_events import EventSource

log = logging.getLogger(__name__)

OpenEvents = Callable[[spec.Feed], EventSource | None]
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds until a source that failed is opened again; each pause is twice the one before."""


class Wakeups:
    """The notifications of one feed, which a thread of its own receives.

    Attributes:
        problem: why none are received; empty if they are.
    """

    def __init__(
        self, feed: spec.Feed, open_events: OpenEvents, wake: Callable[[], object]
    ) -> None:
        """Listen to nothing yet; ``wake`` is called from the thread, for the first hint."""
        self._feed = feed
        self._open = open_events
        self._wake = wake
        self._lock = threading.Lock()
        self._names: dict[str, None] = {}
        self._has_hints = False
        self._stopped = threading.Event()
        name = f"events-{feed.topic}"
        self._thread = threading.Thread(target=self._listen, name=name, daemon=True)
        self.problem = ""

    @property
    def has_hints(self) -> bool:
        """True if there is a hint that ``take`` has not returned."""
        return self._has_hints

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def take(self) -> tuple[str, ...]:
        """Return the names in hints since the last call, at most ``MAX_LATE``."""
        with self._lock:
            names = tuple(self._names)
            self._names = {}
            self._has_hints = False
        return names

    def take_in(self, bodies: Iterable[bytes]) -> None:
        """Take in the feed's files that notifications name; unreadable notifications are logged."""
        for body in bodies:
            try:
                names = names_below(self._feed.url, written_keys(body))
            except ValueError as error:
                fields = {"feed": self._feed.topic, "why": str(error), "bytes": len(body)}
                log.warning("event left out", extra=fields)
                continue
            self._adds(name for name in names if self._feed.counts(name))

    def stop(self) -> None:
        """Listen no more, once the thread is back from the request that it may be in."""
        self._stopped.set()

    def _adds(self, names: Iterable[str]) -> None:
        for name in names:
            with self._lock:
                # Of more, the next listing of all names finds the rest.
                if len(self._names) < MAX_LATE:
                    self._names[name] = None
                is_first = not self._has_hints
                self._has_hints = True
            if is_first:
                self._wake()

    def _listen(self) -> None:
        pause = FIRST_PAUSE
        while not self._stopped.is_set():
            try:
                source = self._open(self._feed)
                if source is None:
                    return
                try:
                    while not self._stopped.is_set():
                        self.take_in(source.receive())
                        source.forget()
                        self._works()
                        pause = FIRST_PAUSE
                finally:
                    with suppress(LandfallError):
                        source.close()
            except LandfallError as error:
                self._fails(str(error))
                self._stopped.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    def _works(self) -> None:
        if self.problem:
            self.problem = ""
            log.info("events received again", extra={"feed": self._feed.topic})

    def _fails(self, why: str) -> None:
        if why != self.problem:
            log.warning("events not received", extra={"feed": self._feed.topic, "why": why})
        self.problem = why
