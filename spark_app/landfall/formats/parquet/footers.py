"""Footers of Parquet files: whole row groups with their pages checked, and a footer for several.

Row groups are copied as bytes. What the footer records of them stays as it is, fields that this
module does not know included, except for offsets into the file. Bloom filters follow the row groups
of their file; page indexes come last, before the footer.

A row group is described to the last byte or not copied at all: its pages fill its column chunks,
have checksums, which are compared, and as many values as the chunk, and a column that is not
repeated as many as the row group has rows. What is not so is left to Arrow's reader.

Source: parquet.thrift of Apache Parquet 2.12, whose field numbers the enumerations name.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from mmap import mmap
from types import MappingProxyType
from typing import Any

from isal import isal_zlib

from landfall.formats.parquet.float_bounds import KEY, FloatBounds, as_metadata, from_metadata
from landfall.pipeline.decoders.thrift.protocols import MalformedStructError
from landfall.pipeline.decoders.thrift.schema import WireType
from landfall.pipeline.decoders.thrift.trees import Tree, read_numbers, read_tree, written

MAGIC = b"PAR1"
Read = Callable[[int, int], bytes]
"""Reads so many bytes from an offset of a file on."""

_COPIED_BYTES = 2**20
_MOST_FOOTER_BYTES = 16 * 2**20
_MOST_ORDINAL = 2**15 - 1
_HEADER_BYTES = 512
_MOST_HEADER_BYTES = 2**17
"""Headers of pages have a minimum and a maximum, of up to 4 kB each if Arrow writes them."""


class _FileField(IntEnum):
    """Fields of FileMetaData."""

    SCHEMA = 2
    ROWS = 3
    GROUPS = 4
    METADATA = 5


class _ElementField(IntEnum):
    """Fields of SchemaElement."""

    REPETITION = 3
    CHILDREN = 5


class _GroupField(IntEnum):
    """Fields of RowGroup."""

    CHUNKS = 1
    ROWS = 3
    OFFSET = 5
    ORDINAL = 7


class _ChunkField(IntEnum):
    """Fields of ColumnChunk."""

    PATH = 1
    OFFSET = 2
    METADATA = 3
    OFFSET_INDEX = 4
    OFFSET_INDEX_BYTES = 5
    COLUMN_INDEX = 6
    COLUMN_INDEX_BYTES = 7
    CRYPTO = 8
    ENCRYPTED = 9


class _ColumnField(IntEnum):
    """Fields of ColumnMetaData."""

    KIND = 1
    CODEC = 4
    VALUES = 5
    UNCOMPRESSED_BYTES = 6
    BYTES = 7
    DATA = 9
    INDEX = 10
    DICTIONARY = 11
    BLOOM = 14
    BLOOM_BYTES = 15
    SIZES = 16


class _PageField(IntEnum):
    """Fields of PageHeader; the headers of data in it have the number of values as field 1."""

    KIND = 1
    BYTES = 3
    CRC32 = 4
    DATA = 5
    DATA_V2 = 8


_OF_KIND: Mapping[int, int] = MappingProxyType({0: _PageField.DATA, 3: _PageField.DATA_V2})
"""The header of data by the kind of the page; other kinds have no values."""
_REPEATED = 2
_WIDTHS: Mapping[int, float] = MappingProxyType({0: 1 / 8, 1: 4, 2: 8, 3: 12, 4: 4, 5: 8})
"""The bytes of a value of each physical type that has a width: BOOLEAN to DOUBLE."""


class NotCopiedError(ValueError):
    """Row groups of a file are not copied: the message gives the reason. It may be sound."""


def footer_in(data: bytes | mmap) -> tuple[Tree, int]:
    """Return the footer of a file, or of its last bytes, and where it begins in them.

    Raises:
        NotCopiedError: it is encrypted, too large, or none.
    """
    size = len(data)
    length = int.from_bytes(data[max(size - 8, 0) : size - 4], "little")
    start = size - 8 - length
    if data[size - 4 : size] != MAGIC or start < 0 or length > _MOST_FOOTER_BYTES:
        raise NotCopiedError(f"a footer of {length} bytes")
    try:
        footer, end = read_tree(data, start)
    except MalformedStructError as error:
        raise NotCopiedError(f"footer {error}") from error
    if end != size - 8:
        raise NotCopiedError(f"a footer of {length} bytes has {end - start}")
    return footer, start


def likeness(footer: Tree) -> object:
    """Return what is equal for files whose row groups can be in the same file.

    That is all of the footer but rows, row groups and bounds of floating point numbers: columns
    with their types and field ids, their order, the writer's version, metadata, and what is not
    known.
    """
    left_out = {_FileField.ROWS, _FileField.GROUPS, _FileField.METADATA}
    rest = {id_: field for id_, field in footer.items() if id_ not in left_out}
    return rest, _metadata(footer, but=KEY)


def _metadata(footer: Tree, but: bytes) -> list[tuple[bytes, bytes]]:
    _, (_, pairs) = footer.get(_FileField.METADATA, (WireType.LIST, (WireType.STRUCT, [])))
    made = [(pair[1][1], pair[2][1] if 2 in pair else b"") for pair in pairs]
    return [(key, value) for key, value in made if key != but]


@dataclass(frozen=True)
class WholeFile:
    """A file whose row groups can be copied.

    Attributes:
        footer: of the file.
        data: its bytes.
        floats: the bounds of its columns of floating point numbers.
    """

    footer: Tree
    data: bytes | mmap
    floats: Mapping[str, FloatBounds]

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return int(self.footer[_FileField.ROWS][1])

    @property
    def groups(self) -> list[Tree]:
        """Its row groups."""
        return _groups(self.footer)


def whole_file(
    data: bytes | mmap, like: object, codecs: frozenset[int], group_bytes: int
) -> WholeFile:
    """Return a file whose row groups can be copied; all of its pages were read.

    Args:
        data: the file.
        like: the ``likeness`` that it must have.
        codecs: the codecs that column chunks may have, by their numbers.
        group_bytes: how many bytes its row groups must have on average, as columns in memory.

    Raises:
        NotCopiedError: they cannot be copied.
        ValueError: a page is damaged.
    """
    footer, end = footer_in(data)
    if likeness(footer) != like:
        raise NotCopiedError("its footer differs")
    try:
        _check(footer, data, end, codecs, group_bytes)
        floats = from_metadata(dict(_metadata(footer, but=b"")))
    except (KeyError, TypeError, IndexError, MalformedStructError) as error:
        raise NotCopiedError(f"its footer lacks {error}") from error
    return WholeFile(footer, data, floats)


def _groups(footer: Tree) -> list[Tree]:
    groups: list[Tree] = footer[_FileField.GROUPS][1][1]
    return groups


def _chunks(group: Tree) -> list[Tree]:
    chunks: list[Tree] = group[_GroupField.CHUNKS][1][1]
    return chunks


def _column(chunk: Tree) -> Tree:
    column: Tree = chunk[_ChunkField.METADATA][1]
    return column


def _check(
    footer: Tree, data: bytes | mmap, end: int, codecs: frozenset[int], group_bytes: int
) -> None:
    groups = _groups(footer)
    rows = [group[_GroupField.ROWS][1] for group in groups]
    size = sum(_unpacked_bytes(_column(chunk)) for group in groups for chunk in _chunks(group))
    if not groups or size < group_bytes * len(groups):
        raise NotCopiedError(f"{size:.0f} bytes in {len(groups)} row groups")
    if sum(rows) != footer[_FileField.ROWS][1] or min(rows) < 1:
        raise NotCopiedError(f"{footer[_FileField.ROWS][1]} rows in row groups of {rows}")
    is_repeated = _repeated_leaves(footer[_FileField.SCHEMA][1][1])
    for group in groups:
        chunks = _chunks(group)
        if len(chunks) != len(is_repeated):
            raise NotCopiedError(f"{len(chunks)} column chunks of {len(is_repeated)} columns")
        for chunk, has_own_count in zip(chunks, is_repeated, strict=True):
            _check_chunk(chunk, data, end, codecs)
            values = _column(chunk)[_ColumnField.VALUES][1]
            if not has_own_count and values != group[_GroupField.ROWS][1]:
                raise NotCopiedError(f"{values} values in {group[_GroupField.ROWS][1]} rows")


def _repeated_leaves(elements: Sequence[Tree]) -> list[bool]:
    """Return of each leaf whether a row may have several of its values."""
    ahead = iter(elements[1:])

    def below(count: int, *, is_repeated: bool) -> Iterator[bool]:
        for _ in range(count):
            element = next(ahead, None)
            if element is None:
                raise NotCopiedError("its schema ends early")
            own = is_repeated or element[_ElementField.REPETITION][1] == _REPEATED
            children = element.get(_ElementField.CHILDREN, (WireType.I32, 0))[1]
            if not children:
                yield own
            yield from below(children, is_repeated=own)

    return [*below(elements[0][_ElementField.CHILDREN][1], is_repeated=False)]


def _unpacked_bytes(column: Tree) -> float:
    """The bytes of a column chunk's values in memory, which a dictionary may have made few of."""
    width, values = _WIDTHS.get(column[_ColumnField.KIND][1]), column[_ColumnField.VALUES][1]
    if width is not None:
        return float(width * values)
    sizes: Tree = column[_ColumnField.SIZES][1] if _ColumnField.SIZES in column else {}
    # Arrow's texts have a bound of four bytes each.
    texts = sizes[1][1] + 4 * values if 1 in sizes else 0
    return float(max(texts, column[_ColumnField.UNCOMPRESSED_BYTES][1]))


