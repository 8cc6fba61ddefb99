"""Compares landed rows with what today's decoder makes of the payloads that a backup holds."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from rich.markup import escape

from landfall.api.contract import LANE
from landfall.cli.group_store import GroupStore
from landfall.cli.objects.scan_objects import InScope
from landfall.cli.objects.scan_reading import Examined
from landfall.cli.text import console
from landfall.errors import Stalled
from landfall.landed.history import History
from landfall.landed.reader import LandedReader
from landfall.lane import Lane
from landfall.ledger.offsets import Slice
from landfall.registry import output_format
from landfall.source import EndsEarly
from landfall.task.partitioning import Partitioners
from landfall.task.redecoding import RowsOfFolder, rows_today
from landfall.task.rescanning import Wrong


class Backup:
    """A group that holds payloads, by which objects of another group are checked."""

    def __init__(self, backup: GroupStore, opened: GroupStore) -> None:
        """Read nothing yet.

        Args:
            backup: the group with the payloads.
            opened: the group that is checked.
        """
        history = History(Lane(backup.store, backup.name, LANE), backup.store.stat)
        self._reader = LandedReader(backup.store, history)
        # Stages of its own: those of the objects are used by other threads meanwhile.
        self._opened, self._partitioners = opened, Partitioners(opened.group.spec)

    def compared(self, found: Iterable[Examined]) -> Iterator[Examined]:
        """The same objects; what differs is wrong, if nothing else was."""
        for (_, ranges), group in groupby(found, key=lambda e: (e.scope.slot, e.scope.ranges)):
            objects = list(group)
            if len(ranges) == 1 and all(map(self._is_comparable, objects)):
                yield from self._compared(ranges[0], objects)
            else:
                yield from objects

    def _is_comparable(self, each: Examined) -> bool:
        """Whether its range is as its COMMIT has it, and of the format that is written today."""
        today = self._opened.specs.for_topic(each.scope.origin.topic)
        # Its format comes from a bucket: being today's it is one that the group's file names.
        return each.scope.is_whole and each.made_by.output.format == today.output.format

    def _compared(self, slice_: Slice, objects: Sequence[Examined]) -> Iterator[Examined]:
        tp = slice_.topic_partition
        try:
            partitioner = self._partitioners.for_topic(tp.topic)
            today = rows_today(partitioner, tp, self._reader.read(slice_))
        except (Stalled, EndsEarly) as error:
            why = error.__cause__ or error
            console.err().print(f"landfall: {escape(f'{slice_} is not compared: {why}')}")
            yield from objects
            return
        for folder, group in groupby(objects, key=lambda each: each.scope.folder):
            in_folder = list(group)
            if any(each.wrong for each in in_folder):
                yield from in_folder  # what is in an object says nothing about the next one
                continue
            yield from self._of_folder(today.get(folder, RowsOfFolder()), in_folder)

    def _of_folder(self, today: RowsOfFolder, objects: Sequence[Examined]) -> Iterator[Examined]:
        for number, each in enumerate(objects, 1):
            wrong = self._wrong(today, each.scope, each)
            if wrong is None and number == len(objects):
                wrong = today.left
            yield replace(each, is_parsed_only=False, wrong=wrong)

    def _wrong(self, today: RowsOfFolder, scope: InScope, each: Examined) -> Wrong | None:
        with self._opened.store.open(scope.landed.upload.key) as stream:
            return today.wrong_rows(output_format(each.made_by.output).rows(stream))
