"""Notices in a task that a server is away, so that not every slice waits for it.

A slice that meets an outage fails after a time-out of a minute or so. A task with a thousand slices
would take hours, and nothing of its batch could be tried again before. So the rest of the task
fails at once, with ``NotTried``.
"""

from landfall.errors import LandfallError, NotTried, SchemasAway, SourceAway, StoreAway

SOURCE_FAILURES = 1
"""Slices whose read timed out, after which a task gives up."""
STORE_FAILURES = 2
"""Parts in a row that the store did not take, after which a task gives up."""


class OutageDetector:
    """Counts the failures in a row of one dependency; may be called from several threads."""

    def __init__(self, give_up_after: int) -> None:
        """``give_up_after`` failures in a row are an outage."""
        self._give_up_after = give_up_after
        self._errors: tuple[LandfallError, ...] = ()

    def succeeded(self) -> None:
        """Forget the failures before."""
        self._errors = ()

    def failed(self, error: Exception) -> None:
        """Count an error, if it is one of an outage."""
        if isinstance(error, SourceAway | StoreAway | SchemasAway):
            self._errors = (*self._errors, error)

    @property
    def is_outage(self) -> bool:
        """Return whether trying again in this task makes no sense."""
        return len(self._errors) >= self._give_up_after

    def check(self, what: str) -> None:
        """Return if trying makes sense.

        Raises:
            NotTried: it does not.
        """
        if self.is_outage:
            raise NotTried(f"{what}: not tried, its task has met an outage: {self._errors[-1]}")
