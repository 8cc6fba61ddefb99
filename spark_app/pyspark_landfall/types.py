"""Columns of files as Spark has them."""

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

_WIDER = {8: ShortType(), 16: IntegerType(), 32: LongType(), 64: DecimalType(20, 0)}
"""The type that holds every unsigned integer, by its bits."""


def spark_schema(schema: pa.Schema) -> StructType:
    """The columns for Spark; what it has no type for is wider, or a string."""
    return StructType([StructField(field.name, _spark_type(field.type)) for field in schema])


def arrow_schema(schema: StructType) -> pa.Schema:
    """The columns as Spark takes them from Python."""
    return to_arrow_schema(schema, timezone="UTC")


def _spark_type(type_: pa.DataType) -> DataType:
    if pa.types.is_struct(type_):
        return StructType([StructField(field.name, _spark_type(field.type)) for field in type_])
    if pa.types.is_map(type_):
        return MapType(_spark_type(type_.key_type), _spark_type(type_.item_type))
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return ArrayType(_spark_type(type_.value_type))
    return _leaf_type(type_)


def _leaf_type(type_: pa.DataType) -> DataType:
    if pa.types.is_unsigned_integer(type_):
        return _WIDER[type_.bit_width]
    if pa.types.is_null(type_) or pa.types.is_time(type_):
        return StringType()
    try:
        found: DataType = from_arrow_type(type_, prefer_timestamp_ntz=True)
    except PySparkTypeError:
        return StringType()
    return found
