"""Commits whose uploads the store has lost, and the records that follow them."""

from landfall import ledger
from landfall.api.contract import LANE
from landfall.driver.core.stored_specs import store_spec
from landfall.lane import Lane
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import LandedSlice
from landfall.store.memory import MemoryStore
from landfall.task import Batch
from tests.support.driver.fakes import FakeLog, FakeRunner, driver, group


def commit_and_lose(log: FakeLog, *ends: tuple[str, int], **spec: object) -> MemoryStore:
    """Commit each range in a COMMIT of its own; afterwards all their uploads are lost."""
    store, committed = MemoryStore(), []
    of = group(**spec)
    one = driver(of, store, log, FakeRunner(store), spec=store_spec(store, of, LANE))
    for topic, end in ends:
        log.write(topic, end)
    one._membership.look(one.writer.state, one.deps.clock(), (), (), at_rest=True)
    for topic, _ in ends:
        tp = TopicPartition(topic, 0)
        piece = Slice(tp, OffsetRange(0, log.partitions[topic][0].end))
        batch = Batch(one.group, f"t-{topic}")
        (landed,) = one.deps.runner.run(batch, [(piece,)])
        assert isinstance(landed, LandedSlice)
        one._committer.append(
            lambda header, landed=landed, batch=batch: ledger.Commit(
                header=header, token=batch.token, slices=(landed,)
            )
        )
        committed.append(landed)
    for landed in committed:
        for o in landed.objects:
            store.abort(o.upload.key, o.upload.upload_id)
    return store


def records_of(store: MemoryStore) -> list[ledger.Record]:
    """The records of the fakes' lane."""
    return [ledger.decode(seq, body) for seq, body in Lane(store, "fake", LANE).bodies()]


def tags(store: MemoryStore) -> list[str]:
    """The types of these records."""
    return [type(record).__name__ for record in records_of(store)]
