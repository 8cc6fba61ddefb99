"""What counts at the end of a ledger with REPLACEs, and merges of it."""

import re
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from landfall.driver.core.planned_replacement import NoPlanner, PlannedReplacement
from landfall.lane import Lane
from landfall.lane.replacements import read_replaced
from landfall.ledger import Purpose, State
from landfall.ledger.names import object_names
from landfall.ledger.replace.replacement_lists import NewObject, ReplacementList, Section
from landfall.ledger.task_results import DecidedObject, LandedObject
from landfall.objects import Upload
from landfall.store import Store

Current = tuple[DecidedObject, tuple[Section, ...]]
"""An object that counts, and what it holds."""

_OF_REPLACE = re.compile("r[0-9]{10,}_")


def current(lane: Lane) -> tuple[State, dict[str, Current]]:
    """The objects that count at the end of a ledger, by key.

    Raises:
        Retry: the store does not answer.
        Stalled: the ledger is broken, or was rolled up while it was read.
    """
    state, found = State(), dict[str, Current]()
    for after, visible in lane.folded(state):
        state = after
        for landed, due in zip(visible.objects, visible.due, strict=True):
            partition = object_names.origin(lane.group, landed.upload.key).partition
            offsets = landed.first_offset, landed.last_offset
            section = Section(partition, landed.rows, *offsets)
            found[landed.upload.key] = DecidedObject(due, landed), (section,)
        for slot, named in visible.replacements:
            listed = read_replaced(lane.slots, slot, named)
            for retiring in listed.retire:
                found.pop(retiring.landed.upload.key, None)
            for new in listed.objects:
                found[new.landed.upload.key] = DecidedObject(slot, new.landed), new.sections
    return state, found


def merged(
    store: Store, token: str, plan: int, chosen: Iterable[Current], folder: str = ""
) -> NewObject:
    """The rows of objects in one, by the order of their offsets; its upload is not completed.

    It is in the folder of the first of them, or in another one.
    """
    some = sorted(chosen, key=lambda each: each[0].landed.first_offset)
    objects = [each.landed for each, _ in some]
    own, name = objects[0].upload.key.rsplit("/", 1)
    key, bodies = object_names.renamed(f"{folder or own}/{name}", plan), list[bytes]()
    for landed in objects:
        with store.open(landed.upload.key) as stream:
            bodies.append(stream.read())
    upload_id = store.begin(key, token)
    body = b"".join(bodies)
    part = store.put_part(key, upload_id, 1, body)
    landed = LandedObject(
        Upload(key, upload_id, (part,), token),
        objects[0].kind,
        sum(each.rows for each in objects),
        objects[0].first_offset,
        objects[-1].last_offset,
        zlib.crc32(body),
    )
    return NewObject(landed, tuple(s for _, sections in some for s in sections))


def planned(
    group: str, token: str, plan: int, merges: Sequence[Sequence[Current]], new: Sequence[NewObject]
) -> PlannedReplacement:
    """The plan in which new objects take the place of those that they were merged of."""
    retire = [each for some in merges for each, _ in some]
    listed = ReplacementList(
        tuple(sorted(retire, key=lambda each: each.landed.upload.key)),
        tuple(sorted(new, key=lambda each: each.landed.upload.key)),
    )
    return PlannedReplacement.of(group, token, Purpose.COMPACT, listed, plan)


@dataclass
class MergesOnce(NoPlanner):
    """A planner that merges once, as soon as it may, all that counts.

    Attributes:
        store: where the objects are.
        lane: the ledger.
        may: whether it may.
        slot: of the REPLACE, once it is recorded.
        refusals: why a plan was not recorded.
    """

    store: Store
    lane: Lane
    may: bool = False
    slot: int = -1
    refusals: list[str] = field(default_factory=list)

    def take(self) -> PlannedReplacement | None:
        if not self.may:
            return None
        self.may = False
        state, found = current(self.lane)
        by = state.applied_through
        new = merged(self.store, f"merge-{by}", by, found.values())
        return planned(self.lane.group, f"merge-{by}", by, [[*found.values()]], [new])

    def recorded(self, _: PlannedReplacement, slot: int) -> None:
        self.slot = slot

    def refused(self, _: PlannedReplacement, why: str) -> None:
        self.refusals.append(why)

    def gave_way(self, _: PlannedReplacement) -> None:
        """See ``Planner``."""
        self.refusals.append("gave way")


def is_of_replace(key: str) -> bool:
    """Whether the name of an object says that it replaces others."""
    return _OF_REPLACE.match(key.rpartition("/")[2]) is not None
