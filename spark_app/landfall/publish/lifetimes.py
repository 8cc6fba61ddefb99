"""Finds the ended lifetimes of topic partitions: from entering a lane to leaving it.

A topic that is deleted and created again counts its offsets from 0 again, and a topic partition
that is reset is landed again, so the same offsets may mean other rows in another lifetime. Each
lands under higher generations than the one before (ADR 3), by which names of objects show it.
The state of a lane has the last of these generations only; the earlier ones are read from its
ledger, if a topic has left it at all.
"""

import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from landfall.lane import Lane
from landfall.ledger import State
from landfall.ledger.offsets import TopicPartition


@dataclass
class LedgerLifetimes:
    """Reads the ended lifetimes of a lane when they are asked for. Thread-safe.

    Attributes:
        lane: whose ledger it is.
    """

    lane: Lane
    _last: Mapping[TopicPartition, int] = field(default_factory=dict)
    _found: Mapping[TopicPartition, Sequence[int]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def ended(self, state: State, topic: str) -> Mapping[int, Sequence[int]]:
        """Return the ones of a topic up to a state; see ``EndedLifetimes``."""
        if not any(tp.topic == topic for tp in state.retired):  # as in most ledgers
            return {}
        with self._lock:
            if self._last != state.retired:
                self._found, self._last = self._read(state), state.retired
            return {tp.partition: last for tp, last in self._found.items() if tp.topic == topic}

    def _read(self, until: State) -> Mapping[TopicPartition, Sequence[int]]:
        found, last = defaultdict[TopicPartition, list[int]](list), State().retired
        for state, _ in self.lane.folded(State()):
            if state.retired is not last:
                for tp, generation in state.retired.items():
                    if last.get(tp) != generation:
                        found[tp].append(generation)
                last = state.retired
            if state.seq >= until.seq:
                break
        return found
