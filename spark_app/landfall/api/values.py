"""Value types of the spec's fields: quantities, durations, patterns, time zones, settings.

Each parses what a user writes in YAML and rejects anything else with a message that shows a valid
example. For any input the only error raised is ``ValueError``, which pydantic reports with the
field's path.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Annotated, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainSerializer,
)
from pydantic.json_schema import JsonSchemaValue

from landfall.api.words import did_you_mean

_DECIMAL = {"": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_MILLISECONDS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_MILLISECOND = timedelta(milliseconds=1)
_TIMES = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


_QUANTITY_UNITS: Mapping[str, str] = {
    **{f"{unit}b": unit for unit in ("k", "m", "g", "t", "p", "ki", "mi", "gi", "ti", "pi")},
    "b": "",
    "kilobytes": "k",
    "megabytes": "M",
    "gigabytes": "G",
}
_DURATION_UNITS: Mapping[str, str] = {
    **dict.fromkeys(("sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), "m"),
    **dict.fromkeys(("hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("day", "days"), "d"),
}


def _in_units(text: str, units: Mapping[str, str]) -> str:
    """``, did you mean 5m?`` if the unit is a common variant of ours, else nothing."""
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,9})?) ?([A-Za-z]+)", text, re.ASCII)
    if match is None or match[2].lower() not in units:
        return ""
    unit = units[match[2].lower()]
    proper = unit if unit == "k" or units is _DURATION_UNITS else unit[:1].upper() + unit[1:]
    return f", did you mean {match[1]}{proper}?"


def quantity(text: object) -> int:
    """Bytes from a Kubernetes quantity: ``256Mi``, ``1.5G``, ``1e9`` or a number; rounded down.

    Raises:
        ValueError: the text is not a quantity.
    """
    match = re.fullmatch(
        r"(\d{1,30}(?:\.\d{1,9})?(?:[eE]\d{1,2})?)(k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|)",
        str(text),
        re.ASCII,
    )
    if not match:
        meant = _in_units(str(text), _QUANTITY_UNITS)
        raise ValueError(f"not a quantity such as 256Mi or 1G: {text!r}{meant}")
    number, unit = Fraction(match[1]), match[2]
    return int(number * 2 ** _BINARY[unit] if unit in _BINARY else number * 10 ** _DECIMAL[unit])


def duration(text: object) -> timedelta:
    """A duration from text such as ``90s``, ``5m``, ``1h30m`` or ``500ms``.

    Raises:
        ValueError: the text is not a duration, is finer than a millisecond, or exceeds a thousand
            years.
    """
    if isinstance(text, timedelta):
        return _whole_milliseconds(text)
    if not re.fullmatch(r"(\d{1,15}(\.\d{1,9})?(ms|s|m|h|d))+", str(text), re.ASCII):
        meant = _in_units(str(text), _DURATION_UNITS)
        raise ValueError(f"not a duration such as 90s, 5m or 1h30m: {text!r}{meant}")
    terms = re.findall(r"([\d.]+)(ms|s|m|h|d)", str(text))
    milliseconds = sum(Fraction(number) * _MILLISECONDS[unit] for number, unit in terms)
    if milliseconds % 1 or milliseconds > 365_000 * _MILLISECONDS["d"]:
        raise ValueError(f"not a duration in whole milliseconds, up to 365000d: {text!r}")
    return timedelta(milliseconds=int(milliseconds))


def format_quantity(value: int) -> str:
    """Bytes as users write them, such as ``256Mi``."""
    units = sorted(_BINARY.items(), key=lambda unit: -unit[1])
    exact = (f"{value >> power}{unit}" for unit, power in units if not value % (1 << power))
    return next(exact, str(value)) if value else "0"


def format_duration(value: timedelta) -> str:
    """The duration as text that ``duration`` parses to the same value."""
    milliseconds = value // _MILLISECOND
    return f"{milliseconds}ms" if milliseconds % 1000 else f"{milliseconds // 1000}s"


def duration_text(value: timedelta) -> str:
    """The duration in the largest unit that divides it, such as ``5m`` or ``90s``."""
    milliseconds = value // _MILLISECOND
    units = sorted(_MILLISECONDS.items(), key=lambda unit: -unit[1])
    return next(f"{milliseconds // size}{unit}" for unit, size in units if not milliseconds % size)


def _whole_milliseconds(value: timedelta) -> timedelta:
    if value % _MILLISECOND:
        raise ValueError(f"not a duration in whole milliseconds: {value}")
    return value


def _positive(value: timedelta) -> timedelta:
    if value <= timedelta(0):
        raise ValueError("must be longer than zero")
    return value


def _not_negative(value: timedelta) -> timedelta:
    if value < timedelta(0):
        raise ValueError("must not be negative")
    return value


MAX_PATTERN_LENGTH = 4096
MAX_WIDE_RANGES = 20
_WIDE_RANGE = re.compile(r"-(?:\\?[^\x00-\xff]|\\[uUN])")
"""In a regular expression, the end of a range of characters that ends beyond Latin-1."""


def _pattern(text: str) -> str:
    # Compiling must be quick, too: the operator of all tenants compiles every spec. A wide range
    # takes milliseconds, because Python looks at each of its characters.
    if len(text) > MAX_PATTERN_LENGTH:
        raise ValueError(
            f"a regular expression has at most {MAX_PATTERN_LENGTH} characters, got {len(text)}"
        )
    if len(_WIDE_RANGE.findall(text)) > MAX_WIDE_RANGES:
        raise ValueError(
            f"a regular expression has at most {MAX_WIDE_RANGES} ranges of characters that end "
            "beyond Latin-1"
        )
    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"not a regular expression: {text!r}: {error}") from error
    return text


def _zone(text: str) -> str:
    try:
        ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"not an IANA time zone such as Europe/Berlin: {text!r}") from error
    return text


def _aware(value: datetime) -> datetime:
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def _strptime(text: str) -> str:
    """The format itself, if ``strptime`` can parse the output of ``strftime``."""
    if "%" not in text:
        raise ValueError(f"not a strptime format such as %Y-%m-%d: {text!r}")
    moment = datetime(2013, 1, 2, 3, 4, 5, tzinfo=UTC)
    try:
        datetime.strptime(moment.strftime(text), text)  # noqa: DTZ007  # only whether it parses
    except ValueError as error:
        raise ValueError(f"not a strptime format such as %Y-%m-%d: {text!r}: {error}") from error
    return text


def _ratio(value: object) -> float:
    try:
        ratio = (
            float(value)
            if isinstance(value, str | int | float) and not isinstance(value, bool)
            else -1
        )
    except ValueError:
        ratio = -1
    if not 0 <= ratio <= 1:
        raise ValueError(f"must be a number from 0 to 1, got {value!r}")
    return ratio


def percent(value: object) -> float:
    """A share from 0 to 1 from text such as ``10%`` or ``0.5%``.

    Raises:
        ValueError: the text is not a percentage from 0% to 100%.
    """
    if isinstance(value, float) and 0 <= value <= 1:
        return value
    match = re.fullmatch(r"(\d{1,3}(?:\.\d{1,9})?)%", str(value), re.ASCII)
    if not match or Fraction(match[1]) > 100:
        raise ValueError(f"must be a percentage from 0% to 100%, such as 10%, got {value!r}")
    return float(Fraction(match[1]) / 100)


def percent_text(share: float) -> str:
    """A share as text that ``percent`` parses to the same value, such as ``10%``."""
    return f"{round(share * 100, 9):.9f}".rstrip("0").rstrip(".") + "%"


def _scalar(value: object) -> object:
    if value is not None and not isinstance(value, str | int | float | bool):
        raise ValueError("must be text, a number, true, false or null")
    return value


def _scalar_or_list(value: object) -> object:
    if isinstance(value, list | tuple):
        return [_scalar(item) for item in value]
    return _scalar(value)


def _scalar_list_or_map(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(name): _scalar(item) for name, item in value.items()}
    return _scalar_or_list(value)


@dataclass(frozen=True, slots=True)
class Matching:
    """A pattern the whole text must match, and the description that an error message gives instead.

    Both are also written to the JSON schema, from which the CRD is made. The API server is written
    in Go, so a pattern must have the same meaning in Go's RE2 as in Python.
    """

    pattern: str
    described: str
    words: tuple[str, ...] = ()

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> Any:
        """Check the pattern after the type's own validation."""
        return AfterValidator(self._check).__get_pydantic_core_schema__(source, handler)

    def __get_pydantic_json_schema__(
        self, schema: Any, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Add the pattern and its description to the JSON schema."""
        return {**handler(schema), "pattern": f"^(?:{self.pattern})$", "described": self.described}

    def _check(self, text: str) -> str:
        if not re.fullmatch(self.pattern, text):
            raise ValueError(
                f"must be {self.described}, got {text!r}{did_you_mean(text, self.words)}"
            )
        return text


def matching(pattern: str, described: str) -> Matching:
    """Annotation for text that must match; error messages read "must be ``described``"."""
    return Matching(pattern, described)


def built_in(*words: str) -> Matching:
    """Annotation for one of some built-in names, or the import path of a class of the user's."""
    own = r"[\w.]+:\w+"
    described = f"{', '.join(words)}, or package.module:Name for one of your own"
    return Matching("|".join((*words, own)), described, words)


Name = Annotated[str, Field(min_length=1)]
MAX_GROUP_NAME = 40
GROUP_NAME = rf"[a-z]([-a-z0-9]{{0,{MAX_GROUP_NAME - 2}}}[a-z0-9])?"
GROUP_NAME_FORM = (
    f"at most {MAX_GROUP_NAME} lowercase letters, digits and hyphens, "
    "start with a letter and not end with a hyphen"
)
"""The form of a group's name: pods and Services are named after it, and with suffixes their names
must fit into 63 characters.
"""
GroupName = Annotated[str, matching(GROUP_NAME, GROUP_NAME_FORM)]
DnsName = Annotated[
    str,
    matching(
        r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?", "lower case letters, digits, - and . (63 at most)"
    ),
]
Bytes = Annotated[
    int, BeforeValidator(quantity), Field(gt=0, json_schema_extra={"format": "bytes"})
]
Duration = Annotated[
    timedelta,
    BeforeValidator(duration),
    AfterValidator(_positive),
    PlainSerializer(format_duration),
]
DurationOrZero = Annotated[
    timedelta,
    BeforeValidator(duration),
    AfterValidator(_not_negative),
    PlainSerializer(format_duration),
    Field(json_schema_extra={"format": "duration-or-zero"}),
]
Pattern = Annotated[str, AfterValidator(_pattern)]
TimeZone = Annotated[str, AfterValidator(_zone)]
Instant = Annotated[datetime, AfterValidator(_aware)]
TimeFormat = Annotated[str, AfterValidator(_strptime)]
Ratio = Annotated[float, BeforeValidator(_ratio), Field(json_schema_extra={"format": "ratio"})]
Percent = Annotated[
    float,
    BeforeValidator(percent),
    PlainSerializer(percent_text),
    Field(json_schema_extra={"format": "percent"}),
]
Scalar = str | int | float | bool | None
Setting = Annotated[Scalar, BeforeValidator(_scalar)]
Settings = Annotated[Scalar | list[Scalar], BeforeValidator(_scalar_or_list)]
MappedSettings = Annotated[
    Scalar | list[Scalar] | dict[str, Scalar], BeforeValidator(_scalar_list_or_map)
]


def time_text(seconds: int) -> str:
    """A duration such as ``41s``, ``5m`` or ``1h30m``: its two largest units, without zeros."""
    parts: list[str] = []
    rest = max(0, seconds)
    for size, unit in _TIMES:
        if rest >= size or (unit == "s" and not parts):
            parts.append(f"{rest // size}{unit}")
            rest %= size
        elif parts:
            break
    return "".join(parts[:2])


def plural(count: int, noun: str) -> str:
    """A count with its noun: ``1 topic partition``, ``3 topic partitions``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
