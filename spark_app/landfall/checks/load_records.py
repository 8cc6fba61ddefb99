"""Checks that the records of loads, which publishers keep next to the ledger, are whole. Pure.

A publisher that loads by jobs keeps a chain for each table: invariant I11. The formats, and how
many loads are kept, are stated here a second time; see ``landfall.publish.bigquery``.
"""

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from landfall import untrusted_json
from landfall.checks import Finding, Invariant

KEPT_LOADS = 100
"""Records of so many loads of a table are never deleted."""
_RECORD = re.compile(r"([-a-z0-9]+)/([0-9a-f]{32})/([0-9]{10})-(intent|outcome)\.json")


class _Position(msgspec.Struct):
    through: int
    ahead: list[tuple[int, str]] = []
    held: list[tuple[int, str]] = []


class _Begin(msgspec.Struct):
    chain: str
    after: int


class _Intent(msgspec.Struct):
    table: str
    number: int
    objects: list[tuple[int, str, int, int]]
    before: _Position
    after: _Position
    replaces: bool
    creates: bool
    project: str
    location: str
    time: datetime


class _Outcome(msgspec.Struct):
    number: int
    position: _Position


@dataclass(frozen=True, slots=True)
class LoadChain:
    """The chain of one table.

    Attributes:
        prefix: of the keys of its records.
        intents: numbers of the loads that have an intent.
        outcomes: numbers of those that have an outcome.
    """

    prefix: str
    intents: set[int]
    outcomes: set[int]

    @property
    def last(self) -> int:
        """The number of the last load."""
        return max(self.intents | self.outcomes)

    def keys(self, first: int = 1) -> Iterator[str]:
        """Keys of the records that exist of a load and those after it."""
        yield from (self._key(n, "intent") for n in sorted(self.intents) if n >= first)
        yield from (self._key(n, "outcome") for n in sorted(self.outcomes) if n >= first)

    def missing(self) -> Iterator[str]:
        """Keys of records that should exist: of all kept loads, but for the end of the last one."""
        for number in range(max(1, self.last - KEPT_LOADS + 1), self.last + 1):
            if number not in self.intents:
                yield self._key(number, "intent")
            if number not in self.outcomes and number < self.last:
                yield self._key(number, "outcome")

    def _key(self, number: int, kind: str) -> str:
        return f"{self.prefix}{number:010d}-{kind}.json"


def load_chains(prefix: str, keys: Iterable[str]) -> Sequence[LoadChain]:
    """The chains among the keys below a prefix; other keys are no records of loads."""
    found = defaultdict[str, tuple[set[int], set[int]]](lambda: (set(), set()))
    for key in keys:
        if match := _RECORD.fullmatch(key.removeprefix(prefix)):
            publisher, table, number, kind = match.groups()
            found[f"{prefix}{publisher}/{table}/"][kind == "outcome"].add(int(number))
    return [LoadChain(chain, *numbers) for chain, numbers in sorted(found.items())]


def begin_of(chain: LoadChain) -> str:
    """The key of the beginning of a publisher's chains."""
    return f"{chain.prefix.rstrip('/').rpartition('/')[0]}/begin.json"


def missing_record(key: str) -> Finding:
    """The finding for a record that is not there."""
    return Finding(Invariant.I11, "a record of loads", "nothing", key=key)


def check_record(prefix: str, key: str, body: bytes) -> Finding | None:
    """Return what is wrong with a record of loads, or None; the prefix is all publishers'."""
    match = _RECORD.fullmatch(key.removeprefix(prefix))
    try:
        if not match:
            untrusted_json.decode(body, type=_Begin)
            return None
        found: _Intent | _Outcome
        if match[4] == "intent":
            found = untrusted_json.decode(body, type=_Intent)
        else:
            found = untrusted_json.decode(body, type=_Outcome)
    except msgspec.DecodeError as error:
        return Finding(Invariant.I11, "a record of loads", str(error), key=key)
    if found.number != int(match[3]):
        return Finding(Invariant.I11, f"load {int(match[3])}", f"load {found.number}", key=key)
    if isinstance(found, _Intent) and _digest(found.table) != match[2]:
        return Finding(Invariant.I11, "a load of the table of its key", found.table, key=key)
    return None


def _digest(table: str) -> str:
    return hashlib.sha256(table.encode()).hexdigest()[:32]
