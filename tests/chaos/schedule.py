"""The schedule of a chaos run: which fault begins when, and what it hits. Pure.

The schedule depends on the seed and the length of the run only.

Faults come in *tracks*. A track breaks one component, in one way at a time: the store as its
clients see it through the proxy (two tracks, so that its faults overlap), each group's driver, each
group's executors, the broker, the S3 server, the operator, a clock. Within a track a fault and a
pause are over before the next fault begins; faults of different tracks overlap freely. The kinds of
a track are taken from a shuffled deck, so that a run that is long enough has all of them. Every few
minutes there is a calm in which no fault begins: a system without a quiet moment may land nothing,
and would then prove nothing about exactly once.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from random import Random

RAW, PARQUET = "raw", "parquet"
GROUPS = (RAW, PARQUET)
STORE, S3, KAFKA, OPERATOR = "store", "s3", "kafka", "operator"

WARM_UP = 5.0
"""Seconds at the beginning without a fault."""
STORM, CALM = 255.0, 45.0
"""Seconds of a storm, in which faults begin, and of the calm after it, in which none does."""


class Kind(StrEnum):
    """What a fault does; the value is its name in tables and logs."""

    # Faults that the proxy shows to clients of the store
    LATENCY = "slow answers"
    RESET_BEFORE = "connection reset before effect"
    RESET_AFTER = "connection reset after effect"
    ERROR_500 = "500"
    ERROR_503 = "503 slow down"
    TRUNCATED = "truncated answer"
    NO_ANSWER = "effect without an answer"
    LATE_EFFECT = "effect after the answer was given up"
    ERROR_IN_200 = "200 with an error in its body"
    SILENCE = "silence"
    CUT_OFF = "one driver cut off from the store"
    AWAY = "store away"
    DENIED = "access denied, and allowed again"
    UPLOADS_GONE = "open uploads aborted, as by a lifecycle rule"
    # Faults of processes and pods on the node
    DRIVER_JVM_KILLED = "driver's JVM killed"
    DRIVER_PYTHON_KILLED = "driver's Python killed"
    DRIVER_FROZEN = "driver frozen"
    DRIVER_POD_DELETED = "driver's pod deleted by force"
    DRIVER_POD_EVICTED = "driver's pod evicted"
    ZOMBIE = "driver frozen while another takes over"
    HAND_OVER = "hand-over to a new generation"
    HAND_OVER_KILLED = "hand-over, old driver killed in the middle"
    HAND_OVER_NEW_KILLED = "hand-over, new driver killed in the middle"
    SUSPENDED = "suspended and resumed"
    EXECUTOR_JVM_KILLED = "executor's JVM killed"
    EXECUTOR_FROZEN = "executor frozen"
    WORKER_KILLED = "Python worker killed"
    WORKER_FROZEN = "Python worker frozen"
    EXECUTOR_POD_DELETED = "executor's pod deleted by force"
    EXECUTOR_POD_EVICTED = "executor's pod evicted"
    SCALED = "replicas changed"
    UNDONE = "merge or promotion undone"
    PROMOTED = "folder landed again and promoted"
    DISCARDED = "stuck backfill discarded"
    OPERATOR_POD_DELETED = "operator's pod deleted by force"
    OPERATOR_KILLED = "operator's process killed"
    OPERATOR_FROZEN = "operator frozen"
    # Faults of servers and clocks
    KAFKA_KILLED = "broker killed"
    KAFKA_RESTARTED = "broker restarted"
    KAFKA_FROZEN = "broker frozen"
    S3_KILLED = "S3 server killed"
    S3_FROZEN = "S3 server frozen"
    DISK_FULL = "S3 server's disk full"
    CLOCK = "clock jumped"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Attributes:
        track: number of its track.
        at: when it begins, in seconds after the beginning of the run.
        kind: what it does.
        target: what it hits: a group, or one of the shared components.
        seconds: how long it lasts; 0 if it happens at once.
        pick: a random number that chooses among the pods or processes found at that time.
        share: share of the requests that it hits, for kinds that hit requests at random.
    """

    track: int
    at: float
    kind: Kind
    target: str
    seconds: float = 0.0
    pick: int = 0
    share: float = 1.0

    @property
    def end(self) -> float:
        """When it is over, in seconds after the beginning of the run."""
        return self.at + self.seconds


