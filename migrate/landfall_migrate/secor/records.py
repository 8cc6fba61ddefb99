"""Secor's message parsers and folders: ``decode`` and ``route``."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from landfall_migrate.dates import TO_READ, TO_WRITE, directives
from landfall_migrate.draft import Draft
from landfall_migrate.secor.files import FACTORY, FileFormat

PARSER = "secor.message.parser.class"
NAME = "message.timestamp.name"
SEPARATOR = "message.timestamp.name.separator"
PATTERN = "message.timestamp.input.pattern"
REQUIRED = "message.timestamp.required"
ZONE = "secor.parser.timezone"
USE_KAFKA = "kafka.useTimestamp"
SPLIT = "message.split.field.name"
GRANULARITY = "partitioner.granularity"
_SECOR = "Secor's default"

FIRST_FIELD = "CiQKAW0iFwoHTWVzc2FnZRIMCgF0GAEgASgEUgF0YgZwcm90bzM="
"""Descriptors of a message with one field, a uint64 with the number 1, which Secor takes for the
time of a Protobuf message that it has no class of: ``message Message { uint64 t = 1; }``.
"""


class Split(Enum):
    """A folder of a field before the date's folder."""

    NONE = "none"
    PLAIN = "its value"
    NAMED = "its name, an equals sign, and its value"


@dataclass(frozen=True, slots=True)
class ParserReplacement:
    """The replacement of a parser of Secor.

    Attributes:
        decoder: of payloads.
        takes_time: sets ``decode.timestamp``; None if Kafka's timestamp dates records.
        overrides: whether ``kafka.useTimestamp`` has no effect on it.
        split: whether a folder of a field comes before the date's folder, and its form.
        refusal: why the result differs from Secor's; empty if it does not.
        note: a further remark.
    """

    decoder: str
    takes_time: Callable[[Draft], None] | None = None
    overrides: bool = False
    split: Split = Split.NONE
    refusal: str = ""
    note: str = ""


def take_records(draft: Draft, format_: FileFormat) -> None:
    """Set ``decode`` and ``route``."""
    settings = draft.settings
    name = re.split(r"[.$]", settings.text(PARSER))[-1]
    parser = PARSERS.get(name)
    if parser is None:
        if name:
            why = "a parser of your own is a decoder in Python: decode.format package.module:Name"
            draft.refuse(PARSER, why)
        else:
            draft.missing.append(f"{PARSER} is not given: set decode and route")
        parser = NO_PARSER
    by_kafka = settings.flag(USE_KAFKA) and not parser.overrides
    _take_decoder(draft, parser, format_, by_kafka=by_kafka)
    if parser.refusal:
        draft.refuse(PARSER, parser.refusal)
    if parser.takes_time and not by_kafka:
        parser.takes_time(draft)
        _take_missing(draft, name)
    _take_route(draft, parser)


def _take_decoder(
    draft: Draft, parser: ParserReplacement, format_: FileFormat, *, by_kafka: bool
) -> None:
    decoder = format_.decoder or ("Raw" if by_kafka else parser.decoder)
    note = parser.note
    if by_kafka:
        why = "Kafka's timestamp dates records, so there is no decode.timestamp"
        draft.take(USE_KAFKA, "decode.timestamp", why)
        note = ""
    draft.put("decode.format", decoder, PARSER, *((FACTORY,) if format_.decoder else ()), why=note)


def _take_field(draft: Draft) -> None:
    settings = draft.settings
    name, separator = settings.text(NAME), settings.text(SEPARATOR)
    draft.put("decode.timestamp.field", name, NAME, default=_SECOR)
    if separator:
        draft.put("decode.timestamp.separator", separator, SEPARATOR)
    elif "." in name:
        draft.put("decode.timestamp.separator", "", why="the whole name is one field in Secor")


def _take_flat(draft: Draft) -> None:
    name = draft.settings.text(NAME)
    draft.put("decode.timestamp.field", name, NAME, default=_SECOR)
    if "." in name:
        draft.put("decode.timestamp.separator", "", why="the whole name is one field in Secor")


def _take_iso(draft: Draft) -> None:
    _take_field(draft)
    draft.put("decode.timestamp.unit", "Iso8601", PARSER)


def _take_iso_of_avro(draft: Draft) -> None:
    _take_flat(draft)
    draft.put("decode.timestamp.unit", "Iso8601", PARSER)


