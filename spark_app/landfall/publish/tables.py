"""Publishes objects to the tables of a destination, each object exactly once.

A table stores its position, and changes it in the same transaction as its rows. That position alone
decides what is new for it. The cursor in the store saves reading the ledger from its start, and
knows for each table the last slot with objects of it: a table whose position is before that was
dropped, or restored to an earlier state, and is filled again from its own position.

Where objects were replaced, a table that can follow replacements removes the old ones and adds the
new ones in one transaction. A table that cannot stalls until it is rebuilt: after a rebuild it
never loads objects that were replaced before, and loads their replacements.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

from landfall.errors import LandfallError, Reason, Retry, Stalled
from landfall.ledger.task_results import DecidedObject, LandedObject
from landfall.publish import (
    DueObjects,
    Hold,
    Published,
    ReplacedObjects,
    Stretch,
    VisibleObject,
)
from landfall.publish.choice import TableChoice
from landfall.publish.context import Context
from landfall.publish.cursor import Position, PublisherCursor
from landfall.publish.following import Follower
from landfall.publish.health import Details, Question, Retained, TableHealth
from landfall.publish.table_position import NONE

Next = Callable[[int], Stretch]
"""Returns the next stretch for a table, by its position."""
TableOf = Callable[[LandedObject], str | None]
"""The name of an object's table; None if it belongs to none."""
HoldOf = Callable[[str, DueObjects, datetime], Hold | None]
"""Returns why a table needs replaced objects still; see ``HoldsObjects``. None: it does not."""
DetailsOf = Callable[[str, Question], Details | None]
"""Returns what a destination shows of a table, for the REPLACEs of its own objects; None if the
table does not exist.
"""

TOLERATED_SILENCE = 2
"""The number of tables in a row without an answer that ends a pass."""


class Tables(Protocol):
    """The tables of a destination."""

    def through(self, table: str) -> int:
        """The position of a table; -1 if it has none, or does not exist.

        Raises:
            Retry: the destination does not answer.
        """
        ...

    def append(self, table: str, after: Next) -> int:
        """Append what comes next for a table, if there is anything; returns its position then.

        The table is read, and ``after`` is asked by the position that it has now. The objects and
        the new position become part of the table in one transaction, which fails if the table
        changed since it was read; then it is read again. A table that does not exist is created.
        Where replacements are followed, the same transaction removes the old objects of
        ``replaced``, as far as the table has them. None of them are among ``objects``.

        Raises:
            Retry: the destination does not answer, or the outcome is unknown; again is safe.
            Stalled: the objects do not fit the table, and a user has to change something.
        """
        ...

    def refill(self, table: str, stretch: Stretch) -> None:
        """Replace everything that is published in a table by these objects, in one transaction.

        Its position is the end of the stretch. A table that does not exist is created if there are
        objects for it. A destination that takes rows later than that keeps the old ones until
        then, and its position is the start.

        Raises:
            Retry: the destination does not answer; again is safe.
            Stalled: the objects do not fit each other or the table, which is as it was.
        """
        ...


def keeps_files(option: bool | None, context: Context) -> bool:  # noqa: FBT001  # of a publisher
    """Return whether earlier versions of tables keep their files, by the option ``keepFiles``.

    Without the option: if no reader of the group lists folders, where such files would be rows that
    count twice.
    """
    return context.group.spec.has_readers_of_tables if option is None else option


