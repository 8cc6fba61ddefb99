"""The output partitions of records, by the writer and by the auditor."""

from collections.abc import Sequence

from landfall.api.spec import GroupSpec
from landfall.ledger.offsets import TopicPartition
from landfall.task.partitioning import Partitioner
from landfall_audit.payloads import SourceRecord, expected
from landfall_audit.route_evaluator import RouteEvaluator
from tests.support.audit.audited_spec import for_auditor
from tests.support.audit.auditor_fakes import Message, of_messages

CLICKS = TopicPartition("clicks", 3)


def routed_by_auditor(group: GroupSpec, message: Message) -> str | None:
    """The output partition that the auditor computes."""
    spec = for_auditor(group)
    opened = expected.opened(spec, None)  # type: ignore[arg-type]  # no group here has a registry
    record = SourceRecord(message.payload, message.record_key, message.header_pairs, None)
    source = CLICKS.topic, CLICKS.partition
    return RouteEvaluator.of(spec, opened).output_partition(source, record, message.timestamp_ms)


def assert_routed_alike(group: GroupSpec, messages: Sequence[Message]) -> int:
    """Compare the output partitions of rows that are landed; returns how many there are."""
    written: dict[int, str] = {}
    for partition, landed in Partitioner.of(group).partition(of_messages(CLICKS, messages)).outputs:
        written |= dict.fromkeys(landed["offset"].to_pylist(), partition)
    computed = {
        message.position: routed_by_auditor(group, message)
        for message in messages
        if message.position in written
    }
    assert computed == written
    return len(written)
