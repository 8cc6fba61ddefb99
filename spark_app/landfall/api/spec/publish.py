"""The section ``spec.publish``: where else what landed becomes visible."""

import re
from datetime import timedelta
from typing import Annotated

from pydantic import Field

from landfall.api.pod_spec import Model
from landfall.api.spec.shared import SecretRef, distinct
from landfall.api.values import Duration, MappedSettings, Pattern, built_in, matching

PUBLISHERS = (
    "Success",
    "Hive",
    "Glue",
    "Iceberg",
    "Delta",
    "BigQuery",
    "Kafka",
    "Webhook",
    "OpenLineage",
    "Airflow",
)
"""The built-in types of publishers."""
MAX_PUBLISHERS = 16
"""How many entries ``spec.publish`` takes: each is a thread of the driver that reads the ledger."""

PublisherName = Annotated[
    str,
    Field(max_length=40),
    matching(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", "a name of lower case letters, digits and hyphens"),
]


class PublisherEntry(Model):
    """A publisher: it makes what landed visible elsewhere, such as in the tables of a catalog."""

    name: PublisherName
    """Name of the publisher in the status, in metrics and next to the ledger. A publisher under
    another name begins again.
    """
    type: Annotated[str, built_in(*PUBLISHERS)]
    """Where to: ``Success``, ``Hive``, ``Glue``, ``Iceberg``, ``Delta``, ``BigQuery``, ``Kafka``,
    ``Webhook``, ``OpenLineage``, ``Airflow``, or a publisher of your own,
    ``package.module:Name``.
    """
    topics: Annotated[tuple[Pattern, ...], Field(max_length=100)] = ()
    """Regular expressions for the topics that are published; one must match the whole name. All
    topics of the group if not set.
    """
    min_interval: Duration = timedelta(minutes=1)
    """Shortest time between two passes. What lands in between is published together."""
    secret_ref: SecretRef | None = None
    """Secret with what the destination asks for; the page of each type lists its keys."""
    options: dict[str, MappedSettings] = Field(default_factory=dict)
    """Options of the publisher, such as ``table``; each type has a page in the documentation. A
    publisher of your own takes its own.
    """

    def selects(self, topic: str) -> bool:
        """Return whether it publishes a topic of the group."""
        return not self.topics or any(re.fullmatch(pattern, topic) for pattern in self.topics)


def distinct_publishers(entries: tuple[PublisherEntry, ...]) -> tuple[PublisherEntry, ...]:
    """The entries themselves, if no two have one name."""
    distinct(tuple(entry.name for entry in entries))
    return entries
