"""Looks up one offset of each of many Kafka partitions, so that a broken one affects no other.

A client asks the broker that it believes to be a partition's leader. If that broker is gone, its
request waits for the timeout, and with it every partition that was asked about in the same call. So
whatever is not answered at once is asked again by leader, after a look at the cluster's metadata: a
partition without a leader is not asked, and a broker that does not respond costs one timeout.
"""

from collections.abc import Collection, Iterator, Sequence
from itertools import islice

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as Position

from landfall.errors import LandfallError, Reason, SourceAway, Stalled
from landfall.ledger.offsets import TopicPartition
from landfall.source import Bound, FoundOffsets
from landfall.source.kafka_errors import ErrorTracker, fetch_metadata, translate_error

BOUND_QUERIES = {Bound.LOG_START: -2, Bound.END: -1, Bound.HIGH_WATERMARK: -1}
"""What ListOffsets calls each bound. The isolation level tells end and high watermark apart."""
CHUNK = 250
"""Kafka partitions in one call. librdkafka's time for a call grows with the square of this."""
SILENT_SECONDS = 2.0
"""The timeout for a broker that did not respond the last time."""


class OffsetLookup:
    """Offsets as one consumer sees them, which has an isolation level. Not thread-safe."""

    def __init__(self, client: Consumer, errors: ErrorTracker, timeout_seconds: float) -> None:
        """``timeout_seconds`` is for each request; ``errors`` is the client's ``error_cb``."""
        self._client, self._errors, self._timeout_seconds = client, errors, timeout_seconds
        self._unavailable: set[TopicPartition] = set()
        self._silent: set[int] = set()

    def find(self, tps: Collection[TopicPartition], query: int) -> FoundOffsets:
        """The offset of each Kafka partition for ``query``: a timestamp in ms, -1 end, -2 start.

        Raises:
            KafkaException: the cluster's metadata cannot be read.
        """
        offsets: dict[TopicPartition, int] = {}
        try:
            steady = [tp for tp in tps if tp not in self._unavailable] if self._unavailable else tps
            for chunk in _chunks(steady):
                self._ask(chunk, query, offsets, self._timeout_seconds)
        except KafkaException:
            pass  # what this left out is asked again, one leader at a time
        rest = [tp for tp in tps if tp not in offsets] if len(offsets) < len(tps) else []
        unavailable = self._ask_leaders(rest, query, offsets) if rest else {}
        self._unavailable.difference_update(offsets)
        self._unavailable.update(unavailable)
        return FoundOffsets(offsets, unavailable)

    def _ask(
        self,
        tps: Sequence[TopicPartition],
        query: int,
        offsets: dict[TopicPartition, int],
        seconds: float,
    ) -> dict[TopicPartition, LandfallError]:
        """Add what is found to ``offsets``; return the errors of the others."""
        errors = {}
        asked = [Position(tp.topic, tp.partition, query) for tp in tps]
        for tp, found in zip(tps, self._client.offsets_for_times(asked, seconds), strict=True):
            if found.partition != tp.partition or found.topic != tp.topic:
                raise AssertionError(f"asked for {tp}, got {found.topic}/{found.partition}")
            if found.error is None:
                offsets[tp] = found.offset
            else:
                errors[tp] = translate_error(found.error, str(tp))
        return errors

    def _ask_leaders(
        self, tps: Sequence[TopicPartition], query: int, offsets: dict[TopicPartition, int]
    ) -> dict[TopicPartition, LandfallError]:
        """Like ``_ask``, with requests that concern one broker each; missing ones are left out."""
        unavailable: dict[TopicPartition, LandfallError] = {}
        silent: set[int] = set()
        for leader, led in self._by_leader(tps).items():
            if leader < 0:
                unavailable |= {
                    tp: SourceAway(f"{tp}: the Kafka partition has no leader") for tp in led
                }
                continue
            seconds = SILENT_SECONDS if leader in self._silent else self._timeout_seconds
            try:
                for chunk in _chunks(led):
                    unavailable |= self._ask(chunk, query, offsets, seconds)
            except KafkaException as error:
                silent.add(leader)
                unavailable |= {
                    tp: translate_error(error, f"{tp}: broker {leader} leads it")
                    for tp in led
                    if tp not in offsets
                }
        self._silent = silent
        return {tp: error for tp, error in unavailable.items() if not is_missing(error)}

    def _by_leader(self, tps: Sequence[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """The Kafka partitions that exist, by the id of their leader; -1 for none."""
        topics = fetch_metadata(self._client, self._errors, self._timeout_seconds).topics
        by_leader: dict[int, list[TopicPartition]] = {}
        for tp in tps:
            topic = topics.get(tp.topic)
            found = topic.partitions.get(tp.partition) if topic else None
            if found is not None:
                by_leader.setdefault(found.leader, []).append(tp)
        return by_leader


def is_missing(error: LandfallError) -> bool:
    """Whether the error says that there is no such topic or Kafka partition."""
    return isinstance(error, Stalled) and error.reason is Reason.TOPIC_MISSING


def _chunks(tps: Collection[TopicPartition]) -> Iterator[list[TopicPartition]]:
    remaining = iter(tps)
    while chunk := list(islice(remaining, CHUNK)):
        yield chunk
