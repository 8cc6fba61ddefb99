"""Guesses how the records of a topic are decoded, dated and written, for ``landfall init``.

What payloads look like decides which guesses are made; the stages that would land the records
decide which is taken: ``chosen`` returns the first guess by which they land. So nothing here needs
to know what a decoder accepts.

A field dates records if it does so for nearly all of them, at a time that Kafka's timestamps make
likely. Names rank such fields: ``_Tier``. Times that are to come are last.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from statistics import median_low
from typing import Any

import msgspec

from landfall.api import group_file
from landfall.api.spec import parse_group
from landfall.cli.author.guess_text import tables, text_lines
from landfall.cli.author.tried import TrialOutcomes, TriedRecord, tried_records
from landfall.errors import Reason, Stalled
from landfall.pipeline.records import Records
from landfall.task.trial import Fate

Document = dict[str, Any]
Row = Mapping[str, Any]

ENOUGH = 0.9
"""The share of records that must land by a guess, and that a field must date."""
_MAX_FIELDS = 12
"""How many fields are tried as the one that dates a record."""
_MAX_DEPTH = 3
_SCHEMA_ID = 5
"""Bytes of a schema id before a payload: a zero and four of the number."""
_SINCE_2001 = 10**9
_FAR = timedelta(days=5 * 366)
"""A field whose times differ from Kafka's timestamps by more than this is not a time."""
_FAR_NUMBER = timedelta(days=7)
"""The same for a number that is not called a time, for any large number is one in some unit."""
_OLD = timedelta(days=30)
_AHEAD = timedelta(minutes=5)
"""Clocks differ by less: a later time is one that is to come, such as when something expires."""
_TIME_WORDS = frozenset(
    ("timestamp", "time", "ts", "at", "on", "date", "datetime", "created", "when", "epoch", "t")
)
_UNITS = frozenset(
    (
        *("ms", "millis", "milliseconds", "s", "sec", "secs", "seconds", "us", "micros"),
        *("microseconds", "ns", "nanos", "nanoseconds", "utc", "unix", "iso", "local"),
    )
)
"""Words that follow the name of a time: ``ts_ms``."""
_OTHER_TIMES = frozenset(
    (
        *("expires", "expiry", "expiration", "valid", "until", "due", "deadline", "birth"),
        *("scheduled", "updated", "modified", "received", "ingested", "processed", "indexed"),
    )
)
"""Words of times that are not when a record happened."""
_FORMATS = (
    "%d/%b/%Y:%H:%M:%S %z",
    "%Y/%m/%d %H:%M:%S",
    "%Y%m%d%H%M%S",
    "%a, %d %b %Y %H:%M:%S %z",
    "%a, %d %b %Y %H:%M:%S GMT",
    "%a %b %d %H:%M:%S %z %Y",
    "%d.%m.%Y %H:%M:%S",
)
"""Formats of times besides ISO 8601 that can be read in one way only."""
_DIGITS_OF_TIME = "20261121040000"
_MINUTE = "%Y-%m-%dT%H.%M"
"""How the pattern of ``_BY_MINUTE`` writes a time, for ``strptime``."""
_BY_MINUTE = "{date}T{hour}.{minute}"


_ORDER = ("source", "decode", "transforms", "route", "output")
"""Sections of a spec, in the order in which records pass them."""


@dataclass(frozen=True)
class Guess:
    """A way to land records.

    Attributes:
        name: of the form that they have, for people.
        sections: of the spec, without its source, route and URL.
        time: the field that dates them if it can; None to look for one.
        comments: what is written after a field, by its path below ``spec``.
        dated_by: the field that dates them, for people; empty if Kafka's timestamps do.
    """

    name: str
    sections: Document
    time: str | None = None
    comments: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    dated_by: str = ""

    def applied(self, document: Document) -> Document:
        """The group with these sections; fields of ``output`` that it has already stay."""
        spec = document["spec"]
        output = {**spec["output"], **self.sections.get("output", {}), **spec["output"]}
        found = {**spec, **self.sections, "output": output}
        ordered = {name: found[name] for name in _ORDER if name in found}
        return {**document, "spec": ordered}


NOTHING_KNOWN = Guess(
    "records without a payload", {"decode": {"format": "Raw"}, "output": {"format": "Parquet"}}
)
"""Lands payloads, keys, headers and Kafka timestamps of any records."""


