"""``spark.read.format("landfall")``: the options, the columns, and reading at one slot.

The slot is the ledger's last when ``load`` is called, unless the option ``slot`` names one: all
actions on a DataFrame see the same rows, no matter what lands meanwhile. So is where a tail ends.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)
from pyspark.sql.types import DataType, DateType, IntegerType, LongType, StringType, StructType

import landfall
from landfall.api.spec import S3, Access, Azure, Gcs, Hdfs
from landfall.reading import Choice, File, LandedGroup, RowSource, Scan, read_elsewhere
from pyspark_landfall.types import arrow_schema, spark_schema

if TYPE_CHECKING:
    from landfall.reading.tail import Tail

_OPTIONS = (
    "path",
    "topic",
    "group",
    "lane",
    "plugins",
    "slot",
    "tail",
    "outputPartition",
    "since",
    "until",
    "partitionBytes",
    "startingSlot",
    "maxFilesPerTrigger",
)
_ACCESS = {
    "s3": ("endpoint", "region", "pathStyle", "profile"),
    "azure": ("endpoint",),
    "gcs": ("endpoint",),
    "hdfs": ("endpoint", "user"),
}
"""Options by which the store of a URL is accessed, by section of ``spec.output``."""
PARTITION_BYTES = 128 * 2**20
"""Objects of about this many bytes become one task, as with Spark's own files."""
TAIL_OFFSETS = 250_000
"""At most so many offsets of a tail become one task."""
_PLANS_WITH_FILTERS = "pyspark.sql.worker.data_source_pushdown_filters"
"""The worker that plans if ``spark.sql.python.filterPushdown.enabled`` is true."""


@dataclass(frozen=True)
class ReadOptions:
    """The options of a read, as text; ``group()`` opens what they name.

    Raises:
        ValueError: an option is unknown.
    """

    given: Mapping[str, str]

    def __post_init__(self) -> None:
        known = (*_OPTIONS, *(f"{store}.{name}" for store in _ACCESS for name in _ACCESS[store]))
        for name in self.given:
            if name.lower() not in map(str.lower, known):
                raise ValueError(f"option {name}: unknown; known are {', '.join(known)}")

    def text(self, name: str, default: str = "") -> str:
        """An option, in any case of its letters."""
        found = {key.lower(): value for key, value in self.given.items()}
        return found.get(name.lower(), default)

    def number(self, name: str, default: int) -> int:
        """An option that is a whole number of at least 0.

        Raises:
            ValueError: it is none.
        """
        text = self.text(name)
        if text and not text.isdecimal():
            raise ValueError(f"option {name}: must be a whole number, got {text!r}")
        return int(text) if text else default

    def flag(self, name: str) -> bool:
        """An option that is true or false; false if it is not set.

        Raises:
            ValueError: it is neither.
        """
        text = self.text(name, "false").lower()
        if text not in {"true", "false"}:
            raise ValueError(f"option {name}: must be true or false, got {text!r}")
        return text == "true"

    @property
    def choice(self) -> Choice:
        """The output partitions to read.

        Raises:
            ValueError: a time is none.
        """
        choice = Choice()
        if folders := self.text("outputPartition"):
            choice["output_partition"] = folders
        if self.text("since"):
            choice["since"] = self._time("since")
        if self.text("until"):
            choice["until"] = self._time("until")
        return choice

    def _time(self, name: str) -> datetime:
        try:
            found = datetime.fromisoformat(self.text(name))
        except ValueError as error:
            raise ValueError(f"option {name}: not a time in ISO 8601: {error}") from None
        return found if found.tzinfo else found.replace(tzinfo=UTC)

    def open(self) -> LandedGroup:
        """The group.

        Raises:
            ValueError: there is no path.
            Stalled, Retry: as ``landfall.open``.
        """
        if not self.text("path"):
            raise ValueError("name the output root, or the group's file, in load(…)")
        access = Access(
            s3=S3.model_validate(self._section("s3")),
            azure=Azure.model_validate(self._section("azure")),
            gcs=Gcs.model_validate(self._section("gcs")),
            hdfs=Hdfs.model_validate(self._section("hdfs")),
        )
        lane = self.text("lane", "0")
        plugins = [name.strip() for name in self.text("plugins").split(",") if name.strip()]
        return landfall.open(
            self.text("path"), group=self.text("group"), lane=lane, plugins=plugins, **access
        )

    def _section(self, store: str) -> dict[str, str]:
        fields = {name: self.text(f"{store}.{name}") for name in _ACCESS[store]}
        return {name: value for name, value in fields.items() if value}

    def topic(self, group: LandedGroup) -> str:
        """The topic; the only one, if none is named.

        Raises:
            ValueError: several have landed, or none.
        """
        if named := self.text("topic"):
            return named
        topics = group.topics()
        if len(topics) != 1:
            raise ValueError(f"option topic: name one of {', '.join(topics) or 'none so far'}")
        return topics[0]


