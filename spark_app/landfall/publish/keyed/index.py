"""An index of the newest row of each key, in files below a table.

The index is a few runs, each sorted by the hashes of keys, and newer ones win. A pass adds a run;
when there are ``fan`` runs of about the same size, they become one, so a key is written again about
``log(keys) / log(fan)`` times. A run is in parts of at most ``part`` keys, and what a pass reads is
the parts that may have its keys.

A part is named after its bytes and never changes. So any number of passes may write at once, the
name proves what is read, and a version of the table that names its parts has its index for as long
as they are there.
"""

import io
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Protocol

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from landfall.publish.keyed.rows import ENTRY, Rows, orders_of
from landfall.publish.table_position import packed, unpacked

FOLDER = "_landfall_index"
"""The folder below a table; VACUUM skips it."""
_NONE = np.zeros(0, ENTRY)
_ENCODINGS = {"high": "DELTA_BINARY_PACKED", "row": "BYTE_STREAM_SPLIT"}
"""The first is sorted; of numbers of rows, the upper bytes are alike."""


READERS = 8
"""How many parts are read concurrently, and in memory."""
FIRSTS = b"firsts"
"""The metadata of a part: the first halves of the hashes that its row groups begin with, in hex."""


class IndexSlots(Protocol):
    """The part of ``Slots`` that an index needs."""

    def read(self, key: str) -> bytes | None:
        """See ``Slots``."""
        ...

    def create(self, key: str, body: bytes) -> object:
        """See ``Slots``; a file that is there has the same bytes."""
        ...


@dataclass(frozen=True)
class IndexSizes:
    """How an index is cut.

    Attributes:
        part: how many keys a part has at most.
        fresh: how many keys are in memory before they are written.
        fan: how many runs of a size become one.
        least_run: runs of fewer keys are of one size.
        group: how many keys are read at once.
    """

    part: int = 1 << 18
    fresh: int = 1 << 20
    fan: int = 8
    least_run: int = 1 << 14
    group: int = 1 << 13


class IndexLost(Exception):  # noqa: N818  # the name is the state
    """A part of an index is not there, or is not what it was."""


class IndexPart(msgspec.Struct, frozen=True, array_like=True):
    """A file of an index.

    Attributes:
        name: of the file, without its folder.
        keys: how many it has.
        first: the first half of its first key's hash.
    """

    name: str
    keys: int
    first: int


Run = tuple[IndexPart, ...]


