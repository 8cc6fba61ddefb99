"""Checks every few seconds, in a thread: does the store answer, is the lane still ours?

Requests that carry data are patient, because a slow store must not cost a batch: a minute each,
five attempts. A driver that waits for them would notice only after minutes that a store accepts
connections and answers nothing, and a driver that was paused or cut off would notice its successor
only at its next commit. So a thread of its own reads the slot after the driver's last one, with a
client that waits for seconds and tries once.

A check writes nothing and decides nothing, and nothing waits for it. Its result is used in two
places: an outage is shown in the driver's status (``landfall.driver.http``), and a driver whose
next slot is another driver's ends earlier than it otherwise would, after reading and uploading for
nothing. A slot never changes, and its bytes name its writer, so the result is true however late it
arrives, and a check that is lost only costs time. Exactly-once does not depend on it.
"""

import logging
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from landfall.api.contract import Failure, Status
from landfall.api.spec import GroupSpec, Root
from landfall.errors import LandfallError, cause

log = logging.getLogger(__name__)

INTERVAL = 5.0
"""Seconds between two checks, plus or minus a fifth. The operator asks for the status every 15 s,
so half a minute passes at most from an outage to the condition, even if two checks must fail first.
"""
RETRY_INTERVAL = 0.5
"""Seconds between two checks while the store does not answer."""
PATIENCE = timedelta(seconds=4)
"""How long a check waits for its answer."""
TOLERATED_MISSES = 1
"""This many checks in a row may fail before there is an outage to report."""

Check = Callable[[], object]
"""Returns when the store has answered, and raises if it has not."""


@dataclass(frozen=True, slots=True)
class Outage:
    """The store does not answer.

    Attributes:
        missed: how many answers in a row are missing.
        failure: since when, and which error there was instead.
    """

    missed: int
    failure: Failure

    def overlay(self, status: Status) -> Status:
        """The status with the outage in it, which a driver that waits for the store cannot report.

        A failure that the driver itself reported during the outage is more specific, and stays.
        """
        commits, own = status.commits, status.commits.last_failure
        is_known = (
            own is not None
            and own.reason == self.failure.reason
            and _time(own) >= _time(self.failure)
        )
        failures = max(commits.consecutive_failures, self.missed)
        last = own if is_known else self.failure
        return replace(
            status, commits=replace(commits, consecutive_failures=failures, last_failure=last)
        )


def _time(failure: Failure) -> datetime:
    return datetime.fromisoformat(failure.time)


def fail_fast(spec: GroupSpec) -> GroupSpec:
    """The same spec, with timeouts of seconds and no second attempt, but for dead letters."""
    roots = [spec.output, spec.ledger] if spec.ledger else [spec.output]
    return spec.model_copy(update={root.section: _impatient(root) for root in roots})


def _impatient(root: Root) -> Root:
    access = root.access
    changes = {
        "max_attempts": 1,
        "connect_timeout": min(access.connect_timeout, PATIENCE),
        "read_timeout": min(access.read_timeout, PATIENCE),
    }
    return root.model_copy(update={root.access_field: access.model_copy(update=changes)})


class StoreMonitor:
    """Checks the store again and again, in a thread of its own.

    An outage is measured from the start of the first check that was not answered. So a check that
    hangs for ever, for example in a folder whose file server is down, counts as well.
    """

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._missing: Failure | None = None
        self._is_reported = False
        self._stopped = threading.Event()

    def start(self, check: Check) -> None:
        """Call ``check`` periodically from now."""
        threading.Thread(
            target=self._watch, args=(check,), name="store-monitor", daemon=True
        ).start()

    def stop(self) -> None:
        """Check no more; a check that is running is not waited for."""
        self._stopped.set()

    def outage(self) -> Outage | None:
        """Return the outage as far as it is known now, if there is one; from any thread."""
        missing = self._missing
        if missing is None:
            return None
        missed = (self._clock() - _time(missing)) // PATIENCE
        return Outage(missed, missing) if missed > TOLERATED_MISSES else None

    def run_check(self, check: Check) -> None:
        """Check once, and log when an outage begins or ends."""
        since = self._missing.time if self._missing else self._clock().isoformat()
        # Set before the check, not after: a check that hangs must count from its start.
        self._missing = self._missing or Failure(since, "StoreUnavailable", "no answer")
        try:
            check()
        except Exception as error:  # noqa: BLE001  # a user's own store may raise anything; the checks continue
            reason = (
                cause(error, "StoreUnavailable")
                if isinstance(error, LandfallError)
                else "StoreUnavailable"
            )
            self._missing = Failure(since, reason, f"no answer: {error}")
        else:
            self._missing = None
        self._log_change()

    def _log_change(self) -> None:
        outage = self.outage()
        if outage and not self._is_reported:
            log.warning(
                "store unavailable",
                extra={"since": outage.failure.time, "why": outage.failure.message},
            )
        if self._is_reported and not outage:
            log.warning("store recovered")
        self._is_reported = outage is not None

    def _watch(self, check: Check) -> None:
        while not self._stopped.wait(self._pause()):
            self.run_check(check)

    def _pause(self) -> float:
        if self._missing:
            return RETRY_INTERVAL
        # Spread, so that the drivers of a cluster do not all ask at the same moment.
        return random.uniform(0.8, 1.2) * INTERVAL  # noqa: S311  # no secret
