"""The interface that the parts of a driver share, as its loop sees them."""

from datetime import datetime


class DriverPart:
    """A part of a driver, used by the driver's thread alone; it overrides what concerns it."""

    def advance(self, now: datetime) -> None:
        """Take the steps that are due; called in every pass of the loop.

        Raises:
            Fenced: another driver has opened the lane.
            Stalled: the ledger is broken, or a foreign object is at the key of a committed one.
        """

    @property
    def is_at_rest(self) -> bool:
        """True if nothing is under way that must end before the driver has caught up."""
        return True

    @property
    def protected_uploads(self) -> frozenset[str]:
        """Ids of open uploads that a record names or is about to name: they are no orphans."""
        return frozenset()

    def stop(self) -> None:
        """Begin nothing more, and abort uploads that no record names; this waits for nothing."""

    def finish(self) -> None:
        """Return once the work that must not outlive the driver has ended."""
