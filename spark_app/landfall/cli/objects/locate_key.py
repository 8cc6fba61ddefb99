"""``landfall locate --key``: the newest row of a key in keyed tables."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from landfall.cli.group_store import GroupStore
from landfall.errors import Reason, Stalled
from landfall.landed.locating import OffsetLocation
from landfall.ledger.names.object_names import ObjectName
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.task_results import LandedObject, ObjectKind
from landfall.objects import Upload
from landfall.publish.building import publisher
from landfall.publish.keyed.newest import Ended, HasKeys, NewestRow
from landfall.publish.lifetimes import LedgerLifetimes
from landfall.publish.tables import TablePublisher

LookUp = Callable[[TopicPartition, int], OffsetLocation]
"""Returns where an offset is."""


@dataclass(frozen=True)
class KeyAnswer:
    """A key in a table.

    Attributes:
        message: one sentence.
        newest: the newest row; None if the table does not exist yet.
        location: of the row; None if the table never had one, or its lifetime has ended.
    """

    message: str
    newest: NewestRow | None = None
    location: OffsetLocation | None = None


def find_key(
    opened: GroupStore, topic: str, pairs: Sequence[str], look_up: LookUp
) -> list[KeyAnswer]:
    """Find a key in each keyed table of a topic.

    Args:
        opened: the group.
        topic: the topic.
        pairs: the key, as ``id=7``.
        look_up: finds an offset.

    Raises:
        Stalled: SPEC_INVALID, no keyed table is published, or the key is none of it; see
            ``HasKeys``.
        Retry: the store or a catalog does not answer.
    """
    tables = [*_keyed_tables(opened, topic)]
    if not tables:
        message = f"spec.publish: no publisher keeps a table of {topic} with mode: Keyed"
        raise Stalled(Reason.SPEC_INVALID, message)
    ended = LedgerLifetimes(opened.lane).ended(opened.lane.read(), topic)
    asked = _Asked(topic, _parsed(pairs), ended, look_up)
    return [asked.of(name, of_publisher) for name, of_publisher in tables]


def _parsed(pairs: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name or name in found:
            message = f"--key {pair}: expected a column and its value, each once, such as id=7"
            raise Stalled(Reason.SPEC_INVALID, message)
        found[name] = value
    return found


def _keyed_tables(opened: GroupStore, topic: str) -> Iterator[tuple[str, HasKeys]]:
    """The keyed tables of a topic, each with the tables of its publisher."""
    name = ObjectName(topic, "all", opened.group.spec.generation, 0, 0, "")
    example = LandedObject(Upload(name.key, "", (), ""), ObjectKind.DATA, 0, 0, 0, 0)
    for entry in opened.publishers(()):
        built = publisher(opened.group, entry, opened.store)
        if not isinstance(built, TablePublisher) or not isinstance(built.tables, HasKeys):
            continue
        if (table := built.table_of(example)) is not None:
            yield table, built.tables


@dataclass(frozen=True)
class _Asked:
    """A key that is looked up.

    Attributes:
        topic: of the tables.
        key: its values by column.
        ended: the lifetimes of the topic.
        look_up: finds an offset.
    """

    topic: str
    key: Mapping[str, str]
    ended: Ended
    look_up: LookUp

    def of(self, table: str, tables: HasKeys) -> KeyAnswer:
        """Return the newest row of the key in a table."""
        newest = tables.newest(table, self.key, self.ended)
        if newest is None:
            return KeyAnswer(f"table {table} does not exist yet")
        at = f"table {table}, through slot {newest.slot}"
        key = ", ".join(f"{name}={value}" for name, value in self.key.items())
        if newest.partition is None:
            return KeyAnswer(f"{at}: no row has key {key}", newest)
        tp = TopicPartition(self.topic, newest.partition)
        message = f"{at}: the newest row of key {key} is offset {newest.offset} of {tp}"
        if not newest.is_shown:
            message += "; the table lacks it: it deletes the key, or another program has deleted it"
        if newest.lifetime < len(self.ended.get(newest.partition, ())):
            message += f"; it is from before {tp} began again, and is not looked up"
            return KeyAnswer(message, newest)
        return KeyAnswer(message, newest, self.look_up(tp, newest.offset))
