"""``python -m tests.crashes``: play schedules until time is up or one fails.

With ``--seed``, play one schedule and print each of its steps. With ``--feeds``, drivers land files
of other programs, with ``--merges`` they put objects in the place of others, with ``--promotions``
also what backfills landed again, with ``--losses`` they read from another group what Kafka has
lost, with ``--expiry`` they delete old dead letters, with ``--letters`` specs name different places
for them, and with ``--pairs`` all of this may meet; without any, one of nine schedules is of each
kind, and the others are of none.

With ``--schedules``, end after so many instead of after a time. With ``--table``, play schedules in
which features meet, and print docs/evidence/pairs.md.
"""

import argparse
import math
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from tests.crashes.expiring import ExpirySchedule
from tests.crashes.feeds import FeedSchedule
from tests.crashes.letters import LettersSchedule
from tests.crashes.losing import LosingSchedule
from tests.crashes.machine import Schedule
from tests.crashes.merging import MergeSchedule
from tests.crashes.pair_table import count_schedules, page
from tests.crashes.pairs import meeting
from tests.crashes.process import Wrong, no_waiting
from tests.crashes.promoting import PromotionSchedule

Kind = Callable[..., Schedule]
OWN_KINDS: Mapping[str, Kind] = {
    "feeds": FeedSchedule,
    "merges": MergeSchedule,
    "promotions": PromotionSchedule,
    "losses": LosingSchedule,
    "expiry": ExpirySchedule,
    "letters": LettersSchedule,
    "pairs": meeting,
}
KINDS: tuple[Kind, ...] = (*OWN_KINDS.values(), Schedule, Schedule)
"""Of what kind schedules are, in turn."""
ASKED = {kind: f"{name.upper()}=1 " for name, kind in OWN_KINDS.items()}


def main() -> int:
    """See the module; the exit code is 1 if a schedule failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.crashes", description=__doc__)
    parser.add_argument("--seed", type=int, help="play this schedule only, and print its steps")
    parser.add_argument("--minutes", type=float, default=60.0, help="how long to play; default: 60")
    parser.add_argument("--schedules", type=int, help="how many to play, however long they take")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--feeds", action="store_true", help="drivers land files, not topics")
    kinds.add_argument("--merges", action="store_true", help="drivers merge what they have landed")
    kinds.add_argument("--promotions", action="store_true", help="backfills are promoted, too")
    kinds.add_argument("--losses", action="store_true", help="another group has what Kafka loses")
    kinds.add_argument("--expiry", action="store_true", help="drivers delete old dead letters")
    kinds.add_argument("--letters", action="store_true", help="dead letters have several places")
    kinds.add_argument("--pairs", action="store_true", help="all of this may meet")
    kinds.add_argument("--table", type=int, metavar="N", help="print the table of N schedules")
    arguments = parser.parse_args()
    if arguments.table is not None:
        print(page(count_schedules(range(arguments.table))), end="")
        return 0
    chosen = next((kind for name, kind in OWN_KINDS.items() if getattr(arguments, name)), None)
    if arguments.seed is not None:
        return _play_one(arguments.seed, chosen or Schedule)
    seconds = math.inf if arguments.schedules else arguments.minutes * 60
    return _play_many(seconds, arguments.schedules or math.inf, (chosen,) if chosen else KINDS)


def _play_one(seed: int, kind: Kind) -> int:
    try:
        with no_waiting():
            kind(seed, tell=print).run()
    except Wrong as wrong:
        print(f"WRONG: {wrong}")
        return 1
    print("every record is landed once, as the ledger says")
    return 0


def _play_many(seconds: float, schedules: float, kinds: Sequence[Kind]) -> int:
    first = random.randrange(2**48)
    print(f"seeds from {first}", flush=True)
    began, seed, reported = time.monotonic(), first, 0
    with no_waiting():
        while (passed := time.monotonic() - began) < seconds and seed - first < schedules:
            kind = kinds[seed % len(kinds)]
            again = f"to see each step: make crash-hunt {ASKED.get(kind, '')}SEED={seed}"
            try:
                kind(seed).run()
            except Wrong as wrong:
                print(f"WRONG: {wrong}\n{again}")
                return 1
            except Exception:  # of the code that is played
                print(again, flush=True)
                raise
            seed += 1
            if passed // 60 > reported:
                reported = int(passed // 60)
                print(f"{reported} min, {seed - first:,} schedules", flush=True)
    print(f"{seed - first:,} schedules, none failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
