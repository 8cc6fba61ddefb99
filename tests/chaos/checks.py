"""The checks after a run: ``landfall audit``, ``landfall fsck`` and the producers' ledger."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

from dev.servers.kafka import KAFKA
from landfall.api.contract import LANE, ExitCode
from landfall.cli.group_store import GroupStore
from landfall.ledger import State, fold
from landfall.ledger.names.object_names import ledger_prefix
from tests.chaos import compare_landed, kafka_log
from tests.chaos.environment import Environment
from tests.chaos.outcome import CheckResult
from tests.chaos.producer_ledger import Comparison
from tests.support.kubernetes.live_group import NAME

COUNTS = ("missing", "duplicates", "misplaced", "corrupted")
LANDFALL = str(Path(sys.executable).with_name("landfall"))


def commit_times(environment: Environment, group: str) -> list[float]:
    """When each COMMIT was written, in seconds since 1970.

    The times are those of the S3 server, because a fault may have shifted the driver's clock.
    """
    scene = environment.groups[group].scene
    stamps = scene.bucket.stamps()
    assert any(key.startswith(ledger_prefix(NAME, LANE)) for key in stamps)
    lane, state = GroupStore(scene.group(NAME), scene.store()).lane, State()
    keys = list[str]()
    for _, body in lane.bodies():
        key, before = lane.next_key(state), state
        state = fold(before, body)
        if state.last_commit_time != before.last_commit_time:
            keys.append(key)
    times = (datetime.fromisoformat(stamps[key][1]) for key in keys if key in stamps)
    return [time.timestamp() for time in times]


def check_group(environment: Environment, group: str, producer_ledger: Path) -> CheckResult:
    """Combine what audit, fsck and the producers' ledger find wrong with a group.

    Audit and the producers' ledger count the same records independently; the larger count is taken.
    """
    file = environment.write_group_file(group)
    audited = _run_audit(environment, file)
    compared = _compare_with_producers(environment, group, producer_ledger)
    counts = {name: max(getattr(audited, name), getattr(compared, name)) for name in COUNTS}
    other = (*audited.other, *compared.other, *_run_fsck(environment, file))
    return CheckResult(**counts, other=other, committed_by_kafka=compared.committed_by_kafka)


def _run_audit(environment: Environment, file: Path) -> CheckResult:
    """Run ``landfall audit``, which compares everything in Kafka with everything that landed."""
    done = _run_landfall(environment, "audit", str(file), "--json")
    (environment.folder / f"{file.stem}.audit.json").write_text(done.stdout)
    if not done.stdout.startswith("{"):
        failure = f"landfall audit ended with exit code {done.returncode}: {done.stderr}"
        return CheckResult(other=(failure,))
    found: dict[str, Any] = json.loads(done.stdout)
    return CheckResult(
        found["missing"],
        found["duplicate"],
        found["misplaced"],
        found["corrupted"],
        tuple(_other_findings(found)),
    )


def _compare_with_producers(
    environment: Environment, group: str, producer_ledger: Path
) -> CheckResult:
    """Compare the producers' ledger with what is visible.

    It knows two things that Kafka cannot tell the auditor: what the broker acknowledged, and which
    records were in aborted transactions.
    """
    comparison = compare_landed.check(environment.group_spec(group), producer_ledger)
    (environment.folder / f"{group}.producers.txt").write_text(str(comparison))
    topics = comparison.topics.values()
    answers = _ask_kafka(environment, comparison)
    other_counts = {
        "aborted and landed": sum(answer.unexplained for answer in answers.values()),
        "landed and never produced": sum(_size(topic.unknown) for topic in topics),
        "rows without a number": comparison.unidentified,
    }
    other = [
        f"producers' ledger: {name}: {number}" for name, number in other_counts.items() if number
    ]
    if not comparison.topics:
        other.append("producers' ledger: it is empty")
    return CheckResult(
        missing=sum(_size(topic.missing) for topic in topics),
        duplicates=sum(_size(topic.repeated) for topic in topics),
        misplaced=sum(topic.misfiled for topic in topics),
        other=tuple(other),
        committed_by_kafka=tuple(
            f"{answer.committed} of {topic}: {'; '.join(answer.batches)}"
            for topic, answer in sorted(answers.items())
            if answer.committed
        ),
    )


def _ask_kafka(environment: Environment, comparison: Comparison) -> dict[str, kafka_log.Markers]:
    """What Kafka's log says of the records that landed and that their producers call aborted."""
    wanted = {
        topic: compared.aborted_landed
        for topic, compared in comparison.topics.items()
        if compared.aborted_landed
    }
    data = environment.place.server(KAFKA).home / "data"
    if not data.is_dir():  # the broker is not of this machine, so its segments cannot be read
        return {
            topic: kafka_log.Markers(0, (), _size(numbers)) for topic, numbers in wanted.items()
        }
    return kafka_log.ask(environment.stack.kafka, data, wanted)


def _size(ranges: Iterable[tuple[int, int]]) -> int:
    return sum(end - start for start, end in ranges)


def _other_findings(found: dict[str, Any]) -> list[str]:
    """What else an audit found wrong."""
    other = [
        f"{name}: {found[name]}"
        for name in ("disordered", "foreign", "unchecked", "waiting_commits")
        if found[name]
    ]
    other += [" ".join(map(str, fault.values())) for fault in found["faults"][:10]]
    return other if other or found["whole"] else ["landfall audit found faults"]


def _run_fsck(environment: Environment, file: Path) -> list[str]:
    """Run ``landfall fsck --deep``, and return its last lines if an invariant is broken."""
    done = _run_landfall(environment, "fsck", "--deep", str(file))
    (environment.folder / f"{file.stem}.fsck.txt").write_text(done.stdout + done.stderr)
    return (
        []
        if done.returncode == ExitCode.OK
        else [f"fsck: {line}" for line in done.stdout.splitlines()[-12:]]
    )


def _run_landfall(environment: Environment, *arguments: str) -> "subprocess.CompletedProcess[str]":
    env = {**os.environ, "LANDFALL_SECRETS": str(environment.secrets), "COLUMNS": "160"}
    return subprocess.run(
        [LANDFALL, *arguments], env=env, capture_output=True, text=True, check=False
    )
