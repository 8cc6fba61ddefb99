"""Tables of BigQuery: each load is decided in the table's chain, then run by one job.

A table that is gone is loaded again from the start. Only such a load creates a table, so a table
dropped while a load runs is noticed, and not started in the middle.

Objects of one schema are loaded together: BigQuery takes the schema of a load from the last file by
name ("Loading Avro data from Cloud Storage", "Schema auto-detection"). Objects that a job failed on
are held; loading continues with the table's other objects.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from landfall.errors import DestinationAway, Reason, Stalled
from landfall.publish import Stretch
from landfall.publish.bigquery import loads
from landfall.publish.bigquery.chain import Chains, TableChain
from landfall.publish.bigquery.loads import (
    Begin,
    Head,
    Intent,
    LoadedObject,
    LoadLimits,
    LoadOutcome,
    LoadPosition,
    Trouble,
)
from landfall.publish.bigquery.running import JobRunner
from landfall.publish.replaced_files import PartlyLeftOut
from landfall.publish.table_position import NONE
from landfall.publish.tables import Next

MAX_AHEAD = 10_000
"""How many objects are loaded after one that is held, at least; each load names them."""
KindsOf = Callable[[Sequence[LoadedObject]], Sequence[str]]
"""Returns for each object the kind that it shares with all that one job may load with it."""


@dataclass(frozen=True)
class LoadSettings:
    """Settings recorded with a load.

    Attributes:
        project: that runs the jobs.
        limits: of one load.
        kinds_of: see there.
        start: finds the slot that the first loads follow, while it is undecided.
    """

    project: str
    limits: LoadLimits
    kinds_of: KindsOf
    start: Callable[[], int]


@dataclass(frozen=True)
class LoadedTables:
    """See ``Tables``. A publisher has one; its methods may be called by several threads.

    Attributes:
        chains: of the publisher.
        runner: runs the jobs.
        settings: see there.
    """

    chains: Chains
    runner: JobRunner
    settings: LoadSettings
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def through(self, table: str) -> int:
        """See ``Tables``. It decides nothing: a preview asks for it, too."""
        begin = self.chains.begin()
        if begin is None:
            return self.settings.start()
        chain = self.chains.of(begin, table)
        return self._position(chain, table, chain.head()).through

    def append(self, table: str, after: Next) -> int:
        """See ``Tables``."""
        chain = self._chain(table)
        while True:
            head = chain.head()
            if head.intent:
                _raise_if_failed(self.runner.finish(chain, head.intent))
                continue
            trouble = head.outcome.trouble
            if trouble and trouble.passes and not trouble.is_over(self._now()):
                raise DestinationAway(f"BigQuery: {trouble.message}; it is tried again later")
            position = self._position(chain, table, head)
            new, through = _new(after, position)
            if not new:
                return through
            chosen = self._chosen(new, position, trouble)
            rest = {object_.id for object_ in new}.difference(object_.id for object_ in chosen)
            then = loads.position_after(position, chosen, rest, through)
            chain.propose(self._intent(chain, table, head, (chosen, position, then)))

    def refill(self, table: str, stretch: Stretch) -> None:  # noqa: ARG002  # by later loads
        """See ``Tables``. The rows stay until the next load replaces them."""
        chain = self._chain(table)
        start = LoadPosition(chain.begin.after)
        while True:
            head = chain.head()
            if head.intent:
                self.runner.give_up(chain, head.intent)
            elif not head.number or (head.outcome.replace_next and head.outcome.position == start):
                return
            else:
                chain.propose(self._intent(chain, table, head, ((), start, start)))

    def _chain(self, table: str) -> TableChain:
        return self.chains.of(self.begin(), table)

    def begin(self) -> Begin:
        """Return the beginning of the publisher's chains; decide it now if it is undecided.

        Raises:
            Retry, Stalled: as of ``Chains.begin``, and of finding the start.
        """
        with self._lock:
            begin = self.chains.begin() or self.chains.begin(self.settings.start())
        if begin is None:
            raise DestinationAway("the beginning of the loads cannot be read")
        return begin

    def _position(self, chain: TableChain, table: str, head: Head) -> LoadPosition:
        """The position of a table; the start if the table is gone."""
        start = chain.begin.after
        position = head.intent.before if head.intent else head.outcome.position
        if (position.through > start or position.ahead) and not self._exists(table):
            return LoadPosition(start)
        return position

    def _exists(self, table: str) -> bool:
        return self.runner.warehouse.exists(table)

    def _chosen(
        self, new: Sequence[LoadedObject], position: LoadPosition, trouble: Trouble | None
    ) -> tuple[LoadedObject, ...]:
        """The objects of the next load: some not held, or held ones if it is time.

        Held ones if all are held, or so many objects are loaded after them that no more may be.

        Raises:
            Stalled: these are held, and it is too early to retry.
        """
        ids = {*position.held}
        held = [object_ for object_ in new if object_.id in ids]
        free = [object_ for object_ in new if object_.id not in ids]
        if held and len(position.ahead) >= MAX_AHEAD:
            free = []
        if not free and trouble and not trouble.is_over(self._now()):
            raise Stalled(Reason.DESTINATION_CONFLICT, f"BigQuery: {trouble.message}")
        candidates = free or held
        kinds = self.settings.kinds_of(candidates)
        alike = [
            object_ for object_, kind in zip(candidates, kinds, strict=True) if kind == kinds[0]
        ]
        return loads.without_excess(alike, self.settings.limits)

    def _intent(
        self,
        chain: TableChain,
        table: str,
        head: Head,
        what: tuple[tuple[LoadedObject, ...], LoadPosition, LoadPosition],
    ) -> Intent:
        objects, before, after = what
        return Intent(
            table=table,
            number=head.number + 1,
            objects=objects,
            before=before,
            after=after,
            replaces=head.outcome.replace_next,
            creates=before.through == chain.begin.after and not before.ahead,
            project=self.settings.project,
            location=self.runner.warehouse.location(table.rpartition(".")[0]),
            time=self._now(),
            trouble=head.outcome.trouble,
        )

    def _now(self) -> datetime:
        return self.runner.schedule.now()


def _new(after: Next, position: LoadPosition) -> tuple[list[LoadedObject], int]:
    """Return the next objects that a table lacks, and the slot through which these are all.

    If all that it lacks of a stretch are held, the search continues with the next stretch.

    Raises:
        Stalled: DESTINATION_CONFLICT, an object that the table has was replaced.
        PartlyLeftOut: the next object has rows that are left out, and other ones.
    """
    ahead, held = {*position.ahead}, {*position.held}
    new, through = list[LoadedObject](), position.through
    while True:
        stretch = after(through)
        objects = _wanted(stretch)
        there = {id_ for id_ in ahead if through < id_.slot <= stretch.through}
        if through == NONE and not there <= {object_.id for object_ in objects}:
            # At NONE nothing of a table can be replaced, but this one has objects ahead of it. Slot
            # 0 is the first OPEN, which makes nothing visible.
            after(0)
        through = max(through, stretch.through)
        new += [object_ for object_ in objects if object_.id not in ahead]
        is_enough = new and len(ahead) + len(new) >= MAX_AHEAD
        if not stretch.objects or is_enough or any(object_.id not in held for object_ in new):
            break
    return new, through


def _wanted(stretch: Stretch) -> list[LoadedObject]:
    """The objects of a stretch without what the publisher leaves out.

    Raises:
        PartlyLeftOut: one has rows of both.
    """
    if stretch.mixed:
        raise PartlyLeftOut(min(stretch.mixed))
    return [LoadedObject.of(o) for o in stretch.objects if o.key not in stretch.unwanted]


def _raise_if_failed(outcome: LoadOutcome) -> None:
    trouble = outcome.trouble
    if trouble and trouble.passes:
        raise DestinationAway(f"BigQuery: {trouble.message}")
