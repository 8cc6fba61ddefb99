"""How long a run with an end waits for servers that do not answer. Pure.

A driver without an end waits for ever: what it waits for comes back, or somebody sees its alerts. A
run of cron would only hang, so it ends as unavailable instead, and the next run continues.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from landfall.api.contract import Status


@dataclass
class Patience:
    """Follows the statuses of a driver.

    Attributes:
        limit: how long nothing may be committed while something fails; None for any time.
        message: why the limit is exceeded; empty while it is not.
    """

    limit: timedelta | None
    message: str = ""
    _since: datetime | None = None
    _commits: int = -1

    def is_exceeded(self, status: Status) -> bool:
        """Whether this status is the first that is beyond the limit."""
        now, failed = datetime.fromisoformat(status.time), status.commits.last_failure
        waits = failed is not None and status.commits.consecutive_failures > 0
        if self._since is None or not waits or status.commits.total != self._commits:
            self._since = now if waits else None
            self._commits = status.commits.total
            return False
        if self.message or self.limit is None or now - self._since <= self.limit or failed is None:
            return False
        self.message = f"{failed.reason}: {failed.message}"
        return True
