"""Lands records into memory by the stages that land them, and gives the objects that they make.

Nothing is written anywhere: no object, no schema next to the ledger, no offset of a Kafka group.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from landfall.ledger.offsets import Slice
from landfall.ledger.task_results import FailedSlice, LandedSlice, ObjectKind
from landfall.pipeline.records import Records
from landfall.reading.files import File
from landfall.reading.objects import Bytes
from landfall.store.memory import MemoryStore
from landfall.task import Batch
from landfall.task.landing import LandingDeps, land_with
from landfall.task.partitioning import Partitioners

_NOWHERE = MemoryStore()


def land_in_memory(
    partitioners: Partitioners, batch: Batch, slice_: Slice, chunks: Sequence[Records], slot: int
) -> tuple[LandedSlice, list[Bytes]]:
    """Return the result of a task, and the objects of data that it makes.

    Args:
        partitioners: of the topics.
        batch: the input of the task.
        slice_: the range.
        chunks: its records, in order.
        slot: of the ledger, which objects name.

    Raises:
        Stalled: BAD_RECORDS, the spec's policy is ``Fail`` and there is a bad record.
        Retry: a schema registry does not answer.
    """
    store = MemoryStore()
    deps = LandingDeps(partitioners, store)
    (result,) = land_with(deps, batch, [slice_], _ReadChunks(chunks))
    if isinstance(result, FailedSlice):
        raise result.error
    return result, list(_bodies(result, store, slot))


@dataclass(frozen=True, slots=True)
class _ReadChunks:
    """Records that were read, as a ``Reader`` of their slice."""

    chunks: Sequence[Records]

    def read(self, slice_: Slice) -> Iterator[Records]:
        del slice_  # there is one
        return iter(self.chunks)


def _bodies(landed: LandedSlice, store: MemoryStore, slot: int) -> Iterator[Bytes]:
    for object_ in landed.objects:
        if object_.kind is not ObjectKind.DATA:
            continue
        store.complete(object_.upload, is_fresh=True)
        body = store.read(object_.upload.key) or b""
        file = File(key=object_.upload.key, slot=slot, rows=object_.rows, size=len(body))
        yield Bytes(_NOWHERE, file, body)
