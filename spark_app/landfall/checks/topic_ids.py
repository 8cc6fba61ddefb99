"""Finds the topic of a slot, where topics of one name were deleted and created again. Pure."""

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field

from landfall.ledger.effects import Effect, LifetimeBegan
from landfall.ledger.offsets import TopicPartition


@dataclass
class TopicIds:
    """The topic ids of topic partitions, by the slots in which they entered a ledger."""

    _entered: dict[TopicPartition, list[tuple[int, str]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def take(self, effect: Effect) -> None:
        """Take in the next event."""
        if isinstance(effect, LifetimeBegan):
            found = effect.slot, effect.entry.topic_id
            self._entered[effect.topic_partition].append(found)

    def of(self, tp: TopicPartition, slot: int) -> str:
        """The topic id that a topic partition had in a slot; empty if it had not entered."""
        entered = self._entered.get(tp, [])
        place = bisect_left(entered, (slot, "")) - 1
        return entered[place][1] if place >= 0 else ""
