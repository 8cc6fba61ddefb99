"""What became of a run: of each fault, of the load, of each group. Pure values, and what can be
said of them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tests.chaos.schedule import S3, STORE, Fault, Kind

NAMED = 8
"""Kinds of faults that are named as causes."""


class NotApplied(Exception):  # noqa: N818  # what happened
    """A fault that was drawn and could not be injected; says why. It does not count."""


@dataclass(frozen=True, slots=True)
class FaultResult:
    """A fault that was to be injected.

    Attributes:
        fault: as it was drawn.
        began: seconds since the beginning of the run.
        ended: likewise.
        injected: whether it really was.
        note: whom it hit, or why it could not be.
    """

    fault: Fault
    began: float
    ended: float
    injected: bool
    note: str

    def concerns(self, group: str) -> bool:
        """Whether it may hold up a group."""
        others = {STORE, S3, "kafka"}
        return self.fault.target == group or self.fault.target in others


@dataclass(frozen=True, slots=True)
class Pause:
    """The longest time between two COMMITs of a group, in seconds since the beginning of the run."""

    began: float = 0.0
    ended: float = 0.0

    @property
    def seconds(self) -> float:
        """How long it was."""
        return self.ended - self.began


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What is wrong with what a group landed, as the auditor and the load's own book say."""

    missing: int = 0
    duplicates: int = 0
    misplaced: int = 0
    corrupted: int = 0
    other: tuple[str, ...] = ()
    """Whatever else is wrong, in words: broken invariants, lost or foreign objects, what could not
    be checked.
    """

    @property
    def is_sound(self) -> bool:
        """Nothing is."""
        return self == CheckResult()


@dataclass(frozen=True, slots=True)
class Landed:
    """One group at the end.

    Attributes:
        records: landed as data.
        dead_letters: landed as such: tombstones, where the format has no place for them.
        commits: times of its COMMITs, in seconds since the beginning of the run.
        lag: records not landed when the run ended.
        seconds_to_land: from the end of load and faults until all was landed; None if that took too
            long.
        check: what audit, fsck and the producers say.
    """

    records: int
    dead_letters: int
    commits: Sequence[float]
    lag: int
    seconds_to_land: float | None
    check: CheckResult

    def longest_pause(self, until: float) -> Pause:
        """Between commits that began before ``until``, the end of the load: who has nothing to land
        makes no pause.
        """
        pauses = (Pause(a, b) for a, b in pairwise([0.0, *sorted(self.commits)]) if a < until)
        return max(pauses, key=lambda pause: pause.seconds, default=Pause())


@dataclass(frozen=True, slots=True)
class Produced:
    """What the load produced.

    Attributes:
        acknowledged: records that must land, by what the broker said to their producer.
        aborted: records of transactions that were aborted, and must not land.
        in_doubt: records of which the producer was not told; each may land once.
        payload_bytes: of all.
        seconds: over which it was produced.
    """

    acknowledged: int
    aborted: int
    in_doubt: int
    payload_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """A whole run."""

    seed: int
    minutes: float
    results: Sequence[FaultResult]
    requests_hit: Mapping[str, int]
    load: Produced
    groups: Mapping[str, Landed]
    about: Mapping[str, str] = field(default_factory=dict)
    """Machine and versions."""

    @property
    def is_sound(self) -> bool:
        """Everything landed in time, once, where it belongs, as it was."""
        return all(
            group.check.is_sound and group.seconds_to_land is not None
            for group in self.groups.values()
        )

    @property
    def injected(self) -> Counter[Kind]:
        """How many of each kind really were."""
        return Counter(result.fault.kind for result in self.results if result.injected)

    def during(self, group: str, pause: Pause) -> list[FaultResult]:
        """What may have caused a pause: what began in it or shortly before, or had not ended."""
        before = 5.0
        return [
            result
            for result in self.results
            if result.injected
            and result.concerns(group)
            and result.began < pause.ended
            and result.ended > pause.began - before
        ]


def describe_kinds(kinds: Iterable[Kind]) -> str:
    """Kinds with how many there were of each: ``slow answers, broker killed (2)``."""
    counted = Counter(kinds)
    said = [
        kind.value if number == 1 else f"{kind.value} ({number})"
        for kind, number in counted.most_common(NAMED)
    ]
    return ", ".join(said) + (
        f", and {len(counted) - NAMED} other kinds" if len(counted) > NAMED else ""
    )
