"""Where a ledger begins."""

from landfall import ledger
from landfall.lane import Lane
from landfall.ledger import State
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.task_results import ObjectKind
from landfall_migrate.new_objects import Beginning, Start, beginning
from tests.support.ledger.sample_ledger import GROUP, LANE, SampleLedger

TP, OTHER = TopicPartition("clicks", 0), TopicPartition("clicks", 1)


def begun(sample: SampleLedger) -> Beginning:
    bodies = Lane(sample.store, GROUP, LANE).bodies(State())
    return beginning(ledger.decode(seq, body) for seq, body in bodies)


def test_without_a_ledger_nothing_has_begun() -> None:
    assert begun(SampleLedger()) == Beginning(None, {})


def test_the_first_driver_and_the_first_commit_of_each_topic_partition_count() -> None:
    sample = SampleLedger().open(generation=2).add(TP, start=10).add(OTHER, start=7)
    first = sample.land(TP, 10, 20)
    sample.commit(first).commit(sample.land(TP, 20, 30))
    sample.open(generation=3)

    found = begun(sample)

    assert found == Beginning(2, {TP: Start(10, first.objects), OTHER: Start(7)})
    assert found.starts[TP].first == first.objects[0]
    assert found.starts[OTHER].first is None


def test_dead_letters_are_no_first_objects() -> None:
    sample = SampleLedger().open().add(TP, start=10)
    letters = sample.upload(
        "_landfall/shop/dead-letters/clicks/1_0_00000000000000000010.parquet",
        [10],
        ObjectKind.DEAD_LETTERS,
    )
    sample.commit(sample.land(TP, 10, 11, objects=(letters,), landed=0, dead_lettered=1))
    landed = sample.land(TP, 11, 20)
    sample.commit(landed)

    assert begun(sample).starts == {TP: Start(10, landed.objects)}


def test_a_later_life_counts_only_if_the_first_one_landed_nothing() -> None:
    sample = SampleLedger().open().add(TP, OTHER, start=10)
    first = sample.land(TP, 10, 20)
    sample.commit(first)
    sample.append(lambda h: ledger.Drop(header=h, topic_partitions=(TP, OTHER), reason="test"))
    sample.open(generation=2).add(TP, OTHER, start=0)
    second = sample.land(OTHER, 0, 5)
    sample.commit(second)

    found = begun(sample).starts

    assert found == {TP: Start(10, first.objects), OTHER: Start(0, second.objects)}
