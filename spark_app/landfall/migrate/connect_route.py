"""Connect's partitioners: ``route`` and ``decode.timestamp``."""

import re
from collections.abc import Callable, Mapping

from landfall.api.route_pattern import MINUTE_STEPS
from landfall.migrate.dates import JODA, directives
from landfall.migrate.draft import Draft

PARTITIONER = "partitioner.class"
PATH = "path.format"
DURATION = "partition.duration.ms"
EXTRACTOR = "timestamp.extractor"
FIELD = "timestamp.field"
ZONE = "timezone"
_MINUTE, _HOUR, _DAY = 60_000, 3_600_000, 86_400_000
_UNITS = (("%M", _MINUTE), ("%H", _HOUR), ("%d", _DAY), ("%j", _DAY))
"""Directives from the finest on, with the milliseconds of their unit."""


def take_route(draft: Draft) -> None:
    """Set ``route`` and what dates records."""
    name = draft.settings.text(PARTITIONER).rpartition(".")[2]
    take = PARTITIONERS.get(name)
    if take is None:
        why = "a partitioner of your own is not taken: set route.pattern"
        draft.refuse(PARTITIONER, why)
        return
    take(draft)


def _default(draft: Draft) -> None:
    pattern = "partition={kafka_partition}"
    draft.put("route.pattern", pattern, PARTITIONER, default="the connector's default")


def _by_field(draft: Draft) -> None:
    key = "partition.field.name"
    names = [name.strip() for name in draft.settings.text(key).split(",") if name.strip()]
    above = "payload." if _has_envelope(draft) else ""
    folders = [f"{name}={{field:{above}{name}}}" for name in names]
    if not folders:
        draft.refuse(PARTITIONER, f"{key} is not given")
        return
    draft.put("route.pattern", "/".join(folders), key, PARTITIONER)


def _by_day(draft: Draft) -> None:
    _by_time(draft, "'year'=YYYY/'month'=MM/'day'=dd", _DAY)


def _by_hour(draft: Draft) -> None:
    _by_time(draft, "'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH", _HOUR)


def _by_own_path(draft: Draft) -> None:
    settings = draft.settings
    duration = settings.text(DURATION)
    if not settings.has(PATH) or not duration.isdigit() or not int(duration):
        draft.refuse(PARTITIONER, f"{PATH} and {DURATION} are not given: set route.pattern")
        return
    _by_time(draft, settings.text(PATH), int(duration))


PARTITIONERS: Mapping[str, Callable[[Draft], None]] = {
    "DefaultPartitioner": _default,
    "FieldPartitioner": _by_field,
    "DailyPartitioner": _by_day,
    "HourlyPartitioner": _by_hour,
    "TimeBasedPartitioner": _by_own_path,
}


def _by_time(draft: Draft, path: str, duration: int) -> None:
    keys = (PATH, DURATION) if path == draft.settings.text(PATH) else ()
    try:
        pattern = _rounded(directives(path, JODA), duration)
    except ValueError as error:
        for key in keys or (PARTITIONER,):
            draft.refuse(key, f"{error}: set route.pattern")
        return
    draft.put("route.pattern", pattern.strip("/"), PARTITIONER, *keys)
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
        why = "a number is milliseconds to the connector; here its magnitude tells its unit"
        draft.put("decode.timestamp.field", path, FIELD, EXTRACTOR, why=why)
    elif kind == "Record":
        draft.take(EXTRACTOR, "decode.timestamp", "Kafka's timestamp dates records")
    else:
        clock = kind == "Wallclock"
        what = "it goes by the wall clock" if clock else "an extractor of your own is not taken"
        draft.refuse(EXTRACTOR, f"{what}; here the date is that of Kafka's timestamp")


def _has_envelope(draft: Draft) -> bool:
    """Whether fields are below ``payload``: of ``JsonConverter`` with its schemas."""
    is_json = draft.spec["decode"]["format"] == "Json"
    return is_json and draft.settings.flag("value.converter.schemas.enable")
