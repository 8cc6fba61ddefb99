"""Objects that retired come back as copies under new names, by a REPLACE of their own.

Under the old name, a driver that was frozen could delete what was brought back. New names hold the
slot up to which the ledger was read (``object_names``), and copies are uploaded before anything is
recorded, so that what is kept may expire then.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass

from msgspec.structs import replace

from landfall.driver.core.planned_replacement import PlannedReplacement
from landfall.errors import LandfallError, Reason, Stalled
from landfall.lane import Lane
from landfall.lane.replacements import read_replace
from landfall.ledger import Purpose, State
from landfall.ledger.names import object_names
from landfall.ledger.replace.replacement_lists import NewObject, ReplacementList, Section
from landfall.ledger.task_results import DecidedObject, LandedObject
from landfall.objects import Upload, is_made_by
from landfall.store import Store
from landfall.store.copying import copied

AHEAD = 64
"""Copies that are begun before the first of them is waited for."""

_Contents = tuple[tuple[Section, ...], bool, bool]
"""Sections of an object, and whether they are mixed and sorted."""
WhereKept = Callable[[str], str]
"""The key of the object that has the content of one with a former key."""


@dataclass(frozen=True)
class Restoring:
    """Makes copies of objects under new names.

    Attributes:
        store: where everything is.
        lane: the ledger.
        state: of the lane, as it was read for this.
        token: what is in the metadata of each copy.
        read_through: see ``PlannedReplacement``.
    """

    store: Store
    lane: Lane
    state: State
    token: str
    read_through: int

    def planned(
        self,
        retire: Sequence[DecidedObject],
        back: Sequence[DecidedObject],
        where: WhereKept,
        pool: Executor,
    ) -> PlannedReplacement:
        """Copy objects that are to come back, and plan their REPLACE; nothing is recorded.

        Args:
            retire: the objects that they replace.
            back: the objects that come back.
            where: from which objects they are copied.
            pool: makes the copies.

        Raises:
            Retry: the store does not answer.
            Stalled: OBJECT_LOST, what is to be copied is gone; LEDGER_BROKEN.
        """
        sections = self._sections(back)
        made = self._copies(back, where, pool)
        new = [
            NewObject(replace(object_.landed, upload=upload), *sections[object_.key])
            for object_, upload in zip(back, made, strict=True)
        ]
        listed = ReplacementList(
            tuple(sorted(retire, key=lambda each: each.key)),
            tuple(sorted(new, key=lambda each: each.key)),
        )
        return PlannedReplacement.of(
            group=self.lane.group,
            token=self.token,
            purpose=Purpose.UNDO,
            listed=listed,
            read_through=self.read_through,
        )

    def _copies(
        self, back: Sequence[DecidedObject], where: WhereKept, pool: Executor
    ) -> list[Upload]:
        made = list[Upload]()
        try:
            for start in range(0, len(back), AHEAD):
                some = (object_.landed for object_ in back[start : start + AHEAD])
                made += pool.map(lambda landed: self._copy(landed, where), some)
        except LandfallError:
            for upload in made:  # uploads begun alongside are left to the sweep of orphans
                with suppress(LandfallError):
                    self.store.abort(upload.key, upload.upload_id)
            raise
        return made

    def _copy(self, landed: LandedObject, where: WhereKept) -> Upload:
        before = landed.upload
        source, key = where(before.key), object_names.renamed(before.key, self.read_through)
        for place in self._places(before, source):
            with suppress(FileNotFoundError):
                return copied(
                    store=self.store, source=place, size=before.size, key=key, token=self.token
                )
        raise Stalled(Reason.OBJECT_LOST, f"{source}: the copy of {before.key} is gone")

    def _places(self, before: Upload, source: str) -> Iterator[str]:
        """Return where an object's content is: kept, or still in its place while it retires."""
        yield source
        if is_made_by(before, self.store.stat(before.key)):
            yield before.key
        yield source  # it was copied and deleted in between

    def _sections(self, back: Iterable[DecidedObject]) -> Mapping[str, _Contents]:
        """Return the contents of objects, by key: for merged ones, as their lists record."""
        found, read = dict[str, _Contents](), set[int]()
        for object_ in back:
            key, landed = object_.key, object_.landed
            origin = object_names.origin(self.lane.group, key)
            whole = Section.of(origin.partition, landed)
            found.setdefault(key, ((whole,), False, False))
            if origin.plan >= 0 and object_.slot not in read:
                read.add(object_.slot)
                for new in read_replace(self.lane, self.state, object_.slot)[1].objects:
                    found[new.key] = new.sections, new.mixed, new.sorted
        return found
