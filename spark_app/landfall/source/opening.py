"""Opens the log that a group lands."""

from landfall.api.spec import ConsumerGroup
from landfall.ledger import State
from landfall.source.files_log import FilesLog
from landfall.source.kafka import KafkaLog


def open_log(group: ConsumerGroup, state: State | None = None) -> KafkaLog | FilesLog:
    """The log of a group, as a ``source.Log``. Connects at the first call.

    Args:
        group: the resource.
        state: of the lane, which says where feeds end; without it they have nothing yet.

    Raises:
        Stalled: SPEC_INVALID, librdkafka does not accept the properties.
    """
    if group.spec.source.kafka:
        return KafkaLog(group)
    log = FilesLog(group)
    if state is not None:
        log.take_in(state)
    return log