def _start(column: Tree) -> int:
    data, dictionary = column[_ColumnField.DATA][1], column.get(_ColumnField.DICTIONARY)
    return int(data if dictionary is None else min(data, dictionary[1]))


def _check_chunk(chunk: Tree, data: bytes | mmap, end: int, codecs: frozenset[int]) -> None:
    column = _column(chunk)
    if {
        _ChunkField.PATH,
        _ChunkField.CRYPTO,
        _ChunkField.ENCRYPTED,
    } & chunk.keys() or _ColumnField.INDEX in column:
        raise NotCopiedError("column chunks are encrypted or elsewhere")
    if column[_ColumnField.CODEC][1] not in codecs:
        raise NotCopiedError(f"codec {column[_ColumnField.CODEC][1]}")
    start, size = _start(column), column[_ColumnField.BYTES][1]
    parts = [(start, size)]
    if _ColumnField.BLOOM in column:
        parts.append((column[_ColumnField.BLOOM][1], column[_ColumnField.BLOOM_BYTES][1]))
    if _ChunkField.OFFSET_INDEX in chunk:
        parts.append((chunk[_ChunkField.OFFSET_INDEX][1], chunk[_ChunkField.OFFSET_INDEX_BYTES][1]))
        read_tree(data, chunk[_ChunkField.OFFSET_INDEX][1])
    if _ChunkField.COLUMN_INDEX in chunk:
        parts.append((chunk[_ChunkField.COLUMN_INDEX][1], chunk[_ChunkField.COLUMN_INDEX_BYTES][1]))
    for offset, length in parts:
        if not len(MAGIC) <= offset < offset + length <= end:
            raise NotCopiedError(f"{length} bytes at {offset} of {end}")
    _check_pages(data, start, start + size, column[_ColumnField.VALUES][1])


