"""Looking at the store every few seconds, aside from all work: does it answer, and has somebody else taken the lane?

Calls that carry data are patient, for a store that is slow must not cost a round: a minute, five
times. Whoever waits for them hears of a store that accepts connections and says nothing after
minutes, and a driver that was frozen or cut off hears of its successor when it next commits. So a
thread of its own reads the slot after the driver's last one, by a client of its own that waits for
seconds and tries once.

A look writes nothing and decides nothing, and nothing waits for one. What it finds is told at two
places: that there was no answer for a while, in the picture that the driver shows (``app.http``);
and that the slot is another driver's, to the driver itself, which ends where it otherwise would
have after reading and uploading for nothing. A slot never changes and the bytes say whose it is, so
that is true however late it is told, and a look that is lost only costs time: of exactly-once
nothing rests on it.
"""

import logging
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from landfall.api.contract import Failure, Status
from landfall.api.spec import Output
from landfall.errors import LandfallError, cause

log = logging.getLogger(__name__)

INTERVAL = 5.0
"""Seconds between two looks, give or take a fifth. The operator asks every 15 s: with two looks
that
had no answer, it is half a minute at most from silence to condition.
"""
RETRY_INTERVAL = 0.5
"""The same after a look that had no answer."""
PATIENCE = timedelta(seconds=4)
"""How long a look waits for its answer."""
TOLERATED_MISSES = 1
"""So many answers missed in a row are nothing to tell."""


@dataclass(frozen=True, slots=True)
class Outage:
    """The store does not answer.

    Attributes:
        missed: answers in a row that did not come.
        failure: since when, and what there was instead.
    """

    missed: int
    failure: Failure

    def overlay(self, status: Status) -> Status:
        """A driver's picture, with what it does not know itself while it waits; what it was told by a call of its own says more."""
        commits, own = status.commits, status.commits.last_failure
        knows = (
            own is not None
            and own.reason == self.failure.reason
            and _time(own) >= _time(self.failure)
        )
        failures = max(commits.consecutive_failures, self.missed)
        last = own if knows else self.failure
        return replace(
            status, commits=replace(commits, consecutive_failures=failures, last_failure=last)
        )


def _time(failure: Failure) -> datetime:
    return datetime.fromisoformat(failure.time)


def fail_fast(output: Output) -> Output:
    """The same place, to be asked once and for seconds only."""
    s3 = output.s3
    waits = {
        "connect_timeout": min(s3.connect_timeout, PATIENCE),
        "read_timeout": min(s3.read_timeout, PATIENCE),
    }
    return output.model_copy(update={"s3": s3.model_copy(update={"max_attempts": 1, **waits})})


class StoreMonitor:
    """Looks again and again, in a thread of its own.

    What counts is the time since the first look that was not answered, so one that hangs for ever
    (at a folder, say, whose server is away) is no answer either.
    """

    def __init__(self, look: Callable[[], object], clock: Callable[[], datetime]) -> None:
        """``look`` returns when the store has answered, and raises if it has not."""
        self._look, self._clock = look, clock
        self._missing: Failure | None = None
        self._told = False
        self._stopped = threading.Event()

    def start(self) -> None:
        """Begin."""
        threading.Thread(target=self._watch, name="lookout", daemon=True).start()

    def stop(self) -> None:
        """Look no more; a look under way is not waited for."""
        self._stopped.set()

    def outage(self) -> Outage | None:
        """Whether the store is away, as far as is known now; from any thread."""
        missing = self._missing
        if missing is None:
            return None
        missed = (self._clock() - _time(missing)) // PATIENCE
        return Outage(missed, missing) if missed > TOLERATED_MISSES else None

    def look(self) -> None:
        """Look once."""
        since = self._missing.time if self._missing else self._clock().isoformat()
        self._missing = self._missing or Failure(since, "StoreUnavailable", "no answer")
        try:
            self._look()
        except Exception as error:  # noqa: BLE001  # a store of somebody's own may raise anything; no look is the last
            reason = (
                cause(error, "StoreUnavailable")
                if isinstance(error, LandfallError)
                else "StoreUnavailable"
            )
            self._missing = Failure(since, reason, f"no answer: {error}")
        else:
            self._missing = None
        self._tell()

    def _tell(self) -> None:
        outage = self.outage()
        if outage and not self._told:
            log.warning(
                "the store is away",
                extra={"since": outage.failure.time, "why": outage.failure.message},
            )
        if self._told and not outage:
            log.warning("the store is back")
        self._told = outage is not None

    def _watch(self) -> None:
        while not self._stopped.wait(
            RETRY_INTERVAL if self._missing else random.uniform(0.8, 1.2) * INTERVAL  # noqa: S311
        ):  # no secret
            self.look()
