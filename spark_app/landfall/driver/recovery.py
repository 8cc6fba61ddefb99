"""Makes committed objects again whose uploads the store has lost, for example to a lifecycle rule.

The COMMIT names the ranges the objects came from. The same ranges are read again, only the lost
objects are kept, and a REPAIR record names their new uploads before anybody completes them. If
Kafka does not have the range any more, or another spec would make other rows of it, the driver ends
with ``Stalled`` and the exact range: nothing is lost silently.
"""

from collections.abc import Callable, Collection, Mapping
from itertools import chain

from landfall import ledger
from landfall.api.spec import ConsumerGroup
from landfall.driver.runner import Runner
from landfall.errors import Reason, Retry, Stalled
from landfall.lane import LaneWriter
from landfall.ledger import object_names
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.task_results import FailedSlice, LandedObject, LandedSlice
from landfall.store import Uploads
from landfall.task import Batch

Remake = Callable[[LandedSlice, Collection[str]], list[LandedObject]]
RecreatedTopics = Callable[[Collection[TopicPartition]], Mapping[TopicPartition, Retry]]


def repair(
    lost: Collection[LandedObject],
    commit: int,
    writer: LaneWriter,
    remake: Remake,
    recreated_topics: RecreatedTopics,
) -> tuple[LandedObject, ...]:
    """Append the REPAIR for lost objects of a COMMIT, and return them with their new uploads.

    Args:
        lost: the objects, as the COMMIT names them.
        commit: the COMMIT's slot.
        writer: the right to append.
        remake: lands a slice again and returns those of its objects that have the given keys.
        recreated_topics: which topic partitions' topics are not the ledger's any more; asked after
            the ranges were read again.

    Raises:
        Stalled: OBJECT_LOST, the range cannot be landed again as it was.
        Retry: the repair may succeed later.
    """
    keys = {o.upload.key for o in lost}
    body = writer.lane.slots.read(writer.lane.slot_key(commit))
    record = ledger.decode(commit, body) if body else None
    if not isinstance(record, ledger.Commit):
        raise ledger.ledger_error(commit, "should be the COMMIT of lost objects")
    slices = [s for s in record.slices if any(o.upload.key in keys for o in s.objects)]
    repaired = tuple(chain.from_iterable(remake(s, keys) for s in slices))
    for error in recreated_topics({s.piece.topic_partition for s in slices}).values():
        raise Stalled(Reason.OBJECT_LOST, f"{sorted(keys)} cannot be made again: {error}")
    writer.append(lambda header: ledger.Repair(header=header, commit=commit, objects=repaired))
    return repaired


def remake(
    before: LandedSlice,
    keys: Collection[str],
    batch: Batch,
    runner: Runner,
    uploads: Uploads,
) -> list[LandedObject]:
    """Land a slice again, return the objects with these keys, and abort its other uploads.

    Args:
        before: the slice, as it was landed.
        keys: of lost objects; some of them are the slice's.
        batch: the group as it is now, and a token of its own for the new uploads.
        runner: runs the task.
        uploads: where the objects are.

    Raises:
        Stalled: OBJECT_LOST, the range is gone or the rows differ.
        Retry: the task may succeed later.
    """
    wanted = {o.upload.key: o for o in before.objects if o.upload.key in keys}
    as_named = Batch(_as_of(batch.group, next(iter(wanted))), batch.token)
    (result,) = runner.run(as_named, [(before.piece,)])
    if isinstance(result, FailedSlice):
        is_gone = isinstance(result.error, Stalled) and result.error.reason in {
            Reason.DATA_LOSS,
            Reason.TOPIC_MISSING,
        }
        if not is_gone:
            raise result.error
        raise Stalled(
            Reason.OBJECT_LOST,
            f"{before.piece}: {sorted(wanted)} cannot be made again: {result.error}",
        )
    made = {o.upload.key: o for o in result.objects if o.upload.key in keys}
    for landed in result.objects:
        if landed.upload.key not in keys:
            uploads.abort(landed.upload.key, landed.upload.upload_id)
    if {k: _content(o) for k, o in made.items()} != {k: _content(o) for k, o in wanted.items()}:
        raise Stalled(
            Reason.OBJECT_LOST,
            f"{before.piece}: {sorted(wanted)} cannot be made again: the rows differ now",
        )
    return list(made.values())


def _content(landed: LandedObject) -> tuple[int, int, int]:
    return landed.rows, landed.first_offset, landed.last_offset


def _as_of(group: ConsumerGroup, key: str) -> ConsumerGroup:
    """The group in the generation that named the object, so that a range gets the same names."""
    generation = object_names.origin(group.metadata.name, key).generation
    return group.model_copy(
        update={"spec": group.spec.model_copy(update={"generation": generation})}
    )
