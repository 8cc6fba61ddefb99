"""What the driver promises to whoever runs it: exit codes, HTTP paths and the shape of ``/status``.

The operator, the command line and a person with curl all read this one module. Pure values.
"""

from dataclasses import dataclass
from enum import IntEnum, StrEnum

LANE = "0"
"""The only lane there is as yet: one driver owns all topic partitions of its group."""


class ExitCode(IntEnum):
    """How a command ends."""

    OK = 0
    """Done, caught up, or drained and yielded."""
    ERROR = 1
    """An error nobody foresaw: a bug."""
    USAGE = 2
    """The command line or the spec is wrong."""
    FENCED = 3
    """Another driver opened the ledger; starting again would fence that one."""
    STALLED = 4
    """A person is needed; the message says for what."""
    UNAVAILABLE = 5
    """The store or the source did not answer in time; starting again may help."""
    FAULT = 6
    """A check found what must not be."""


class Phase(StrEnum):
    """Where a driver is in its life."""

    STARTING = "Starting"
    RECOVERING = "Recovering"
    RUNNING = "Running"
    DRAINING = "Draining"
    STOPPED = "Stopped"
    FENCED = "Fenced"
    STALLED = "Stalled"


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One topic partition, as of ``Status.time``.

    Attributes:
        checkpoint: next offset to land.
        end_offset: next offset the broker assigns (last stable offset).
        lag_records: offsets not landed yet.
        lag_seconds: age of the oldest of them.
        overdue_seconds: how much longer it has waited than its upload policy allows.
        blocked: the reason it stands still, if it does; then ``message`` says what to do.
        in_round: whether it is being landed now.
    """

    topic: str
    partition: int
    checkpoint: int
    end_offset: int
    lag_records: int
    lag_seconds: float
    overdue_seconds: float
    in_round: bool = False
    blocked: str | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """The last thing that went wrong."""

    time: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class CommitStatus:
    """Commits of the whole ledger (total) and of this driver (the rest)."""

    total: int
    failures: int
    consecutive_failures: int
    last_time: str | None
    last_failure: Failure | None
    unapplied: int


@dataclass(frozen=True, slots=True)
class Rates:
    """Since this driver started; per second over the time rounds were running."""

    landed_records: int
    landed_bytes: int
    input_bytes: int
    dead_lettered: int
    records_per_second: float
    input_bytes_per_second: float


@dataclass(frozen=True, slots=True)
class Status:
    """The answer of ``/status``: one consistent picture of a driver."""

    version: str
    group: str
    namespace: str
    generation: int
    epoch: int
    lane: str
    phase: Phase
    time: str
    started: str
    lag_records: int
    lag_seconds: float
    overdue_seconds: float
    rounds: int
    commits: CommitStatus
    rates: Rates
    partitions: tuple[PartitionStatus, ...]
    caught_up: bool = False
    message: str = ""
