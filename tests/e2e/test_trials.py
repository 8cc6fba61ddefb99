"""Revisions that are tried before they land, on a real node: one by Shadow, one by Canary."""

import json
from typing import Any

import pytest

from tests.support.audit.independent_audit import data_keys, events
from tests.support.kubernetes.live_group import NAME, PARTITIONS, SOUND, LiveGroup

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(1200, func_only=True),
    pytest.mark.xdist_group("node"),
]

OF_PARTITION = 500
ROWS = OF_PARTITION * PARTITIONS


def result(group: LiveGroup, strategy: str) -> dict[str, Any]:
    """Wait until a trial by a strategy has ended; returns what the status says of it."""

    def trial() -> dict[str, Any]:
        found: dict[str, Any] = group.status().get("rollout", {}).get("trial", {})
        return found

    def has_ended() -> bool:
        found = trial()
        return found.get("terms", "").startswith(strategy) and found["result"] != "Pending"

    group.wait(has_ended, f"the trial by {strategy} has ended")
    return trial()


def test_a_wrong_decoder_is_refused_by_shadow_and_by_canary(group: LiveGroup, topic: str) -> None:
    """One group for both, since to start it takes longer than to try a revision."""
    group.apply()
    group.wait_until_landed()
    landed = {*data_keys(group.scene.bucket)}

    # It decodes every record, and loses a field of each.
    lossy = [{"use": "Select", "options": {"drop": ["p"]}}]
    group.change(generation=2, transforms=lossy, upgrade={"strategy": "Shadow"})

    shadow = result(group, "Shadow")
    print(json.dumps(shadow, indent=1))  # what a user sees, with -s
    assert (shadow["result"], shadow["reason"]) == ("Refused", "TrialRefused")
    counts = f"{ROWS} of {ROWS} old and {ROWS} of {ROWS} new rows differ"
    assert shadow["message"] == f"{counts}; none may"
    old = [line for line in shadow["comparison"]["sample"] if line.startswith("old")]
    new = [line for line in shadow["comparison"]["sample"] if line.startswith("new")]
    assert all('"p":' in line for line in old)
    assert not any('"p":' in line for line in new)
    assert old
    assert new
    message = group.wait_for_condition("Stalled", "True", "TrialRefused")
    assert "rows differ" in message
    shown = group.kubectl("get", "cgb") + group.kubectl("get", "consumergroups")
    print(shown + group.kubectl("describe", "consumergroup", NAME))
    assert ("Warning", "Watching") in group.events()

    # It takes the time from a field that no record has, and so lands none of them. The policy lets
    # every record be bad, so that nothing but the trial's own limit speaks against it.
    group.change(
        transforms=None,
        decode={"timestamp": {"field": "when"}},
        badRecords={"maxRatio": 1},
        upgrade={"strategy": "Canary"},
    )

    canary = result(group, "Canary")
    print(json.dumps(canary, indent=1))
    assert (canary["result"], canary["reason"]) == ("Refused", "TrialRefused")
    bad = f"100.00% of the records are bad ({OF_PARTITION} of {OF_PARTITION}), 0.00% before"
    assert canary["message"].startswith(f"{bad}; 1% may")

    # Nothing of either is live, and the first generation still lands.
    assert {*data_keys(group.scene.bucket)} == landed
    for partition in range(PARTITIONS):
        group.scene.kafka.produce(topic, events(range(5000, 5100), partition))
    assert group.final_audit() == SOUND
    assert group.ledger().generation == 1
