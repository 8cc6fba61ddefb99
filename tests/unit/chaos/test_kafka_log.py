"""Which records Kafka committed, by the markers in its log."""

from tests.chaos.kafka_log import EndedBatch, Markers, decide, ended_batches


def batch(first: int, last: int, producer: int, epoch: int, *, control: bool = False) -> str:
    return (
        f"baseOffset: {first} lastOffset: {last} count: {last - first + 1} baseSequence: 0 "
        f"lastSequence: 1 producerId: {producer} producerEpoch: {epoch} partitionLeaderEpoch: 0 "
        f"isTransactional: {'true' if producer >= 0 else 'false'} "
        f"isControl: {str(control).lower()} deleteHorizonMs: OptionalLong.empty position: 0"
    )


def marker(offset: int, producer: int, epoch: int, end: str) -> list[str]:
    return [
        batch(offset, offset, producer, epoch, control=True),
        f"| offset: {offset} CreateTime: 1 keySize: 4 endTxnMarker: {end} coordinatorEpoch: 0",
    ]


HANGING = [
    batch(2960, 2968, 2, 9),
    *marker(2969, 2, 9, "ABORT"),
    batch(2970, 2979, 2, 9),  # arrived after the marker that was to end it
    batch(2980, 2996, -1, -1),
    batch(2997, 3058, 2, 10),
    *marker(3059, 2, 10, "COMMIT"),
    batch(3060, 3070, 2, 10),
]
"""The log of the 16 records in docs/evidence/chaos.md."""
TAKEN_IN = EndedBatch(2970, 2979, 2, 9, 3059, 10, committed=True)


def test_the_next_marker_of_a_producer_ends_what_is_open() -> None:
    assert list(ended_batches(HANGING)) == [
        EndedBatch(2960, 2968, 2, 9, 2969, 9, committed=False),
        TAKEN_IN,
        EndedBatch(2997, 3058, 2, 10, 3059, 10, committed=True),
    ]


def test_what_the_next_marker_took_in_is_committed_by_kafka() -> None:
    found = {500: (0, 2970), 501: (0, 2979)}

    assert decide([(500, 502)], found, {0: [*ended_batches(HANGING)]}) == Markers(
        2, (f"partition 0: {TAKEN_IN}",), 0
    )


def test_what_kafka_aborted_or_does_not_show_is_not_explained() -> None:
    found = {500: (0, 2960), 502: (0, 3065)}

    assert decide([(500, 503)], found, {0: [*ended_batches(HANGING)]}) == Markers(0, (), 3)
