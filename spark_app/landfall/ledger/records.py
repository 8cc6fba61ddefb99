"""The ledger's record types, and their bytes. Pure.

``Open`` takes the lane and fences its previous owner. ``Add`` and ``Drop`` let topic partitions
enter and leave. ``Commit`` lands ranges. ``Repair`` names a new upload for a decided object whose
upload was lost. ``Hole`` skips a range of lost data. ``Snapshot`` points to a stored state, so that
opening a lane reads only the records after it. ``Yield`` hands the lane over.

``Block`` stops topic partitions until a user decides, and ``Unblock`` is such a decision. ``Lost``
gives up decided objects that can never be made. ``Replay`` lands dead letters again. ``Finalize``
records up to which event time topics are complete, ``Run`` that a closed range is landed,
``Applied`` that more objects are visible. ``Discover`` numbers parts of files, which are the log of
a feed. ``Lease`` gives such parts to a worker that is none of Landfall's, ``Extend`` gives it more
time, and ``LeaseOutcome`` records their outcome. ``Replace`` replaces objects, and ``Retired``
records that the old ones are gone. A ``Decision`` names who asked for what, and why.

The names of the types' tags and fields are the persisted format: renaming one is a new version.
"""

import hashlib
from datetime import UTC, datetime

import msgspec

from landfall import untrusted_json
from landfall.errors import Reason, Stalled
from landfall.ledger.entries import (
    Blocked,
    ClosedTopic,
    Decision,
    Entry,
    Horizon,
    KnownFiles,
    Missing,
    PartList,
    Permission,
    Purpose,
    Replacement,
    Rolled,
)
from landfall.ledger.header import VERSION, BaseRecord
from landfall.ledger.offsets import Slice, TopicPartition
from landfall.ledger.task_results import (
    LandedObject,
    LandedSlice,
    ReplayedSlice,
    check_schemas,
)

GENESIS_HASH = ""
"""What the first record of a lane names as the hash of the slot before."""


class Open(BaseRecord, frozen=True, tag="OPEN", omit_defaults=True):
    """A driver takes the lane. Its epoch is one higher, which fences every driver before it.

    ``revision`` names the version of software and spec, where the operator lets drivers of several
    revisions follow each other. ``spec`` names the stored part of the spec that decides what
    objects hold, by which lost ones are made again. Neither is written if empty.
    """

    group: str
    lane: str
    generation: int
    software: str
    revision: str = ""
    spec: str = ""


class Add(BaseRecord, frozen=True, tag="ADD", omit_defaults=True):
    """Topic partitions enter the lane.

    With a decision, those that a DROP with a decision keeps out may enter again.
    """

    entries: tuple[Entry, ...]
    decision: Decision | None = None


class Drop(BaseRecord, frozen=True, tag="DROP", omit_defaults=True):
    """Topic partitions leave the lane: their topic is deleted, or another lane takes them.

    With a decision, they stay out until an ADD with a decision. Their blocks are cleared.
    """

    topic_partitions: tuple[TopicPartition, ...]
    reason: str
    decision: Decision | None = None


class Commit(BaseRecord, frozen=True, tag="COMMIT"):
    """Ranges are landed and their objects are decided.

    ``token`` identifies the batch and is in the metadata of each of its objects. Each slice names
    the schemas that its payloads were decoded with, which are stored before, by their SHA-256, and
    in ``read_from`` the group from whose objects it was read, if Kafka had lost it.
    """

    token: str
    slices: tuple[LandedSlice, ...]


class Repair(BaseRecord, frozen=True, tag="REPAIR", omit_defaults=True):
    """New uploads, from the same ranges, for lost objects of the record in slot ``commit``.

    Objects that were missing are due again under the slot of the REPAIR, not of the COMMIT.
    ``schemas`` are those that the objects were decoded with and the other record does not name. It
    is not written if empty.
    """

    commit: int
    objects: tuple[LandedObject, ...]
    schemas: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_schemas(self.schemas)


class Hole(BaseRecord, frozen=True, tag="HOLE", omit_defaults=True):
    """A range that is not landed: it is lost in Kafka, or a decision skips it.

    With a decision, it clears the block of the topic partition. Of a feed, it covers what is left
    of one part, whose ``attempt`` failed, counted from 1; with a decision, that is given up.
    """

    piece: Slice  # the name of the field in the ledger
    reason: str
    decision: Decision | None = None
    attempt: int = 0


class Lost(BaseRecord, frozen=True, tag="LOST", omit_defaults=True):
    """Decided objects of COMMIT or REPLAY ``commit`` that can never be made again, given up.

    ``objects`` are as that record, or its last REPAIR, names them. They are no longer completed.
    Their topic partitions are no longer blocked for them.
    """

    commit: int
    objects: tuple[LandedObject, ...]
    decision: Decision | None = None


