"""Prepares the promotion of a backfill: copies its objects into uploads in the live root.

Nothing is recorded or completed here. The driver that owns the live lane appends the REPLACE, which
``PlannedReplacement`` describes; without it the uploads are orphans, and are aborted as such.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

from landfall import untrusted_json
from landfall.api.contract import LANE
from landfall.driver.backfill.side_lane import SidePlan
from landfall.driver.core.pinned_spec import PIN
from landfall.driver.core.planned_replacement import PlannedReplacement
from landfall.driver.decide.landed_now import LandedNow
from landfall.driver.decide.promotion import Promoted, promotion
from landfall.errors import LandfallError, Reason, Stalled
from landfall.ledger import Purpose, digest
from landfall.ledger.names import object_names
from landfall.ledger.replace.replacement_lists import MadeBy, NewObject, Replaced
from landfall.objects import Upload
from landfall.store import Slots, Store

THREADS = 16
"""How many objects are copied at the same time."""

Copy = Callable[[Store, str, int, str, str], Upload]
"""Copies all of a visible object into a new upload, which is not completed: ``store.copying``."""


@dataclass(frozen=True)
class Lanes:
    """A live lane and a side lane of it, as they are now.

    Attributes:
        store: the live group's store, which has the side lane's objects below ``root``.
        root: the side lane's root in it.
        live: what the live lane has landed.
        side: what the side lane has landed.
    """

    store: Store
    root: str
    live: LandedNow
    side: LandedNow


def prepare_promotion(
    lanes: Lanes,
    plan: SidePlan,
    token: str,
    copy: Copy,
    new_pool: Callable[[int], Executor] = ThreadPoolExecutor,
) -> PlannedReplacement:
    """Copy what a backfill landed into uploads in the live root; they are not completed.

    The schemas that its payloads were decoded with are stored in the live lane by then, since the
    REPLACE names them, as a COMMIT would.

    Args:
        lanes: both lanes, as they were read a moment ago.
        plan: of the backfill.
        token: what the copies carry.
        copy: copies an object.
        new_pool: makes the pool of threads that copies.

    Raises:
        Stalled: SPEC_INVALID, the backfill is not landed, or the live objects are not those that it
            was planned for; OBJECT_LOST, an object or a schema of the side lane is gone.
        Retry: a store does not answer, or something live is not visible yet. What was copied is
            aborted.
    """
    topic_ids = [(each.topic_partition, each.topic_id) for each in plan.ranges]
    found = promotion(lanes.live, lanes.side, plan.slices, topic_ids, plan.read_through)
    if not found.promoted and not found.retire:
        raise Stalled(
            Reason.SPEC_INVALID,
            "backfill: neither what is live nor what the backfill landed has a row of the ranges, "
            "so there is nothing to replace: discard it",
        )
    made_by = MadeBy(plan.generation, _checked_spec(lanes, plan.generation))
    _copy_schemas(lanes, {name for each in found.landed_again for name in each.schemas})
    objects = _copied(lanes, found.promoted, token, copy, new_pool)
    retire = tuple(each.retiring for each in found.retire)
    return PlannedReplacement(
        token,
        Purpose.BACKFILL,
        Replaced(retire, objects, found.landed_again, made_by),
        read_through=lanes.live.called_applied,
        folders=found.folders,
        slices=found.slices,
        backfill=plan.name,
    )


def _copied(
    lanes: Lanes,
    promoted: Sequence[Promoted],
    token: str,
    copy: Copy,
    new_pool: Callable[[int], Executor],
) -> tuple[NewObject, ...]:
    begun: list[Upload] = []

    def copied(each: Promoted) -> NewObject:
        size = each.source.landed.upload.size
        source = f"{lanes.root}/{each.source.key}"
        try:
            upload = copy(lanes.store, source, size, each.key, token)
        except FileNotFoundError:
            raise Stalled(Reason.OBJECT_LOST, f"{source}: it is not there") from None
        begun.append(upload)
        return each.as_new(upload)

    try:
        with new_pool(THREADS) as pool:
            return tuple(pool.map(copied, promoted))
    except LandfallError:
        for upload in begun:
            with suppress(LandfallError):
                lanes.store.abort(upload.key, upload.upload_id)
        raise


def _copy_schemas(lanes: Lanes, names: Iterable[str]) -> None:
    """Store schemas of the side lane in the live lane, if they are not there."""
    for name in sorted(names):
        source = f"{lanes.root}/{object_names.schema_key(lanes.side.group, LANE, name)}"
        body = lanes.store.read(source)
        if body is None or digest(body) != name:
            raise Stalled(Reason.OBJECT_LOST, f"{source}: the schema is gone or damaged")
        # Whose key is there already, has these bytes: it is named by their hash.
        lanes.store.create(object_names.schema_key(lanes.live.group, LANE, name), body)


def _checked_spec(lanes: Lanes, generation: int) -> str:
    """The name of the stored spec that the ranges are landed by, in the live lane.

    Readers look up there how objects of a generation are made.

    Raises:
        Stalled: SPEC_INVALID, the live lane runs this generation by another spec, or not at all.
    """
    (landed_by,) = lanes.side.made_by or {""}
    now = lanes.live.specs.get(generation)
    if now is None:
        raise _other_spec(f"no driver of the live group has run generation {generation} yet")
    body = _stored(lanes.store, object_names.spec_key(lanes.live.group, LANE, now)) if now else None
    key = object_names.spec_key(lanes.side.group, LANE, landed_by) if landed_by else ""
    if not now or not key or body != _stored(lanes.store, f"{lanes.root}/{key}"):
        raise _other_spec(f"the live group runs generation {generation} by another spec")
    return now


def _other_spec(message: str) -> Stalled:
    return Stalled(
        Reason.SPEC_INVALID,
        f"backfill: {message}, and readers read objects by it: apply GROUP.yaml to the live group, "
        "or discard the backfill and plan another one",
    )


def _stored(slots: Slots, key: str) -> object:
    """The spec that is stored under a key, without what differs between drivers."""
    body = slots.read(key)
    if body is None:
        return None
    try:
        found = _without_pins(untrusted_json.decode(body))
    except ValueError as error:
        raise Stalled(Reason.SPEC_INVALID, f"backfill: {key}: no stored spec: {error}") from error

    letters = found.get("badRecords") if isinstance(found, dict) else None
    if isinstance(letters, dict):
        letters.pop("retain", None)  # of what no object is made, and no side lane has it
    return found


def _without_pins(value: object) -> object:
    if isinstance(value, dict):
        return {name: _without_pins(inner) for name, inner in value.items() if name != PIN}
    return [_without_pins(inner) for inner in value] if isinstance(value, list) else value