def _check_pages(data: bytes | mmap, start: int, end: int, values: int) -> None:
    at = start
    found = 0
    with memoryview(data) as view:
        while at < end:
            header, at = _page_header(data, at, end)
            size = header[_PageField.BYTES]
            if not 0 <= size <= end - at:
                raise ValueError(f"damaged Parquet file: a page of {size} bytes at {at} of {end}")
            if _PageField.CRC32 not in header:
                raise NotCopiedError("pages have no checksum")
            with view[at : at + size] as page:
                crc32 = isal_zlib.crc32(page)
            if crc32 != header[_PageField.CRC32] & 0xFFFF_FFFF:
                raise ValueError(f"damaged Parquet file: a page at {at} has another checksum")
            if (of_kind := _OF_KIND.get(header[_PageField.KIND])) is not None:
                found += header[of_kind][1]
            at += size
    if found != values:
        raise ValueError(f"damaged Parquet file: {found} values in pages, {values} in the footer")


def _page_header(data: bytes | mmap, at: int, end: int) -> tuple[dict[int, Any], int]:
    for most in (_HEADER_BYTES, _MOST_HEADER_BYTES):
        try:
            header, size = read_numbers(data[at : min(at + most, end)])
        except IndexError:
            continue
        return header, at + size
    raise NotCopiedError(f"a header of a page of over {_MOST_HEADER_BYTES} bytes")


