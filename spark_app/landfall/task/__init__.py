"""The code of a Spark task: reads, decodes, routes, encodes and uploads, but completes nothing.

``landing.land`` does all of it. Its result is all that remains of a task: no object is visible
until the driver has committed the batch and completed the uploads. See
``landfall.ledger.task_results``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from landfall.api.spec import ConsumerGroup
from landfall.ledger import PartList
from landfall.ledger.offsets import Slice, TopicPartition
from landfall.ledger.task_results import CURRENT_RULES, LandingRules
from landfall.source import LastRead


@dataclass(frozen=True, slots=True)
class SliceLimits:
    """The amount of a slice that a task takes before it ends it early.

    Attributes:
        input_bytes: payload bytes; the slice ends with the chunk that reaches them.
        objects: objects it writes.
    """

    input_bytes: int
    objects: int


@dataclass(frozen=True, slots=True)
class FromBackup:
    """Where records are read from that Kafka has lost.

    Attributes:
        group: the name of the group that has landed them.
        topic_id: of the topic; what that group has landed of another one is not read.
    """

    group: str
    topic_id: str


@dataclass(frozen=True, slots=True)
class Batch:
    """The input of every task of one batch; it is pickled and sent to the executors.

    Attributes:
        group: the resource; its generation is part of the names of objects.
        token: the batch's unique id, written into the metadata of every object, so that an upload
            can be attributed to the batch that began it.
        limits: of each slice; None to read it to its end, as is necessary when what was committed
            is made again.
        permitted: below which offset a bad record is a dead letter under every policy.
        last_read: of topic partitions that were read before, the last record, by which the reader
            recognizes a truncated log.
        dead_letters: slices to land from dead-letter objects, instead of from the log, and the
            keys of those objects; empty in every batch but a replay.
        lists: of feeds, the lists with the parts of all slices.
        from_backup: slices to read from what another group has landed, instead of from the log.
        letters_place: the place of dead letters, see ``object_names.letters_place``; None for the
            present one. What was committed is made again where it was.
        rules: by which slices are cut into chunks and objects; the former ones where what was
            committed is made again.
    """

    group: ConsumerGroup
    token: str
    limits: SliceLimits | None = None
    permitted: Mapping[TopicPartition, int] = field(default_factory=dict)
    last_read: tuple[tuple[TopicPartition, LastRead], ...] = ()
    dead_letters: tuple[tuple[Slice, str], ...] = ()
    lists: tuple[tuple[TopicPartition, PartList], ...] = ()
    from_backup: tuple[tuple[Slice, FromBackup], ...] = ()
    letters_place: str | None = None
    rules: LandingRules = CURRENT_RULES

    @property
    def new_letters_place(self) -> str:
        """The place of the dead letters that this batch makes; empty for the output root."""
        if self.letters_place is not None:
            return self.letters_place
        present = self.group.spec.bad_records.present_place
        return present.id if present else ""
