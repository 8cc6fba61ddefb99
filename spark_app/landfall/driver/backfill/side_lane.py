"""The side lane of a backfill: the plan in its root, and the group that lands there.

A side lane is an ordinary group. Its output root is below ``_landfall/`` of the live group's, where
readers and the live driver pass it over, and its ledger is there, or below the live group's ledger
if that is elsewhere. So all proofs of landing hold for it, and what it landed can be read, checked
and compared before it replaces anything.

The plan is a document in that root, created once: landing, comparing and promoting use the same
ranges. A name whose backfill was discarded is not used again, so nothing of an earlier backfill can
get into a later one.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any, Final
from uuid import uuid4

import msgspec

from landfall import __version__, ledger, untrusted_json
from landfall.api.contract import LANE
from landfall.api.spec import ConsumerGroup, GroupSpec, parse_group
from landfall.checks.objects import is_landfall_object
from landfall.driver.decide.backfill import Backfill
from landfall.driver.decide.counting import CountingObject, Ranges
from landfall.driver.decide.landed_now import LandedNow
from landfall.driver.landing.goals import GoalType, UntilOffsets
from landfall.errors import LettersUnreachable, Reason, Stalled
from landfall.lane import Lane, LaneWriter, OpenRequest
from landfall.ledger import LaneOwnership
from landfall.ledger.effects import decided_slices
from landfall.ledger.names import object_names, roots
from landfall.ledger.names.object_names import SYSTEM
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import ObjectKind
from landfall.store import Created, Slots, Store

PLAN: Final = f"{SYSTEM}/backfill.json"
"""Key of the plan in the root of a side lane."""
DISCARDED: Final = f"{SYSTEM}/discarded.json"
"""Key of the mark in the root of a side lane that is not used any more."""
VERSION = 1
"""The version of the plan's format."""
MIN_UPLOAD_BYTES = 512 * 2**20
"""At least as many object bytes make a slice: no reader waits for the objects of a backfill."""
_NOT_IN_A_SIDE_LANE = (
    "publish",
    "autoscaling",
    "schedule",
    "idle",
    "completeness",
    "compact",
)
_DELETED_AT_ONCE = 1000


class SideRange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Offsets of a topic partition that are landed again; its topic has this id."""

    topic_partition: TopicPartition
    topic_id: str
    offsets: OffsetRange


class SideStart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The start of another partition of the same topics, which is not landed."""

    topic_partition: TopicPartition
    offset: int


