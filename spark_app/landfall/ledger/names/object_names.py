"""Keys of everything Landfall writes, and how to parse them. Pure: no I/O, no clock, no logging.

All keys are relative to the output root. Data objects are named as Secor names files: from a record
one can find its object, and from an object its range. Everything else is under ``_landfall/``,
which no topic may be called::

    <topic>/<output partition>/<generation>_<kafka partition>_<start:020d><extension>
        data objects; with a destination <destination>/<topic>/…
    <topic>/<output partition>/r<plan:010d>_<generation>_<kafka partition>_<start:020d><extension>
        data objects that replace older ones: ``renamed``
    _landfall/owner.json
        which group owns the output root; with a destination <destination>/_landfall/owner.json
    _landfall/<group>/<lane>/<epoch:010d>/<index:010d>.json
        slots of the ledger
    _landfall/<group>/<lane>-head.json    hint at the last snapshot
    _landfall/<group>/<lane>-files/…      lists of new files: ``ledger.feeds.part_lists``
    _landfall/<group>/<lane>-replaced/<sha256>.json.gz
        which objects replaced other objects: ``…replacement_lists``
    _landfall/<group>/<lane>-retired/…    copies of what retired: ``retired_key``
    _landfall/<group>/<lane>-expired/…    which dead letters are: ``names.expired_letters``
    _landfall/<group>/<lane>-snapshots/<seq:020d>.json
        states of the ledger
    _landfall/<group>/<lane>-published/…  what publishers keep: ``landfall.publish.cursor``
    _landfall/<group>/<lane>-specs/<sha256>.json    what objects were made by
    _landfall/<group>/<lane>-schemas/<sha256>.json  schemas that payloads were decoded with
    _landfall/<group>/<lane>-schemas/<registry>/<id>.json
        which of them a registry calls by an id
    _landfall/<group>/<lane>-schemas/<registry>/latest/<pin>/<sha256 of the subject>.json
        which of them is a subject's latest under a pin
    _landfall/<group>/<lane>-segments/<first:020d>-<last:020d>-<epoch:010d>-<digest>.seg
        closed stretches of the ledger, whose slots may be gone
    _landfall/<group>/dead-letters/<topic>/<generation>_<kafka partition>_<start:020d>.parquet
        dead letters; those that replace objects have a plan in their names, too
    _landfall/<group>/dead-letters@<place>/<topic>/…
        dead letters in a place of their own, which has the same keys: ``letters_place``
    _landfall/<group>/side/<name>/…       the output root of a backfill: all of the above, below it

A destination is one or more folders with ``=`` in their names, which no topic has: the first folder
without one is the topic's.

``start`` is the planned start of the range: no offset inside is smaller, and the ledger never plans
the same start twice. ``plan`` is the slot that a REPLACE was planned by. A name with a plan sorts
after all names of its folder without one, and after those with an earlier plan: who lists the
folder in pages while objects are replaced finds the old object, or the new one on a later page,
or both. Older software wrote the plan after ``start``, as in ``.r977.json.gz``; that is read.

The functions raise ``ValueError`` for a name that could not be parsed back,
would collide with another kind of key, or would leave the root.
"""

import re
from dataclasses import dataclass, field

from landfall.ledger.names.folders import check_destination, check_directories, split_destination

