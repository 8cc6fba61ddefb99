"""Secor's settings per topic, and the schemas of payloads: ``decode.registry`` and ``topics``."""

import re

from landfall_migrate.draft import Draft
from landfall_migrate.registry import take_registry
from landfall_migrate.secor.files import FileFormat

REGISTRY = "schema.registry.url"
AVRO = "secor.avro.message.schema."
ORC = "secor.orc.message.schema."
PROTOBUF = "secor.protobuf.message.class."
THRIFT = "secor.thrift.message.class."
EVERY_TOPIC = "*"
_TYPES = {
    "boolean": "Boolean",
    "tinyint": "Int32",
    "smallint": "Int32",
    "int": "Int32",
    "bigint": "Int64",
    "float": "Float64",
    "double": "Float64",
    "string": "String",
    "varchar": "String",
    "char": "String",
    "date": "Date",
    "timestamp": "Timestamp",
    "binary": "Binary",
}
"""Types of declared columns, by types of ORC; all other types become ``Json``."""


def take_topics(draft: Draft, format_: FileFormat) -> None:
    """Set what holds for some topics, and where schemas are."""
    decoder = draft.spec.get("decode", {}).get("format")
    if decoder == "Avro":
        _take_avro(draft)
    elif decoder == "Protobuf":
        why = "a class of Java: put the output of protoc --descriptor_set_out into the image, as "
        _take_classes(draft, PROTOBUF, "message", f"{why}decode.options.file")
    elif decoder == "Thrift" and format_.decoder == "Thrift":
        why = "a class of Java: put the IDL into the image, as decode.options.file"
        _take_classes(draft, THRIFT, "struct", why)
    if format_.format == "Orc":
        _take_orc(draft)


def _take_avro(draft: Draft) -> None:
    schemas = draft.settings.below(AVRO)
    if draft.settings.has(REGISTRY):
        take_registry(draft, "decode.registry", REGISTRY)
        return
    if not schemas:
        draft.missing.append("decode.registry: neither a registry nor a schema is given")
    for topic, path in schemas.items():
        why = "the file must be in the image at this path"
        field = "decode.options.schemaFile"
        draft.topic(re.escape(topic), field, path, f"{AVRO}{topic}", why)


def _take_classes(draft: Draft, prefix: str, option: str, why: str) -> None:
    """Classes by topic; the group's own options for the class of every topic."""
    classes = draft.settings.below(prefix)
    if not classes and prefix == THRIFT:
        draft.missing.append("decode.options: no class is given, so the IDL and struct are unknown")
    if classes:
        folder = "/opt/schemas"
        own = {"message": "protobuf.bin", "struct": "schema.thrift"}[option]
        for topic, name in classes.items():
            options = {option: re.split(r"[.$]", name)[-1], "file": f"{folder}/{own}"}
            key = f"{prefix}{topic}"
            for field, value in options.items():
                if topic == EVERY_TOPIC:
                    draft.put(("decode", "options", field), value, key)
                else:
                    draft.topic(re.escape(topic), f"decode.options.{field}", value, key)
            draft.refuse(key, f"{why}, and the full name of its {option} into {option}")


def _take_orc(draft: Draft) -> None:
    provider = draft.settings.text("secor.orc.schema.provider")
    if provider and not provider.endswith(".DefaultORCSchemaProvider"):
        draft.refuse("secor.orc.schema.provider", "declare the columns: decode.columns")
    for topic, schema in draft.settings.below(ORC).items():
        key = f"{ORC}{topic}"
        columns = orc_columns(schema)
        if columns is None:
            draft.refuse(key, "it is no struct<…>: declare decode.columns")
        elif topic == EVERY_TOPIC:
            draft.put("decode.columns", columns, key)
        else:
            draft.topic(re.escape(topic), "decode.columns", columns, key)
        if columns and any(column["type"] == "Json" for column in columns):
            draft.refuse(key, "structs, lists, maps and decimals are columns of JSON text here")


def orc_columns(schema: str) -> list[dict[str, str]] | None:
    """The columns of a struct in ORC's notation; None if it is none."""
    inner = re.fullmatch(r"\s*struct\s*<(.*)>\s*", schema, re.DOTALL)
    if not inner:
        return None
    parts, depth = [""], 0
    for letter in inner[1]:
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    columns = []
    for part in parts:
        name, colon, kind = part.strip().partition(":")
        if not (name and colon and kind):
            return None
        plain = re.match(r"\w+", kind.strip())
        type_ = _TYPES.get(plain[0], "Json") if plain else "Json"
        columns.append({"name": name.strip("`"), "type": type_})
    return columns
