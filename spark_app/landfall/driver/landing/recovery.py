"""Makes committed objects again whose uploads the store has lost: the single steps.

The COMMIT names the ranges the objects came from, a REPLAY the dead letters. The same ranges, or
dead letters, are read again, by the spec that the record was made by, and only the lost objects are
kept. ``landfall.driver.landing.lost_uploads`` runs these steps alongside landing, and records the
result.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from msgspec import UNSET

from landfall import ledger
from landfall.api.spec import ConsumerGroup
from landfall.driver.core.runner import Bin, BinRunner
from landfall.errors import LandfallError, PartUnreadable, Reason, Retry, Stalled
from landfall.lane import Lane
from landfall.ledger import State
from landfall.ledger.effects import ObjectRestored, decided_slices, effects
from landfall.ledger.names import object_names
from landfall.ledger.offsets import Slice, TopicPartition
from landfall.ledger.task_results import (
    FailedSlice,
    LandedObject,
    LandedSlice,
    LandingRules,
    ReplayedSlice,
    SliceResult,
)
from landfall.objects import Upload
from landfall.task import Batch, FromBackup

MAX_SLICES = 1000
"""How many slices one job lands again at most."""
BINS_PER_SLOT = 4
"""Small enough that a job's tasks end at about the same time."""

_FOR_EVER = {Reason.DATA_LOSS, Reason.TOPIC_MISSING, Reason.OBJECT_LOST}
"""Why a task can never read records again; OBJECT_LOST if it should read dead letters."""

RecreatedTopics = Callable[[Collection[TopicPartition]], Mapping[TopicPartition, LandfallError]]


@dataclass(frozen=True, slots=True)
class LostSlice:
    """A committed or replayed slice with lost objects.

    Attributes:
        slot: under which the objects are due: of their COMMIT or REPLAY, or of missing ones'
            REPAIR.
        before: the slice, as its COMMIT or REPLAY names it.
        lost: the lost objects, as the ledger names them now.
    """

    slot: int
    before: LandedSlice | ReplayedSlice
    lost: tuple[LandedObject, ...]

    @property
    def topic_partition(self) -> TopicPartition:
        """Whose records they are."""
        return self.before.piece.topic_partition

    @property
    def rules(self) -> LandingRules:
        """By which it was cut into objects."""
        rules = self.before.rules
        return LandingRules.PAYLOADS if rules is UNSET else LandingRules.of(rules)

    @property
    def letters_place(self) -> str:
        """The place that its dead letters are in, see ``object_names.letters_place``."""
        places = (object_names.letters_place(o.upload.key) for o in self.before.objects)
        return next(filter(None, places), "")

    @property
    def keys(self) -> frozenset[str]:
        """The keys of the lost objects."""
        return frozenset(o.upload.key for o in self.lost)


@dataclass(frozen=True, slots=True, order=True)
class ObjectOrigin:
    """The origin of objects: the digest of a stored spec, or empty, and a generation."""

    spec: str
    generation: int


@dataclass(frozen=True, slots=True)
class Remade:
    """The result of landing lost slices again.

    Attributes:
        objects: per slot, the objects with their new uploads.
        failed: the slices that were not made again, and why: ``Stalled`` with OBJECT_LOST if they
            never can be.
        discard: uploads that are not needed.
        schemas: per slot, the ones that objects were decoded with now and not before.
    """

    objects: Mapping[int, tuple[LandedObject, ...]]
    failed: tuple[tuple[LostSlice, LandfallError], ...]
    discard: tuple[Upload, ...]
    schemas: Mapping[int, tuple[str, ...]] = field(default_factory=dict)


def by_origin(
    state: State, group: str, lost: Mapping[int, Collection[LandedObject]]
) -> dict[ObjectOrigin, dict[int, tuple[LandedObject, ...]]]:
    """Return the lost objects by what they were made by, then by slot."""
    found: defaultdict[ObjectOrigin, defaultdict[int, list[LandedObject]]]
    found = defaultdict(lambda: defaultdict(list))
    for slot, objects in sorted(lost.items()):
        for o in objects:
            generation = object_names.origin(group, o.upload.key).generation
            found[ObjectOrigin(state.specs.get(slot, ""), generation)][slot].append(o)
    return {
        origin: {slot: tuple(objects) for slot, objects in by_slot.items()}
        for origin, by_slot in found.items()
    }


