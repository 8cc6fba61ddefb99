"""Promotes a backfill: the objects that it has landed replace the live ones.

A generator, as ``landfall.driver.replacing.undo``: it yields what it waits for, and the thread that
appends to the lane sends it the result. ``landfall.driver.replacing.promoting`` defines what is
copied, and under which names.

Merged objects with rows inside and outside of the ranges are cut in two before that, by a REPLACE
of its own, which changes no row. If the promotion is not made after it, compaction merges the
halves again.

The ledger knows which backfill a REPLACE promotes. So a promotion that is asked for twice is made
once, also if the first answer was lost; once it is undone, it may be made again.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from msgspec import structs

from landfall import untrusted_json
from landfall.api.contract import LANE
from landfall.api.spec import ConsumerGroup, TopicSpecs
from landfall.api.values import plural
from landfall.api.verbs import Answer, Outcome, PromoteRequest
from landfall.driver.backfill.landed_ledger import read_landed
from landfall.driver.backfill.side_lane import SidePlan, read_plan
from landfall.driver.core.pinned_spec import PIN
from landfall.driver.core.planned_replacement import PlannedReplacement
from landfall.driver.core.runner import BinRunner
from landfall.driver.core.steps import Steps
from landfall.driver.core.stored_specs import allowed_plug_ins, unchecked_spec
from landfall.driver.decide.counting import CountingObject
from landfall.driver.decide.landed_now import LandedNow
from landfall.driver.decide.promotion import Promoted, Promotion, promotion, why_too_large
from landfall.driver.decide.requests import Refusal
from landfall.driver.replacing.compaction_planner import SLOTS_PER_TASK
from landfall.driver.replacing.undo import ReplacingEffects, found_again
from landfall.errors import LandfallError, LettersUnreachable, Reason, Retry, Stalled
from landfall.lane import Lane
from landfall.ledger import Decision, Purpose, digest
from landfall.ledger.names import object_names, roots
from landfall.ledger.replace.merged_objects import Mergeable
from landfall.ledger.replace.replacement_lists import MadeBy, NewObject, ReplacementList
from landfall.ledger.task_results import ObjectKind
from landfall.objects import Upload, is_made_by
from landfall.publish.building import replacement_problems
from landfall.registry import output_format
from landfall.store import Slots, Store
from landfall.store.below import SlotsBelow
from landfall.store.copying import copied
from landfall.store.probe import probe_replacing
from landfall.task.merging import Merge, Merged, MergeShare, NotMerged

# Prepares the promotion of a backfill: copies its objects into uploads in the live root.
#
# Nothing is recorded or completed here. The driver that owns the live lane appends the REPLACE,
# which ``PlannedReplacement`` describes; without it the uploads are orphans, and are aborted as
# such.

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
        Stalled: SPEC_INVALID, the backfill is not landed, or the live objects are not the ones that
            it was planned for; OBJECT_LOST, an object or a schema of the side lane is gone.
        Retry: a store does not answer, or something live is not visible yet. What was copied is
            aborted.
    """
    topic_ids = [(range_.topic_partition, range_.topic_id) for range_ in plan.ranges]
    found = promotion(
        live=lanes.live,
        side=lanes.side,
        slices=plan.slices,
        topic_ids=topic_ids,
        planned_at=plan.read_through,
    )
    if not found.promoted and not found.retire:
        raise Stalled(
            Reason.SPEC_INVALID,
            "backfill: neither what is live nor what the backfill landed has a row of the ranges, "
            "so there is nothing to replace: discard it",
        )
    made_by = MadeBy(plan.generation, _checked_spec(lanes, plan.generation))
    _copy_schemas(lanes, {name for range_ in found.landed_again for name in range_.schemas})
    objects = _copied(
        lanes=lanes, promoted=found.promoted, token=token, copy=copy, new_pool=new_pool
    )
    retire = tuple(object_.decided for object_ in found.retire)
    return PlannedReplacement(
        token,
        Purpose.BACKFILL,
        ReplacementList(retire, objects, found.landed_again, made_by),
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
        # An object that has this key already has these bytes: it is named by their hash.
        lanes.store.create(object_names.schema_key(lanes.live.group, LANE, name), body)


def _checked_spec(lanes: Lanes, generation: int) -> str:
    """Return the name of the stored spec that the ranges are landed by, in the live lane.

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
    """Return the spec that is stored under a key, without what differs between drivers."""
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


Result = TypeVar("Result")


class _Lent(Executor):
    """Wraps a shared pool; ``shutdown`` does not end it."""

    def __init__(self, pool: Executor) -> None:
        self._pool = pool

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """See ``Executor``."""
        return self._pool.submit(fn, *args, **kwargs)

    def map(self, fn: Callable[..., Any], *iterables: Iterable[Any], **options: Any) -> Any:
        """See ``Executor``."""
        return self._pool.map(fn, *iterables, **options)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002  # as the base's
        """Do nothing: the pool is its owner's."""


@dataclass(frozen=True, slots=True)
class _Promotable:
    """The contents of a backfill that can be promoted."""

    lanes: Lanes
    plan: SidePlan
    promotion: Promotion

    @property
    def read_through(self) -> int:
        """The slot up to which the live ledger records that everything is applied."""
        return self.lanes.live.called_applied

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders of all objects."""
        return self.promotion.folders


@dataclass(frozen=True, slots=True)
class _Promoted:
    """The backfill is promoted already, by the REPLACE in this slot."""

    slot: int


@dataclass(frozen=True)
class Promoting:
    """Reads what a backfill has landed, and copies it into uploads in the live root.

    Attributes:
        group: the live group.
        store: where everything is.
        lane: the live ledger.
        token: what is in the metadata of each copy.
        runner: cuts objects.
        specs: the stored specs that the live ledger will name, by generation, if the promotion
            opens the lane itself.
    """

    group: ConsumerGroup
    store: Store
    lane: Lane
    token: str
    runner: BinRunner
    specs: Mapping[int, str] = field(default_factory=dict)

    def found(self, name: str) -> _Promotable | _Promoted | Refusal:
        """Return what there is to promote, or why nothing is.

        Raises:
            Retry: the store does not answer, or something live is not visible yet.
        """
        return _or_refusal(lambda: self._found(name))

    def found_again(self, name: str) -> "_Promotable | Answer":
        """As ``found``; FAILED while something live is not visible yet."""
        try:
            found = self.found(name)
        except Retry as error:
            return Answer(Outcome.FAILED, message=str(error))
        return found if isinstance(found, _Promotable) else _answer(name, found)

    def cut(self, found: _Promotable) -> PlannedReplacement | Refusal:
        """Both halves of each object that is cut, ready to be recorded; or why there are none.

        Raises:
            Retry: the store or Spark does not answer. What was uploaded is aborted.
        """
        return _or_refusal(lambda: self._cut(found))

    def _cut(self, found: _Promotable) -> PlannedReplacement:
        promotion = found.promotion
        token = f"{self.token}-cut"
        merges = [self._merge(found, object_) for object_ in promotion.cut]
        tasks = max(1, self.runner.slots // SLOTS_PER_TASK)
        shares = [
            MergeShare(self.group, token, found.read_through, tuple(merges[index::tasks]))
            for index in range(min(tasks, len(merges)))
        ]
        results = self.runner.merge(shares)
        halves = [result for result in results if isinstance(result, Merged)]
        made = ReplacementList(
            promotion.cut_retiring,
            tuple(sorted((half.new for half in halves), key=lambda new: new.key)),
        )
        plan = PlannedReplacement.of(
            group=self.group.metadata.name,
            token=token,
            purpose=Purpose.COMPACT,
            listed=made,
            read_through=found.read_through,
        )
        for result in results:
            if isinstance(result, NotMerged):
                _abort(self.store, plan)
                raise result.error
        return plan

    def _merge(self, found: _Promotable, each: CountingObject) -> Merge:
        """Return how an object is cut: by the spec that its generation was landed by.

        Raises:
            Stalled: SPEC_INVALID, that spec names code that the present one does not.
        """
        spec = found.lanes.live.specs.get(each.generation, "")
        made_by = unchecked_spec(self.store, self.group, LANE, spec).spec
        output = TopicSpecs.of(made_by).for_topic(each.topic).output
        output_format(output, allowed=allowed_plug_ins(self.group, LANE, spec))
        source = Mergeable(
            each.decided.slot, each.landed, spec, each.sections, is_mixed=each.is_mixed
        )
        return Merge(output, (source,), cut=found.promotion.slices)

    def planned(self, found: _Promotable, copiers: Executor) -> PlannedReplacement | Refusal:
        """Return the copies, ready to be recorded; or why there are none.

        Raises:
            Retry: the store does not answer. What was copied is aborted.
        """
        for why in copiers.map(self._why_not_retired, found.promotion.retire):
            if why:
                return Refusal(why)
        return _or_refusal(
            partial(
                prepare_promotion,
                lanes=found.lanes,
                plan=found.plan,
                token=self.token,
                copy=copied,
                new_pool=lambda _: _Lent(copiers),
            )
        )

    def _why_not_retired(self, each: CountingObject) -> str:
        """Return why an object cannot retire (the driver would stop, without a copy); or empty."""
        upload = each.landed.upload
        try:
            stat = self.store.stat(upload.key)
        except LettersUnreachable as unreachable:
            return f"backfill: {unreachable}"
        if stat is None or is_made_by(upload, stat):
            return ""
        return (
            f"backfill: {upload.key} was overwritten: it has {stat.size} bytes, and the ledger "
            f"records {upload.size}, with another token or ETag: move it to where no reader looks, "
            "and ask again"
        )

    def _found(self, name: str) -> _Promotable | _Promoted | Refusal:
        try:
            root = roots.side_root(self.lane.group, name)
        except ValueError as error:
            return Refusal(f"backfill: {error}")
        below = SlotsBelow(self.store, root)
        plan = read_plan(below, name)
        live = read_landed(self.lane, self.store, plan.offsets)
        if (slot := live.promotions.of(name)) >= 0:
            return _Promoted(slot)
        if problems := replacement_problems(self.group):
            return Refusal(f"backfill: {problems[0]}")
        live.specs.update(self.specs)
        side = read_landed(self.lane.elsewhere(below))
        ids = [(range_.topic_partition, range_.topic_id) for range_ in plan.ranges]
        made = promotion(
            live=live, side=side, slices=plan.slices, topic_ids=ids, planned_at=plan.read_through
        )
        if too_large := why_too_large(made):
            return Refusal(too_large)
        return _Promotable(Lanes(self.store, root, live, side), plan, made)


def _or_refusal(work: Callable[[], Result]) -> Result | Refusal:
    """Return the result, or why there is none: asking again would not help."""
    try:
        return work()
    except Stalled as stalled:
        return Refusal(str(stalled))


def promote(
    request: PromoteRequest, promoting: Promoting, decision: Decision, effects: ReplacingEffects
) -> Steps:
    """Replace the live objects of a backfill's ranges with the ones that it has landed.

    Raises:
        Fenced: another driver has opened the lane.
        LandfallError: a store does not answer. Nothing is recorded.
    """
    name = request.name
    found: _Promotable | _Promoted | Refusal = yield effects.pool.submit(promoting.found, name)
    if not isinstance(found, _Promotable):
        return _answer(name, found)
    if request.dry_run:
        return Answer(Outcome.DRY_RUN, (_text(name, found.promotion),))
    # Copying takes hours: nothing may be merged meanwhile that is to retire.
    release = effects.reserve(found.folders)
    try:
        find = partial(promoting.found_again, name)
        again: _Promotable | Answer = yield from found_again(found, find, effects)
        cut = ""
        if isinstance(again, _Promotable) and again.promotion.cut:
            done: str | Answer = yield from _cut(again, promoting, effects)
            if isinstance(done, Answer):
                return done
            cut, again = done, (yield from found_again(again, find, effects))
        if isinstance(again, Answer):
            return again
        answer: Answer = yield from _copy(
            name=name, found=again, promoting=promoting, decision=decision, effects=effects
        )
        return structs.replace(answer, records=(cut, *answer.records)) if cut else answer
    finally:
        release()


def _cut(
    found: _Promotable, promoting: Promoting, effects: ReplacingEffects
) -> Generator["Future[Any]", Any, str | Answer]:
    """Cut objects in two, and record that; returns what is recorded, or why nothing is."""
    slot: int | Answer = yield from _record(partial(promoting.cut, found), promoting, effects, None)
    if isinstance(slot, Answer):
        return slot
    cut = plural(len(found.promotion.cut), "merged object")
    return f"REPLACE in slot {slot}: {cut} with rows of other ranges cut in two"


def _copy(
    name: str,
    found: _Promotable,
    promoting: Promoting,
    decision: Decision,
    effects: ReplacingEffects,
) -> Steps:
    """Make the copies, and record the REPLACE."""
    if found.promotion.cut:
        key = found.promotion.cut[0].key
        message = f"backfill: {key} is not cut yet, and has rows of other ranges: try again"
        return Answer(Outcome.FAILED, message=message)
    plan = partial(promoting.planned, found, effects.copiers)
    slot: int | Answer = yield from _record(plan, promoting, effects, decision)
    if isinstance(slot, Answer):
        return slot
    message = f"recorded in slot {slot}; `landfall undo {slot}` takes it back"
    return Answer(Outcome.DONE, (_text(name, found.promotion),), message)


def _record(
    make: Callable[[], PlannedReplacement | Refusal],
    promoting: Promoting,
    effects: ReplacingEffects,
    decision: Decision | None,
) -> Generator["Future[Any]", Any, int | Answer]:
    """Record what a plan replaces; returns the slot, or why nothing is recorded."""
    yield effects.pool.submit(probe_replacing, promoting.store, promoting.token)
    plan: PlannedReplacement | Refusal = yield effects.pool.submit(make)
    if isinstance(plan, Refusal):
        return Answer(Outcome.REFUSED, message=plan.message)
    if refusal := effects.why_not(plan):
        _abort(promoting.store, plan)
        return Answer(Outcome.FAILED, message=f"{refusal}: try again")
    return effects.record(plan, decision).seq


def _answer(name: str, found: _Promoted | Refusal) -> Answer:
    """Return the answer if there is nothing to promote: it is promoted already, or must not be."""
    match found:
        case _Promoted(slot):
            return Answer(Outcome.DONE, message=f"{name} is promoted already, in slot {slot}")
        case Refusal(message):
            return Answer(Outcome.REFUSED, message=message)


def _abort(store: Store, plan: PlannedReplacement) -> None:
    for upload in plan.uploads:
        with suppress(LandfallError):  # what is left is aborted as an orphan
            store.abort(upload.key, upload.upload_id)


def _text(name: str, made: Promotion) -> str:
    """Return the promotion in one line."""
    new = [object_.source.landed for object_ in made.promoted]
    old = made.replaced
    instead = plural(len(old), "object")
    text = f"REPLACE: {plural(len(new), 'object')} of {name}, instead of {instead}"
    for kind, what in ((ObjectKind.DATA, "rows"), (ObjectKind.DEAD_LETTERS, "dead letters")):
        now = sum(object_.rows for object_ in new if object_.kind is kind)
        before = sum(rows for object_, rows in old if object_.landed.kind is kind)
        if now or before:
            text += f"; {now} {what}, instead of {before}"
    if made.cut:
        text += f"; {plural(len(made.cut), 'merged object')} with rows of other ranges cut first"
    return text