def _take_date(draft: Draft) -> None:
    _take_field(draft)
    try:
        format_ = directives(draft.settings.text(PATTERN), TO_READ)
    except ValueError as error:
        draft.refuse(PATTERN, f"as a strptime format: {error}; set decode.timestamp.format")
        draft.put("decode.timestamp.unit", "Iso8601")
        return
    if not format_:
        draft.refuse(PATTERN, "it is empty")
        return
    draft.put("decode.timestamp.unit", "Custom", PARSER)
    draft.put("decode.timestamp.format", format_, PATTERN)
    draft.put("decode.timestamp.timezone", _zone(draft), ZONE)


def _take_thrift(draft: Draft) -> None:
    settings = draft.settings
    number, kind = settings.text("message.timestamp.id"), settings.text("message.timestamp.type")
    draft.put("decode.timestamp.field", number, "message.timestamp.id", default=_SECOR)
    draft.drop(NAME, "Secor finds a Thrift field by its number")
    protocol = settings.text("secor.thrift.protocol.class")
    found = {"": "Binary", "TBinaryProtocol": "Binary", "TCompactProtocol": "Compact"}.get(
        protocol.rpartition(".")[2]
    )
    if found is None:
        draft.refuse("secor.thrift.protocol.class", "there are Binary and Compact")
    elif protocol:
        draft.put(("decode", "options", "protocol"), found, "secor.thrift.protocol.class")
    if "ThriftParquet" not in settings.text(FACTORY):
        idl = f"struct Message {{ {number}: {kind} timestamp }}"
        draft.put(("decode", "options", "struct"), "Message")
        draft.put(
            ("decode", "options", "idl"), idl, "message.timestamp.id", "message.timestamp.type"
        )


def _take_protobuf(draft: Draft) -> None:
    if draft.settings.below("secor.protobuf.message.class."):
        name = draft.settings.text(NAME)
        draft.put("decode.timestamp.field", name, NAME, default=_SECOR)
        return
    draft.drop(NAME, "Secor takes the first field of a message that it has no class of")
    draft.put("decode.timestamp.field", "t", why="Secor takes the first field, without a class")
    draft.put(("decode", "options", "message"), "Message")
    draft.put(("decode", "options", "descriptors"), FIRST_FIELD)


_UNLIKE_JAVA = re.compile(r"\(\?(?:[=!>]|<[=!])|\\[1-9]|[*+?}]\+|\\k<|&&\[")


def _take_regex(draft: Draft) -> None:
    draft.put("decode.timestamp.field", "1", PARSER)
    pattern = draft.settings.text(PATTERN)
    found = _UNLIKE_JAVA.search(pattern)
    if found or not pattern:
        what = f"RE2 has no {found[0]}" if found else "it is empty"
        draft.refuse(PATTERN, f"{what}: rewrite decode.options.pattern")
        draft.put(("decode", "options", "pattern"), "(set-me)")
    else:
        draft.put(("decode", "options", "pattern"), pattern, PATTERN)
    draft.drop(NAME, "Secor takes the first group of the pattern")


_WALL_CLOCK = "it goes by the wall clock; here the date comes from Kafka's timestamp"
_IN_1970 = "a record without the field is in 1970 in Secor even if it is required"

PARSERS: Mapping[str, ParserReplacement] = {
    "JsonMessageParser": ParserReplacement("Json", _take_field),
    "Iso8601MessageParser": ParserReplacement("Json", _take_iso),
    "DateMessageParser": ParserReplacement("Json", _take_date, overrides=True),
    "SplitByFieldMessageParser": ParserReplacement(
        "Json", _take_field, overrides=True, split=Split.PLAIN
    ),
    "AvroMessageParser": ParserReplacement("Avro", _take_flat),
    "AvroIso8601MessageParser": ParserReplacement("Avro", _take_iso_of_avro),
    "AvroSplitByFieldMessageParser": ParserReplacement(
        "Avro", _take_flat, overrides=True, split=Split.NAMED
    ),
    "ThriftMessageParser": ParserReplacement("Thrift", _take_thrift),
    "ProtobufMessageParser": ParserReplacement("Protobuf", _take_protobuf),
    "MessagePackParser": ParserReplacement("MessagePack", _take_flat),
    "RegexMessageParser": ParserReplacement("Regex", _take_regex),
    "OffsetMessageParser": ParserReplacement(
        "Raw",
        overrides=True,
        refusal="there are no folders of offsets; here they are dates of Kafka's timestamp",
    ),
    "PartitionedMessageParser": ParserReplacement("Raw", overrides=True, refusal=_WALL_CLOCK),
    "DailyOffsetMessageParser": ParserReplacement(
        "Raw", overrides=True, refusal=f"{_WALL_CLOCK}, and there are no folders of offsets"
    ),
}
"""By the class's name without its package."""
NO_PARSER = ParserReplacement("Raw", overrides=True)
"""In place of one that is not known: Kafka's timestamp dates records."""
_DROPS = frozenset({"SplitByFieldMessageParser", "ThriftMessageParser", "RegexMessageParser"})
"""Parsers to which a message without a time is always bad, even if no time is required."""
_LANDS_IN_1970 = frozenset({"JsonMessageParser", "DateMessageParser", "AvroMessageParser"})


