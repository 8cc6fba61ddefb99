"""Readers in the middle of a schedule: by the ledger, as another group's source, and by listings.

Whoever reads the ledger finds at any moment each record in one object of data at most, every object
that counts in its place, and every record again that anybody has found there before. Another group
that reads this one as a log finds of each range just its records. Who lists the bucket page by
page, for less than the grace period, finds each record in an object that is there to be opened: old
and new ones perhaps, but never neither. ``fsck`` finds nothing at any moment.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import chain, count
from typing import TYPE_CHECKING

from landfall.api.contract import LANE
from landfall.cli.group_store import GroupStore
from landfall.cli.objects.fsck import examine
from landfall.landed import pieces
from landfall.landed.history import History, Life
from landfall.lane import Lane
from landfall.lane.replacements import read_replaced
from landfall.ledger import Lost, Replace, Replay
from landfall.ledger.effects import applied
from landfall.ledger.names import object_names
from landfall.ledger.offsets import OffsetRange, Slice
from landfall.ledger.task_results import LandedObject, ObjectKind
from tests.crashes.judge import Offsets, folded_records
from tests.crashes.merging import rows_of
from tests.crashes.scheduler import Owner
from tests.support.ledger.merged import current

if TYPE_CHECKING:
    from tests.crashes.pairs import PairSchedule

LOOKS = 2
"""How many of a schedule's events are readers of each kind."""
PAGE, ANSWERS, OPENS = 2, 0.1, 0.005
"""How many keys a page of a listing has, how often a lister gets its next answer between two steps
(a page, or one of the listed objects, which it opens one after the other), and how often it begins
to open them. Most take somewhat less than the grace period.
"""