def lost_slices(
    lane: Lane, state: State, lost: Mapping[int, Collection[LandedObject]]
) -> list[LostSlice]:
    """Return the slices that lost objects came from, read from the ledger; at most ``MAX_SLICES``.

    Raises:
        Retry: the store does not answer.
        Stalled: LEDGER_BROKEN, the slot is missing or decides no objects.
    """
    found: list[LostSlice] = []
    for slot, objects in sorted(lost.items()):
        by_key = {o.upload.key: o for o in objects}
        for s in _decided_slices(lane, state, slot):
            gone = tuple(by_key[o.upload.key] for o in s.objects if o.upload.key in by_key)
            if gone:
                found.append(LostSlice(slot, s, gone))
            if len(found) == MAX_SLICES:
                return found
    return found


def _decided_slices(
    lane: Lane, state: State, slot: int
) -> Sequence[LandedSlice] | Sequence[ReplayedSlice]:
    body = lane.read_slot(state, slot)
    if body is None:
        raise ledger.ledger_error(slot, "missing")
    record = ledger.decode(slot, body)
    if found := decided_slices(record):
        return found
    for effect in effects(record):
        if isinstance(effect, ObjectRestored):  # of missing objects, which are due under its slot
            return _decided_slices(lane, state, effect.due)
    raise ledger.ledger_error(slot, "should be the COMMIT or REPLAY of lost objects")


def land_again(
    batch: Batch,
    runner: BinRunner,
    lost: Sequence[LostSlice],
    topic_ids: Mapping[TopicPartition, str],
) -> list[SliceResult]:
    """Land lost slices: the ones read from the log in a job, replayed ones in another.

    All are of one origin. So no two have the same range, for a generation names no object twice.
    What was read from another group's objects, because the log had lost it, is read there again.
    Slices that were cut into objects by other rules are landed by these, in jobs of their own, and
    so are those whose dead letters were in another place. ``topic_ids`` are the ids of the members
    of the lane.
    """
    alike: defaultdict[tuple[LandingRules, str], list[LostSlice]] = defaultdict(list)
    for s in lost:
        alike[s.rules, s.letters_place].append(s)
    return [
        result
        for (rules, place), some in sorted(alike.items())
        for result in _land_alike(
            replace(batch, rules=rules, letters_place=place), runner, some, topic_ids
        )
    ]


def _land_alike(
    batch: Batch,
    runner: BinRunner,
    lost: Sequence[LostSlice],
    topic_ids: Mapping[TopicPartition, str],
) -> list[SliceResult]:
    letters = {
        s.before.piece: s.before.dead_letters for s in lost if isinstance(s.before, ReplayedSlice)
    }
    ranges = dict.fromkeys(s.before.piece for s in lost if s.before.piece not in letters)
    # The ledger has accepted their bad records already, perhaps by a decision.
    permitted = dict.fromkeys((s.topic_partition for s in lost), object_names.MAX_OFFSET)
    from_log = replace(batch, permitted=permitted, from_backup=_from_backup(lost, topic_ids))
    replayed = replace(from_log, dead_letters=tuple(letters.items()))
    return [*_run(from_log, runner, tuple(ranges)), *_run(replayed, runner, tuple(letters))]


def _from_backup(
    lost: Sequence[LostSlice], topic_ids: Mapping[TopicPartition, str]
) -> tuple[tuple[Slice, FromBackup], ...]:
    """Return the slices that another group's objects hold, each once."""
    found = {
        s.before.piece: FromBackup(s.before.read_from, topic_ids.get(s.topic_partition, ""))
        for s in lost
        if isinstance(s.before, LandedSlice) and s.before.read_from
    }
    return tuple(found.items())


def _run(batch: Batch, runner: BinRunner, pieces: Sequence[Slice]) -> list[SliceResult]:
    count = min(len(pieces), max(1, runner.slots) * BINS_PER_SLOT)
    bins: list[Bin] = [tuple(pieces[n::count]) for n in range(count)]
    return runner.run(batch, bins) if bins else []