class RetiringShare(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much would retire, when the plan was made; of objects that are cut, their share."""

    objects: int
    rows: int
    bytes: int
    dead_letters: int


class SidePlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The plan of a backfill. The names of the fields are a persisted format.

    Attributes:
        version: of the format.
        name: of the backfill.
        made: when the plan was made, ISO 8601 in UTC.
        generation: of the group's spec, by which the ranges are landed.
        read_through: the slot up to which the live ledger was read.
        ranges: what is landed again, sorted.
        others: the remaining Kafka partitions of these topics.
        retiring: how much would retire.
    """

    version: int
    name: str
    made: str
    generation: int
    read_through: int
    ranges: tuple[SideRange, ...]
    others: tuple[SideStart, ...]
    retiring: RetiringShare

    @property
    def slices(self) -> tuple[Slice, ...]:
        """The ranges."""
        return tuple(Slice(range_.topic_partition, range_.offsets) for range_ in self.ranges)

    @property
    def offsets(self) -> Ranges:
        """The ranges, by topic partition."""
        return {range_.topic_partition: range_.offsets for range_ in self.ranges}

    @property
    def goal(self) -> GoalType:
        """The goal of the side lane's driver before it ends."""
        ends = {range_.topic_partition: range_.offsets.end for range_ in self.ranges}
        return partial(UntilOffsets, ends)


def side_plan(
    name: str, landed: LandedNow, backfill: Backfill, generation: int, now: datetime
) -> SidePlan:
    """Return the plan to land a backfill's ranges by this generation of the group's spec.

    Raises:
        Stalled: SPEC_INVALID, a later generation has landed some of it. Dead letters are replayed
            by a generation above the one that wrote them, so objects might be named as the ones
            that the backfill replaces.
    """
    newest = max((object_.generation for object_ in (*backfill.retire, *backfill.cut)), default=0)
    if newest > generation:
        raise Stalled(
            Reason.SPEC_INVALID,
            f"backfill: generation {newest} has landed some of these ranges, and GROUP.yaml has "
            f"generation {generation}: raise spec.generation to {newest + 1}, and deploy it first",
        )
    chosen = {slice_.topic_partition for slice_ in backfill.slices}
    topics = {tp.topic for tp in chosen}
    others = sorted(tp for tp in landed.members.keys() - chosen if tp.topic in topics)
    data = backfill.of(ObjectKind.DATA)
    letters = backfill.of(ObjectKind.DEAD_LETTERS)
    return SidePlan(
        version=VERSION,
        name=name,
        made=now.isoformat(),
        generation=generation,
        read_through=landed.slot,
        ranges=tuple(
            SideRange(tp, landed.members[tp].topic_id, offsets)
            for tp, offsets in ((s.topic_partition, s.offsets) for s in backfill.slices)
        ),
        others=tuple(SideStart(tp, landed.checkpoint(tp)) for tp in others),
        retiring=RetiringShare(
            len(data),
            sum(backfill.rows_of(object_) for object_ in data),
            sum(_bytes_of(backfill, object_) for object_ in data),
            sum(backfill.rows_of(object_) for object_ in letters),
        ),
    )


def _bytes_of(backfill: Backfill, each: CountingObject) -> int:
    """About how many bytes of an object its rows in the ranges have."""
    size, rows = each.landed.upload.size, each.landed.rows
    return size * backfill.rows_of(each) // rows if rows else size


def side_root(group: ConsumerGroup, name: str) -> str:
    """Return the root of a side lane, relative to the roots of its group.

    Raises:
        Stalled: SPEC_INVALID, it is no name.
    """
    try:
        return roots.side_root(group.metadata.name, name)
    except ValueError as error:
        raise Stalled(Reason.SPEC_INVALID, f"backfill: {error}") from None


def side_spec(group: ConsumerGroup, name: str) -> GroupSpec:
    """Return the group's spec with the roots of a side lane.

    Raises:
        Stalled: as ``side_root``.
    """
    spec, below = group.spec, side_root(group, name)
    output = spec.output.model_copy(update={"url": f"{spec.output.url.rstrip('/')}/{below}"})
    ledger = spec.ledger and spec.ledger.model_copy(
        update={"url": f"{spec.ledger.url.rstrip('/')}/{below}"}
    )
    # All places, because discarding a side lane deletes what is in them.
    letters = spec.bad_records.model_copy(
        update={
            "former_places": tuple(
                place.model_copy(update={"url": f"{place.url.rstrip('/')}/{below}"})
                for place in spec.bad_records.former_places
            )
        }
    )
    if letters.url:
        letters = letters.model_copy(update={"url": f"{letters.url.rstrip('/')}/{below}"})
    return spec.model_copy(update={"output": output, "ledger": ledger, "bad_records": letters})


def side_group(
    group: ConsumerGroup, plan: SidePlan, landed: Mapping[str, Any] | None = None
) -> ConsumerGroup:
    """Return the group that lands a plan, by the present spec of the live group.

    What objects hold is decided by the same fields. All else is made for a lane that lands ranges
    which exist already, and is not read.

    Args:
        group: the live group.
        plan: of the backfill.
        landed: the section ``spec.source.landed`` to read from, without topics, if not the source
            of the live group.

    Raises:
        Stalled: SPEC_INVALID, the group has another generation than the plan.
    """
    if group.spec.generation != plan.generation:
        raise Stalled(
            Reason.SPEC_INVALID,
            f"backfill: {plan.name} is planned for generation {plan.generation}, and the group has "
            f"generation {group.spec.generation}: set it back, or discard {plan.name} and plan "
            "another one",
        )
    moved = group.model_copy(update={"spec": side_spec(group, plan.name)})
    document = moved.model_dump(mode="json", by_alias=True)
    spec: dict[str, Any] = document["spec"]
    for section in _NOT_IN_A_SIDE_LANE:
        spec.pop(section, None)
    most = max(group.spec.upload_policy.max_bytes, MIN_UPLOAD_BYTES)
    spec["uploadPolicy"] = {"maxBytes": most}
    spec["state"] = "Running"
    spec["tuning"]["httpPort"] = 0
    # A promotion copies its dead letters; from then the live group decides when they expire.
    spec["badRecords"].pop("retain", None)
    topics = sorted({range_.topic_partition.topic for range_ in plan.ranges})
    named = {"topics": topics, "topicPattern": None, "exclude": None}
    if landed or group.spec.source.landed:
        spec["source"] = {"landed": {**(landed or spec["source"]["landed"]), **named}}
        return parse_group(document)
    group.spec.source.require_kafka()
    spec["source"]["kafka"] |= named | {
        "startingOffsets": {"offsets": _starts(plan)},
        "onDataLoss": _on_data_loss(spec["source"]["kafka"]["onDataLoss"]),
        # The offsets that Kafka keeps for the live group stay as they are.
        "groupId": f"{group.kafka_group_id}.side.{plan.name}",
    }
    return parse_group(document)


def _on_data_loss(of_live: Any) -> Any:
    """Return ``onDataLoss`` for a backfill: stall, as replacements would lack a skipped range.

    What Kafka has lost is still read from where the live group reads it.
    """
    return of_live | {"otherwise": "Stall"} if isinstance(of_live, dict) else "Stall"


def _starts(plan: SidePlan) -> Mapping[str, Mapping[str, int]]:
    offsets: dict[str, dict[str, int]] = defaultdict(dict)
    for range_ in plan.ranges:
        tp = range_.topic_partition
        offsets[tp.topic][str(tp.partition)] = range_.offsets.start
    for other in plan.others:
        tp = other.topic_partition
        offsets[tp.topic][str(tp.partition)] = other.offset
    return offsets


def side_lane(group: ConsumerGroup, store: Store) -> Lane:
    """Return the ledger of a side lane, whose store this is."""
    return Lane(store, group.metadata.name, LANE)


def store_plan(store: Slots, plan: SidePlan) -> None:
    """Store the plan in the root of the side lane, whose store this is.

    Raises:
        Stalled: SPEC_INVALID, there is a plan of this name already, or there was one.
        Retry: the store does not answer.
    """
    _check_not_discarded(store, plan.name)
    body = msgspec.json.encode(plan)
    if store.create(PLAN, body) is Created.TAKEN and store.read(PLAN) != body:
        raise Stalled(
            Reason.SPEC_INVALID,
            f"backfill: {plan.name} is planned already: run it, or choose another name",
        )


def read_plan(store: Slots, name: str) -> SidePlan:
    """Return the plan in the root of a side lane, whose store this is.

    Raises:
        Stalled: SPEC_INVALID, there is none, it was discarded, or it cannot be read.
        Retry: the store does not answer.
    """
    body = store.read(PLAN)
    if body is None:
        raise Stalled(Reason.SPEC_INVALID, f"backfill: {name} is not planned")
    _check_not_discarded(store, name)
    try:
        plan = untrusted_json.decode(body, type=SidePlan)
    except (msgspec.DecodeError, ValueError) as error:
        raise Stalled(Reason.SPEC_INVALID, f"backfill: {PLAN} of {name}: {error}") from error
    if plan.version != VERSION:
        raise Stalled(Reason.SPEC_INVALID, f"backfill: {name} has a plan of another version")
    if plan.name != name:
        raise Stalled(Reason.SPEC_INVALID, f"backfill: {name} has the plan of {plan.name!r:.80}")
    return plan


def discard(
    group: ConsumerGroup,
    store: Store,
    name: str,
    clock: Callable[[], datetime],
    new_pool: Callable[[int], Executor] = ThreadPoolExecutor,
) -> int:
    """Delete the objects and uploads of a side lane, whose store this is, and use it no more.

    Its ledger stays, so that a driver which still lands there is fenced. Called again, it
    continues. Uploads that tasks of such a driver begin afterwards, the driver of the live group
    aborts. The ledger is read by pools of ``new_pool``.

    Returns:
        how many objects were deleted.

    Raises:
        Stalled: SPEC_INVALID, there is no such backfill; or all is deleted but dead letters in a
            place that the spec does not name.
        Retry: the store does not answer.
    """
    if store.read(PLAN) is None:
        raise Stalled(Reason.SPEC_INVALID, f"backfill: {name} is not planned")
    store.create(DISCARDED, json.dumps({"at": clock().isoformat()}).encode())
    lane = Lane(store, group.metadata.name, LANE, new_pool)
    state = lane.read()
    if state.holding is LaneOwnership.HELD:
        request = OpenRequest(uuid4().hex, state.generation, __version__, spec=state.spec)
        LaneWriter.open(lane, request, clock, state=state)
    for upload in store.open_uploads(""):
        store.abort(upload.key, upload.upload_id)
    keys = (stat.key for stat in store.list_after(""))
    objects = (key for key in keys if is_landfall_object(key, group.metadata.name))
    deleted = 0
    while some := list(islice(objects, _DELETED_AT_ONCE)):
        store.delete_slots(some)
        deleted += len(some)
    _check_letters_reached(lane, store, name)
    return deleted


def _check_letters_reached(lane: Lane, store: Store, name: str) -> None:
    """Raise ``Stalled`` if dead letters of a side lane are where its store does not reach."""
    seen = dict[str, str]()
    for seq, body in lane.bodies():
        for slice_ in decided_slices(ledger.decode(seq, body)):
            for key in (landed.key for landed in slice_.objects):
                seen.setdefault(object_names.letters_place(key), key)
    for place, key in sorted(seen.items()):
        try:
            store.stat(key)
        except LettersUnreachable:
            raise Stalled(
                Reason.SPEC_INVALID,
                f"backfill: {name} is discarded, but for its dead letters in place {place}, such "
                f"as {key}: badRecords names it neither as url nor in formerPlaces; name it there "
                "and discard the backfill again, or delete them yourself",
            ) from None


def _check_not_discarded(store: Slots, name: str) -> None:
    if store.read(DISCARDED) is not None:
        raise Stalled(Reason.SPEC_INVALID, f"backfill: {name} was discarded: choose another name")
