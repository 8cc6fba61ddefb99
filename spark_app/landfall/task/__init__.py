"""A task's work: read a slice, decode, route, encode, upload parts, and complete nothing.

``sink.task.land`` is the whole of it; what it returns is all that exists of a task. See
``landfall.ledger.task_results``.
"""

from dataclasses import dataclass

from landfall.api.spec import ConsumerGroup


@dataclass(frozen=True, slots=True)
class Batch:
    """What every task of one batch knows; travels to the executors pickled.

    Attributes:
        group: the resource; its generation labels the objects.
        token: of the batch, unique for ever; written into every object's metadata as ``<token>``.
    """

    group: ConsumerGroup
    token: str
