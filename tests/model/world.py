"""The states of the checker.

A state is all that outlasts a step: the ledger in the store, open uploads, visible objects, calls
that are still under way, and what each driver knows. Steps are in ``tests.model.steps``.
"""

from enum import IntEnum
from typing import NamedTuple

from tests.model.rules import Harm

WORLD = -1
"""Who does what no driver does."""
COMPLETE, CREATE = "complete", "create"


class At(IntEnum):
    """How far a driver is."""

    ABSENT = 0
    WAITING = 1
    OPENING = 2
    RECOVERING = 3
    SWEEPING = 4
    ABORTING = 5
    LANDING = 6
    STOPPED = 7


class Driver(NamedTuple):
    """What a driver knows.

    Attributes:
        at: how far it is.
        view: the ledger as it folded it.
        batch: what its round uploaded; -1 for nothing.
        fresh: what it uploaded in place of a lost upload, before the REPAIR; -1 for nothing.
        waiting: decided uploads it has to complete.
        lost: those of them that are gone.
        doubt: the record it sent and has no answer about; -1 for none. It sends nothing else before
            it knows.
        listed: uploads it is going to abort.
        seen: the incarnation of the topic that it saw last.
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


ABSENT, STOPPED = Driver(), Driver(At.STOPPED)


class Call(NamedTuple):
    """A call that nobody waits for any more and that may still have its effect."""

    what: str
    about: int
    """An upload, or a record."""


class Left(NamedTuple):
    """How often what may still go wrong."""

    unanswered: int
    late: int
    killed: int
    expired: int
    sweeps: int
    yields: int
    orders: int
    ends: int
    recreated: int
    deleted: int


class World(NamedTuple):
    """A state.

    Attributes:
        tip: the chain in the store.
        torn: slots that somebody deleted and nobody filled since, as bits.
        open: uploads that are neither completed nor aborted.
        visible: uploads whose objects are visible.
        late: calls under way.
        drivers: by number.
        left: how often what may still go wrong.
        log_start: offsets below are gone from the log.
        incarnation: of the topic.
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
