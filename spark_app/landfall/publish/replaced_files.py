"""Decides which files leave a table and which enter it when objects were replaced. Pure.

Other writers may have changed the table before a REPLACE is followed, such as by a compaction or a
DELETE. So the files that the table has now decide, for each group of old and new objects whose rows
come from the same offsets:

===============================================  ===============================================
of the old files that were ever in the table     the group
===============================================  ===============================================
all are in it, or none ever was                  is followed: old files leave, new ones enter
none is in it, and the new files have just the   is skipped: the table has the rows already, in
rows of the old ones                             files of other writers; the new ones do not enter
some are in it; or a row of one is deleted; or   cannot be followed: rows would be there twice, or
none is, and the new files have other rows       come back
===============================================  ===============================================

An old file was never in the table if it became visible after the table's position, or was left out
when the table got there, because its replacement was known by then, or by an option of the
publisher. What an option leaves out does not enter in new files either, unless the table has it.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from landfall.errors import Reason, Stalled
from landfall.ledger.names.object_names import parse_key
from landfall.ledger.replace.replacement_lists import ReplacementList
from landfall.ledger.task_results import ObjectKind
from landfall.publish import ReplacedObjects, Stretch, VisibleObject
from landfall.publish.table_position import TablePosition

Groups = Iterable[frozenset[str]]


@dataclass(frozen=True)
class TableFile:
    """A file that a table has.

    Attributes:
        path: as the table names it.
        has_deleted_rows: whether a deletion vector belongs to it.
    """

    path: str
    has_deleted_rows: bool = False


@dataclass(frozen=True)
class FileChanges:
    """Changes to be made to a table.

    Attributes:
        add: objects that enter.
        remove: files that leave.
        left_out: keys of objects before the new position that the table lacks, because they are
            replaced later.
        passed_over: slots of REPLACEs that were passed over, at least in part, sorted.
        moved_in: keys of objects that enter with exactly the rows of files that leave.
        moved_out: the paths of these files.
    """

    add: tuple[VisibleObject, ...]
    remove: tuple[TableFile, ...] = ()
    left_out: frozenset[str] = frozenset()
    passed_over: tuple[int, ...] = ()
    moved_in: frozenset[str] = frozenset()
    moved_out: frozenset[str] = frozenset()


class CannotFollow(Exception):  # noqa: N818  # the name is the state
    """Other writers have changed the table so that a REPLACE cannot be followed."""


class PartlyLeftOut(Stalled):
    """DESTINATION_CONFLICT, an object has rows that a publisher leaves out by its options."""

    def __init__(self, key: str) -> None:
        """The object has other rows as well."""
        super().__init__(
            Reason.DESTINATION_CONFLICT,
            f"object {key} has rows that startAt or skip leaves out, and other ones: what it "
            "replaces was merged before the option was set, or landed again together. Let the "
            "option leave out all of it, or nothing, or take that back with `landfall undo`",
        )


def followed(
    table: str,
    stretch: Stretch,
    position: TablePosition,
    files_of: Callable[[Sequence[str]], Mapping[str, TableFile]],
) -> FileChanges:
    """Return the changes of a stretch to a table as it is now.

    Args:
        table: its name, for the error.
        stretch: the next one of the table.
        position: of the table.
        files_of: returns the files that the table has of objects, by key. Called only if objects
            retire; may raise CannotFollow.

    Raises:
        Stalled: DESTINATION_CONFLICT, other writers have changed the table so that a REPLACE cannot
            be followed.
    """
    retired = [o.upload.key for replacement in stretch.replaced for o in replacement.retired]
    try:
        files = files_of(retired) if retired else {}
        return file_changes(stretch, position.through, position.left_out, files)
    except CannotFollow as error:
        raise Stalled(
            Reason.DESTINATION_CONFLICT,
            f"table {table}: {error}. `landfall publish --rebuild` fills the table again, with the "
            "new objects and without the changes of other programs",
        ) from None


def file_changes(
    stretch: Stretch,
    position: int,
    left_out: Collection[str] | None,
    files: Mapping[str, TableFile],
) -> FileChanges:
    """Return the changes of a stretch to a table.

    Args:
        stretch: the next one of the table.
        position: of the table.
        left_out: keys of objects before the position that never were in the table; None if unknown.
        files: files of the replaced objects that the table has, by key.

    Raises:
        CannotFollow: with the reason.
        PartlyLeftOut: a new object.
    """
    retired = {
        o.upload.key: replacement.record
        for replacement in stretch.replaced
        for o in replacement.retired
    }
    never = {*(left_out or ())} | {
        key
        for replacement in stretch.replaced
        for key, slot in replacement.appeared.items()
        if slot > position and key not in files
    }
    entering, over = {o.key for o in stretch.objects}, set[str]()
    passed = set[int]()
    moved = set[str]()
    for group in joined(g for replacement in stretch.replaced for g in replacement.groups):
        old = group & retired.keys()
        gone = old - never - files.keys()
        if not old & files.keys() & (stretch.unwanted | stretch.mixed):
            if both := group & entering & stretch.mixed:
                raise PartlyLeftOut(min(both))
            over |= group & stretch.unwanted
            gone -= stretch.unwanted
        if not gone:
            _check_no_deleted_rows(old, files, retired)
            if _moves_rows(stretch, group, files):
                moved |= group
            continue
        _check_is_rewritten(stretch, group, gone, files, knows_all=left_out is not None)
        over |= group
        passed |= {retired[key] for key in gone}
    later = {o.key for o in stretch.left_out if o.slot > position}
    return FileChanges(
        add=tuple(o for o in stretch.objects if o.key not in over),
        remove=tuple(files[key] for key in retired if key in files),
        left_out=frozenset(({*(left_out or ())} | later) - retired.keys() - over),
        passed_over=tuple(sorted(passed)),
        moved_in=frozenset(moved.intersection(o.key for o in stretch.objects)),
        moved_out=frozenset(files[key].path for key in moved & files.keys()),
    )


def _moves_rows(stretch: Stretch, group: frozenset[str], files: Mapping[str, TableFile]) -> bool:
    """Return whether a stretch leaves the table's rows of a group as they are.

    An object that became visible in the stretch has rows that the table does not have. If there is
    none, and no range was landed again, the only rows that differ are duplicates, which a merge
    left out or its undo restored: by these the numbers of rows differ.
    """
    replaced = [
        replacement
        for replacement in stretch.replaced
        if any(group & g for g in replacement.groups)
    ]
    if any(replacement.changes_rows for replacement in replaced):
        return False
    made = {key for replacement in replaced for key in _new(replacement)}
    rows = {o.upload.key: o.rows for replacement in replaced for o in replacement.retired}
    if (group - made) - files.keys():
        return False
    enters = sum(o.landed.rows for o in stretch.objects if o.key in group)
    return enters == sum(rows[key] for key in group & files.keys() & rows.keys())


def _check_no_deleted_rows(
    old: Iterable[str], files: Mapping[str, TableFile], retired: Mapping[str, int]
) -> None:
    for key in sorted(old):
        if key in files and files[key].has_deleted_rows:
            raise CannotFollow(
                f"the REPLACE in slot {retired[key]} replaces {files[key].path}, in which "
                "another program has deleted rows"
            )


def _check_is_rewritten(
    stretch: Stretch,
    group: frozenset[str],
    gone: Collection[str],
    files: Mapping[str, TableFile],
    *,
    knows_all: bool,
) -> None:
    """Return if other writers rewrote all old files of a group, and the new ones are not needed."""
    replaced = [
        replacement
        for replacement in stretch.replaced
        if any(group & g for g in replacement.groups)
    ]
    made = {key for replacement in replaced for key in _new(replacement)}
    old = {o.upload.key for replacement in replaced for o in replacement.retired} & group
    names = f"the REPLACE in slot {replaced[0].record} replaces {_some(gone)}"
    if not knows_all:
        raise CannotFollow(
            f"{names}, which the table does not have, and it is unknown whether it ever did"
        )
    if left := sorted(key for key in old if key in files):
        raise CannotFollow(
            f"{names}, which another program has removed from the table, but not {_some(left)}"
        )
    if any(replacement.changes_rows for replacement in replaced):
        raise CannotFollow(
            f"{names} by objects with other rows, and another program has removed it from the "
            "table, such as by a compaction: the rows to be replaced are in that program's files"
        )
    if new := sorted(old - made - {*gone}):
        raise CannotFollow(
            f"{names}, which another program has removed from the table, together with "
            f"{_some(new)}, whose rows the table does not have"
        )


def _new(replaced: ReplacedObjects) -> set[str]:
    keys = {key for group in replaced.groups for key in group}
    return keys.difference(object_.upload.key for object_ in replaced.retired)


def _some(keys: Collection[str]) -> str:
    first = min(keys)
    return first if len(keys) == 1 else f"{first} and {len(keys) - 1} more"


def groups_of(listed: ReplacementList, *, by_folder: bool) -> Iterator[frozenset[str]]:
    """The keys of the old and new data objects of a list that have offsets in common.

    Args:
        listed: the list.
        by_folder: whether rows stay in their folders.
    """
    ranges = defaultdict[tuple[str, ...], list[tuple[int, int, str]]](list)

    def add(key: str, partition: int, first: int, last: int) -> None:
        folder = key.rpartition("/")[0] if by_folder else ""
        ranges[parse_key(key).topic, str(partition), folder].append((first, last, key))

    for old in listed.retire:
        landed, key = old.landed, old.key
        if landed.kind is ObjectKind.DATA:
            add(key, parse_key(key).partition, landed.first_offset, landed.last_offset)
    for new in listed.objects:
        key = new.key
        for section in new.sections if new.landed.kind is ObjectKind.DATA else ():
            add(key, section.partition, section.first_offset, section.last_offset)
    return joined(group for spans in ranges.values() for group in _overlapping(spans))


def _overlapping(ranges: Sequence[tuple[int, int, str]]) -> Iterator[frozenset[str]]:
    group, end = set[str](), -1
    for first, last, key in sorted(ranges, key=itemgetter(0)):
        if first > end and group:
            yield frozenset(group)
            group = set()
        group.add(key)
        end = max(end, last)
    if group:
        yield frozenset(group)


def joined(groups: Groups) -> Iterator[frozenset[str]]:
    """The groups, those that have a key in common as one."""
    found = dict[str, set[str]]()
    for group in groups:
        whole = {*group}
        for key in group:
            whole |= found.get(key, set())
        found |= dict.fromkeys(whole, whole)
    return (frozenset(group) for group in {id(group): group for group in found.values()}.values())