class MergedFile:
    """A file of row groups that were written elsewhere.

    Attributes:
        size: how many bytes of it there are so far.
    """

    def __init__(self, like: Tree) -> None:
        """``like`` is the footer of a file of the same columns."""
        self._like = like
        self._groups: list[Tree] = []
        self._column_indexes: list[tuple[Tree, bytes]] = []
        self._offset_indexes: list[tuple[Tree, Tree]] = []
        self.size = 0

    def passed(self, data: bytes) -> bytes:
        """Return bytes, which are the next ones of the file."""
        self.size += len(data)
        return data

    def copy(self, file: WholeFile) -> Iterator[bytes]:
        """Yield the next bytes: a file's row groups, and its Bloom filters."""
        if not self.size:
            yield self.passed(MAGIC)
        shifts = list[list[int]]()
        for group in file.groups:
            shifts.append([])
            for chunk in _chunks(group):
                column = _column(chunk)
                start = _start(column)
                end = start + column[_ColumnField.BYTES][1]
                shifts[-1].append(self.size - start)
                for offset in range(start, end, _COPIED_BYTES):
                    yield self.passed(file.data[offset : min(offset + _COPIED_BYTES, end)])
        yield self._append(file.groups, shifts, lambda at, size: file.data[at : at + size])

    def append(self, footer: Tree, shift: int, read: Read) -> bytes:
        """Append row groups that were passed; returns the next bytes, their Bloom filters.

        Args:
            footer: of their file.
            shift: where that file begins in this one.
            read: reads what follows the row groups in their file.
        """
        groups = _groups(footer)
        return self._append(groups, [[shift] * len(_chunks(group)) for group in groups], read)

    def _append(self, groups: Sequence[Tree], shifts: Sequence[Sequence[int]], read: Read) -> bytes:
        filters = list[bytes]()
        for group, of_chunks in zip(groups, shifts, strict=True):
            for chunk, shift in zip(_chunks(group), of_chunks, strict=True):
                column = _column(chunk)
                if _ColumnField.BLOOM in column:
                    bloom = read(column[_ColumnField.BLOOM][1], column[_ColumnField.BLOOM_BYTES][1])
                    column[_ColumnField.BLOOM] = (WireType.I64, self.size)
                    filters.append(self.passed(bloom))
                self._keep_indexes(chunk, shift, read)
                _shift(chunk, _ChunkField.OFFSET, shift)
                for field in (_ColumnField.DATA, _ColumnField.DICTIONARY):
                    _shift(column, field, shift)
            _shift(group, _GroupField.OFFSET, of_chunks[0])
            group.pop(_GroupField.ORDINAL, None)
            if len(self._groups) <= _MOST_ORDINAL:
                group[_GroupField.ORDINAL] = (WireType.I16, len(self._groups))
            self._groups.append(group)
        return b"".join(filters)

    def _keep_indexes(self, chunk: Tree, shift: int, read: Read) -> None:
        if _ChunkField.COLUMN_INDEX in chunk:
            place = (chunk[_ChunkField.COLUMN_INDEX][1], chunk[_ChunkField.COLUMN_INDEX_BYTES][1])
            self._column_indexes.append((chunk, read(*place)))
        if _ChunkField.OFFSET_INDEX in chunk:
            place = (chunk[_ChunkField.OFFSET_INDEX][1], chunk[_ChunkField.OFFSET_INDEX_BYTES][1])
            index, _ = read_tree(read(*place))
            for page in index[1][1][1]:
                _shift(page, 1, shift)
            self._offset_indexes.append((chunk, index))

    def finish(self, floats: Mapping[str, FloatBounds]) -> bytes:
        """Return the last bytes of the file."""
        indexes = list[bytes]()
        for chunk, column_index in self._column_indexes:
            chunk[_ChunkField.COLUMN_INDEX] = (WireType.I64, self.size)
            indexes.append(self.passed(column_index))
        for chunk, offset_index in self._offset_indexes:
            body = written(offset_index)
            chunk[_ChunkField.OFFSET_INDEX] = (WireType.I64, self.size)
            chunk[_ChunkField.OFFSET_INDEX_BYTES] = (WireType.I32, len(body))
            indexes.append(self.passed(body))
        footer = written(self._footer(floats))
        return b"".join([*indexes, footer, len(footer).to_bytes(4, "little"), MAGIC])

    def _footer(self, floats: Mapping[str, FloatBounds]) -> Tree:
        rows = sum(group[_GroupField.ROWS][1] for group in self._groups)
        metadata = [*_metadata(self._like, but=KEY), *as_metadata(floats).items()]
        footer: Tree = {
            **self._like,
            _FileField.ROWS: (WireType.I64, rows),
            _FileField.GROUPS: (WireType.LIST, (WireType.STRUCT, self._groups)),
            _FileField.METADATA: (
                WireType.LIST,
                (WireType.STRUCT, [{1: _text(key), 2: _text(value)} for key, value in metadata]),
            ),
        }
        if not metadata:
            del footer[_FileField.METADATA]
        return footer


def _text(value: bytes) -> tuple[WireType, Any]:
    return WireType.STRING, value


def _shift(tree: Tree, field: int, shift: int) -> None:
    """Move an offset; 0 stands for none."""
    if field in tree and tree[field][1]:
        tree[field] = (WireType.I64, tree[field][1] + shift)
