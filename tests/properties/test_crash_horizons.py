"""Horizons without one of their rules: the crash machine notices what becomes visible too late."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from landfall.driver.decide import completeness as deciding
from landfall.ledger import Record, State, folding
from landfall.ledger import completeness as folded
from tests.crashes.playing import play_schedules
from tests.crashes.process import Wrong

Patch = pytest.MonkeyPatch
SCHEDULES = 400


def _counts_before_all_is_visible(patch: Patch) -> None:
    """A horizon counts from its own slot on, though COMMITs before it are not applied yet."""

    def settled(state: State, _: Record) -> State:
        until = {each.topic: each.until for each in state.pending_horizons}
        return replace(state, horizons={**state.horizons, **until}, pending_horizons=())

    for module in (folding, folded):
        patch.setattr(module, "settled", settled, raising=False)


def _waits_for_one_topic_partition_only(patch: Patch) -> None:
    """The topic partition that is furthest ahead decides, and nobody checks that."""

    def first(*values: Any, key: Callable[[Any], Any] | None = None) -> Any:
        return max(*values, key=key) if key else min(*values)

    patch.setattr(deciding, "min", first, raising=False)
    patch.setattr(folded, "_check_members", lambda *_: None)


@pytest.mark.rest
@pytest.mark.parametrize(
    "without", [_counts_before_all_is_visible, _waits_for_one_topic_partition_only]
)
def test_each_rule_of_horizons_is_needed(
    without: Callable[[Patch], None], monkeypatch: Patch
) -> None:
    without(monkeypatch)

    with pytest.raises(Wrong, match="was complete until"):
        play_schedules(SCHEDULES)