class Block(BaseRecord, frozen=True, tag="BLOCK", omit_defaults=True):
    """Topic partitions are not landed until a decision: UNBLOCK, or a HOLE or DROP with one.

    ``missing`` names decided objects of theirs that cannot be made again. The applied COMMITs may
    pass them; they stay due until a REPAIR or a LOST, or until their topic partition leaves.
    """

    entries: tuple[Blocked, ...]
    missing: tuple[Missing, ...] = ()


class Unblock(BaseRecord, frozen=True, tag="UNBLOCK"):
    """Topic partitions may be landed again; a truncated log is accepted at the checkpoint."""

    entries: tuple[Permission, ...]
    decision: Decision


class Replay(BaseRecord, frozen=True, tag="REPLAY"):
    """Records of dead-letter objects are landed again. Their objects are decided as by a COMMIT.

    No checkpoint moves. Each dead-letter object is replayed once, under a generation above the one
    that wrote it, and never if a backfill has landed its records again. ``token`` is in the
    metadata of each new object.
    """

    token: str
    slices: tuple[ReplayedSlice, ...]
    decision: Decision


class Finalize(BaseRecord, frozen=True, tag="FINALIZE"):
    """Topics are complete up to an event time: a record that comes later all the same is late.

    ``delay`` (ms) is how long records may be late, ``looked`` (ms) a time at which everything in
    the log of a drained topic partition was landed. No horizon is within the delay before it.
    """

    delay: int
    looked: int
    entries: tuple[Horizon, ...]


class Run(BaseRecord, frozen=True, tag="RUN", omit_defaults=True):
    """A closed range is landed and visible: what Kafka dated before ``until`` (ms).

    Of a feed it is every file that was written before. ``began`` is when a driver began to land it,
    ISO 8601 in UTC. ``left`` are the topics with something that is not landed, because it is
    blocked or cannot be read. Once there are fewer of them, another RUN with the same ``until`` may
    follow. ``delay`` (ms) is how long records may be late: no topic is complete within the delay
    before the end of the range.
    """

    until: int
    began: str
    topics: tuple[ClosedTopic, ...]
    left: tuple[str, ...] = ()
    delay: int = 0


class Discover(BaseRecord, frozen=True, tag="DISCOVER", omit_defaults=True):
    """Parts of files get the next numbers of a feed, by a list that is stored before.

    ``again`` are parked parts that get other numbers in this list, ``replaced`` parts of files that
    have another version now, ``ignored`` parts that a decision gives up. With a decision, ``again``
    may also be of parts that were given up. ``known`` names what is stored of all files with parts
    below a number, by which files are found to be new.
    """

    topic_partition: TopicPartition
    listed: PartList | None = None
    again: tuple[int, ...] = ()
    replaced: tuple[int, ...] = ()
    ignored: tuple[int, ...] = ()
    known: KnownFiles | None = None
    decision: Decision | None = None


class Lease(BaseRecord, frozen=True, tag="LEASE", omit_defaults=True):
    """Parts of an external feed are ``holder``'s until an OUTCOME. The slot's number is the lease.

    ``until`` (ms) is when it may be ended for being too late, and ``request`` the id under which
    it was asked for.
    """

    topic_partition: TopicPartition
    numbers: tuple[int, ...]
    holder: str
    until: int
    request: str = ""


class Extend(BaseRecord, frozen=True, tag="EXTEND", omit_defaults=True):
    """The lease of slot ``lease`` may not be ended for being too late before ``until`` (ms)."""

    topic_partition: TopicPartition
    lease: int
    until: int
    request: str = ""


class LeaseOutcome(BaseRecord, frozen=True, tag="OUTCOME", omit_defaults=True):
    """The outcome of parts of a lease that its holder no longer has.

    ``done`` is final. The rest may be leased again: ``failed`` and ``expired`` ones, which are
    all that are left, after one more attempt, and ``returned`` ones as if they never were. ``at``
    (ms) is when the driver recorded it.
    """

    topic_partition: TopicPartition
    lease: int
    at: int
    done: tuple[int, ...] = ()
    failed: tuple[int, ...] = ()
    returned: tuple[int, ...] = ()
    expired: tuple[int, ...] = ()
    why: str = ""
    request: str = ""