@dataclass(frozen=True)
class Sample:
    """Records that are looked at.

    Attributes:
        topic: their topic.
        chunks: the records.
        environment: the variables of the group file.
    """

    topic: str
    chunks: Sequence[Records]
    environment: Mapping[str, str]

    @property
    def payloads(self) -> list[bytes]:
        """All payloads, without tombstones."""
        return [p for records in self.chunks for p in records.values.to_pylist() if p is not None]

    @property
    def keys(self) -> list[bytes]:
        """All keys that are not null."""
        return [key for records in self.chunks for key in records.keys.to_pylist() if key]

    @property
    def has_headers(self) -> bool:
        """Return whether a record has headers."""
        return any(any(records.headers.to_pylist()) for records in self.chunks)

    @property
    def size(self) -> int:
        """How many records there are."""
        return sum(map(len, self.chunks))

    def tried(self, document: Document) -> list[TriedRecord]:
        """The records, as a group would land them; none if it is not a sound one."""
        try:
            group = parse_group(group_file.expand(document, self.environment))
            return list(tried_records(group, self.topic, self.chunks))
        except Stalled as error:
            if error.reason is not Reason.SPEC_INVALID:
                raise
            return []

    def outcomes(self, document: Document) -> TrialOutcomes:
        """How many of them land."""
        return TrialOutcomes.of(self.tried(document))


def chosen(document: Document, sample: Sample, registry: str) -> Guess | None:
    """Return the first guess by which records land, with the field that dates them.

    Args:
        document: the group, without what is guessed.
        sample: some records.
        registry: the URL of a schema registry; empty if there is none.

    Returns:
        None if they land by none.

    Raises:
        Retry: the registry does not answer.
    """
    for guess in _guesses(document, sample, registry):
        tried = sample.tried(guess.applied(document))
        fates = TrialOutcomes.of(tried).fates
        if fates[Fate.LANDS] and fates[Fate.DEAD_LETTER] < (1 - ENOUGH) * sample.size:
            return _dated(guess, document, sample, tried)
    return None


def has_schema_ids(sample: Sample) -> bool:
    """Return whether payloads begin with the id of a schema."""
    framed = [p for p in sample.payloads if p[:1] == b"\0" and len(p) > _SCHEMA_ID]
    return len(framed) > ENOUGH * len(sample.payloads)


# ------------------------------------------------------------------------------ their form


def _guesses(document: Document, sample: Sample, registry: str) -> Iterator[Guess]:
    output_format = document["spec"]["output"].get("format", "")
    payloads = sample.payloads
    if not payloads:
        yield NOTHING_KNOWN
    elif objects := _objects(payloads):
        yield from _of_objects(objects, sample, output_format)
    elif has_schema_ids(sample):
        if registry:
            yield from _with_schemas(sample, registry, output_format)
    else:
        yield Guess("MessagePack", {"decode": {"format": "MessagePack"}})
        for sections, name in (*tables(payloads), *text_lines(payloads, sample.size)):
            yield Guess(name, sections)


def _objects(payloads: Sequence[bytes]) -> list[Row]:
    """The payloads as JSON objects; empty if a tenth of them or more are not JSON objects."""
    found = [row for payload in payloads if (row := _object(payload)) is not None]
    return found if len(found) > ENOUGH * len(payloads) else []


def _object(payload: bytes | None) -> Row | None:
    try:
        value = None if payload is None else msgspec.json.decode(payload)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


_ENVELOPES: Mapping[str, tuple[frozenset[str], ...]] = {
    "Debezium": (frozenset(("op", "source", "after")), frozenset(("op", "source", "before"))),
    "DebeziumFlattened": (frozenset(("__op",)), frozenset(("__deleted",))),
    "Maxwell": (frozenset(("database", "table", "type", "ts", "data")),),
    "Canal": (frozenset(("database", "table", "type", "es", "data")),),
}
"""Names that the objects of an envelope have; one of the sets is enough."""


