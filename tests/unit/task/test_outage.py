"""A task that meets an outage gives up, so that its batch can soon be tried again."""

from collections.abc import Iterator

from landfall.errors import NotTried, SourceAway, StoreAway
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import FailedSlice, LandedSlice
from landfall.objects import Part
from landfall.pipeline.records import Records
from landfall.store.memory import MemoryStore
from landfall.task import Batch
from landfall.task.landing import land
from tests.support.slice_landing import FakeReader, click, group, is_empty

TPS = [TopicPartition("clicks", n) for n in range(6)]
SLICES = [Slice(tp, OffsetRange(100, 200)) for tp in TPS]
LOG = {tp: [click(105)] for tp in TPS}


class ReaderThatIsAway(FakeReader):
    """Times out from the second slice on."""

    asked: list[TopicPartition]

    def read(self, slice_: Slice) -> Iterator[Records]:
        self.asked.append(slice_.topic_partition)
        if len(self.asked) > 1:
            raise SourceAway("no progress for 60 s")
        yield from super().read(slice_)


class StoreThatIsAway(MemoryStore):
    """Takes no parts."""

    puts = 0

    def put_part(self, key: str, upload_id: str, number: int, body: bytes) -> Part:  # noqa: ARG002  # of the protocol
        self.puts += 1
        raise StoreAway("503")


def test_after_a_slice_whose_read_timed_out_no_other_is_tried() -> None:
    reader, store = ReaderThatIsAway(LOG), MemoryStore()
    reader.asked = []

    first, second, *others = land(Batch(group(), "token"), SLICES, reader, store)

    assert isinstance(first, LandedSlice)
    assert isinstance(second, FailedSlice)
    assert isinstance(second.error, SourceAway)
    assert [type(o.error) for o in others if isinstance(o, FailedSlice)] == [NotTried] * 4
    assert reader.asked == TPS[:2]
    assert str(others[0].error) == (  # type: ignore[union-attr]  # asserted above
        "clicks/2[100, 200): not tried, its task has met an outage: no progress for 60 s"
    )


def test_after_parts_that_the_store_did_not_take_no_more_are_sent() -> None:
    store = StoreThatIsAway()

    results = land(Batch(group(), "token"), SLICES, FakeReader(LOG), store)

    errors = [r.error for r in results if isinstance(r, FailedSlice)]
    assert len(errors) == 6
    assert {type(error) for error in errors} == {StoreAway, NotTried}
    assert 2 <= store.puts <= 5  # four threads may have begun one each
    assert not is_empty(store)  # no aborts either: housekeeping makes them when the store is back
