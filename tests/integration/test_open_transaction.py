"""A producer that leaves a transaction open, on a real broker: what status and metrics say."""

from landfall.cli.group_store import GroupStore
from landfall.cli.look.status import read_progress
from landfall.source.kafka import KafkaLog
from tests.support.kafka.broker import SECONDS
from tests.support.landing.group import Landing, Scene

EVENT = b'{"ts": 1763683200000}'


def test_an_open_transaction_is_shown_until_it_ends(scene: Scene) -> None:
    topic = scene.topic()
    scene.kafka.produce(topic, [EVENT] * 10)
    producer = scene.kafka.transaction()
    scene.kafka.send(producer, topic, [EVENT] * 3)
    scene.kafka.flush(producer)
    scene.kafka.produce(topic, [EVENT] * 2)  # no transaction, and behind one all the same
    landing = Landing(scene.group(), None, until_caught_up=False).start()

    stuck = landing.wait_until(
        lambda s: s.partitions and s.partitions[0].checkpoint == 10, "what may be read is landed"
    )

    (partition,) = stuck.partitions
    assert (partition.lag_records, partition.held_back_records) == (0, 5)
    later = landing.wait_until(lambda s: s.partitions[0].held_back_seconds > 1, "it gets older")
    assert later.partitions[0].end_offset == 10
    progress = read_progress(GroupStore(scene.group(), scene.store()), KafkaLog(scene.group()))
    assert [(p.lag_records, p.held_back_records) for p in progress.partitions] == [(0, 5)]

    producer.abort_transaction(SECONDS)

    landing.wait_until(
        lambda s: s.partitions[0].checkpoint == 16 and not s.partitions[0].held_back_records,
        "what it held back is landed",
    )
    landing.stop()
    assert scene.faults() == []