def _of_objects(objects: Sequence[Row], sample: Sample, output_format: str) -> Iterator[Guess]:
    rows = [_unwrapped(row) for row in objects]
    for envelope, names in _ENVELOPES.items():
        of_it = sum(any(some <= row.keys() for some in names) for row in rows)
        if of_it > len(rows) / 2:
            decode: Document = {"format": "Json", "envelope": envelope}
            if _objects(sample.keys):
                decode["key"] = {"format": "Json"}
            yield Guess(f"JSON in the envelope of {envelope}", {"decode": decode}, "_source_ts")
    yield Guess("JSON", _with_tombstones({"decode": {"format": "Json"}}, sample, output_format))


def _unwrapped(row: Row) -> Row:
    """Return the part of JSON with its schema, as Connect writes it, that is the record."""
    inner = row.get("payload")
    return inner if row.keys() == {"schema", "payload"} and isinstance(inner, dict) else row


def _with_tombstones(sections: Document, sample: Sample, output_format: str) -> Document:
    """Have JSON lines hold records without a payload, if there are any."""
    if output_format not in {"", "Json"} or len(sample.payloads) == sample.size:
        return sections
    return {**sections, "output": {"options": {"tombstones": "Null"}}}


def _with_schemas(sample: Sample, registry: str, output_format: str) -> Iterator[Guess]:
    of_registry: Document = {"registry": {"urls": [registry]}}
    avro: Document = {"format": "Avro", **of_registry}
    change: Document = {**avro, "envelope": "Debezium", "options": {"connectTypes": True}}
    if sample.keys:
        change["key"] = {"format": "Avro", **of_registry}
    yield Guess("Avro in the envelope of Debezium", {"decode": change}, "_source_ts")
    columns = {"format": output_format or "Parquet", "columns": "FromSchema"}
    for name in ("Avro", "Protobuf"):
        decode = {"format": name, **of_registry}
        yield Guess(name, {"decode": decode, "output": columns})
        yield Guess(name, {"decode": decode})
    decode = {"format": "JsonSchema", **of_registry}
    yield Guess("JSON with a schema", _with_tombstones({"decode": decode}, sample, output_format))


# ----------------------------------------------------------------------------- which field dates


class _Tier(IntEnum):
    """The kind of a field, by its name or else by its value; the likeliest first."""

    TIME = 0
    ANOTHER_TIME = 1
    """Such as when a record was received."""
    TEXT = 2
    NUMBER = 3


@dataclass(frozen=True)
class _Candidate:
    """A field that may date records.

    Attributes:
        name: its path.
        tier: how likely it is by its name and kind.
        is_number: whether it holds numbers.
        far: how far its times may be from Kafka's timestamps.
        format: of its texts, if they are not in ISO 8601.
    """

    name: str
    tier: _Tier
    is_number: bool
    far: timedelta
    format: str

    @property
    def rank(self) -> tuple[_Tier, bool, int, str]:
        """Its place among all candidates, before it is tried."""
        return self.tier, self.is_number, self.name.count("."), self.name

    @property
    def timestamp(self) -> Document:
        """The section that dates records by it."""
        custom = {"unit": "Custom", "format": self.format} if self.format else {}
        return {"field": self.name, **custom}


def _dated(guess: Guess, document: Document, sample: Sample, tried: Sequence[TriedRecord]) -> Guess:
    """Have the likeliest of all fields date records that can."""
    lands = sum(record.trial.fate is Fate.LANDS for record in tried)
    rows = [row for record in tried if (row := _row(record)) is not None]
    if guess.time:
        candidates = [_Candidate(guess.time, _Tier.TIME, is_number=False, far=_FAR, format="")]
    else:
        candidates = _candidates(rows)
    found = []
    for candidate in candidates:
        dated, ages = _dated_by(candidate, {}, guess, document, sample)
        count = len(ages)
        if lands / 2 <= count < lands:
            # Some records may lack the field.
            lenient, more = _dated_by(
                candidate, {"missing": "KafkaTimestamp"}, guess, document, sample
            )
            if len(more) > count:
                dated, count = lenient, len(more)
        if count and count >= ENOUGH * lands:
            middle = median_low(ages)
            order = (count < lands, middle < -_AHEAD, candidate.tier, middle > _OLD, candidate.rank)
            found.append((order, dated))
    return min(found, key=lambda ranked: ranked[0])[1] if found else guess


