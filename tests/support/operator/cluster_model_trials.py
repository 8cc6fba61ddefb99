"""The Backfills in the model of a cluster that try a revision of the group.

The name of the revision's image decides what it lands: ``odd`` other rows, ``spoiling`` dead
letters, ``endless`` never all of it; a ``broken`` one fails, and any other lands the same rows.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from landfall_operator.core.snapshot import RecordedSpec
from landfall_operator.core.trial_backfills import TrialBackfill, trial_backfill_of

LANDING_TIME = timedelta(minutes=3)
"""How long it takes to land again and to compare, from when nothing is away."""
ROWS = 1000
"""Rows of the active revision."""


@dataclass
class Trials:
    """The Backfills of the group, by name; ``made`` are the manifests of all that there ever were.

    Attributes:
        status: what the next ones that end say, instead of what their image says.
    """

    bodies: dict[str, dict[str, Any]] = field(default_factory=dict)
    begun: dict[str, datetime] = field(default_factory=dict)
    made: list[dict[str, Any]] = field(default_factory=list)
    status: dict[str, Any] | None = None

    def apply(self, manifest: dict[str, Any], records: Iterable[RecordedSpec]) -> None:
        """Create a Backfill; the ControllerRevision that it names exists."""
        name, revision = manifest["metadata"]["name"], manifest["spec"]["revision"]
        assert name not in self.bodies
        assert revision in {name for r in records for name in (r.revision, r.label)}
        assert name not in {former["metadata"]["name"] for former in self.made}
        self.bodies[name] = {**manifest, "status": {"phase": "Pending"}}
        self.made.append(manifest)

    def delete(self, name: str) -> None:
        """Begin to delete a Backfill, which takes a moment: its side lane is discarded first."""
        body = self.bodies[name]
        metadata = {**body["metadata"], "deletionTimestamp": "2026-11-21T12:00:00Z"}
        self.bodies[name] = {**body, "metadata": metadata}

    def advance(self, now: datetime, away: set[str], records: Iterable[RecordedSpec]) -> None:
        """Land and compare."""
        images = {r.revision: r.image for r in records}
        for name, body in list(self.bodies.items()):
            if "deletionTimestamp" in body["metadata"]:
                del self.bodies[name]
                continue
            if body["status"]["phase"] not in {"Pending", "Landing"}:
                continue
            if away:
                waits = {"reason": "DependencyUnavailable", "message": "no answer"}
                self.bodies[name] = {**body, "status": {**body["status"], **waits}}
                continue
            image = images.get(body["spec"]["revision"], "good")
            begun = self.begun.setdefault(name, now)
            is_over = now - begun >= LANDING_TIME and not image.startswith("endless")
            landing = {"phase": "Landing", "offsets": ROWS, "percent": 40}
            self.bodies[name] = {**body, "status": self._ended(image) if is_over else landing}

    def observed(self) -> dict[str, TrialBackfill]:
        """What the operator's cache has of them."""
        found = {name: trial_backfill_of(body) for name, body in self.bodies.items()}
        return {name: backfill for name, backfill in found.items() if backfill}

    def _ended(self, image: str) -> dict[str, Any]:
        if self.status is not None:
            return self.status
        if image.startswith("broken"):
            return {"phase": "Failed", "reason": "Error", "message": "exit code 1"}
        differ = 10 if image.startswith("odd") else 0
        bad = 200 if image.startswith("spoiling") else 0
        return compared(differ=differ, bad=bad)


def compared(*, differ: int = 0, bad: int = 0, **more: Any) -> dict[str, Any]:
    """The status of a Backfill that has compared; so many rows differ or became dead letters."""
    sample = ["old  dt=2026-11-21/hr=12/1_0.json:1  {}"] if differ or bad else []
    only = {"onlyOld": differ + bad, "onlyNew": differ}
    comparison = {
        "rows": {"old": ROWS, "new": ROWS - bad, **only},
        "deadLetters": {"old": 0, "new": bad},
        "bytes": {"old": 9, "new": 9},
        "outputPartitions": 1,
        "differing": 1 if differ else 0,
        "sample": sample,
        "recordsPerSecond": 500,
        **more,
    }
    return {"phase": "Compared", "offsets": ROWS, "percent": 100, "comparison": comparison}