class DefaultSource(DataSource):
    """The data source ``landfall``."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Read the options, and where the ledger ends."""
        super().__init__(options)
        self._options = ReadOptions(dict(options))
        self._files: tuple[File, ...] | None = None
        self._tail: Tail | None = None
        self._slot = self._options.number("slot", -1)
        if self._options.flag("tail"):
            self._begin_with_tail()
        elif not self._options.text("slot"):
            self._slot = self._options.open().last_slot()

    def _begin_with_tail(self) -> None:
        if self._options.text("slot"):
            raise ValueError("option slot: a tail continues at the ledger's last slot")
        group = self._options.open()
        scan = group.scan(self._options.topic(group), tail=True, **self._options.choice)
        self._slot, self._files, self._tail = scan.slot, scan.files(), scan.tail

    @classmethod
    def name(cls) -> str:
        """The values of ``format``."""
        return "landfall"

    def schema(self) -> StructType:
        """The columns of all objects, and one of strings for each folder ``name=value``."""
        scan = self._scan()
        self._files = scan.files()
        if not self._files and not (self._tail and self._tail.counts().rows):
            raise ValueError(f"{scan.topic}: nothing has landed, so name the columns: .schema(…)")
        return spark_schema(scan.schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads at the slot; without what filters on folders leave out, if Spark passes filters."""
        scan = self._scan()
        source = scan.with_schema(arrow_schema(schema)).source
        size = self._options.number("partitionBytes", PARTITION_BYTES)
        kind = PruningReader if _plans_with_filters() else SlotReader
        return kind(source, scan.files(), size, schema, self._tail)

    def _scan(self) -> Scan:
        """The scan of the slot, with the files and the tail that are known already."""
        group = self._options.open()
        topic = self._options.topic(group)
        if self._files is None:
            return group.scan(topic, slot=self._slot, **self._options.choice)
        return replace(group.scan_of(topic, self._files, self._slot), tail=self._tail)

    def streamReader(self, schema: StructType) -> Any:  # noqa: N802  # Spark's name
        """Reads slot after slot."""
        if self._options.flag("tail"):
            raise ValueError("option tail: a stream reads what becomes visible, and no tail")
        from pyspark_landfall.stream import SlotStream  # noqa: PLC0415  # which needs Options

        return SlotStream(self._options, schema)


def _plans_with_filters() -> bool:
    """Return whether Spark passes filters in this process; if not, it refuses their readers."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _PLANS_WITH_FILTERS in sys.modules or getattr(main, "name", "") == _PLANS_WITH_FILTERS


class TailPart(InputPartition):
    """A part of a tail that one task reads."""

    def __init__(self, source: RowSource, tail: "Tail") -> None:
        """Keep it; the task reads it."""
        super().__init__(None)
        self.source = source
        self.tail = tail


class Files(InputPartition):
    """Files that one task reads."""

    def __init__(self, source: RowSource, files: Sequence[File]) -> None:
        """Keep it; the task reads it."""
        super().__init__(None)
        self.source = source
        self.files = tuple(files)


def packed(source: RowSource, files: Sequence[File], size: int) -> list[InputPartition]:
    """Tasks of about ``size`` bytes each, in order; a file is never split."""
    tasks = list[InputPartition]()
    some = list[File]()
    left = size
    for file in files:
        if some and file.size > left:
            tasks.append(Files(source, some))
            some, left = [], size
        some.append(file)
        left -= file.size
    return [*tasks, Files(source, some)] if some else tasks


def read_files(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """The rows of a task; Spark plans one without files if there is nothing to read."""
    if isinstance(partition, Files):
        yield from read_elsewhere(partition.source, partition.files)
    elif isinstance(partition, TailPart):
        yield from partition.source.tail_batches(partition.tail)


class SlotReader(DataSourceReader):
    """Reads files that were chosen when the query was planned."""

    def __init__(
        self,
        source: RowSource,
        files: Sequence[File],
        size: int,
        schema: StructType,
        tail: "Tail | None" = None,
    ) -> None:
        """Read nothing yet."""
        self.source = source
        self.tail = tail
        self.files = tuple(files)
        self.size = size
        self.columns = schema

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks."""
        tails = self.tail.divided(TAIL_OFFSETS) if self.tail else []
        parts = (TailPart(self.source, tail) for tail in tails)
        return [*packed(self.source, self.files, self.size), *parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        return read_files(partition)


class PruningReader(SlotReader):
    """The same without files whose folders a filter excludes."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  # Spark's name
        """Leave out files. Spark applies every filter as well, for files without such folders."""
        for filter_ in filters:
            wanted = _wanted(filter_, self.columns)
            if wanted is not None:
                self.files = tuple(file for file in self.files if _may_hold(file, *wanted))
        return filters


def _may_hold(file: File, column: str, holds: Callable[[str], bool]) -> bool:
    """Return whether rows of the file may pass a filter; a folder without a value holds null."""
    values = file.partition_values
    if column not in values:
        return True
    value = values[column]
    try:
        return value is not None and holds(value)
    except ValueError:  # not of the column's type: null, or an error, when it is read
        return True


def _wanted(each: Filter, schema: StructType) -> tuple[str, Callable[[str], bool]] | None:
    """The column of a filter, and whether it holds for the value of a folder; None if unknown."""
    column: tuple[str, ...] = getattr(each, "attribute", ())
    if len(column) != 1 or column[0] not in schema.names:
        return None
    read = _READ.get(type(schema[column[0]].dataType))
    holds = _HOLDS.get(type(each))
    if read is None or holds is None:
        return None
    wanted: Any = getattr(each, "value", None)
    if wanted is None and not isinstance(each, In | StringStartsWith):
        return None
    return column[0], lambda value: bool(holds(read(value), each))


_READ: Mapping[type[DataType], Callable[[str], Any]] = {
    StringType: str,
    DateType: date.fromisoformat,
    IntegerType: int,
    LongType: int,
}
_HOLDS: Mapping[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: lambda found, each: found == each.value,
    EqualNullSafe: lambda found, each: found == each.value,
    GreaterThan: lambda found, each: found > each.value,
    GreaterThanOrEqual: lambda found, each: found >= each.value,
    LessThan: lambda found, each: found < each.value,
    LessThanOrEqual: lambda found, each: found <= each.value,
    In: lambda found, each: found in each.value,
    StringStartsWith: lambda found, each: found.startswith(each.value),
}
