"""The driver's interface: exit codes, HTTP paths, the shape of ``/status``, control commands.

The operator and the command line depend on this module, and so does everybody who asks a driver
with curl. It holds plain values only.

**Control** is a second HTTP server on ``CONTROL_PORT``. A driver has one only if
``CONTROL_TOKEN_FILE`` names a file, which need not exist. Each request is a POST with one of the
JSON documents below as its body, and either the operator's signature (``landfall.api.signatures``)
or ``Authorization: Bearer <content of that file>``. The answer is 202 with an empty body, 401
without either, 400 for another document. Commands are levels, not steps: sending a driver the same
command again changes nothing. ``landfall.api.verbs`` has the requests of engineers.

**Standing by.** A driver with a ``REVISION`` takes the lane at once if the lane is empty, if it was
handed over (its last record is YIELD), or if its last OPEN has the same revision, so that a driver
that crashed continues by itself. If another revision owns the lane, the driver warms up its
executors, reads nothing, and waits in ``DriverPhase.STANDBY`` for YIELD or ``TakeOver``, which
fences it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from types import MappingProxyType

from landfall.api.compaction_status import CompactionStatus, ReplacingStatus
from landfall.api.feed_status import FeedStatus
from landfall.api.run_status import ScheduleStatus

LANE = "0"
"""The only lane so far: one driver owns all topic partitions of its group."""

HTTP_PORT = 8080
"""The port of status and metrics in a pod."""
CONTROL_PORT = 8081
"""The port of control in a pod, a separate one so that a network policy can restrict it."""

GROUP_FILE = "LANDFALL_GROUP"
"""Environment variable: the path of the resource, as JSON."""
REVISION = "LANDFALL_REVISION"
"""Environment variable: names software and spec; written into OPEN and shown by ``/status``."""
PEERS = "LANDFALL_PEERS"
"""Environment variable: a host name that has the addresses of all drivers of the group. A driver
that replaces one of its own revision asks there whether that one still drains, and then waits.
"""
CONTROL_TOKEN_FILE = "LANDFALL_CONTROL_TOKEN_FILE"  # noqa: S105  # the name of a variable that holds a path
"""Environment variable: the path of a file with a token that control accepts."""
LOCAL_TOKEN_FILE = "LANDFALL_LOCAL_TOKEN_FILE"  # noqa: S105  # as above
"""Environment variable: the path of a file in which the driver puts a token of its own at its
start, for those who may run commands in its pod.
"""
OPERATOR_KEYS = "LANDFALL_OPERATOR_KEYS"
"""Environment variable: the path of a ``landfall.api.signatures.KeyDocument`` with the operator's
public keys. Control accepts no signature if it is unset.
"""
POD_UID = "POD_UID"
"""Environment variable: the metadata.uid of the driver's pod."""

EXECUTORS = "LANDFALL_EXECUTORS"
"""Environment variable: the executor count to start with; Spark's own setting applies if unset. The
operator's command replaces it.
"""
KNOWN_LEDGER = "LANDFALL_KNOWN_LEDGER"
"""Environment variable: the ``LedgerPosition`` that the group's ledger has reached. A driver
refuses a ledger that has not: it is another store's, or an old copy. Unset if none is known.
"""
LEDGER_ANCHOR = "LANDFALL_LEDGER_ANCHOR"
"""Environment variable: a ``LedgerAnchor`` of the group's ledger. A driver refuses a ledger in
which that slot is another one: its history was rewritten. Unset if none is known.
"""

VERSION = 5
"""The version of this contract. It is raised when something is added. Operators of version N work
with drivers of version N-1 and later: a driver ignores what it does not know, and the operator does
without what an older driver does not report.
"""
SIGNED_SINCE = 5
"""The first version whose drivers accept the operator's signatures."""
OLDEST_VERSION = 1
"""The oldest version of drivers that this release's operator works with."""

TERMINATION_FILE = "/dev/termination-log"
"""Where a driver that ends with an error writes ``REASON: message``, if the file exists; REASON is
a ``landfall.errors.Reason`` or the name of the driver's ``ExitCode``.
"""

EXECUTORS_PATH = "/control/executors"
"""POST ``WantExecutors``."""
YIELD_PATH = "/control/yield"
"""POST ``HandOver``."""
OPEN_PATH = "/control/open"
"""POST ``TakeOver``."""
RETRY_PATH = "/control/retry"
"""POST ``TryAgain``, one of the requests of engineers."""


@dataclass(frozen=True, slots=True)
class WantExecutors:
    """The desired executor count. Surplus executors are released once they are idle."""

    wanted: int

    def __post_init__(self) -> None:
        if self.wanted < 0:
            raise ValueError(f"a number of executors cannot be {self.wanted}")


@dataclass(frozen=True, slots=True)
class HandOver:
    """Commit the batches in flight, append YIELD, then stay ``YIELDED`` until SIGTERM."""

    to: str
    """The revision that takes over; it is only logged."""


