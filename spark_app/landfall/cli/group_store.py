"""Opens a group for commands that examine it: the group, its store and its ledger."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from landfall.api import group_file
from landfall.api.contract import LANE
from landfall.api.spec import ConsumerGroup, Output
from landfall.api.spec.publish import PublisherEntry
from landfall.api.words import did_you_mean
from landfall.cli.text import console
from landfall.driver.process.startup import (
    check_secrets,
    explain_later,
    kafka_servers,
    store_servers,
)
from landfall.errors import Reason, Stalled
from landfall.landed.opened_group import OpenedGroup
from landfall.lane.seen import SeenObjects
from landfall.lane.stores import open_stores
from landfall.ledger import State
from landfall.ledger.effects import SpecOpened, effects
from landfall.ledger.names import object_names

if TYPE_CHECKING:
    from landfall.reading.specs import ObjectSpecs

Item = TypeVar("Item")
Result = TypeVar("Result")

THREADS = 16
"""The number of concurrent requests to the store."""


@dataclass(frozen=True)
class GroupStore(OpenedGroup):
    """A consumer group of a file, and the store that holds its ledger and objects."""

    @classmethod
    def of(cls, path: Path) -> "GroupStore":
        """Read a group file and open the group's store; nothing is requested from the store yet."""
        group = group_file.load(path, os.environ)
        check_secrets(group.spec.roots)
        store = open_stores(group.spec)
        explain_waits(group)
        return cls(group, store)

    @cached_property
    def made_by(self) -> "ObjectSpecs":
        """The specs by which objects were made; the whole ledger is read for it.

        Raises:
            Stalled: LEDGER_BROKEN.
            Retry: the store does not answer.
        """
        from landfall.reading.specs import ObjectSpecs  # noqa: PLC0415  # it imports Arrow

        spec = self.group.spec
        found = ObjectSpecs(self.store, (self.name, LANE), spec.output, spec)
        for effect in (effect for record in self.records() for effect in effects(record)):
            if isinstance(effect, SpecOpened):
                found.opens.learn(effect.generation, effect.slot, effect.spec)
        return found

    def output_of(self, key: str, slot: int = -1) -> Output:
        """How an object was made, by the owner of the lane in a slot: see ``OpenedSpecs.digest``.

        Without a slot, it is the last spec of its generation whose format has its extension.

        Raises:
            Stalled: LEDGER_BROKEN; SPEC_INVALID, its format is a plug-in that the group's file does
                not name.
            Retry: the store does not answer.
        """
        from landfall.registry import output_format  # noqa: PLC0415  # it imports Arrow

        name = object_names.origin(self.name, key)
        if slot >= 0:
            return self._output(self.made_by.opens.digest(name.generation, slot), name.topic)
        digests = self.made_by.opens.digests(name.generation)
        outputs = [self._output(digest, name.topic) for digest in digests]
        fits = (output for output in outputs if key.endswith(output_format(output).extension))
        return next(fits, outputs[0])

    def _output(self, digest: str, topic: str) -> Output:
        output = self.made_by.of(digest, topic).output
        self.made_by.allowed(digest).check_format(output)
        return output

    def seen_state(self) -> State:
        """Read the state of the ledger; records with visible objects count as applied, too.

        So the last COMMIT of an idle or killed driver is checked and read like any other.

        Raises:
            Stalled: LEDGER_BROKEN.
            Retry: the store does not answer.
        """
        state = self.lane.read()
        through = SeenObjects(self.store.stat, self.new_pool).through(state)
        return replace(state, applied_through=through)

    def publishers(self, names: Sequence[str]) -> tuple[PublisherEntry, ...]:
        """Return the publishers of the group by name; all of them for no names.

        Raises:
            Stalled: SPEC_INVALID, the group has no publishers, or none of such a name.
        """
        known = {entry.name: entry for entry in self.group.spec.publish}
        if not known:
            raise Stalled(Reason.SPEC_INVALID, "spec.publish: the group has no publishers")
        for name in names:
            if name not in known:
                raise Stalled(
                    Reason.SPEC_INVALID,
                    f"no publisher {name!r}{did_you_mean(name, known)}; "
                    f"the group has {', '.join(known)}",
                )
        return tuple(known[name] for name in dict.fromkeys(names or known))


def explain_waits(group: ConsumerGroup, *, kafka: bool = False) -> None:
    """Return at once; later print why the store, or Kafka if it is asked, does not answer."""
    for root in group.spec.roots:
        console.at_end.append(explain_later(store_servers(root), console.print_waiting).set)
    if kafka:
        explain_kafka(group)


def explain_kafka(group: ConsumerGroup) -> None:
    """Print soon why Kafka does not answer, if the group has it."""
    if group.spec.source.kafka:
        console.at_end.append(explain_later(kafka_servers(group), console.print_waiting).set)


def map_concurrently(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    new_pool: Callable[[int], Executor] = ThreadPoolExecutor,
) -> Iterator[Result]:
    """Call a function for every item in ``THREADS`` threads and yield the results in order.

    Items are taken in windows, so memory stays bounded for any number of items.
    """
    remaining = iter(items)
    with new_pool(THREADS) as pool:
        while window := list(islice(remaining, 4 * THREADS)):
            yield from pool.map(function, window)
