"""The columns of landed objects.

Columnar files contain their schema. Where columns are declared, all objects of a topic and a
generation that one driver has landed have the same ones, so the footer of one is read. A generation
may have several specs. With columns from the payloads' schema they may differ in every object.

``STORAGES`` defines how Hive reads the files of each format, and the columns of formats without a
schema.

Source: Hive's language manual, "Hive SerDe" and "Row Formats", and AWS Glue's and Athena's lists of
SerDes. JSON is read by the class that every Hive since 0.12 and Athena have; in Spark it is in a
jar of its own, hive-hcatalog-core.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain

import pyarrow as pa

from landfall.api.spec import ColumnSource, GroupSpec
from landfall.formats.column_reading import OPEN
from landfall.ledger.names.object_names import ObjectName
from landfall.pipeline.decoders.typed_columns import schema_of
from landfall.publish import VisibleObject
from landfall.publish.catalog import Columns, Storage
from landfall.publish.catalog.hive_types import columns_of
from landfall.publish.object_file import opened
from landfall.store import Store

_QL = "org.apache.hadoop.hive.ql.io"
_TEXT_INPUT = "org.apache.hadoop.mapred.TextInputFormat"
_TEXT_OUTPUT = f"{_QL}.HiveIgnoreKeyTextOutputFormat"
_LAZY = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
JSON_SERDE = "org.apache.hive.hcatalog.data.JsonSerDe"

STORAGES: Mapping[str, Storage] = {
    "Parquet": Storage(
        f"{_QL}.parquet.MapredParquetInputFormat",
        f"{_QL}.parquet.MapredParquetOutputFormat",
        f"{_QL}.parquet.serde.ParquetHiveSerDe",
        classification="parquet",
    ),
    "Orc": Storage(
        f"{_QL}.orc.OrcInputFormat",
        f"{_QL}.orc.OrcOutputFormat",
        f"{_QL}.orc.OrcSerde",
        classification="orc",
    ),
    "Avro": Storage(
        f"{_QL}.avro.AvroContainerInputFormat",
        f"{_QL}.avro.AvroContainerOutputFormat",
        "org.apache.hadoop.hive.serde2.avro.AvroSerDe",
        classification="avro",
    ),
    "Json": Storage(_TEXT_INPUT, _TEXT_OUTPUT, JSON_SERDE, classification="json"),
    # One column that is the whole line, with any content.
    "Text": Storage(
        _TEXT_INPUT,
        _TEXT_OUTPUT,
        "org.apache.hadoop.hive.serde2.RegexSerDe",
        {"input.regex": "(.*)"},
        classification="csv",
    ),
    "SequenceFile": Storage(
        "org.apache.hadoop.mapred.SequenceFileInputFormat",
        f"{_QL}.HiveSequenceFileOutputFormat",
        _LAZY,
        {"serialization.last.column.takes.rest": "true"},
        classification="sequencefile",
    ),
}
"""By the name of the format in ``spec.output.format``."""

WHOLE_VALUE: Mapping[str, Columns] = {
    "Text": {"value": "string"},
    "SequenceFile": {"value": "string"},
}
"""The columns of formats whose payloads have none for Hive."""
FILES_OF_COLUMNS = frozenset({"Parquet", "Orc"})
"""Formats whose files name their columns in the footer."""


_READERS = 8
"""Footers that are read concurrently: each is a request or two to the store."""
_MAX_REMEMBERED = 10_000


@dataclass
class ColumnsOf:
    """The columns of objects, found by reading few of them.

    Attributes:
        store: has the objects.
        spec_of: the spec of a topic.
        columns: the columns of all objects, if the user declares them; else none.
    """

    store: Store
    spec_of: Callable[[str], GroupSpec]
    columns: Columns = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._known: dict[object, Columns] = {}
        self._lock = threading.Lock()

    def of(self, objects: Iterable[tuple[VisibleObject, ObjectName]]) -> Mapping[str, Columns]:
        """The columns of objects by their keys.

        Raises:
            ValueError: an object is not of its topic's format, or has a column that Hive cannot
                have; the message names the object or the column.
            Retry: the store does not answer.
        """
        asked = list(objects)
        with ThreadPoolExecutor(_READERS, "footers") as pool:
            one_each = {self._identity(name, o): (o, name) for o, name in asked}
            list(pool.map(self._remembered, one_each.values()))
        found = {o.key: self._remembered((o, name)) for o, name in asked}
        if len(self._known) > _MAX_REMEMBERED:
            self._known.clear()
        return found

    def _identity(self, name: ObjectName, each: VisibleObject) -> object:
        spec = self.spec_of(name.topic)
        if spec.output.columns is ColumnSource.FROM_SCHEMA or each.epoch < 0:
            return each.key
        return name.topic, name.generation, each.epoch

    def _remembered(self, asked: tuple[VisibleObject, ObjectName]) -> Columns:
        each, name = asked
        identity = self._identity(name, each)
        known = self._known.get(identity)
        if known is None:
            known = self._found(each, name)
            with self._lock:
                self._known[identity] = known
        return known

    def _found(self, each: VisibleObject, name: ObjectName) -> Columns:
        if self.columns:
            return self.columns
        spec = self.spec_of(name.topic)
        if spec.output.format in FILES_OF_COLUMNS:
            return columns_of(self._schema(each, spec.output.format))
        if spec.output.format == "Json":
            declared = chain(
                spec.decode.columns,
                spec.decode.key.columns if spec.decode.key else (),
                spec.decode.header_columns,
            )
            return columns_of(schema_of(tuple(declared)))
        return WHOLE_VALUE[spec.output.format]

    def _schema(self, each: VisibleObject, format_: str) -> pa.Schema:
        upload = each.landed.upload
        file = opened(self.store, upload.key, upload.size)
        try:
            return OPEN[format_](file).schema
        except (OSError, ValueError) as error:
            raise ValueError(f"{upload.key} is no file of {format_}: {error}") from error
