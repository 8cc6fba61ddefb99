"""The engineer who looks after a group: edits its file, types commands, and checks the outcome."""

import shlex
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from landfall.api.contract import ExitCode, PartitionStatus, Status
from landfall.cli import main
from landfall.ledger import Record, decode
from tests.support.audit.independent_audit import Identity, in_bucket
from tests.support.landing.group import Landing, Scene, land


@dataclass
class OnCall:
    """A group, and the engineer who looks after it.

    Attributes:
        scene: broker, bucket and topics.
        file: the group's file, as the engineer has it.
        spec: of the group.
    """

    scene: Scene
    file: Path
    spec: dict[str, Any]

    def edit(self, **spec: Any) -> None:
        """Change the group's file."""
        self.spec |= spec
        self.file.write_text(yaml.safe_dump(self.scene.document(**self.spec)))

    def land(self) -> Landing:
        """Land all there is, in this process."""
        return land(self.scene.group(**self.spec), None)

    def running(self) -> Landing:
        """A driver that runs until the test stops it."""
        return Landing(self.scene.group(**self.spec), None, until_caught_up=False).start()

    def stalls(self, reason: str) -> PartitionStatus:
        """Land, and return the one topic partition that is stopped."""
        stopped = self.land()
        assert stopped.code is ExitCode.STALLED
        return blocked(stopped.now, reason)

    def follow(self, step: str, *options: str) -> None:
        """Type the command that the status shows."""
        landfall, *words = shlex.split(step)
        assert landfall == "landfall"
        argv = [str(self.file) if word == "GROUP.yaml" else word for word in words]
        assert main([*argv, "--who", "kim", *options]) is ExitCode.OK

    def lands_all(self, topic: str, ids: Iterable[int], audited: ExitCode = ExitCode.OK) -> None:
        """Land the rest; then exactly these events are there, and every check is content."""
        assert self.land().code is ExitCode.OK
        assert landed(self.scene, topic) == Counter((topic, 0, n) for n in ids)
        assert main(["fsck", str(self.file), "--deep"]) is ExitCode.OK
        assert main(["audit", str(self.file)]) is audited

    def records(self, kind: type[Record]) -> list[Any]:
        """The records of a type."""
        records = [decode(seq, body) for seq, body in self.scene.lane().bodies()]
        return [record for record in records if isinstance(record, kind)]

    def decided(self, kind: type[Record]) -> list[Any]:
        """The records of a type, each with the decision that made it."""
        found = self.records(kind)
        for record in found:
            assert record.decision is not None
            assert record.decision.who == "kim"
        return found


def landed(scene: Scene, topic: str) -> Counter[Identity]:
    return Counter({key: n for key, n in in_bucket(scene.bucket).items() if key[0] == topic})


def blocked(status: Status, reason: str) -> PartitionStatus:
    (found,) = (p for p in status.partitions if p.blocked)
    assert found.blocked == reason, found
    assert found.next_step
    return found
