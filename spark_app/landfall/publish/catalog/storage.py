"""How Hive reads the files of each format, and the columns of those that have none inside. Pure.

Source: Hive's language manual, "Hive SerDe" and "Row Formats", and AWS Glue's and Athena's lists of
SerDes. JSON is read by the class that every Hive since 0.12 and Athena have; in Spark it is in a
jar of its own, hive-hcatalog-core.
"""

from collections.abc import Mapping

from landfall.publish.catalog import Columns, Storage

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
    # One column that is the whole line, whatever is in it.
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
"""The columns of formats whose payloads have none that Hive knows of."""
FILES_OF_COLUMNS = frozenset({"Parquet", "Orc"})
"""Formats whose files say in their footers which columns they have."""
