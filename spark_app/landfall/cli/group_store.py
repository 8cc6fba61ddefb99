"""What every command that looks at a group needs: the group, its store, its ledger."""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypeVar

from landfall import ledger
from landfall.api.contract import LANE
from landfall.api.spec import ConsumerGroup
from landfall.cli import group_file
from landfall.lane import Lane
from landfall.ledger import Record
from landfall.store import Store
from landfall.store.urls import open_store

Item = TypeVar("Item")
Answer = TypeVar("Answer")

THREADS = 16
"""Requests to the store at once."""


@dataclass(frozen=True)
class GroupStore:
    """A group and what it has written."""

    group: ConsumerGroup
    store: Store

    @classmethod
    def of(cls, path: Path) -> "GroupStore":
        """Open the group of a file; nothing is asked of the store yet."""
        group = group_file.load(path, os.environ)
        return cls(group, open_store(group.spec.output))

    @property
    def name(self) -> str:
        """Of the group, as the ledger has it."""
        return self.group.metadata.name

    @property
    def lane(self) -> Lane:
        """The group's ledger."""
        return Lane(self.store, self.name, LANE)

    def url(self, key: str) -> str:
        """Where an object is, for people and other tools."""
        return f"{self.group.spec.output.url.rstrip('/')}/{key}"

    def records(self) -> Iterator[Record]:
        """The whole ledger from slot 0, a record at a time."""
        return (ledger.decode(seq, body) for seq, body in self.lane.bodies())


def map_concurrently(does: Callable[[Item], Answer], items: Iterable[Item]) -> Iterator[Answer]:
    """Do this for every item, many at once, answers in order; a bounded number is under way, whatever there is to do."""
    rest = iter(items)
    with ThreadPoolExecutor(THREADS) as pool:
        while window := list(islice(rest, 4 * THREADS)):
            yield from pool.map(does, window)
