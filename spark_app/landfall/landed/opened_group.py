"""A group and the store that holds its ledger and objects, for all who look things up in both."""

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

from landfall import ledger
from landfall.api.contract import LANE
from landfall.api.spec import ConsumerGroup, TopicSpecs
from landfall.lane import Lane
from landfall.ledger import Record
from landfall.ledger.names import object_names
from landfall.store import Store


@dataclass(frozen=True)
class OpenedGroup:
    """A consumer group and the store that holds its ledger and objects.

    Attributes:
        group: the resource.
        store: has its ledger and objects.
        new_pool: creates the thread pools in which the store is read.
    """

    group: ConsumerGroup
    store: Store
    new_pool: Callable[[int], Executor] = ThreadPoolExecutor

    @cached_property
    def specs(self) -> TopicSpecs:
        """The effective spec of each topic of the group."""
        return TopicSpecs.of(self.group.spec)

    @property
    def name(self) -> str:
        """The name of the group, as the ledger spells it."""
        return self.group.metadata.name

    @property
    def lane(self) -> Lane:
        """The group's ledger."""
        return Lane(self.store, self.name, LANE, self.new_pool)

    def url(self, key: str) -> str:
        """The full URL of an object, as people and other tools need it."""
        spec, place = self.group.spec, object_names.letters_place(key)
        letters = {destination.id: destination.url for destination in spec.bad_records.places}
        return f"{letters.get(place, spec.output.url).rstrip('/')}/{key}"

    def records(self) -> Iterator[Record]:
        """The whole ledger from slot 0, one record at a time."""
        return (ledger.decode(seq, body) for seq, body in self.lane.bodies())
