"""Merges landed objects in a task: reads them in order, and uploads one that replaces them.

Nothing is completed here, and nothing retires: what a task returns is for the driver to record.
Each object is compared with the ledger while it is read, its bytes by size and CRC-32 and its rows
by their number. If one is not as it was landed, its merge is given up and its upload aborted; the
other merges continue.

Where duplicates are left out, objects are read twice: first their keys, then their rows.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from itertools import chain

from isal import isal_zlib

from landfall.api.spec import ColumnSource, ConsumerGroup, Output, RowDedupe
from landfall.errors import LandfallError, Reason, Retry, Stalled
from landfall.formats import Format
from landfall.formats.merging import Mask, Merger, Sorter
from landfall.ledger.names.object_names import renamed
from landfall.ledger.offsets import Slice
from landfall.ledger.replace.merged_objects import Mergeable, halves, offsets_of
from landfall.ledger.replace.replacement_lists import NewObject, Section
from landfall.ledger.task_results import DecidedObject, LandedObject
from landfall.objects import Upload
from landfall.registry import output_format
from landfall.store import Store
from landfall.task.checked_objects import CheckedObject, as_lost, checked, range_reader
from landfall.task.duplicates import Fingerprints
from landfall.task.faults import stack_of, summary_of
from landfall.task.outputs import MAX_PARTS
from landfall.task.uploading import ObjectUpload, Uploader

log = logging.getLogger(__name__)

SORT_SHARE = 8
"""Of so many bytes of memory of a task, one is for rows that are sorted at once."""


@dataclass(frozen=True)
class Merge:
    """Objects to merge: of one folder and generation, in order.

    Attributes:
        output: how they were made.
        sources: the objects.
        dedupe: leaves out rows whose key another row has.
        sort: the path of the field by which rows are sorted; empty if they are not.
        cut: ranges: the only object is cut in two, its rows of these ranges and the rest.
    """

    output: Output
    sources: tuple[Mergeable, ...]
    dedupe: RowDedupe | None = None
    sort: tuple[str, ...] = ()
    cut: tuple[Slice, ...] = ()


@dataclass(frozen=True)
class MergeShare:
    """Merges that one task does, one after the other; it is pickled and sent to the executors.

    Attributes:
        group: the resource.
        token: what is in the metadata of each new object.
        read_through: the slot up to which the ledger was read to plan this.
        merges: what is merged.
    """

    group: ConsumerGroup
    token: str
    read_through: int
    merges: tuple[Merge, ...]


@dataclass(frozen=True)
class Merged:
    """A new object, and the objects that it replaces.

    Attributes:
        retire: these objects; both halves of an object that is cut name it.
        new: the new one, not completed.
        duplicates: how many of their rows are left out.
    """

    retire: tuple[DecidedObject, ...]
    new: NewObject
    duplicates: int = 0


@dataclass(frozen=True)
class NotMerged:
    """Objects that stay as they are.

    Attributes:
        folder: in which they are.
        error: why.
    """

    folder: str
    error: LandfallError


class MergeFailed(Retry):
    """Something unexpected was raised, by a plug-in or for a row: it may well be raised again."""


MergeResult = Merged | NotMerged


def merger_of(format_: Format) -> Merger | None:
    """Return the merger of a format's objects; None if they cannot be merged."""
    made: Merger | None = getattr(format_, "merger", lambda: None)()
    return made


def merge_share(store: Store, share: MergeShare) -> Iterator[MergeResult]:
    """Merge objects; an error of a merge is its result."""
    in_flight = share.group.spec.tuning.task_memory // 4
    with Uploader(store, in_flight) as uploader:
        for merge in share.merges:
            yield from _ObjectMerge(store, share, merge, uploader).results()


