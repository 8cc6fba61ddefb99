"""By which spec a record of another group's ledger was landed, and whether that kept records."""

from collections.abc import Mapping
from types import MappingProxyType

from landfall.api.spec import ColumnSource, Decode, GroupSpec, TopicSpecs
from landfall.errors import Reason, Stalled
from landfall.landed.history import History
from landfall.lane.replacements import read_replace
from landfall.lane.stored_specs import read_spec
from landfall.ledger import Replace
from landfall.ledger.effects import SpecOpened, effects
from landfall.ledger.names import object_names
from landfall.ledger.opened import MadeIn
from landfall.ledger.replace.replacement_lists import ReplacementList
from landfall.ledger.task_results import DecidedObject

Lists = Mapping[int, tuple[Replace, ReplacementList]]
"""REPLACEs with their lists, by slot."""
_NO_LISTS: Lists = MappingProxyType({})


class LandedBy:
    """The specs by which a group has landed, as its drivers stored them. Each is read once.

    They lie in a bucket: nothing may be imported for one but by ``registry.Allowed``.
    """

    def __init__(
        self, history: History, field: str = "spec.source.landed", lists: Lists = _NO_LISTS
    ) -> None:
        """Read nothing yet.

        Args:
            history: of the group's lane.
            field: of the spec that names the group, for messages.
            lists: see ``take``.
        """
        self._history = history
        self._field = field
        self._read: dict[str, TopicSpecs | None] = {}
        self._opened: dict[int, str] = {}
        self._made_by: dict[int, str] = {}
        self._made_in = MadeIn(self._replace)
        self.take(lists)

    def take(self, lists: Lists) -> None:
        """Take REPLACEs that were read already, instead of those before; others are read if needed.

        By them it is known what objects were merged or copied of, and what backfills have landed.
        """
        self._lists = lists
        for slot in lists:
            self._replace(slot)

    def _replace(self, slot: int) -> tuple[Replace, ReplacementList]:
        found = self._lists.get(slot)
        if found is None:
            found = read_replace(self._history.lane, self._history.state, slot)
        if found[1].made_by:
            self._made_by[slot] = found[1].made_by.spec
        return found

    def slot(self, each: DecidedObject) -> int:
        """The slot by whose spec an object of data was made: of the record that landed its rows.

        Raises:
            Stalled: LEDGER_BROKEN.
            Retry: the store does not answer.
        """
        return self._made_in.slot(each.key, each.slot)

    def spec(self, seq: int, topic: str) -> GroupSpec:
        """The spec by which the driver that wrote a slot, or the backfill it names, landed a topic.

        Raises:
            Stalled: SPEC_INVALID, it is not stored; LEDGER_BROKEN.
            Retry: the store does not answer.
        """
        if name := self._made_by.get(seq):
            return self._stored(name, topic, f"slot {seq}")
        return self._stored(self._name(seq), topic, f"slot {self._history.opened(seq)}")

    def file(self, seq: int) -> str:
        """The key under which that spec is stored, for messages. Raises alike."""
        name = self._made_by.get(seq) or self._name(seq)
        lane = self._history.lane
        return object_names.spec_key(lane.group, lane.name, name) if name else "the group's file"

    def _name(self, seq: int) -> str:
        opened = self._history.opened(seq)
        if opened not in self._opened:
            said = effects(self._history.record(opened))
            specs = (effect.spec for effect in said if isinstance(effect, SpecOpened))
            self._opened[opened] = next(specs, "")
        return self._opened[opened]

    def present(self, topic: str) -> GroupSpec:
        """The spec by which it lands a topic now.

        Raises:
            Stalled, Retry: as ``spec``.
        """
        return self._stored(self._history.state.spec, topic, "the last OPEN")

    def check(self, seq: int, topic: str) -> None:
        """Return if what the COMMIT or backfill of a slot has landed holds what Kafka held.

        Raises:
            Stalled: SPEC_INVALID, it does not; or as ``spec``.
            Retry: the store does not answer.
        """
        self.refuse(self.spec(seq, topic), topic)

    def refuse(self, spec: GroupSpec, topic: str) -> None:
        """Return if objects of this spec hold what Kafka held.

        Raises:
            Stalled: SPEC_INVALID, they do not.
        """
        if why := why_not_kept(spec):
            group = self._history.lane.group
            raise Stalled(
                Reason.SPEC_INVALID,
                f"{self._field}: {topic} as {group} has landed it cannot be read as a log: {why}",
            )

    def _stored(self, name: str, topic: str, where: str) -> GroupSpec:
        lane = self._history.lane
        if name not in self._read:
            self._read[name] = read_spec(lane.slots, (lane.group, lane.name), name)
        specs = self._read[name]
        if specs is None:
            raise Stalled(
                Reason.SPEC_INVALID,
                f"{self._field}: {where} of the ledger of {lane.group} does not record how its "
                "objects are to be read: it was written by an older release",
            )
        return specs.for_topic(topic)


# Which groups' objects hold records as Kafka held them: offsets, and payloads byte by byte.
#
# ============  ==========================================================
# ========================= format        holds
# does not hold ============  ==========================================================
# ========================= SequenceFile  offset, payload; with ``keyMode: MessagePack`` Kafka key
# headers; that a payload is and Kafka timestamp                                         a
# tombstone, not empty Parquet       all of the record, without typed columns ============
# ==========================================================  =========================

_WHY = {
    "Text": "Text does not hold offsets",
    "Json": "Json does not hold offsets",
    "Avro": "Avro holds values without what frames them in Kafka, so not the payloads",
    "Orc": "Orc is not read as a source; land Parquet or SequenceFile",
}


def why_not_kept(spec: GroupSpec) -> str:
    """Why objects landed by this spec cannot replace the topic; empty if they can."""
    if spec.transforms:
        return "transforms change or leave out what Kafka held"
    match spec.output.format:
        case "SequenceFile":
            return ""
        case "Parquet":
            typed = _has_columns(spec.decode) or spec.output.columns is ColumnSource.FROM_SCHEMA
            return "Parquet of typed columns does not hold the payloads" if typed else ""
        case other:
            return _WHY.get(other, f"{other} is no format that is read as a source")


def _has_columns(decode: Decode) -> bool:
    of_key = decode.key.columns if decode.key else ()
    return bool(decode.columns or decode.header_columns or of_key)
