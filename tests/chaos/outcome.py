"""The outcome of a run: of each fault, of the load, of each group. Pure values."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from tests.chaos.schedule import S3, STORE, Fault, Kind

MAX_KINDS_NAMED = 8
"""How many kinds of faults a table names as the causes of a pause."""
VERBS = (Kind.UNDONE, Kind.PROMOTED, Kind.DISCARDED)
"""What people ask for about objects that are replaced: each comes through in a run."""
LEAD_SECONDS = 5.0
"""A fault that ended this long before a pause may still be its cause."""


class NotInjected(Exception):  # noqa: N818  # an outcome, not an error
    """A fault of the schedule could not be injected; the message says why. It does not count."""


@dataclass(frozen=True, slots=True)
class FaultResult:
    """What became of a fault of the schedule.

    Attributes:
        fault: the fault.
        began: seconds since the beginning of the run.
        ended: seconds since the beginning of the run.
        injected: whether it was really injected.
        note: what it hit, or why it was not injected.
    """

    fault: Fault
    began: float
    ended: float
    injected: bool
    note: str

    def affects(self, group: str) -> bool:
        """Whether the fault may delay the commits of a group."""
        shared = {STORE, S3, "kafka"}
        return self.fault.target == group or self.fault.target in shared


@dataclass(frozen=True, slots=True)
class Pause:
    """The time between two COMMITs of a group, in seconds since the beginning of the run."""

    began: float = 0.0
    ended: float = 0.0

    @property
    def seconds(self) -> float:
        """The length of the pause."""
        return self.ended - self.began


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What is wrong with what a group landed, in records.

    ``other`` has everything else that is wrong, in words: broken invariants, lost or foreign
    objects, what could not be checked. ``committed_by_kafka`` is not wrong: it names records that
    landed and that only their producer calls aborted.
    """

    missing: int = 0
    duplicates: int = 0
    misplaced: int = 0
    corrupted: int = 0
    other: tuple[str, ...] = ()
    committed_by_kafka: tuple[str, ...] = ()

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong."""
        return replace(self, committed_by_kafka=()) == CheckResult()


@dataclass(frozen=True, slots=True)
class GroupResult:
    """One group at the end of a run.

    Attributes:
        records: records landed as data.
        dead_letters: records landed as dead letters: tombstones, in formats that cannot hold them.
        commits: times of its COMMITs, in seconds since the beginning of the run.
        lag: records that were not landed when the run ended.
        seconds_to_land: from the end of load and faults until everything was landed; None if that
            took longer than the limit.
        check: what audit, fsck and the producers' ledger find wrong.
        retired: objects whose place others took, by merges, promotions and undoings.
        replacing: these others.
    """

    records: int
    dead_letters: int
    commits: Sequence[float]
    lag: int
    seconds_to_land: float | None
    check: CheckResult
    retired: int = 0
    replacing: int = 0

    def longest_pause(self, until: float) -> Pause:
        """The longest pause that began before ``until``, the end of the load.

        Later pauses do not count: a group with nothing to land makes no COMMIT.
        """
        pauses = (Pause(a, b) for a, b in pairwise([0.0, *sorted(self.commits)]) if a < until)
        return max(pauses, key=lambda pause: pause.seconds, default=Pause())


@dataclass(frozen=True, slots=True)
class LoadResult:
    """What the load produced.

    Attributes:
        acknowledged: records that the broker acknowledged, and that must land.
        aborted: records of aborted transactions, which must not land.
        in_doubt: records whose fate their producer does not know; each may land once.
        payload_bytes: payload bytes of all records.
        seconds: how long the load ran.
    """

    acknowledged: int
    aborted: int
    in_doubt: int
    payload_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a whole run.

    Attributes:
        requests_hit: number of requests of the store that a fault hit, by the proxy's fault.
        growth: what was measured during the run, and how it grew.
        environment: the machine and the versions, for the table.
    """

    seed: int
    minutes: float
    results: Sequence[FaultResult]
    requests_hit: Mapping[str, int]
    load: LoadResult
    groups: Mapping[str, GroupResult]
    environment: Mapping[str, str] = field(default_factory=dict)
    growth: Sequence[tuple[str, str]] = ()

    @property
    def is_sound(self) -> bool:
        """Whether every record landed in time, once, in its place and unchanged."""
        return all(
            group.check.is_sound and group.seconds_to_land is not None
            for group in self.groups.values()
        )

    @property
    def not_played(self) -> Sequence[str]:
        """What a run is to replace objects by, and did not."""
        merged = [f"{name}: nothing was merged" for name, g in self.groups.items() if not g.retired]
        verbs = [f"none came through: {kind.value}" for kind in missing_verbs(self.results)]
        return [*merged, *verbs]

    @property
    def injected(self) -> Counter[Kind]:
        """How many faults of each kind were really injected."""
        return Counter(result.fault.kind for result in self.results if result.injected)

    def during(self, group: str, pause: Pause) -> list[FaultResult]:
        """The faults that may have caused a pause: those in effect in it or shortly before."""
        return [
            result
            for result in self.results
            if result.injected
            and result.affects(group)
            and result.began < pause.ended
            and result.ended > pause.began - LEAD_SECONDS
        ]


def missing_verbs(results: Iterable[FaultResult]) -> Sequence[Kind]:
    """The verbs that have come through in none of these results."""
    done = {result.fault.kind for result in results if result.injected}
    return [kind for kind in VERBS if kind not in done]


def describe_kinds(kinds: Iterable[Kind]) -> str:
    """List the commonest kinds with their number: ``broker killed (2), slow answers``."""
    counted = Counter(kinds)
    named = [
        kind.value if number == 1 else f"{kind.value} ({number})"
        for kind, number in counted.most_common(MAX_KINDS_NAMED)
    ]
    unnamed = len(counted) - len(named)
    if unnamed:
        named.append(f"and {unnamed} other {'kind' if unnamed == 1 else 'kinds'}")
    return ", ".join(named)
