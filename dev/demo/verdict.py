"""Whether it was exactly once: Landfall's own checks, and DuckDB's count."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from dev.demo import flights, proof
from dev.demo.drivers import Group, Landfall
from dev.demo.story import Story


def told(story: Story, landfall: Landfall, bucket: proof.Bucket, groups: Sequence[Group]) -> bool:
    """Check and count, print the verdict, and return it; the first group lands SequenceFiles, ``partition`` JSON by day."""
    with story.phase("landfall status, fsck and verify: the ledger against the store"):
        sound = _ask(story, landfall, groups)
    with story.phase("DuckDB counts the landed JSON, knowing nothing of Landfall"):
        sound &= _count(story, bucket)
    word = "[bold green]exactly once" if sound else "[bold red]NOT exactly once"
    story.console.print(f"\n{word}[/] · {time.monotonic() - story.begun:.0f} s in all")
    return sound


def _ask(story: Story, landfall: Landfall, groups: Sequence[Group]) -> bool:
    """All groups' status and fsck; ``verify`` where DuckDB cannot look, in the SequenceFiles."""
    questions = [(command, group) for command in ("status", "fsck") for group in groups] + [
        ("verify", groups[0])
    ]
    sound = True
    with ThreadPoolExecutor(2) as pool:
        answers = pool.map(
            lambda question: landfall.ask(question[0], str(question[1].file)), questions
        )
        for (command, group), answer in zip(questions, answers, strict=True):
            story.say(f"[bold]$ landfall {command} {group.file.name}")
            story.console.out(answer.stdout, end="")
            sound &= answer.returncode == 0
    return sound


def _count(story: Story, bucket: proof.Bucket) -> bool:
    with TemporaryDirectory() as folder:
        proof.fetch(bucket, "partition", Path(folder))
        found = proof.count(Path(folder), flights.COUNT)
    twice = found.rows - found.distinct
    story.say(f"[bold]{found.rows:,} flights[/] on {found.days} days")
    story.say(
        f"[bold]{found.missing} missing, {twice} twice, {found.misplaced} under another day than their own"
    )
    return found.exact(flights.COUNT)
