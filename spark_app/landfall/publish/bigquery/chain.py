"""Stores the chains of loads next to the ledger, as values that are created once.

Keys, after the prefix of the publishers' values::

    <publisher>/begin.json                          the beginning of all chains
    <publisher>/<digest of a table>/<n:010d>-intent.json
    <publisher>/<digest of a table>/<n:010d>-outcome.json
"""

import hashlib
import uuid

import msgspec

from landfall.publish.bigquery.loads import (
    KEPT_LOADS,
    Begin,
    Head,
    Intent,
    LoadOutcome,
    LoadPosition,
    decode,
)
from landfall.publish.cursor import cursor_key
from landfall.store import Created, Slots


class Chains:
    """The chains of a publisher, one for each table."""

    def __init__(self, slots: Slots, lane: tuple[str, str], name: str) -> None:
        """Read nothing yet; ``lane`` is a group and the name of its lane."""
        self._slots = slots
        self._prefix = f"{cursor_key(*lane, name).removesuffix('.json')}/"
        self._begin: Begin | None = None

    def begin(self, after: int | None = None) -> Begin | None:
        """Return the beginning of all chains; None if it is undecided and ``after`` is None.

        The first caller with a slot decides that the chains follow it.

        Raises:
            Retry: the store does not answer.
            Stalled: LEDGER_BROKEN, the record is damaged.
        """
        if self._begin is None:
            key = f"{self._prefix}begin.json"
            body = self._slots.read(key)
            if body is None and after is not None:
                body = msgspec.json.encode(Begin(uuid.uuid4().hex, after))
                if self._slots.create(key, body) is Created.TAKEN:
                    body = self._slots.read(key)
            self._begin = decode(key, body, Begin) if body else None
        return self._begin

    def of(self, begin: Begin, table: str) -> "TableChain":
        """The chain of a table."""
        digest = hashlib.sha256(table.encode()).hexdigest()[:32]
        return TableChain(self._slots, f"{self._prefix}{digest}/", begin)


class TableChain:
    """The chain of a table. Not thread-safe."""

    def __init__(self, slots: Slots, prefix: str, begin: Begin) -> None:
        """Read nothing yet."""
        self._slots = slots
        self._prefix = prefix
        self.begin = begin
        self._seen = ""

    def head(self) -> Head:
        """The end of the chain.

        Raises:
            Retry: the store does not answer.
            Stalled: LEDGER_BROKEN, a record is damaged.
        """
        keys = [stat.key for stat in self._slots.list_after(self._prefix, self._seen)]
        last = keys[-1] if keys else self._seen
        if not last:
            return Head(0, None, LoadOutcome(0, LoadPosition(self.begin.after)))
        # The outcome of this load may come later, and sorts after the intent.
        self._seen = last
        body = self._slots.read(last) or b""
        if last.endswith(_INTENT):
            intent = decode(last, body, Intent)
            return Head(intent.number, intent, LoadOutcome(intent.number, intent.before))
        outcome = decode(last, body, LoadOutcome)
        return Head(outcome.number, None, outcome)

    def propose(self, intent: Intent) -> bool:
        """Create an intent if there is none with its number; return whether this call did."""
        key = f"{self._prefix}{intent.number:010d}{_INTENT}"
        return self._slots.create(key, msgspec.json.encode(intent)) is Created.WON

    def conclude(self, outcome: LoadOutcome) -> None:
        """Create the outcome of a load if it has none, and delete records of old loads."""
        key = f"{self._prefix}{outcome.number:010d}{_OUTCOME}"
        self._slots.create(key, msgspec.json.encode(outcome))
        if outcome.number % KEPT_LOADS == 0:
            self._delete_before(outcome.number - KEPT_LOADS + 1)

    def _delete_before(self, number: int) -> None:
        # A publisher that creates one of them again finds the id of its job used.
        end = f"{self._prefix}{number:010d}"
        old = [stat.key for stat in self._slots.list_after(self._prefix) if stat.key < end]
        if old:
            self._slots.delete_slots(old)


_INTENT, _OUTCOME = "-intent.json", "-outcome.json"
