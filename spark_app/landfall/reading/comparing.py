"""Compares what two lanes hold of the same ranges, folder by folder, row by row.

Rows are compared as a multiset: each row's hash is kept, 8 bytes of memory for each row of one
folder, and no row itself. A sum of all hashes shows whether both have the same rows in the end,
though perhaps in other folders.

A row of a format without columns is its value, with offset, timestamp and key where the format
keeps them; of typed columns it is all names and values. Of dead letters, Kafka partition, offset
and payload count, and not the error.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from landfall.api.spec import Output
from landfall.errors import Reason, Stalled
from landfall.formats.typed_rows import plain_rows
from landfall.ledger.names import object_names
from landfall.reading import rows
from landfall.reading.files import File
from landfall.reading.objects import Bytes, fetched
from landfall.store import Store

_LETTERS = ("partition", "offset", "value")
"""The columns of dead letters that are compared."""
_TYPED = frozenset({"Parquet", "Orc", "Avro"})
_LETTERS_OUTPUT = Output(url="file:///none", format="Parquet")

_MODULUS = 2**64

Hashes = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
"""Which rows of an object are compared."""


@dataclass(frozen=True)
class ComparedLane:
    """One of the two lanes that are compared.

    Attributes:
        store: holds the objects.
        files: the objects, of data and of dead letters.
        made_by: how an object of data was made.
        may_be_damaged: objects that cannot be read are compared as far as they can be.
        chosen: by key, which rows of an object are compared, if not all.
    """

    store: Store
    files: Sequence[File]
    made_by: Callable[[File], Output]
    may_be_damaged: bool = False
    chosen: Mapping[str, Mask] = field(default_factory=dict)

    def by_folder(self) -> Mapping[str, list[File]]:
        """The objects by the folder that they are in, each folder's in the order of their keys."""
        found: dict[str, list[File]] = defaultdict(list)
        for file in sorted(self.files, key=lambda file: file.key):
            found[file.key.rpartition("/")[0]].append(file)
        return found

    def amount(self, files: Sequence[File]) -> "Amount":
        """How much is compared of some objects; of part of one, its share of the bytes."""
        rows = {file.key: file.rows for file in files}
        rows |= {key: int(self.chosen[key].sum()) for key in self.chosen.keys() & rows.keys()}
        size = sum(f.size * rows[f.key] // f.rows if f.rows else f.size for f in files)
        return Amount(len(files), sum(rows.values()), size)


@dataclass(frozen=True, slots=True)
class Amount:
    """The amount that a lane holds in a folder."""

    objects: int
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class RowSample:
    """A row that one lane has and the other has not; the offset is None if it is not kept."""

    key: str
    row: int
    offset: int | None
    text: str


@dataclass(frozen=True, slots=True)
class FolderDifference:
    """A folder in both lanes.

    Attributes:
        folder: below the output roots.
        old: what the live lane holds.
        new: what the side lane holds.
        only_old: rows that only the live lane has.
        only_new: rows that only the side lane has.
        old_sample: the first of these rows.
        new_sample: the first of those.
        moved_sum: the sum of the hashes of the rows that only one has, the live lane's less the
            side lane's, modulo 2**64. It is zero over folders that have the same rows
            together.
        damaged: why objects could not be read to their ends, if that is tolerated.
    """

    folder: str
    old: Amount
    new: Amount
    only_old: int
    only_new: int
    old_sample: tuple[RowSample, ...] = ()
    new_sample: tuple[RowSample, ...] = ()
    moved_sum: int = 0
    damaged: tuple[str, ...] = ()

    @property
    def is_same(self) -> bool:
        """True if both have the same rows, each as often."""
        return not (self.only_old or self.only_new or self.damaged)

    @property
    def has_moved(self) -> bool:
        """True if both have the same rows, but some of them in different folders."""
        is_moved = self.only_old == self.only_new and not self.moved_sum
        return is_moved and not self.is_same and not self.damaged

    @property
    def has_dead_letters(self) -> bool:
        """True if it is a folder of dead letters."""
        return object_names.is_system_key(f"{self.folder}/")


def differences(old: ComparedLane, new: ComparedLane, sample: int) -> Iterator[FolderDifference]:
    """Each folder that either lane has objects in, in order, with samples of so many rows.

    Raises:
        Stalled: OBJECT_LOST, an object is gone, or is damaged and must not be.
        Retry: the store does not answer.
    """
    of_old, of_new = old.by_folder(), new.by_folder()
    for folder in sorted(of_old.keys() | of_new.keys()):
        before, after = of_old.get(folder, []), of_new.get(folder, [])
        yield _difference(folder, (old, before), (new, after), sample)


def total(folders: Iterable[FolderDifference]) -> FolderDifference:
    """Return the sum of both lanes in some folders, without samples."""
    some = list(folders)
    old, new = (
        Amount(sum(a.objects for a in s), sum(a.rows for a in s), sum(a.bytes for a in s))
        for s in ([difference.old for difference in some], [difference.new for difference in some])
    )
    only_old, only_new = (
        sum(difference.only_old for difference in some),
        sum(difference.only_new for difference in some),
    )
    moved = sum(difference.moved_sum for difference in some) % _MODULUS
    damaged = tuple(why for difference in some for why in difference.damaged)
    return FolderDifference(
        folder="",
        old=old,
        new=new,
        only_old=only_old,
        only_new=only_new,
        moved_sum=moved,
        damaged=damaged,
    )


def _difference(
    folder: str,
    old: tuple[ComparedLane, list[File]],
    new: tuple[ComparedLane, list[File]],
    sample: int,
) -> FolderDifference:
    damaged = dict[str, str]()
    hashes = [_hashes(*side, damaged) for side in (old, new)]
    only_old, only_new = _only(*hashes), _only(*reversed(hashes))
    return FolderDifference(
        folder=folder,
        old=old[0].amount(old[1]),
        new=new[0].amount(new[1]),
        only_old=only_old.total,
        only_new=only_new.total,
        old_sample=tuple(_samples(*old, only_old, sample)),
        new_sample=tuple(_samples(*new, only_new, sample)),
        moved_sum=(only_old.sum - only_new.sum) % _MODULUS,
        damaged=tuple(damaged.values()),
    )


@dataclass(frozen=True)
class _Only:
    """Sorted hashes that are more often in one lane than in the other, and how much more often."""

    values: Hashes
    counts: npt.NDArray[np.int64]

    @property
    def total(self) -> int:
        return int(self.counts.sum())

    @property
    def sum(self) -> int:
        """The sum of the hashes, modulo 2**64."""
        # Similar rows may have similar hashes, so the bits of each are mixed first (SplitMix64).
        mixed = self.values.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ mixed >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ mixed >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
        return int((mixed * self.counts.astype(np.uint64)).sum())

    def count(self, value: int) -> int:
        at = int(np.searchsorted(self.values, value))
        is_there = at < len(self.values) and self.values[at] == value
        return int(self.counts[at]) if is_there else 0


def _only(one: Hashes, other: Hashes) -> _Only:
    values, inverse = np.unique(np.concatenate([one, other]), return_inverse=True)
    ours = np.bincount(inverse[: len(one)], minlength=len(values))
    theirs = np.bincount(inverse[len(one) :], minlength=len(values))
    more = np.flatnonzero(ours > theirs)
    return _Only(values[more], ours[more] - theirs[more])


def _hashes(lane: ComparedLane, files: Sequence[File], damaged: dict[str, str]) -> Hashes:
    found = [
        np.fromiter(map(hash, _identities(chunk.batch, typed=chunk.typed)), np.int64)
        for chunk in _batches(lane, files, damaged)
    ]
    return np.concatenate([np.empty(0, np.int64), *found])


def _samples(
    lane: ComparedLane, files: Sequence[File], only: _Only, count: int
) -> Iterator[RowSample]:
    """The first rows with these hashes."""
    given, left = Counter[int](), min(count, only.total)
    for chunk in _batches(lane, files, {}) if left else ():
        for index, identity in enumerate(_identities(chunk.batch, typed=chunk.typed)):
            value = hash(identity)
            if given[value] < only.count(value):
                given[value] += 1
                yield _sample(chunk.file, int(chunk.numbers[index]), chunk.batch.slice(index, 1))
                left -= 1
                if not left:
                    return


def _sample(file: File, row: int, one: pa.RecordBatch) -> RowSample:
    columns: dict[str, Any] = plain_rows(one)[0]
    offset = columns.pop("offset", None)
    shown = columns["value"] if columns.keys() == {"value"} else columns
    text = shown.decode(errors="replace") if isinstance(shown, bytes) else str(shown)
    return RowSample(file.key, row, offset if isinstance(offset, int) else None, text)


@dataclass(frozen=True)
class _Batch:
    """Rows of a file.

    Attributes:
        file: the object.
        batch: the rows that are compared.
        numbers: of these rows in the object, from 1.
        typed: whether they have columns of their own.
    """

    file: File
    batch: pa.RecordBatch
    numbers: npt.NDArray[np.int64]
    typed: bool


def _batches(
    lane: ComparedLane, files: Iterable[File], damaged: dict[str, str]
) -> Iterator[_Batch]:
    """The rows of files that are compared."""
    for body in fetched(lane.store, files):
        try:
            yield from _batches_of(lane, body)
        except Stalled as stalled:
            if not lane.may_be_damaged or stalled.reason is not Reason.OBJECT_LOST:
                raise
            damaged[body.file.key] = str(stalled)


def _batches_of(lane: ComparedLane, body: Bytes) -> Iterator[_Batch]:
    before, key = 0, body.file.key
    for batch, typed in _rows_of(lane, body):
        numbers = np.arange(before + 1, before + 1 + batch.num_rows)
        before += batch.num_rows
        if (chosen := lane.chosen.get(key)) is None:
            yield _Batch(body.file, batch, numbers, typed)
            continue
        # An object with more rows than the ledger records is damaged, which is raised at its end.
        mask = np.resize(chosen[numbers[0] - 1 :][: batch.num_rows], batch.num_rows)
        yield _Batch(body.file, batch.filter(pa.array(mask)), numbers[mask], typed)


def _rows_of(lane: ComparedLane, body: Bytes) -> Iterator[tuple[pa.RecordBatch, bool]]:
    """All rows of an object, and whether they have columns of their own."""
    if object_names.is_system_key(body.file.key):
        for batch in rows.batches(body, _LETTERS_OUTPUT, _LETTERS):
            if not {*_LETTERS} <= {*batch.schema.names}:
                raise Stalled(Reason.OBJECT_LOST, f"{body.file.key}: these are no dead letters")
            yield batch.select(_LETTERS), False
    else:
        output = lane.made_by(body.file)
        for batch in rows.batches(body, output, None):
            yield batch, output.format in _TYPED


def _identities(batch: pa.RecordBatch, *, typed: bool) -> Iterator[object]:
    """Return the values that distinguish the rows of a batch from other rows."""
    if typed:  # as text: values may be lists, and NaN equals nothing
        yield from (repr(sorted(row.items())) for row in plain_rows(batch, whole_maps=True))
    else:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
