"""What must hold of the hours that a ledger calls complete: nothing of them becomes visible later.

In a schedule event times follow the offsets, and no topic partition is idle for longer than the
delay. So nothing is late but what is landed again: by a REPLAY, or as a topic partition that enters
after the horizon was decided.
"""

from collections.abc import Iterable, Iterator

from landfall.ledger import Add, Commit, Finalize
from landfall.ledger.decisions import topic_partition
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.task_results import LandedObject
from tests.crashes.folded import Slot
from tests.crashes.world import Rows, event_ms


def late(slots: Iterable[Slot], rows: Rows) -> Iterator[str]:
    """Objects of complete hours that become visible after these were called complete."""
    decided, added = dict[str, int](), dict[TopicPartition, int]()
    finalized: dict[tuple[str, int], int] = {}
    for slot in slots:
        seq = slot.seq
        match slot.record:
            case Add(entries=entries):
                added |= {entry.topic_partition: seq for entry in entries}
            case Commit(slices=slices):
                decided |= {o.upload.key: seq for s in slices for o in s.objects}
            case Finalize(entries=horizons):
                finalized |= {(entry.topic, entry.until): seq for entry in horizons}
            case _:
                pass
        for landed in slot.visible.objects:
            tp = topic_partition(landed.upload.key)
            until = slot.before.horizons.get(tp.topic, -1)
            if landed.upload.key in decided and added[tp] < finalized.get((tp.topic, until), -1):
                first = _first_event_ms(rows, landed)
                if first < until:
                    yield (
                        f"{landed.upload.key} has records of {first}, and is visible in slot "
                        f"{seq}, but {tp.topic} was complete until {until}"
                    )


def _first_event_ms(rows: Rows, landed: LandedObject) -> int:
    _, offsets = rows.of[landed.upload.key, landed.upload.token]
    return min(map(event_ms, offsets), default=2**62)
