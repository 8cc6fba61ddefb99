"""Why a driver ends, and how long it waits for what it has begun."""

import logging
from datetime import datetime, timedelta

from landfall.api.contract import Workers

log = logging.getLogger(__name__)

EXECUTOR_PATIENCE = timedelta(seconds=30)
"""How long a driver that drains waits for an executor, for one that was lost may be replaced."""


class Draining:
    """The draining of a driver, and since when nothing runs its batches.

    Attributes:
        reason: why the driver ends; None while it is to continue.
        must_end: whether the end was requested, so that nothing is begun that can be left out.
    """

    def __init__(self, timeout: timedelta) -> None:
        """``timeout`` is how long the driver drains at most."""
        self._timeout = timeout
        self._until: datetime | None = None
        self._without_executor: datetime | None = None
        self.reason: str | None = None
        self.must_end = False

    def ask(self, reason: str) -> None:
        """Let the driver drain, from any thread; only the first reason is kept."""
        self.reason = self.reason or reason
        self.must_end = True

    def begins(self, now: datetime) -> bool:
        """Return whether draining begins with this call."""
        if self.reason is None or self._until is not None:
            return False
        self._until = now + self._timeout
        return True

    def is_over(self, now: datetime) -> bool:
        """Return whether draining has begun and has lasted as long as it may."""
        return self._until is not None and now >= self._until

    def is_futile(self, now: datetime, workers: Workers) -> bool:
        """Return whether batches in flight are not worth waiting for: no executor runs their tasks.

        None of them is lost: what is not committed is planned again by the next driver.
        """
        if workers.slots:
            self._without_executor = None
            return False
        self._without_executor = self._without_executor or now
        if now - self._without_executor < EXECUTOR_PATIENCE:
            return False
        log.warning("batches in flight given up: no executor runs them")
        return True
