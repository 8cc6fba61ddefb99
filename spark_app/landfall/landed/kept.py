"""Which groups' objects hold records as Kafka held them: offsets, and payloads byte by byte. Pure.

============  ==========================================================  =========================
format        holds                                                       does not hold
============  ==========================================================  =========================
SequenceFile  offset, payload; with ``keyMode: MessagePack`` Kafka key    headers; that a payload is
              and Kafka timestamp                                         a tombstone, not empty
Parquet       all of the record, without typed columns
============  ==========================================================  =========================
"""

from landfall.api.spec import ColumnSource, Decode, GroupSpec

_WHY = {
    "Text": "Text does not hold offsets",
    "Json": "Json does not hold offsets",
    "Avro": "Avro holds values without what frames them in Kafka, so not the payloads",
    "Orc": "Orc is not read as a source; land Parquet or SequenceFile",
}


def why_not_kept(spec: GroupSpec) -> str:
    """Why objects landed by this spec cannot take the place of the topic; empty if they can."""
    if spec.transforms:
        return "transforms change or leave out what Kafka held"
    match spec.output.format:
        case "SequenceFile":
            return ""
        case "Parquet":
            typed = _has_columns(spec.decode) or spec.output.columns is ColumnSource.FROM_SCHEMA
            return "Parquet of typed columns does not hold the payloads" if typed else ""
        case other:
            return _WHY.get(other, f"{other} is no format that is read as a source")


def _has_columns(decode: Decode) -> bool:
    of_key = decode.key.columns if decode.key else ()
    return bool(decode.columns or decode.header_columns or of_key)
