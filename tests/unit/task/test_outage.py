"""A task that meets an outage gives up, so that its batch can soon be tried again."""

from collections.abc import Iterator
from threading import Event

from landfall.errors import NotTried, SourceAway, StoreAway
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import FailedSlice, LandedSlice
from landfall.objects import Part
from landfall.pipeline.records import Records
from landfall.store.memory import MemoryStore
from landfall.task import Batch
from landfall.task.landing import land
from tests.support.driver.slice_landing import FakeReader, click, group, is_empty

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


class StoreThatFailsOnce(MemoryStore):
    """Does not take the first part."""

    def __init__(self) -> None:
        super().__init__(least_part_bytes=5 * 2**20)
        self.has_failed = Event()

    def put_part(self, key: str, upload_id: str, number: int, body: bytes) -> Part:
        if not self.has_failed.is_set():
            self.has_failed.set()
            raise StoreAway("503")
        return super().put_part(key, upload_id, number, body)


class SlowReader(FakeReader):
    """Goes on with a large slice once the store has failed: its next part cannot be sent."""

    store: StoreThatFailsOnce

    def read(self, slice_: Slice) -> Iterator[Records]:
        for chunk in super().read(slice_):
            yield chunk
            if slice_.topic_partition == TPS[0]:
                assert self.store.has_failed.wait(30)


def test_a_part_that_fails_while_a_slice_is_read_is_no_outage_of_the_source() -> None:
    large = b'{"ts":1763683200000,"x":"%s"}' % (b"x" * 6 * 2**20)
    reader = SlowReader({**LOG, TPS[0]: [(100, large), (101, large), (102, large)]}, rows=1)
    reader.store = StoreThatFailsOnce()
    output = {"url": "s3://b", "format": "Json", "codec": "None", "s3": {"partBytes": "5Mi"}}
    spec = group(output=output)

    first, *others = land(Batch(spec, "token"), SLICES, reader, reader.store)

    assert isinstance(first, FailedSlice)
    assert isinstance(first.error, StoreAway)
    assert all(isinstance(other, LandedSlice) for other in others)