@dataclass(frozen=True, slots=True)
class Track:
    """A sequence of faults of which one is in effect at a time.

    Attributes:
        target: what all its faults hit; None for a random group each time.
        weights: how often each kind is in the deck.
        min_pause: least seconds between the end of a fault and the beginning of the next.
        mean_extra_pause: seconds that are added to that on average.
    """

    target: str | None
    weights: Mapping[Kind, int]
    min_pause: float
    mean_extra_pause: float


DURATIONS: Mapping[Kind, tuple[float, float]] = {
    **dict.fromkeys(
        (
            Kind.LATENCY,
            Kind.RESET_BEFORE,
            Kind.RESET_AFTER,
            Kind.ERROR_500,
            Kind.ERROR_503,
            Kind.TRUNCATED,
        ),
        (3, 12),
    ),
    **dict.fromkeys((Kind.NO_ANSWER, Kind.LATE_EFFECT, Kind.ERROR_IN_200), (3, 12)),
    Kind.SILENCE: (2, 8),
    Kind.CUT_OFF: (3, 20),
    Kind.AWAY: (2, 15),
    Kind.DENIED: (3, 15),
    Kind.DRIVER_FROZEN: (4, 40),
    Kind.ZOMBIE: (30, 50),
    Kind.EXECUTOR_FROZEN: (4, 40),
    Kind.WORKER_FROZEN: (4, 30),
    Kind.OPERATOR_FROZEN: (5, 25),
    Kind.SUSPENDED: (10, 20),
    Kind.KAFKA_KILLED: (0, 8),
    Kind.KAFKA_RESTARTED: (0, 4),
    Kind.KAFKA_FROZEN: (3, 20),
    Kind.S3_KILLED: (0, 12),
    Kind.S3_FROZEN: (3, 15),
    Kind.DISK_FULL: (5, 25),
    Kind.CLOCK: (5, 40),
}
"""Least and most seconds of the kinds that last; the other kinds happen at once."""

SHARES = (0.05, 0.2, 0.5, 1.0)
"""The shares of requests that a fault may hit."""

