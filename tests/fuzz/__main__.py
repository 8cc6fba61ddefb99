"""``python -m tests.fuzz``: check random cases of decoders until time is up or one differs.

Prints the seed, and the smallest case that differs; ``--seed`` checks the same cases again.
"""

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.fuzz import DECODERS

ROUND = 300
"""Cases of one seed."""


def main() -> int:
    """See the module; the exit code is 1 if a case differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--decoder", choices=DECODERS, help="only this one; default: all, in turn")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long; default: 10")
    parser.add_argument("--seed", type=int, help="check the cases of this seed only")
    arguments = parser.parse_args()
    decoders = (arguments.decoder,) if arguments.decoder else DECODERS
    for number in _seeds(arguments.seed, arguments.minutes * 60):
        for decoder in decoders:
            if not differs(decoder, number, ROUND):
                continue
            print(f"again: make fuzz DECODER={decoder} SEED={number}")
            return 1
    return 0


def _seeds(only: int | None, seconds: float) -> Iterator[int]:
    if only is not None:
        yield only
        return
    first, began = random.randrange(2**32), time.monotonic()
    print(f"seeds from {first}", flush=True)
    number = first
    while time.monotonic() - began < seconds:
        yield number
        number += 1


def differs(decoder: str, number: int, cases: int, *, shrinks: bool = True) -> bool:
    """Whether a case of a seed differs; says what was reached, or the smallest such case."""
    of: Any = import_module(f"tests.fuzz.{decoder}")
    reached: Counter[str] = Counter()

    @seed(number)
    @settings(
        max_examples=cases,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink) if shrinks else (Phase.generate,),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @given(of.CASES)
    def check(case: Any) -> None:
        words: Sequence[str] = of.check(case)
        reached.update(("cases", *words))

    try:
        check()
    except Exception as error:  # noqa: BLE001  # of any kind is a finding
        notes = "\n".join(getattr(error, "__notes__", ()))
        print(f"{decoder}: seed {number}: {type(error).__name__}: {error}\n{notes}", flush=True)
        return True
    counts = ", ".join(f"{count:,} {word}" for word, count in reached.most_common())
    print(f"{decoder}: seed {number}: {counts}", flush=True)
    return False


if __name__ == "__main__":
    sys.exit(main())