@dataclass(frozen=True)
class KeyIndex:
    """The newest row of each key.

    Attributes:
        slots: the files of the table.
        runs: in the files.
        fresh: what is in no file yet, sorted.
        is_ordered: whether rows are ordered by something else than their offsets.
        sizes: how it is cut.
    """

    slots: IndexSlots
    runs: tuple[Run, ...] = ()
    fresh: Rows = field(default_factory=_NONE.copy)
    is_ordered: bool = False
    sizes: IndexSizes = field(default_factory=IndexSizes)

    def named(self, text: str) -> "KeyIndex":
        """Return the index that a version of a table names.

        Raises:
            IndexLost: the text names none.
        """
        return replace(self, runs=_runs(text), fresh=_NONE.copy())

    @property
    def text(self) -> str:
        """The names of its files, as ``named`` takes them."""
        return packed(msgspec.json.encode(self.runs))

    @property
    def names(self) -> frozenset[str]:
        """The names of its files."""
        return _names(self.runs)

    def newest(self, keys: Rows) -> tuple[npt.NDArray[np.bool_], Rows]:
        """Return which keys are known, and the newest row of each of these.

        Args:
            keys: sorted, each once.

        Raises:
            IndexLost: a part is lost.
            Retry: the store does not answer.
        """
        known, found = _looked_up(keys, self.fresh)
        for within, entries in self._parts_with(keys):
            here, theirs = _looked_up(keys[within], entries)
            later = here & (~known[within] | is_later(theirs, found[within]))
            found[within][later] = theirs[later]
            known[within] |= here
        return known, found

    def plus(self, entries: Rows) -> "KeyIndex":
        """Return the index with newer rows of keys; they are written if they are many.

        Args:
            entries: sorted, each key once.

        Raises:
            IndexLost, Retry: as ``newest``.
        """
        index = replace(self, fresh=merged([self.fresh, entries]))
        return index.written() if len(index.fresh) >= self.sizes.fresh else index

    def written(self) -> "KeyIndex":
        """Return the same index with everything in files.

        Raises:
            IndexLost, Retry: as ``newest``.
        """
        if not len(self.fresh):
            return self
        run = tuple(self._write(part) for part in self._cut(self.fresh))
        runs = (*self.runs, run)
        while many := _many(runs, self.sizes):
            runs = (*(run for run in runs if run not in many), tuple(self._merged(many)))
        return replace(self, runs=runs, fresh=_NONE.copy())

    def _merged(self, runs: Sequence[Run]) -> Iterator[IndexPart]:
        """Write runs as one, a range of hashes at a time."""
        bounds = sorted({part.first for part in max(runs, key=len)[1:]})
        readers = [_RunReader(self, run) for run in runs]
        for low, high in zip([0, *bounds], [*bounds, None], strict=True):
            entries = merged([reader.between(low, high) for reader in readers])
            for part in self._cut(entries):
                yield self._write(part)

    def _parts_with(self, keys: Rows) -> Iterator[tuple[slice, Rows]]:
        """Yield what parts have near sorted keys, each with the keys that may be in it."""
        wanted = [
            (within, part)
            for run in self.runs
            for part, until in zip(run, [*(p.first for p in run[1:]), None], strict=True)
            if (within := _within(keys, part.first, until)).start < within.stop
        ]
        with ThreadPoolExecutor(READERS) as pool:
            for begin in range(0, len(wanted), READERS):
                some = wanted[begin : begin + READERS]
                bodies = pool.map(self._body, [part for _, part in some])
                for (within, _), body in zip(some, bodies, strict=True):
                    yield within, self._entries(body, keys[within])

    def read(self, part: IndexPart) -> Rows:
        """Read a part.

        Raises:
            IndexLost: it is not there, or is another one.
            Retry: the store does not answer.
        """
        return self._entries(self._body(part))

    def _body(self, part: IndexPart) -> bytes:
        body = self.slots.read(f"{FOLDER}/{part.name}")
        if body is None or part.name != _name(body):
            raise IndexLost(f"{FOLDER}/{part.name} is {'damaged' if body else 'not there'}")
        return body

    def _entries(self, body: bytes, near: Rows | None = None) -> Rows:
        """The entries of a part; only groups of them that may have some sorted keys."""
        file = pq.ParquetFile(io.BytesIO(body))
        groups = np.arange(file.num_row_groups)
        if near is not None:
            groups = _groups_with(file.schema_arrow.metadata[FIRSTS], near)
        table = file.read_row_groups(groups.tolist())
        entries = np.zeros(table.num_rows, ENTRY)
        for name in table.column_names:
            entries[name] = table[name].to_numpy()
        if not self.is_ordered:
            entries["order"] = orders_of(entries["row"])
        return entries

    def _cut(self, entries: Rows) -> Iterator[Rows]:
        for begin in range(0, len(entries), self.sizes.part):
            yield entries[begin : begin + self.sizes.part]

    def _write(self, entries: Rows) -> IndexPart:
        names = [name for name in ENTRY.names or () if self.is_ordered or name != "order"]
        columns = {name: pa.array(np.ascontiguousarray(entries[name])) for name in names}
        group, body = self.sizes.group, io.BytesIO()
        firsts = entries["high"][::group].tobytes().hex().encode()
        table = pa.table(columns).replace_schema_metadata({FIRSTS: firsts})
        pq.write_table(
            table,
            body,
            group,
            compression="zstd",
            use_dictionary=False,
            column_encoding=_ENCODINGS,
        )
        found = body.getvalue()
        self.slots.create(f"{FOLDER}/{_name(found)}", found)  # or another pass did: the same bytes
        return IndexPart(_name(found), len(entries), int(entries["high"][0]))


def names_in(text: str) -> frozenset[str]:
    """Return the names of the files of an index, by what a version of a table names.

    Raises:
        IndexLost: the text names none.
    """
    return _names(_runs(text))


def _runs(text: str) -> tuple[Run, ...]:
    try:
        return msgspec.json.decode(unpacked(text), type=tuple[Run, ...])
    except (ValueError, msgspec.MsgspecError) as error:
        raise IndexLost(f"the index is not named: {error}") from error


def _names(runs: Sequence[Run]) -> frozenset[str]:
    return frozenset(part.name for run in runs for part in run)


