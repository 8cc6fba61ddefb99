"""``landfall backfill compare``: compares a backfill with the live objects, row by row."""

import argparse
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace

import msgspec
from rich.markup import escape
from rich.table import Table

from landfall.api.contract import LANE, ExitCode
from landfall.api.spec import GroupSpec, Output
from landfall.cli.group_store import GroupStore
from landfall.cli.land.backfill import OpenBackfill
from landfall.cli.text import console
from landfall.driver.decide.counting import CountingObject
from landfall.driver.decide.landed_now import LandedNow
from landfall.driver.decide.promotion import Promotion, promotion
from landfall.errors import Reason, Stalled
from landfall.ledger.replace.merged_objects import Mergeable, halves
from landfall.reading.comparing import (
    ComparedLane,
    FolderDifference,
    Mask,
    RowSample,
    differences,
    total,
)
from landfall.reading.files import File
from landfall.reading.specs import ObjectSpecs
from landfall.store import Store

MAX_TEXT = 200
"""How many characters of a row are printed."""


def backfill_compare(arguments: argparse.Namespace) -> ExitCode:
    """Compare, and print a line per folder; the exit code is FAULT if any row differs.

    Raises:
        Stalled: SPEC_INVALID, the backfill is not landed, or the live objects have changed since
            its plan; OBJECT_LOST, an object is missing or damaged.
        Retry: a store does not answer, or something live is not visible yet.
    """
    opened = OpenBackfill(GroupStore.of(arguments.group), arguments.name)
    found = list(compared(opened, arguments.sample))
    if arguments.json:
        print(msgspec.json.encode(_document(opened.name, found)).decode())
    else:
        _show(found)
    is_same = all(difference.is_same for difference in found)
    return ExitCode.OK if is_same else ExitCode.FAULT


def compared(opened: OpenBackfill, sample: int) -> Iterator[FolderDifference]:
    """Yield the differences in each folder, with samples of so many rows.

    Raises:
        Stalled, Retry: as ``backfill_compare``.
    """
    plan, side = opened.plan, opened.landed()
    live = opened.live_now(plan.offsets)
    if (slot := live.promotions.of(opened.name)) >= 0:
        raise Stalled(
            Reason.SPEC_INVALID,
            f"backfill: {opened.name} is promoted, in slot {slot}: what is live is what it landed",
        )
    ids = [(range_.topic_partition, range_.topic_id) for range_ in plan.ranges]
    found = promotion(
        live=live, side=side, slices=plan.slices, topic_ids=ids, planned_at=plan.read_through
    )
    spec = opened.live.group.spec
    concerned = (*found.retire, *found.cut)
    old = replace(
        _lane(opened.live.store, spec, live, concerned),
        may_be_damaged=True,
        chosen={object_.key: _rows_inside(object_, found) for object_ in found.cut},
    )
    new = _lane(opened.store, opened.spec, side, side.objects.values())
    return differences(old, new, sample)


def _rows_inside(each: CountingObject, found: Promotion) -> Mask:
    """Return a mask of the rows inside the ranges, of an object that has more."""
    source = Mergeable(each.decided.slot, each.landed, sections=each.sections)
    inside, _ = halves(source, found.slices)
    return inside.mask


def _lane(
    store: Store, spec: GroupSpec, landed: LandedNow, objects: Iterable[CountingObject]
) -> ComparedLane:
    specs = ObjectSpecs(store, (landed.group, LANE), spec.output, spec)

    def made_by(file: File) -> Output:
        output = specs.of(file.spec, file.name.topic).output
        specs.allowed(file.spec).check_format(output)
        return output

    files = [
        File(
            key=object_.key,
            slot=object_.decided.slot,
            rows=object_.landed.rows,
            size=object_.landed.upload.size,
            spec=landed.specs.get(object_.generation, ""),
        )
        for object_ in objects
    ]
    return ComparedLane(store, files, made_by)


def totals(compared: Iterable[FolderDifference]) -> tuple[FolderDifference, FolderDifference]:
    """All folders of data together, and all of dead letters."""
    some = list(compared)
    letters = [difference for difference in some if difference.has_dead_letters]
    return total(difference for difference in some if not difference.has_dead_letters), total(
        letters
    )


def _show(compared: list[FolderDifference]) -> None:
    names = ("OUTPUT PARTITION", ">ROWS", ">NEW", ">ONLY OLD", ">ONLY NEW")
    table = console.table(*names, ">OBJECTS", ">NEW", ">BYTES", ">NEW")
    for difference in compared:
        _add_row(table, difference.folder, difference)
    data, letters = totals(compared)
    _add_row(table, "all data", data)
    _add_row(table, "all dead letters", letters)
    out = console.out()
    out.print(table)
    out.print(_summary(data, letters))
    for why in (*data.damaged, *letters.damaged):
        out.print(f"old  {escape(why)}")
    for difference in compared:
        for title, samples in (("old", difference.old_sample), ("new", difference.new_sample)):
            for sample in samples:
                out.print(f"{title}  {escape(as_text(sample))}")


def _summary(data: FolderDifference, letters: FolderDifference) -> str:
    if data.is_same and letters.is_same:
        return "both have the same rows"
    if data.is_same:
        return "both have the same rows, and other dead letters"
    if data.has_moved:
        return "both have the same rows, some of them in other output partitions"
    return "the rows differ"


def _add_row(table: Table, name: str, each: FolderDifference) -> None:
    old, new = each.old, each.new
    numbers = (old.rows, new.rows, each.only_old, each.only_new, old.objects, new.objects)
    sizes = console.size(old.bytes), console.size(new.bytes)
    table.add_row(escape(name), *map(console.count, numbers), *sizes)


def as_text(sample: RowSample) -> str:
    """The row with its place, in one line."""
    offset = "" if sample.offset is None else f" offset {sample.offset}"
    text = sample.text if len(sample.text) <= MAX_TEXT else f"{sample.text[:MAX_TEXT]}…"
    return f"{sample.key}:{sample.row}{offset}  {text}"


def _document(name: str, compared: list[FolderDifference]) -> Mapping[str, object]:
    data, letters = totals(compared)
    return {
        "name": name,
        "same": data.is_same and letters.is_same,
        "moved": data.has_moved,
        "data": _amounts(data),
        "dead_letters": _amounts(letters),
        "folders": [
            {"folder": difference.folder, **_with_samples(difference)} for difference in compared
        ],
    }


def _amounts(each: FolderDifference) -> Mapping[str, object]:
    only = {"only_old": each.only_old, "only_new": each.only_new}
    return {"old": asdict(each.old), "new": asdict(each.new), **only}


def _with_samples(each: FolderDifference) -> Mapping[str, object]:
    samples = {"old_sample": each.old_sample, "new_sample": each.new_sample}
    shown = {k: [asdict(one) for one in v] for k, v in samples.items()}
    return {**_amounts(each), "damaged": [*each.damaged], **shown}