@dataclass(frozen=True, slots=True)
class TakeOver:
    """Open the lane now, even if a driver owns it; a driver that has yielded lands again."""


@dataclass(frozen=True, slots=True)
class TryAgain:
    """Try again now what is waited for or was denied: ``landfall.api.verbs.RetryRequest``."""

    who: str
    why: str


ControlCommand = WantExecutors | HandOver | TakeOver

CONTROL_PATHS: Mapping[type[ControlCommand], str] = MappingProxyType(
    {WantExecutors: EXECUTORS_PATH, HandOver: YIELD_PATH, TakeOver: OPEN_PATH}
)
"""Where each command is sent, and the document that each path takes."""


class ExitCode(IntEnum):
    """How ``landfall`` commands and driver pods end."""

    OK = 0
    """Done, caught up, or drained and yielded."""
    ERROR = 1
    """An unexpected error: a bug."""
    USAGE = 2
    """The command line or the spec is wrong."""
    FENCED = 3
    """Another driver opened the lane; a restart would fence that driver."""
    STALLED = 4
    """Operator action is needed; the message names it."""
    UNAVAILABLE = 5
    """The store or the source did not answer in time, or Spark died; a restart may help."""
    FAULT = 6
    """A check found an inconsistency."""
    NOTHING = 7
    """A check had nothing to check: no ledger, no such topic, or nothing landed."""
    UNCHECKED = 8
    """An audit found no fault, and some records could not be checked."""
    UNFINISHED = 9
    """A run with an end was stopped before it; the next one lands the rest."""
    REFUSED = 10
    """A request, such as an undo, was refused and not recorded; the message has the reason."""


class DriverPhase(StrEnum):
    """The activity of a driver."""

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
class LedgerPosition:
    """How far a ledger has come. Neither number ever falls."""

    epoch: int
    """The epoch of its last OPEN."""
    slot: int
    """Its last slot."""

    def __str__(self) -> str:
        return f"{self.epoch}/{self.slot}"

    @classmethod
    def parse(cls, text: str) -> "LedgerPosition":
        """The position that ``str`` gives this text for.

        Raises:
            ValueError: it gives it for none.
        """
        epoch, slash, slot = text.partition("/")
        if not (slash and epoch.isdecimal() and slot.isdecimal()):
            raise ValueError(f"{text!r} is not a position of a ledger such as 3/120")
        return cls(int(epoch), int(slot))

    def reaches(self, other: "LedgerPosition") -> bool:
        """Return whether a ledger at this position may be one that was at the other before."""
        return self.epoch >= other.epoch and self.slot >= other.slot


@dataclass(frozen=True, slots=True)
class LedgerAnchor:
    """A slot of a ledger and its hash, kept where the writers of the ledger's store cannot write.

    The hash stands for all slots up to this one, because each names the previous slot's.
    """

    position: LedgerPosition
    sha256: str
    """SHA-256 (hex) of the slot's bytes."""

    def __str__(self) -> str:
        return f"{self.position}:{self.sha256}"

    @classmethod
    def parse(cls, text: str) -> "LedgerAnchor":
        """The anchor that ``str`` gives this text for.

        Raises:
            ValueError: it gives it for none.
        """
        position, _, sha256 = text.partition(":")
        if not is_sha256(sha256):
            raise ValueError(
                f"{text!r} is not a slot of a ledger and its hash, EPOCH/SLOT:SHA256, such as "
                "3/120:5d41…"
            )
        return cls(LedgerPosition.parse(position), sha256)


def is_sha256(text: str) -> bool:
    """Return whether a text is a SHA-256 as hashes of slots are written."""
    return re.fullmatch("[0-9a-f]{64}", text) is not None


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One topic partition, as of ``Status.time``.

    Attributes:
        checkpoint: next offset to land.
        end_offset: next offset the broker assigns (last stable offset).
        lag_records: offsets not landed yet.
        lag_seconds: how long the oldest unlanded record has waited.
        overdue_seconds: how much longer that record has waited than its upload policy allows.
        in_round: whether it is part of a batch in flight.
        blocked: the reason it is not landed, if it is blocked; ``message`` then has the details.
        held_back_records: offsets from ``end_offset`` on that an open transaction keeps everybody
            from reading; they are no lag.
        held_back_seconds: how long this driver has seen that transaction open.
        next_step: the command that lets it land again; see ``landfall.api.next_steps``.
        read_from: the group from whose objects it is read, as Kafka has lost the offsets.
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
    held_back_records: int = 0
    held_back_seconds: float = 0.0
    next_step: str = ""
    read_from: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """The last failure."""

    time: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class CommitStatus:
    """Commits since the ledger began (``total``) and since this driver started (the rest).

    While the store does not answer, ``consecutive_failures`` is at least the number of missing
    answers and ``last_failure`` names the outage, even if the driver itself is waiting for the
    store; see ``landfall.driver.core.store_monitor``.
    """

    total: int
    failures: int
    consecutive_failures: int
    last_time: str | None
    last_failure: Failure | None
    unapplied: int