_REQUEST_FAULTS = {
    **dict.fromkeys(
        (Kind.LATENCY, Kind.RESET_BEFORE, Kind.ERROR_500, Kind.ERROR_503, Kind.TRUNCATED), 2
    ),
    **dict.fromkeys((Kind.RESET_AFTER, Kind.NO_ANSWER, Kind.LATE_EFFECT, Kind.ERROR_IN_200), 3),
}
TRACKS: tuple[Track, ...] = (
    Track(STORE, _REQUEST_FAULTS, min_pause=1, mean_extra_pause=6),
    Track(
        STORE,
        {**_REQUEST_FAULTS, Kind.SILENCE: 3, Kind.AWAY: 2, Kind.DENIED: 2},
        min_pause=3,
        mean_extra_pause=10,
    ),
    Track(None, {Kind.CUT_OFF: 1}, min_pause=15, mean_extra_pause=30),
    Track(None, {Kind.UPLOADS_GONE: 1}, min_pause=30, mean_extra_pause=45),
    *(
        Track(
            group,
            {
                Kind.DRIVER_JVM_KILLED: 2,
                Kind.DRIVER_PYTHON_KILLED: 2,
                Kind.DRIVER_FROZEN: 3,
                Kind.ZOMBIE: 2,
                Kind.DRIVER_POD_DELETED: 2,
                Kind.DRIVER_POD_EVICTED: 1,
                Kind.HAND_OVER: 3,
                Kind.HAND_OVER_KILLED: 2,
                Kind.HAND_OVER_NEW_KILLED: 1,
            },
            min_pause=35,
            mean_extra_pause=25,
        )
        for group in GROUPS
    ),
    *(
        Track(
            group,
            {
                Kind.EXECUTOR_JVM_KILLED: 2,
                Kind.EXECUTOR_FROZEN: 2,
                Kind.WORKER_KILLED: 3,
                Kind.WORKER_FROZEN: 2,
                Kind.EXECUTOR_POD_DELETED: 1,
                Kind.EXECUTOR_POD_EVICTED: 1,
                Kind.SCALED: 2,
            },
            min_pause=20,
            mean_extra_pause=20,
        )
        for group in GROUPS
    ),
    Track(
        KAFKA,
        {Kind.KAFKA_KILLED: 1, Kind.KAFKA_RESTARTED: 1, Kind.KAFKA_FROZEN: 2},
        min_pause=60,
        mean_extra_pause=40,
    ),
    Track(
        S3,
        {Kind.S3_KILLED: 2, Kind.S3_FROZEN: 1, Kind.DISK_FULL: 2},
        min_pause=50,
        mean_extra_pause=40,
    ),
    Track(
        OPERATOR,
        {Kind.OPERATOR_POD_DELETED: 1, Kind.OPERATOR_KILLED: 1, Kind.OPERATOR_FROZEN: 1},
        min_pause=70,
        mean_extra_pause=50,
    ),
    Track(PARQUET, {Kind.CLOCK: 1}, min_pause=15, mean_extra_pause=25),
    Track(
        None,
        {Kind.UNDONE: 2, Kind.PROMOTED: 3, Kind.DISCARDED: 1},
        min_pause=15,
        mean_extra_pause=15,
    ),
)


def schedule(seed: int, minutes: float) -> tuple[Fault, ...]:
    """All faults of a run, in the order in which they begin; all are over when it ends."""
    length = minutes * 60
    faults = [
        fault
        for track in range(len(TRACKS))
        for fault in _draw_track(track, _rng(seed, track), length)
    ]
    faults += _draw_suspensions(_rng(seed, len(TRACKS)), length)
    return tuple(sorted(faults, key=lambda fault: (fault.at, fault.track)))


def storms(length: float) -> Iterator[tuple[float, float]]:
    """The beginning and end of each storm of a run of ``length`` seconds."""
    begin = WARM_UP
    while begin < length:
        yield begin, min(begin + STORM, length)
        begin += STORM + CALM


def _rng(seed: int, track: int) -> Random:
    return Random(f"{seed}/{track}")


def _draw_track(number: int, rng: Random, length: float) -> Iterator[Fault]:
    """Draw the faults of a track."""
    track = TRACKS[number]
    deck: list[Kind] = []
    for begin, end in storms(length):
        at = begin + rng.uniform(0, track.mean_extra_pause)
        while at < end:
            # A new deck only when the last one is used up: then no kind is left out for long.
            if not deck:
                deck = [kind for kind, weight in track.weights.items() for _ in range(weight)]
                rng.shuffle(deck)
            kind, target = deck.pop(), track.target or rng.choice(GROUPS)
            # No fault lasts into the calm.
            seconds = min(rng.uniform(*DURATIONS.get(kind, (0.0, 0.0))), end - at)
            fault = Fault(
                number, at, kind, target, seconds, rng.randrange(2**16), rng.choice(SHARES)
            )
            yield fault
            at = fault.end + track.min_pause + rng.expovariate(1 / track.mean_extra_pause)


def _draw_suspensions(rng: Random, length: float) -> Iterator[Fault]:
    """Suspend each group once, in the middle of a run that is long enough."""
    if length < STORM:
        return
    for number, group in enumerate(GROUPS, start=len(TRACKS)):
        at, seconds = rng.uniform(0.3, 0.7) * length, rng.uniform(*DURATIONS[Kind.SUSPENDED])
        yield Fault(number, at, Kind.SUSPENDED, group, seconds)