def _take_missing(draft: Draft, parser: str) -> None:
    """Set ``decode.timestamp.missing``: the handling of records without a time."""
    if parser in _DROPS or parser in {"MessagePackParser", "ProtobufMessageParser"}:
        draft.drop(REQUIRED, "a message without a time is a bad one to this parser")
        return
    if draft.settings.flag(REQUIRED):
        note = _IN_1970 if parser in _LANDS_IN_1970 else ""
        draft.put("decode.timestamp.missing", "DeadLetter", REQUIRED, why=note, default=_SECOR)
    else:
        draft.put("decode.timestamp.missing", "Epoch", REQUIRED)


def _take_route(draft: Draft, parser: ParserReplacement) -> None:
    settings = draft.settings
    only_dates = parser is PARSERS["DateMessageParser"]
    minutes = settings.flag(f"{GRANULARITY}.minute") and not only_dates
    hours = (minutes or settings.flag(f"{GRANULARITY}.hour")) and not only_dates
    units = ["date", *(["hour"] if hours else []), *(["minute"] if minutes else [])]
    parts = [_folder(draft, unit) for unit in units]
    keys = [f"{GRANULARITY}.{unit}.{what}" for unit in units for what in ("prefix", "format")]
    switches = [f"{GRANULARITY}.{unit}" for unit in units[1:]]
    split = _split(draft, parser)
    if SPLIT in settings.given and split:
        keys += [SPLIT, f"{GRANULARITY}.field.prefix"]
    taken = [key for key in (*keys, *switches) if not draft.claimed(key)]
    draft.put("route.pattern", split + "/".join(parts), *taken, default=_SECOR)
    zone = _zone(draft)
    draft.put("route.timezone", zone, ZONE, default=_SECOR)


def _split(draft: Draft, parser: ParserReplacement) -> str:
    """The folder of a field, before the date's folder."""
    name = draft.settings.text(SPLIT)
    if parser.split is Split.NONE:
        return ""
    if not name or re.search(r"[.{}]", name):
        draft.refuse(SPLIT, "a field with a dot or a brace in its name cannot be in a route")
        return ""
    if parser.split is Split.PLAIN:
        return f"{{field:{name}}}/"
    own = f"{GRANULARITY}.field.prefix"
    prefix = draft.settings.text(own) if own in draft.settings.given else f"{name}="
    return f"{prefix}{{field:{name}}}/"


_UNITS = {
    "date": ("yyyy-MM-dd", "{date}"),
    "hour": ("HH", "{hour}"),
    "minute": ("mm", "{minute}"),
}


def _folder(draft: Draft, unit: str) -> str:
    """The folder of a unit of time, with its prefix."""
    format_key, prefix_key = f"{GRANULARITY}.{unit}.format", f"{GRANULARITY}.{unit}.prefix"
    prefix, pattern = draft.settings.text(prefix_key), draft.settings.text(format_key)
    usual, placeholder = _UNITS[unit]
    if re.search("[{}%]", prefix):
        draft.refuse(prefix_key, "braces and percent signs cannot stand in a route")
        prefix = ""
    if pattern == usual:
        return f"{prefix}{placeholder}"
    try:
        return f"{prefix}{directives(pattern, TO_WRITE)}"
    except ValueError as error:
        draft.refuse(format_key, f"{error}; set route.pattern")
        return f"{prefix}{placeholder}"


def _zone(draft: Draft) -> str:
    return draft.settings.text(ZONE) or "UTC"