@dataclass(frozen=True, slots=True)
class Rates:
    """Totals since this driver started, and rates per second of the time with batches in flight."""

    landed_records: int
    landed_bytes: int
    input_bytes: int
    dead_lettered: int
    records_per_second: float
    input_bytes_per_second: float
    arrived_records: int | None = None
    """A counter: offsets by which topic partitions that are not blocked grew since the start."""
    task_seconds: float | None = None
    """A counter: wall-clock seconds that tasks occupied a slot for what was committed."""
    unexpected_dead_letters: int | None = None
    """A counter: dead letters that a bug caused."""


@dataclass(frozen=True, slots=True)
class ExecutorProblem:
    """Spark's last report about executors that end or do not come, if it was minutes ago.

    Attributes:
        reason: ``PodRefused``, the API server refuses their pods, as for a quota; or
            ``OutOfMemory``, one was killed at its memory limit.
        message: its text.
    """

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Workers:
    """The executors of a driver."""

    wanted: int
    """Executors that the driver asks its cluster for."""
    registered: int
    """Executors that are running."""
    slots: int
    """Tasks that can run at the same time."""
    problem: ExecutorProblem | None = None
    """Why executors are missing, as far as Spark has reported it."""


@dataclass(frozen=True, slots=True)
class PublisherStatus:
    """One publisher of ``spec.publish``, as of ``Status.time``.

    Attributes:
        name: the publisher's name.
        type: its type, such as ``Iceberg``.
        slot: the last slot of the ledger whose effects are in the destination; -1 for none.
        lag_slots: slots of the ledger after it.
        lag_seconds: age of the oldest object that is visible and not published; 0 if there is none.
        published_objects: objects published since this driver started.
        failures: passes that failed since this driver started.
        consecutive_failures: passes that failed since the last one that ended well.
        last_time: when the last pass ended well, ISO 8601.
        blocked: one word for why a user has to change something before it publishes again.
        message: what is wrong, and what to do; empty if nothing is.
        details: messages of its type, such as which topic partition holds an hour open.
    """

    name: str
    type: str
    slot: int
    lag_slots: int
    lag_seconds: float
    published_objects: int
    failures: int
    consecutive_failures: int
    last_time: str | None
    blocked: str | None
    message: str
    details: str = ""


@dataclass(frozen=True, slots=True)
class TopicCompleteness:
    """Up to when a topic is complete, for a group with ``spec.completeness``.

    Attributes:
        topic: name of the topic.
        until: event time before which everything has landed, ISO 8601; null before the first
            decision.
        held_by: the topic partition that holds it although its time has come; empty if none does.
        why: what that one waits for.
    """

    topic: str
    until: str | None
    held_by: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class PartitionTotals:
    """Sums over all topic partitions, in a status that lists only some of them.

    Attributes:
        count: topic partitions of the group.
        blocked: topic partitions that are blocked.
        lag_records: offsets not landed yet, of topic partitions that are not blocked.
        lag_seconds: age of the oldest record of those that is not landed yet.
        overdue_seconds: longest wait of those beyond the upload policy.
    """

    count: int
    blocked: int
    lag_records: int
    lag_seconds: float
    overdue_seconds: float


@dataclass(frozen=True, slots=True)
class Status:
    """The body of ``/status``: the state of a driver after its last pass."""

    version: str
    group: str
    namespace: str
    generation: int
    epoch: int
    lane: str
    phase: DriverPhase
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
    """False until the driver has seen the log: its lag is then unknown, not zero."""
    repairing: int = 0
    """Committed objects whose uploads the store has lost, and that are made again from Kafka."""
    totals: PartitionTotals | None = None
    """Only of ``/status?summary=true``, where ``partitions`` has the worst and the blocked ones."""
    contract: int = 1
    """The driver's ``VERSION`` of this contract; drivers of version 1 do not report it."""
    slot: int = -1
    """The last slot of the ledger that this process knows; -1 if it knows none."""
    tip: str = ""
    """SHA-256 (hex) of that slot; empty if it knows none, and of older drivers."""
    publishers: tuple[PublisherStatus, ...] = ()
    """This driver's entries of ``spec.publish``. Drivers before version 3 report none."""
    completeness: tuple[TopicCompleteness, ...] = ()
    """Of each topic with a time, or held. In a summary, the first that are held."""
    schedule: ScheduleStatus | None = None
    """Of a group that lands closed ranges."""
    feeds: tuple[FeedStatus, ...] = ()
    compaction: CompactionStatus | None = None
    replacing: ReplacingStatus = field(default_factory=ReplacingStatus)
    """Nothing of older drivers."""
    requests: int = 0
    """Requests of users that wait, or are carried out. Older drivers report none."""
    hot_path: str = ""
    """``native`` or ``python``, see ``landfall.native``; empty of older drivers."""
