"""The chain of loads of a table: the records, and what follows from them. Pure.

A load is an INTENT, which names the objects to load, and an OUTCOME. Loads are numbered from 1, and
each record contains everything that is known after it, so the last one is enough. The id of the job
of load ``n`` depends on the chain and on ``n`` only, and load ``n + 1`` is decided once that job
has ended: a publisher that decides something else about load ``n`` finds its id used
(``tests/model/loading.py``).
"""

import hashlib
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

import msgspec

from landfall import untrusted_json
from landfall.errors import Reason, Stalled
from landfall.publish import VisibleObject

KEPT_LOADS = 100
"""The minimum number of loads whose records are kept; older ones are deleted in such groups."""
FORGOTTEN_AFTER = timedelta(days=120)
"""BigQuery keeps the ids of jobs for 180 days ("Managing jobs"). An open load that is older than
this and whose job is not found may have run.
"""
_MIN_PAUSE, _MAX_PAUSE = timedelta(minutes=1), timedelta(hours=1)


class ObjectId(msgspec.Struct, frozen=True, array_like=True):
    """An object by the slot that makes it visible, and its key."""

    slot: int
    key: str


class LoadedObject(msgspec.Struct, frozen=True, array_like=True):
    """An object that is loaded; with its size in bytes and the CRC-32 of its bytes."""

    slot: int
    key: str
    size: int
    crc32: int

    @property
    def id(self) -> ObjectId:
        """The object's identity in a position."""
        return ObjectId(self.slot, self.key)

    @classmethod
    def of(cls, each: VisibleObject) -> "LoadedObject":
        """The object as a load names it."""
        upload = each.landed.upload
        return cls(each.slot, upload.key, upload.size, each.landed.crc32)


class LoadPosition(msgspec.Struct, frozen=True):
    """The content of a table: every object through a slot, and some later ones.

    ``held`` are objects that later loads leave out, because a job failed on them.
    """

    through: int
    ahead: tuple[ObjectId, ...] = ()
    held: tuple[ObjectId, ...] = ()


class Trouble(msgspec.Struct, frozen=True):
    """Why loads fail: the last job's message, how many failed in a row, and when the last did.

    ``passes``: whether the problem passes by itself.
    """

    message: str
    passes: bool
    failures: int
    time: datetime

    def is_over(self, now: datetime) -> bool:
        """Return whether it is time for the next load."""
        pause = min(_MIN_PAUSE * (1 << min(self.failures - 1, 10)), _MAX_PAUSE)
        return now >= self.time + pause


class Begin(msgspec.Struct, frozen=True):
    """The beginning of all chains of a publisher: a random id, and the slot that they follow."""

    chain: str
    after: int


class Intent(msgspec.Struct, frozen=True):
    """A load to be done. Without objects it is a reset: the next load replaces all rows.

    Attributes:
        table: ``project.dataset.table``.
        number: of the load.
        objects: that are loaded.
        before: the position before it.
        after: the position after it.
        replaces: whether it replaces all rows.
        creates: whether it makes the table if there is none.
        project: that runs the job.
        location: where it runs. Ids of jobs belong to a project and a location.
        time: when it was written.
        trouble: why loads before it failed, while objects are held.
    """

    table: str
    number: int
    objects: tuple[LoadedObject, ...]
    before: LoadPosition
    after: LoadPosition
    replaces: bool
    creates: bool
    project: str
    location: str
    time: datetime
    trouble: Trouble | None = None

    @property
    def digest(self) -> str:
        """A digest of what is loaded, which the job carries as a label."""
        what = msgspec.json.encode((self.table, self.objects, self.replaces))
        return hashlib.sha256(what).hexdigest()[:32]


class LoadOutcome(msgspec.Struct, frozen=True):
    """How a load ended: the position then, and whether the next load replaces all rows."""

    number: int
    position: LoadPosition
    replace_next: bool = False
    rows: int = 0
    trouble: Trouble | None = None


@dataclass(frozen=True)
class Head:
    """The end of a chain: the last load, if it is open, or its outcome."""

    number: int
    intent: Intent | None
    outcome: LoadOutcome


@dataclass(frozen=True)
class LoadLimits:
    """Limits of one load: objects and bytes. A single object is loaded at any size."""

    objects: int
    bytes: int


Record = TypeVar("Record", Begin, Intent, LoadOutcome)


def decode(key: str, body: bytes, into: type[Record]) -> Record:
    """Read a record.

    Raises:
        Stalled: LEDGER_BROKEN, it is damaged.
    """
    try:
        return untrusted_json.decode(body, type=into)
    except msgspec.DecodeError as error:
        raise Stalled(Reason.LEDGER_BROKEN, f"{key}: {error}") from error


def job_id(begin: Begin, table: str, number: int) -> str:
    """The id of the job of a load: letters, digits, hyphens, underscores (BigQuery's rule)."""
    text = "\0".join((begin.chain, table, str(number)))
    readable = re.sub(r"[^A-Za-z0-9_-]", "_", table)[:200]
    return f"landfall_{readable}_{number}_{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def is_forgotten(intent: Intent, now: datetime) -> bool:
    """Return whether the id of the job may have been used and forgotten."""
    return now - intent.time > FORGOTTEN_AFTER


def without_excess(objects: list[LoadedObject], limits: LoadLimits) -> tuple[LoadedObject, ...]:
    """The first objects, as many as one load may have."""
    taken, size = [objects[0]], objects[0].size
    for object_ in objects[1 : limits.objects]:
        size += object_.size
        if size > limits.bytes:
            break
        taken.append(object_)
    return tuple(taken)


def position_after(
    before: LoadPosition, objects: tuple[LoadedObject, ...], rest: set[ObjectId], through: int
) -> LoadPosition:
    """The position after a load of some objects of a stretch.

    Args:
        before: the position before it.
        objects: that are loaded.
        rest: objects of the stretch that are not loaded then.
        through: the end of the stretch.
    """
    if not rest:
        return LoadPosition(through)
    loaded = {object_.id for object_ in objects}
    held = tuple(id_ for id_ in before.held if id_ not in loaded)
    return LoadPosition(before.through, (*before.ahead, *(object_.id for object_ in objects)), held)


def failed(
    intent: Intent, message: str, named: tuple[ObjectId, ...], now: datetime, *, passes: bool
) -> LoadOutcome:
    """The outcome of a load whose job failed.

    If that passes by itself, the next load may be the same. If not, the objects that the job names
    are held, or all of the load if it names none of them.
    """
    earlier = intent.trouble
    trouble = Trouble(message, passes, (earlier.failures if earlier else 0) + 1, now)
    before = intent.before
    if passes and before.held and earlier:
        # The problem of the held objects is still reported.
        trouble = Trouble(earlier.message, earlier.passes, trouble.failures, now)
    if not passes:
        ids = named or tuple(object_.id for object_ in intent.objects)
        new = tuple(id_ for id_ in ids if id_ not in before.held)
        before = LoadPosition(before.through, before.ahead, (*before.held, *new))
    return LoadOutcome(intent.number, before, intent.replaces, trouble=trouble)


def loaded(intent: Intent, rows: int) -> LoadOutcome:
    """The outcome of a load whose job is done."""
    trouble = intent.trouble if intent.after.held else None
    return LoadOutcome(
        number=intent.number,
        position=intent.after,
        replace_next=not intent.objects,
        rows=rows,
        trouble=trouble,
    )
