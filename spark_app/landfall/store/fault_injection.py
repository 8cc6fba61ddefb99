"""Faults that ``MemoryStore`` can inject into its calls, and plans that choose when.

A plan sees every call before it runs and after it has returned, so it can also stop a driver at any
call by raising an exception of its own.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


class Operation(StrEnum):
    """The calls of a store; each page of a listing is one."""

    CREATE = "create"
    READ = "read"
    LIST = "list"
    OVERWRITE = "overwrite"
    BEGIN = "begin"
    PUT_PART = "put-part"
    PUT_COPY = "put-copy"
    COMPLETE = "complete"
    ABORT = "abort"
    OPEN_UPLOADS = "open-uploads"
    STAT = "stat"
    OPEN = "open"
    DELETE = "delete"
    DROP = "drop"
    """What is left of an upload whose object is there, or retires."""
    RETIRE = "retire"
    """The deletion of an object that retires, by its name."""


class Fault(StrEnum):
    """How a call fails."""

    REQUEST_LOST = "request-lost"
    """The call times out without effect."""
    ANSWER_LOST = "answer-lost"
    """The call times out after its effect."""
    LATE = "late"
    """The call times out, and has its effect when ``MemoryStore.deliver`` is called, perhaps after
    the caller has died.
    """
    REPEATED = "repeated"
    """The response is lost and the client library sends the request again: ``create`` gets TAKEN
    after its own success, ``complete`` gets what the store responds to a repetition.
    """
    THROTTLED = "throttled"
    """Every attempt gets 503 SlowDown."""
    CONFLICT = "conflict"
    """Every attempt gets 409: another write of the key is in progress."""
    ERROR_BODY = "error-body"
    """The response is a 200 whose body says InternalError; the call has no effect."""
    EXPIRED = "expired"
    """A lifecycle rule aborts the key's open uploads just before the call, which then succeeds."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call to the store.

    Attributes:
        operation: which call.
        key: its key; the prefix for listings.
        number: how many calls the store had before.
    """

    operation: Operation
    key: str
    number: int


class Plan(Protocol):
    """Decides which calls fail."""

    def before(self, call: Call) -> Fault | None:
        """The fault to inject, chosen before the call. If this raises, the call does not run."""
        ...

    def after(self, call: Call) -> None:
        """Called after the call has run or failed. If this raises, the caller gets no response."""
        ...


class NoFaults:
    """A plan under which no call fails."""

    def before(self, call: Call) -> Fault | None:
        """No fault."""

    def after(self, call: Call) -> None:
        """Do nothing."""


@dataclass
class Scripted(NoFaults):
    """A plan that lists the faults of each operation's calls in order.

    With ``Scripted({Operation.CREATE: [None, Fault.CONFLICT]})`` the second ``create`` fails.

    Attributes:
        script: the faults per operation; calls beyond the list do not fail.
        calls: every call so far, for assertions.
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
    """A plan that injects a random fault into each call with probability ``rate``, reproducibly."""

    seed: int
    rate: float
    faults: tuple[Fault, ...] = tuple(Fault)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311  # reproducible faults, no secret

    def before(self, call: Call) -> Fault | None:  # noqa: ARG002  # the plan's shape
        """A random fault, or None."""
        return self._random.choice(self.faults) if self._random.random() < self.rate else None
