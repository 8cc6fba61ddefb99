"""What runs in a Spark task: reads, decodes, routes, encodes and uploads, but completes nothing.

``landing.land`` does all of it. Its result is all that remains of a task: no object is visible
until the driver has committed the batch and completed the uploads. See
``landfall.ledger.task_results``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from landfall.api.spec import ConsumerGroup
from landfall.ledger.offsets import Slice, TopicPartition
from landfall.source import LastRead


@dataclass(frozen=True, slots=True)
class Batch:
    """What every task of one batch needs to know; it is pickled and sent to the executors.

    Attributes:
        group: the resource; its generation is part of the names of objects.
        token: the batch's unique id, written into the metadata of every object, so that an upload
            can be attributed to the batch that began it.
        slice_bytes: payload bytes after which a task ends a slice early, at the next chunk, and
            returns the shorter range; 0 to read every slice to its end. What was committed before
            is only made again by reading it to its end.
        permitted: below which offset a bad record is a dead letter whatever the policy says.
        last_read: of topic partitions that were read before, the last record, by which the reader
            recognizes a truncated log.
        dead_letters: slices to land from dead-letter objects, instead of from the log, and the
            keys of those objects; empty in every batch but a replay.
    """

    group: ConsumerGroup
    token: str
    slice_bytes: int = 0
    permitted: Mapping[TopicPartition, int] = field(default_factory=dict)
    last_read: tuple[tuple[TopicPartition, LastRead], ...] = ()
    dead_letters: tuple[tuple[Slice, str], ...] = ()
