"""Dead letters as rows: of all topics, as a group has them at the last slot of its ledger."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from landfall.formats.columns import ENVELOPE
from landfall.lane import Lane
from landfall.lane.expired_letters import read_expired
from landfall.ledger import State, decode
from landfall.ledger.effects import LettersReplayed, effects
from landfall.ledger.names import object_names
from landfall.ledger.task_results import ObjectKind
from landfall.publish import VisibleObject
from landfall.publish.following import Follower
from landfall.reading.files import File

TABLE = "dead_letters"
"""The name of their table in queries."""
COLUMNS = pa.schema(
    [
        *(column.with_nullable(True) for column in ENVELOPE),  # noqa: FBT003  # Arrow's signature
        pa.field("stage", pa.string()),
        pa.field("error", pa.string()),
        pa.field("replayed", pa.bool_()),
    ]
)
"""The columns of dead letters, and whether they were landed again."""


@dataclass(frozen=True, slots=True)
class LettersFile(File):
    """A dead-letter object.

    Attributes:
        topic: of its records.
        is_replayed: whether a REPLAY has landed its records again.
    """

    topic: str = ""
    is_replayed: bool = False

    @property
    def partition_values(self) -> dict[str, str | None]:
        """The values that columns have in all of its rows."""
        return {"topic": self.topic, "replayed": str(self.is_replayed).lower()}


class LettersFollower:
    """Follows the dead letters of a lane; to continue costs one listing, as of a ``Follower``."""

    def __init__(self, lane: Lane) -> None:
        """Read nothing yet."""
        self._lane = lane
        self._follower = Follower(lane, kind=ObjectKind.DEAD_LETTERS)
        self._through = -1
        self._found: dict[str, VisibleObject] = {}

    def files(self) -> tuple[int, list[LettersFile]]:
        """The ledger's last slot, and the dead letters that are there at it.

        Dead letters are there until a LOST gives them up, a promoted backfill replaces them, or
        they expire.

        Raises:
            Stalled: LEDGER_BROKEN, a slot is missing or violates a rule.
            Retry: the store does not answer.
        """
        for stretch in self._follower.stretches(self._through):
            self._found |= {visible.key: visible for visible in stretch.objects}
            for replacement in stretch.replaced:
                for retired in replacement.retired:
                    self._found.pop(retired.key, None)
                self._found |= {visible.key: visible for visible in replacement.objects}
            self._through = stretch.through
        expired = read_expired(self._lane.slots, self._lane.group, self._lane.name).through
        self._found = {
            key: visible for key, visible in self._found.items() if visible.decided > expired
        }
        state = self._follower.state
        # A state forgets them with the topic partitions that leave.
        replayed = {*_replayed(self._lane)} if state.totals.replayed else set[str]()
        return self._through, [
            LettersFile(
                key=key,
                slot=visible.slot,
                rows=visible.landed.rows,
                size=visible.landed.upload.size,
                topic=object_names.origin(self._lane.group, key).topic,
                is_replayed=key in replayed,
            )
            for key, visible in self._found.items()
        ]


def _replayed(lane: Lane) -> Iterator[str]:
    """The keys of all dead letters that a REPLAY has read."""
    for seq, body in lane.bodies(State()):
        for effect in effects(decode(seq, body)):
            if isinstance(effect, LettersReplayed):
                yield effect.landed.dead_letters
