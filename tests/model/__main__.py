"""``python -m tests.model``: check the protocol, then show what each of its rules prevents."""

import argparse
import sys
import time
from collections.abc import Mapping

from tests.model import (
    closing,
    discovering,
    expiring,
    finalizing,
    keyed,
    leasing,
    letters,
    loading,
    promoting,
    publishing,
    replacing,
    runs,
)
from tests.model.rules import Harm, Rules, Scope
from tests.model.search import Result, search
from tests.model.stories import story
from tests.model.variants import LARGE_WORLDS, VARIANTS, WORLDS


def check(worlds: Mapping[str, Scope]) -> bool:
    """Check the protocol in these worlds and print the results; True if it holds."""
    total, wrong = 0, False
    print(f"The protocol, in every order of its steps, checked for {len(Harm)} harms:\n")
    for name, scope in worlds.items():
        began = time.monotonic()
        result = search(Rules(), scope)
        total += result.states
        print(
            f"  {name:24}{_outcome(result):24}{result.states:>9,} states "
            f"{time.monotonic() - began:6.1f} s",
            flush=True,
        )
        for line in story(result):
            wrong = True
            print(line)
    print(f"  {'':48}{total:>9,} states\n")
    return not wrong


def show(name: str) -> bool:
    """Print a variant's counterexample; True if there is one."""
    variant = VARIANTS[name]
    result = search(variant.rules, variant.scope, [variant.harm])
    print(f"{name}\n  rule: {variant.rule}\n  without it, a driver {variant.instead}")
    print("\n".join(story(result)) or "  NO COUNTEREXAMPLE: the rule is not needed", flush=True)
    print(f"     ({result.states:,} states searched)\n")
    return result.counterexample is not None


def _outcome(result: Result) -> str:
    return "VIOLATED" if result.counterexample else "holds"


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument(
        "--variant",
        action="append",
        choices=VARIANTS,
        help="check only this variant; can be repeated",
    )
    parser.add_argument("--large", action="store_true", help="larger worlds, which take minutes")
    arguments = parser.parse_args()
    if arguments.variant:
        return 0 if all(map(show, arguments.variant)) else 1
    held = check(LARGE_WORLDS if arguments.large else WORLDS)
    held &= all([*map(show, VARIANTS)])
    others = [
        publishing.main(large=arguments.large),
        finalizing.main(),
        loading.main(),
        runs.main(),
        discovering.main(),
        closing.main(),
        leasing.main(),
        replacing.main(),
        promoting.main(),
        expiring.main(),
        letters.main(),
        keyed.main(),
    ]
    return 0 if held and not any(others) else 1


if __name__ == "__main__":
    sys.exit(main())