@dataclass
class _RunReader:
    """Reads a run from its start to its end, holding one part."""

    index: KeyIndex
    run: Run
    held: tuple[str, Rows] = ("", _NONE)

    def between(self, low: int, high: int | None) -> Rows:
        """Return the entries whose hashes begin in a range."""
        ends = [*(part.first for part in self.run[1:]), None]
        found = [
            self._part(part)
            for part, end in zip(self.run, ends, strict=True)
            if (high is None or part.first < high) and (end is None or end >= low)
        ]
        return np.concatenate([_NONE, *(_between(entries, low, high) for entries in found)])

    def _part(self, part: IndexPart) -> Rows:
        if self.held[0] != part.name:
            self.held = part.name, self.index.read(part)
        return self.held[1]


def sorted_rows(rows: Rows) -> Rows:
    """Return rows sorted by key, and the newest of each key last."""
    found: Rows = rows[np.lexsort((rows["row"], rows["order"], rows["low"], rows["high"]))]
    return found


def is_last(rows: Rows) -> npt.NDArray[np.bool_]:
    """Return which of sorted rows are the last ones of their keys."""
    last = np.ones(len(rows), bool)
    last[:-1] = (rows["high"][1:] != rows["high"][:-1]) | (rows["low"][1:] != rows["low"][:-1])
    return last


def is_later(rows: Rows, than: Rows) -> npt.NDArray[np.bool_]:
    """Return which rows are newer than the ones at the same place."""
    later: npt.NDArray[np.bool_] = (rows["order"] > than["order"]) | (
        (rows["order"] == than["order"]) & (rows["row"] > than["row"])
    )
    return later


def merged(parts: Sequence[Rows]) -> Rows:
    """Return sorted entries as one, of each key the newest."""
    filled = [part for part in parts if len(part)]
    if len(filled) < 2:
        return filled[0] if filled else _NONE.copy()
    rows = sorted_rows(np.concatenate(filled))
    return rows[is_last(rows)]


def _looked_up(keys: Rows, entries: Rows) -> tuple[npt.NDArray[np.bool_], Rows]:
    """Return which of sorted keys sorted entries have, and the entry of each of these."""
    here, found = np.zeros(len(keys), bool), np.zeros(len(keys), ENTRY)
    if not len(entries):
        return here, found
    at = np.searchsorted(entries["high"], keys["high"])
    left = np.arange(len(keys))
    while len(left):
        left = left[at[left] < len(entries)]
        left = left[entries["high"][at[left]] == keys["high"][left]]
        equal = entries["low"][at[left]] == keys["low"][left]
        here[left[equal]], found[left[equal]] = True, entries[at[left[equal]]]
        left = left[~equal]  # another key with the same first half
        at[left] += 1
    return here, found


def _between(entries: Rows, low: int, high: int | None) -> Rows:
    begin = np.searchsorted(entries["high"], np.uint64(low))
    end = len(entries) if high is None else np.searchsorted(entries["high"], np.uint64(high))
    return entries[begin:end]


def _within(keys: Rows, low: int, until: int | None) -> slice:
    """The sorted keys that may be in a part; a key may continue in the next part."""
    begin = np.searchsorted(keys["high"], np.uint64(low))
    if until is None:
        return slice(int(begin), len(keys))
    return slice(int(begin), int(np.searchsorted(keys["high"], np.uint64(until), side="right")))


def _groups_with(firsts: bytes, keys: Rows) -> npt.NDArray[np.int64]:
    """The row groups of a part that may have keys, by the first half-hash of each group.

    A group may end with the hash that the next one begins with.
    """
    known = np.frombuffer(bytes.fromhex(firsts.decode()), np.uint64)
    at = [np.searchsorted(known, keys["high"], side) - 1 for side in ("left", "right")]
    return np.unique(np.maximum(np.concatenate(at), 0))


def _many(runs: Sequence[Run], sizes: IndexSizes) -> list[Run]:
    """``fan`` runs or more of the smallest size that has as many; empty if none has."""
    by_size: dict[int, list[Run]] = {}
    for run in runs:
        by_size.setdefault(_size(run, sizes), []).append(run)
    return next((by_size[size] for size in sorted(by_size) if len(by_size[size]) >= sizes.fan), [])


def _size(run: Run, sizes: IndexSizes) -> int:
    """The class of a run by its number of keys; a class has ``fan`` times the keys of the last."""
    keys, size = sum(part.keys for part in run) // sizes.least_run, 0
    while keys >= sizes.fan:
        keys, size = keys // sizes.fan, size + 1
    return size


def _name(body: bytes) -> str:
    return f"{sha256(body).hexdigest()[:32]}.parquet"
