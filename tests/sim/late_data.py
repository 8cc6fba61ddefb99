"""``python -m tests.sim.late_data``: a day in which a complete hour gets late objects.

The real planner and merger run on a ledger in memory; printed are the objects that a reader of the
hour opens, and what was written to get there. With ``--year`` the whole driver runs for a year, see
``late_year``.
"""

import argparse
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tests.sim.late_year import PROFILES, a_year, described
from tests.support.ledger.compaction_scene import SPEC, CompactionScene

DAY_MINUTES = 24 * 60
ROUTE = {"route": {"pattern": "dt={date}/hr={hour}"}}
ON_TIME = (40, 40, 40)
"""Rows of the objects that are there when the hour is complete."""


@dataclass(frozen=True)
class Outcome:
    """What a day costs.

    Attributes:
        late: late objects, of one row each.
        merges: REPLACEs.
        rewritten: rows that were written by these.
        objects: of the hour at the end of the day.
        most: objects of the hour at any time.
    """

    late: int
    merges: int
    rewritten: int
    objects: int
    most: int


def scene_keys(scene: CompactionScene) -> set[str]:
    """The keys of all objects of the hour, also of those that have retired."""
    return {stat.key for stat in scene.sample.store.list_after("clicks/")}


def a_day_of_late_data(every: int, **compact: Any) -> Outcome:
    """A late object each so many minutes."""
    rules = {**SPEC["compact"], **compact}
    scene = CompactionScene({**SPEC, **ROUTE, "compact": rules}).land(4, *ON_TIME).finish(4)
    first = scene.plan()
    scene.apply(first)
    there = {upload.key for upload in first.uploads}
    known = scene_keys(scene)
    late = merges = rewritten = most = 0
    for minute in range(DAY_MINUTES):
        if minute % every == 0:
            scene.land(4, 1)
            there |= scene_keys(scene) - known
            known |= there
            late += 1
        if plan := scene.observe(timedelta(minutes=1)):
            scene.apply(plan)
            merges += 1
            rewritten += sum(new.landed.rows for new in plan.listed.objects)
            there -= {each.landed.upload.key for each in plan.listed.retire}
            there |= {upload.key for upload in plan.uploads}
            known |= there
        most = max(most, len(there))
    return Outcome(late, merges, rewritten, len(there), most)


def print_days() -> None:
    """A table of days in which one hour gets late objects."""
    print(f"{'late each':>10}{'dedupe':>8}{'late':>7}{'merges':>8}{'rewritten':>11}{'objects':>9}")
    for minutes in (1, 5, 9, 11, 30):
        for dedupe in (None, {"key": "value"}):
            o = a_day_of_late_data(minutes, below="1Mi", target="4Mi", dedupe=dedupe)
            counts = f"{o.late:>7}{o.merges:>8}{o.rewritten:>11}{o.objects:>9}"
            print(f"{minutes:>6} min{'yes' if dedupe else 'no':>8}{counts}")


def main() -> None:
    """Print days, or a year of each profile."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.late_data", description=__doc__)
    parser.add_argument("--year", action="store_true", help="the whole driver, for a year")
    parser.add_argument("--days", type=int, default=365, help="how long that year is")
    parser.add_argument("--profile", choices=[*PROFILES], action="append", help="only this one")
    options = parser.parse_args()
    if options.year:
        for profile in options.profile or PROFILES:
            print(described(a_year(profile, options.days)), flush=True)
    else:
        print_days()


if __name__ == "__main__":
    main()