class Replace(BaseRecord, frozen=True, tag="REPLACE", omit_defaults=True):
    """Objects are replaced by new ones, as a list defines that is stored before.

    The new ones are decided as by a COMMIT, and carry ``token``. The record is applied once they
    are visible. From then on a copy is kept of each old one, and it is deleted: RETIRED records
    when nothing is left.

    Attributes:
        token: what is in the metadata of each new object.
        purpose: what it is for.
        listed: the list.
        read_through: the slot up to which everything was applied, as the author of the list read
            the ledger. What retires was visible by then, and nothing else of the folders had
            retired.
        folders: in which any of these objects are, sorted.
        slices: per topic partition, from the first of the records in these objects to the last.
        instead: the slot of a REPLACE that is not applied, and that this one supersedes; -1 for
            none. The new objects of that one are not needed, except if it is decided ``again``.
        again: whether it is the same as the one in slot ``instead``, with the same list, so that
            what came in between is applied without it.
        duplicates: rows that have the key of another one, and are in no new object.
        backfill: the name of the backfill that is promoted; empty if none is.
        undoes: the slot of a backfill's REPLACE, or of one that undid it, if what ``slices`` are is
            as before it; -1 for none.
        unmerges: the slot of a merge's REPLACE, or of one that undid it, if that is undone, in
            these folders; -1 for none. Software before it was there has not written it.
        retires_later: whether a RETIRED follows. Without, as older software wrote it, the
            record is applied once nothing is left of the old objects, either.
        decision: of who asked for it.

    Raises:
        ValueError: folders or slices are not sorted, or not each once.
    """

    token: str
    purpose: Purpose
    listed: Replacement
    read_through: int
    folders: tuple[str, ...]
    slices: tuple[Slice, ...]
    instead: int = -1
    duplicates: int = 0
    backfill: str = ""
    undoes: int = -1
    unmerges: int = -1
    retires_later: bool = False
    decision: Decision | None = None
    again: bool = False

    def __post_init__(self) -> None:
        tps = [s.topic_partition for s in self.slices]
        if not self.folders or sorted({*self.folders}) != [*self.folders]:
            raise ValueError("folders of replaced objects are not sorted, or there are none")
        if sorted({*tps}) != tps:
            raise ValueError("topic partitions of replaced objects are not sorted")


class Retired(BaseRecord, frozen=True, tag="RETIRED"):
    """Nothing is left of what retires by the REPLACEs in these slots, which are applied.

    An object that another program has put under such a name stays there.
    """

    slots: tuple[int, ...]


class Snapshot(BaseRecord, frozen=True, tag="SNAPSHOT"):
    """The state after the previous slot is stored under ``key``."""

    key: str
    sha256: str


class Applied(BaseRecord, frozen=True, tag="APPLIED"):
    """More objects are visible, by ``applied_through``, and nothing else is to be recorded.

    Without it, who reads the ledger would not learn of them before the next record, which in an
    idle group may be a day later.
    """


class Segment(BaseRecord, frozen=True, tag="SEGMENT"):
    """Slots of sealed epochs are stored in a segment, so that they may be deleted.

    The first slot of each epoch and the one that seals it are never deleted.
    """

    rolled: Rolled


class Yield(BaseRecord, frozen=True, tag="YIELD"):
    """The driver gives the lane up. Only an OPEN may follow."""

    reason: str


Record = (
    Open
    | Add
    | Drop
    | Commit
    | Repair
    | Hole
    | Lost
    | Block
    | Unblock
    | Replay
    | Finalize
    | Run
    | Discover
    | Lease
    | Extend
    | LeaseOutcome
    | Replace
    | Retired
    | Snapshot
    | Applied
    | Segment
    | Yield
)

# Deterministic: a retried append must send the same bytes, since they are compared with the slot's.
_encoder = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder(Record)


def encode(record: Record) -> bytes:
    """The bytes of the slot that holds the record."""
    return _encoder.encode(record)


def decode(seq: int, body: bytes) -> Record:
    """The record in the bytes of slot ``seq``.

    Raises:
        Stalled: LEDGER_BROKEN, the bytes are not a record, or not of a supported version.
    """
    try:
        record: Record = untrusted_json.decode_by(_decoder.decode, body)
    except (msgspec.DecodeError, ValueError) as error:
        raise ledger_error(seq, f"not a ledger record: {error}") from error
    if record.header.version != VERSION:
        raise ledger_error(
            seq,
            f"record version {record.header.version} is not supported, "
            f"this software reads version {VERSION}",
        )
    return record


def digest(body: bytes) -> str:
    """SHA-256 (hex) of a slot's bytes, by which the next slot refers to it."""
    return hashlib.sha256(body).hexdigest()


def time_of(slot: int, text: str) -> datetime:
    """Return the time in a record's header, in UTC.

    Raises:
        Stalled: LEDGER_BROKEN, it is none.
    """
    try:
        time = datetime.fromisoformat(text)
        return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise ledger_error(slot, f"{text[:40]!r} is no time, which its header must have") from error


def ledger_error(seq: int, problem: str) -> Stalled:
    """The error to raise for a slot that violates the ledger's rules."""
    return Stalled(Reason.LEDGER_BROKEN, f"ledger slot {seq}: {problem}")