class Readers:
    """The readers of a schedule.

    Attributes:
        wrong: what they have found that must not be.
        read_as_log: how often another group has read this one.
        listings: how many listings were shorter than the grace period.
    """

    def __init__(self, schedule: "PairSchedule") -> None:
        self._schedule = schedule
        self.wrong: list[str] = []
        self.read_as_log = self.listings = 0
        self._seen = Offsets()
        self._numbers = count(1)

    def events(self) -> Iterable[Callable[[], object]]:
        """What may happen between two steps."""
        return [self._read_ledger, self._read_as_log, self.start_listing, self._check] * LOOKS

    # -------------------------------------------------------------------------------- by the ledger

    def _read_ledger(self) -> None:
        schedule = self._schedule
        with schedule.judging():
            counting = self._counting()
            gone = self._may_be_gone()
            data, rows = Offsets(), Offsets()
            for landed in counting:
                upload = landed.upload
                found = schedule.store.stat(upload.key)
                if found is None or found.token != upload.token:
                    if upload.key not in gone:
                        self._note(f"{upload.key} counts, and is not there")
                    continue
                of_object = self._rows(upload.key, upload.token)
                rows |= of_object
                if landed.kind is ObjectKind.DATA:
                    data += of_object
            vanished = self._seen.keys() - rows - rows_of(schedule.rows, gone)
        if twice := data - Counter(data.keys()):
            self._note(f"by the ledger these rows count twice: {sorted(twice)}")
        if vanished:
            self._note(f"by the ledger these rows counted, and do not: {sorted(vanished)}")
        self._seen |= rows

    @property
    def _lane(self) -> Lane:
        """The lane, read by threads that are not the scheduler's: it is about to choose one."""
        return Lane(self._schedule.store, self._schedule.lane.group, LANE)

    def _counting(self) -> list[LandedObject]:
        _, found = current(self._lane)
        return [retiring.landed for retiring, _ in found.values()]

    def _may_be_gone(self) -> set[str]:
        """What was given up, and dead letters that were replayed, or may have expired."""
        schedule, found = self._schedule, set[str]()
        for _, record in folded_records(schedule):
            match record:
                case Lost(objects=objects):
                    found |= {each.upload.key for each in objects}
                case Replay(slices=slices):
                    found |= {each.dead_letters for each in slices}
                case _:
                    pass
        if not schedule.has_one_time:
            found |= {key for key, _ in schedule.rows.of if "/dead-letters" in key}
        return found

    def _rows(self, key: str, token: str) -> Offsets:
        partition = object_names.origin(self._schedule.lane.group, key).partition
        return self._schedule.rows.records((key, token), partition)

    def _note(self, what: str) -> None:
        self._schedule.say(f"WRONG: {what}")
        self.wrong.append(f"step {self._schedule.steps}: {what}")

    def _check(self) -> None:
        """Let ``fsck`` look."""
        schedule = self._schedule
        with schedule.judging():
            report = examine(GroupStore(schedule.group(1), schedule.store), deep=False)
        for finding in report.findings:
            self._note(f"fsck finds {finding}")

    # ------------------------------------------------------------------- as another group's source

    def _read_as_log(self) -> None:
        schedule = self._schedule
        with schedule.judging():
            history, gone = History(self._lane, schedule.store.stat), self._may_be_gone()
            history.follow()
            for tp in sorted(history.state.members):
                life = history.life(tp)
                if life is not None and life.start < life.end:
                    start = schedule.dice.randrange(life.start, life.end)
                    slice_ = Slice(tp, OffsetRange(start, life.end))
                    self._check_held(slice_, self._held(history, slice_, life), gone)
                    self.read_as_log += 1

    @staticmethod
    def _held(history: History, slice_: Slice, life: Life) -> pieces.RangeContents:
        """What holds a slice, but for how it was landed: no task reads what fakes have written."""
        records = history.records(slice_.topic_partition, life, slice_.offsets)
        replaces = (record for record in records if isinstance(record, Replace))
        lists = {
            each.header.seq: read_replaced(history.lane.slots, each.header.seq, each.listed)
            for each in applied(replaces, history.state.applied_through)
        }
        return pieces.held(pieces.counting(history.lane.group, slice_, records, lists))

    def _check_held(self, slice_: Slice, held: pieces.RangeContents, gone: set[str]) -> None:
        """Note what is not just once in the objects that hold a slice up to its end."""
        found = Counter[int]()
        for piece in held.pieces:
            stat = self._schedule.store.stat(piece.key)
            if stat is None and piece.key not in gone:
                self._note(f"{piece.key} holds {slice_}, and is not there")
            version = piece.key, stat.token if stat else piece.landed.upload.token
            _, offsets = self._schedule.rows.of.get(version, ("", ()))
            rows = piece.rows or ((0, len(offsets)),)
            found.update(chain.from_iterable(offsets[first:end] for first, end in rows))
        wanted = Counter(range(slice_.offsets.start, held.end))
        within = Counter({o: n for o, n in found.items() if o in wanted})
        given_up = {
            offset
            for key, token in self._schedule.rows.of
            if key in gone
            for offset in self._schedule.rows.of[key, token][1]
        }
        missing = sorted(o for o in wanted - within if o not in given_up)
        if missing or (within - wanted):
            self._note(f"as a log, {slice_} lacks {missing} and has twice {within - wanted}")

    # ---------------------------------------------------------------------------------- by listings

    def start_listing(self) -> None:
        """Let one more list, if old objects have a grace period."""
        schedule = self._schedule
        if schedule.keep and schedule.has_one_time:
            owner = Owner(f"L{next(self._numbers)}")
            schedule.say(f"{owner.name} begins to list")
            schedule.scheduler.spawn(owner, "lister", self._list)

    def _list(self) -> None:
        schedule, began = self._schedule, self._schedule.clock()
        with schedule.judging():
            objects = [each for each in self._counting() if each.kind is ObjectKind.DATA]
            keys = [(each.upload.key, each.upload.token) for each in objects]
            wanted = Counter(chain.from_iterable(self._rows(*key) for key in keys))
        last, listed = "", list[str]()
        while page := self._page(last):
            listed, last = [*listed, *page], page[-1]
            schedule.pause(ANSWERS)
        schedule.pause(OPENS)
        there, rows = schedule.watched._objects, Offsets()
        for key in listed:
            if key in there:
                rows += self._rows(key, there[key].token)
            schedule.pause(ANSWERS)
        if (schedule.clock() - began).total_seconds() < schedule.keep:
            self.listings += 1
            if neither := wanted - rows:
                self._note(f"who lists for a moment misses {sorted(neither)}")

    def _page(self, after: str) -> list[str]:
        keys = self._schedule.watched._objects
        return sorted(k for k in keys if k > after and not object_names.is_system_key(k))[:PAGE]
