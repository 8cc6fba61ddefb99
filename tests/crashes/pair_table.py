"""Which features were played against which: docs/evidence/pairs.md.

``python -m tests.crashes --table 400`` plays so many schedules in which features meet, a quarter as
many of each other kind, and prints the page. In a schedule two features have met if its ledger has
records of both, so nothing is counted that did not happen.
"""

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations

from landfall.api.verbs import Outcome
from tests.crashes.expiring import ExpirySchedule
from tests.crashes.letters import LettersSchedule
from tests.crashes.losing import LosingSchedule
from tests.crashes.machine import Schedule
from tests.crashes.merging import MergeSchedule
from tests.crashes.pairs import Feature, meeting, played
from tests.crashes.process import no_waiting
from tests.crashes.promoting import PromotionSchedule

Pair = frozenset[Feature]
PAIRS: tuple[Pair, ...] = tuple(frozenset(each) for each in combinations(Feature, 2))
ALONE: Mapping[str, type[Schedule]] = {
    "topics": Schedule,
    "merges": MergeSchedule,
    "promotions": PromotionSchedule,
    "losses": LosingSchedule,
    "expiry": ExpirySchedule,
    "letters": LettersSchedule,
}
"""Kinds of schedules beside those in which features meet."""
_SIDE, _LANDED = "tests/unit/driver/test_side_lane.py", "tests/unit/landed"


@dataclass(frozen=True)
class Elsewhere:
    """A test, or a model by its test, in which features meet.

    Attributes:
        test: its file, and its name if it is not all of the file.
        features: which of them, each two.
    """

    test: str
    features: tuple[Feature, ...]

    def has(self, pair: Pair) -> bool:
        """Whether these two meet there."""
        return pair <= {*self.features}


F = Feature
ELSEWHERE = (
    Elsewhere("tests/model/test_replacing.py", (F.COMPACTION, F.BACKFILL, F.UNDO, F.LOST_UPLOADS)),
    Elsewhere("tests/model/test_promoting.py", (F.BACKFILL, F.UNDO, F.REPLAY)),
    Elsewhere("tests/model/test_letters.py", (F.LETTERS_PLACE, F.LOST_UPLOADS)),
    Elsewhere("tests/model/test_expiring.py", (F.REPLAY, F.LOST_UPLOADS)),
    Elsewhere("tests/model/test_finalizing.py", (F.FINALIZE, F.LOST_UPLOADS)),
    Elsewhere("tests/properties/test_undoing.py", (F.COMPACTION, F.BACKFILL, F.UNDO)),
    Elsewhere(
        "tests/properties/test_what_counts.py",
        (F.LANDED_SOURCE, F.COMPACTION, F.BACKFILL, F.UNDO),
    ),
    Elsewhere("tests/unit/driver/test_backfill.py", (F.SHADOW, F.COMPACTION)),
    Elsewhere(
        f"{_SIDE}::test_a_side_lane_reads_what_kafka_has_lost_where_the_live_group_does",
        (F.SHADOW, F.READ_FROM),
    ),
    Elsewhere(
        "tests/unit/driver/test_side_source.py::"
        "test_a_group_that_lands_from_a_backup_does_so_in_its_backfills",
        (F.SHADOW, F.LANDED_SOURCE),
    ),
)
"""Where features meet beside the crash machine."""


@dataclass
class Met:
    """How many schedules of each kind were played, and in how many of them two features met.

    Attributes:
        undos: how drivers have answered a person who asks for undos where features meet.
        remedies: how many of these undos were carried out as a refusal had named them.
    """

    schedules: Counter[str] = field(default_factory=Counter)
    pairs: dict[str, Counter[Pair]] = field(default_factory=dict)
    undos: Counter[Outcome] = field(default_factory=Counter)
    remedies: int = 0

    def add(self, kind: str, features: Iterable[Feature]) -> None:
        """Count a schedule in which these were played."""
        self.schedules[kind] += 1
        found = self.pairs.setdefault(kind, Counter())
        found.update(frozenset(each) for each in combinations(sorted(features), 2))


def count_schedules(seeds: range) -> Met:
    """Play the schedules of these seeds, and a quarter as many of each other kind."""
    met = Met()
    with no_waiting():
        for seed in seeds:
            schedule = meeting(seed)
            schedule.run()
            met.add("pairs", played(schedule))
            met.undos += schedule.undoing.answers
            met.remedies += schedule.undoing.remedies
        for kind, of in ALONE.items():
            for seed in seeds[: len(seeds) // 4]:
                alone = of(seed)
                alone.run()
                met.add(kind, played(alone))
    return met


def page(met: Met) -> str:
    """The page, with a line for each two features."""
    return "\n".join([*_HEAD, _sentence(met), "", *_table(met), "", *_undos(met), ""])


_WIDTH = 120
_HEAD = (
    "# Which features were played against which",
    "",
    "Each feature has schedules and models of its own. What breaks is where two of them meet, so",
    "the [crash machine](crash-machine.md) plays all in one world: `make crash-hunt PAIRS=1`. In",
    "a schedule two features have met if its ledger has records of both.",
    "",
)


def _sentence(met: Met) -> str:
    alone = ", ".join(f"{met.schedules[kind]} of {kind}" for kind in ALONE)
    return textwrap.fill(
        f"It counts {met.schedules['pairs']} schedules of pairs, and of other kinds {alone}. "
        "`python -m tests.crashes --table 400` plays more of them, and prints it.",
        _WIDTH,
    )


def _undos(met: Met) -> Iterator[str]:
    done, refused = met.undos[Outcome.DONE], met.undos[Outcome.REFUSED]
    yield "## Undos"
    yield ""
    yield textwrap.fill(
        f"In the schedules of pairs, drivers carried out {done} undos that a person asked for, and "
        f"refused {refused}. {met.remedies} of those carried out had been named by a refusal.",
        _WIDTH,
    )


def _table(met: Met) -> Iterator[str]:
    yield "| | and | schedules in which both happened | also |"
    yield "|---|---|---|---|"
    for pair in PAIRS:
        first, second = (each for each in Feature if each in pair)
        kinds = [(kind, found[pair]) for kind, found in met.pairs.items() if found[pair]]
        counts = ", ".join(f"{kind}: {number}" for kind, number in kinds)
        also = ", ".join(f"`{each.test}`" for each in ELSEWHERE if each.has(pair))
        yield f"| {first} | {second} | {counts or 'none yet'} | {also} |"
