"""Which faults, when, on whom: drawn from a seed, and nothing else. Pure.

Faults come in *lanes*, each a thing that can be broken in one way at a time: the store as one sees
it through the proxy (twice, so that its faults overlap), each group's driver, each group's
executors, the broker, the S3 server, the operator, a clock. Within a lane one fault is over, and a
pause too, before the next begins; between lanes they overlap as they like. The kinds of a lane are
dealt from a shuffled deck, so a run that is long enough has all of them. Every few minutes it is
calm for a while: what never has a quiet moment shows only that nothing can be done, and not that
what is done is done once.
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
"""Seconds in which faults begin, and seconds after them in which none does."""


class Kind(StrEnum):
    """What is done; the value is how it is told."""

    # what a client of the store sees, through the proxy
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
    # processes on the node
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
    OPERATOR_POD_DELETED = "operator's pod deleted by force"
    OPERATOR_KILLED = "operator's process killed"
    OPERATOR_FROZEN = "operator frozen"
    # servers
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
        lane: number of its lane.
        at: seconds after the beginning.
        kind: what is done.
        target: to whom: a group, or one of what there is only one of.
        seconds: how long it lasts; 0 for what happens at once.
        pick: any number, for choices among what is there at that time.
        share: of the requests that are hit, for kinds that hit requests by chance.
    """

    lane: int
    at: float
    kind: Kind
    target: str
    seconds: float = 0.0
    pick: int = 0
    share: float = 1.0

    @property
    def end(self) -> float:
        """When it is over."""
        return self.at + self.seconds


@dataclass(frozen=True, slots=True)
class Lane:
    """Faults of which there is one at a time.

    Attributes:
        target: of all of them; None for any group.
        cards: how often each kind is in the deck.
        pause: seconds at least between the end of one and the beginning of the next.
        more: seconds of further pause, on average.
    """

    target: str | None
    cards: Mapping[Kind, int]
    pause: float
    more: float


LASTING: Mapping[Kind, tuple[float, float]] = {
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
"""Seconds at least and at most of the kinds that last; the others happen at once."""

SHARES = (0.05, 0.2, 0.5, 1.0)
"""Of requests that are hit."""

_REQUESTS = {
    **dict.fromkeys(
        (Kind.LATENCY, Kind.RESET_BEFORE, Kind.ERROR_500, Kind.ERROR_503, Kind.TRUNCATED), 2
    ),
    **dict.fromkeys((Kind.RESET_AFTER, Kind.NO_ANSWER, Kind.LATE_EFFECT, Kind.ERROR_IN_200), 3),
}
LANES: tuple[Lane, ...] = (
    Lane(STORE, _REQUESTS, pause=1, more=6),
    Lane(STORE, {**_REQUESTS, Kind.SILENCE: 3, Kind.AWAY: 2}, pause=3, more=10),
    Lane(None, {Kind.CUT_OFF: 1}, pause=15, more=30),
    *(
        Lane(
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
            pause=35,
            more=25,
        )
        for group in GROUPS
    ),
    *(
        Lane(
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
            pause=20,
            more=20,
        )
        for group in GROUPS
    ),
    Lane(
        KAFKA,
        {Kind.KAFKA_KILLED: 1, Kind.KAFKA_RESTARTED: 1, Kind.KAFKA_FROZEN: 2},
        pause=60,
        more=40,
    ),
    Lane(S3, {Kind.S3_KILLED: 2, Kind.S3_FROZEN: 1, Kind.DISK_FULL: 2}, pause=50, more=40),
    Lane(
        OPERATOR,
        {Kind.OPERATOR_POD_DELETED: 1, Kind.OPERATOR_KILLED: 1, Kind.OPERATOR_FROZEN: 1},
        pause=70,
        more=50,
    ),
    Lane(PARQUET, {Kind.CLOCK: 1}, pause=15, more=25),
)


def schedule(seed: int, minutes: float) -> tuple[Fault, ...]:
    """All faults of a run of so many minutes, in the order in which they begin; all are over by its
    end.
    """
    length = minutes * 60
    drawn = [
        fault for lane in range(len(LANES)) for fault in _dealt(lane, _chance(seed, lane), length)
    ]
    drawn += _suspended(_chance(seed, len(LANES)), length)
    return tuple(sorted(drawn, key=lambda fault: (fault.at, fault.lane)))


def storms(length: float) -> Iterator[tuple[float, float]]:
    """Beginnings and ends of the times at which it is not calm."""
    begin = WARM_UP
    while begin < length:
        yield begin, min(begin + STORM, length)
        begin += STORM + CALM


def _chance(seed: int, lane: int) -> Random:
    return Random(f"{seed}/{lane}")


def _dealt(number: int, chance: Random, length: float) -> Iterator[Fault]:
    """The faults of a lane."""
    lane = LANES[number]
    deck: list[Kind] = []
    for begin, end in storms(length):
        at = begin + chance.uniform(0, lane.more)
        while at < end:
            if not deck:
                deck = [kind for kind, cards in lane.cards.items() for _ in range(cards)]
                chance.shuffle(deck)
            kind, target = deck.pop(), lane.target or chance.choice(GROUPS)
            seconds = min(chance.uniform(*LASTING.get(kind, (0.0, 0.0))), end - at)
            fault = Fault(
                number, at, kind, target, seconds, chance.randrange(2**16), chance.choice(SHARES)
            )
            yield fault
            at = fault.end + lane.pause + chance.expovariate(1 / lane.more)


def _suspended(chance: Random, length: float) -> Iterator[Fault]:
    """Each group once, somewhere in the middle of a run that is long enough."""
    if length < STORM:
        return
    for number, group in enumerate(GROUPS, start=len(LANES)):
        at, seconds = chance.uniform(0.3, 0.7) * length, chance.uniform(*LASTING[Kind.SUSPENDED])
        yield Fault(number, at, Kind.SUSPENDED, group, seconds)