class _ObjectMerge:
    """Merges the objects of one merge, those with the same schema into one."""

    def __init__(self, store: Store, share: MergeShare, merge: Merge, uploader: Uploader) -> None:
        self._store = store
        self._share = share
        self._merge = merge
        self._uploader = uploader
        self._format = output_format(merge.output)

    def results(self) -> Iterator[MergeResult]:
        """Merge; yields the results, maybe none."""
        try:
            alike = self._by_schema()
        except Exception as error:  # noqa: BLE001  # of a plug-in, too
            yield self._not_merged(error)
            return
        for sources in alike:
            try:
                yield from self._merged(sources)
            except Exception as error:  # noqa: BLE001  # of a plug-in, too
                yield self._not_merged(error)

    def _not_merged(self, error: Exception) -> NotMerged:
        folder = self._merge.sources[0].folder
        if isinstance(error, LandfallError):
            log.warning("objects not merged", extra={"folder": folder, "why": str(error)})
            return NotMerged(folder, error)
        log.error("objects not merged", extra={"folder": folder, "traceback": stack_of(error)})
        return NotMerged(folder, MergeFailed(f"{folder}: {summary_of(error)}"))

    def _by_schema(self) -> list[list[Mergeable]]:
        """The objects, apart where their rows have schemas of their own."""
        sources = self._merge.sources
        has_own = self._merge.output.columns is ColumnSource.FROM_SCHEMA
        if not (has_own or self._format.wanted.bodies):
            return [[*sources]]
        merger, found = self._merger(), dict[str, list[Mergeable]]()
        for source in sources:
            with as_lost(source.key):
                read = range_reader(self._store, source.key)
                schema = merger.schema_of(read, source.landed.upload.size)
            found.setdefault(schema, []).append(source)
        return [*found.values()]

    def _merger(self) -> Merger:
        merger = merger_of(self._format)
        if merger is None:
            kind = self._merge.output.format
            raise Stalled(Reason.SPEC_INVALID, f"objects of {kind} cannot be merged")
        return merger

    def _merged(self, sources: Sequence[Mergeable]) -> Iterator[Merged]:
        """Merge objects of one schema; yields nothing if there is nothing to gain."""
        if self._merge.cut:
            yield from self._halves(*sources)
            return
        kept = self._kept(sources)
        if len(sources) == 1 and kept is None:
            return
        sections = tuple(chain.from_iterable(self._sections(sources, kept)))
        key = renamed(sources[0].key, self._share.read_through)
        new = self._written(sources, kept, sections, key)
        is_mixed = (
            kept is not None
            or new.sorted
            or not self._merger().keeps_order
            or any(source.is_mixed for source in sources)
        )
        left_out = sum(source.landed.rows for source in sources) - new.landed.rows
        retire = tuple(source.decided for source in sources)
        yield Merged(retire, replace(new, mixed=is_mixed), left_out)

    def _halves(self, source: Mergeable) -> Iterator[Merged]:
        """An object cut in two, each half with the rows of its sections, in order."""
        if source.is_mixed or source.is_sorted or not self._merger().keeps_order:
            raise Stalled(
                Reason.SPEC_INVALID,
                f"{source.key}: its rows do not follow its sections, so it cannot be cut",
            )
        found = halves(source, self._merge.cut)
        made = list[NewObject]()
        for half in found if len(found) > 1 else ():
            key = half.key_by(self._share.read_through)
            made.append(self._written([source], half.mask, half.sections, key))
        yield from (Merged((source.decided,), new) for new in made)

    def _written(
        self,
        sources: Sequence[Mergeable],
        kept: Mask | None,
        sections: tuple[Section, ...],
        key: str,
    ) -> NewObject:
        """A new object with these rows, uploaded."""
        upload = ObjectUpload(self._uploader, key, self._share.token)
        try:
            return self._sent(sources, kept, sections, upload)
        except BaseException:
            self._uploader.abort([upload])
            raise

    def _sent(
        self,
        sources: Sequence[Mergeable],
        kept: Mask | None,
        sections: tuple[Section, ...],
        upload: ObjectUpload,
    ) -> NewObject:
        parts = _Parts(upload, self._part_bytes(sources))
        merged = self._sorted(sources, kept) if self._merge.sort else self._in_turn(sources, kept)
        for written in merged:
            parts.write(written)
        rows = sum(section.rows for section in sections)
        kind, offsets = sources[0].landed.kind, offsets_of(sections)
        new = LandedObject(parts.end(), kind, rows, *offsets, parts.crc32)
        is_sorted = bool(self._merge.sort) or any(source.is_sorted for source in sources)
        return NewObject(new, sections, sorted=is_sorted)

    def _in_turn(self, sources: Sequence[Mergeable], kept: Mask | None) -> Iterator[bytes]:
        """The new object, with the rows of one object after the other."""
        merger = self._merger()
        for opening, mask in self._opened(sources, kept):
            before = merger.rows
            with opening as stream:
                yield from merger.add(stream, mask)
                stream.check_rows(merger.rows - before)
        yield merger.finish()

    def _sorted(self, sources: Sequence[Mergeable], kept: Mask | None) -> Iterator[bytes]:
        """The new object, with the rows of all objects sorted."""
        memory = self._share.group.spec.tuning.task_memory // SORT_SHARE
        sorter = self._sorter(memory)
        try:
            for opening, mask in self._opened(sources, kept):
                before = sorter.rows
                with opening as stream:
                    sorter.add(stream, mask)
                    stream.check_rows(sorter.rows - before)
            yield from sorter.written()
        finally:
            sorter.close()

    def _sorter(self, memory: int) -> Sorter:
        make: Callable[[tuple[str, ...], int], Sorter] | None = getattr(
            self._merger(), "sorter", None
        )
        if make is None:
            kind = self._merge.output.format
            raise Stalled(Reason.SPEC_INVALID, f"rows of {kind} cannot be sorted")
        sorter: Sorter = make(self._merge.sort, memory)
        return sorter

    def _opened(
        self, sources: Sequence[Mergeable], kept: Mask | None
    ) -> Iterator[tuple[AbstractContextManager[CheckedObject], Mask | None]]:
        """Each object, and which of its rows are kept."""
        at, objects = 0, [source.landed for source in sources]
        for landed, opening in zip(objects, checked(self._store, objects), strict=True):
            end = at + landed.rows
            yield opening, None if kept is None else kept[at:end]
            at = end

    def _kept(self, sources: Sequence[Mergeable]) -> Mask | None:
        """Return a mask of the rows to keep, over all objects in order; None for all."""
        dedupe = self._merge.dedupe
        if dedupe is None:
            return None
        found, merger = Fingerprints(), self._merger()
        for opening in checked(self._store, (source.landed for source in sources)):
            rows = 0
            with opening as stream:
                for keys in merger.keys(stream, dedupe.path):
                    found.add(keys)
                    rows += len(keys)
                stream.check_rows(rows)
        kept = found.kept(dedupe.keep)
        return None if kept.all() else kept

    def _sections(
        self, sources: Sequence[Mergeable], kept: Mask | None
    ) -> Iterator[Sequence[Section]]:
        """Where the rows of the new object come from: the sections of each object."""
        at = 0
        for source in sources:
            sections = source.own_sections
            if kept is None:
                yield sections
                continue
            if len(sections) > 1 and (source.is_sorted or not self._merger().keeps_order):
                raise Stalled(
                    Reason.SPEC_INVALID,
                    f"{source.key}: it was merged and sorted, so duplicates among its rows and "
                    "other rows cannot be left out any more",
                )
            for section in sections:
                rows = int(kept[at : at + section.rows].sum())
                at += section.rows
                yield (replace(section, rows=rows),)

    def _part_bytes(self, sources: Sequence[Mergeable]) -> int:
        """The size of a part: as of landed objects, or larger if there would be too many."""
        spec = self._share.group.spec
        wanted = min(spec.output.access.part_bytes, spec.tuning.task_memory // 8)
        size = sum(source.landed.upload.size for source in sources)
        return max(self._store.least_part_bytes, wanted, 4 * size // MAX_PARTS)


@dataclass
class _Parts:
    """Sends bytes as parts of an upload.

    Attributes:
        upload: takes the parts.
        size: of each part but the last.
        crc32: of all bytes so far.
    """

    upload: ObjectUpload
    size: int
    crc32: int = 0
    _pending: list[bytes] = field(default_factory=list)
    _pending_bytes: int = 0

    def write(self, written: bytes) -> None:
        """Take the next bytes.

        Raises:
            LandfallError: a part could not be uploaded.
        """
        self.crc32 = isal_zlib.crc32(written, self.crc32)
        self._pending.append(written)
        self._pending_bytes += len(written)
        while self._pending_bytes >= self.size:
            self._send(self.size)

    def end(self) -> Upload:
        """Send the rest, and wait for all parts.

        Raises:
            LandfallError: a part could not be uploaded.
        """
        if self._pending_bytes or not self.upload.parts:
            self._send(self._pending_bytes)
        return self.upload.result()

    def _send(self, size: int) -> None:
        pending = b"".join(self._pending)
        body, rest = pending[:size], pending[size:]
        self._pending, self._pending_bytes = [rest], len(rest)
        self.upload.send(body)
