"""What can go wrong between us and a store, for ``MemoryStore``: the faults, and plans of when they strike.

A plan sees every call before it happens and after it has returned, so it can also stop a driver at
any call by raising an exception of its own.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


class Operation(StrEnum):
    """The calls a store takes; a page of a listing is a call."""

    CREATE = "create"
    READ = "read"
    LIST = "list"
    OVERWRITE = "overwrite"
    BEGIN = "begin"
    PUT_PART = "put-part"
    COMPLETE = "complete"
    ABORT = "abort"
    OPEN_UPLOADS = "open-uploads"
    STAT = "stat"
    OPEN = "open"


class Fault(StrEnum):
    """How a call goes wrong."""

    REQUEST_LOST = "request-lost"
    """Time-out; the store never saw it."""
    ANSWER_LOST = "answer-lost"
    """Time-out; it had its effect."""
    LATE = "late"
    """Time-out; it has its effect when ``MemoryStore.deliver`` is called, perhaps after the caller
    died.
    """
    REPEATED = "repeated"
    """The answer was lost and the client library asked again: create answers TAKEN to its own
    success,
    complete answers as the store does to a repetition.
    """
    THROTTLED = "throttled"
    """503 SlowDown to every attempt."""
    CONFLICT = "conflict"
    """409 to every attempt: another write of the key is under way."""
    ERROR_BODY = "error-body"
    """200 whose body says InternalError; no effect."""
    EXPIRED = "expired"
    """A lifecycle rule aborts the key's open uploads just before the call, which then goes through.
    """


@dataclass(frozen=True, slots=True)
class Call:
    """One call: what, of which key (a prefix for listings), and its number counted from 0 over the store's life."""

    operation: Operation
    key: str
    number: int


class Plan(Protocol):
    """Decides which calls go wrong."""

    def before(self, call: Call) -> Fault | None:
        """Called before anything happens; may raise, then nothing does."""
        ...

    def after(self, call: Call) -> None:
        """Called when the call has had its answer, good or bad; may raise, then the answer is lost."""
        ...


class NoFaults:
    """Nothing goes wrong."""

    def before(self, call: Call) -> Fault | None:
        """No fault."""

    def after(self, call: Call) -> None:
        """Do nothing."""


@dataclass
class Scripted(NoFaults):
    """Each operation's faults in turn: ``Scripted({Operation.CREATE: [None, Fault.CONFLICT]})`` strikes the second create.

    Attributes:
        script: per operation; once it is used up, nothing goes wrong.
        calls: every call so far, for asserting.
    """

    script: Mapping[Operation, list[Fault | None]] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)

    def before(self, call: Call) -> Fault | None:
        """Take the operation's next fault."""
        self.calls.append(call)
        remaining = self.script.get(call.operation)
        return remaining.pop(0) if remaining else None


@dataclass
class Random(NoFaults):
    """Any of the faults, each call with this probability, as the seed has it."""

    seed: int
    rate: float
    faults: tuple[Fault, ...] = tuple(Fault)

    def __post_init__(self) -> None:
        self._dice = random.Random(self.seed)  # noqa: S311  # reproducible faults, no secret

    def before(self, call: Call) -> Fault | None:  # noqa: ARG002  # the plan's shape
        """Throw the dice."""
        return self._dice.choice(self.faults) if self._dice.random() < self.rate else None