def check_remade(
    lost: Sequence[LostSlice],
    results: Sequence[SliceResult],
    recreated: Mapping[TopicPartition, LandfallError],
) -> Remade:
    """Compare what was landed again with what was committed.

    Args:
        lost: the slices.
        results: of landing them again.
        recreated: topic partitions whose topic is not the ledger's any more; asked after the ranges
            were read. Dead letters outlive their topic. One that is denied is tried again.
    """
    # Without limits, a slice ends early only before a part of a file that cannot be read.
    by_start = {_start_of(result.piece): result for result in results}
    objects: defaultdict[int, list[LandedObject]] = defaultdict(list)
    failed: list[tuple[LostSlice, LandfallError]] = []
    kept: set[str] = set()
    schemas: defaultdict[int, set[str]] = defaultdict(set)
    for s in lost:
        # Another group keeps what it has landed, even if the topic is gone; tasks compare ids.
        is_of_log = isinstance(s.before, LandedSlice) and not s.before.read_from
        other_topic = recreated.get(s.topic_partition) if is_of_log else None
        if isinstance(other_topic, Retry | None):
            made = _check(s, by_start.get(_start_of(s.before.piece)), other_topic)
        else:  # denied: whether the topic was recreated cannot be seen
            made = other_topic
        if isinstance(made, LandfallError):
            failed.append((s, made))
            continue
        objects[s.slot] += made
        kept |= {o.upload.upload_id for o in made}
        schemas[s.slot] |= _new_schemas(s, by_start[_start_of(s.before.piece)])
    landed = (r for r in results if isinstance(r, LandedSlice))
    discard = (o.upload for r in landed for o in r.objects if o.upload.upload_id not in kept)
    by_slot = {slot: tuple(objects_of_slot) for slot, objects_of_slot in objects.items()}
    named = {slot: tuple(sorted(digests)) for slot, digests in schemas.items()}
    return Remade(by_slot, tuple(failed), tuple(discard), named)


def _start_of(piece: Slice) -> tuple[TopicPartition, int]:
    return piece.topic_partition, piece.offsets.start


def _new_schemas(lost: LostSlice, result: SliceResult) -> set[str]:
    """Schemas that only the present result was decoded with, as where a newer one is the latest."""
    now = result.schemas if isinstance(result, LandedSlice) else ()
    return {*now} - {*lost.before.schemas}


def _check(
    lost: LostSlice, result: SliceResult | None, recreated: Retry | None
) -> tuple[LandedObject, ...] | LandfallError:
    match result:
        case None:
            return Retry(f"{lost.before.piece}: the task returned nothing")
        case FailedSlice(error=error) if _can_never_be_read(error):
            return _gone(lost, str(error))
        case FailedSlice(error=error):
            # A topic that does not exist any more answers nothing, again and again.
            return _gone(lost, str(recreated)) if recreated else error
        case LandedSlice():
            return _gone(lost, str(recreated)) if recreated else _made_again(lost, result)


def _can_never_be_read(error: LandfallError) -> bool:
    """Return whether records are gone: also if the version of the file is that was landed."""
    is_for_ever = isinstance(error, Stalled) and error.reason in _FOR_EVER
    return is_for_ever or isinstance(error, PartUnreadable)


def _made_again(lost: LostSlice, result: LandedSlice) -> tuple[LandedObject, ...] | LandfallError:
    if result.piece != lost.before.piece:
        return _gone(lost, f"nothing can be read from offset {result.piece.offsets.end} on")
    made = {o.upload.key: o for o in result.objects if o.upload.key in lost.keys}
    before = {o.upload.key: _content(o) for o in lost.lost}
    if {key: _content(o) for key, o in made.items()} != before:
        return _gone(lost, "the rows differ now")
    return tuple(made.values())


def _gone(lost: LostSlice, why: str) -> Stalled:
    return Stalled(
        Reason.OBJECT_LOST,
        f"{lost.before.piece}: {sorted(lost.keys)} cannot be made again: {why}",
    )


def _content(landed: LandedObject) -> tuple[int, int, int]:
    return landed.rows, landed.first_offset, landed.last_offset


def in_generation(group: ConsumerGroup, generation: int) -> ConsumerGroup:
    """Return the group in another generation, so that a range gets the same names."""
    return group.model_copy(
        update={"spec": group.spec.model_copy(update={"generation": generation})}
    )
