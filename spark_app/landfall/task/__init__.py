"""What runs in a Spark task: reads, decodes, routes, encodes and uploads, but completes nothing.

``landing.land`` does all of it. Its result is all that remains of a task: no object is visible
until the driver has committed the batch and completed the uploads. See
``landfall.ledger.task_results``.
"""

from dataclasses import dataclass

from landfall.api.spec import ConsumerGroup


@dataclass(frozen=True, slots=True)
class Batch:
    """What every task of one batch needs to know; it is pickled and sent to the executors.

    Attributes:
        group: the resource; its generation is part of the names of objects.
        token: the batch's unique id, written into the metadata of every object, so that an upload
            can be attributed to the batch that began it.
    """

    group: ConsumerGroup
    token: str
