"""Where notifications of new files come from, and how a feed's source of them is opened."""

from collections.abc import Sequence
from typing import Protocol

from landfall.api import spec


class EventSource(Protocol):
    """Notifications, as their sender wrote them. Used by one thread."""

    def receive(self) -> Sequence[bytes]:
        """The next ones; none if none comes for a while.

        Raises:
            Retry: it does not answer.
            Stalled: it refuses, or is not there.
        """
        ...

    def forget(self) -> None:
        """Never give again what ``receive`` gave, if the source supports that.

        Raises:
            Retry, Stalled: as ``receive``.
        """
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


def open_events(feed: spec.Feed) -> EventSource | None:
    """The source of a feed's notifications, connected; None if it has none.

    Raises:
        Retry: it does not answer.
        Stalled: SPEC_INVALID, its settings are wrong; or it refuses.
    """
    # Either client library takes a while to import.
    if feed.events and (topic := feed.events.kafka):
        from landfall.source.event_topic import TopicEvents  # noqa: PLC0415

        return TopicEvents(topic)
    if feed.events and (queue := feed.events.sqs):
        from landfall.source.event_queue import QueueEvents  # noqa: PLC0415

        return QueueEvents(queue)
    return None