def _dated_by(
    candidate: _Candidate, more: Document, guess: Guess, document: Document, sample: Sample
) -> tuple[Guess, list[timedelta]]:
    """Return the guess with this field, and how long before Kafka's timestamps it dates records.

    Only records that land, and not too far from their Kafka timestamp.
    """
    decode = {**guess.sections["decode"], "timestamp": {**candidate.timestamp, **more}}
    dated = replace(
        guess,
        sections={**guess.sections, "decode": decode},
        comments={("decode", "timestamp", "field"): "dates a record, and so its folder"},
        dated_by=candidate.name,
    )
    made = dated.applied(document)
    made["spec"]["route"] = {"pattern": _BY_MINUTE}
    ages = [_age(record) for record in sample.tried(made) if record.trial.fate is Fate.LANDS]
    return dated, [time for time in ages if time is not None and abs(time) <= candidate.far]


def _age(record: TriedRecord) -> timedelta | None:
    """How long before Kafka's timestamp a record is dated; None if a time is out of reach."""
    try:
        time = datetime.strptime(record.trial.detail, _MINUTE).replace(tzinfo=UTC)
        if record.timestamp_ms < 0:
            return timedelta(minutes=1)
        kafka = datetime.fromtimestamp(record.timestamp_ms / 1000, UTC)
    except (ValueError, OverflowError):  # a timestamp may be of any year
        return None
    return kafka.replace(second=0, microsecond=0) - time


def _row(record: TriedRecord) -> Row | None:
    """The fields of a record as later stages see them; None if it does not get that far."""
    if record.trial.fate is not Fate.LANDS or not record.trial.seen:
        return None
    last = record.trial.seen[-1]
    return last.columns if last.columns is not None else _object(last.payload)


def _candidates(rows: Sequence[Row]) -> list[_Candidate]:
    """The fields of most rows that may date a record, the likeliest first."""
    values: dict[str, list[Any]] = {}
    for row in rows:
        for name, value in _leaves(row):
            values.setdefault(name, []).append(value)
    found = [
        candidate
        for name, of_name in values.items()
        if 2 * len(of_name) >= len(rows) and (candidate := _candidate(name, of_name[0]))
    ]
    return sorted(found, key=lambda candidate: candidate.rank)[:_MAX_FIELDS]


def _leaves(value: Row, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name, inner in value.items():
        if "." in name or not name or inner is None:
            continue  # such a name needs another separator
        if isinstance(inner, Mapping):
            if len(path) + 1 < _MAX_DEPTH:
                yield from _leaves(inner, (*path, name))
        else:
            yield ".".join((*path, name)), inner


def _candidate(name: str, value: Any) -> _Candidate | None:
    """A field by its name and one of its values; None if this is no time by its kind."""
    is_text = isinstance(value, str | datetime)
    is_number = (isinstance(value, str) and value.isdecimal() and len(value) >= 10) or (
        isinstance(value, int | float) and not isinstance(value, bool) and value > _SINCE_2001
    )
    format_ = next((f for f in _FORMATS if _has_format(value, f)), "")
    looks_iso = is_text and re.match(r"\d{4}-?\d{2}|\d{4}-W", str(value))
    if not (is_number or format_ or looks_iso):
        return None
    *before, last = _words(name) or [""]
    is_named = last in _TIME_WORDS or last.endswith(("time", "date", "stamp"))
    if is_named:
        tier = _Tier.ANOTHER_TIME if _OTHER_TIMES & {*before, last} else _Tier.TIME
    else:
        tier = _Tier.NUMBER if is_number else _Tier.TEXT
    far = _FAR_NUMBER if tier is _Tier.NUMBER else _FAR
    return _Candidate(name, tier, is_number=is_number, far=far, format=format_)


def _words(name: str) -> list[str]:
    """The words in a name, without units at its end."""
    found = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name.rpartition(".")[2])
    words = [word.lower() for word in found]
    while len(words) > 1 and words[-1] in _UNITS:
        words.pop()
    return words


def _has_format(value: Any, format_: str) -> bool:
    if not isinstance(value, str) or (value.isdecimal() and len(value) != len(_DIGITS_OF_TIME)):
        return False  # strptime reads fewer digits, too
    try:
        return bool(datetime.strptime(value, format_))  # noqa: DTZ007  # only whether it parses
    except ValueError:
        return False
