"""Load jobs of a table: any number of publishers, killed, frozen and late anywhere.

    python -m tests.model.loading

A warehouse keeps no position with its rows. It keeps the ids of jobs, and runs one job for an id.
So each table has a **chain** beside the ledger: load after load, an INTENT that says which objects
load ``n`` is about, and an OUTCOME, each created if absent. The id of a job is the number of its
load, and nothing else. Load ``n + 1`` is decided when the job of load ``n`` is at its end.

Requests may be lost, or come late. Jobs fail. Somebody drops the table, or asks for a **reset**:
then the id of a load that is open is used up by a job that does nothing, and the next load
replaces all rows. Records of loads before the last may be deleted.

Each rule is left out by a variant, whose shortest story shows what comes of it.
"""

import sys
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from functools import partial
from typing import NamedTuple

from tests.model.exploring import Result, explore, show
from tests.model.loading_steps import At, Left, Rules, Steps, World

MAX_STEPS_ALONE = 40
"""Steps after which a publisher that runs undisturbed has loaded everything."""


class Harm(StrEnum):
    """What must never be."""

    TWICE = "the table has the rows of an object twice"
    LOST = "a publisher that runs undisturbed leaves out an object"


def search(rules: Rules, left: Left) -> Result:
    """Search every state that may follow, the nearest first."""
    steps = Steps(rules)
    return explore(World(left), steps.all, partial(_harm, steps))


def _harm(steps: Steps, w: World) -> Harm | None:
    rows = w.rows or ()
    if len({*rows}) != len(rows):
        return Harm.TWICE
    if any(me.at is not At.READ for me in w.publishers) or w.late:
        return None  # what they lead to without these is another state
    end = replace(w, left=Left())
    for _ in range(MAX_STEPS_ALONE):
        running = [(number, job) for number, job in end.jobs if job.state == "running"]
        ahead = [*steps.ends(end, *running[0])] if running else [*steps.of(end, 0)]
        if not ahead:
            break
        end = ahead[0][1]
    if len({*(end.rows or ())}) != len(end.rows or ()):
        return Harm.TWICE
    return None if end.rows == tuple(range(w.visible)) else Harm.LOST


DISTURBED: Mapping[str, Left] = {
    "lost requests": Left(lost=1, failures=1),
    "a dropped table": Left(drops=1, failures=1),
    "resets": Left(resets=1, lost=1),
    "deleted records": Left(deletes=1, lost=1),
}
"""What publishers are disturbed by in one search each."""


class Variant(NamedTuple):
    """Publishers without one rule, what disturbs them, and what comes of it."""

    instead: str
    rules: Rules
    left: Left
    harm: Harm


VARIANTS: Mapping[str, Variant] = {
    "no-intent": Variant(
        "a job is submitted without writing first what it is about, under an id of its objects",
        Rules(writes_intent_first=False, id_is_the_number=False),
        Left(),
        Harm.TWICE,
    ),
    "overwrites": Variant(
        "an intent is written although there is one",
        Rules(creates_if_absent=False),
        Left(),
        Harm.LOST,
    ),
    "own-ids": Variant(
        "each publisher submits a load under an id of its own",
        Rules(one_id_for_a_load=False),
        Left(),
        Harm.TWICE,
    ),
    "ids-of-contents": Variant(
        "the id of a job is that of its objects, and old records are deleted",
        Rules(id_is_the_number=False),
        Left(deletes=1),
        Harm.TWICE,
    ),
    "same-id-again": Variant(
        "a failed job is submitted again under its id",
        Rules(new_id_after_failure=False),
        Left(failures=1),
        Harm.LOST,
    ),
    "absent-is-failed": Variant(
        "a job that is not found counts as failed",
        Rules(absent_is_unknown=False),
        Left(lost=1),
        Harm.TWICE,
    ),
    "creates-any-time": Variant(
        "every load makes the table if there is none",
        Rules(creates_only_at_start=False),
        Left(drops=1),
        Harm.LOST,
    ),
    "id-left-free": Variant(
        "a reset gives up an open load without using up its id",
        Rules(uses_up_the_id=False),
        Left(resets=1, lost=1),
        Harm.TWICE,
    ),
    "appends-after-reset": Variant(
        "the first load after a reset does not replace the rows",
        Rules(replaces_after_reset=False),
        Left(resets=1),
        Harm.TWICE,
    ),
}


def main() -> int:
    """Check the rules under every disturbance, then show what each of them prevents."""
    return show(
        "Load jobs of any number of publishers, killed, frozen and late anywhere",
        {name: partial(search, Rules(), left) for name, left in DISTURBED.items()},
        VARIANTS,
        lambda variant: search(variant.rules, variant.left),
    )


if __name__ == "__main__":
    sys.exit(main())
