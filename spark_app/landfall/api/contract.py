"""What the driver promises to whoever runs it: exit codes, HTTP paths, the shape of ``/status``, and what it may be told.

The operator, the command line and a person with curl all read this one module. Pure values.

**Control** is a second, small HTTP face on ``CONTROL_PORT``, there only where
``CONTROL_TOKEN_FILE`` names a file. Each request is a POST with ``Authorization: Bearer <the file's
content>`` and one of the JSON documents below; the answer is 202 with an empty body, 401 without
the token, 400 for another document. All of them are levels, not steps: telling a driver again what
it was told already changes nothing.

**Standing by.** A driver that is given a ``REVISION`` takes the lane at once if the lane is empty,
if it was handed over (its last record is YIELD), or if its last OPEN has the same revision: so a
driver that crashed goes on by itself. If another revision holds the lane, it warms up, reads
nothing and waits in ``Phase.STANDBY`` for the YIELD, or until it is told to ``TakeOver``, which
fences the other.
"""

from dataclasses import dataclass
from enum import IntEnum, StrEnum

LANE = "0"
"""The only lane there is as yet: one driver owns all topic partitions of its group."""


HTTP_PORT = 8080
"""Of status and metrics, in a pod."""
CONTROL_PORT = 8081
"""Of control, in a pod: apart, so that a network policy can tell the two from each other."""

GROUP_FILE = "LANDFALL_GROUP"
"""Environment variable: the resource, as a JSON file."""
REVISION = "LANDFALL_REVISION"
"""Environment variable: a name for software and spec, written into OPEN and told by ``/status``."""
CONTROL_TOKEN_FILE = "LANDFALL_CONTROL_TOKEN_FILE"  # noqa: S105  # the name of a variable that holds a path
"""Environment variable: a file with the token that control asks for."""

TERMINATION_FILE = "/dev/termination-log"
"""Where a driver that ends with an error leaves ``REASON: message`` in its last moment, if the file
is
there; REASON is a ``landfall.errors.Reason`` or the name of its ``ExitCode``.
"""

EXECUTORS_PATH = "/control/executors"
"""POST ``WantExecutors``."""
YIELD_PATH = "/control/yield"
"""POST ``HandOver``."""
OPEN_PATH = "/control/open"
"""POST ``TakeOver``."""


@dataclass(frozen=True, slots=True)
class WantExecutors:
    """So many executors there should be; idle ones are let go, busy ones when they are idle."""

    wanted: int

    def __post_init__(self) -> None:
        if self.wanted < 0:
            raise ValueError(f"a number of executors cannot be {self.wanted}")


@dataclass(frozen=True, slots=True)
class HandOver:
    """Finish what is under way, append YIELD, then stay in ``Phase.YIELDED`` and answer until stopped by SIGTERM."""

    to: str
    """The revision that takes over; for the log."""


@dataclass(frozen=True, slots=True)
class TakeOver:
    """Open the lane now, whoever holds it. A driver that yielded goes on in the same way."""


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
    """The store or the source did not answer in time, or Spark died; starting again may help."""
    FAULT = 6
    """A check found what must not be."""


class Phase(StrEnum):
    """Where a driver is in its life."""

    STARTING = "Starting"
    RECOVERING = "Recovering"
    STANDBY = "Standby"
    RUNNING = "Running"
    DRAINING = "Draining"
    YIELDED = "Yielded"
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
    """Commits of the whole ledger (total) and of this driver (the rest).

    While the store does not answer, ``consecutive_failures`` is at least the number of answers that
    did not come, and ``last_failure`` says so, whatever the driver does or waits for; see
    ``landfall.driver.store_monitor``.
    """

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
    arrived_records: int | None = None
    """Offsets that topic partitions which are not blocked grew by, as far as this driver saw; a
    counter.
    """
    task_seconds: float | None = None
    """How long tasks occupied a slot for what was committed, by the clock on the wall, summed; a
    counter.
    """


@dataclass(frozen=True, slots=True)
class Workers:
    """What the driver works with."""

    wanted: int
    """Executors it asks its cluster for."""
    registered: int
    """Executors that are there."""
    slots: int
    """Tasks that can run at the same time."""


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
    revision: str = ""
    workers: Workers | None = None
    lag_known: bool = True
    """False of a driver that has not seen the log yet: then its lag is not zero, but unknown."""
