"""A ledger whose old slots are gone, on a real S3 server: every command says the same as before."""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from landfall.api.contract import LANE, ExitCode
from landfall.cli import main
from landfall.ledger import State
from landfall.ledger.names import object_names
from tests.support.audit.independent_audit import EXACT, events
from tests.support.landing.group import Scene, land, landing
from tests.support.waiting import wait_for

pytestmark = pytest.mark.xdist_group("drivers")

ROUND, SHORT_LIVES = 40, 4
SPEC: dict[str, Any] = {"tuning": {"segmentEvery": 6, "snapshotEvery": 4}}


@dataclass
class Group:
    """A topic and its group, whose drivers follow each other."""

    scene: Scene
    topic: str
    rounds: int = 0

    @property
    def end(self) -> int:
        """The end of what is written and landed."""
        return self.rounds * ROUND

    def land(self) -> State:
        """Write a round of records, and let a new driver land them."""
        self.scene.kafka.produce(self.topic, events(range(self.end, self.end + ROUND), 0))
        self.rounds += 1
        assert land(self.scene.group(**SPEC), None).code is ExitCode.OK
        return self.scene.state()

    def roll(self) -> State:
        """Let some drivers land, and one more live until it has rolled up what they left."""
        segments = len(self.scene.state().segments)
        for _ in range(SHORT_LIVES):
            self.land()
        with landing(self.scene.group(**SPEC), None):
            wait_for(lambda: len(self.scene.state().segments) > segments, "a segment is recorded")
            wait_for(self.has_deleted, "the slots are deleted")
        return self.scene.state()

    def has_deleted(self) -> bool:
        """Whether of the epochs in segments only the first slots and the seals are left."""
        rolled = self.scene.state().segments[-1].epoch
        counts = Counter(epoch for epoch, _ in places(self.scene) if epoch <= rolled)
        return max(counts.values()) <= 2


def places(scene: Scene) -> list[tuple[int, int]]:
    """Epoch and index of the slots that are still there."""
    prefix = object_names.ledger_prefix("scene", LANE)
    return [object_names.parse_slot_key("scene", LANE, key) for key in scene.bucket.keys(prefix)]


def urls(scene: Scene) -> list[str]:
    """The URLs of all objects."""
    return [f"{scene.bucket.url}/{key}" for key in scene.bucket.keys("")]


def located(file: Path, topic: str, offset: int, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The objects that ``landfall locate`` names."""
    code = main(["locate", str(file), topic, "0", str(offset), "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert code == ExitCode.OK, answer
    assert answer["fate"] in {"landed", "possibly-landed"}, answer
    return [found["url"] for found in answer["objects"]]


@pytest.mark.timeout(400)
def test_after_many_epochs_every_command_and_a_restart_agree(
    scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, file = scene.topic(), scene.file(tmp_path, **SPEC)
    group = Group(scene, topic)
    assert not group.land().segments
    before = {n: located(file, topic, n, capsys) for n in (0, 7, ROUND - 1)}

    states = [group.roll() for _ in range(3)]

    state = states[-1]
    assert len(state.segments) >= len(states)
    assert len(places(scene)) < state.seq
    assert [seq for seq, _ in scene.lane().bodies()] == list(range(state.seq + 1))
    assert {n: located(file, topic, n, capsys) for n in before} == before
    assert {*located(file, topic, group.end - 1, capsys)} <= {*urls(scene)}
    for command in ("fsck", "verify", "audit"):
        assert main([command, str(file)]) == ExitCode.OK, capsys.readouterr().out
    assert scene.faults(**SPEC) == []

    after = group.land()

    assert after.epoch > state.epoch
    assert [*after.checkpoint.next_offsets.values()] == [group.end]
    assert scene.faults(**SPEC) == []
    assert scene.audit() == EXACT
