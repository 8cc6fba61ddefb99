"""What is looked at when a run is over: what the ledger says, and what ``landfall audit`` and
``landfall fsck`` do.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

from landfall.api.contract import LANE, ExitCode
from landfall.cli.group_store import GroupStore
from landfall.ledger import Commit
from landfall.ledger.object_names import ledger_prefix, slot_key
from tests.chaos import compare_landed
from tests.chaos.environment import Environment
from tests.chaos.outcome import CheckResult
from tests.support.live_group import NAME

NUMBERS = ("missing", "duplicates", "misplaced", "corrupted")
LANDFALL = str(Path(sys.executable).with_name("landfall"))


def commit_times(stage: Environment, group: str) -> list[float]:
    """When each COMMIT was there, by the clock of the S3 server, for a driver's may be wrong; in
    seconds since 1970.
    """
    scene = stage.groups[group].scene
    stamps = scene.bucket.stamps()
    assert any(key.startswith(ledger_prefix(NAME, LANE)) for key in stamps)
    records = GroupStore(scene.group(NAME), scene.store()).records()
    seqs = [record.header.seq for record in records if isinstance(record, Commit)]
    times = (datetime.fromisoformat(stamps[slot_key(NAME, LANE, seq)][1]) for seq in seqs)
    return [time.timestamp() for time in times]


def check_group(stage: Environment, group: str, book: Path) -> CheckResult:
    """What audit, fsck and the load's book say of a group."""
    file = stage.file(group)
    audited, by_the_book = _audited(stage, file), _by_the_book(stage, group, book)
    worse = {name: max(getattr(audited, name), getattr(by_the_book, name)) for name in NUMBERS}
    return CheckResult(**worse, other=(*audited.other, *by_the_book.other, *_broken(stage, file)))


def _audited(stage: Environment, file: Path) -> CheckResult:
    """``landfall audit``: all that Kafka holds against all that landed."""
    done = _landfall(stage, "audit", str(file), "--json")
    (stage.folder / f"{file.stem}.audit.json").write_text(done.stdout)
    if not done.stdout.startswith("{"):
        return CheckResult(other=(f"landfall audit ends with {done.returncode}: {done.stderr}",))
    found: dict[str, Any] = json.loads(done.stdout)
    return CheckResult(
        found["missing"],
        found["duplicate"],
        found["misplaced"],
        found["corrupted"],
        tuple(_odd(found)),
    )


def _by_the_book(stage: Environment, group: str, book: Path) -> CheckResult:
    """The producer's book against all that is visible: it knows what the broker said, and of
    aborted records.
    """
    told = compare_landed.check(stage.parsed(group), book)
    (stage.folder / f"{group}.book.txt").write_text(str(told))
    accounts = told.topics.values()
    numbers = {
        name: sum(_size(getattr(account, name)) for account in accounts)
        for name in ("missing", "repeated")
    }
    odd = {
        name: sum(_size(getattr(account, name)) for account in accounts)
        for name in ("aborted_landed", "unknown")
    }
    odd["nameless"] = told.nameless
    other = [f"book: {name}: {number}" for name, number in odd.items() if number]
    if not told.topics:
        other.append("book: there is nothing in it")
    misplaced = sum(account.misfiled for account in accounts)
    return CheckResult(numbers["missing"], numbers["repeated"], misplaced, 0, tuple(other))


def _size(ranges: Iterable[tuple[int, int]]) -> int:
    return sum(end - start for start, end in ranges)


def _odd(found: dict[str, Any]) -> list[str]:
    """What else the auditor does not like."""
    odd = [
        f"{name}: {found[name]}"
        for name in ("disordered", "foreign", "unchecked", "waiting_commits")
        if found[name]
    ]
    odd += [" ".join(map(str, fault.values())) for fault in found["faults"][:10]]
    return odd if odd or found["whole"] else ["the audit is not whole"]


def _broken(stage: Environment, file: Path) -> list[str]:
    """Broken invariants."""
    done = _landfall(stage, "fsck", "--deep", str(file))
    (stage.folder / f"{file.stem}.fsck.txt").write_text(done.stdout + done.stderr)
    return (
        []
        if done.returncode == ExitCode.OK
        else [f"fsck: {line}" for line in done.stdout.splitlines()[-12:]]
    )


def _landfall(stage: Environment, *arguments: str) -> "subprocess.CompletedProcess[str]":
    env = {**os.environ, "LANDFALL_SECRETS": str(stage.secrets), "COLUMNS": "160"}
    return subprocess.run(
        [LANDFALL, *arguments], env=env, capture_output=True, text=True, check=False
    )
