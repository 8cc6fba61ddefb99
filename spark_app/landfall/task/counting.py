"""Reads landed objects back in a task, and compares their rows with the ledger.

A COMMIT records how many rows an object has, as its task has counted them while it wrote them. Here
the format reads the object as it is in the store, row by row, which also finds what is damaged.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from landfall.api.spec import ConsumerGroup, TopicSpecs
from landfall.errors import Reason, Stalled
from landfall.ledger.names import object_names
from landfall.ledger.task_results import LandedObject
from landfall.registry import output_format
from landfall.store import Store


@dataclass(frozen=True)
class ObjectsOfSpec:
    """Visible data objects that were made by one spec; it is pickled and sent to the executors.

    Attributes:
        group: the resource, with that spec.
        objects: as the ledger names them.
    """

    group: ConsumerGroup
    objects: tuple[LandedObject, ...]


@dataclass(frozen=True, slots=True)
class Miscounted:
    """An object whose rows differ from the ledger.

    Attributes:
        topic: its topic.
        problem: what is wrong with it.
    """

    topic: str
    problem: Stalled


def miscounted(store: Store, landed: ObjectsOfSpec) -> Iterator[Miscounted]:
    """The objects that do not hold their rows.

    Raises:
        Retry: the store does not answer.
    """
    specs = TopicSpecs.of(landed.group.spec)
    for object_ in landed.objects:
        topic = object_names.parse_key(object_.upload.key).topic
        problem = _problem(store, specs, topic, object_)
        if problem:
            yield Miscounted(topic, problem)


def in_shares(landed: ObjectsOfSpec, count: int) -> Iterator[ObjectsOfSpec]:
    """The objects in at most so many shares of about the same number of bytes."""
    shares: list[list[LandedObject]] = [[] for _ in range(max(1, min(count, len(landed.objects))))]
    loads = [0] * len(shares)
    for object_ in sorted(landed.objects, key=lambda landed: -landed.upload.size):
        least = loads.index(min(loads))
        shares[least].append(object_)
        loads[least] += object_.upload.size
    yield from (ObjectsOfSpec(landed.group, tuple(share)) for share in shares if share)


def _problem(store: Store, specs: TopicSpecs, topic: str, landed: LandedObject) -> Stalled | None:
    key, format_ = landed.key, output_format(specs.for_topic(topic).output)
    try:
        with store.open(key) as stream:
            rows = _count(format_.rows(stream))
    except FileNotFoundError:
        return Stalled(Reason.OBJECT_LOST, f"{key}: it was visible, and is not there")
    except ValueError as error:
        return Stalled(Reason.OBJECT_LOST, f"{key}: {error}")
    if rows == landed.rows:
        return None
    return Stalled(
        Reason.OBJECT_LOST, f"{key}: {landed.rows} rows were written, and {rows} are read back"
    )


def _count(rows: Iterable[object]) -> int:
    return sum(1 for _ in rows)
