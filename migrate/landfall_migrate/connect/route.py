"""Connect's partitioners: ``route`` and ``decode.timestamp``."""

import re
from collections.abc import Callable, Mapping

from landfall.api.route_pattern import MINUTE_STEPS
from landfall_migrate.connect.files import CONVERTER
from landfall_migrate.dates import JODA, directives
from landfall_migrate.draft import SET_ME, Draft, path_of

PARTITIONER = "partitioner.class"
PATH = "path.format"
DURATION = "partition.duration.ms"
EXTRACTOR = "timestamp.extractor"
FIELD = "timestamp.field"
FIELDS = "partition.field.name"
LABELS = "partition.field.format.path"
ZONE = "timezone"
_MINUTE, _HOUR, _DAY = 60_000, 3_600_000, 86_400_000
OF_PARTITIONERS = (PATH, DURATION, FIELDS, LABELS, ZONE, EXTRACTOR)
"""Keys that decide folders, each with some partitioners."""
_PATTERN = path_of("route.pattern")
_OPEN = "it decides folders, and goes with partitioner.class, which is not taken: set route"
_UNITS = (("%M", _MINUTE), ("%H", _HOUR), ("%d", _DAY), ("%j", _DAY))
"""Directives from the finest on, with the milliseconds of their unit."""


def take_route(draft: Draft) -> None:
    """Set ``route`` and the field or timestamp that dates records."""
    name = draft.settings.text(PARTITIONER).rpartition(".")[2]
    take = PARTITIONERS.get(name)
    if take is None:
        _leave_open(draft, "a partitioner of your own is not taken")
    else:
        take(draft)
    if _PATTERN in draft.undecided:
        draft.refuse_given(OF_PARTITIONERS, _OPEN)
    for key in OF_PARTITIONERS:
        if not draft.claimed(key):
            draft.drop(key, f"{name} does not read it")
    if not draft.claimed(FIELD):
        draft.drop(FIELD, "only the extractor RecordField reads it")


def _leave_open(draft: Draft, why: str, *keys: str) -> None:
    """Leave the route to the user, as these keys do not decide it."""
    for key in (PARTITIONER, *keys):
        draft.refuse(key, f"{why}: set route.pattern")
    first = keys[0] if keys else PARTITIONER
    draft.leave_open("route.pattern", f"{first}: {why}", f"{{{SET_ME}}}")


def _default(draft: Draft) -> None:
    pattern = "partition={kafka_partition}"
    draft.put("route.pattern", pattern, PARTITIONER, default="the connector's default")


def _by_field(draft: Draft) -> None:
    folders = _folders(draft)
    if folders:
        draft.put("route.pattern", folders, FIELDS, PARTITIONER)
    else:
        _leave_open(draft, f"{FIELDS} is not given")


def _by_field_and_time(draft: Draft) -> None:
    """The partitioner of github.com/canelmas, which many deployments have."""
    folders = _folders(draft, has_names=draft.settings.text(LABELS).lower() != "false")
    if folders:
        _by_own_path(draft, f"{folders}/", FIELDS, LABELS)
    else:
        _leave_open(draft, f"{FIELDS} is not given")


def _folders(draft: Draft, *, has_names: bool = True) -> str:
    """The folders of the fields that ``partition.field.name`` names."""
    names = [name.strip() for name in draft.settings.text(FIELDS).split(",") if name.strip()]
    above = "payload." if _has_envelope(draft) else ""
    folders = [f"{name}=" * has_names + f"{{field:{above}{name}}}" for name in names]
    return "/".join(folders)


def _by_day(draft: Draft) -> None:
    _by_time(draft, "'year'=YYYY/'month'=MM/'day'=dd", _DAY)


def _by_hour(draft: Draft) -> None:
    _by_time(draft, "'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH", _HOUR)


def _by_own_path(draft: Draft, above: str = "", *keys: str) -> None:
    settings = draft.settings
    duration = settings.text(DURATION)
    if not settings.has(PATH):
        _leave_open(draft, f"{PATH} is not given")
        return
    if not duration.isdigit() or not int(duration):
        why = "the connector needs one; here folders follow"
        draft.missing.append(f"{DURATION} is not given; {why} {PATH}")
        duration = "1"
    _by_time(draft, settings.text(PATH), int(duration), above, *keys)


PARTITIONERS: Mapping[str, Callable[[Draft], None]] = {
    "DefaultPartitioner": _default,
    "FieldPartitioner": _by_field,
    "DailyPartitioner": _by_day,
    "HourlyPartitioner": _by_hour,
    "TimeBasedPartitioner": _by_own_path,
    "FieldAndTimeBasedPartitioner": _by_field_and_time,
}


def _by_time(draft: Draft, path: str, duration: int, above: str = "", *more: str) -> None:
    keys = (PATH, DURATION) if path == draft.settings.text(PATH) else ()
    try:
        pattern = _rounded(directives(path, JODA), duration)
    except ValueError as error:
        _leave_open(draft, str(error), *keys)
        return
    draft.put("route.pattern", above + pattern.strip("/"), PARTITIONER, *keys, *more)
    zone = draft.settings.text(ZONE)
    if zone:
        draft.put("route.timezone", zone, ZONE)
    _take_extractor(draft)


def _rounded(pattern: str, duration: int) -> str:
    """The pattern, whose finest unit is rounded to the duration.

    Raises:
        ValueError: it has a finer unit than the duration, which no placeholder rounds.
    """
    unit, finest = next(((d, ms) for d, ms in _UNITS if d in pattern), ("", _DAY))
    minutes = duration // _MINUTE
    if duration <= finest:
        return pattern
    if unit == "%M" and duration % _MINUTE == 0 and minutes in MINUTE_STEPS:
        return pattern.replace("%M", f"{{minute:{minutes}}}")
    raise ValueError(f"folders of {duration} ms with a finer unit in their path")


def _take_extractor(draft: Draft) -> None:
    settings = draft.settings
    name = re.sub(r"TimestampExtractor$", "", settings.text(EXTRACTOR).rpartition(".")[2])
    kind = name.rpartition("$")[2]
    if kind == "RecordField":
        field = settings.text(FIELD)
        envelope = _has_envelope(draft)
        path = f"payload.{field}" if envelope else field
        why = "a number is milliseconds to the connector; here its magnitude decides its unit"
        draft.put("decode.timestamp.field", path, FIELD, EXTRACTOR, why=why)
    elif kind == "Record":
        draft.take(EXTRACTOR, "decode.timestamp", "Kafka's timestamp dates records")
    else:
        clock = kind == "Wallclock"
        what = "it goes by the wall clock" if clock else "an extractor of your own is not taken"
        draft.refuse(EXTRACTOR, f"{what}; here the date comes from Kafka's timestamp")


def _has_envelope(draft: Draft) -> bool:
    """Return whether fields are below ``payload``, as with ``JsonConverter`` and its schemas."""
    is_json = draft.settings.text(CONVERTER).endswith("JsonConverter")
    return is_json and draft.settings.flag("value.converter.schemas.enable")
