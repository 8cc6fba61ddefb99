"""``python -m tests.crashes``: play schedules until time is up or something is wrong; with
``--seed``, one, step by step.
"""

import argparse
import random
import sys
import time

from tests.crashes.machine import Schedule, Wrong, machinery


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.crashes", description=__doc__)
    parser.add_argument("--seed", type=int, help="of one schedule, to be told step by step")
    parser.add_argument("--minutes", type=float, default=60.0, help="to go on for; 60 unless told")
    arguments = parser.parse_args()
    if arguments.seed is not None:
        return _tell(arguments.seed)
    return _hunt(arguments.minutes * 60)


def _tell(seed: int) -> int:
    try:
        with machinery():
            Schedule(seed, tell=print).run()
    except Wrong as wrong:
        print(f"WRONG: {wrong}")
        return 1
    print("all is there, once, as the ledger says")
    return 0


def _hunt(seconds: float) -> int:
    first = random.randrange(2**48)
    print(f"from seed {first} on", flush=True)
    began, seed, said = time.monotonic(), first, 0
    with machinery():
        while (passed := time.monotonic() - began) < seconds:
            try:
                Schedule(seed).run()
            except Wrong as wrong:
                print(f"WRONG: {wrong}\nagain, step by step: make crash-hunt SEED={seed}")
                return 1
            seed += 1
            if passed // 60 > said:
                said = int(passed // 60)
                print(f"{said} minutes, {seed - first:,} schedules", flush=True)
    print(f"{seed - first:,} schedules, nothing wrong")
    return 0


if __name__ == "__main__":
    sys.exit(main())
