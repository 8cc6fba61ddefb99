"""Checks whether everything landed exactly once, with Landfall's checks and with DuckDB."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from dev.demo import flights, proof
from dev.demo.buckets import DemoBucket, fetch
from dev.demo.drivers import Group, Landfall
from dev.demo.story import Story


def run(story: Story, landfall: Landfall, bucket: DemoBucket, groups: Sequence[Group]) -> bool:
    """Check and count, and return whether everything landed exactly once.

    The first group lands Parquet, the group ``partition`` JSON by day.
    """
    with story.phase("Check ledger and objects with landfall status, fsck and verify"):
        is_exact = _run_checks(story, landfall, groups)
    with story.phase("Count the landed JSON with DuckDB, which knows nothing of Landfall"):
        is_exact &= _count(story, bucket)
    return is_exact


def _run_checks(story: Story, landfall: Landfall, groups: Sequence[Group]) -> bool:
    """Run status and fsck on all groups, and verify on the first."""
    commands = [(name, group) for name in ("status", "fsck") for group in groups]
    commands.append(("verify", groups[0]))
    is_sound = True
    with ThreadPoolExecutor(2) as pool:
        results = pool.map(lambda c: landfall.command(c[0], str(c[1].file)), commands)
        for (name, group), result in zip(commands, results, strict=True):
            story.say(f"[bold]$ landfall {name} {group.file.name}")
            story.console.out(result.stdout, end="")
            is_sound &= result.returncode == 0
    return is_sound


def _count(story: Story, bucket: DemoBucket) -> bool:
    with TemporaryDirectory() as folder:
        fetch(bucket, "partition", Path(folder))
        found = proof.count(Path(folder), flights.COUNT)
    duplicates = found.rows - found.distinct
    story.say(f"[bold]{found.rows:,} flights[/] on {found.days} days")
    story.say(
        f"[bold]{found.missing} missing, {duplicates} duplicate, "
        f"{found.misplaced} in the output partition of another day"
    )
    return found.exact(flights.COUNT)