@dataclass
class _Failures:
    """Tables that could not be brought up to date while the remaining ones were.

    The cursor advances all the same: it knows the last slot of each table, so that the next pass
    begins with what they lack.
    """

    tolerated: int = TOLERATED_SILENCE
    found: list[LandfallError] = field(default_factory=list)
    unanswered: int = 0

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Continue after an error of one table.

        Raises:
            Retry: nor did the preceding tables answer: the destination is away.
        """
        try:
            yield
        except Stalled as error:
            self.found.append(error)
            self.unanswered = 0
        except Retry as error:
            self.found.append(error)
            self.unanswered += 1
            if self.unanswered >= self.tolerated:
                raise
        else:
            self.unanswered = 0

    def check(self) -> None:
        """Raise an error if there is any, first one that a user must act on."""
        for error in sorted(self.found, key=lambda error: not isinstance(error, Stalled)):
            raise error


@dataclass(frozen=True)
class TablePublisher:
    """Publishes the visible objects of a ledger to tables; see ``Publisher``.

    A table that cannot be brought up to date does not block the other tables.

    Attributes:
        new_follower: follows the ledger.
        cursor: the hint at the position.
        tables: where to.
        table_of: the table of an object.
        workers: how many tables are appended to at once; ``tables`` must be thread-safe for it.
        follows_replacements: whether ``tables`` remove replaced objects.
        choice: of the objects to publish.
        hold_of: why a table needs replaced objects still; None if earlier versions of tables may
            name objects that are deleted.
        details_of: what the destination shows of a table; None if it shows nothing.
    """

    new_follower: Callable[[], Follower]
    cursor: PublisherCursor
    tables: Tables
    table_of: TableOf
    workers: int = 1
    follows_replacements: bool = False
    choice: TableChoice = field(default_factory=TableChoice)
    hold_of: HoldOf | None = None
    details_of: DetailsOf | None = None

    def publish(self, follower: Follower) -> Published:
        """See ``Publisher``."""
        at = self.cursor.read()
        done = Published(at.published)
        failures = _Failures(TOLERATED_SILENCE * self.workers)
        nothing = _TablePart(Stretch(at.through, at.through, ()), at)
        reached: list[int] = [at.through]
        lacking = dict(at.lacking)

        def refill(table: str) -> None:
            reached.append(through := self.tables.through(table))
            if through < at.tables[table]:
                lacking[table] = through
                if self._append(table, nothing)[1]:
                    done.refilled.append(table)
            lacking.pop(table, None)

        self._for_each(at.tables, refill, failures)
        if lacking != at.lacking:
            at = replace(at, lacking=dict(lacking))
            self.cursor.write(at)
            done.through = at.published
        if max(reached) > at.through:  # by another publisher, or of another ledger
            self.new_follower().check(max(reached))
        for stretch in follower.remaining(at.through):
            by_table = self._by_table(stretch, at.emptied)
            objects, nothing_in = self._append_all(by_table, at, failures, lacking)
            done.objects += objects
            by_table = {name: part for name, part in by_table.items() if name not in nothing_in}
            at = replace(
                at,
                through=stretch.through,
                tables={**at.tables, **{name: _last_slot(part) for name, part in by_table.items()}},
                lacking=dict(lacking),
            )
            self.cursor.write(at)
            done.through = at.published
            done.slots += stretch.through - stretch.after
        failures.check()
        return done

    def _append_all(
        self,
        parts: Mapping[str, Stretch],
        at: Position,
        failures: _Failures,
        lacking: dict[str, int],
    ) -> tuple[int, Collection[str]]:
        """Append parts of a stretch to their tables.

        ``lacking`` has the tables that do not have their part then; see ``Position``.

        Returns:
            The number of objects, and the tables that have nothing, as all of theirs are left out.
        """
        counts: list[int] = []
        empty: list[str] = []

        def append(table: str) -> None:
            lacking.setdefault(table, parts[table].after)
            reached, found = self._append(table, _TablePart(parts[table], at))
            del lacking[table]
            if reached == NONE and not found:
                empty.append(table)
            else:
                counts.append(len(parts[table].objects))

        self._for_each(parts, append, failures)
        return sum(counts), empty

    def _for_each(
        self, tables: Iterable[str], bring: Callable[[str], None], failures: _Failures
    ) -> None:
        def kept(table: str) -> None:
            with failures.kept():
                bring(table)

        if self.workers == 1:
            for table in tables:
                kept(table)
            return
        with ThreadPoolExecutor(self.workers) as pool:
            for _ in pool.map(kept, tables):
                pass

    def position(self) -> int:
        """See ``Publisher``. A failed table holds it back: it may still name replaced objects."""
        return self.cursor.read().published

    def hold(self, due: DueObjects, now: datetime) -> Hold | None:
        """See ``HoldsObjects``: of several tables that need the objects, the longest hold."""
        if self.hold_of is None:
            return None
        holds = [self.hold_of(table, part, now) for table, part in self._due_by_table(due).items()]
        return _longest(holds)

    def _due_by_table(self, due: DueObjects) -> dict[str, DueObjects]:
        of_table: dict[str, list[DecidedObject]] = {}
        for object_ in due.objects:
            if table := self.table_of(object_.landed):
                of_table.setdefault(table, []).append(object_)
        return {table: replace(due, objects=tuple(objects)) for table, objects in of_table.items()}

    def health(self, follower: Follower, question: Question) -> Iterator[TableHealth]:
        """See ``HasTables``."""
        at = self.cursor.read()
        failures = _Failures(TOLERATED_SILENCE * self.workers)
        retired = dict[str, list[DueObjects]]()
        for due in question.retired:
            for table, objects in self._due_by_table(due).items():
                retired.setdefault(table, []).append(objects)

        def look(table: str) -> TableHealth:
            asked = replace(question, retired=tuple(retired.get(table, ())))
            found = list[TableHealth]()
            with failures.kept():
                found.append(self._look(table, at, asked))
            if found:
                return found[0]
            error = failures.found[-1]
            return TableHealth(
                table,
                at.lacking.get(table, at.through),
                retained=_retained(asked.retired, ()),
                failed=table in at.lacking,
                error=str(error),
                needs_action=isinstance(error, Stalled),
            )

        found = {table: look(table) for table in at.tables}
        end = start = min((at.through, *(table_health.slot for table_health in found.values())))
        for stretch in follower.remaining(start):
            end = stretch.through
            for table, part in self._by_table(stretch, at.emptied).items():
                seen = found.get(table) or look(table)
                found[table] = _lacking(seen, self._waiting(part, seen.slot))
        for _, table_health in sorted(found.items()):
            yield (
                table_health
                if table_health.lacks_any or table_health.error
                else replace(table_health, slot=end)
            )

    def _look(self, table: str, at: Position, question: Question) -> TableHealth:
        """The state of a table at its own position; see ``_lacking``."""
        through = self.tables.through(table)
        details = self.details_of(table, question) if self.details_of else None
        has_all = table in at.tables and through >= at.tables[table]
        return TableHealth(
            table,
            slot=max(through, at.through) if has_all else through,
            retained=_retained(question.retired, details.holds if details else ()),
            exists=details is not None if self.details_of else None,
            details=details,
            failed=table in at.lacking,
        )

    def preview(self, follower: Follower) -> Iterator[str]:
        """See ``Publisher``."""
        at = self.cursor.read()
        for table, last in at.tables.items():
            if (through := self.tables.through(table)) < last:
                yield f"table {table}: fill again from slot {through + 1} through {last}"
        for stretch in follower.remaining(at.through):
            for table, part in self._by_table(stretch, at.emptied).items():
                left = self._waiting(part, self.tables.through(table))
                new = left.objects
                if not self.follows_replacements and (first := _may_have(left)):
                    yield str(_cannot_follow(table, first))
                elif new:
                    rows, slots = sum(o.landed.rows for o in new), f"{new[0].slot}-{new[-1].slot}"
                    yield f"table {table}: append {len(new)} objects, {rows} rows, slots {slots}"

    def reset(self, follower: Follower) -> None:
        """See ``Publisher``. A table that cannot be filled again is as it was."""
        objects: dict[str, dict[str, VisibleObject]] = {}
        last = Stretch(-1, -1, ())
        for stretch in follower.remaining(-1):
            for table, part in self._by_table(stretch, -1).items():
                known = objects.setdefault(table, {})
                # They may have been replaced since the ledger was read for an earlier stretch.
                for key in (
                    o.upload.key for replacement in part.replaced for o in replacement.retired
                ):
                    known.pop(key, None)
                known |= {object_.key: object_ for object_ in part.objects}
            last = stretch
        failures = _Failures(TOLERATED_SILENCE * self.workers)

        def refill(table: str) -> None:
            found = self.choice.chosen(objects.get(table, {}).values())
            through = last.through if found else -1
            self.tables.refill(table, Stretch(-1, through, found, ended=last.ended))

        self._for_each({**self.cursor.read().tables, **objects}, refill, failures)
        failures.check()
        self.cursor.write(Position(emptied=last.through))

    def _by_table(self, stretch: Stretch, emptied: int) -> dict[str, Stretch]:
        """The parts of a stretch, by the table that they concern.

        ``replaced`` has the objects to be removed from a table, or that may have been in it.
        """
        objects = self._tables_of(stretch.objects)
        left_out = self._tables_of(stretch.left_out)
        concerned = (r for r in stretch.replaced if self.follows_replacements or r.slot > emptied)
        replaced = [self._retired_by_table(replacement) for replacement in concerned]
        names = dict.fromkeys((*objects, *(name for tables in replaced for name in tables)))
        return {
            name: replace(
                stretch,
                objects=tuple(objects.get(name, ())),
                finished=(),
                replaced=tuple(tables[name] for tables in replaced if name in tables),
                left_out=tuple(left_out.get(name, ())),
            )
            for name in names
        }

    def _tables_of(self, objects: Iterable[VisibleObject]) -> dict[str, list[VisibleObject]]:
        found: dict[str, list[VisibleObject]] = {}
        for object_ in objects:
            table = self._table(object_.landed)
            # Of an object that replaces objects, see ``TableChoice.chosen`` and ``marked``.
            if table and (object_.sources or object_.decided >= self.choice.start):
                found.setdefault(table, []).append(object_)
        return found

    def _table(self, landed: LandedObject) -> str | None:
        return None if landed.key in self.choice.skip else self.table_of(landed)

    def _retired_by_table(self, replaced: ReplacedObjects) -> dict[str, ReplacedObjects]:
        """Return the replaced objects of each table; the new ones are in the stretch's objects.

        What is skipped is among them: the table may have it from before, and new ones may have it.
        """
        found: dict[str, list[LandedObject]] = {}
        table_of = self.table_of if self.follows_replacements else self._table
        for landed in replaced.retired:
            if table := table_of(landed):
                found.setdefault(table, []).append(landed)
        return {
            name: replace(replaced, retired=tuple(retired), objects=())
            for name, retired in found.items()
        }

    def _waiting(self, part: Stretch, position: int) -> Stretch:
        """Return the content of a part after a position, without objects that are left out.

        A table that has nothing has nothing that was replaced.
        """
        left = self.choice.marked(_after(part, position))
        objects = tuple(o for o in left.objects if o.key not in left.unwanted)
        return replace(left, objects=objects, replaced=left.replaced if position > NONE else ())

    def _append(self, table: str, part: "_TablePart") -> tuple[int, bool]:
        """Append a part of a stretch to its table, after what the table lacks.

        Nothing is left to append if no object up to the end of the stretch belongs to the table: it
        may have had some under another spec, such as before its topic was taken out of ``topics``.

        Args:
            table: its name.
            part: what is to be appended.

        Returns:
            The position of the table, and whether there was anything to append; another publisher
            may have been first.

        Raises:
            Stalled: DESTINATION_CONFLICT, it may have replaced objects, and cannot follow.
        """
        last = part.at.tables.get(table, -1)
        wanted = max(last, _last_slot(part.stretch))
        found = is_more = False

        def following(position: int) -> Stretch:
            nonlocal found, is_more
            follows = part.stretch.replaced or part.stretch.leaves_out
            # Only the table's own stretches show what was left out since its position.
            if position < last or (follows and position < part.stretch.read_after):
                stretch = self._missed(table, position, part)
            else:
                stretch = _after(part.stretch, position)
            if position < 0:  # the table has nothing, so nothing of it was replaced
                objects = self.choice.chosen(stretch.objects)
                stretch = replace(stretch, objects=objects, replaced=())
            else:
                stretch = self.choice.marked(stretch)
            if not self.follows_replacements:
                _check_has_none_replaced(table, stretch)
            is_more = bool(stretch.objects or stretch.replaced)
            found |= is_more
            return stretch

        while (reached := self.tables.append(table, following)) < wanted and is_more:
            pass
        return reached, found

    def _missed(self, table: str, position: int, until: "_TablePart") -> Stretch:
        """Return the first objects of a table after a position, and through where these are all."""
        through, emptied = until.stretch.through, until.at.emptied
        for stretch in self.new_follower().remaining(position):
            part = self._by_table(stretch, emptied).get(table)
            found = part and _through(replace(part, after=position), through)
            if found and (found.objects or (found.replaced and position >= 0)):
                return found
        return Stretch(position, through, ())


@dataclass(frozen=True)
class _TablePart:
    """The part of a stretch that concerns a table, and where its publisher is."""

    stretch: Stretch
    at: Position


def _after(part: Stretch, position: int) -> Stretch:
    """Return the content of a part after a position."""
    objects = tuple(o for o in part.objects if o.slot > position)
    replaced = tuple(replacement for replacement in part.replaced if replacement.slot > position)
    return replace(part, after=position, objects=objects, replaced=replaced)


def _through(part: Stretch, position: int) -> Stretch:
    """Return the content of a part up to a position."""
    if part.through <= position:
        return part
    later = [replacement for replacement in part.replaced if replacement.slot > position]
    left_out = [
        *(o for o in part.left_out if o.slot <= position),
        *(
            VisibleObject(slot, landed)
            for replacement in later
            for landed in replacement.retired
            if (slot := replacement.appeared.get(landed.key, position + 1)) <= position
        ),
    ]
    return replace(
        part,
        through=position,
        objects=tuple(o for o in part.objects if o.slot <= position),
        replaced=tuple(
            replacement for replacement in part.replaced if replacement.slot <= position
        ),
        left_out=tuple(left_out),
        leaves_out=part.leaves_out or bool(later),
    )


def _lacking(health: TableHealth, part: Stretch) -> TableHealth:
    """The state of a table that does not have a part of the ledger yet."""
    since = [
        *(object_.time for object_ in part.objects),
        *(replacement.time for replacement in part.replaced),
    ]
    return replace(
        health,
        waiting_objects=health.waiting_objects + len(part.objects),
        waiting_replacements=health.waiting_replacements + len(part.replaced),
        waiting_since=health.waiting_since or min(filter(None, since), default=""),
    )


def _retained(retired: Iterable[DueObjects], holds: Iterable[Hold | None]) -> Retained:
    """The replaced objects of a table, and the longest reason for them to stay."""
    objects = [object_.landed for due in retired for object_ in due.objects]
    hold = _longest(holds)
    return Retained(
        len(objects),
        sum(object_.upload.size for object_ in objects),
        hold.until if hold else None,
        hold.why if hold else "",
    )


def _longest(holds: Iterable[Hold | None]) -> Hold | None:
    return max(filter(None, holds), key=lambda hold: hold.until, default=None)


def _last_slot(part: Stretch) -> int:
    """The last slot that concerns a part; -1 for none."""
    slots = [
        *(object_.slot for object_ in part.objects),
        *(replacement.slot for replacement in part.replaced),
    ]
    return max(slots, default=-1)


def _check_has_none_replaced(table: str, part: Stretch) -> None:
    if first := _may_have(part):
        raise _cannot_follow(table, first)


def _may_have(part: Stretch) -> ReplacedObjects | None:
    """The first replacement of objects that a table may have: some are not left out of it."""
    return next(
        (r for r in part.replaced if any(o.key not in part.unwanted for o in r.retired)), None
    )


def _cannot_follow(table: str, first: ReplacedObjects) -> Stalled:
    return Stalled(
        Reason.DESTINATION_CONFLICT,
        f"table {table} may have {len(first.retired)} objects that have retired: the REPLACE in "
        f"slot {first.record} replaced them, which this type of publisher cannot follow. Publish "
        "it again: `landfall publish --rebuild`",
    )
