"""The states of the checker.

A state is what lasts between steps: the ledger in the store, open uploads, visible objects, calls
that have not reached the store, and what each driver knows. Steps are in ``tests.model.steps``.
"""

from enum import IntEnum
from typing import NamedTuple

from tests.model.rules import Harm

WORLD = -1
"""The actor of events that no driver causes."""
COMPLETE, CREATE, STORE = "complete", "create", "store"


class At(IntEnum):
    """The stage that a driver is in."""

    ABSENT = 0
    WAITING = 1
    OPENING = 2
    RECOVERING = 3
    SWEEPING = 4
    ABORTING = 5
    LANDING = 6
    STOPPED = 7


class Driver(NamedTuple):
    """A driver's knowledge.

    Attributes:
        at: its stage.
        view: the ledger as it has read it.
        batch: upload of its batch in flight; -1 for none.
        fresh: upload in place of a lost one, before the REPAIR; -1 for none.
        waiting: decided uploads that it must complete.
        lost: those of them that are lost.
        doubt: the record it sent without a response; -1 for none. It sends nothing else until it
            knows the outcome.
        listed: orphans that it is about to abort.
        seen: incarnation of the topic when it last looked.
        stored: whether its tasks have stored the schema, and so do not look again.
    """

    at: int = At.ABSENT
    view: int = 0
    batch: int = -1
    fresh: int = -1
    waiting: int = 0
    lost: int = 0
    doubt: int = -1
    listed: int = 0
    seen: int = 0
    stored: bool = False


ABSENT, STOPPED = Driver(), Driver(At.STOPPED)


class Call(NamedTuple):
    """A call whose caller has stopped waiting, and which may still have its effect."""

    what: str
    about: int
    """An upload, or a record; nothing where a schema is stored."""


class Left(NamedTuple):
    """How often each fault may still happen."""

    unanswered: int
    late: int
    killed: int
    expired: int
    sweeps: int
    yields: int
    orders: int
    ends: int
    recreated: int
    seals: int
    deleted: int
    truncated: int
    restored: int
    decisions: int
    applies: int


class World(NamedTuple):
    """A state.

    Attributes:
        tip: the chain in the store.
        torn: slots that were deleted and not filled since, as bits.
        again: records, in order, that were put into slots after those were deleted.
        open: uploads that are neither completed nor aborted.
        visible: uploads whose objects are visible.
        late: calls that have not reached the store.
        drivers: by number.
        left: how often each fault may still happen.
        log_start: offsets below are gone from the log.
        incarnation: of the topic.
        killed: uploads that a lifecycle rule took.
        cut: where an election cut the log back; other records are from there on. -1 for nowhere.
        schema: whether the schema of the payloads is stored.
    """

    tip: int
    torn: int
    open: int
    visible: int
    late: tuple[Call, ...]
    drivers: tuple[Driver, ...]
    left: Left
    log_start: int = 0
    incarnation: int = 0
    again: tuple[int, ...] = ()
    killed: int = 0
    cut: int = -1
    schema: bool = False


class Event(NamedTuple):
    """What happened in a step: who did it (-1: the world), what, with which upload or record or set
    of uploads.
    """

    who: int
    what: str
    upload: int = -1
    slot: int = -1
    uploads: int = 0


Step = tuple[Event, World, Harm | None]
