"""What the slots of a lane say, for the judges of a schedule, who follow it several times."""

from collections.abc import Iterator
from dataclasses import dataclass

from landfall.lane import Lane
from landfall.ledger import Record, State, Visible, decode, encode, fold_applied


@dataclass(frozen=True)
class Slot:
    """A slot: its bytes, its record, and the lane before and after it.

    Attributes:
        visible: what it is the first to call visible.
    """

    seq: int
    body: bytes
    record: Record
    before: State
    after: State
    visible: Visible


class FoldedSlots:
    """Slots as they were read last."""

    def __init__(self) -> None:
        self._known: list[Slot] = []

    def read(self, lane: Lane) -> Iterator[Slot]:
        """All slots, read anew, but folded again only from where their bytes differ."""
        known = self._known
        for number, (seq, body) in enumerate(lane.bodies()):
            if number == len(known) or (known[number].seq, known[number].body) != (seq, body):
                slot = _folded(seq, body, known[number - 1].after if number else State())
                known[number:] = [slot]
            yield known[number]


def _folded(seq: int, body: bytes, before: State) -> Slot:
    record = decode(seq, body)
    assert encode(record) == body
    return Slot(seq, body, record, before, *fold_applied(before, body))
