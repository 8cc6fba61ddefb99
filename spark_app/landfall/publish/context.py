"""Inputs of a publisher besides its options."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from landfall.api.secrets import read_secret, secret_file
from landfall.api.spec import ConsumerGroup
from landfall.api.spec.publish import PublisherEntry
from landfall.lane import Lane
from landfall.ledger.names.object_names import ObjectName, parse_key
from landfall.publish.cursor import PublisherCursor
from landfall.publish.following import Follower
from landfall.store import Store


@dataclass(frozen=True)
class Context:
    """Inputs of a publisher in addition to its options.

    Attributes:
        group: the resource.
        entry: the publisher's entry in ``spec.publish``.
        lane: the name of the lane whose ledger it follows.
        store: holds the ledger and the objects.
    """

    group: ConsumerGroup
    entry: PublisherEntry
    lane: str
    store: Store

    @property
    def name(self) -> str:
        """The publisher's name."""
        return self.entry.name

    def follower(self, advanced: Callable[[int], None] = lambda _: None) -> Follower:
        """A follower of the ledger, at its start; calls ``advanced`` with slots that it reads."""
        lane = Lane(self.store, self.group.metadata.name, self.lane)
        return Follower(lane, advanced=advanced)

    def cursor(self, destination: str) -> PublisherCursor:
        """Return the hint at the position in a destination with this identity."""
        lane = self.group.metadata.name, self.lane
        return PublisherCursor.of(self.store, lane, self.name, destination)

    def object_name(self, key: str) -> ObjectName | None:
        """The parts of a data object's key; None if its topic is not published."""
        name = parse_key(key)
        return name if self.is_published(name.topic) else None

    def is_published(self, topic: str) -> bool:
        """Return whether the topic is one of ``topics``."""
        return self.entry.selects(topic)

    def url(self, key: str) -> str:
        """The URL of an object, such as ``s3://logs/parsed/orders/dt=2026-11-21/…``."""
        return f"{self.group.spec.output.url.rstrip('/')}/{key}"

    def secret(self) -> Mapping[str, str]:
        """The values of the publisher's secret by key; none without ``secretRef``.

        Raises:
            Stalled: SPEC_INVALID, the secret is not there.
        """
        return read_secret(self.entry.secret_ref.name) if self.entry.secret_ref else {}

    def secret_path(self, key: str) -> str:
        """The file with one key of the secret, for libraries that take no values; "" without."""
        return str(secret_file(self.entry.secret_ref.name, key)) if self.entry.secret_ref else ""
