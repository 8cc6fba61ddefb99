"""The part of a group's status about its publishers (``spec.publish``). Pure."""

from enum import StrEnum

from landfall.api.pod_spec import Model
from landfall_operator.api.status_values import Count, Moment, Text


class PublisherState(StrEnum):
    """Whether a publisher keeps up with what lands."""

    STARTING = "Starting"
    """It has not ended a pass yet, as long as nothing waits for too long."""
    CURRENT = "Current"
    """It keeps up."""
    BEHIND = "Behind"
    """Something waits for longer than three times ``minInterval``, and than five minutes."""
    FAILING = "Failing"
    """Two passes or more have failed in a row; it tries again by itself."""
    BLOCKED = "Blocked"
    """Somebody has to change something before it publishes again."""


class PublisherStatus(Model):
    """A publisher, as the driver that lands reported it last."""

    name: str
    """Name of the publisher."""
    type: str
    """Type of the publisher."""
    state: PublisherState
    """Whether the publisher keeps up with what lands."""
    slot: Count | None = None
    """Last slot of the ledger that is published; absent if none is."""
    lag_seconds: Count
    """Age of the oldest object that is visible and not published, in seconds."""
    lag_text: str
    """The seconds in short form, such as 5m; with the age of the number when it is old."""
    failures: Count
    """Passes that failed since the present driver started."""
    blocked: str | None = None
    """Reason for which the publisher is blocked; absent while it is not."""
    problem: Text = ""
    """What is wrong and what to do; empty while nothing is."""
    details: Text = ""
    """What the type has to say, such as which topic partition holds an hour open."""
    last_time: Moment | None = None
    """When a pass last ended well."""
    time: Moment
    """When the driver reported this."""
