"""A Backfill on a real node: landed, compared, promoted, undone, and discarded."""

import json
from dataclasses import dataclass
from typing import Any

import pytest

from landfall.api.contract import ExitCode
from tests.support.audit.independent_audit import data_keys
from tests.support.kubernetes.live_group import NAME, PARTITIONS, SOUND, LiveGroup
from tests.support.landing.group import land

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(1200, func_only=True),
    pytest.mark.xdist_group("node"),
]

ROWS = 500 * PARTITIONS
WRONG: dict[str, Any] = {"route": {"pattern": "dt={date}", "timezone": "America/New_York"}}
"""Every event happened soon after midnight in UTC, so this takes the day before for its date."""


@dataclass(frozen=True)
class LiveBackfill:
    """A Backfill of the group."""

    group: LiveGroup
    name: str

    def apply(self, **spec: Any) -> None:
        """Create it."""
        manifest = {
            "apiVersion": "landfall.dev/v1alpha1",
            "kind": "Backfill",
            "metadata": {"name": self.name, "namespace": self.group.namespace},
            "spec": {"group": NAME, **spec},
        }
        self.group.cluster.kubectl("apply", "-f", "-", manifest=manifest)

    def status(self) -> dict[str, Any]:
        """Its status; empty before the operator has written one."""
        found = json.loads(self.group.kubectl("get", "cgb", self.name, "-o", "json"))
        status: dict[str, Any] = found.get("status", {})
        return status

    def wait_for(self, phase: str) -> dict[str, Any]:
        """Wait for a phase; returns the status."""
        self.group.wait(
            lambda: self.status().get("phase") in {phase, "Failed"}, f"{self.name} is {phase}"
        )
        status = self.status()
        assert status["phase"] == phase, (status, self.group.diagnostics())
        return status


def dates_of(keys: set[str]) -> set[str]:
    return {key.split("/")[1] for key in keys}


def dates(group: LiveGroup) -> set[str]:
    """The dates under which rows are live."""
    return dates_of({*data_keys(group.scene.bucket)})


def test_a_backfill_is_promoted_and_undone(group: LiveGroup, topic: str) -> None:
    # Landed from outside, since only then a driver in the cluster need not start for it.
    assert land(group.scene.group(**WRONG), None).code is ExitCode.OK
    wrong = {*data_keys(group.scene.bucket)}
    group.apply(generation=2)
    group.wait(lambda: group.ledger().generation == 2, "generation 2 opens the ledger")
    backfill = LiveBackfill(group, "fix-zone")

    backfill.apply(generations=1, maxCores=1)

    status = backfill.wait_for("Compared")
    rows, sample = status["comparison"]["rows"], status["comparison"]["sample"]
    assert rows == {"old": ROWS, "new": ROWS, "onlyOld": ROWS, "onlyNew": ROWS}
    assert f"{topic}/dt=2025-12-31/1_" in "".join(sample)
    assert (status["progress"], status["offsets"]) == ("100%", ROWS)
    assert {*data_keys(group.scene.bucket)} == wrong  # what is live is as it was
    print(group.kubectl("get", "cgb"))  # what a user sees, with -s

    group.kubectl(
        "patch", "cgb", backfill.name, "--type=merge", "-p", '{"spec":{"promote":"Automatic"}}'
    )

    promoted = backfill.wait_for("Promoted")
    group.wait(lambda: wrong.isdisjoint(data_keys(group.scene.bucket)), "the old objects are gone")
    assert group.final_audit() == SOUND
    print(group.kubectl("get", "cgb", "-o", "wide"))

    print(group.landfall("undo", str(promoted["ledgerSlot"]), "--why", "to try it"))
    group.wait(lambda: dates(group) == dates_of(wrong), "the old objects are back, and alone")

    side = f"_landfall/{NAME}/side/{status['sideLane']}/{topic}/"
    assert group.scene.bucket.keys(side)
    group.kubectl("delete", "cgb", backfill.name, "--timeout=240s")
    assert group.scene.bucket.keys(side) == []
