"""Runs the publishers of ``spec.publish`` alongside landing: each in a thread of its own.

The driver passes its ledger's state on, which wakes them. A publisher that fails tries again with
growing pauses, and one that waits for a user every minute. Neither landing nor another publisher
notices. A process that has handed its lane over needs no care: any number of processes may publish
at once (``landfall.publish``).
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial

from landfall.api.contract import LANE, PublisherStatus
from landfall.api.spec import ConsumerGroup
from landfall.api.spec.publish import PublisherEntry
from landfall.driver.core.background import Background, Threads
from landfall.driver.http.metrics import HAVE_LANE
from landfall.driver.http.status import StatusReport
from landfall.errors import LandfallError, Retry, Stalled, cause
from landfall.ledger import State
from landfall.publish import Published, Publisher
from landfall.publish.building import publisher
from landfall.publish.context import Context
from landfall.publish.following import Follower
from landfall.store import Store

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = timedelta(seconds=1), timedelta(minutes=1)
"""Between a pass that failed and the next one: it doubles."""
LAST_PASS = timedelta(seconds=20)
"""How long a process that ends waits for its publishers to publish what landed last."""
LAST_TRIES, LAST_PATIENCE = 5, timedelta(minutes=10)
"""How often each publisher tries, and how long, when a process ends because it has caught up."""


@dataclass
class PublisherRun:
    """The work of one publisher, and when it is due. One thread calls ``run_pass``.

    Attributes:
        entry: from ``spec.publish``.
        publisher: publishes.
        follower: reads the ledger, and keeps where it is.
        clock: the current time.
    """

    entry: PublisherEntry
    publisher: Publisher
    follower: Follower
    clock: Callable[[], datetime]
    _slot: int = -1
    _applied: int = -1
    _behind_since: datetime | None = None
    _next: datetime | None = None
    _last: datetime | None = None
    _objects: int = 0
    _failures: int = 0
    _failed_in_a_row: int = 0
    _through: int = -1
    _error: Exception | None = None
    _logged: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def observe(self, state: State) -> bool:
        """Take note of the ledger; returns whether there is something to read in it."""
        with self._lock:
            if state.applied_through > self._applied:
                self._behind_since = self._behind_since or self.clock()
            is_new = state.seq > self._slot
            self._slot, self._applied = state.seq, max(self._applied, state.applied_through)
            return is_new

    def retry_now(self) -> None:
        """Let a pass that waits because another one failed begin at once."""
        with self._lock:
            if self._error:
                self._next = None

    def pause(self) -> timedelta | None:
        """Return how long it is until the next pass; None if there is nothing to publish."""
        with self._lock:
            if self._slot <= self._through and not self._error:
                return None
            return max(timedelta(0), (self._next or self.clock()) - self.clock())

    def run_pass(self) -> bool:
        """Publish what is visible now; returns whether that went well."""
        began, slot = self.clock(), self._slot
        try:
            done = self.publisher.publish(self.follower)
        except LandfallError as error:
            self._failed(error)
        except Exception as error:  # noqa: BLE001  # of a library or a plug-in: no thread may end by it
            self._failed(error)
        else:
            self._succeeded(began, slot, done)
            return True
        return False

    @property
    def status(self) -> PublisherStatus:
        """The status of the publisher."""
        with self._lock:
            now, error = self.clock(), self._error
            since = self._behind_since
            return PublisherStatus(
                name=self.entry.name,
                type=self.entry.type,
                slot=self._through,
                lag_slots=max(0, self._slot - self._through),
                lag_seconds=max(0.0, (now - since).total_seconds()) if since else 0.0,
                published_objects=self._objects,
                failures=self._failures,
                consecutive_failures=self._failed_in_a_row,
                last_time=self._last.isoformat() if self._last else None,
                blocked=error.reason.value if isinstance(error, Stalled) else None,
                message=describe(error) if error else "",
                details=getattr(self.publisher, "details", ""),
            )

    @property
    def error(self) -> Exception | None:
        """The error of the last pass; None if it went well."""
        return self._error

    def _succeeded(self, began: datetime, slot: int, done: Published) -> None:
        with self._lock:
            self._last = self.clock()
            self._error = None
            self._failed_in_a_row = 0
            self._through = max(done.through, slot)
            self._objects += done.objects
            self._behind_since = began if self._applied > self._through else None
            self._next = began + self.entry.min_interval
        extra = {"publisher": self.entry.name, "slot": done.through, "objects": done.objects}
        if done.objects or self._logged:
            log.info(
                "commits published",
                extra=extra | ({"refilled": done.refilled} if done.refilled else {}),
            )
        self._logged = ""

    def _failed(self, error: Exception) -> None:
        behind = self._behind_before_start() if not self._last else None
        with self._lock:
            if behind:
                self._behind_since = min(behind, self._behind_since or behind)
            self._error = error
            self._failures, self._failed_in_a_row = self._failures + 1, self._failed_in_a_row + 1
            pause = min(FIRST_PAUSE * 2 ** min(self._failed_in_a_row - 1, 10), LONGEST_PAUSE)
            self._next = self.clock() + (LONGEST_PAUSE if isinstance(error, Stalled) else pause)
        if (why := describe(error)) != self._logged:
            self._logged = why
            known = isinstance(error, LandfallError)
            log.warning(
                "publishing failed",
                extra={"publisher": self.entry.name, "why": why},
                exc_info=None if known else error,
            )

    def _behind_before_start(self) -> datetime | None:
        """Return since when there is something to publish, by the ledger; None if unknown."""
        try:
            at = self.publisher.position()
            since = self.follower.behind_since(at)
            self._through = max(self._through, at)
        except Exception:  # noqa: BLE001  # only what is shown suffers
            return None
        return datetime.fromisoformat(since) if since else None


def describe(error: Exception) -> str:
    """Return what is wrong, in one line."""
    if isinstance(error, LandfallError):
        return f"{cause(error, 'Retry')}: {error}"
    return f"{type(error).__name__}: {error}"


class Publishing:
    """The publishers of a group, each in a thread of its own."""

    def __init__(
        self,
        group: ConsumerGroup,
        store: Store,
        clock: Callable[[], datetime],
        background: Background | None = None,
    ) -> None:
        """Build the publishers, without a request to any destination.

        Raises:
            Stalled: SPEC_INVALID, an entry of ``spec.publish`` cannot be built.
        """
        self._background = background or Threads()
        self.runs = tuple(run_of(group, entry, store, clock) for entry in group.spec.publish)
        self._notifiers = tuple(self._background.notifier() for _ in self.runs)
        self._clock = clock
        self._tries = 0
        self._stopped = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Publish from now, whenever ``observe`` shows that there is something."""
        for run, notifier in zip(self.runs, self._notifiers, strict=True):
            target, name = self._work, _thread_name(run)
            thread = threading.Thread(target=target, args=(run, notifier.wait), name=name)
            thread.daemon = True
            thread.start()
            self._threads.append(thread)

    def observe(self, state: State) -> None:
        """Take note of the ledger of the lane that this process owns; from the driver's thread."""
        for run, notifier in zip(self.runs, self._notifiers, strict=True):
            if run.observe(state):
                notifier.notify()

    def retry_now(self) -> None:
        """Try again at once what failed; from any thread."""
        for run, notifier in zip(self.runs, self._notifiers, strict=True):
            run.retry_now()
            notifier.notify()

    def overlay(self, report: StatusReport) -> StatusReport:
        """Return the report with the publishers in it, if this process has the lane."""
        if not self.runs or report.summary.phase not in HAVE_LANE:
            return report
        return replace(report, summary=replace(report.summary, publishers=self.statuses))

    @property
    def statuses(self) -> tuple[PublisherStatus, ...]:
        """The status of the publishers; from any thread."""
        return tuple(run.status for run in self.runs)

    def stop(self, tries: int = 0, patience: timedelta = LAST_PASS) -> Exception | None:
        """End the threads, each after it has published what landed last; from one thread.

        Args:
            tries: how often each publisher tries that; 0 to leave it to the next driver.
            patience: how long to wait for all of them.

        Returns:
            What is wrong at the end: None if everything is published, or was not to be tried.
        """
        self._tries = tries
        self._stopped.set()
        for notifier in self._notifiers:
            notifier.notify()
        deadline = self._clock() + patience
        for thread in self._threads:
            thread.join(max(0.0, (deadline - self._clock()).total_seconds()))
        hanging = [thread.name for thread in self._threads if thread.is_alive()]
        late = [Retry(f"{name}: no answer within {patience}") for name in hanging]
        errors = [*late, *(run.error for run in self.runs if run.error)] if tries else []
        return max(errors, key=lambda error: not isinstance(error, Retry), default=None)

    def _work(self, run: PublisherRun, wait: Callable[[timedelta], None]) -> None:
        while not self._stopped.is_set():
            pause = run.pause()
            if pause == timedelta(0):
                run.run_pass()
            else:
                wait(pause or timedelta(hours=1))
        for left in reversed(range(self._tries)):
            if run.run_pass() or isinstance(run.error, Stalled):
                return
            if left:
                wait(run.pause() or timedelta(0))


def _thread_name(run: PublisherRun) -> str:
    return f"publish-{run.entry.name}"


def run_of(
    group: ConsumerGroup, entry: PublisherEntry, store: Store, clock: Callable[[], datetime]
) -> PublisherRun:
    """Return a publisher of the group that has published nothing yet.

    Raises:
        Stalled: SPEC_INVALID, the entry cannot be built.
    """
    built = publisher(group, entry, store)
    return PublisherRun(entry, built, Context(group, entry, LANE, store).follower(), clock)


def publishers_of(group: ConsumerGroup, store: Store) -> dict[str, Callable[[], Publisher]]:
    """By the names of the group's publishers, what builds each; see ``publisher``."""
    return {entry.name: partial(publisher, group, entry, store) for entry in group.spec.publish}
