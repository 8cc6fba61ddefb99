"""A ledger whose events are scene, and what a destination has got."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from landfall import ledger
from landfall.api.spec import parse_group
from landfall.lane import Lane
from landfall.ledger.offsets import TopicPartition
from landfall.publish import Publisher
from landfall.publish.building import publisher
from landfall.publish.context import Context
from landfall.publish.following import Follower
from tests.support.kubernetes.groups import document
from tests.support.ledger.sample_ledger import GROUP, LANE, SampleLedger, replace_header

CLICKS, ORDERS = TopicPartition("clicks", 0), TopicPartition("orders", 0)


@dataclass
class EventLedger:
    """A group's ledger in memory, and an entry of ``spec.publish``.

    Attributes:
        kind: the type of the publisher.
        options: of the publisher.
        spec: fields of the spec, as of ``document``.
        entry: more fields of the entry.
    """

    kind: str
    options: dict[str, Any]
    spec: dict[str, Any] = field(default_factory=dict)
    entry: dict[str, Any] = field(default_factory=dict)
    sample: SampleLedger = field(default_factory=SampleLedger)

    def __post_init__(self) -> None:
        if self.sample.state.seq < 0:
            self.sample.open().add(CLICKS, ORDERS)

    @property
    def context(self) -> Context:
        """What the publisher is built from."""
        entry = {"name": "events", "type": self.kind, "options": self.options, **self.entry}
        group = parse_group(document(GROUP, **self.spec, publish=[entry]))
        return Context(group, group.spec.publish[0], LANE, self.sample.store)

    def publisher(self) -> Publisher:
        """The publisher, as of a process that has just started."""
        context = self.context
        return publisher(context.group, context.entry, context.store)

    def follower(self, max_objects: int = 3) -> Follower:
        """A reader that has read nothing yet, and reads little at a time."""
        return Follower(Lane(self.sample.store, GROUP, LANE), max_objects)

    def publish(self) -> None:
        """Publish everything that is visible, as a process that has just started."""
        self.publisher().publish(self.follower())

    def land(self, *tps: TopicPartition, rows: int = 10) -> "EventLedger":
        """Land more records of topics, in a COMMIT; nothing says yet that they are visible."""
        starts = {tp: self.sample.state.checkpoint[tp] for tp in tps}
        self.sample.commit(*(self.sample.land(tp, at, at + rows) for tp, at in starts.items()))
        return self

    def settle(self) -> "EventLedger":
        """Record that everything so far is visible."""
        applied = self.sample.state.seq
        self.sample.append(lambda h: ledger.Applied(header=replace_header(h, applied)))
        return self

    def finish(self, topic: str, until: str) -> "EventLedger":
        """Record that a topic is complete up to a time; it counts once all before is visible."""
        until_ms = int(datetime.fromisoformat(until).timestamp() * 1000)
        drained = tuple(
            (tp.partition, offset)
            for tp, offset in self.sample.state.checkpoint.next_offsets.items()
            if tp.topic == topic
        )
        entries = (ledger.Horizon(topic, until_ms, drained),)
        self.sample.append(
            lambda h: ledger.Finalize(header=h, delay=1, looked=until_ms + 1, entries=entries)
        )
        return self