SYSTEM = "_landfall"
"""Top-level folder of everything that is not data."""
SIDE = "side"
"""Folder of a group's backfills, see ``ledger.names.roots.side_root``."""
MAX_KEY_BYTES = 1024
"""S3's limit of a key's length."""
MAX_OFFSET = 2**63 - 1
"""Kafka's largest offset."""
_TEN_DIGITS = 10**10
_BESIDE_A_LANE = (
    "-snapshots",
    "-segments",
    "-specs",
    "-schemas",
    "-published",
    "-files",
    "-replaced",
    "-retired",
    "-expired",
)

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_GROUP = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
LANE_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_EXTENSION = re.compile(r"(\.[A-Za-z0-9_-]+)*")
_OLD_PLAN = re.compile(r"\.r(0|[1-9][0-9]*)(?![^.])")
_BASENAME = re.compile(
    r"(r([0-9]{10}|[1-9][0-9]{10,})_)?(0|[1-9][0-9]*)_(0|[1-9][0-9]*)_([0-9]{20})(\..*)?", re.DOTALL
)
_PREFIX = re.compile(r"^r[0-9]+_")
_SLOT = re.compile(r"([0-9]{10})/([0-9]{10})\.json")
_REGISTRY = re.compile(r"[0-9a-f]{16}")
_PLACE = re.compile("[0-9a-f]{16}")
_LETTERS = re.compile("dead-letters(@[0-9a-f]{16})?/")
# In a root or the root of a side lane, as it was landed or as a copy.
_IN_A_PLACE = re.compile(
    f"({SYSTEM}/[^/]+/{SIDE}/[^/]+/)?({SYSTEM}/[^/]+/[^/]+-retired/[0-9]+/)?"
    f"{SYSTEM}/[^/]+/dead-letters@([0-9a-f]{{16}})/"
)
_SCHEMA_ID = re.compile(r"0|[1-9][0-9]{0,9}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class ObjectName:
    """The parts of a data object's key.

    Attributes:
        topic: a legal Kafka topic name.
        output_partition: one or more folders, such as ``dt=2026-11-21/hr=04``.
        generation: generation of the group's spec.
        partition: the Kafka partition number.
        start: the planned start of the range; less than or equal to every offset inside.
        extension: file extension with its dot, such as ``.json.gz``; may be empty.
        destination: folders above the topic's, such as ``db=shop``; may be empty.
        plan: the slot in which the REPLACE that made it was planned; -1
            if it was landed, or if older software named it.

    Raises:
        ValueError: a part is not legal, or the key is longer than 1024 bytes.
    """

    topic: str
    output_partition: str
    generation: int
    partition: int
    start: int
    extension: str
    destination: str = ""
    plan: int = -1

    def __post_init__(self) -> None:
        check_topic(self.topic)
        check_destination(self.destination)
        check_directories(self.output_partition)
        _check_numbers(self.generation, self.partition, self.start)
        if self.plan < -1:
            raise ValueError(f"not a slot that a REPLACE was planned by: {self.plan}")
        if not _EXTENSION.fullmatch(self.extension):
            raise ValueError(f"not a file extension such as .json.gz: {self.extension!r}")
        check_length(self.key)

    @property
    def key(self) -> str:
        """The object's key, relative to the output root."""
        above = f"{self.destination}/" if self.destination else ""
        return f"{above}{self.topic}/{self.output_partition}/{_basename(self)}{self.extension}"

    @property
    def planned_by(self) -> int:
        """The plan in the name, wherever it is; -1 if the object was landed."""
        return self.plan if self.plan >= 0 else _split_old_plan(self.extension)[0]

    @property
    def format_extension(self) -> str:
        """The extension of the object's format, without the plan of an older name."""
        return _split_old_plan(self.extension)[1]


def parse_key(key: str) -> ObjectName:
    """The parts of a data object's key; the inverse of ``ObjectName.key``.

    Raises:
        ValueError: the key is not a data object's.
    """
    destination, below = split_destination(key)
    topic, _, rest = below.partition("/")
    output_partition, _, basename = rest.rpartition("/")
    match = _BASENAME.fullmatch(basename)
    if not match:
        raise ValueError(
            f"not <generation>_<partition>_<20 digits><extension>: {basename!r} in {key!r}"
        )
    return ObjectName(
        topic=topic,
        output_partition=output_partition,
        generation=int(match[3]),
        partition=int(match[4]),
        start=int(match[5]),
        extension=match[6] or "",
        destination=destination,
        plan=int(match[2] or -1),
    )


def dead_letter_key(  # noqa: PLR0913  # a part of the name each
    group: str, topic: str, generation: int, partition: int, start: int, *, place: str = ""
) -> str:
    """The key of a dead-letter object; ``origin`` parses it.

    Raises:
        ValueError: a part is not legal.
    """
    _check_numbers(generation, partition, start)
    name = f"{generation}_{partition}_{start:020d}.parquet"
    return f"{dead_letters_prefix(group, topic, place=place)}{name}"


def dead_letters_prefix(group: str, topic: str, *, place: str = "") -> str:
    """The prefix that the dead-letter objects of a topic have in a place, and no other key.

    Args:
        group: name of the group.
        topic: name of the topic.
        place: as of ``letters_place``.

    Raises:
        ValueError: a part is not legal.
    """
    check_topic(topic)
    if place and not _PLACE.fullmatch(place):
        raise ValueError(f"not 16 hexadecimal digits, which name a place: {place!r}")
    return f"{group_prefix(group)}dead-letters{'@' if place else ''}{place}/{topic}/"


def letters_place(key: str) -> str:
    """The place of their own that these dead letters are in, 16 hexadecimal digits.

    It is empty for dead letters in the output root, and for all that are none. A copy of dead
    letters is in their place, and so are a backfill's.
    """
    match = _IN_A_PLACE.match(key)
    return match[3] if match else ""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the records of an object come from, and the generation that wrote it.

    ``plan`` is the slot that the REPLACE which made the object was planned by
    (``Replace.read_through``); -1 if it was landed. It is ignored in comparisons.
    """

    topic: str
    generation: int
    partition: int
    start: int
    plan: int = field(default=-1, compare=False)


MergePlace = tuple[str, int]
"""The folder and the generation of an object."""


def merge_place(group: str, key: str) -> MergePlace:
    """The place of an object: what it is merged with has the same.

    A former life of a topic partition has earlier generations.
    """
    return key.rpartition("/")[0], origin(group, key).generation


def origin(group: str, key: str) -> Origin:
    """The origin that the key of a data object, or of a dead-letter object of this group, names.

    Raises:
        ValueError: the key is neither.
    """
    prefix = group_prefix(group)
    letters = _LETTERS.match(key, len(prefix)) if key.startswith(prefix) else None
    if not letters:
        name = parse_key(key)
        return Origin(
            topic=name.topic,
            generation=name.generation,
            partition=name.partition,
            start=name.start,
            plan=name.planned_by,
        )
    topic, _, basename = key[letters.end() :].partition("/")
    match = _BASENAME.fullmatch(basename)
    if not match:
        raise ValueError(f"not the key of a dead-letter object: {key!r}")
    check_topic(topic)
    plan = int(match[2]) if match[2] else _split_old_plan(match[6] or "")[0]
    return Origin(
        topic=topic,
        generation=int(match[3]),
        partition=int(match[4]),
        start=int(match[5]),
        plan=plan,
    )


def renamed(key: str, plan: int) -> str:
    """The name of an object that replaces one with this key, or several with this one.

    It sorts after all names that the folder had when the slot was written. A REPLACE must know
    those before it in its folders as applied, so the plans of a folder only grow.

    Raises:
        ValueError: the name would be longer than 1024 bytes.
    """
    folder, slash, basename = key.rpartition("/")
    stem, dot, rest = basename.partition(".")
    _, extension = _split_old_plan(f"{dot}{rest}")
    new = f"{folder}{slash}{_plan_prefix(plan)}{_PREFIX.sub('', stem)}{extension}"
    check_length(new)
    return new


def _plan_prefix(plan: int) -> str:
    return f"r{plan:010d}_" if plan >= 0 else ""


def _split_old_plan(extension: str) -> tuple[int, str]:
    """The plan in an extension, where older software wrote it, -1 if there is none; the rest."""
    match = _OLD_PLAN.match(extension)
    return (int(match[1]), extension[match.end() :]) if match else (-1, extension)


def owner_key(destination: str = "") -> str:
    """The key of the object that names the group that owns the output root, or a destination.

    Raises:
        ValueError: it is no destination.
    """
    check_destination(destination)
    return f"{destination}/{SYSTEM}/owner.json".removeprefix("/")


def is_system_key(key: str) -> bool:
    """Return whether a key is none of a data object, but of what Landfall needs besides."""
    return key.startswith(f"{SYSTEM}/") or split_destination(key)[1] == owner_key()


def ledger_prefix(group: str, lane: str) -> str:
    """The prefix that the slots of this ledger have, and no other key.

    Raises:
        ValueError: the group's or the lane's name is not legal.
    """
    return f"{lane_prefix(group, lane)}/"


def slot_key(group: str, lane: str, epoch: int, index: int) -> str:
    """The key of a ledger slot; ``parse_slot_key`` is the inverse.

    Keys sort in the order of the slots. ``index`` counts the slots of the epoch from 0.

    Raises:
        ValueError: a name is not legal, or a number is negative or has more than ten digits.
    """
    if not (0 <= epoch < _TEN_DIGITS and 0 <= index < _TEN_DIGITS):
        raise ValueError(f"not an epoch and an index of a slot: {epoch}, {index}")
    return f"{ledger_prefix(group, lane)}{epoch:010d}/{index:010d}.json"


def parse_slot_key(group: str, lane: str, key: str) -> tuple[int, int]:
    """The epoch and the index in a slot's key.

    Raises:
        ValueError: the key is not a slot's of this ledger.
    """
    prefix = ledger_prefix(group, lane)
    match = _SLOT.fullmatch(key.removeprefix(prefix))
    if not key.startswith(prefix) or not match:
        raise ValueError(f"not a slot under {prefix}: {key!r}")
    return int(match[1]), int(match[2])


def snapshots_prefix(group: str, lane: str) -> str:
    """The prefix that the stored states of this ledger have, and no other key.

    Raises:
        ValueError: the group's or the lane's name is not legal.
    """
    return f"{lane_prefix(group, lane)}-snapshots/"


def head_key(group: str, lane: str) -> str:
    """The key of the hint at the ledger's last snapshot. It is not under the prefix of the slots.

    Raises:
        ValueError: the group's or the lane's name is not legal.
    """
    return f"{lane_prefix(group, lane)}-head.json"


def snapshot_key(group: str, lane: str, seq: int) -> str:
    """The key of the state that SNAPSHOT ``seq`` names; not under the prefix of the slots.

    Raises:
        ValueError: a name is not legal or ``seq`` is negative.
    """
    return f"{snapshots_prefix(group, lane)}{_sequence(seq)}"


def spec_key(group: str, lane: str, digest: str) -> str:
    """The key of the stored part of a spec; not under the prefix of the slots.

    Raises:
        ValueError: a name is not legal, or ``digest`` is no SHA-256 in hexadecimal digits.
    """
    return f"{lane_prefix(group, lane)}-specs/{_sha256(digest)}.json"


def schemas_prefix(group: str, lane: str) -> str:
    """The prefix that the stored schemas of this ledger have, and no other key.

    Raises:
        ValueError: the group's or the lane's name is not legal.
    """
    return f"{lane_prefix(group, lane)}-schemas/"


def schema_key(group: str, lane: str, digest: str) -> str:
    """The key of a stored schema; not under the prefix of the slots.

    Raises:
        ValueError: a name is not legal, or ``digest`` is no SHA-256 in hexadecimal digits.
    """
    return f"{schemas_prefix(group, lane)}{_sha256(digest)}.json"


def schema_id_key(group: str, lane: str, registry: str, schema_id: str) -> str:
    """The key of the object that records which stored schema a registry calls by an id.

    Raises:
        ValueError: a name is not legal, ``registry`` is not 16 hexadecimal digits, or the id is no
            number and no GUID.
    """
    if not _REGISTRY.fullmatch(registry) or not _SCHEMA_ID.fullmatch(schema_id):
        raise ValueError(f"not a registry and an id of a schema: {registry!r}, {schema_id!r}")
    return f"{schemas_prefix(group, lane)}{registry}/{schema_id}.json"


def schema_ids_prefix(group: str, lane: str, registry: str) -> str:
    """Return the prefix of a registry's ``schema_id_key`` keys.

    Raises:
        ValueError: a name is not legal, or ``registry`` is not 16 hexadecimal digits.
    """
    if not _REGISTRY.fullmatch(registry):
        raise ValueError(f"not a registry: {registry!r}")
    return f"{schemas_prefix(group, lane)}{registry}/"


def schema_id_of(name: str) -> str | None:
    """Return the id in a name below ``schema_ids_prefix``; None if it belongs to something else."""
    schema_id = name.removesuffix(".json")
    return schema_id if schema_id != name and _SCHEMA_ID.fullmatch(schema_id) else None


def _basename(name: ObjectName) -> str:
    plan = _plan_prefix(name.plan)
    return f"{plan}{name.generation}_{name.partition}_{name.start:020d}"


def check_topic(topic: str) -> None:
    """Raise ``ValueError`` if it is no name of a topic that can be landed."""
    if not _TOPIC.fullmatch(topic) or topic in {".", "..", SYSTEM}:
        raise ValueError(f"not a topic name that can be landed: {topic!r}")


def _check_numbers(generation: int, partition: int, start: int) -> None:
    if generation < 0 or partition < 0 or not 0 <= start <= MAX_OFFSET:
        raise ValueError(
            f"not a generation, Kafka partition and offset: {generation}, {partition}, {start}"
        )


def check_length(key: str) -> None:
    """Raise ``ValueError`` if a key is longer than any store takes."""
    if (size := len(key.encode())) > MAX_KEY_BYTES:
        raise ValueError(f"a key of {size} bytes, more than {MAX_KEY_BYTES}: {key!r}")


def group_prefix(group: str) -> str:
    """Return the prefix of all keys that are stored for a group, except its objects.

    Raises:
        ValueError: the group's name is not legal.
    """
    if not is_group_name(group):
        raise ValueError(f"not a group name: {group!r}")
    return f"{SYSTEM}/{group}/"


def is_group_name(name: str) -> bool:
    """Return whether a group may have this name."""
    # A group "owner.json" would put its folder where the owner's object is.
    return bool(_GROUP.fullmatch(name)) and len(name) <= 63 and name != "owner.json"


def lane_prefix(group: str, lane: str) -> str:
    """The prefix of the keys of all that a lane stores, its slots and what is next to them.

    Raises:
        ValueError: the group's or the lane's name is not legal.
    """
    # A lane "a-snapshots" would put its slots among the snapshots of lane "a"; likewise the other
    # kinds.
    if (
        not LANE_NAME.fullmatch(lane)
        or len(lane) > 63
        or lane in {"dead-letters", SIDE}
        or lane.endswith(_BESIDE_A_LANE)
    ):
        raise ValueError(f"not a lane name: {lane!r}")
    return f"{group_prefix(group)}{lane}"


def _sha256(digest: str) -> str:
    if not re.fullmatch("[0-9a-f]{64}", digest):
        raise ValueError(f"not a SHA-256: {digest!r}")
    return digest


def _sequence(seq: int) -> str:
    if not 0 <= seq <= MAX_OFFSET:
        raise ValueError(f"not a sequence number: {seq}")
    return f"{seq:020d}.json"


ANY_RETIRED = re.compile("_landfall/[^/]+/[^/]+-retired/")
"""Matches what the keys of the copies of any lane begin with."""


def retired_prefix(group: str, lane: str) -> str:
    """The prefix of the copies.

    Raises:
        ValueError: the group's or the lane's name is not legal.
    """
    return f"{lane_prefix(group, lane)}-retired/"


def retired_key(group: str, lane: str, slot: int, key: str) -> str:
    """The key of the copy of an object that retires by the REPLACE in a slot.

    Raises:
        ValueError: a name is not legal, or the copy's key would be longer than 1024 bytes.
    """
    kept = f"{retired_prefix(group, lane)}{slot:020d}/{key}"
    check_length(kept)
    return kept


def slot_of(prefix: str, key: str) -> int | None:
    """The slot in the key of a copy that begins with ``prefix``; None for any other key."""
    slot = key.removeprefix(prefix).partition("/")[0]
    return int(slot) if slot.isdecimal() else None


_SEGMENT = re.compile(r"([0-9]{20})-([0-9]{20})-([0-9]{10})-([0-9a-f]{16})\.seg")
_EPOCHS = 10**10


def segments_prefix(group: str, lane: str) -> str:
    """The prefix that the segments of this ledger have, and no other key.

    Raises:
        ValueError: the group's or the lane's name is not legal.
    """
    return f"{lane_prefix(group, lane)}-segments/"


@dataclass(frozen=True, slots=True)
class SegmentName:
    """The parts of a segment's key.

    Attributes:
        first: number of its first slot.
        last: number of its last slot, which seals an epoch.
        epoch: the epoch that slot ``last`` seals.
        digest: the first 16 hexadecimal digits of the SHA-256 of the segment's bytes.

    Raises:
        ValueError: the numbers do not describe a stretch of slots, or the digest is not one.
    """

    first: int
    last: int
    epoch: int
    digest: str

    def __post_init__(self) -> None:
        if not 0 <= self.first <= self.last <= MAX_OFFSET or not 0 <= self.epoch < _EPOCHS:
            raise ValueError(f"not slots of an epoch: {self.first}, {self.last}, {self.epoch}")
        if not re.fullmatch("[0-9a-f]{16}", self.digest):
            raise ValueError(f"not 16 hexadecimal digits: {self.digest!r}")


def segment_key(group: str, lane: str, name: SegmentName) -> str:
    """The key of a segment; ``parse_segment_key`` is the inverse. Keys sort by their first slots.

    Raises:
        ValueError: the group's or the lane's name is not legal.
    """
    numbers = f"{name.first:020d}-{name.last:020d}-{name.epoch:010d}"
    return f"{segments_prefix(group, lane)}{numbers}-{name.digest}.seg"


def parse_segment_key(group: str, lane: str, key: str) -> SegmentName:
    """The parts of a segment's key.

    Raises:
        ValueError: the key is not a segment's of this ledger.
    """
    prefix = segments_prefix(group, lane)
    match = _SEGMENT.fullmatch(key.removeprefix(prefix))
    if not key.startswith(prefix) or not match:
        raise ValueError(f"not a segment under {prefix}: {key!r}")
    return SegmentName(int(match[1]), int(match[2]), int(match[3]), match[4])
